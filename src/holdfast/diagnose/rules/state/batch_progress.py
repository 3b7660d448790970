"""How far did a pending batch come, by the state that it left?

    loads version N    batch N reads it, so every store has it
    writes N+1         each task writes it for its own stores when it has read all its rows

So the stores at version N+1 show which tasks of the pending batch N had finished.
"""

from collections.abc import Iterator

from holdfast.model import state
from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity

_MOST_LISTED = 5


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Count the stores that have the version of the pending batch."""
    evidence, batch = given.evidence, given.restart.batch
    if not given.restart.rerun or isinstance(batch, Unknown) or given.restart.starting.continuous:
        return
    committed = evidence.batches.last_committed
    if committed is not None and committed >= batch:
        return
    latest = {
        state.format_store_folder(
            operator.operator, store.partition, store.store
        ): store.latest_version
        for operator in evidence.operators
        for store in operator.stores
    }
    absent = [
        state.format_store_folder(operator.operator, partition, store)
        for operator in evidence.operators
        for partition, store in operator.absent
    ]
    if not latest or any(operator.unlisted for operator in evidence.operators):
        return
    written = [store for store, version in latest.items() if version > batch]
    others = [store for store in (*latest, *absent) if store not in written]
    if max(latest.values()) > batch + 1:
        text = (
            f"Nothing shows how far batch {batch} came, because the state of later batches follows"
            " its own. The checkpoint was taken back, or the query is running."
        )
    else:
        text = _describe_progress(batch, len(written), len(written) + len(others))
    shown = others[:_MOST_LISTED] if written else []
    yield Finding(
        code=Code.BATCH_PROGRESS,
        severity=Severity.NOTE,
        text=text,
        clues=tuple(
            Clue(
                file=store,
                expected=f"version {batch + 1}, which batch {batch} writes",
                found=f"version {latest[store]}" if store in latest else "no files",
            )
            for store in shown
        ),
        remedies=(),
    )


def _describe_progress(batch: int, written: int, stores: int) -> str:
    again = f"A restart will write version {batch + 1} of the state again in every store."
    if written == stores:
        every = "the only state store" if stores == 1 else f"all {stores:,} state stores"
        return (
            f"The sink may have all of batch {batch}: the batch had written its state in {every},"
            f" so every task had finished, and only `commits/{batch}` or the end of the write to"
            f" the sink is missing. {again}"
        )
    if written:
        return (
            f"The sink may have a part of batch {batch}, unless it writes a batch atomically: the"
            f" batch had written its state in {written:,} of {stores:,} stores, so it stopped while"
            f" its tasks ran. {again}"
        )
    return (
        f"The sink has nothing of batch {batch} if it writes a batch atomically: the batch had"
        f" written no state, so none of its stateful tasks had finished. {again}"
    )
