"""The newest entries of both logs -> one row per batch."""

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
_COPIED = Unknown(
    reason="the commit files are newer than the batches after them, so they were copied"
)
_COPIED_ENTRY = Unknown(reason="its offset entry was written long after its time, so it was copied")
_SLACK_MS = 5_000
_LONGEST_PLANNING_MS = 60_000
_NOT_COUNTED = Unknown(reason="the offsets of its sources count in different units")
_NOT_RECORDED = Unknown(reason="no run record or event log contains it")
_COUNTED_BATCHES = 32
_NOT_AMONG_NEWEST = Unknown(reason=f"only the newest {_COUNTED_BATCHES} batches are counted")
_NO_PREVIOUS = Unknown(reason="the entry before it was not read")


def build(
    tree: CheckpointTree,
    entries: Entries,
    rows: Mapping[BatchId, int],
    sources: Sequence[SourceEvidence],
    batches: Batches,
) -> tuple[TimelineBatch, ...]:
    """Return the batches that were read, oldest first; `sources` are those of the newest."""
    ids = sorted({*entries.offsets, *entries.damaged_offsets})
    times = _find_commit_times(tree, entries)
    counted = _count_records(tree, entries, ids[-_COUNTED_BATCHES:], sources)
    return tuple(
        TimelineBatch(
            batch=batch,
            planned_ms=_find_planned_time(entries.offsets.get(batch)),
            committed_ms=times.get(batch, _NOT_COMMITTED),
            rows=rows.get(batch, _NOT_RECORDED),
            records=counted.get(batch, (_NOT_AMONG_NEWEST, ""))[0],
            unit=counted.get(batch, (_NOT_AMONG_NEWEST, ""))[1],
            watermark_ms=entries.offsets[batch].watermark_ms
            if batch in entries.offsets
            else _NO_OFFSETS,
            standing=find_standing(batch, entries, batches),
        )
        for batch in ids
    )


def _find_commit_times(tree: CheckpointTree, entries: Entries) -> Mapping[BatchId, int | Unknown]:
    """Return when commits were written, by the times of their files, if these can be right.

    Spark plans a batch after it has committed the previous one, and writes the offset entry as soon
    as the batch is planned. If a file is newer than that, it was copied, and its time is the time
    of the copy.
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
    """Return the status of a planned batch."""
    if batch in entries.damaged_offsets:
        return BatchStatus.OFFSETS_UNREADABLE
    if batch in entries.damaged_commits or batches.unlisted_log("commits"):
        return BatchStatus.COMMIT_UNREADABLE
    if batches.no_commit_log:
        return BatchStatus.NO if batch in batches.pending else BatchStatus.UNLOGGED
    if spans_contain(batches.commit_spans, batch):
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
    """Return how much each batch consumed from all its sources, if they share a unit."""
    counts: dict[BatchId, _Count] = {}
    descriptions = {source.name: source.described for source in sources}
    began = {source.name: source.began for source in sources}
    repeated = {source.name for source in sources if source.same_as is not None}
    before: Mapping[str, Json] | None = {} if ids[:1] == [0] == [tree.offsets.ids.first] else None
    for batch in ids:
        entry = entries.offsets.get(batch)
        if entry is None:
            counts[batch], before = (_NO_OFFSETS, ""), None
            continue
        if any(kinesis.logs_beginnings(source.offset) for source in entry.sources):
            counts[batch], before = (kinesis.NOT_LOGGED, ""), None
            continue
        ends = {s.source: s.offset for s in entry.sources if s.source not in repeated}
        ranges = {
            name: (
                source_offset.find_start((before or {}).get(name), began.get(name)),
                end,
            )
            for name, end in ends.items()
        }
        counts[batch] = (_NO_PREVIOUS, "") if before is None else _sum_records(ranges, descriptions)
        before = ends
    return counts


def _sum_records(
    ranges: Mapping[str, tuple[Json, Json]], descriptions: Mapping[str, str]
) -> _Count:
    total, units = 0, set()
    for name, offsets in ranges.items():
        described = descriptions.get(name, "")
        start, end = (source_offset.decode(offset, described=described) for offset in offsets)
        consumed = source_offset.compute_consumed(start, end)
        if isinstance(consumed.total, Unknown):
            return _NOT_COUNTED, ""
        if consumed.unit or consumed.total:
            total += consumed.total
            units.add(consumed.unit)
    return (total, units.pop()) if len(units) == 1 else (_NOT_COUNTED, "")
