"""The contents of the files of a checkpoint: one class per on-disk format.

`holdfast.decode` turns bytes into these values, or into `Unreadable`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from holdfast.model.fact import Unknown
from holdfast.model.ids import QueryId
from holdfast.model.json import Json


class FileKind(StrEnum):
    """The kind of a file in a checkpoint, by its path alone."""

    METADATA = "metadata"
    OFFSETS = "offsets"
    COMMITS = "commits"
    SOURCE_LOG = "source log"
    SOURCE_COMPACT = "compacted source log"
    SOURCE_PRIVATE = "private to a source"
    STATE_DELTA = "state delta"
    STATE_SNAPSHOT = "state snapshot"
    STATE_ZIP = "state zip"
    STATE_CHANGELOG = "state changelog"
    STATE_SST = "state sst"
    STATE_LOG = "state log"
    STATE_SCHEMA = "state schema"
    OPERATOR_METADATA = "operator metadata"
    SPARK_CHECKSUM = "spark checksum"
    HADOOP_CHECKSUM = "hadoop checksum"
    TEMPORARY = "temporary"
    FOREIGN = "foreign"


class CheckpointFile(NamedTuple):
    """A file of a checkpoint, by its path; what the path does not say is None or an empty text.

    A named tuple and not a dataclass, because there may be a million of them: creating one is four
    times as fast.
    """

    kind: FileKind
    number: int | None = None
    """The batch id, the source's own log offset, the state version or the RocksDB file number."""
    unique_id: str = ""
    """The uuid in the name of a state version (format 2), an SST file or a schema file."""
    source: str = ""
    """Under `sources/`: the index or the name of the source."""
    operator: int | None = None
    partition: int | None = None
    store: str = ""
    """The state store in a partition; `default` if the partition has only one."""
    covers: str = ""
    """For a checksum: the path of the file that it covers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMetadata:
    """The `metadata` file: the id of the query that the checkpoint belongs to."""

    query_id: QueryId


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedSink:
    """A sink that a commit names (version 3, in which sinks may evolve)."""

    name: str
    offset: Json
    provider: str
    api_version: str
    active: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitEntry:
    """One entry of the commit log: the batch is done.

    `next_watermark_ms` is unknown in the `{}` of Spark 2.3 and older. `state_ids` has, per operator
    and partition, the unique id of each store's version: only those files are the state of this
    batch.
    """

    version: int
    next_watermark_ms: int | Unknown
    state_ids: Mapping[int, tuple[tuple[str, ...], ...]]
    sinks: tuple[CommittedSink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkFile:
    """One file that Spark's file sink added or deleted in a batch."""

    path: str
    bytes: int
    modified_ms: int
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateStoreInfo:
    """One state store of an operator, from the operator's metadata."""

    name: str
    prefix_key_columns: int
    partitions: int
    schema_paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorMetadata:
    """A stateful operator: its place in the plan, Spark's name for it, and its stores.

    `properties` are the additions of version 2: for transformWithState the time mode, the output
    mode and the state variables; otherwise an empty object.
    """

    version: int
    operator_id: int
    name: str
    stores: tuple[StateStoreInfo, ...]
    properties: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class StateColumn:
    """A column of a state schema; `type` is Spark's own text, such as `array<int>`."""

    name: str
    type: str
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFamily:
    """The key and the value of one column family; versions 1 and 2 have one, `default`."""

    name: str
    key_schema_id: int
    key: tuple[StateColumn, ...]
    value_schema_id: int
    value: tuple[StateColumn, ...]
    key_encoder: Json
    user_key: tuple[StateColumn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSchema:
    """A state schema file."""

    version: int
    families: tuple[ColumnFamily, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RocksDbFile:
    """A file of RocksDB: its name in RocksDB, and the name it is stored under in the checkpoint."""

    local_name: str
    stored_name: str
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RocksDbSnapshot:
    """The `metadata` inside a `V.zip`: the files of the version, and its number of rows.

    `version` is the version of the file format. `keys` is negative if Spark did not count the rows.
    """

    version: int
    keys: int
    internal_keys: int
    sst_files: tuple[RocksDbFile, ...]
    log_files: tuple[RocksDbFile, ...]
    column_families: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkChecksum:
    """Spark's own checksum of a state file, in the visible `<file>.crc` beside it."""

    algorithm: str
    value: int
    file_bytes: int
    timestamp_ms: int
    creator: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopChecksum:
    """Hadoop's checksum of a file on a local disk, in the hidden `.<file>.crc` beside it."""

    bytes_per_checksum: int
    checksums: tuple[int, ...]
