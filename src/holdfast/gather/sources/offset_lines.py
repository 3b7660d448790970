"""Stage 2: the lines of an offset entry -> which source each is of: its folder, its description.

    df.filter(…).union(df.filter(…)).union(other)

    offsets/4  {"logOffset":4}     sources/0     progress report: 0
               {"logOffset":4}     sources/0                      0
               {"logOffset":1}     sources/1                      1

Version 1 has a line for each leaf of the plan, and Spark makes one source of equal leaves: folders
and descriptions count sources, by their first leaf. Nothing says which leaves are equal, only that
those with different lines are not. Version 2 has a line for each source that has an offset, in no
order: under its name, which its folder has too, or under the number of its last leaf. A number that
is left out is a source without an offset, or one that is there under another.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from holdfast.decode import file_source_log, source_offset, source_start
from holdfast.gather.inventory.read import decode_file
from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.model.evidence import SameSource
from holdfast.model.fact import Unknown
from holdfast.model.json import Json, to_canonical
from holdfast.model.offsets import OffsetEntry, SourceStart
from holdfast.model.source_offset import (
    EventHubsOffset,
    FileOffset,
    KafkaOffset,
    NoOffset,
    NumberOffset,
)
from holdfast.storage import Piece, Reader

_MOST_START = 16 << 20
_MOST_DIGITS = 9
_TOLD = (
    "equal offsets in every entry that was read, and no more sources in what is told of its runs"
)
_INFERRED = "equal offsets in every entry that was read, and no more folders below `sources`"
NOT_KNOWN = Unknown(reason="lines that are equal may be of one source, and nothing tells which are")
_NO_ORDER = Unknown(reason="sources with names have no order")
_NAMED_FOLDERS = Unknown(reason="the folders have names, which this entry does not")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """The source of a line: its folder, its number among the sources, how it is described.

    `same_as` is the first line of the same source.
    """

    folder: str | Unknown
    number: int | Unknown
    described: str = ""
    same_as: SameSource | None = None


class _FolderContent(Enum):
    """What a source keeps in its folder, as the folder shows it, or as its offset lets expect."""

    FILES = "a log of files"
    START = "where each partition began"
    OTHER = "something else, or nothing"
    ANY = "any of these"

    def agrees(self, other: "_FolderContent") -> bool:
        return self is other or _FolderContent.ANY in (self, other)


def may_repeat(entry: OffsetEntry) -> bool:
    """Whether lines of an entry may be of one source: other entries then tell more."""
    texts = [to_canonical(one.offset) for one in entry.sources]
    return entry.version == 1 and len(set(texts)) < len(texts)


def match_sources(
    reader: Reader,
    tree: CheckpointTree,
    planned: OffsetEntry,
    others: Iterable[OffsetEntry],
    described: Sequence[str],
) -> Mapping[str, Leaf]:
    """The source of each line of an entry, given other entries, and how the sources are called."""
    entries = [planned, *(one for one in others if one.version == planned.version)]
    if planned.version == 1:
        entries = [one for one in entries if len(one.sources) == len(planned.sources)]
        return _match_by_line(reader, tree, entries, described)
    names = dict.fromkeys(one.source for entry in entries for one in entry.sources)
    if all(_is_number(name) for name in names):
        return _match_by_number(reader, tree, entries, described)
    return _match_by_name(tuple(names), described)


def _match_by_line(
    reader: Reader, tree: CheckpointTree, entries: Sequence[OffsetEntry], described: Sequence[str]
) -> Mapping[str, Leaf]:
    equal = _number_lines(entries)
    numbers, inferred = _infer_sources(reader, tree, entries[0], equal, described)
    # Up to the first repetition every line has a source of its own, whatever comes later.
    alone = next((line for line, number in enumerate(equal) if line != number), len(equal))
    sources = None if numbers is None else max(numbers) + 1
    found: dict[str, Leaf] = {}
    for line, one in enumerate(entries[0].sources):
        known = line if numbers is None else numbers[line]
        number = NOT_KNOWN if numbers is None and line >= alone else known
        by_leaf = len(described) == len(equal) != sources
        place = line if by_leaf else number
        told = sources is None or by_leaf or len(described) == sources
        first = equal.index(equal[line])
        found[one.source] = Leaf(
            folder=_find_folder(tree, number, len(equal)),
            number=number,
            described=_get_description(described, place) if told else "",
            same_as=SameSource(name=str(first), inferred=inferred, by_folders=inferred == _INFERRED)
            if inferred and first != line
            else None,
        )
    return found


def _number_lines(entries: Sequence[OffsetEntry]) -> list[int]:
    """The lines, numbered by what they say in all entries; equal ones have one number."""
    texts = zip(*([to_canonical(one.offset) for one in e.sources] for e in entries), strict=True)
    numbers: dict[tuple[str, ...], int] = {}
    return [numbers.setdefault(text, len(numbers)) for text in texts]


def _infer_sources(
    reader: Reader,
    tree: CheckpointTree,
    entry: OffsetEntry,
    equal: list[int],
    described: Sequence[str],
) -> tuple[list[int] | None, str]:
    """The source of each line, and what it was inferred from; None where nothing tells."""
    own = list(range(len(equal)))
    sources, folders = max(equal) + 1, max(_list_folders(tree), default=-1) + 1
    # What a run tells when it starts has a description for each leaf: equal ones say nothing.
    apart = len(described) == len(own) == len(set(zip(equal, described, strict=False)))
    if sources == len(own) or folders >= len(own) or apart:
        return own, ""
    if len(described) == sources and folders <= sources:
        return equal, _TOLD
    if len(described) not in (0, len(own)):
        return None, ""
    kept = [_expect_content(one.offset) for one in entry.sources]
    kinds = _read_contents(reader, tree)
    if _fits(dict(zip(own, kept, strict=True)), kinds):
        return own, ""
    return (equal, _INFERRED) if _fits(dict(zip(equal, kept, strict=True)), kinds) else (None, "")


def _find_folder(tree: CheckpointTree, number: int | Unknown, lines: int) -> str | Unknown:
    if tree.sources and not _list_folders(tree):
        return next(iter(tree.sources)) if lines == len(tree.sources) == 1 else _NAMED_FOLDERS
    return number if isinstance(number, Unknown) else str(number)


def _get_description(described: Sequence[str], place: int | Unknown) -> str:
    return "" if isinstance(place, Unknown) or place >= len(described) else described[place]


def _match_by_number(
    reader: Reader, tree: CheckpointTree, entries: Sequence[OffsetEntry], described: Sequence[str]
) -> Mapping[str, Leaf]:
    kept = {
        int(one.source): _expect_content(one.offset) for e in reversed(entries) for one in e.sources
    }
    whole = len(kept) == max(kept) + 1
    kinds = {} if whole else _read_contents(reader, tree)
    if not whole and len(kept) == 1 and _fits(dict.fromkeys([0], *kept.values()), kinds):
        about = described[0] if len(described) == 1 else ""
        return {str(*kept): Leaf(folder="0", number=0, described=about)}
    fit = whole or (bool(kinds) and _fits(kept, kinds))
    found: dict[str, Leaf] = {}
    for number in kept:
        known = fit or all(below in kept for below in range(number))
        found[str(number)] = Leaf(
            folder=str(number) if known else NOT_KNOWN,
            number=number if known else NOT_KNOWN,
            described=described[number] if known and max(kept) < len(described) else "",
        )
    return found


def _match_by_name(names: Sequence[str], described: Sequence[str]) -> Mapping[str, Leaf]:
    """Of named sources a report keeps the order of the plan, and no name."""
    single = len(names) == len(described) == 1
    number: int | Unknown = 0 if len(names) == 1 else _NO_ORDER
    about = described[0] if single else ""
    return {name: Leaf(folder=name, number=number, described=about) for name in names}


def _fits(kept: Mapping[int, _FolderContent], kinds: Mapping[int, _FolderContent]) -> bool:
    """Whether sources of these numbers would have left these folders, and no others."""
    needed = [n for n, one in kept.items() if one in (_FolderContent.FILES, _FolderContent.START)]
    return all(n in kinds for n in needed) and all(
        n in kept and kept[n].agrees(kind) for n, kind in kinds.items()
    )


def _expect_content(offset: Json) -> _FolderContent:
    match source_offset.decode(offset):
        case FileOffset():
            return _FolderContent.FILES
        case KafkaOffset() | EventHubsOffset():
            return _FolderContent.START
        case NoOffset() | NumberOffset():
            return _FolderContent.ANY
        case _:
            return _FolderContent.OTHER


def _read_contents(reader: Reader, tree: CheckpointTree) -> dict[int, _FolderContent]:
    """What lies in the numbered folders; of one that cannot be read it may be anything."""
    found = dict.fromkeys(_list_folders(tree), _FolderContent.ANY)
    pieces: dict[str, int] = {}
    for number in found:
        source = tree.sources.get(str(number))
        if source is None:
            continue
        if source.compacts or (source.entries.last or 0) > 0:
            found[number] = _FolderContent.FILES
        elif source.entries:
            pieces[f"sources/{number}/0"] = number
        else:
            found[number] = _FolderContent.OTHER
    for piece, data in reader.read([Piece(path=path, most=_MOST_START) for path in pieces]):
        listed, said = (
            decode_file(data, file_source_log.decode),
            decode_file(data, source_start.decode),
        )
        if isinstance(listed, tuple) and listed:
            found[pieces[piece.path]] = _FolderContent.FILES
        elif isinstance(said, SourceStart):
            begins = isinstance(said.offset, Mapping)
            found[pieces[piece.path]] = _FolderContent.START if begins else _FolderContent.OTHER
    return found


def _list_folders(tree: CheckpointTree) -> set[int]:
    """The numbers of the folders that hold anything, or cannot be listed."""
    names = {*tree.sources, *(one.path.partition("/")[2] for one in tree.refused_in("sources"))}
    return {int(name) for name in (one.partition("/")[0] for one in names) if _is_number(name)}


def _is_number(name: str) -> bool:
    plain = name.isascii() and name.isdecimal() and len(name) <= _MOST_DIGITS
    return plain and name == str(int(name))
