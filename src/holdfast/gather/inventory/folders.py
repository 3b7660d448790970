"""Summaries of the files in the folders of a checkpoint: a log, a source, a state store."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.gather.inventory.spans import Spans
from holdfast.model.checkpoint import CheckpointFile
from holdfast.storage import File

RECENT = 101
"""Spark keeps this many entries of a log by default; no more are read from any log."""
RECENT_CHANGES = 16
"""For this many versions of a state store, the write times of changes, or their ids, are kept."""
_MOST_OF_ONE = 16

ClassifiedFile = tuple[CheckpointFile, File]
"""What the name of a file says, and the file."""
StoreKey = tuple[int, int, str]
"""Operator, partition and store."""


@dataclass(slots=True)
class LogFiles:
    """The ids in a folder of numbered files, and when the newest were written."""

    ids: Spans = field(default_factory=Spans)
    modified_ms: dict[int, int] = field(default_factory=dict)

    def add(self, written: list[tuple[int, int]]) -> None:
        """Add ids with the times at which they were written."""
        self.ids.add([number for number, _ in written])
        self.modified_ms.update(written)
        if len(self.modified_ms) > 4 * RECENT:
            newest = sorted(self.modified_ms)[-RECENT:]
            self.modified_ms = {number: self.modified_ms[number] for number in newest}

    def keep(self, first: int, last: int) -> None:
        """Drop the ids before `first` and after `last`."""
        self.ids.keep(first, last)
        self.modified_ms = {n: at for n, at in self.modified_ms.items() if first <= n <= last}


@dataclass(slots=True)
class SourceFolder:
    """The folder of one source."""

    entries: Spans = field(default_factory=Spans)
    compacts: Spans = field(default_factory=Spans)
    private: list[str] = field(default_factory=list)


@dataclass(slots=True)
class MetadataFiles:
    """The metadata files of an operator: one in version 1, one per run in version 2."""

    single: str = ""
    folder: str = ""
    batches: Spans = field(default_factory=Spans)

    def add(self, prefix: str, entries: Sequence[ClassifiedFile]) -> None:
        """Add files of either version."""
        batches = [named.number for named, _ in entries if named.number is not None]
        if batches:
            self.folder = prefix
            self.batches.add(batches)
        else:
            self.single = prefix + entries[0][1].name

    def find_for(self, batch: int) -> str:
        """Return the file that Spark reads for a batch: the newest up to that batch."""
        before = self.batches.before(batch + 1)
        if before is not None:
            return f"{self.folder}{before}"
        return "" if self.batches else self.single

    def find_for_or_newest(self, batch: int) -> str:
        """Return the file that Spark reads for a batch, or the newest if it reads none."""
        return self.find_for(batch) or f"{self.folder}{self.batches.last}"


class FileSizes:
    """The sizes of many files in sixteen bytes each: only the hash of a name is kept."""

    __slots__ = ("_names", "_sizes")

    def __init__(self) -> None:
        self._names = array("q")
        self._sizes = array("q")

    def add(self, files: Iterable[File]) -> None:
        """Add files."""
        for file in files:
            self._names.append(hash(file.name))
            self._sizes.append(file.size)

    def by_name(self) -> Mapping[int, int]:
        """Return the sizes by the hashes of the names."""
        return dict(zip(self._names, self._sizes, strict=True))


@dataclass(slots=True)
class StoreFiles:
    """The files of one state store in one partition.

    `snapshots` has no empty snapshots. `empty_ids` are the empty ones with unique ids.
    """

    changes: Spans = field(default_factory=Spans)
    snapshots: Spans = field(default_factory=Spans)
    empty_snapshots: Spans = field(default_factory=Spans)
    empty_ids: list[tuple[int, str]] = field(default_factory=list)
    rocksdb: FileSizes = field(default_factory=FileSizes)
    newest_snapshots: tuple[int, tuple[str, ...]] = (-1, ())
    written_ms: dict[int, int] = field(default_factory=dict)
    unique_ids: dict[int, set[str]] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0

    @property
    def latest(self) -> int:
        """The highest version that has a file; 0 if there is none."""
        return max(self.changes.last or 0, self.snapshots.last or 0)

    def add_changes(self, entries: Sequence[ClassifiedFile]) -> None:
        """Add change files, and when the newest were written.

        A version with a unique id in its name is never overwritten, so its time is not kept.
        """
        self.changes.add([n.number for n, _ in entries if n.number is not None])
        if entries[0][0].unique_id:
            self._identify(entries)
            return
        after = self.latest - RECENT_CHANGES
        for named, file in entries:
            if (named.number or 0) > after:
                self.written_ms[named.number or 0] = file.modified_ms
        if len(self.written_ms) > RECENT_CHANGES:
            self.written_ms = {n: at for n, at in self.written_ms.items() if n > after}

    def add_snapshots(self, prefix: str, entries: Sequence[ClassifiedFile]) -> None:
        """Add snapshots; a version may have several, with unique ids."""
        self.snapshots.add([n.number for n, _ in entries if n.number is not None])
        newest = max(n.number or 0 for n, _ in entries)
        paths = tuple(prefix + file.name for n, file in entries if n.number == newest)
        if newest > self.newest_snapshots[0]:
            self.newest_snapshots = (newest, paths[:_MOST_OF_ONE])
        elif newest == self.newest_snapshots[0]:
            known = self.newest_snapshots[1]
            self.newest_snapshots = (newest, (*known, *paths)[:_MOST_OF_ONE])
        if entries[0][0].unique_id:
            self._identify(entries)

    def add_empty_snapshots(self, entries: Sequence[ClassifiedFile]) -> None:
        """Add snapshots of zero bytes."""
        if entries[0][0].unique_id:
            self.empty_ids += [(n.number or 0, n.unique_id) for n, _ in entries]
            self.empty_ids = sorted(self.empty_ids)[-RECENT_CHANGES:]
        else:
            self.empty_snapshots.add([n.number for n, _ in entries if n.number is not None])

    def _identify(self, entries: Sequence[ClassifiedFile]) -> None:
        """Keep the unique ids of the newest versions."""
        after = self.latest - RECENT_CHANGES
        for named, _ in entries:
            if named.unique_id and (named.number or 0) > after:
                self.unique_ids.setdefault(named.number or 0, set()).add(named.unique_id)
        if len(self.unique_ids) > RECENT_CHANGES:
            self.unique_ids = {n: ids for n, ids in self.unique_ids.items() if n > after}
