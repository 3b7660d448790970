"""The log of a file source, between two of its offsets -> the files that were read.

sources/0/8            the files of log offset 8
sources/0/9.compact    every file up to log offset 9, in order: those of 9 are at its end

A report on the whole checkpoint reads the newest entries, and only the end of a compact entry. A
report on one batch reads all files of the batch: a compact entry is then read backwards from its
end, in steps, until the first wanted file is reached. Files beyond the bounds are counted, never
dropped silently.
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
    """How much is read: how many log offsets, files and bytes; `ends` are for compact entries."""

    offsets: int
    files: int
    entry: int
    ends: tuple[int, ...]


NEWEST = ReadBounds(offsets=20, files=100, entry=16 << 20, ends=(256 << 10,))
ALL = ReadBounds(
    offsets=10_000, files=100_000, entry=64 << 20, ends=(256 << 10, 16 << 20, 128 << 20)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenFiles:
    """The files in the order of the log; `more` counts further known files.

    `unread` is the number of log offsets whose files were not read, or not all of them.
    """

    files: tuple[str, ...] = ()
    more: int = 0
    unread: int = 0
    read_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _CompactEnd:
    """The end of a compact entry, or all of it; it is complete from log offset `first` on."""

    data: bytes
    whole: bool
    first: int | None


@dataclass(slots=True)
class _FilesSoFar:
    """The files of the wanted log offsets that were read so far, and what could not be read."""

    wanted: range
    most: int
    unreadable: list[UnreadableFile]
    files: dict[str, int] = field(default_factory=dict)
    more: int = 0
    read_offsets: set[int] = field(default_factory=set)
    compacted: range = range(0)
    read_from: list[str] = field(default_factory=list)

    def take(self, entries: Sequence[FileEntry]) -> None:
        """Add the wanted files among these."""
        for entry in entries:
            if entry.log_offset not in self.wanted or entry.path in self.files:
                continue
            if len(self.files) < self.most:
                self.files[entry.path] = entry.log_offset
            else:
                self.more += 1

    @property
    def result(self) -> TakenFiles:
        """The files in order."""
        known = sum(number not in self.compacted for number in self.read_offsets)
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
    """Return the files of some log offsets; `place` is the folder's name and its contents."""
    name, log = place
    so_far = _FilesSoFar(wanted=wanted, most=bounds.files, unreadable=unreadable)
    if log is None:
        return so_far.result
    window = range(max(wanted.start, wanted.stop - bounds.offsets), wanted.stop)
    entries = _select_within(log.entries, window)
    pieces = [Piece(path=f"sources/{name}/{n}", most=bounds.entry) for n in entries]
    for number, (piece, data) in zip(entries, reader.read(pieces), strict=True):
        decoded = decode_file(data, file_source_log.decode)
        if isinstance(decoded, Unreadable):
            # An entry of a hundred thousand files counts as not read, not as damaged.
            unreadable += [] if decoded.too_long else [make_unreadable(piece.path, decoded)]
        elif not isinstance(decoded, Missing):
            so_far.take(decoded)
            so_far.read_offsets.add(number)
            so_far.read_from.append(piece.path)
    compact = _choose_compact(log.compacts, window, entries)
    if compact is not None:
        _take_compact(reader, f"sources/{name}/{compact}.compact", compact, so_far, bounds)
    return so_far.result


def _select_within(ids: Spans, window: range) -> list[int]:
    return [
        number
        for span in ids
        for number in range(max(span.first, window.start), min(span.last + 1, window.stop))
    ]


def _choose_compact(compacts: Spans, window: range, entries: list[int]) -> int | None:
    """Return the first compact entry with all log offsets that have no entry of their own."""
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
    reader: Reader, path: str, number: int, so_far: _FilesSoFar, bounds: ReadBounds
) -> None:
    """Add the files of a compact entry, which is read back only as far as is wanted."""
    end = _read_end(reader, path, so_far.wanted.start, bounds)
    problem = _take_entries(end, so_far) if isinstance(end, _CompactEnd) else end
    if isinstance(problem, Unreadable | Refused):
        so_far.unreadable.append(make_unreadable(path, problem))
    elif isinstance(end, _CompactEnd) and end.first is not None:
        first = max(end.first, so_far.wanted.start)
        so_far.compacted = range(first, min(number + 1, so_far.wanted.stop))
        so_far.read_from.append(path)


def _read_end(
    reader: Reader, path: str, start: int, bounds: ReadBounds
) -> _CompactEnd | Missing | Refused:
    """Return the end of an entry, back to a log offset, within the bounds."""
    end = _CompactEnd(data=b"", whole=True, first=None)
    for most in bounds.ends:
        ((_, data),) = reader.read([Piece(path=path, most=most, last=True)])
        if not isinstance(data, bytes):
            return data
        whole = len(data) < most
        oldest = next(
            (_parse_log_offset(_get_first_line(lines)) for lines in _split_lines(data)), None
        )
        # The oldest log offset in a cut end may have more files before the cut.
        first = 0 if whole else None if oldest is None else oldest + 1
        end = _CompactEnd(data=data, whole=whole, first=first)
        if first is not None and first <= start:
            break
    return end


def _take_entries(end: _CompactEnd, so_far: _FilesSoFar) -> Unreadable | None:
    """Add the files in an end; return why it cannot be read, if so."""
    head = file_source_log.decode(end.data.partition(b"\n")[0]) if end.whole else ()
    if isinstance(head, Unreadable):
        return head
    for lines in _split_lines(end.data):
        decoded = (
            () if _is_outside(lines, so_far.wanted) else file_source_log.decode(lines, whole=False)
        )
        if isinstance(decoded, Unreadable):
            return decoded
        so_far.take(decoded)
    return None


def _split_lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines in portions, each after a line break; a cut first line is left out."""
    at = data.find(b"\n")
    while 0 <= at < len(data):
        end = data.find(b"\n", at + _STEP)
        end = len(data) if end < 0 else end
        yield data[at:end]
        at = end


def _is_outside(lines: bytes, wanted: range) -> bool:
    """Return whether all these lines, which are sorted, have unwanted log offsets."""
    first = _parse_log_offset(_get_first_line(lines))
    last = _parse_log_offset(lines.rpartition(b"\n")[2])
    if first is None or last is None:
        return False
    return max(first, last) < wanted.start or min(first, last) >= wanted.stop


def _get_first_line(lines: bytes) -> bytes:
    return lines.lstrip(b"\n").partition(b"\n")[0]


def _parse_log_offset(line: bytes) -> int | None:
    """Return the log offset of a line, or None if it cannot be read."""
    decoded = file_source_log.decode(b"\n" + line, whole=False)
    return decoded[0].log_offset if not isinstance(decoded, Unreadable) and decoded else None


def _count_numbers(numbers: range) -> int:
    """Return how many numbers there are; `len` fails beyond 63 bits."""
    return max(0, numbers.stop - numbers.start)
