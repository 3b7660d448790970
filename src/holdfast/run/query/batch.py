"""The offset log -> a Batch: the range that a batch id stands for, and a digest of the range.

Spark writes `offsets/N` before it runs batch N, so a running batch always has an entry. For a file
source the digest covers the files themselves, from the source's own log: after a rewind the same
log offset can stand for different files. The first batch starts at the offset in `sources/<i>/0`,
if the source writes that file, as Kafka's does.

An entry has one line per use of a source in the query. Each source has one folder, numbered by its
first use: `orders.filter(…).union(orders.filter(…))` has two lines, and only the folder 0.

If the running query gives its own offsets (`own_offsets.py`), they are the range, because the query
reads its rows by them. An entry that contradicts them is refused.
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
_NO_FILE = Unreadable(reason="the file does not exist")


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The part of one source that one batch reads, from the end of the previous batch on."""

    source: str
    start: Json
    end: Json
    files: tuple[FileEntry, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _LastBatch:
    """The batch that the reader read last."""

    batch: BatchId
    entry: OffsetEntry
    digest: Digest


class OffsetReader:
    """A reader of the batches of one checkpoint; it keeps the last entry, to read each one once."""

    def __init__(self, store: Store, folder: str, writer: Writer) -> None:
        """Read the checkpoint in a folder of the store."""
        self._store = store
        self._folder = folder
        self._writer = writer
        self._last: _LastBatch | None = None

    def batch(self, batch: BatchId, own: OwnRange | Unknown = NOT_ASKED) -> Batch:
        """Return the batch with its range and digest; raise OffsetsUnreadable or OffsetsReplaced.

        `own` is the range that the running query gives for the batch.
        """
        end = self._read_entry(batch)
        if isinstance(own, Unknown) or own.end.version != end.version:
            start = self._read_before(batch)
        else:
            self._require_own(batch, end, own)
            start = own.start
        ranges = self._make_ranges(end, _map_offsets(start))
        digest = _compute_digest(ranges)
        before = self._digest_before(batch, start)
        self._last = _LastBatch(batch=batch, entry=end, digest=digest)
        return Batch(
            life=self._writer,
            id=batch,
            digest=digest,
            offsets=[{"source": r.source, "start": r.start, "end": r.end} for r in ranges],
            expected_rows=_count_expected_rows(ranges),
            begins=ends.read_entry(start) if start else {},
            before=before,
        )

    def entry(self, batch: BatchId) -> OffsetEntry | Unknown:
        """Return the current entry of a batch."""
        try:
            return self._read_entry(batch)
        except OffsetsUnreadable as error:
            return Unknown(reason=error.message)

    def digest(self, batch: BatchId, starts: EndOffsets | Unknown) -> Digest | Unknown:
        """Return the digest of a batch by its current entry and the given start offsets.

        If the start offsets are unknown, the batch starts where the previous entry ends.
        """
        try:
            end = self._read_entry(batch)
            if isinstance(starts, Unknown):
                starts = _map_offsets(self._read_before(batch))
            return _compute_digest(self._make_ranges(end, starts))
        except OffsetsUnreadable as error:
            return Unknown(reason=error.message)

    def _require_own(self, batch: BatchId, entry: OffsetEntry, own: OwnRange) -> None:
        """Raise if the entry is not the running query's: its range must not go into a ledger."""
        mismatch = ends.find_mismatch(ends.read_entry(own.end), ends.read_entry(entry))
        if mismatch is not None:
            raise OffsetsReplaced(
                f"another driver replaced `{self._writer.location}/offsets/{batch}` after the"
                f" running query wrote it: {mismatch}. Nothing was written",
                hint="stop every other driver of the job, and let the batch run again with the"
                " range that the file has now",
            )

    def _digest_before(self, batch: BatchId, start: OffsetEntry | None) -> Digest | Unknown:
        """Return the digest of the previous batch; only the first call of a start reads the log."""
        before = BatchId(batch - 1)
        if self._last is not None and self._last.batch == before:
            return self._last.digest
        if start is None:
            return Unknown(reason="no batch comes before this one")
        try:
            earlier = self._read_before(before)
            return _compute_digest(self._make_ranges(start, _map_offsets(earlier)))
        except (OffsetsUnreadable, StorageUnavailable) as error:
            return Unknown(reason=error.message)

    def _read_before(self, batch: BatchId) -> OffsetEntry | None:
        """Return the entry of the previous batch; None for the first batch."""
        if batch == 0:
            return None
        if self._last is not None and self._last.batch == batch - 1:
            return self._last.entry
        return self._read_entry(BatchId(batch - 1))

    def _read_entry(self, batch: BatchId) -> OffsetEntry:
        path = f"{self._folder}/offsets/{batch}"
        data = self._store.read(path)
        entry = _NO_FILE if isinstance(data, Missing) else offset_log.decode(data)
        if isinstance(entry, Unreadable):
            raise self._make_unreadable_error(path, entry)
        return entry

    def _make_ranges(self, end: OffsetEntry, starts: Mapping[str, Json]) -> list[Range]:
        """Return the range of each line of an entry.

        If no source is used twice, each line has its own folder. If a source is used twice, the
        last lines have no folder, or the folder with their number belongs to a different kind of
        source.
        """
        try:
            folders: Mapping[str, str] = {line.source: line.source for line in end.sources}
            return [
                self._make_range(line, starts.get(line.source), folders) for line in end.sources
            ]
        except OffsetsUnreadable:
            folders = self._match_folders(end, starts)
            if not folders:
                raise
        return [self._make_range(line, starts.get(line.source), folders) for line in end.sources]

    def _match_folders(self, end: OffsetEntry, starts: Mapping[str, Json]) -> Mapping[str, str]:
        """Return the folder of each line if lines share a source; empty if that is ambiguous.

        Lines that share a source have the same range. Some sources have no folder.
        """
        names = self._store.names(f"{self._folder}/sources")
        folders = sorted((name for name in names if name.isdecimal()), key=int)
        lines = [line for line in end.sources if line.offset is not None]
        file_lines = [line for line in lines if _parse_log_offset(line.offset) is not None]
        if len(folders) == 1:
            return dict.fromkeys((line.source for line in file_lines), folders[0])
        for candidates in (lines, file_lines):
            ranges = {
                line.source: json.to_canonical([starts.get(line.source), line.offset])
                for line in candidates
            }
            distinct = list(dict.fromkeys(ranges.values()))
            if len(distinct) == len(folders):
                return {name: folders[distinct.index(text)] for name, text in ranges.items()}
        return {}

    def _make_range(self, line: SourceOffset, start: Json, folders: Mapping[str, str]) -> Range:
        files: tuple[FileEntry, ...] = ()
        first, last = _parse_log_offset(start), _parse_log_offset(line.offset)
        if last is None and start is None and line.offset is not None:
            start = self._read_start(folders.get(line.source, line.source), line.offset)
        if last is not None:
            after = -1 if first is None else first
            files = tuple(
                entry
                for offset in range(after + 1, last + 1)
                for entry in self._read_files(folders[line.source], offset)
            )
        return Range(source=line.source, start=start, end=line.offset, files=files)

    def _read_start(self, source: str, end: Json) -> Json:
        """Return where the source starts, for its first batch; None if it does not record that.

        The digest needs the start, because first batches of two queries can have the same end and
        different starts. If a source is used twice, the folder with the number of a line can belong
        to a source with other topics; its start does not count.
        """
        data = self._store.read(f"{self._folder}/sources/{source}/0")
        start = None if isinstance(data, Missing) else source_start.decode(data)
        if not isinstance(start, SourceStart):
            return None
        topics = json.as_mapping(start.offset).keys()
        has_other_topics = isinstance(end, Mapping) and not end.keys() & topics
        return None if has_other_topics else start.offset

    def _read_files(self, source: str, log_offset: int) -> tuple[FileEntry, ...]:
        path = f"{self._folder}/sources/{source}/{log_offset}"
        data = self._store.read(path)
        if isinstance(data, Missing):
            return self._read_compacted(self._find_compact(source, log_offset), log_offset)
        entries = file_source_log.decode(data)
        if isinstance(entries, Unreadable):
            raise self._make_unreadable_error(path, entries)
        return entries

    def _find_compact(self, source: str, log_offset: int) -> str:
        """Return the first compact entry at or after a log offset.

        Spark deletes the plain entries before a compact entry.
        """
        folder = f"{self._folder}/sources/{source}"
        names = (
            name.removesuffix(".compact")
            for name in self._store.names(folder)
            if name.endswith(".compact")
        )
        later = [int(name) for name in names if name.isdecimal() and int(name) >= log_offset]
        return f"{folder}/{min(later, default=log_offset)}.compact"

    def _read_compacted(self, path: str, log_offset: int) -> tuple[FileEntry, ...]:
        """Return the files of one log offset from a compact entry, reading no more than needed.

        A compact entry lists every file that the source ever took, the newest at the end.
        """
        size = _TAIL_BYTES
        while True:
            data = self._store.read(path, last=size)
            if isinstance(data, Missing):
                raise self._make_unreadable_error(path, _NO_FILE)
            is_whole = len(data) < size
            entries = file_source_log.decode(data, whole=is_whole)
            if isinstance(entries, Unreadable):
                raise self._make_unreadable_error(path, entries)
            if is_whole or (entries and entries[0].log_offset < log_offset):
                return tuple(entry for entry in entries if entry.log_offset == log_offset)
            size *= 8

    def _make_unreadable_error(self, path: str, unreadable: Unreadable) -> OffsetsUnreadable:
        file = f"{self._writer.location}/{path.removeprefix(f'{self._folder}/')}"
        return OffsetsUnreadable(
            f"cannot read the range of the running batch from `{file}`: {unreadable.reason}",
            hint=f"check `{file}`; nothing was written for this batch",
        )


def _map_offsets(entry: OffsetEntry | None) -> Mapping[str, Json]:
    return {line.source: line.offset for line in entry.sources} if entry else {}


def _compute_digest(ranges: list[Range]) -> Digest:
    text = json.to_canonical([_to_digest_input(source_range) for source_range in ranges])
    return Digest(hashlib.sha256(text.encode()).hexdigest())


def _parse_log_offset(offset: Json) -> int | None:
    value = offset.get("logOffset") if isinstance(offset, Mapping) else None
    return value if isinstance(value, int) else None


def _to_digest_input(source_range: Range) -> Json:
    if source_range.files:
        files = source_range.files
        return [source_range.source, [[file.path, file.timestamp_ms] for file in files]]
    return [source_range.source, source_range.start, source_range.end]


def _count_expected_rows(ranges: list[Range]) -> int | Unknown:
    """Return how many rows the offsets stand for; only Kafka's offsets count rows."""
    total = 0
    for source_range in ranges:
        rows = _count_kafka_rows(source_range.start, source_range.end)
        if rows is None:
            return Unknown(reason=f"the offsets of source {source_range.source} do not count rows")
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
