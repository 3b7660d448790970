"""Does a planned batch have rows to read? If not, running it again writes nothing.

A batch is known to be empty if each source ends where it begins, or if its log names no file for
the range. A query with state may still write rows, because windows close without new input.
"""

from collections.abc import Iterable

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.fact import Absent, Unknown
from holdfast.model.ids import BatchId
from holdfast.model.source_offset import ConsumedRange, FileOffset, Movement
from holdfast.predict import sockets
from holdfast.spark.versions import NEWEST

_LOST = frozenset({Movement.VANISHED, Movement.WENT_BACK})


def writes_nothing(evidence: Evidence) -> bool:
    """Return whether the last planned batch has no rows for certain, and the query no state."""
    planned = evidence.batches.last_planned
    if planned is None or not evidence.sources or not _is_stateless(evidence):
        return False
    if sockets.find_outcome(evidence, NEWEST) is sockets.SocketOutcome.STARTS_FRESH:
        return True
    return all(_is_empty(source, planned) for source in evidence.sources)


def all_write_nothing(evidence: Evidence, batches: Iterable[BatchId]) -> bool:
    """Return whether the same is certain for several batches, by their entries alone."""
    return _is_stateless(evidence) and all(_is_unchanged(evidence, batch) for batch in batches)


def _is_stateless(evidence: Evidence) -> bool:
    return isinstance(evidence.stateful_operators, Absent) and not evidence.operators


def _is_empty(source: SourceEvidence, planned: BatchId) -> bool:
    if source.open_ended or source.batch != planned:
        return False
    if source.after is not None and source.after != planned - 1:
        return False
    return _has_nothing(source.consumed) or _lists_no_file(source)


def _has_nothing(consumed: ConsumedRange) -> bool:
    return all(
        partition.count == 0 and partition.change not in _LOST for partition in consumed.partitions
    )


def _lists_no_file(source: SourceEvidence) -> bool:
    """Return whether the log entries of the range were read and name no file."""
    known = isinstance(source.offset, FileOffset) and isinstance(source.consumed.total, int)
    listed = source.files or source.files_more or source.log_offsets_unread
    return known and not listed


def _is_unchanged(evidence: Evidence, batch: BatchId) -> bool:
    """Return whether a batch ends where it begins, in each source."""
    end = evidence.offset_entries.get(batch)
    before = evidence.offset_entries.get(BatchId(batch - 1))
    if end is None or (before is None and batch > 0):
        return False
    starts = {} if before is None else {line.source: line.offset for line in before.sources}
    sources = {source.name: source for source in evidence.sources}
    for line in end.sources:
        source = sources.get(line.source)
        described = "" if source is None else source.described
        began = None if source is None else source.began
        start = source_offset.find_start(starts.get(line.source), began, described=described)
        consumed = source_offset.compute_consumed(
            source_offset.decode(start, described=described),
            source_offset.decode(line.offset, described=described),
        )
        if (source is not None and source.open_ended) or not _has_nothing(consumed):
            return False
        if isinstance(consumed.total, Unknown):
            return False
    return True
