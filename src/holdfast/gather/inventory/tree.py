"""The listing of a checkpoint -> what its names say.

Everything is summarised as it streams: ids become spans, sizes become sums. Memory grows with the
number of logs, operators and partitions, not with the number of files. The only exception are
RocksDB files, which snapshots name: sixteen bytes are kept for each.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdfast.decode import names
from holdfast.gather.inventory.folders import (
    ClassifiedFile,
    LogFiles,
    MetadataFiles,
    SourceFolder,
    StoreFiles,
    StoreKey,
)
from holdfast.gather.inventory.read import make_unreadable
from holdfast.gather.inventory.spans import Spans
from holdfast.model.checkpoint import CheckpointFile, FileKind
from holdfast.model.evidence import Amount
from holdfast.model.fact import UnreadableFile
from holdfast.storage import Portion, Refused

_MOST_LISTED = 100
_CHANGES = frozenset({FileKind.STATE_DELTA, FileKind.STATE_CHANGELOG})
_SNAPSHOTS = frozenset({FileKind.STATE_SNAPSHOT, FileKind.STATE_ZIP})
_DATA = _CHANGES | _SNAPSHOTS
_OF_ROCKSDB = frozenset({FileKind.STATE_SST, FileKind.STATE_LOG})

_PARTITION = re.compile(r"state/(0|[1-9][0-9]{0,17})/(0|[1-9][0-9]{0,17})")
_MOST_CLASSIFIED = 20_000

OnProgress = Callable[[int, float], None]
"""Called while files are listed, with their number and the share of the folders that is done."""


@dataclass(slots=True)
class CheckpointTree:
    """What the names in a checkpoint say."""

    logs: dict[FileKind, LogFiles] = field(
        default_factory=lambda: {FileKind.OFFSETS: LogFiles(), FileKind.COMMITS: LogFiles()}
    )
    sources: dict[str, SourceFolder] = field(default_factory=dict)
    stores: dict[StoreKey, StoreFiles] = field(default_factory=dict)
    operator_metadata: dict[int, MetadataFiles] = field(default_factory=dict)
    schemas: dict[tuple[int, str], tuple[int, str]] = field(default_factory=dict)
    amounts: dict[FileKind, list[int]] = field(default_factory=dict)
    kinds_of_state: set[tuple[FileKind, bool]] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    nonempty_folders: set[str] = field(default_factory=set)
    checksums: dict[str, Spans] = field(default_factory=dict)
    metadata_checksum: bool = False
    foreign: list[str] = field(default_factory=list)
    nested: set[str] = field(default_factory=set)
    misplaced: dict[str, str] = field(default_factory=dict)
    refused: list[UnreadableFile] = field(default_factory=list)
    refused_more: int = 0
    newest_ms: int = 0
    listed: int = 0
    _classified: dict[str, CheckpointFile] = field(default_factory=dict)

    @property
    def offsets(self) -> LogFiles:
        """The offset log."""
        return self.logs[FileKind.OFFSETS]

    @property
    def commits(self) -> LogFiles:
        """The commit log."""
        return self.logs[FileKind.COMMITS]

    def files(self) -> dict[FileKind, Amount]:
        """Return count and bytes by kind, in the order of the kinds."""
        return {
            kind: Amount(count=self.amounts[kind][0], bytes=self.amounts[kind][1])
            for kind in FileKind
            if kind in self.amounts
        }

    def refuse(self, *refused: Refused) -> None:
        """Note what could not be read: some by name, the others only by number.

        A whole log or the whole state is always named, because a fact may depend on it.
        """
        for refusal in refused:
            if len(self.refused) < _MOST_LISTED or "/" not in refusal.path:
                self.refused.append(make_unreadable(refusal.path, refusal))
            else:
                self.refused_more += 1

    def keep(self, kind: FileKind, first: int, last: int) -> None:
        """Drop the entries of a log before `first` and after `last`, and their checksums."""
        self.logs[kind].keep(first, last)
        if f"{kind.value}/" in self.checksums:
            self.checksums[f"{kind.value}/"].keep(first, last)

    def find_refused(self, folder: str) -> tuple[UnreadableFile, ...]:
        """Return what could not be read in a folder: the folder itself, or something in it."""
        return tuple(file for file in self.refused if f"{file.path}/".startswith(f"{folder}/"))

    def add(self, portion: Portion) -> None:
        """Add some files of one folder."""
        self.listed += len(portion.files)
        nested = _find_nested(portion.folder)
        if nested is not None and len(self.nested) < _MOST_LISTED:
            self.nested.add(nested)
        prefix = f"{portion.folder}/" if portion.folder else ""
        for kind, entries in self._by_kind(portion, prefix).items():
            amount = self.amounts.setdefault(kind, [0, 0])
            amount[0] += len(entries)
            amount[1] += sum(file.size for _, file in entries)
            newest_ms = max(file.modified_ms for _, file in entries)
            self.newest_ms = max(self.newest_ms, newest_ms)
            if kind is not FileKind.HADOOP_CHECKSUM:
                self.nonempty_folders.add(portion.folder.partition("/")[0])
            self._take(kind, prefix, entries)

    def _by_kind(self, portion: Portion, prefix: str) -> dict[FileKind, list[ClassifiedFile]]:
        """Return the files of a portion by kind.

        The partitions of an operator have files of the same names. So what a name says is
        remembered, and only the first file of each kind is classified with its folder.
        """
        classified = self._classified if _PARTITION.fullmatch(portion.folder) else {}
        by_kind: dict[FileKind, list[ClassifiedFile]] = {}
        for file in portion.files:
            name = classified.get(file.name)
            if name is None:
                name = names.classify(prefix + file.name)
                if len(classified) < _MOST_CLASSIFIED:
                    classified[file.name] = name
            if name.kind in by_kind:
                by_kind[name.kind].append((name, file))
            else:
                by_kind[name.kind] = [(names.classify(prefix + file.name), file)]
        return by_kind

    def _take(self, kind: FileKind, prefix: str, entries: Sequence[ClassifiedFile]) -> None:
        match kind:
            case FileKind.OFFSETS | FileKind.COMMITS:
                self.logs[kind].add([(n.number or 0, file.modified_ms) for n, file in entries])
            case FileKind.SOURCE_LOG | FileKind.SOURCE_COMPACT | FileKind.SOURCE_PRIVATE:
                self._take_source(kind, prefix, entries)
            case FileKind.OPERATOR_METADATA | FileKind.STATE_SCHEMA:
                self._take_described(kind, prefix, entries)
            case FileKind.HADOOP_CHECKSUM if not prefix.startswith("state/"):
                self._take_checksums(prefix, entries)
            case FileKind.FOREIGN:
                self._take_misplaced(prefix, entries)
                room = _MOST_LISTED - len(self.foreign)
                self.foreign += [prefix + file.name for _, file in entries[: max(0, room)]]
            case _:
                self._take_state(kind, prefix, entries)

    def _take_checksums(self, prefix: str, entries: Sequence[ClassifiedFile]) -> None:
        """Add the hidden checksums of log entries, by the ids of their entries."""
        ids = [n.number for n, _ in entries if n.number is not None]
        self.checksums.setdefault(prefix, Spans()).add(ids)
        self.metadata_checksum |= any(n.covers == "metadata" for n, _ in entries)

    def _take_source(self, kind: FileKind, prefix: str, entries: Sequence[ClassifiedFile]) -> None:
        source = self.sources.setdefault(entries[0][0].source, SourceFolder())
        ids = [n.number for n, _ in entries if n.number is not None]
        match kind:
            case FileKind.SOURCE_LOG:
                source.entries.add(ids)
            case FileKind.SOURCE_COMPACT:
                source.compacts.add(ids)
            case _:
                source.private += [prefix + file.name for _, file in entries[:_MOST_LISTED]]
                del source.private[_MOST_LISTED:]

    def _take_described(
        self, kind: FileKind, prefix: str, entries: Sequence[ClassifiedFile]
    ) -> None:
        """Add metadata or schemas; only the newest schema is kept, metadata names those in use."""
        first = entries[0][0]
        operator = first.operator or 0
        if kind is FileKind.OPERATOR_METADATA:
            self.operator_metadata.setdefault(operator, MetadataFiles()).add(prefix, entries)
        elif not first.partition:
            # Version 1 is one file without a number; Spark reads only that of partition 0.
            newest = max((-1 if n.number is None else n.number, file.name) for n, file in entries)
            schema = (newest[0], prefix + newest[1])
            key = (operator, first.store)
            self.schemas[key] = max(schema, self.schemas.get(key, schema))

    def _take_state(self, kind: FileKind, prefix: str, entries: Sequence[ClassifiedFile]) -> None:
        first = entries[0][0]
        # Spark never names a store with a number: this is a partition, copied into another.
        if first.store.isdecimal() and kind in _DATA:
            self._take_misplaced(prefix, entries)
        if first.operator is None or first.partition is None or first.store.isdecimal():
            return
        key = (first.operator, first.partition, first.store)
        store = self.stores.setdefault(key, StoreFiles())
        store.files += len(entries)
        store.bytes += sum(file.size for _, file in entries)
        if kind in _DATA or kind is FileKind.SPARK_CHECKSUM:
            self.kinds_of_state.add((kind, bool(first.unique_id)))
        if kind in _DATA:
            self._take_data(kind, prefix, store, entries)
        elif kind in _OF_ROCKSDB:
            store.rocksdb.add(file for _, file in entries)

    def _take_misplaced(self, prefix: str, entries: Sequence[ClassifiedFile]) -> None:
        """Note a folder with state files at a level where Spark does not look for them."""
        if any(names.is_state_data(file.name) for _, file in entries):
            partition = names.find_misplaced_partition(prefix.removesuffix("/"))
            if partition is not None and len(self.misplaced) < _MOST_LISTED:
                self.misplaced[partition[0]] = partition[1]

    def _take_data(
        self, kind: FileKind, prefix: str, store: StoreFiles, entries: Sequence[ClassifiedFile]
    ) -> None:
        """Add changes and snapshots; an empty file is damaged, even for a version without rows."""
        empty = [(name, file) for name, file in entries if not file.size]
        if empty:
            self.refuse(*(Refused(path=prefix + file.name, reason="empty") for _, file in empty))
            entries = [(name, file) for name, file in entries if file.size]
        if empty and kind in _SNAPSHOTS:
            store.add_empty_snapshots(empty)
        if entries and kind in _CHANGES:
            store.add_changes(entries)
        elif entries:
            store.add_snapshots(prefix, entries)


def ignore_progress(_files: int, _share: float) -> None:
    """Ignore the progress of a listing."""


def _find_nested(folder: str) -> str | None:
    """Return the nested checkpoint that a folder belongs to, or None.

    Iceberg's `sources/0/offsets` does not belong to a checkpoint.
    """
    above, _, name = folder.rpartition("/")
    if name not in ("offsets", "commits") or not above or above.startswith("sources/"):
        return None
    return above
