r"""Stage 1: `sources/<i>/K` and `sources/<i>/K.compact` -> FileEntry.

    v1
    {"path":"file:///landing/a.json","timestamp":1767225600000,"batchId":3}

`batchId` is the source's own log offset, not the query's batch id. A compact entry repeats
everything before it, in order, so that its own files stand at its end; with `whole=False` the
bytes are the tail of such an entry, and the first line, which is cut, is left out.
"""

from collections.abc import Mapping

from holdfast.decode import offset_log
from holdfast.model import json
from holdfast.model.offsets import FileEntry, Unreadable


def decode(data: bytes, *, whole: bool = True) -> tuple[FileEntry, ...] | Unreadable:
    """The files of the entry, or why it cannot be read."""
    try:
        lines = data.decode("utf-8", "strict" if whole else "replace").split("\n")
    except UnicodeDecodeError as error:
        return Unreadable(reason=f"not UTF-8 at byte {error.start}")
    if whole:
        version = offset_log.log_version(lines[0])
        if isinstance(version, Unreadable):
            return version
        if version != 1:
            return Unreadable(reason=f"file source log version {version}, expected 1")
    entries: list[FileEntry] = []
    for line in lines[1:]:
        if not line:
            continue
        entry = _entry(line)
        if isinstance(entry, Unreadable):
            return entry
        entries.append(entry)
    return tuple(entries)


def _entry(line: str) -> FileEntry | Unreadable:
    try:
        value = json.parse(line)
    except (ValueError, RecursionError):
        return Unreadable(reason=f"`{line[:40]}` is not JSON")
    if not isinstance(value, Mapping):
        return Unreadable(reason=f"`{line[:40]}` is not a JSON object")
    path, timestamp, log_offset = (value.get(key) for key in ("path", "timestamp", "batchId"))
    if not (isinstance(path, str) and isinstance(timestamp, int) and isinstance(log_offset, int)):
        return Unreadable(reason=f"`{line[:40]}` has no path, timestamp or batchId")
    return FileEntry(path=path, timestamp_ms=timestamp, log_offset=log_offset)
