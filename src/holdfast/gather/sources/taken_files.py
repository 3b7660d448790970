"""Stage 2: the log of a file source, between two of its offsets -> the files that were taken.

sources/0/8            the files of log offset 8
sources/0/9.compact    every file up to log offset 9, in order: those of 9 stand at its end

A whole look reads the newest entries, and of a compact one the end. Where one batch is asked for,
all of its files are: a compact entry is then read from its end on, in steps, until it reaches back
to the first file that is wanted. What lies beyond the bounds is counted, never left out in silence.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.decode import file_source_log
from holdfast.gather.inventory.folders import SourceFolder
from holdfast.gather.inventory.read import decode_file, make_unreadable
from holdfast.gather.inventory.spans import Spans
from holdfast.model.fact import Unreadable, UnreadableFile
from holdfast.model.offsets import FileEntry
from holdfast.storage import Missing, Piece, Reader, Refused

_STEP = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBounds:
    """How much is read: so many of the newest log offsets, of a compact entry up to these ends."""

    offsets: int
    files: int
    entry: int
    ends: tuple[int, ...]


LOOK = ReadBounds(offsets=20, files=100, entry=16 << 20, ends=(256 << 10,))
ALL = ReadBounds(
    offsets=10_000, files=100_000, entry=64 << 20, ends=(256 << 10, 16 << 20, 128 << 20)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenFiles:
    """The files in the order of the log; `more` are known besides.

    `unread` is the number of log offsets of which the files were not read, or not all of them.
    """

    files: tuple[str, ...] = ()
    more: int = 0
    unread: int = 0
    read_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompactEnd:
    """The end of a compact entry, or all of it; of which log offset on it is complete."""

    data: bytes
    whole: bool
    first: int | None


@dataclass(slots=True)
class _FilesSoFar:
    """What was read so far of the wanted log offsets, and what was not told in full."""

    wanted: range
    most: int
    unreadable: list[UnreadableFile]
    files: dict[str, int] = field(default_factory=dict)
    more: int = 0
    told: set[int] = field(default_factory=set)
    compacted: range = range(0)
    read_from: list[str] = field(default_factory=list)

    def take(self, entries: Sequence[FileEntry]) -> None:
        """Take in the files that are wanted."""
        for entry in entries:
            if entry.log_offset not in self.wanted or entry.path in self.files:
                continue
            if len(self.files) < self.most:
                self.files[entry.path] = entry.log_offset
            else:
                self.more += 1

    @property
    def taken(self) -> TakenFiles:
        """The same, put in order."""
        known = sum(number not in self.compacted for number in self.told)
        known += _count_numbers(self.compacted)
        return TakenFiles(
            files=tuple(sorted(self.files, key=self.files.__getitem__)),
            more=self.more,
            unread=_count_numbers(self.wanted) - known,
            read_from=tuple(self.read_from),
        )


def read(
    reader: Reader,
    place: tuple[str, SourceFolder | None],
    wanted: range,
    bounds: ReadBounds,
    unreadable: list[UnreadableFile],
) -> TakenFiles:
    """The files of some log offsets; `place` is the source's name and what its folder holds."""
    name, log = place
    found = _FilesSoFar(wanted=wanted, most=bounds.files, unreadable=unreadable)
    if log is None:
        return found.taken
    window = range(max(wanted.start, wanted.stop - bounds.offsets), wanted.stop)
    entries = _select_within(log.entries, window)
    pieces = [Piece(path=f"sources/{name}/{n}", most=bounds.entry) for n in entries]
    for number, (piece, data) in zip(entries, reader.read(pieces), strict=True):
        said = decode_file(data, file_source_log.decode)
        if isinstance(said, Unreadable):
            # One of a hundred thousand files is counted as not read, and is no damage.
            unreadable += [] if said.too_long else [make_unreadable(piece.path, said)]
        elif not isinstance(said, Missing):
            found.take(said)
            found.told.add(number)
            found.read_from.append(piece.path)
    compact = _choose_compact(log.compacts, window, entries)
    if compact is not None:
        _take_compact(reader, f"sources/{name}/{compact}.compact", compact, found, bounds)
    return found.taken


