"""Stage 1: `offsets/N` -> OffsetEntry.

Version 1, one line a source by position; version 2, one line a source by name:

    v1                                                      v2
    {"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}   {"batchWatermarkMs":0,...}
    {"logOffset":3}                                         landing:{"logOffset":3}
    -                                                       1:-

The second line may be empty in very old logs; `-` stands for a source without an offset.
"""

from collections.abc import Mapping

from holdfast.model import json
from holdfast.model.json import Json
from holdfast.model.offsets import OffsetEntry, SourceOffset, Unreadable

NO_OFFSET = "-"
KNOWN_VERSIONS = (1, 2)
_OPENINGS = tuple('{["')


def decode(data: bytes) -> OffsetEntry | Unreadable:
    """The entry, or why it cannot be read."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        return Unreadable(reason=f"not UTF-8 at byte {error.start}")
    version = log_version(lines[0])
    if isinstance(version, Unreadable):
        return version
    if version not in KNOWN_VERSIONS:
        return Unreadable(reason=f"offset log version {version}, expected 1 or 2")
    return _body(version, lines[1:])


def _body(version: int, lines: list[str]) -> OffsetEntry | Unreadable:
    metadata = _metadata(lines[0]) if lines else Unreadable(reason="ends after the version line")
    if isinstance(metadata, Unreadable):
        return metadata
    while lines and not lines[-1]:
        lines.pop()
    sources = tuple(_source(version, index, line) for index, line in enumerate(lines[1:]))
    if not sources:
        return Unreadable(reason="names no source, cut short")
    torn = next((source for source in sources if _is_torn(source.offset)), None)
    if torn is not None:
        return Unreadable(reason=f"the offset of source {torn.source} is cut short")
    return OffsetEntry(
        version=version,
        watermark_ms=_integer(metadata.get("batchWatermarkMs")),
        timestamp_ms=_integer(metadata.get("batchTimestampMs")),
        settings={key: str(value) for key, value in json.mapping(metadata.get("conf")).items()},
        sources=sources,
    )


def _is_torn(offset: Json) -> bool:
    """Whether an offset that is no JSON began as some."""
    return isinstance(offset, str) and offset[:1] in _OPENINGS


def log_version(line: str) -> int | Unreadable:
    """The number in a log's first line, `vN`."""
    if not line:
        return Unreadable(reason="empty")
    digits = line[1:]
    if line[0] != "v" or not (digits.isascii() and digits.isdigit()) or len(digits) > 9:  # noqa: PLR2004
        return Unreadable(reason=f"first line is `{line[:20]}`, expected `v1`")
    return int(digits)


def _metadata(line: str) -> Mapping[str, Json] | Unreadable:
    if not line:
        return {}
    try:
        value = json.parse(line)
    except (ValueError, RecursionError):
        return Unreadable(reason="second line is not JSON")
    if not isinstance(value, Mapping):
        return Unreadable(reason="second line is not a JSON object")
    return value


def _source(version: int, index: int, line: str) -> SourceOffset:
    name, text = (str(index), line) if version == 1 else _named(index, line)
    if text == NO_OFFSET:
        return SourceOffset(source=name, offset=None)
    try:
        return SourceOffset(source=name, offset=json.parse(text))
    except (ValueError, RecursionError):
        return SourceOffset(source=name, offset=text)


def _named(index: int, line: str) -> tuple[str, str]:
    name, colon, text = line.partition(":")
    return (name, text) if colon else (str(index), line)


def _integer(value: Json) -> int:
    return value if isinstance(value, int) else 0
