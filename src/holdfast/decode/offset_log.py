"""Stage 1: `offsets/N` -> OffsetEntry.

Version 1, one line a source by position; version 2, one line a source by name:

    v1                                                      v2
    {"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}   {"batchWatermarkMs":0,...}
    {"logOffset":3}                                         landing:{"logOffset":3}
    -                                                       1:-

The second line may be empty in very old logs; `-` stands for a source without an offset. Version
2 may also have, in its second line, `sourceMetadataInfo` (which Spark writes empty up to 4.3) and
`controlBatchInfo`.
"""

from collections.abc import Mapping

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.json import Json, canonical
from holdfast.model.offsets import (
    ControlBatch,
    OffsetEntry,
    SourceMetadata,
    SourceOffset,
    Unreadable,
)

NO_OFFSET = "-"
_SPACES = " \t\r"
KNOWN_VERSIONS = (1, 2)
_OPENINGS = tuple('{["')


def decode(data: bytes) -> OffsetEntry | Unreadable:
    """The entry, or why it cannot be read."""
    head = log.versioned(data, "offset log", KNOWN_VERSIONS)
    if isinstance(head, Unreadable):
        return head
    version, rest = head
    found = _body(version, log.lines(rest) if b"\n" in data else [])
    if isinstance(found, Unreadable) and version > 1:
        return Unreadable(reason=f"{found.reason}, in version {version}")
    return found


def _body(version: int, lines: list[str]) -> OffsetEntry | Unreadable:
    metadata = _metadata(lines[0]) if lines else Unreadable(reason="ends after the version line")
    if isinstance(metadata, Unreadable):
        return metadata
    sources = tuple(_source(version, index, line) for index, line in enumerate(lines[1:]))
    if not sources:
        return Unreadable(reason="names no source, cut short")
    torn = next((source for source in sources if _is_torn(source.offset)), None)
    if torn is not None:
        return Unreadable(reason=f"the offset of source {torn.source} is cut short, or no JSON")
    return OffsetEntry(
        version=version,
        watermark_ms=_integer(metadata.get("batchWatermarkMs")),
        timestamp_ms=_integer(metadata.get("batchTimestampMs")),
        settings=log.texts(metadata.get("conf")),
        sources=sources,
        source_metadata=_source_metadata(metadata.get("sourceMetadataInfo")),
        control=_control(metadata.get("controlBatchInfo")),
    )


def _is_torn(offset: Json) -> bool:
    """Whether an offset that is no JSON began as some."""
    return isinstance(offset, str) and offset[:1] in _OPENINGS


def _metadata(line: str) -> Mapping[str, Json] | Unreadable:
    if not line.strip():
        return {}
    found = log.members(line)
    return (
        Unreadable(reason=f"the second line {found.reason}")
        if isinstance(found, Unreadable)
        else found
    )


def _source_metadata(value: Json) -> Mapping[str, SourceMetadata]:
    return {
        source: SourceMetadata(
            provider=str(json.mapping(info).get("providerName") or ""),
            api_version=str(json.mapping(info).get("apiVersion") or ""),
        )
        for source, info in json.mapping(value).items()
    }


def _control(value: Json) -> ControlBatch | None:
    if not isinstance(value, Mapping):
        return None
    return ControlBatch(
        operation=str(value.get("operationType") or ""),
        info=str(value.get("operationInfo") or ""),
    )


def _source(version: int, index: int, line: str) -> SourceOffset:
    name, text = (str(index), line) if version == 1 else _named(index, line)
    if text == NO_OFFSET:
        return SourceOffset(source=name, offset=None)
    found = log.value(text)
    if isinstance(found, Unreadable):
        return SourceOffset(source=name, offset=text)
    return SourceOffset(
        source=name, offset=found, respelt=_spaces(text) > _spaces(canonical(found))
    )


def _spaces(text: str) -> int:
    return sum(text.count(space) for space in _SPACES)


def _named(index: int, line: str) -> tuple[str, str]:
    name, colon, text = line.partition(":")
    return (name, text) if colon else (str(index), line)


def _integer(value: Json) -> int:
    return log.integer(value) or 0