def _select_within(ids: Spans, window: range) -> list[int]:
    return [
        number
        for span in ids
        for number in range(max(span.first, window.start), min(span.last + 1, window.stop))
    ]


def _choose_compact(compacts: Spans, window: range, entries: list[int]) -> int | None:
    """The compact entry that holds what has no entry of its own; the first that holds all of it."""
    newest = window.stop - 1
    for number in reversed(entries):
        if number != newest:
            break
        newest -= 1
    if newest < window.start:
        return None
    for span in compacts:
        if span.last >= newest:
            return max(span.first, newest)
    last = compacts.last
    return last if last is not None and last >= window.start else None


def _take_compact(
    reader: Reader, path: str, number: int, found: _FilesSoFar, bounds: ReadBounds
) -> None:
    """The files of a compact entry, which is read no further back than is wanted."""
    end = _read_end(reader, path, found.wanted.start, bounds)
    said = _take_entries(end, found) if isinstance(end, _CompactEnd) else end
    if isinstance(said, Unreadable | Refused):
        found.unreadable.append(make_unreadable(path, said))
    elif isinstance(end, _CompactEnd) and end.first is not None:
        first = max(end.first, found.wanted.start)
        found.compacted = range(first, min(number + 1, found.wanted.stop))
        found.read_from.append(path)


def _read_end(
    reader: Reader, path: str, start: int, bounds: ReadBounds
) -> _CompactEnd | Missing | Refused:
    """As much of the end of an entry as reaches back to a log offset, within the bounds."""
    end = _CompactEnd(data=b"", whole=True, first=None)
    for most in bounds.ends:
        ((_, data),) = reader.read([Piece(path=path, most=most, last=True)])
        if not isinstance(data, bytes):
            return data
        whole = len(data) < most
        oldest = next(
            (_parse_log_offset(_get_first_line(lines)) for lines in _split_lines(data)), None
        )
        # Of the oldest log offset that a cut end shows there may be more files in front of it.
        first = 0 if whole else None if oldest is None else oldest + 1
        end = _CompactEnd(data=data, whole=whole, first=first)
        if first is not None and first <= start:
            break
    return end


def _take_entries(end: _CompactEnd, found: _FilesSoFar) -> Unreadable | None:
    """Take in what an end holds; or why it cannot be read."""
    head = file_source_log.decode(end.data.partition(b"\n")[0]) if end.whole else ()
    if isinstance(head, Unreadable):
        return head
    for lines in _split_lines(end.data):
        said = (
            () if _is_outside(lines, found.wanted) else file_source_log.decode(lines, whole=False)
        )
        if isinstance(said, Unreadable):
            return said
        found.take(said)
    return None


def _split_lines(data: bytes) -> Iterator[bytes]:
    """The lines in portions, each behind a line break: what comes before the first is no line."""
    at = data.find(b"\n")
    while 0 <= at < len(data):
        end = data.find(b"\n", at + _STEP)
        end = len(data) if end < 0 else end
        yield data[at:end]
        at = end


def _is_outside(lines: bytes, wanted: range) -> bool:
    """Whether lines that stand in order are all of log offsets that are not wanted."""
    first, last = (
        _parse_log_offset(_get_first_line(lines)),
        _parse_log_offset(lines.rpartition(b"\n")[2]),
    )
    if first is None or last is None:
        return False
    return max(first, last) < wanted.start or min(first, last) >= wanted.stop


def _get_first_line(lines: bytes) -> bytes:
    return lines.lstrip(b"\n").partition(b"\n")[0]


def _parse_log_offset(line: bytes) -> int | None:
    """The log offset of a line that can be read."""
    said = file_source_log.decode(b"\n" + line, whole=False)
    return said[0].log_offset if not isinstance(said, Unreadable) and said else None


def _count_numbers(numbers: range) -> int:
    """How many there are; `len` knows no more than 63 bits."""
    return max(0, numbers.stop - numbers.start)
