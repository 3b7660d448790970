"""Stage 2: rows of state that somebody asks for -> the batch to read, or why there is none.

Spark takes half a minute to refuse what it cannot read, and says it in words of its own. The names
in a checkpoint tell the same at once:

    rows      a committed batch, its offset entry, and in every partition a snapshot and every
              change after it
    changes   of each batch the changes themselves, in every partition
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
    """What somebody wants to see; `changes` are the first and the last batch."""

    location: str
    operator: int
    batch: int | None
    changes: tuple[int, int] | None

    def again(self, *options: str) -> str:
        """A command that asks for something else of the same operator."""
        said = ["holdfast", "state", self.location, "--operator", str(self.operator), *options]
        return f"`{shlex.join(said)}`"


def require_listed(asked: StateRequest, tree: CheckpointTree) -> None:
    """Raise where something is hidden: what is left would be shown as if it were all."""
    own = f"state/{asked.operator}"
    hidden = [one for folder in ("offsets", "commits", own) for one in tree.refused_in(folder)]
    hidden = [one for one in hidden if one.forbidden or one.path in ("offsets", "commits", own)]
    hidden += [one for one in tree.refused if one.path == "state"]
    if hidden:
        raise LocationForbidden(
            f"expected to read the state in `{asked.location}`, found `{hidden[0].path}`:"
            f" {hidden[0].reason}",
            hint=OTHER_USER,
        )


def require_schema(asked: StateRequest, tree: CheckpointTree) -> None:
    """Raise where nothing tells the columns of the state: Spark can read the rows of no batch."""
    if FileKind.STATE_SCHEMA in tree.amounts:
        return
    told = shlex.join(["holdfast", "inspect", asked.location])
    raise StateUnreadable(
        f"expected the schema of the state in `state/{asked.operator}`, found none: before Spark"
        " 3.1 none is kept, and its rows cannot be read",
        hint=f"see how much there is of it: `{told}`",
    )


def find_operator(asked: StateRequest, operators: tuple[OperatorEvidence, ...]) -> OperatorEvidence:
    """The operator that is asked for."""
    for one in operators:
        if one.operator == asked.operator:
            return one
    there = ", ".join(str(one.operator) for one in operators) or "none"
    raise StateUnreadable(
        f"expected state of operator {asked.operator} in `{asked.location}`, found operators:"
        f" {there}",
        hint=f"see which there are: `{shlex.join(['holdfast', 'inspect', asked.location])}`",
    )


def choose_batch(asked: StateRequest, tree: CheckpointTree, seen: OperatorEvidence) -> int:
    """The batch whose state is read; of changes, the last."""
    if asked.changes is not None:
        return _choose_changes(asked, asked.changes, tree, seen)
    there = _select_committed(tree, () if isinstance(seen.restorable, Unknown) else seen.restorable)
    wanted = tree.commits.ids.last if asked.batch is None else asked.batch
    if wanted is None or not spans_contain(there, wanted):
        found = "no committed batch" if wanted is None else f"batch {wanted}"
        raise StateUnreadable(
            f"expected a batch whose state is there, found {found}{_explain_missing(tree, wanted)};"
            f" there are: {words.format_spans(there)}{_describe_absent(seen)}",
            hint=_suggest(asked, there),
        )
    return wanted


def _choose_changes(
    asked: StateRequest, wanted: tuple[int, int], tree: CheckpointTree, seen: OperatorEvidence
) -> int:
    if isinstance(seen.name, Known) and seen.name.value == _JOIN:
        raise StateUnreadable(
            f"expected an operator whose changes Spark can read, found a join (operator"
            f" {asked.operator}), of which it reads rows only",
            hint=asked.again("--batch", str(wanted[1])),
        )
    # Of all partitions, also those that a repartition left: Spark up to 4.1 reads every folder.
    stores = [store for key, store in tree.stores.items() if key[0] == asked.operator]
    there = () if seen.absent else spans.intersect([tuple(store.changes) for store in stores])
    there = _select_committed(tree, _to_batches(there))
    first, last = wanted
    if any(one.first <= first and last <= one.last for one in there):
        return last
    if not any(store.changes for store in stores) and any(store.snapshots for store in stores):
        raise StateUnreadable(
            f"expected the changes of batches {first} to {last}, found snapshots only: changes are"
            " kept by the HDFS-backed state store, and by RocksDB with its changelog",
            hint=f"see the rows after a batch: {asked.again('--batch', str(last))}",
        )
    newest = (str(there[-1].first), str(there[-1].last)) if there else None
    raise StateUnreadable(
        f"expected batches whose changes are there, found {first} to {last}"
        f"{_explain_missing(tree, last)}; there are:"
        f" {words.format_spans(there)}{_describe_absent(seen)}",
        hint=f"see {asked.again('--changes', ':'.join(newest))}"
        if newest
        else _suggest(asked, there),
    )


def _describe_absent(seen: OperatorEvidence) -> str:
    """Which part of the state is not there at all."""
    if not seen.absent:
        return ""
    more = f" and {len(seen.absent) - 1:,} more" if len(seen.absent) > 1 else ""
    return (
        f", as no files are in `{state.format_store_folder(seen.operator, *seen.absent[0])}`{more}"
    )


def _to_batches(versions: tuple[Span, ...]) -> tuple[Span, ...]:
    """Versions of state as batches: a version is a batch id plus one."""
    return tuple(Span(first=one.first - 1, last=one.last - 1) for one in versions)


def _select_committed(tree: CheckpointTree, batches: tuple[Span, ...]) -> tuple[Span, ...]:
    """Those that have a commit, and an offset entry, which names their settings."""
    return spans.intersect([batches, tuple(tree.offsets.ids), tuple(tree.commits.ids)])


def _explain_missing(tree: CheckpointTree, wanted: int | None) -> str:
    """Why a batch has no state, as far as the logs tell."""
    planned, committed = tree.offsets.ids.last, tree.commits.ids.last
    if wanted is None or (committed is not None and wanted <= committed):
        return ""
    if planned is not None and wanted <= planned:
        return ", which is planned and not committed"
    return ", which is not there yet"


def _suggest(asked: StateRequest, there: tuple[Span, ...]) -> str:
    if not there:
        told = shlex.join(["holdfast", "diagnose", asked.location])
        return f"see what has become of the state: `{told}`"
    return f"see {asked.again('--batch', str(there[-1].last))}"
