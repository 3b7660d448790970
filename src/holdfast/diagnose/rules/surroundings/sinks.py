"""Stage 3: do the sinks hold what the checkpoint counts as done?

The last batch in the ledger of a sink, beside the last one committed, C, and the one that comes, N.

    ledger < C     batches are missing in the sink, and no start writes them
    ledger == N    N is skipped: rightly if it runs again, and a loss if it comes as a new one
    ledger > N     the checkpoint was taken back, and the sink will skip what comes

A ledger with the ranges of its batches refuses another one under an old number, and loses nothing.
"""

from collections.abc import Iterator

from holdfast.model import advice
from holdfast.model.evidence import NO_BATCH, LedgerEvidence
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.predict import unread_files

_REFUSES = "stops the query with `BATCH_CHANGED` at another"
_RESTORE = (
    "restore the table, or put back a copy of the checkpoint from when it ended at the table's"
    " last batch"
)
_QUESTION = "whether the sink holds what the checkpoint counts as done"


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Each sink that keeps a ledger."""
    evidence = seen.evidence
    if not evidence.ledgers:
        told = evidence.sink.value if isinstance(evidence.sink, Known) else ""
        reason = (
            f"the sink `{told}` keeps no ledger that can be read"
            if told
            else "a checkpoint does not name its sink, and no run record does"
        )
        yield NotAssessed(question=_QUESTION, reason=reason)
    for ledger in evidence.ledgers:
        if evidence.batches.unlisted:
            reason = evidence.batches.unlisted[0].description
            yield NotAssessed(question=f"{_QUESTION}: `{ledger.table}`", reason=reason)
        else:
            yield from _compare_ledger(seen, ledger)


def _compare_ledger(seen: RuleInput, ledger: LedgerEvidence) -> Iterator[Finding | NotAssessed]:
    committed = seen.evidence.batches.last_committed
    match ledger.batch:
        case Unknown(reason=reason):
            yield NotAssessed(question=f"{_QUESTION}: `{ledger.table}`", reason=reason)
        case Absent(reason=reason):
            if committed is not None:
                yield _make_behind_finding(ledger, f"no batch ({reason})", committed)
            elif (
                reason == NO_BATCH
                and not seen.restart.rerun
                and not unread_files.find(seen.evidence)
            ):
                yield _make_not_cleared_finding(ledger)
        case last:
            yield from _compare_batch(seen, ledger, last)


def _compare_batch(seen: RuleInput, ledger: LedgerEvidence, last: int) -> Iterator[Finding]:
    committed = seen.evidence.batches.last_committed
    if "restored" in ledger.note:
        yield _make_behind_finding(ledger, "a table that was restored since", committed or last)
    elif committed is not None and last < committed:
        yield _make_behind_finding(ledger, f"batch {last} as its last", committed)
    elif last > _find_expected(seen):
        yield _make_ahead_finding(seen, ledger, last)
    elif not seen.restart.rerun and last == seen.restart.batch:
        yield _make_skips_finding(ledger, last)


def _find_expected(seen: RuleInput) -> int:
    """The batch that comes, which a sink may hold already; beyond it there must be none."""
    if not isinstance(seen.restart.batch, Unknown):
        return seen.restart.batch
    committed = seen.evidence.batches.last_committed
    return 0 if committed is None else committed + 1


def _make_not_cleared_finding(ledger: LedgerEvidence) -> Finding:
    return Finding(
        code=Code.SINK_NOT_CLEARED,
        severity=Severity.UNDEFINED,
        text=f"The checkpoint begins anew and `{ledger.table}` is there already: what an earlier"
        " checkpoint has written is written once more.",
        clues=(
            Clue(
                file=ledger.table,
                expected="no table, or one that belongs to this checkpoint",
                found=f"a table without the key `{ledger.key}`",
            ),
        ),
        remedies=(
            (
                "delete the table if only this query writes to it, or restore the checkpoint that"
                " wrote it"
            ),
        ),
    )


def _make_behind_finding(ledger: LedgerEvidence, found: str, committed: int) -> Finding:
    return Finding(
        code=Code.SINK_BEHIND,
        severity=Severity.LOSES,
        text=f"`{ledger.table}` lacks batches that the checkpoint counts as done; no start writes"
        " them.",
        clues=(
            Clue(file=ledger.table, expected=f"batches up to {committed}", found=found),
        ),
        remedies=(advice.BEHIND,) if ledger.ranges else (_RESTORE,),
    )  # fmt: skip


def _make_ahead_finding(seen: RuleInput, ledger: LedgerEvidence, last: int) -> Finding:
    batch = seen.restart.batch
    first = "the batches" if isinstance(batch, Unknown) else f"batches {batch} to {last}"
    does = (
        f"of {first} it skips those of the range that they were written from, and {_REFUSES}"
        if ledger.ranges
        else f"it takes {first} for old ones and skips them without a word, whatever they hold"
    )
    return Finding(
        code=Code.SINK_AHEAD,
        severity=_choose_severity(ledger),
        text=f"`{ledger.table}` holds batch {last} already: {does}.",
        clues=(
            Clue(
                file=ledger.table,
                expected="no batch beyond the one to come",
                found=f"batch {last} under the key `{ledger.key}`",
            ),
        ),
        remedies=("restore the checkpoint that belongs to the table", advice.NEW_CHECKPOINT),
    )


def _choose_severity(ledger: LedgerEvidence) -> Severity:
    return Severity.BLOCKS if ledger.ranges else Severity.LOSES


def _make_skips_finding(ledger: LedgerEvidence, batch: int) -> Finding:
    does = f"it skips the same range, and {_REFUSES}" if ledger.ranges else "it is skipped"
    return Finding(
        code=Code.SINK_SKIPS,
        severity=_choose_severity(ledger),
        text=f"Batch {batch} comes as a new one, and `{ledger.table}` holds a batch of that number:"
        f" {does}.",
        clues=(Clue(file=ledger.table, expected=f"no batch {batch}", found=f"batch {batch}"),),
        # Delta's RESTORE takes rows back, and not what the table remembers of batches.
        remedies=("put back a copy of the table from before that batch", advice.NEW_CHECKPOINT),
    )
