r"""Stage 1: `sources/<i>/0` of a source that keeps only where it began -> SourceStart.

    \0v1                    Kafka, Event Hubs: the offsets that the query began with. Spark 2.1.0
    {"topic":{"0":17}}      wrote the JSON alone, after a byte with its length; the NUL byte is
                            for it, and every later version passes over the first byte

    v1                      rate: the time in ms that its seconds are counted from
    1767225600000

    {"version":1,"snapshot_id":…}      Iceberg, in `sources/<i>/offsets/0`: no version line

A file source keeps its log in the same place (`file_source_log`); its first entry has one JSON
object with a path in a line.
"""

from collections.abc import Mapping

from holdfast.decode import log
from holdfast.model.fact import Unreadable
from holdfast.model.offsets import SourceStart


def decode(data: bytes) -> SourceStart | Unreadable:
    """Where the source began, or why it cannot be read."""
    found = _decode_bytes(data)
    if isinstance(found, Unreadable) and data[1:2] == b"{":
        early = _decode_bytes(data[1:])
        return found if isinstance(early, Unreadable) else early
    return found


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
    found = log.parse_json(text)
    if isinstance(found, Unreadable):
        return found
    if isinstance(found, Mapping) and "path" in found and "batchId" in found:
        return Unreadable(reason="an entry of a file source's log")
    return SourceStart(offset=found)
