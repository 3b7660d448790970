"""What the names in the folders of a checkpoint are folded into: a log, a source, a state store."""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.gather.inventory.spans import Spans
from holdfast.model.checkpoint import CheckpointFile
from holdfast.storage import File

RECENT = 101
"""Spark keeps so many entries of a log by default; more than these are not read of any log."""
RECENT_CHANGES = 16
"""Of so many versions of a state store it is kept when their changes were written, or their ids."""
_MOST_OF_ONE = 16

ClassifiedFile = tuple[CheckpointFile, File]
"""What a name says, and the file of that name."""
StoreKey = tuple[int, int, str]
"""Operator, partition and store."""


@dataclass(slots=True)
class LogFiles:
    """The ids in a folder of numbered files, and when the newest were written."""

    ids: Spans = field(default_factory=Spans)
    modified_ms: dict[int, int] = field(default_factory=dict)

    def add(self, found: list[tuple[int, int]]) -> None:
        """Take in ids with the times they were written at."""
        self.ids.add([number for number, _ in found])
        self.modified_ms.update(found)
        if len(self.modified_ms) > 4 * RECENT:
            newest = sorted(self.modified_ms)[-RECENT:]
            self.modified_ms = {number: self.modified_ms[number] for number in newest}

    def keep(self, first: int, last: int) -> None:
        """Leave out the ids before one, and those after another."""
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
    """The files of an operator's metadata: one of version 1, one of version 2 for every run."""

    single: str = ""
    folder: str = ""
    batches: Spans = field(default_factory=Spans)

    def add(self, prefix: str, entries: Sequence[ClassifiedFile]) -> None:
        """Take in files of either version."""
        batches = [named.number for named, _ in entries if named.number is not None]
        if batches:
            self.folder = prefix
            self.batches.add(batches)
        else:
            self.single = prefix + entries[0][1].name

    def find_for(self, batch: int) -> str:
        """The file that Spark reads for a batch: the newest of version 2 that is no later."""
        before = self.batches.before(batch + 1)
        if before is not None:
            return f"{self.folder}{before}"
        return "" if self.batches else self.single

    def shown(self, batch: int) -> str:
        """The file that Spark reads for a batch, or the newest where it reads none."""
        return self.find_for(batch) or f"{self.folder}{self.batches.last}"


class FileSizes:
    """The sizes of many files by their names, in sixteen bytes each: of a name its hash is kept."""

    __slots__ = ("_names", "_sizes")

    def __init__(self) -> None:
        self._names = array("q")
        self._sizes = array("q")

    def add(self, files: Iterable[File]) -> None:
        """Take in files."""
        for file in files:
            self._names.append(hash(file.name))
            self._sizes.append(file.size)

    def by_name(self) -> Mapping[int, int]:
        """The sizes by the hashes of the names."""
        return dict(zip(self._names, self._sizes, strict=True))


@dataclass(slots=True)
class StoreFiles:
    """The files of one state store in one partition.

    Empty snapshots are not among the others. `empty_ids` are those with ids of their own.
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
        """The highest version of which there is a file; 0 where there is none."""
        return max(self.changes.last or 0, self.snapshots.last or 0)

    def add_changes(self, entries: Sequence[ClassifiedFile]) -> None:
        """Take in files of changes, and when the newest were written.

        A version with an id of its own in the name is not overwritten: of it no time is kept.
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
        """Take in snapshots; of one version there may be several, with ids of their own."""
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
        """Take in snapshots without a byte."""
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
