"""Stage 2: a folder -> the checkpoints below it, and what of it was not searched.

Level by level, so that what lies near is found first. Later than all else, because they are many
and seldom hold a checkpoint: `key=value` folders, and of a folder with very many others those after
the first. Folders behind links come later, too, so that a folder is found under its own name; none
is searched twice. Not searched at all: the parts of a checkpoint, and the log and the partitions of
a Delta table, a Hudi table or a file sink's output. An Iceberg table has no log that its folder
alone would show, so its partitions are only searched last.
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
    """The checkpoints below a folder, also those inside of others, and what may hold more."""

    checkpoints: tuple[str, ...]
    refused: tuple[Refused, ...]
    unsearched: tuple[Refused, ...]
    has_rdds: bool


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A folder to look at; `real` is where it lies unless it is a link."""

    path: str
    real: str


@dataclass(slots=True, kw_only=True)
class _Search:
    reader: Reader
    above: str
    crowd: int
    near: list[_Candidate] = field(default_factory=list)
    later: list[_Candidate] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    checkpoints: list[str] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    has_rdds: bool = False

    def next(self, most: int) -> list[_Candidate]:
        """The folders to look at together."""
        if not self.near:
            self.near, self.later = self.later, []
        level, self.near = self.near[:most], self.near[most:]
        return level

    def look(self, place: _Candidate) -> tuple[_Candidate, Children | Missing | Refused]:
        return place, self.reader.children(place.path)

    def take(self, place: _Candidate, inside: Children | Missing | Refused) -> None:
        """Keep what a look at a folder has shown."""
        match inside:
            case Missing():
                return
            case Refused():
                self.refused.append(inside)
            case Children(real=real) if real in self.seen:
                return
            case Children(real=real) if real != place.real:
                self.later.append(_Candidate(place.path, real))
            case Children():
                self._enter(place, inside)

    def _enter(self, place: _Candidate, inside: Children) -> None:
        found = recognise.is_checkpoint(self.reader, place.path, inside, self.above)
        if found:
            self.checkpoints.append(place.path)
        self.go_on(place, inside, found=found)

    def go_on(self, place: _Candidate, inside: Children, *, found: bool) -> None:
        """Look at the folders of a folder next; what a checkpoint cannot read, it says itself."""
        self.seen |= {place.real} if place.real else set()
        self.refused += () if found else inside.refused
        near, later = self._sorted(place, inside, recognise.PARTS if found else frozenset())
        self.near += [_make_candidate(place, name) for name in near]
        self.later += [_make_candidate(place, name) for name in later]

    def _sorted(
        self, place: _Candidate, inside: Children, own: frozenset[str]
    ) -> tuple[list[str], list[str]]:
        """Which folders of a folder are searched soon, and which later."""
        skipped = _SKIPPED | own
        if _UUID.fullmatch(place.path) and (rdds := recognise.find_rdds(inside)):
            self.has_rdds = True
            skipped |= rdds
        names = [one for one in inside.folders if one not in skipped]
        plain = [one for one in names if not _PARTITION.match(one)]
        partitions = [one for one in names if _PARTITION.match(one)]
        if recognise.is_table(inside):
            partitions = []
        if len(plain) <= self.crowd:
            return plain, partitions
        plain.sort(key=lambda name: "checkpoint" not in name.lower())
        return plain[: self.crowd], plain[self.crowd :] + partitions


def find_checkpoints(reader: Reader, top: Children, *, above: str, most: int) -> SearchResult:
    """The checkpoints below a folder that is none, and what of it was not searched.

    At most so many folders are listed. `above` names what the folder itself is called.
    """
    from concurrent.futures import ThreadPoolExecutor  # slow to load, seldom used

    # No folder alone takes more than a tenth of the search before the others have had their turn.
    search, left = _Search(reader=reader, above=above, crowd=most // 10), most
    search.go_on(_Candidate("", top.real), top, found=False)
    with ThreadPoolExecutor(_TOGETHER) as pool:
        while level := search.next(left):
            left -= len(level)
            for place, inside in pool.map(search.look, level):
                search.take(place, inside)
    return SearchResult(
        checkpoints=tuple(search.checkpoints),
        refused=tuple(search.refused),
        unsearched=tuple(_group_unsearched([one.path for one in search.near + search.later], most)),
        has_rdds=search.has_rdds,
    )


def _make_candidate(place: _Candidate, name: str) -> _Candidate:
    real = f"{place.real.rstrip('/')}/{name}" if place.real else ""
    return _Candidate(join_path(place.path, name), real)


def _group_unsearched(unsearched: Sequence[str], most: int) -> Iterator[Refused]:
    """Folders that were not searched, by what they lie in: as near to them as few names allow."""
    deepest = max((path.count("/") for path in unsearched), default=0)
    folders = Counter[str]()
    for depth in range(deepest, -1, -1):
        folders = Counter("/".join(path.split("/")[:-1][:depth]) for path in unsearched)
        if len(folders) <= _MOST_NAMED:
            break
    for path, count in folders.items():
        were = f"{words.pluralize(count, 'folder')} below it {'was' if count == 1 else 'were'}"
        yield Refused(path=path or ".", reason=f"{were} not searched, after {most:,} others")
