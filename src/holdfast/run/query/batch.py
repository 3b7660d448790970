"""The offset log -> a Batch: which range a batch id stands for, and a digest of it.

Spark writes `offsets/N` before it runs batch N, so the range is always there to read. For a file
source the digest covers the files themselves, from the source's own log: after a rewind the same
log offset can mean other files. The first batch begins where the source's own `sources/<i>/0` says,
as Kafka's does.

An entry has a line for each use of a source in the query, and each source has one folder, numbered
by its first use: `orders.filter(…).union(orders.filter(…))` has two lines and the folder 0.

Where the running query says its own offsets (`own_offsets.py`), these are the range, because the
rows are theirs, and an entry that says something else is refused.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.decode import file_source_log, offset_log, source_start
from holdfast.errors import OffsetsReplaced, OffsetsUnreadable, StorageUnavailable
from holdfast.model import ends, json
from holdfast.model.batch import Batch, EndOffsets, Writer
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.ids import BatchId, Digest
from holdfast.model.json import Json
from holdfast.model.offsets import FileEntry, OffsetEntry, SourceOffset, SourceStart
from holdfast.run.query.own_offsets import NOT_ASKED, OwnRange
from holdfast.storage import Missing, Store

_TAIL_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What one source gave to one batch: from the end of the batch before to the end of this."""

    source: str
    start: Json
    end: Json
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastBatch:
    """The batch that was read last."""

    batch: BatchId
    entry: OffsetEntry
    digest: Digest


class OffsetReader:
    """Reads batches of one checkpoint, remembering the last entry so that each is read once."""

    def __init__(self, store: Store, folder: str, life: Writer) -> None:
        """Read the checkpoint in a folder of the store."""
        self._store = store
        self._folder = folder
        self._life = life
        self._last: _LastBatch | None = None

    def batch(self, batch: BatchId, own: OwnRange | Unknown = NOT_ASKED) -> Batch:
        """The batch, with its range and digest; raises OffsetsUnreadable or OffsetsReplaced."""
        end = self._entry(batch)
        if isinstance(own, Unknown) or own.ends.version != end.version:
            start = self._before(batch)
        else:
            self._require_own(batch, end, own)
            start = own.begins
        ranges = self._ranges(end, _map_offsets(start))
        digest = _compute_digest(ranges)
        before = self._digest_before(batch, start)
        self._last = _LastBatch(batch=batch, entry=end, digest=digest)
        return Batch(
            life=self._life,
            id=batch,
            digest=digest,
            offsets=[{"source": r.source, "start": r.start, "end": r.end} for r in ranges],
            expected_rows=_count_expected_rows(ranges),
            begins=ends.read_entry(start) if start else {},
            before=before,
        )

    def entry(self, batch: BatchId) -> OffsetEntry | Unknown:
        """Return the entry of a batch as it is now."""
        try:
            return self._entry(batch)
        except OffsetsUnreadable as error:
            return Unknown(reason=error.message)

    def digest(self, batch: BatchId, starts: EndOffsets | Unknown) -> Digest | Unknown:
        """Return the digest of a batch as the log has it now, beginning where it is said to."""
        try:
            end = self._entry(batch)
            known = _map_offsets(self._before(batch)) if isinstance(starts, Unknown) else starts
            return _compute_digest(self._ranges(end, known))
        except OffsetsUnreadable as error:
            return Unknown(reason=error.message)

    def _require_own(self, batch: BatchId, entry: OffsetEntry, own: OwnRange) -> None:
        """Raise if the entry is not what the query runs: nothing may be recorded by it."""
        moved = ends.find_mismatch(ends.read_entry(own.ends), ends.read_entry(entry))
        if moved is not None:
            raise OffsetsReplaced(
                f"expected `{self._life.location}/offsets/{batch}` as the running query wrote it,"
                f" found that another driver replaced it: {moved}. Nothing was written",
                hint="let the batch run again, over the range that the file has now; end every"
                " other driver of the job",
            )

    def _digest_before(self, batch: BatchId, start: OffsetEntry | None) -> Digest | Unknown:
        """Return the digest of the batch before this one; read from the log once per start."""
        before = BatchId(batch - 1)
        if self._last is not None and self._last.batch == before:
            return self._last.digest
        if start is None:
            return Unknown(reason="no batch comes before this one")
        try:
            earlier = self._before(before)
            return _compute_digest(self._ranges(start, _map_offsets(earlier)))
        except (OffsetsUnreadable, StorageUnavailable) as error:
            return Unknown(reason=error.message)

    def _before(self, batch: BatchId) -> OffsetEntry | None:
        if batch == 0:
            return None
        if self._last is not None and self._last.batch == batch - 1:
            return self._last.entry
        return self._entry(BatchId(batch - 1))

    def _entry(self, batch: BatchId) -> OffsetEntry:
        path = f"{self._folder}/offsets/{batch}"
        data = self._store.read(path)
        entry = (
            Unreadable(reason="there is no such file")
            if isinstance(data, Missing)
            else offset_log.decode(data)
        )
        if isinstance(entry, Unreadable):
            raise self._unreadable(path, entry)
        return entry

    def _ranges(self, end: OffsetEntry, known: Mapping[str, Json]) -> list[Range]:
        """What each line of an entry stands for.

        Where no source is used twice, each line has a folder of its own. Where one is, the last of
        the lines has none, or that of another kind of source.
        """
        try:
            folders: Mapping[str, str] = {one.source: one.source for one in end.sources}
            return [self._range(one, known.get(one.source), folders) for one in end.sources]
        except OffsetsUnreadable:
            folders = self._shared(end, known)
            if not folders:
                raise
        return [self._range(one, known.get(one.source), folders) for one in end.sources]

    def _shared(self, end: OffsetEntry, known: Mapping[str, Json]) -> Mapping[str, str]:
        """The folders of lines of which some are of one source; nothing where none can be told.

        Lines of one source have one range. Some sources have no folder.
        """
        names = self._store.names(f"{self._folder}/sources")
        there = sorted((name for name in names if name.isdecimal()), key=int)
        lines = [one for one in end.sources if one.offset is not None]
        of_files = [one for one in lines if _parse_log_offset(one.offset) is not None]
        if len(there) == 1:
            return dict.fromkeys((one.source for one in of_files), there[0])
        for some in (lines, of_files):
            ranges = {
                one.source: json.to_canonical([known.get(one.source), one.offset]) for one in some
            }
            different = list(dict.fromkeys(ranges.values()))
            if len(different) == len(there):
                return {name: there[different.index(one)] for name, one in ranges.items()}
        return {}

    def _range(self, source: SourceOffset, start: Json, folders: Mapping[str, str]) -> Range:
        files: tuple[FileEntry, ...] = ()
        first, last = _parse_log_offset(start), _parse_log_offset(source.offset)
        if last is None and start is None and source.offset is not None:
            start = self._begun(folders.get(source.source, source.source), source.offset)
        if last is not None:
            after = -1 if first is None else first
            files = tuple(
                entry
                for offset in range(after + 1, last + 1)
                for entry in self._files(folders[source.source], offset)
            )
        return Range(source=source.source, start=start, end=source.offset, files=files)

    def _begun(self, source: str, end: Json) -> Json:
        """Where a source begins that no batch has read from; nothing where it does not keep that.

        Two queries that end their first batch at one place need not have begun at one. Of a source
        that is used twice, the folder by the number of a line may be that of other topics.
        """
        data = self._store.read(f"{self._folder}/sources/{source}/0")
        begun = None if isinstance(data, Missing) else source_start.decode(data)
        if not isinstance(begun, SourceStart):
            return None
        other = isinstance(end, Mapping) and not end.keys() & json.as_mapping(begun.offset).keys()
        return None if other else begun.offset

    def _files(self, source: str, log_offset: int) -> tuple[FileEntry, ...]:
        path = f"{self._folder}/sources/{source}/{log_offset}"
        data = self._store.read(path)
        if isinstance(data, Missing):
            return self._compacted(self._compact(source, log_offset), log_offset)
        entries = file_source_log.decode(data)
        if isinstance(entries, Unreadable):
            raise self._unreadable(path, entries)
        return entries

    def _compact(self, source: str, log_offset: int) -> str:
        """The first compact entry from a log offset on: Spark cleans plain entries below one."""
        folder = f"{self._folder}/sources/{source}"
        names = (
            name.removesuffix(".compact")
            for name in self._store.names(folder)
            if name.endswith(".compact")
        )
        later = [int(name) for name in names if name.isdecimal() and int(name) >= log_offset]
        return f"{folder}/{min(later, default=log_offset)}.compact"

    def _compacted(self, path: str, log_offset: int) -> tuple[FileEntry, ...]:
        """The files of one log offset from a compact entry, reading only as much as is needed.

        A compact entry holds every file that the source ever took; its own stand at the end.
        """
        size = _TAIL_BYTES
        while True:
            data = self._store.read(path, last=size)
            if isinstance(data, Missing):
                raise self._unreadable(path, Unreadable(reason="there is no such file"))
            whole = len(data) < size
            entries = file_source_log.decode(data, whole=whole)
            if isinstance(entries, Unreadable):
                raise self._unreadable(path, entries)
            own = tuple(entry for entry in entries if entry.log_offset == log_offset)
            if whole or (entries and entries[0].log_offset < log_offset):
                return own
            size *= 8

    def _unreadable(self, path: str, found: Unreadable) -> OffsetsUnreadable:
        part = path.removeprefix(f"{self._folder}/")
        return OffsetsUnreadable(
            f"expected to read the running batch in `{self._life.location}/{part}`, found:"
            f" {found.reason}",
            hint=f"look at `{self._life.location}/{part}`; nothing was written for this batch",
        )


