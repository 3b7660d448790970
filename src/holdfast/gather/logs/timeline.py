"""Stage 2: the newest entries of both logs -> one line a batch."""

from collections.abc import Mapping, Sequence

from holdfast.decode import source_offset
from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.gather.logs.tail import Entries
from holdfast.gather.sources import kinesis
from holdfast.model.evidence import Batches, BatchStatus, SourceEvidence, TimelineBatch
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, spans_contain
from holdfast.model.json import Json
from holdfast.model.offsets import OffsetEntry

_NO_TIME = Unknown(reason="the offset entry has no time")
_NO_OFFSETS = Unknown(reason="the offset entry cannot be read")
_NOT_COMMITTED = Unknown(reason="not committed")
_COPIED = Unknown(reason="the files of the commits are younger than the batches after them")
_COPIED_ENTRY = Unknown(reason="its offset entry was written long after its time, as a copy is")
_SLACK_MS = 5_000
_LONGEST_PLANNING_MS = 60_000
_NOT_COUNTED = Unknown(reason="the offsets of its sources do not count alike")
_NOT_RECORDED = Unknown(reason="no run record or event log tells")
_COUNTED_BATCHES = 32
_NOT_LOOKED_AT = Unknown(reason=f"only the newest {_COUNTED_BATCHES} batches are counted")
_NO_BEFORE = Unknown(reason="the entry before it was not read")


def build(
    tree: CheckpointTree,
    entries: Entries,
    rows: Mapping[BatchId, int],
    sources: Sequence[SourceEvidence],
    batches: Batches,
) -> tuple[TimelineBatch, ...]:
    """The batches whose entries were read, oldest first; `sources` as the newest one has them."""
    ids = sorted({*entries.offsets, *entries.damaged_offsets})
    times = _find_commit_times(tree, entries)
    counted = _count_records(tree, entries, ids[-_COUNTED_BATCHES:], sources)
    return tuple(
        TimelineBatch(
            batch=batch,
            planned_ms=_find_planned_time(entries.offsets.get(batch)),
            committed_ms=times.get(batch, _NOT_COMMITTED),
            rows=rows.get(batch, _NOT_RECORDED),
            records=counted.get(batch, (_NOT_LOOKED_AT, ""))[0],
            unit=counted.get(batch, (_NOT_LOOKED_AT, ""))[1],
            watermark_ms=entries.offsets[batch].watermark_ms
            if batch in entries.offsets
            else _NO_OFFSETS,
            standing=find_standing(batch, entries, batches),
        )
        for batch in ids
    )


def _find_commit_times(tree: CheckpointTree, entries: Entries) -> Mapping[BatchId, int | Unknown]:
    """When commits were written, by the times of their files, unless these cannot be right.

    Spark plans a batch after it has committed the one before, and writes an offset entry as soon
    as it has planned it. Where files are younger than that, they were copied, and their times
    tell when.
    """
    times: dict[BatchId, int | Unknown] = {}
    for number, at in tree.commits.modified_ms.items():
        batch = BatchId(number)
        entry = entries.offsets.get(batch)
        late = tree.offsets.modified_ms.get(batch, 0) - _LONGEST_PLANNING_MS
        times[batch] = _COPIED_ENTRY if entry and 0 < entry.timestamp_ms < late else at
    for number, at in tree.commits.modified_ms.items():
        following = entries.offsets.get(BatchId(number + 1))
        if following and 0 < following.timestamp_ms < at - _SLACK_MS:
            return dict.fromkeys(times, _COPIED)
    return times


def _find_planned_time(entry: OffsetEntry | None) -> int | Unknown:
    if entry is None:
        return _NO_OFFSETS
    return entry.timestamp_ms if entry.timestamp_ms > 0 else _NO_TIME


def find_standing(batch: BatchId, entries: Entries, batches: Batches) -> BatchStatus:
    """How a planned batch stands."""
    if batch in entries.damaged_offsets:
        return BatchStatus.OFFSETS_UNREADABLE
    if batch in entries.damaged_commits or batches.unlisted_log("commits"):
        return BatchStatus.COMMIT_UNREADABLE
    if batches.no_commit_log:
        return BatchStatus.NO if batch in batches.pending else BatchStatus.UNLOGGED
    held = spans_contain(batches.commit_spans, batch)
    if held:
        return BatchStatus.YES
    last = batches.last_committed
    return BatchStatus.MISSING if last is not None and batch < last else BatchStatus.NO


_Count = tuple[int | Unknown, str]


def _count_records(
    tree: CheckpointTree,
    entries: Entries,
    ids: Sequence[BatchId],
    sources: Sequence[SourceEvidence],
) -> dict[BatchId, _Count]:
    """How far each batch went, over all of its sources, if these count in the same unit."""
    found: dict[BatchId, _Count] = {}
    told = {one.name: one.described for one in sources}
    began = {one.name: one.began for one in sources}
    again = {one.name for one in sources if one.same_as is not None}
    before: Mapping[str, Json] | None = {} if ids[:1] == [0] == [tree.offsets.ids.first] else None
    for batch in ids:
        entry = entries.offsets.get(batch)
        if entry is None:
            found[batch], before = (_NO_OFFSETS, ""), None
            continue
        if any(kinesis.logs_beginnings(one.offset) for one in entry.sources):
            found[batch], before = (kinesis.NOT_LOGGED, ""), None
            continue
        ends = {one.source: one.offset for one in entry.sources if one.source not in again}
        ranges = {
            name: (
                source_offset.find_start((before or {}).get(name), began.get(name)),
                end,
            )
            for name, end in ends.items()
        }
        found[batch] = (_NO_BEFORE, "") if before is None else _sum_records(ranges, told)
        before = ends
    return found


def _sum_records(ranges: Mapping[str, tuple[Json, Json]], told: Mapping[str, str]) -> _Count:
    total, units = 0, set()
    for name, offsets in ranges.items():
        start, end = (source_offset.decode(one, described=told.get(name, "")) for one in offsets)
        consumed = source_offset.compute_consumed(start, end)
        if isinstance(consumed.total, Unknown):
            return _NOT_COUNTED, ""
        if consumed.unit or consumed.total:
            total += consumed.total
            units.add(consumed.unit)
    return (total, units.pop()) if len(units) == 1 else (_NOT_COUNTED, "")
