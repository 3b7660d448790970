"""Stage 3: was state written after its batch was committed?

    state/0/3/8.delta     at 12:00:01, by the task
    commits/7             at 12:00:02, by the driver, after all tasks
    state/0/3/8.delta     at 12:01:30: by a task that had been given up, over the first

Only times tell, so they must be those of Spark: in a copy they are when it was made.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from holdfast.model.evidence import Evidence, TimelineBatch
from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId
from holdfast.model.state import StoreEvidence

# The times may come from two clocks, and an object store knows no milliseconds.
_SLACK_MS = 5_000
_MOST_TOLD = 5
_QUESTION = "whether state was written over after its commit"


class _LateChange(NamedTuple):
    """Changes that are younger than the commit of their batch."""

    file: str
    version: int
    after_ms: int


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """The newest changes that a start replays, beside the commits of their batches."""
    stores = [
        (operator.operator, store)
        for operator in seen.evidence.operators
        for store in operator.stores
        if store.written_ms
    ]
    if not stores:
        return
    committed = _read_commit_times(seen.evidence)
    if isinstance(committed, Unknown):
        yield NotAssessed(question=_QUESTION, reason=committed.reason)
        return
    late = [_find_late(operator, store, committed) for operator, store in stores]
    if any(len(versions) > 1 for versions in late):
        # A task writes one version of a partition; a folder that was put back has many.
        reason = "the files of the state are younger than their commits, as those of a copy are"
        yield NotAssessed(question=_QUESTION, reason=reason)
        return
    found = [one for versions in late for one in versions]
    if found:
        yield _make_finding(found)


def _read_commit_times(evidence: Evidence) -> Mapping[int, int] | Unknown:
    """When each version was committed, where the times can be trusted."""
    known: dict[BatchId, TimelineBatch] = {one.batch: one for one in evidence.timeline}
    times: dict[int, int] = {}
    followed = False
    for batch, one in known.items():
        if isinstance(one.committed_ms, Unknown) or isinstance(one.planned_ms, Unknown):
            continue
        followed = followed or BatchId(batch + 1) in known
        if one.planned_ms <= one.committed_ms:  # or the clock was set back in between
            times[batch + 1] = one.committed_ms
    if not followed:
        return Unknown(reason="the times of the files may be those of a copy")
    return times


def _find_late(
    operator: int, store: StoreEvidence, committed: Mapping[int, int]
) -> list[_LateChange]:
    """What is replayed, after the last snapshot, and came after its commit."""
    snapshot = max((span.last for span in store.snapshots), default=0)
    folder = f"state/{operator}/{store.partition}"
    folder = folder if store.store == "default" else f"{folder}/{store.store}"
    return [
        _LateChange(folder, version, at_ms - committed[version])
        for version, at_ms in sorted(store.written_ms.items())
        if version > snapshot and at_ms > committed.get(version, at_ms) + _SLACK_MS
    ]


def _make_finding(late: list[_LateChange]) -> Finding:
    return Finding(
        code=Code.STATE_REWRITTEN,
        severity=Severity.UNDEFINED,
        text=f"{len(late):,} files of the state were written after their batches were committed:"
        " another task may have written over them.",
        clues=tuple(
            Clue(
                file=one.file,
                expected=f"version {one.version} before `commits/{one.version - 1}`",
                found=f"{one.after_ms / 1000:,.0f} s after it",
            )
            for one in late[:_MOST_TOLD]
        ),
        remedies=(
            "compare the result of the query with its source before it is started",
            "restore the folder `state` from a copy of the checkpoint",
        ),
    )
