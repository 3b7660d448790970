"""The lines of an offset entry -> the source of each line: its folder, its description.

    df.filter(…).union(df.filter(…)).union(other)

    offsets/4  {"logOffset":4}     sources/0     progress report: 0
               {"logOffset":4}     sources/0                      0
               {"logOffset":1}     sources/1                      1

Version 1 has a line for each leaf of the plan, and Spark makes one source of equal leaves. Folders
and descriptions are numbered by source, in the order of first leaves. Nothing says which leaves are
equal; leaves with different lines are not. Version 2 has a line for each source that has an offset,
in no order: under the name of the source, which is also the name of its folder, or under the number
of its last leaf. If a number is missing, that source has no offset, or has a different number.
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
_BY_RUNS = "their offsets are equal in every entry that was read, and its runs have no more sources"
_BY_FOLDERS = (
    "their offsets are equal in every entry that was read, and `sources` has no more folders"
)
NOT_KNOWN = Unknown(reason="equal lines may belong to one source, and nothing shows which do")
_NO_ORDER = Unknown(reason="named sources have no order")
_NAMED_FOLDERS = Unknown(reason="the source folders have names, but this entry has none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """The source of a line: its folder, its number among the sources, its description.

    `same_as` is the first line of the same source.
    """

    folder: str | Unknown
    number: int | Unknown
    description: str = ""
    same_as: SameSource | None = None


class _FolderContent(Enum):
    """What the folder of a source contains, or should contain by the offset of the source."""

    FILES = "a log of files"
    START = "the start of each partition"
    OTHER = "something else, or nothing"
    ANY = "any of these"

    def agrees(self, other: "_FolderContent") -> bool:
        return self is other or _FolderContent.ANY in (self, other)


def may_repeat(entry: OffsetEntry) -> bool:
    """Return whether lines of an entry may belong to one source; other entries may show it."""
    texts = [to_canonical(source.offset) for source in entry.sources]
    return entry.version == 1 and len(set(texts)) < len(texts)


def match_sources(
    reader: Reader,
    tree: CheckpointTree,
    planned: OffsetEntry,
    others: Iterable[OffsetEntry],
    descriptions: Sequence[str],
) -> Mapping[str, Leaf]:
    """Return the source of each line of an entry, given other entries and the descriptions."""
    entries = [planned, *(entry for entry in others if entry.version == planned.version)]
    if planned.version == 1:
        entries = [entry for entry in entries if len(entry.sources) == len(planned.sources)]
        return _match_by_line(reader, tree, entries, descriptions)
    names = dict.fromkeys(source.source for entry in entries for source in entry.sources)
    if all(_is_number(name) for name in names):
        return _match_by_number(reader, tree, entries, descriptions)
    return _match_by_name(tuple(names), descriptions)


def _match_by_line(
    reader: Reader,
    tree: CheckpointTree,
    entries: Sequence[OffsetEntry],
    descriptions: Sequence[str],
) -> Mapping[str, Leaf]:
    equal = _number_lines(entries)
    numbers, inferred = _infer_sources(reader, tree, entries[0], equal, descriptions)
    # Before the first repetition every line has its own source, whatever comes later.
    distinct = next((line for line, number in enumerate(equal) if line != number), len(equal))
    sources = None if numbers is None else max(numbers) + 1
    leaves: dict[str, Leaf] = {}
    for line, source in enumerate(entries[0].sources):
        known = line if numbers is None else numbers[line]
        number = NOT_KNOWN if numbers is None and line >= distinct else known
        by_leaf = len(descriptions) == len(equal) != sources
        place = line if by_leaf else number
        has_description = sources is None or by_leaf or len(descriptions) == sources
        first = equal.index(equal[line])
        leaves[source.source] = Leaf(
            folder=_find_folder(tree, number, len(equal)),
            number=number,
            description=_get_description(descriptions, place) if has_description else "",
            same_as=SameSource(
                name=str(first), inferred=inferred, by_folders=inferred == _BY_FOLDERS
            )
            if inferred and first != line
            else None,
        )
    return leaves


def _number_lines(entries: Sequence[OffsetEntry]) -> list[int]:
    """Return a number for each line, by its text in all entries; equal lines share a number."""
    texts = zip(*([to_canonical(s.offset) for s in e.sources] for e in entries), strict=True)
    numbers: dict[tuple[str, ...], int] = {}
    return [numbers.setdefault(text, len(numbers)) for text in texts]


def _infer_sources(
    reader: Reader,
    tree: CheckpointTree,
    entry: OffsetEntry,
    equal: list[int],
    descriptions: Sequence[str],
) -> tuple[list[int] | None, str]:
    """Return the source of each line, and what it is inferred from; None if it is unknown."""
    own = list(range(len(equal)))
    sources, folders = max(equal) + 1, max(_list_folders(tree), default=-1) + 1
    # A start event has a description for each leaf, so equal descriptions prove nothing.
    differ = len(descriptions) == len(own) == len(set(zip(equal, descriptions, strict=False)))
    if sources == len(own) or folders >= len(own) or differ:
        return own, ""
    if len(descriptions) == sources and folders <= sources:
        return equal, _BY_RUNS
    if len(descriptions) not in (0, len(own)):
        return None, ""
    expected = [_expect_content(source.offset) for source in entry.sources]
    contents = _read_contents(reader, tree)
    if _fits(dict(zip(own, expected, strict=True)), contents):
        return own, ""
    if _fits(dict(zip(equal, expected, strict=True)), contents):
        return equal, _BY_FOLDERS
    return None, ""


def _find_folder(tree: CheckpointTree, number: int | Unknown, lines: int) -> str | Unknown:
    if tree.sources and not _list_folders(tree):
        return next(iter(tree.sources)) if lines == len(tree.sources) == 1 else _NAMED_FOLDERS
    return number if isinstance(number, Unknown) else str(number)


def _get_description(descriptions: Sequence[str], place: int | Unknown) -> str:
    return "" if isinstance(place, Unknown) or place >= len(descriptions) else descriptions[place]


def _match_by_number(
    reader: Reader,
    tree: CheckpointTree,
    entries: Sequence[OffsetEntry],
    descriptions: Sequence[str],
) -> Mapping[str, Leaf]:
    expected = {
        int(source.source): _expect_content(source.offset)
        for entry in reversed(entries)
        for source in entry.sources
    }
    is_whole = len(expected) == max(expected) + 1
    contents = {} if is_whole else _read_contents(reader, tree)
    if (
        not is_whole
        and len(expected) == 1
        and _fits(dict.fromkeys([0], *expected.values()), contents)
    ):
        about = descriptions[0] if len(descriptions) == 1 else ""
        return {str(*expected): Leaf(folder="0", number=0, description=about)}
    fits = is_whole or (bool(contents) and _fits(expected, contents))
    leaves: dict[str, Leaf] = {}
    for number in expected:
        is_known = fits or all(below in expected for below in range(number))
        has_description = is_known and max(expected) < len(descriptions)
        leaves[str(number)] = Leaf(
            folder=str(number) if is_known else NOT_KNOWN,
            number=number if is_known else NOT_KNOWN,
            description=descriptions[number] if has_description else "",
        )
    return leaves


def _match_by_name(names: Sequence[str], descriptions: Sequence[str]) -> Mapping[str, Leaf]:
    """Match named sources; a progress report has them in the order of the plan, without names."""
    is_single = len(names) == len(descriptions) == 1
    number: int | Unknown = 0 if len(names) == 1 else _NO_ORDER
    about = descriptions[0] if is_single else ""
    return {name: Leaf(folder=name, number=number, description=about) for name in names}


def _fits(expected: Mapping[int, _FolderContent], contents: Mapping[int, _FolderContent]) -> bool:
    """Return whether sources of these numbers would have left these folders, and no others."""
    in_folder = (_FolderContent.FILES, _FolderContent.START)
    needed = [number for number, content in expected.items() if content in in_folder]
    return all(number in contents for number in needed) and all(
        number in expected and expected[number].agrees(content)
        for number, content in contents.items()
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
    """Return what the numbered folders contain; an unreadable folder may contain anything."""
    contents = dict.fromkeys(_list_folders(tree), _FolderContent.ANY)
    pieces: dict[str, int] = {}
    for number in contents:
        source = tree.sources.get(str(number))
        if source is None:
            continue
        if source.compacts or (source.entries.last or 0) > 0:
            contents[number] = _FolderContent.FILES
        elif source.entries:
            pieces[f"sources/{number}/0"] = number
        else:
            contents[number] = _FolderContent.OTHER
    for piece, data in reader.read([Piece(path=path, most=_MOST_START) for path in pieces]):
        listed = decode_file(data, file_source_log.decode)
        start = decode_file(data, source_start.decode)
        if isinstance(listed, tuple) and listed:
            contents[pieces[piece.path]] = _FolderContent.FILES
        elif isinstance(start, SourceStart):
            has_partitions = isinstance(start.offset, Mapping)
            contents[pieces[piece.path]] = (
                _FolderContent.START if has_partitions else _FolderContent.OTHER
            )
    return contents


def _list_folders(tree: CheckpointTree) -> set[int]:
    """Return the numbers of the folders that contain anything, or cannot be listed."""
    refused = (file.path.partition("/")[2] for file in tree.find_refused("sources"))
    names = (path.partition("/")[0] for path in {*tree.sources, *refused})
    return {int(name) for name in names if _is_number(name)}


def _is_number(name: str) -> bool:
    plain = name.isascii() and name.isdecimal() and len(name) <= _MOST_DIGITS
    return plain and name == str(int(name))
