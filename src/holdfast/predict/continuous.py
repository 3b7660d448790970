"""Stage 3: Evidence -> what a start in continuous mode does. Pure.

That mode begins at the latest entry of the commit log, C, and not at the latest offset entry, O.

    no C             epoch 0, from where the source begins
    C                epoch C+1, from the end of C and with no end set; up to Spark 2.3 epoch O+1
    no offsets/C     it fails

What was read after C is read again. From 2.4 on the entries after C stay as they are: an epoch that
runs again is committed with the end that its first run has logged.
"""

from collections.abc import Iterator

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.model.restart import Restart, RunForecast, SourceRange, StartError, StartOptions
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import start_errors
from holdfast.spark import exceptions

_NUMBERS_AGAIN = SparkVersion(2, 4)
"""From here on an epoch that was logged and not committed has its number again."""
_NO_END = Unknown(reason="an epoch of continuous mode ends when the next one begins")
_NOT_READ = Unknown(reason="the offset entry of the last committed epoch is not among those read")


def predict(evidence: Evidence, how: StartOptions) -> Restart:
    """What the next start in continuous mode does."""
    error = next(start_errors.find_in_epochs(evidence, how), None)
    ranges = tuple(_list_ranges(evidence))
    batch = _find_epoch(evidence, how) if ranges else _NOT_READ
    planned = evidence.batches.last_planned
    again = isinstance(batch, int) and planned is not None and batch <= planned
    later = () if error is not None else tuple(_find_later_errors(evidence, how))
    return Restart(
        starting=how,
        batch=batch,
        rerun=again,
        runs=RunForecast.NOT
        if error is not None
        else RunForecast.SURELY
        if ranges
        else RunForecast.UNKNOWN,
        ranges=ranges,
        watermark_ms=0,
        state=(),
        sinks=(),
        error=None if error is None else exceptions.adapt_condition(error, how.spark),
        later=tuple(exceptions.adapt_condition(one, how.spark) for one in later),
    )


def name_entries(first: int, last: int) -> str:
    """Offset entries to put away, in words."""
    if first == last:
        return f"`offsets/{first}` with its hidden `.crc`"
    return f"`offsets/{first}` to `offsets/{last}` with their hidden `.crc` files"


def _find_epoch(evidence: Evidence, how: StartOptions) -> BatchId:
    planned, committed = evidence.batches.last_planned, evidence.batches.last_committed
    if committed is None:
        return BatchId(0)
    newest = planned if planned is not None and how.spark < _NUMBERS_AGAIN else committed
    return BatchId(newest + 1)


def _list_ranges(evidence: Evidence) -> Iterator[SourceRange]:
    """From the end of the last committed epoch; from nowhere known, where there is none."""
    committed = evidence.batches.last_committed
    entry = None if committed is None else evidence.offset_entries.get(committed)
    if committed is not None and entry is None:
        return
    ends = {one.source: one.offset for one in entry.sources} if entry is not None else {}
    for source in evidence.sources:
        yield SourceRange(
            source=source.name,
            kind=source.kind,
            other_kinds=source.other_kinds,
            start=ends.get(source.name),
            end=_NO_END,
            consumed=_NO_END,
            positions=source_offset.list_positions(
                source_offset.decode(ends.get(source.name), described=source.described)
            ),
        )


def _find_later_errors(evidence: Evidence, how: StartOptions) -> Iterator[StartError]:
    """An entry that stays is read when its epoch is committed."""
    if how.spark < _NUMBERS_AGAIN:
        return
    for epoch in evidence.batches.pending:
        unreadable = exceptions.find_unreadable(evidence, f"offsets/{epoch}")
        if unreadable is not None:
            yield exceptions.make_epoch_commit_error(unreadable, epoch)
            return
