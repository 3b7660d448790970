"""A folder -> the checkpoints below it, and the folders that were not searched.

The search goes level by level, so that near checkpoints are found first. Two kinds of folders come
last, because they are many and seldom contain a checkpoint: `key=value` folders, and the rest of a
very large folder. Links also come later, so that a folder is found under its own name; no folder is
searched twice. Not searched at all: the parts of a checkpoint, and the log and the partitions of a
Delta table, a Hudi table or a file sink's output. The folder of an Iceberg table does not show that
it is a table, so its partitions are searched last.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.gather.locate import recognise
from holdfast.report import words
from holdfast.storage import Children, Missing, Reader, Refused
from holdfast.storage.reader import join_path

MOST_FOLDERS = 50_000
MOST_OF_A_TABLE = 1_000
_MOST_NAMED = 100
_TOGETHER = 16
_SKIPPED = frozenset(
    {".holdfast", ".hoodie", "_change_data", "_delta_log", "_spark_metadata", "_temporary"}
)
_PARTITION = re.compile(r"[^=]+=")
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The checkpoints below a folder, including nested ones, and folders that may contain more."""

    checkpoints: tuple[str, ...]
    refused: tuple[Refused, ...]
    unsearched: tuple[Refused, ...]
    has_rdds: bool


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A folder to list; `real` is its path if it is not a link."""

    path: str
    real: str


@dataclass(slots=True, kw_only=True)
class _Search:
    reader: Reader
    above: str
    crowd: int
    near: list[_Candidate] = field(default_factory=list)
    later: list[_Candidate] = field(default_factory=list)
    visited: set[str] = field(default_factory=set)
    checkpoints: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    has_rdds: bool = False

    def next(self, most: int) -> list[_Candidate]:
        """Return the folders to list at once."""
        if not self.near:
            self.near, self.later = self.later, []
        level, self.near = self.near[:most], self.near[most:]
        return level

    def list_folder(self, place: _Candidate) -> tuple[_Candidate, Children | Missing | Refused]:
        return place, self.reader.children(place.path)

    def take(self, place: _Candidate, inside: Children | Missing | Refused) -> None:
        """Add what a folder contains to the search."""
        match inside:
            case Missing():
                return
            case Refused():
                self.refused.append(inside)
            case Children(real=real) if real in self.visited:
                return
            case Children(real=real) if real != place.real:
                self.later.append(_Candidate(place.path, real))
            case Children():
                self._enter(place, inside)

    def _enter(self, place: _Candidate, inside: Children) -> None:
        is_checkpoint = recognise.is_checkpoint(self.reader, place.path, inside, self.above)
        if is_checkpoint:
            self.checkpoints.append(place.path)
        self.queue_folders(place, inside, is_checkpoint=is_checkpoint)

    def queue_folders(self, place: _Candidate, inside: Children, *, is_checkpoint: bool) -> None:
        """Queue the subfolders of a folder.

        Refusals inside a checkpoint are left out: its own report names them.
        """
        self.visited |= {place.real} if place.real else set()
        self.refused += () if is_checkpoint else inside.refused
        own = recognise.PARTS if is_checkpoint else frozenset[str]()
        near, later = self._sort(place, inside, own)
        self.near += [_make_candidate(place, name) for name in near]
        self.later += [_make_candidate(place, name) for name in later]

    def _sort(
        self, place: _Candidate, inside: Children, own: frozenset[str]
    ) -> tuple[list[str], list[str]]:
        """Return the subfolders to search soon, and those to search later."""
        skipped = _SKIPPED | own
        if _UUID.fullmatch(place.path) and (rdds := recognise.find_rdds(inside)):
            self.has_rdds = True
            skipped |= rdds
        names = [name for name in inside.folders if name not in skipped]
        plain = [name for name in names if not _PARTITION.match(name)]
        partitions = [name for name in names if _PARTITION.match(name)]
        if recognise.is_table(inside):
            partitions = []
        if len(plain) <= self.crowd:
            return plain, partitions
        plain.sort(key=lambda name: "checkpoint" not in name.lower())
        return plain[: self.crowd], plain[self.crowd :] + partitions


def find_checkpoints(reader: Reader, top: Children, *, above: str, most: int) -> SearchResult:
    """Return the checkpoints below a folder that is not one, and what was not searched.

    At most `most` folders are listed. `above` is the name of the folder itself.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow to load, seldom used

    # No single folder takes more than a tenth of the search before the others had their turn.
    search, left = _Search(reader=reader, above=above, crowd=most // 10), most
    search.queue_folders(_Candidate("", top.real), top, is_checkpoint=False)
    with ThreadPoolExecutor(_TOGETHER) as pool:
        while level := search.next(left):
            left -= len(level)
            for place, inside in pool.map(search.list_folder, level):
                search.take(place, inside)
    return SearchResult(
        checkpoints=tuple(search.checkpoints),
        refused=tuple(search.refused),
        unsearched=tuple(
            _group_unsearched([place.path for place in search.near + search.later], most)
        ),
        has_rdds=search.has_rdds,
    )


def _make_candidate(place: _Candidate, name: str) -> _Candidate:
    real = f"{place.real.rstrip('/')}/{name}" if place.real else ""
    return _Candidate(join_path(place.path, name), real)


def _group_unsearched(unsearched: Sequence[str], most: int) -> Iterator[Refused]:
    """Yield the parents of unsearched folders, as deep as possible with few names."""
    deepest = max((path.count("/") for path in unsearched), default=0)
    folders = Counter[str]()
    for depth in range(deepest, -1, -1):
        folders = Counter("/".join(path.split("/")[:-1][:depth]) for path in unsearched)
        if len(folders) <= _MOST_NAMED:
            break
    for path, count in folders.items():
        were = f"{words.pluralize(count, 'folder')} below it {'was' if count == 1 else 'were'}"
        yield Refused(
            path=path or ".", reason=f"{were} not searched: the limit is {most:,} folders"
        )
