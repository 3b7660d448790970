"""What an entry of Spark's offset log says, and what a batch consumed."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """Bytes that are not what their name says, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """The end offset of one source; `offset` is None where the source had none (`-`)."""

    source: str
    offset: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntry:
    """One entry of the offset log: the end offsets of a batch and the settings pinned with it."""

    version: int
    watermark_ms: int
    timestamp_ms: int
    settings: Mapping[str, str]
    sources: tuple[SourceOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file that a file source has taken, under the log offset that took it."""

    path: str
    timestamp_ms: int
    log_offset: int
