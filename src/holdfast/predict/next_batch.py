"""Which batch runs next, and between which offset entries: Evidence -> NextBatch."""

import re
from dataclasses import dataclass, replace

from holdfast.model.evidence import Evidence
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.model.offsets import OffsetEntry, SourceOffset
from holdfast.model.restart import StartOptions
from holdfast.predict import start_errors

_UNREADABLE = Unknown(reason="the latest offset entry cannot be read")
_NAME = re.compile(r"\w+")
_EMPTY = OffsetEntry(version=1, watermark_ms=0, timestamp_ms=0, settings={}, sources=())


@dataclass(frozen=True, slots=True, kw_only=True)
class NextBatch:
    """The next batch, and the offset entries at its start and its end.

    `earlier` is the batch of the entry `before`.
    """

    batch: BatchId
    rerun: bool
    before: OffsetEntry
    end: OffsetEntry
    earlier: BatchId | None = None


def find(evidence: Evidence, start: StartOptions) -> NextBatch | Unknown:
    """Return the next batch of micro-batch mode."""
    planned, committed = evidence.batches.last_planned, evidence.batches.last_committed
    if planned is None:
        return NextBatch(batch=BatchId(0), rerun=False, before=_EMPTY, end=_EMPTY)
    end = evidence.offset_entries.get(planned)
    if end is None:
        return _UNREADABLE
    earlier = start_errors.find_entry_before(evidence, planned, start)
    before = evidence.offset_entries.get(earlier, _EMPTY) if earlier is not None else _EMPTY
    if committed == planned:
        positions = _merge_positions(before, end)
        return NextBatch(batch=BatchId(planned + 1), rerun=False, before=positions, end=positions)
    return NextBatch(batch=planned, rerun=True, before=before, end=end, earlier=earlier)


def find_watermark(evidence: Evidence, following: NextBatch) -> int | Unknown:
    """Return the watermark with which the batch runs."""
    watermark = following.end.watermark_ms
    if following.rerun or following.batch == 0:
        return watermark
    commit = evidence.commit_entries.get(BatchId(following.batch - 1))
    if commit is None:
        return Unknown(reason="the latest commit entry cannot be read")
    committed = commit.next_watermark_ms
    return watermark if isinstance(committed, Unknown) else max(watermark, committed)


def _merge_positions(before: OffsetEntry, end: OffsetEntry) -> OffsetEntry:
    """Return the positions of the sources after a batch.

    A source without an offset in the batch stays where it was before. Spark ignores a line whose
    name no source can have.
    """
    ended = {line.source: line for line in end.sources if line.offset is not None}
    earlier = {line.source: line for line in before.sources if line.offset is not None}
    names = dict.fromkeys([*(line.source for line in end.sources), *earlier])
    sources = (
        ended.get(name) or earlier.get(name) or SourceOffset(source=name, offset=None)
        for name in names
        if _NAME.fullmatch(name)
    )
    return replace(end, sources=tuple(sources))
