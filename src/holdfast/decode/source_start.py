r"""`sources/<i>/0` of a source that records only its start -> SourceStart.

    \0v1                    Kafka, Event Hubs: the offsets at which the query began. Spark 2.1.0
    {"topic":{"0":17}}      wrote only the JSON, after a byte with its length. The NUL byte is for
                            Spark 2.1.0; every later version skips the first byte

    v1                      rate: the time in ms from which it counts seconds
    1767225600000

    {"version":1,"snapshot_id":…}      Iceberg, in `sources/<i>/offsets/0`: no version line

A file source keeps its log in the same place (`file_source_log`); each line of its first entry is a
JSON object with a path.
"""

from collections.abc import Mapping

from holdfast.decode import log
from holdfast.model.fact import Unreadable
from holdfast.model.offsets import SourceStart


def decode(data: bytes) -> SourceStart | Unreadable:
    """Return where the source began, or why the file cannot be read."""
    start = _decode_bytes(data)
    if isinstance(start, Unreadable) and data[1:2] == b"{":
        early = _decode_bytes(data[1:])
        return start if isinstance(early, Unreadable) else early
    return start


def _decode_bytes(data: bytes) -> SourceStart | Unreadable:
    whole = log.decode_text(data[1:] if data[:1] == b"\0" else data)
    if isinstance(whole, Unreadable):
        return whole
    if whole.startswith("v"):
        first, _, whole = whole.partition("\n")
        version = log.read_version(first)
        if isinstance(version, Unreadable):
            return version
        if version != 1:
            return Unreadable(reason=f"source start version {version}, expected 1")
    if not whole.strip():
        return Unreadable(reason="empty" if not data.strip(b"\0") else "ends before its offset")
    return _parse_start(whole)


def _parse_start(text: str) -> SourceStart | Unreadable:
    offset = log.parse_json(text)
    if isinstance(offset, Unreadable):
        return offset
    if isinstance(offset, Mapping) and "path" in offset and "batchId" in offset:
        return Unreadable(reason="an entry of a file source's log")
    return SourceStart(offset=offset)
