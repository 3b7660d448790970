"""A path -> the events in the Spark event logs there that concern streaming queries.

    <app id>[.zstd|.lz4|.snappy|.lzf][.inprogress]   one file
    eventlog_v2_<app id>/events_<n>_<app id>[.zstd]  a rolling log: files in the order of <n>

The name of a file does not matter if the file itself is given. A folder may contain many logs; the
newest are read. Lines are passed on one at a time, and a line that is longer than any event is
skipped, so memory does not grow with a local log. A remote file is fetched whole, and refused if it
is longer than `_MOST_FETCHED`; the files of a rolling log are smaller.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from holdfast.decode import event_log
from holdfast.errors import EventLogUnreadable
from holdfast.gather.history import codecs
from holdfast.gather.history.events import EventLog, EventWithFile
from holdfast.model.fact import Unreadable
from holdfast.storage import (
    Children,
    File,
    Missing,
    Piece,
    Reader,
    Refused,
    local,
    open_reader,
    urls,
)

_ROLLED = re.compile(r"events_(?P<number>\d+)_.*")
_ROLLING = "eventlog_v2_"
_MOST_LOGS = 50
LONGEST_LINE = 64 << 20
_MOST_FETCHED = 512 << 20
_NO_EVENT = "none of its lines is an event, plain or compressed with zstd, lz4, snappy, lzf or gzip"


@dataclass(slots=True)
class _LineCounts:
    """How many lines were read, and how many of them are not events."""

    lines: int = 0
    foreign: int = 0

    def count(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        """Yield the lines, and count those that are not blank."""
        for line in lines:
            self.lines += bool(line) and not line.isspace()
            yield line


def open_at(place: str, storage: Mapping[str, str]) -> EventLog:
    """Return the logs at a place; they are read when their events are iterated."""
    if not place.strip():
        raise EventLogUnreadable(
            "the path of the event log is empty",
            hint="check that the shell variable is set, and name a file or a folder",
        )
    return EventLog(place=urls.to_canonical(place), events=_Events(place, storage))


@dataclass(slots=True)
class _Events:
    """The events in the logs at a place, oldest log first, each with its file."""

    place: str
    storage: Mapping[str, str]
    left_out: str = ""

    def __iter__(self) -> Iterator[EventWithFile]:
        counts = _LineCounts()
        for path, file in self._local() if urls.is_local(self.place) else self._remote():
            for event in event_log.decode(counts.count(split_lines(codecs.decompress(file)))):
                if isinstance(event, Unreadable):
                    counts.foreign += 1
                else:
                    yield path, event
        if counts.lines and counts.foreign == counts.lines:
            raise _make_unreadable_error(self.place, _NO_EVENT)

    def _local(self) -> Iterator[tuple[str, BinaryIO]]:
        for path in self._local_files():
            with local.open_quietly(path) as file:
                yield str(path), file

    def _local_files(self) -> Sequence[Path]:
        path = urls.to_local_path(self.place)
        if path.is_file():
            return [path]
        reader = open_reader(self.place)
        inside = reader.children("")
        if isinstance(inside, Missing | Refused):
            raise _make_unreadable_error(self.place, _explain(inside))
        return [path / name for name in self._newest(reader, inside)]

    def _remote(self) -> Iterator[tuple[str, BinaryIO]]:
        url = urls.to_canonical(self.place)
        reader = open_reader(url, self.storage)
        inside = reader.children("")
        if isinstance(inside, Children) and (inside.files or inside.folders):
            names = self._newest(reader, inside)
        else:  # then it is a file, which its folder reads
            url, _, name = url.rpartition("/")
            reader, names = open_reader(url, self.storage), [name]
        for name in names:
            for _, data in reader.read([Piece(path=name, most=_MOST_FETCHED)]):
                if not isinstance(data, bytes):
                    raise _make_unreadable_error(f"{url}/{name}", _explain(data))
                yield f"{url}/{name}", io.BytesIO(data)

    def _newest(self, reader: Reader, inside: Children) -> Sequence[str]:
        """Return the files of the newest logs, the oldest log first."""
        logs = _find_logs(reader, inside)
        self.left_out = ""
        if len(logs) > _MOST_LOGS:
            read = f"only the newest {_MOST_LOGS} of its {len(logs):,} event logs were read"
            self.left_out = f"{read}; to read an older log, name it"
        return [name for log in logs[-_MOST_LOGS:] for name in log]


def _explain(result: Missing | Refused) -> str:
    return "it does not exist" if isinstance(result, Missing) else result.reason


def _make_unreadable_error(place: str, reason: str) -> EventLogUnreadable:
    return EventLogUnreadable(
        f"cannot read an event log at `{place}`: {reason}",
        hint="name a file that Spark wrote into `spark.eventLog.dir`, or that folder",
    )


def _find_logs(reader: Reader, inside: Children) -> Sequence[Sequence[str]]:
    """Return the files of each log, the oldest log first."""
    rolled = _list_rolled(inside.files)
    if rolled:
        return [rolled]
    logs = [
        (file.modified_ms, [file.name]) for file in inside.files if not file.name.startswith(".")
    ]
    for folder in inside.folders:
        below = reader.children(folder)
        if folder.startswith(_ROLLING) and isinstance(below, Children):
            newest_ms = max((file.modified_ms for file in below.files), default=0)
            logs.append((newest_ms, [f"{folder}/{name}" for name in _list_rolled(below.files)]))
    return [names for _, names in sorted(logs)]


def _list_rolled(files: Iterable[File]) -> list[str]:
    """Return the files of one rolling log in the order in which they were written."""
    numbered = [(match, file.name) for file in files if (match := _ROLLED.fullmatch(file.name))]
    return [name for _, name in sorted((int(m["number"]), name) for m, name in numbered)]


def split_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines; each is joined once, since the line of a large plan spans many chunks."""
    parts: list[bytes] = []
    length = 0
    for chunk in chunks:
        for number, part in enumerate(chunk.split(b"\n")):
            if number:
                if length <= LONGEST_LINE:
                    yield b"".join(parts)
                parts, length = [], 0
            length += len(part)
            if length <= LONGEST_LINE:
                parts.append(part)
            else:
                parts.clear()
    if 0 < length <= LONGEST_LINE:
        yield b"".join(parts)