def _map_offsets(entry: OffsetEntry | None) -> Mapping[str, Json]:
    return {one.source: one.offset for one in entry.sources} if entry else {}


def _compute_digest(ranges: list[Range]) -> Digest:
    text = json.to_canonical([_to_digest_input(one) for one in ranges])
    return Digest(hashlib.sha256(text.encode()).hexdigest())


def _parse_log_offset(offset: Json) -> int | None:
    value = offset.get("logOffset") if isinstance(offset, Mapping) else None
    return value if isinstance(value, int) else None


def _to_digest_input(of: Range) -> Json:
    if of.files:
        return [of.source, [[entry.path, entry.timestamp_ms] for entry in of.files]]
    return [of.source, of.start, of.end]


def _count_expected_rows(ranges: list[Range]) -> int | Unknown:
    """How many rows the offsets promise: Kafka's offsets count rows, others do not."""
    total = 0
    for one in ranges:
        rows = _count_kafka_rows(one.start, one.end)
        if rows is None:
            return Unknown(reason=f"the offsets of source {one.source} do not count rows")
        total += rows
    return total


def _count_kafka_rows(start: Json, end: Json) -> int | None:
    if not isinstance(end, Mapping) or not end:
        return None
    earlier = json.as_mapping(start)
    rows = 0
    for topic, partitions in end.items():
        if not isinstance(partitions, Mapping):
            return None
        before = json.as_mapping(earlier.get(topic))
        for partition, offset in partitions.items():
            first = before.get(partition, 0)
            if not isinstance(offset, int) or not isinstance(first, int):
                return None
            rows += max(0, offset - first)
    return rows
