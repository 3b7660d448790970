"""`offsets/N` -> OffsetEntry.

Both versions have one line per source, version 1 by position and version 2 by name:

    v1                                                      v2
    {"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}   {"batchWatermarkMs":0,...}
    {"logOffset":3}                                         landing:{"logOffset":3}
    -                                                       1:-

In very old logs of version 1 the second line may be empty. `-` means that a source has no offset.
The second line of version 2 may also have `sourceMetadataInfo`, which every Spark so far writes
empty, and `controlBatchInfo`. If two lines have the same name, Spark uses the last.
"""

from collections.abc import Mapping

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.fact import Unreadable
from holdfast.model.json import Json, to_canonical
from holdfast.model.offsets import ControlBatch, OffsetEntry, SourceMetadata, SourceOffset

NO_OFFSET = "-"
_SPACES = " \t\r"
KNOWN_VERSIONS = (1, 2)
_ENDS = Unreadable(reason="ends after the version line")
_NUMBERS = ("batchWatermarkMs", "batchTimestampMs")
_NO_NUMBER = (str, bool, list, dict)
_OPENINGS = tuple('{["')
_MOST_SOURCES = 10_000
_LARGEST = (1 << 63) - 1


def decode(data: bytes) -> OffsetEntry | Unreadable:
    """Return the entry, or why it cannot be read."""
    head = log.split_version(data, "offset log", KNOWN_VERSIONS)
    if isinstance(head, Unreadable):
        return head
    version, rest = head
    entry = _decode_body(version, log.split_lines(rest) if b"\n" in data else [])
    if isinstance(entry, Unreadable) and version > 1:
        return Unreadable(reason=f"{entry.reason}, in version {version}")
    return entry


def _decode_body(version: int, lines: list[str]) -> OffsetEntry | Unreadable:
    metadata = _decode_metadata(version, lines[0]) if lines else _ENDS
    if isinstance(metadata, Unreadable):
        return metadata
    if len(lines) > _MOST_SOURCES:
        return Unreadable(reason=f"{len(lines)} lines, expected one a source")
    sources: dict[str, SourceOffset] = {}
    for index, line in enumerate(lines[1:]):
        source = _decode_source(version, index, line)
        if isinstance(source, Unreadable):
            return source
        sources[source.source] = source
    if not sources:
        return Unreadable(reason="names no source, cut short")
    return OffsetEntry(
        version=version,
        watermark_ms=_to_long(metadata.get("batchWatermarkMs")),
        timestamp_ms=_to_long(metadata.get("batchTimestampMs")),
        settings=log.as_texts(metadata.get("conf")),
        sources=tuple(sources.values()),
        source_metadata=_decode_source_metadata(metadata.get("sourceMetadataInfo")),
        control=_decode_control(metadata.get("controlBatchInfo")),
    )


def _decode_metadata(version: int, line: str) -> Mapping[str, Json] | Unreadable:
    if not line.strip():
        return {} if version == 1 else Unreadable(reason="the second line is empty")
    metadata = log.parse_object(line)
    if isinstance(metadata, Unreadable):
        return Unreadable(reason=f"the second line {metadata.reason}")
    wrong = next((name for name in _NUMBERS if isinstance(metadata.get(name), _NO_NUMBER)), None)
    if wrong is not None:
        return Unreadable(reason=f"`{wrong}` in the second line is no number")
    if not _are_settings(metadata.get("conf")):
        return Unreadable(reason="`conf` in the second line is no object of texts and numbers")
    return metadata


def _are_settings(value: Json) -> bool:
    """Return whether Spark accepts the settings: a setting may be a number, but not `true`."""
    if isinstance(value, Mapping):
        return not any(isinstance(setting, bool | list | dict) for setting in value.values())
    return value is None


def _to_long(value: Json) -> int:
    """Convert a number like Spark: cut off fractions, limit it to a long; a missing one is 0."""
    if isinstance(value, float):
        return int(max(-_LARGEST, min(_LARGEST, value)))
    return log.as_integer(value) or 0


def _decode_source_metadata(value: Json) -> Mapping[str, SourceMetadata]:
    return {
        source: SourceMetadata(
            provider=str(json.as_mapping(info).get("providerName") or ""),
            api_version=str(json.as_mapping(info).get("apiVersion") or ""),
        )
        for source, info in json.as_mapping(value).items()
    }


def _decode_control(value: Json) -> ControlBatch | None:
    if not isinstance(value, Mapping):
        return None
    return ControlBatch(
        operation=str(value.get("operationType") or ""),
        info=str(value.get("operationInfo") or ""),
    )


def _decode_source(version: int, index: int, line: str) -> SourceOffset | Unreadable:
    name, colon, text = (str(index), ":", line) if version == 1 else line.partition(":")
    if not colon:
        return Unreadable(reason=f"the line `{log.shorten(line)}` has no name of a source")
    if text == NO_OFFSET:
        return SourceOffset(source=name, offset=None)
    offset = log.parse_json(text)
    if isinstance(offset, Unreadable):
        if text[:1] in _OPENINGS:
            return Unreadable(reason=f"the offset of source {name} is cut short, or no JSON")
        offset = text
    if offset is None:  # `null`, which is also an offset
        offset = text
    return SourceOffset(
        source=name,
        offset=offset,
        respelled=_count_spaces(text) > _count_spaces(to_canonical(offset)),
    )


def _count_spaces(text: str) -> int:
    return sum(text.count(space) for space in _SPACES)
