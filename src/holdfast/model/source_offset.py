"""Source offsets by kind: the meaning of a source's JSON in the offset log.

The offset log does not say which source wrote an offset. The kind is recognised by the shape of
the JSON, and `Recognition` says how certain that is: "certain" below means that no other source
writes the shape, "shared" that others do.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from holdfast.model.fact import Unknown
from holdfast.model.json import Json


class Basis(StrEnum):
    """How the kind of an offset was recognised."""

    SHAPE = "recognised by its shape"
    SHARED_SHAPE = "recognised by a shape that other sources write too"
    DESCRIPTION = "named by the query's own records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognition:
    """The kind of a source, how it was recognised, and other kinds that write the same shape."""

    source: str
    basis: Basis
    others: tuple[str, ...] = ()


class TopicPartition(NamedTuple):
    """A partition of a topic, or of an event hub."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOffset:
    """Kafka: the next offset to read, for each partition of each topic.

    `{"topic":{"0":23}}`. Shared with Event Hubs, unless the query's records name the source. `{}`
    has no partitions.
    """

    recognition: Recognition
    partitions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHubsOffset:
    """Event Hubs: the next sequence number, for each partition of each hub.

    The shape is Kafka's; only the query's records show that the source is Event Hubs.
    """

    recognition: Recognition
    partitions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOffset:
    """Spark's file source: a position in its own log, `{"logOffset":3}`. Certain."""

    recognition: Recognition
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaOffset:
    """A Delta table: a version, and the index of a file in it. Certain.

    An index of -1 is before the first file of the version; -20 and -19 are at and after a change
    of the table's schema. In the starting snapshot, the source reads the whole table as of
    `version`.
    """

    recognition: Recognition
    table_id: str
    version: int
    index: int
    in_starting_snapshot: bool
    source_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberOffset:
    """A bare number: lines of the socket source, batches of the memory source, seconds of rate.

    Shared by these, and by the log offset of file sources in Spark 2.1.
    """

    recognition: Recognition
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateMicroBatchOffset:
    """rate-micro-batch: the rows so far and their time, `{"offset":..,"timestamp":..}`.

    Likely, but a Python data source may use the same two names.
    """

    recognition: Recognition
    rows: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePartitionsOffset:
    """rate in continuous mode: per partition `{"value":..,"runTimeMs":..}`. Certain."""

    recognition: Recognition
    values: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNumbersOffset:
    """A number for each partition, `{"0":5,"1":8}` or `[5,8]`. Shared.

    Pub/Sub Lite writes the object, and so does Spark's memory source in continuous and real-time
    mode; the socket source in continuous mode writes the list.
    """

    recognition: Recognition
    values: Mapping[int, int]


class ShardPosition(NamedTuple):
    """The position in a shard; `number` is the sequence number, or empty.

    A producer may put several records under one sequence number: `inside` is the index of the
    record among them, and `last` says that it is the last of them.
    """

    iterator: str
    number: str
    closed: bool
    inside: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisOffset:
    """Kinesis: a position for each shard, with the key `stream/shard`.

    Certain for both known shapes: an object with `metadata` and a member for each shard (the open
    connectors), and a list of shards with `lastSeqNum` (Databricks).
    """

    recognition: Recognition
    shards: Mapping[str, ShardPosition]


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSubOffset:
    """Pub/Sub of Databricks: `seqNum` with `fetchEpoch`.

    Documented but not open source: the names are certain, but there may be more of them.
    """

    recognition: Recognition
    sequence: int
    fetch_epoch: int
    source_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoLoaderOffset:
    """Auto Loader (cloudFiles): the number of discovered files, `seqNum`, with backfill times.

    Documented but not open source: certain if it has a backfill time or the input path.
    """

    recognition: Recognition
    sequence: int
    source_version: int
    input_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergOffset:
    """An Iceberg table: a snapshot, and the position of the next file in it. Certain."""

    recognition: Recognition
    snapshot_id: int
    position: int
    scans_all_files: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialUnionOffset:
    """Spark's sequential union: the source that it currently reads. Certain."""

    recognition: Recognition
    active: str
    all: tuple[str, ...]
    completed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOffset:
    """A source that has no offset yet: `-` in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueOffset:
    """Any other JSON, shown unchanged: an unknown connector, or a Python data source.

    The offset of a Python data source may look like that of any other source; it is recognised by
    the description of the source.
    """

    value: Json
    source: str = "opaque"


RecognisedOffset = (
    KafkaOffset
    | EventHubsOffset
    | FileOffset
    | DeltaOffset
    | NumberOffset
    | RateMicroBatchOffset
    | RatePartitionsOffset
    | PartitionNumbersOffset
    | KinesisOffset
    | PubSubOffset
    | AutoLoaderOffset
    | IcebergOffset
    | SequentialUnionOffset
)
Offset = RecognisedOffset | NoOffset | OpaqueOffset


class Movement(StrEnum):
    """How one partition of a source moved between two offsets.

    CHANGED is for positions without an order: a different snapshot of a table, or any opaque JSON.
    START_UNKNOWN means that no entry has the start any more. END_UNKNOWN means that a batch of
    Kinesis has a start and no recorded end.
    """

    UNCHANGED = "unchanged"
    ADVANCED = "advanced"
    APPEARED = "appeared"
    VANISHED = "vanished"
    WENT_BACK = "went back"
    CHANGED = "changed"
    START_UNKNOWN = "start unknown"
    END_UNKNOWN = "end unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChange:
    """One partition between two offsets; a position is empty if that side has none.

    `count` is the number of the source's units in between, if its positions count units.
    """

    partition: str
    start: str
    end: str
    count: int | Unknown
    change: Movement


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedRange:
    """The range between two offsets of one source.

    `unit` is the unit of the counts: `offsets`, `log offsets`, `versions`, … The total is unknown
    if one of the counts is unknown.
    """

    source: str
    unit: str
    partitions: tuple[PartitionChange, ...]
    total: int | Unknown
