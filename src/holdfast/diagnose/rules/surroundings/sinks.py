"""Do the sinks contain what the checkpoint counts as done?

The last batch in the ledger of a sink is compared with the last committed batch, C, and the next
batch, N.

    ledger < C     batches are missing in the sink, and no restart writes them
    ledger == N    the sink skips N: correct if N runs again, a loss if N is a new batch
    ledger > N     the checkpoint was taken back, and the sink will skip the next batches

A ledger that has the ranges of its batches refuses a different range under an old number, and loses
nothing.
"""

from collections.abc import Iterator

from holdfast.model import advice
from holdfast.model.evidence import NO_BATCH, LedgerEvidence
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.predict import unread_files

_RESTORE = (
    "restore the table, or put back a copy of the checkpoint from when it ended at the table's"
    " last batch"
)
_QUESTION = "whether the sink contains what the checkpoint counts as done"


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Compare each sink that keeps a ledger with the checkpoint."""
    evidence = given.evidence
    if not evidence.ledgers:
        name = evidence.sink.value if isinstance(evidence.sink, Known) else ""
        reason = (
            f"the sink `{name}` keeps no ledger that can be read"
            if name
            else "a checkpoint does not name its sink, and neither does a run record"
        )
        yield NotAssessed(question=_QUESTION, reason=reason)
    for ledger in evidence.ledgers:
        if evidence.batches.unlisted:
            reason = evidence.batches.unlisted[0].description
            yield NotAssessed(question=f"{_QUESTION}: `{ledger.table}`", reason=reason)
        else:
            yield from _compare_ledger(given, ledger)


def _compare_ledger(given: RuleInput, ledger: LedgerEvidence) -> Iterator[Finding | NotAssessed]:
    committed = given.evidence.batches.last_committed
    match ledger.batch:
        case Unknown(reason=reason):
            yield NotAssessed(question=f"{_QUESTION}: `{ledger.table}`", reason=reason)
        case Absent(reason=reason):
            if committed is not None:
                yield _make_behind_finding(ledger, f"no batch ({reason})", committed)
            elif (
                reason == NO_BATCH
                and not given.restart.rerun
                and not unread_files.find(given.evidence)
            ):
                yield _make_not_cleared_finding(ledger)
        case last:
            yield from _compare_batch(given, ledger, last)


def _compare_batch(given: RuleInput, ledger: LedgerEvidence, last: int) -> Iterator[Finding]:
    committed = given.evidence.batches.last_committed
    if "restored" in ledger.note:
        yield _make_behind_finding(ledger, "a table that was restored since", committed or last)
    elif committed is not None and last < committed:
        yield _make_behind_finding(ledger, f"batch {last} as its last", committed)
    elif last > _find_expected(given):
        yield _make_ahead_finding(given, ledger, last)
    elif not given.restart.rerun and last == given.restart.batch:
        yield _make_skips_finding(ledger, last)


def _find_expected(given: RuleInput) -> int:
    """Return the next batch: a sink may have it already, but no later batch."""
    if not isinstance(given.restart.batch, Unknown):
        return given.restart.batch
    committed = given.evidence.batches.last_committed
    return 0 if committed is None else committed + 1


def _make_not_cleared_finding(ledger: LedgerEvidence) -> Finding:
    return Finding(
        code=Code.SINK_NOT_CLEARED,
        severity=Severity.UNDEFINED,
        text="A restart will write again what an earlier checkpoint has written: this checkpoint"
        f" begins from nothing, but `{ledger.table}` already exists.",
        clues=(
            Clue(
                file=ledger.table,
                expected="no table, or a table that belongs to this checkpoint",
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
        text=f"No restart will write the batches that `{ledger.table}` lacks: the checkpoint counts"
        " them as done.",
        clues=(
            Clue(file=ledger.table, expected=f"batches up to {committed}", found=found),
        ),
        remedies=(advice.BEHIND,) if ledger.ranges else (_RESTORE,),
    )  # fmt: skip


def _make_ahead_finding(given: RuleInput, ledger: LedgerEvidence, last: int) -> Finding:
    batch = given.restart.batch
    which = "the next batches" if isinstance(batch, Unknown) else f"batches {batch} to {last}"
    effect = (
        f"`{ledger.table}` will skip {which} if they have the same ranges as before, and stop the"
        " query with `BATCH_CHANGED` if they do not"
        if ledger.ranges
        else f"`{ledger.table}` will skip {which} without an error, whatever rows they contain"
    )
    return Finding(
        code=Code.SINK_AHEAD,
        severity=_choose_severity(ledger),
        text=f"{effect}: it already has batch {last}.",
        clues=(
            Clue(
                file=ledger.table,
                expected="no batch after the next one",
                found=f"batch {last} under the key `{ledger.key}`",
            ),
        ),
        remedies=("restore the checkpoint that belongs to the table", advice.NEW_CHECKPOINT),
    )


def _choose_severity(ledger: LedgerEvidence) -> Severity:
    return Severity.BLOCKS if ledger.ranges else Severity.LOSES


def _make_skips_finding(ledger: LedgerEvidence, batch: int) -> Finding:
    effect = (
        f"`{ledger.table}` will skip batch {batch} if it has the same range as before, and stop the"
        " query with `BATCH_CHANGED` if it does not"
        if ledger.ranges
        else f"`{ledger.table}` will skip batch {batch}"
    )
    return Finding(
        code=Code.SINK_SKIPS,
        severity=_choose_severity(ledger),
        text=f"{effect}: the batch is new, but the table already has a batch with this number.",
        clues=(Clue(file=ledger.table, expected=f"no batch {batch}", found=f"batch {batch}"),),
        # Delta's RESTORE takes back rows, but not the batch numbers that the table remembers.
        remedies=("put back a copy of the table from before that batch", advice.NEW_CHECKPOINT),
    )
