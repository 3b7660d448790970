"""Stage 3: does a planned batch have rows to read? Running it again writes nothing if not.

A batch is known to be empty if each source ends where it begins, or if its log names no file for
the range. A query with state may write rows all the same: windows close without new input.
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
    """Whether the last planned batch is known to have no rows, and the query to have no state."""
    planned = evidence.batches.last_planned
    if planned is None or not evidence.sources or not _is_stateless(evidence):
        return False
    if sockets.find_course(evidence, NEWEST) is sockets.Course.STARTS_FRESH:
        return True
    return all(_is_empty(one, planned) for one in evidence.sources)


def all_write_nothing(evidence: Evidence, batches: Iterable[BatchId]) -> bool:
    """Whether the same is known of several batches, by their entries alone."""
    return _is_stateless(evidence) and all(_is_unchanged(evidence, one) for one in batches)


def _is_stateless(evidence: Evidence) -> bool:
    return isinstance(evidence.stateful_operators, Absent) and not evidence.operators


def _is_empty(source: SourceEvidence, planned: BatchId) -> bool:
    if source.open_ended or source.batch != planned:
        return False
    if source.after is not None and source.after != planned - 1:
        return False
    return _has_nothing(source.consumed) or _lists_no_file(source)


def _has_nothing(consumed: ConsumedRange) -> bool:
    return all(one.count == 0 and one.change not in _LOST for one in consumed.partitions)


def _lists_no_file(source: SourceEvidence) -> bool:
    """Whether the entries of the range were read, and name no file."""
    known = isinstance(source.offset, FileOffset) and isinstance(source.consumed.total, int)
    listed = source.files or source.files_more or source.log_offsets_unread
    return known and not listed


def _is_unchanged(evidence: Evidence, batch: BatchId) -> bool:
    """Whether a batch ends where it begins, in each source."""
    end = evidence.offset_entries.get(batch)
    before = evidence.offset_entries.get(BatchId(batch - 1))
    if end is None or (before is None and batch > 0):
        return False
    starts = {} if before is None else {one.source: one.offset for one in before.sources}
    seen = {one.name: one for one in evidence.sources}
    for one in end.sources:
        known = seen.get(one.source)
        told = "" if known is None else known.described
        began = None if known is None else known.began
        start = source_offset.find_start(starts.get(one.source), began, described=told)
        consumed = source_offset.compute_consumed(
            source_offset.decode(start, described=told),
            source_offset.decode(one.offset, described=told),
        )
        if (known is not None and known.open_ended) or not _has_nothing(consumed):
            return False
        if isinstance(consumed.total, Unknown):
            return False
    return True
