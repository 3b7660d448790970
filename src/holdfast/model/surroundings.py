"""The surroundings of a checkpoint: its storage, its neighbours, and the sources themselves.

Everything is a value, or Unknown with the reason why it was not looked up.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import KafkaIdentity
from holdfast.model.source_offset import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaHistory:
    """A Delta table that a source reads: its id, and the versions that its log still has."""

    path: str
    table_id: str
    first_version: int
    last_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaCluster:
    """The offsets that a Kafka cluster still has: the first and the next one of each partition.

    `identity` has the ids of the cluster and of its topics.
    """

    servers: str
    first: Mapping[TopicPartition, int]
    next: Mapping[TopicPartition, int]
    identity: KafkaIdentity | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenFile:
    """A landing file whose modification time changed since the log took it."""

    path: str
    logged_ms: int
    modified_ms: int
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadFile:
    """A landing file that is in no entry of the log."""

    path: str
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingFolder:
    """The landing folder of a file source, compared with the source's log.

    `pattern` is the path or glob that the source reads; empty if it is not known. `newest_ms` is
    the newest time in the whole log. `not_checked` says what was not checked.
    """

    pattern: str
    newest_ms: int
    rewritten: tuple[RewrittenFile, ...]
    unread: tuple[UnreadFile, ...]
    not_checked: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCopy:
    """A checkpoint with the same query id that is not in the same folder as this one.

    `last_planned` is the newest batch in its offset log, -1 if the log is empty.
    """

    location: str
    last_planned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LocationFacts:
    """A checkpoint location or its base: its path, its file system, and a checkpoint above it.

    `path` is None if it is not on this machine; `temporary` is this machine's temporary folder.
    """

    url: str
    path: str | None
    temporary: str
    file_system: str
    checkpoint_above: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The location of the checkpoint, and the data that its sources still have.

    `files_gone` are files of the next batch that no longer exist. `same_query` are checkpoints
    in the same folder with the same query id. `copies` are such checkpoints nearby: inside this
    one, above it, or some levels below its parent folder. `start_settings` are the settings that
    the query will start with.
    """

    location: LocationFacts
    files_gone: tuple[str, ...] | Unknown
    landing: Mapping[str, LandingFolder | Unknown]
    same_query: tuple[str, ...] | Unknown
    delta: Mapping[str, DeltaHistory | Unknown]
    kafka: KafkaCluster | Unknown
    start_settings: Mapping[str, str]
    copies: tuple[CheckpointCopy, ...] = ()
