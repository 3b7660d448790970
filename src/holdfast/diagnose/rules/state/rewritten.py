"""Was state written after its batch was committed?

    state/0/3/8.delta     at 12:00:01, by the task
    commits/7             at 12:00:02, by the driver, after all tasks
    state/0/3/8.delta     at 12:01:30: by a task that had been given up, over the first

Only file times show this, so they must be Spark's: the files of a copy have the time of the copy.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from holdfast.model.evidence import Evidence, TimelineBatch
from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId
from holdfast.model.state import StoreEvidence

# The times may come from two clocks, and an object store has no milliseconds.
_SLACK_MS = 5_000
_MOST_LISTED = 5
_QUESTION = "whether state was overwritten after its commit"


class _LateChange(NamedTuple):
    """Changes that are younger than the commit of their batch."""

    file: str
    version: int
    after_ms: int


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Compare the times of the newest changes with the commits of their batches."""
    stores = [
        (operator.operator, store)
        for operator in given.evidence.operators
        for store in operator.stores
        if store.written_ms
    ]
    if not stores:
        return
    committed = _read_commit_times(given.evidence)
    if isinstance(committed, Unknown):
        yield NotAssessed(question=_QUESTION, reason=committed.reason)
        return
    late_by_store = [_find_late(operator, store, committed) for operator, store in stores]
    if any(len(changes) > 1 for changes in late_by_store):
        # A task writes one version of a partition; a folder that was put back has many.
        reason = "the state files are younger than their commits, as those of a copy are"
        yield NotAssessed(question=_QUESTION, reason=reason)
        return
    late = [change for changes in late_by_store for change in changes]
    if late:
        yield _make_finding(late)


def _read_commit_times(evidence: Evidence) -> Mapping[int, int] | Unknown:
    """Return when each version was committed, if the times can be trusted."""
    timeline: dict[BatchId, TimelineBatch] = {line.batch: line for line in evidence.timeline}
    times: dict[int, int] = {}
    followed = False
    for batch, line in timeline.items():
        if isinstance(line.committed_ms, Unknown) or isinstance(line.planned_ms, Unknown):
            continue
        followed = followed or BatchId(batch + 1) in timeline
        if line.planned_ms <= line.committed_ms:  # or the clock was set back in between
            times[batch + 1] = line.committed_ms
    if not followed:
        return Unknown(reason="the times of the files may be those of a copy")
    return times


def _find_late(
    operator: int, store: StoreEvidence, committed: Mapping[int, int]
) -> list[_LateChange]:
    """Return the changes after the last snapshot that are younger than their commit."""
    snapshot = max((span.last for span in store.snapshots), default=0)
    folder = f"state/{operator}/{store.partition}"
    folder = folder if store.store == "default" else f"{folder}/{store.store}"
    return [
        _LateChange(folder, version, at_ms - committed[version])
        for version, at_ms in sorted(store.written_ms.items())
        if version > snapshot and at_ms > committed.get(version, at_ms) + _SLACK_MS
    ]


def _make_finding(late: list[_LateChange]) -> Finding:
    count = "1 state file was" if len(late) == 1 else f"{len(late):,} state files were"
    return Finding(
        code=Code.STATE_REWRITTEN,
        severity=Severity.UNDEFINED,
        text=f"The state may be wrong: {count} written after the commit of the batch, so another"
        " task may have overwritten the first version.",
        clues=tuple(
            Clue(
                file=change.file,
                expected=f"version {change.version} before `commits/{change.version - 1}`",
                found=f"{change.after_ms / 1000:,.0f} s after it",
            )
            for change in late[:_MOST_LISTED]
        ),
        remedies=(
            "compare the result of the query with its source before you start it",
            "restore the folder `state` from a copy of the checkpoint",
        ),
    )
