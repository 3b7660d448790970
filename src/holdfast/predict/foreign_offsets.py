r"""Offset lines that the source whose folder lies beside them cannot read.

    sources/0/0             made by        reads the line of source 0 as
    {"path":…}              a file source  {"logOffset":3}, or a bare number
    \0v1 {"topic":…}       Kafka          {"topic":{"0":23}}
    v1 1767225600000        rate           a bare number

Spark does not check the kind of a source. It passes the line to the source, which fails at a line
of any other kind. A folder can also be left over from an earlier query: a Delta table or a socket
never looks into it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence, SourceFolderKind
from holdfast.model.json import Json
from holdfast.model.offsets import OffsetEntry
from holdfast.model.source_offset import (
    FileOffset,
    KafkaOffset,
    NoOffset,
    NumberOffset,
    OpaqueOffset,
)
from holdfast.predict import source_log

MAKERS: Mapping[SourceFolderKind, str] = {
    SourceFolderKind.FILES: "a file source",
    SourceFolderKind.KAFKA: "a Kafka source",
    SourceFolderKind.RATE: "a rate source",
}
EXPECTED: Mapping[SourceFolderKind, str] = {
    SourceFolderKind.FILES: 'an offset such as `{"logOffset":3}`',
    SourceFolderKind.KAFKA: 'an offset such as `{"topic":{"0":23}}`',
    SourceFolderKind.RATE: "a number",
}
ERRORS: Mapping[SourceFolderKind, tuple[str, ...]] = {
    SourceFolderKind.FILES: ("MappingException", "NullPointerException"),
    SourceFolderKind.KAFKA: ("IllegalArgumentException",),
    SourceFolderKind.RATE: ("NumberFormatException",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignOffset:
    """A line that the source of a folder cannot read.

    `looks_like` is the kind of source that writes such lines, if one does. `unless` says how the
    folder may be left over, if it may.
    """

    source: str
    folder: str
    folder_kind: SourceFolderKind
    offset: Json
    looks_like: str
    unless: str


def find(evidence: Evidence, entry: OffsetEntry) -> Iterator[ForeignOffset]:
    """Yield the lines of an entry that their sources cannot read."""
    descriptions = {source.name: source.described for source in evidence.sources}
    folders = source_log.map_folders(evidence)
    for line in entry.sources:
        folder = folders.get(line.source, line.source)
        log = evidence.source_logs.get(folder) if isinstance(folder, str) else None
        if not isinstance(folder, str) or log is None or line.offset in (None, ""):
            continue
        if log.folder_kind is SourceFolderKind.UNKNOWN or _can_read(log.folder_kind, line.offset):
            continue
        recorded_kind = source_offset.name_source(descriptions.get(line.source, ""))
        if recorded_kind and recorded_kind != log.folder_kind.value:
            continue  # The folder is left over from an earlier query.
        kind = _name_kind(line.offset)
        leftover = _explain_leftover(folder, log.folder_kind, line.offset, kind)
        yield ForeignOffset(
            source=line.source,
            folder=folder,
            folder_kind=log.folder_kind,
            offset=line.offset,
            looks_like=kind,
            unless="" if recorded_kind else leftover,
        )


def _can_read(folder_kind: SourceFolderKind, offset: Json) -> bool:
    """Return whether a source accepts a line as its offset, as tried on Spark 4.1."""
    whole = isinstance(offset, int) and not isinstance(offset, bool)
    match folder_kind:
        case SourceFolderKind.FILES:
            log_offset = offset.get("logOffset") if isinstance(offset, Mapping) else None
            return whole or _is_number(log_offset)
        case SourceFolderKind.KAFKA:
            # It reads `null` as an offset without partitions.
            return offset == "null" or _is_kafka(offset)
        case _:
            return whole


def _is_kafka(offset: Json) -> bool:
    return isinstance(offset, Mapping) and all(
        isinstance(partitions, Mapping)
        and all(
            key.isascii() and key.isdigit() and _is_number(position)
            for key, position in partitions.items()
        )
        for partitions in offset.values()
    )


def _is_number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _name_kind(offset: Json) -> str:
    decoded = source_offset.decode(offset)
    if isinstance(decoded, NumberOffset):
        return "a socket"
    return "" if isinstance(decoded, OpaqueOffset | NoOffset) else decoded.recognition.source


def _explain_leftover(folder: str, folder_kind: SourceFolderKind, offset: Json, kind: str) -> str:
    """Return how the folder can be left over: the source that wrote the line never reads it."""
    decoded = source_offset.decode(offset)
    reads_folder = isinstance(decoded, FileOffset) or (
        isinstance(decoded, KafkaOffset) and folder_kind is not SourceFolderKind.RATE
    )
    if reads_folder or not isinstance(offset, Mapping | int) or isinstance(offset, bool):
        return ""
    now = kind or "a different source"
    return f"the query now reads {now} and `sources/{folder}` is left over from an earlier query"
