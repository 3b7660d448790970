"""Can the state be loaded?"""

from collections.abc import Iterator

from holdfast.model import advice, state
from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId
from holdfast.model.restart import StateLoad
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import state_load

_MOST_LISTED = 5
_V4_0 = SparkVersion(4, 0)
_RESTORE = "restore the folder `state` from a copy of the checkpoint"


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield state that is missing or damaged, and state that this Spark cannot read."""
    evidence = given.evidence
    yield from _find_missing(given)
    yield from _find_not_needed(given)
    yield from _find_refused(given)
    if any(state_load.may_have_state(operator) for operator in evidence.operators):
        yield NotAssessed(
            question="whether the contents of the state files are whole",
            reason=f"only their names and sizes are checked{_describe_opened(evidence)}",
        )
    elif (
        isinstance(evidence.stateful_operators, Absent)
        and not isinstance(given.restart.batch, Unknown)
        and not evidence.stateless
    ):
        yield NotAssessed(
            question="whether the query has state",
            reason="there is none; a stateful query whose folder `state` is gone looks the same",
        )


def _describe_opened(evidence: Evidence) -> str:
    """Return how many RocksDB snapshots were compared with the files that they name."""
    stores = [store for operator in evidence.operators for store in operator.stores]
    with_snapshot = sum(store.opened or bool(store.snapshots) for store in stores)
    if FileKind.STATE_ZIP not in evidence.files or not with_snapshot:
        return ""
    opened = sum(store.opened for store in stores)
    return f", and in {opened:,} of {with_snapshot:,} stores the files that the snapshot names"


def _find_missing(given: RuleInput) -> Iterator[Finding]:
    evidence = given.evidence
    for load in given.restart.state:
        if _is_misplaced(evidence, load):
            continue  # The files lie at the wrong level, and have a finding of their own.
        if load.missing and load.ended:
            yield _make_outlived_finding(evidence, load)
        elif load.missing and load.never_written and not evidence.misplaced:
            yield _make_added_finding(load)
        elif load.missing and not _may_have_state(evidence, load.operator):
            yield _make_gone_finding(evidence, load)
        elif load.missing:
            yield Finding(
                code=Code.STATE_MISSING,
                severity=Severity.BLOCKS,
                text=f"Batch {load.version} will fail: operator {load.operator} loads version"
                f" {load.version} of its state, and {_format_count(len(load.missing))} cannot"
                " provide it from the files that exist.",
                clues=tuple(
                    _make_clue(evidence, path, load) for path in load.missing[:_MOST_LISTED]
                ),
                remedies=(_RESTORE, *_advise_rerun(given, BatchId(load.version - 1))),
            )


def _is_misplaced(evidence: Evidence, load: StateLoad) -> bool:
    """Return whether everything that an operator lacks lies at a wrong level."""
    misplaced = {partition.belongs for partition in evidence.misplaced}
    lost = {"/".join(store.split("/")[:3]) for store in load.missing}
    return bool(lost) and misplaced.issuperset(lost)


def _make_added_finding(load: StateLoad) -> Finding:
    """Return the finding for a schema without state.

    A start that fails at a new operator leaves this behind.
    """
    own = f"state/{load.operator}"
    return Finding(
        code=Code.STATE_MISSING,
        severity=Severity.BLOCKS,
        text=f"Batch {load.version} will fail: operator {load.operator} has a schema and no state."
        " It was added to a query that had run before, or its state files were deleted.",
        clues=(
            Clue(file=own, expected=f"state up to version {load.version}", found="only a schema"),
        ),
        remedies=(
            (
                f"if the operator was added, move the folder `{own}` out of the checkpoint and"
                " start the query without the operator"
            ),
            "if its files were deleted, restore the folder `state` from a copy of the checkpoint",
        ),
    )


def _format_count(stores: int) -> str:
    return "1 store" if stores == 1 else f"{stores:,} stores"


def _may_have_state(evidence: Evidence, operator: int) -> bool:
    own = [candidate for candidate in evidence.operators if candidate.operator == operator]
    return any(state_load.may_have_state(candidate) for candidate in own)


def _make_gone_finding(evidence: Evidence, load: StateLoad) -> Finding:
    """Return the finding for a deleted folder; a record or another file names the operator."""
    names = evidence.stateful_operators
    source = f", as in `{names.read_from[0]}`" if isinstance(names, Known) else ""
    expected, found = f"the state of an operator{source}", "no such folder"
    for operator in evidence.operators:
        if operator.operator == load.operator and isinstance(operator.name, Unknown):
            expected, found = "the state of an operator", operator.name.reason
    return Finding(
        code=Code.STATE_MISSING,
        severity=Severity.BLOCKS,
        text=f"Batch {load.version} will fail: nothing is left of the state of operator"
        f" {load.operator}, with which the last batch ran.",
        clues=(Clue(file=f"state/{load.operator}", expected=expected, found=found),),
        remedies=(_RESTORE, f"if you have no copy, {advice.NEW_CHECKPOINT}"),
    )


def _make_outlived_finding(evidence: Evidence, load: StateLoad) -> Finding:
    """Return the finding for state that ends in all stores at once, far behind the commits."""
    committed = evidence.batches.last_committed
    return Finding(
        code=Code.STATE_MISSING,
        severity=Severity.UNDEFINED,
        text=f"A restart will fail if the query still has operator {load.operator}, and start if it"
        f" does not: the state of this operator ends at version {load.ended} in every store, but"
        f" batches up to {committed} are committed, and the next batch loads version"
        f" {load.version}.",
        clues=tuple(_make_clue(evidence, path, load) for path in load.missing[:_MOST_LISTED]),
        remedies=(
            "if the operator was taken out of the query, start it: Spark does not load this state",
            f"if not, restore the folder `state` as it was after batch {committed}",
        ),
    )


def _make_clue(evidence: Evidence, store: str, load: StateLoad) -> Clue:
    """Return what a store lacks; the first unreadable file is the best clue."""
    for file in state_load.list_blocking(evidence, load, store):
        return Clue(file=file.path, expected="a file that can be loaded", found=file.reason)
    if _lacks_commit(evidence, load, store):
        expected = f"`commits/{load.version - 1}`, which names the files"
        return Clue(file=store, expected=expected, found="no such commit")
    return Clue(file=store, expected=f"files up to version {load.version}", found="not all")


def _lacks_commit(evidence: Evidence, load: StateLoad, path: str) -> bool:
    """Return whether the files of a store have unique ids that no commit names."""
    named = evidence.batches.last_committed == load.version - 1
    return not named and any(
        store.unique_ids
        for operator in evidence.operators
        for store in operator.stores
        if state.format_store_folder(operator.operator, store.partition, store.store) == path
    )


def _find_not_needed(given: RuleInput) -> Iterator[Finding]:
    """Yield a finding if damaged state files are not needed to load the version."""
    blocked = {path for load in given.restart.state for path in load.missing}
    damaged = [
        file
        for operator in given.evidence.operators
        for store in operator.stores
        if (path := state.format_store_folder(operator.operator, store.partition, store.store))
        not in blocked
        for file in state_load.list_damaged(given.evidence, path)
    ]
    if not damaged or isinstance(given.restart.batch, Unknown):
        return
    count = "1 state file" if len(damaged) == 1 else f"{len(damaged):,} state files"
    yield Finding(
        code=Code.FILE_UNREADABLE,
        severity=Severity.NOTE,
        text=f"{count} cannot be read, but the state can be loaded without"
        f" {'it' if len(damaged) == 1 else 'them'}.",
        clues=tuple(
            Clue(file=file.path, expected="a file that can be loaded", found=file.reason)
            for file in damaged[:_MOST_LISTED]
        ),
        remedies=(),
    )


def _find_refused(given: RuleInput) -> Iterator[Finding]:
    stores = state_load.list_stores_of_4_0(given.evidence)
    if stores and given.restart.starting.spark != _V4_0:
        yield Finding(
            code=Code.STATE_VERSION_UNKNOWN,
            severity=Severity.BLOCKS,
            text="A restart will fail: Spark 4.0 wrote RocksDB's metadata in version 2, which no"
            " other Spark reads.",
            clues=tuple(
                Clue(file=store, expected="metadata of version 1", found="version 2")
                for store in stores[:_MOST_LISTED]
            ),
            remedies=("start the query with Spark 4.0",),
        )


def _advise_rerun(given: RuleInput, batch: BatchId) -> Iterator[str]:
    """Yield how to run the last batch again, if it is committed and its own state exists.

    If a later batch is planned, removing a commit makes nothing run again.
    """
    loads = state_load.list_loads(given.evidence, batch, given.restart.starting.spark)
    if not given.restart.rerun and not any(load.missing for load in loads):
        yield (
            f"if you have no copy, remove `commits/{batch}` and its hidden `.crc`: batch {batch}"
            " then runs again over the same range and writes the version, and a sink without a"
            " ledger gets the batch twice"
        )
