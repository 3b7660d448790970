"""What a start in continuous mode does: Evidence, StartOptions -> Restart.

Continuous mode begins at the latest entry of the commit log, C, not at the latest offset entry, O.

    no C             epoch 0, from where the source begins
    C                epoch C+1, from the end of C and with no end set; up to Spark 2.3 epoch O+1
    no offsets/C     it fails

Spark reads again what it read after C. From 2.4 on the entries after C stay as they are: an epoch
that runs again is committed with the end that its first run logged.
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

_REUSES_NUMBERS_SINCE = SparkVersion(2, 4)
"""From here on an epoch that was logged but not committed gets its number again."""
_NO_END = Unknown(reason="an epoch of continuous mode ends when the next one begins")
_NOT_READ = Unknown(reason="the offset entry of the last committed epoch is not among those read")


def predict(evidence: Evidence, start: StartOptions) -> Restart:
    """Predict the next start in continuous mode."""
    error = next(start_errors.find_in_epochs(evidence, start), None)
    ranges = tuple(_list_ranges(evidence))
    epoch = _find_epoch(evidence, start) if ranges else _NOT_READ
    planned = evidence.batches.last_planned
    rerun = isinstance(epoch, int) and planned is not None and epoch <= planned
    later = () if error is not None else tuple(_find_later_errors(evidence, start))
    return Restart(
        starting=start,
        batch=epoch,
        rerun=rerun,
        runs=RunForecast.NOT
        if error is not None
        else RunForecast.SURELY
        if ranges
        else RunForecast.UNKNOWN,
        ranges=ranges,
        watermark_ms=0,
        state=(),
        sinks=(),
        error=None if error is None else exceptions.adapt_condition(error, start.spark),
        later=tuple(exceptions.adapt_condition(failure, start.spark) for failure in later),
    )


def name_entries(first: int, last: int) -> str:
    """Return offset entries in words, with their checksums."""
    if first == last:
        return f"`offsets/{first}` with its hidden `.crc`"
    return f"`offsets/{first}` to `offsets/{last}` with their hidden `.crc` files"


def _find_epoch(evidence: Evidence, start: StartOptions) -> BatchId:
    planned, committed = evidence.batches.last_planned, evidence.batches.last_committed
    if committed is None:
        return BatchId(0)
    skips_logged = planned is not None and start.spark < _REUSES_NUMBERS_SINCE
    newest = planned if planned is not None and skips_logged else committed
    return BatchId(newest + 1)


def _list_ranges(evidence: Evidence) -> Iterator[SourceRange]:
    """Yield the ranges from the end of the last committed epoch.

    Without a commit the source decides where it begins.
    """
    committed = evidence.batches.last_committed
    entry = None if committed is None else evidence.offset_entries.get(committed)
    if committed is not None and entry is None:
        return
    ends = {line.source: line.offset for line in entry.sources} if entry is not None else {}
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


def _find_later_errors(evidence: Evidence, start: StartOptions) -> Iterator[StartError]:
    """Yield the first unreadable entry that Spark reads when it commits the epoch of the entry."""
    if start.spark < _REUSES_NUMBERS_SINCE:
        return
    for epoch in evidence.batches.pending:
        unreadable = exceptions.find_unreadable(evidence, f"offsets/{epoch}")
        if unreadable is not None:
            yield exceptions.make_epoch_commit_error(unreadable, epoch)
            return
