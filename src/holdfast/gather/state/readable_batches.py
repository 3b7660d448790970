"""A request for state -> the batch to read, or an error that says why it cannot be read.

Spark takes half a minute to refuse what it cannot read, with an error that is hard to understand.
The file names in a checkpoint show the same at once. What must exist:

    rows      a committed batch, its offset entry, and in every partition a snapshot and every
              change after it
    changes   the changes of each batch, in every partition
    both      the schema of the state, which Spark 3.1 and later keep
"""

import shlex
from dataclasses import dataclass

from holdfast.errors import LocationForbidden, StateUnreadable
from holdfast.gather.inventory import spans
from holdfast.gather.inventory.read import OTHER_USER
from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.model import state
from holdfast.model.checkpoint import FileKind
from holdfast.model.fact import Known, Unknown
from holdfast.model.ids import Span, spans_contain
from holdfast.model.state import OperatorEvidence
from holdfast.report import words

_JOIN = "symmetricHashJoin"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRequest:
    """The state that the user wants to see; `changes` are the first and the last batch."""

    location: str
    operator: int
    batch: int | None
    changes: tuple[int, int] | None

    def format_command(self, *options: str) -> str:
        """Return a command for the same operator with different options."""
        command = ["holdfast", "state", self.location, "--operator", str(self.operator), *options]
        return f"`{shlex.join(command)}`"


def require_listed(request: StateRequest, tree: CheckpointTree) -> None:
    """Raise if a part of the state is hidden, because the rest would look like everything."""
    folders = ("offsets", "commits", f"state/{request.operator}")
    refused = [file for folder in folders for file in tree.find_refused(folder)]
    hidden = [file for file in refused if file.forbidden or file.path in folders]
    hidden += [file for file in tree.refused if file.path == "state"]
    if hidden:
        raise LocationForbidden(
            f"cannot read the state in `{request.location}`: `{hidden[0].path}`:"
            f" {hidden[0].reason}",
            hint=OTHER_USER,
        )


def require_schema(request: StateRequest, tree: CheckpointTree) -> None:
    """Raise if the state has no schema: without it Spark cannot read the rows of any batch."""
    if FileKind.STATE_SCHEMA in tree.amounts:
        return
    inspect = shlex.join(["holdfast", "inspect", request.location])
    raise StateUnreadable(
        f"the rows in `state/{request.operator}` cannot be read: the state has no schema, which"
        " Spark keeps only from 3.1 on",
        hint=f"see how large the state is: `{inspect}`",
    )


def find_operator(
    request: StateRequest, operators: tuple[OperatorEvidence, ...]
) -> OperatorEvidence:
    """Return the requested operator; raise if it has no state."""
    for operator in operators:
        if operator.operator == request.operator:
            return operator
    existing = ", ".join(str(operator.operator) for operator in operators) or "none"
    raise StateUnreadable(
        f"`{request.location}` has no state of operator {request.operator}; operators with state:"
        f" {existing}",
        hint=f"see the operators: `{shlex.join(['holdfast', 'inspect', request.location])}`",
    )


def choose_batch(request: StateRequest, tree: CheckpointTree, operator: OperatorEvidence) -> int:
    """Return the batch whose state is read; for changes, the last batch."""
    if request.changes is not None:
        return _choose_changes(request, request.changes, tree, operator)
    restorable = () if isinstance(operator.restorable, Unknown) else operator.restorable
    readable = _select_committed(tree, restorable)
    wanted = tree.commits.ids.last if request.batch is None else request.batch
    if wanted is None or not spans_contain(readable, wanted):
        missing = (
            "no batch is committed, so there is no state to read"
            if wanted is None
            else f"the state of batch {wanted} cannot be read{_explain_missing(tree, wanted)}"
        )
        raise StateUnreadable(
            f"{missing}; readable batches: {words.format_spans(readable)}"
            f"{_describe_absent(operator)}",
            hint=_suggest(request, readable),
        )
    return wanted


def _choose_changes(
    request: StateRequest, wanted: tuple[int, int], tree: CheckpointTree, operator: OperatorEvidence
) -> int:
    if isinstance(operator.name, Known) and operator.name.value == _JOIN:
        raise StateUnreadable(
            f"Spark cannot read the changes of a join (operator {request.operator}), only its rows",
            hint=request.format_command("--batch", str(wanted[1])),
        )
    # All partitions count, even those left over by a repartition: Spark up to 4.1 reads all.
    stores = [store for key, store in tree.stores.items() if key[0] == request.operator]
    versions = (
        () if operator.absent else spans.intersect([tuple(store.changes) for store in stores])
    )
    readable = _select_committed(tree, _to_batches(versions))
    first, last = wanted
    if any(span.first <= first and last <= span.last for span in readable):
        return last
    if not any(store.changes for store in stores) and any(store.snapshots for store in stores):
        raise StateUnreadable(
            f"the changes of batches {first} to {last} were not kept, only snapshots: changes are"
            " kept by the HDFS-backed state store, and by RocksDB with its changelog",
            hint=f"see the rows after a batch: {request.format_command('--batch', str(last))}",
        )
    newest = f"{readable[-1].first}:{readable[-1].last}" if readable else ""
    raise StateUnreadable(
        f"the changes of batches {first} to {last} cannot be read{_explain_missing(tree, last)};"
        f" readable batches: {words.format_spans(readable)}{_describe_absent(operator)}",
        hint=f"run {request.format_command('--changes', newest)}"
        if newest
        else _suggest(request, readable),
    )


def _describe_absent(operator: OperatorEvidence) -> str:
    """Return which part of the state has no files at all; empty if every part has some."""
    if not operator.absent:
        return ""
    more = f" and {len(operator.absent) - 1:,} more" if len(operator.absent) > 1 else ""
    folder = state.format_store_folder(operator.operator, *operator.absent[0])
    return f", because `{folder}`{more} has no files"


def _to_batches(versions: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return versions of state as batches: a version is a batch id plus one."""
    return tuple(Span(first=span.first - 1, last=span.last - 1) for span in versions)


def _select_committed(tree: CheckpointTree, batches: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return the batches that have a commit, and an offset entry, which has their settings."""
    return spans.intersect([batches, tuple(tree.offsets.ids), tuple(tree.commits.ids)])


def _explain_missing(tree: CheckpointTree, wanted: int | None) -> str:
    """Return why a batch has no state, as far as the logs show it."""
    planned, committed = tree.offsets.ids.last, tree.commits.ids.last
    if wanted is None or (committed is not None and wanted <= committed):
        return ""
    if planned is not None and wanted <= planned:
        return f", because batch {wanted} is planned but not committed"
    return f", because batch {wanted} has not run yet"


def _suggest(request: StateRequest, readable: tuple[Span, ...]) -> str:
    if not readable:
        diagnose = shlex.join(["holdfast", "diagnose", request.location])
        return f"find out what happened to the state: `{diagnose}`"
    return f"run {request.format_command('--batch', str(readable[-1].last))}"
