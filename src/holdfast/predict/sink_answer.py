"""Stage 3: what the sinks remember -> what each does with the batch that comes.

A ledger holds the last batch that a sink was given. A batch at or below it is skipped: rightly if
it is the same batch again, and a loss if it is another one under an old number. A ledger with the
ranges of its batches tells the two apart, and refuses the second.
"""

from holdfast.model.evidence import Evidence, LedgerEvidence
from holdfast.model.fact import Absent, Unknown
from holdfast.model.ids import BatchId
from holdfast.model.restart import SinkAction, SinkAnswer, Stage, StartError

_NOT_REACHED = frozenset({Stage.START, Stage.PLANNING})


def predict(
    evidence: Evidence, batch: BatchId, *, rerun: bool, error: StartError | None
) -> tuple[SinkAnswer, ...]:
    """What each sink that keeps a ledger will do."""
    if error is not None and error.stage in _NOT_REACHED:
        reason = f"the start fails before the sink is reached: {error.reason}"
        return tuple(_make_answer(one, SinkAction.NOTHING, reason) for one in evidence.ledgers)
    return tuple(_predict_ledger(one, batch, rerun=rerun) for one in evidence.ledgers)


def _predict_ledger(ledger: LedgerEvidence, batch: BatchId, *, rerun: bool) -> SinkAnswer:
    last = ledger.batch
    if isinstance(last, Unknown):
        return _make_answer(ledger, SinkAction.UNKNOWN, last.reason)
    if isinstance(last, Absent):
        return _make_answer(ledger, SinkAction.WRITE, last.reason)
    if batch > last:
        return _make_answer(ledger, SinkAction.WRITE, f"its last batch is {last}")
    if ledger.ranges and not rerun:
        told = "it skips a batch of the same range, and refuses another under its number"
        return _make_answer(ledger, SinkAction.UNKNOWN, f"its last batch is {last}: {told}")
    again = "it holds this batch already" if rerun else "it takes the new batch for an old one"
    return _make_answer(ledger, SinkAction.SKIP, f"its last batch is {last}: {again}")


def _make_answer(ledger: LedgerEvidence, act: SinkAction, reason: str) -> SinkAnswer:
    return SinkAnswer(table=ledger.table, act=act, reason=reason)
