"""Stage 3: how far did a pending batch come, by the state that it left?

    loads version N    batch N reads it, so it is there in every store
    writes N+1         each task writes it for its own stores when it has read all its rows

So the stores at version N+1 show which tasks of the pending batch N had finished.
"""

from collections.abc import Iterator

from holdfast.model import state
from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity

_MOST_TOLD = 5


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Count the stores that have the version of the pending batch."""
    evidence, batch = seen.evidence, seen.restart.batch
    if not seen.restart.rerun or isinstance(batch, Unknown) or seen.restart.starting.continuous:
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
    if not latest or any(one.unlisted for one in evidence.operators):
        return
    written = [store for store, version in latest.items() if version > batch]
    others = [store for store in (*latest, *absent) if store not in written]
    if max(latest.values()) > batch + 1:
        text = (
            f"How far batch {batch} came is unknown: its state is followed by the state of later"
            " batches, as in a checkpoint that was taken back, or while the query runs."
        )
    else:
        text = _describe_progress(batch, len(written), len(written) + len(others))
    shown = others[:_MOST_TOLD] if written else []
    yield Finding(
        code=Code.BATCH_PROGRESS,
        severity=Severity.NOTE,
        text=text,
        clues=tuple(
            Clue(
                file=one,
                expected=f"version {batch + 1}, which batch {batch} writes",
                found=f"version {latest[one]}" if one in latest else "no files",
            )
            for one in shown
        ),
        remedies=(),
    )


def _describe_progress(batch: int, written: int, stores: int) -> str:
    again = f"A start writes version {batch + 1} of the state again in every store."
    if written == stores:
        every = "the only state store" if stores == 1 else f"all {stores:,} state stores"
        return (
            f"The sink may have all of batch {batch}: the batch had written its state in {every},"
            f" so every task had finished, and only `commits/{batch}` or the end of the write to"
            f" the sink is missing. {again}"
        )
    if written:
        return (
            f"The sink may have a part of batch {batch}, unless it takes a batch whole or not at"
            f" all: the batch had written its state in {written:,} of {stores:,} stores, so it"
            f" stopped while its tasks ran. {again}"
        )
    return (
        f"The sink has nothing of batch {batch} if it takes a batch whole or not at all: the batch"
        f" had written no state, so none of its stateful tasks had finished. {again}"
    )
