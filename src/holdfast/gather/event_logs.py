"""Stage 2: a path -> the events of the Spark event logs there that concern streaming queries.

    <app id>[.zstd|.lz4|.snappy][.inprogress]        one file
    eventlog_v2_<app id>/events_<n>_<app id>[.zstd]  a rolling log: files in the order of <n>

A folder may hold many logs; the newest are read. Lines are handed on one at a time, and a line
that is longer than any event is left out: memory does not grow with the log.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from holdfast.decode import event_log
from holdfast.errors import EventLogUnreadable
from holdfast.gather import codecs
from holdfast.gather.history import Told
from holdfast.model.offsets import Unreadable
from holdfast.storage import Children, File, Missing, Reader, Refused, local, open_reader, urls

_ROLLED = re.compile(r"events_(?P<number>\d+)_.*")
_ROLLING = "eventlog_v2_"
_MOST_LOGS = 50
_LONGEST_LINE = 64 << 20


def events(place: str) -> Iterator[Told]:
    """The events of the logs at a place, oldest log first, each with the file that tells it."""
    for path in _files(place):
        with local.opened_quietly(path) as file:
            for event in event_log.decode(_lines(codecs.opened(path.name, file))):
                if not isinstance(event, Unreadable):
                    yield str(path), event


def _files(place: str) -> Sequence[Path]:
    if not urls.is_local(place):
        raise EventLogUnreadable(
            f"expected an event log on this machine, found `{place}`",
            hint="copy it here first, as with `aws s3 cp --recursive`",
        )
    path = urls.local_path(place)
    if path.is_file():
        return [path]
    reader = open_reader(place)
    inside = reader.children("")
    if isinstance(inside, Missing | Refused):
        found = "nothing there" if isinstance(inside, Missing) else inside.reason
        raise EventLogUnreadable(
            f"expected an event log at `{place}`, found: {found}",
            hint="name a file that Spark wrote into `spark.eventLog.dir`, or that folder",
        )
    return [path / name for name in _in_folder(reader, inside)]


def _in_folder(reader: Reader, inside: Children) -> Sequence[str]:
    """The files of the newest logs, the oldest log first."""
    rolled = _rolled(inside.files)
    if rolled:
        return rolled
    logs = [
        (file.modified_ms, [file.name]) for file in inside.files if not file.name.startswith(".")
    ]
    for folder in inside.folders:
        below = reader.children(folder)
        if folder.startswith(_ROLLING) and isinstance(below, Children):
            newest_ms = max((file.modified_ms for file in below.files), default=0)
            logs.append((newest_ms, [f"{folder}/{name}" for name in _rolled(below.files)]))
    return [name for _, names in sorted(logs)[-_MOST_LOGS:] for name in names]


def _rolled(files: Iterable[File]) -> list[str]:
    """The files of one rolling log, in the order that they were written."""
    numbered = [(match, file.name) for file in files if (match := _ROLLED.fullmatch(file.name))]
    return [name for _, name in sorted((int(m["number"]), name) for m, name in numbered)]


def _lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    skipping = False
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        if lines and skipping:
            lines, skipping = lines[1:], False
        yield from lines
        if len(rest) > _LONGEST_LINE:
            rest, skipping = b"", True
    if rest and not skipping:
        yield rest
