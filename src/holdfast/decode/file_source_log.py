r"""`sources/<i>/K` and `sources/<i>/K.compact` -> FileEntry.

    v1
    {"path":"file:///landing/a.json","timestamp":1767225600000,"batchId":3}

`batchId` is the source's own log offset, not the query's batch id. A compact entry repeats all
earlier entries in order, so its own files are at its end. With `whole=False` the bytes are the tail
of such an entry, and the first line, which is cut, is skipped.
"""

import re

from holdfast.decode import log
from holdfast.model.fact import Unreadable
from holdfast.model.offsets import FileEntry

_LINE = re.compile(
    r'\n\{"path": ?"([^"\\]*)", ?"timestamp": ?(\d{1,19}), ?"batchId": ?(\d{1,19})\}'
)


def decode(data: bytes, *, whole: bool = True) -> tuple[FileEntry, ...] | Unreadable:
    """Return the files of the entry, or why it cannot be read."""
    if whole:
        head = log.split_version(data, "file source log", (1,))
        if isinstance(head, Unreadable):
            return head
        rest = head[1]
    else:
        rest = data.decode("utf-8", "replace").partition("\n")[2]
    entries: list[FileEntry] = []
    for line in log.split_lines(rest):
        entry = _decode_entry(line)
        if isinstance(entry, Unreadable):
            return entry
        entries.append(entry)
    return tuple(entries)


def scan(text: str) -> list[tuple[str, str, str]]:
    """Return path, time and log offset of each line in Spark's own spelling; skip other lines.

    For logs of many files: the numbers stay text, which takes a tenth of the time.
    """
    return _LINE.findall(text)


def _decode_entry(line: str) -> FileEntry | Unreadable:
    fields = log.parse_object(line)
    if isinstance(fields, Unreadable):
        return fields
    path = fields.get("path")
    timestamp, log_offset = (log.as_integer(fields.get(key)) for key in ("timestamp", "batchId"))
    if not isinstance(path, str) or timestamp is None or log_offset is None:
        return Unreadable(reason=f"`{log.shorten(line)}` has no path, timestamp or batchId")
    return FileEntry(path=path, timestamp_ms=timestamp, log_offset=log_offset)
