"""What each sink does with the next batch: LedgerEvidence -> SinkAnswer.

A ledger contains the last batch that a sink was given. The sink skips a batch at or below it: that
is correct if the same batch runs again, and a loss if it is a different batch under an old number.
A ledger with the ranges of its batches tells the two apart, and refuses the second.
"""

from holdfast.model.evidence import Evidence, LedgerEvidence
from holdfast.model.fact import Absent, Unknown
from holdfast.model.ids import BatchId
from holdfast.model.restart import SinkAction, SinkAnswer, Stage, StartError

_BEFORE_SINK = frozenset({Stage.START, Stage.PLANNING})


def predict(
    evidence: Evidence, batch: BatchId, *, rerun: bool, error: StartError | None
) -> tuple[SinkAnswer, ...]:
    """Predict what each sink with a ledger will do."""
    if error is not None and error.stage in _BEFORE_SINK:
        reason = f"the start fails before it reaches the sink: {error.reason}"
        return tuple(
            _make_answer(ledger, SinkAction.NOTHING, reason) for ledger in evidence.ledgers
        )
    return tuple(_predict_ledger(ledger, batch, rerun=rerun) for ledger in evidence.ledgers)


def _predict_ledger(ledger: LedgerEvidence, batch: BatchId, *, rerun: bool) -> SinkAnswer:
    last = ledger.batch
    if isinstance(last, Unknown):
        return _make_answer(ledger, SinkAction.UNKNOWN, last.reason)
    if isinstance(last, Absent):
        return _make_answer(ledger, SinkAction.WRITE, last.reason)
    if batch > last:
        return _make_answer(ledger, SinkAction.WRITE, f"its last batch is {last}")
    if ledger.ranges and not rerun:
        effect = "it skips a batch with the same range, and refuses a different range"
        return _make_answer(ledger, SinkAction.UNKNOWN, f"its last batch is {last}: {effect}")
    why = "it already has this batch" if rerun else "it takes the new batch for an old one"
    return _make_answer(ledger, SinkAction.SKIP, f"its last batch is {last}: {why}")


def _make_answer(ledger: LedgerEvidence, act: SinkAction, reason: str) -> SinkAnswer:
    return SinkAnswer(table=ledger.table, act=act, reason=reason)
