"""An entry of Spark's offset log, and the files that a batch consumed."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdfast.model.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOffset:
    """The end offset of one source; `offset` is None if the source had none (`-`).

    `respelled`: it is JSON with spaces, so a person or a program wrote it, not Spark.
    """

    source: str
    offset: Json
    respelled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMetadata:
    """What version 2 of the offset log may contain for a source besides its offset."""

    provider: str
    api_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlBatch:
    """A batch without data that carries one of Spark's operations."""

    operation: str
    info: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetEntry:
    """One entry of the offset log: the end offsets of a batch and the settings pinned with it.

    `control` is None for a batch of data, which every batch of version 1 is.
    """

    version: int
    watermark_ms: int
    timestamp_ms: int
    settings: Mapping[str, str]
    sources: tuple[SourceOffset, ...]
    source_metadata: Mapping[str, SourceMetadata] = field(default_factory=dict)
    control: ControlBatch | None = None

    @property
    def lacks_settings(self) -> bool:
        """Return whether the second line is empty; a micro-batch has at least its time there."""
        return not self.settings and not self.timestamp_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """One file that a file source has taken, with the log offset that took it."""

    path: str
    timestamp_ms: int
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStart:
    """The start of a source, from its own folder: Kafka's first offsets, or a rate's start time."""

    offset: Json
