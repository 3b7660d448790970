"""Source offsets by kind: what a source's JSON in the offset log means.

The offset log does not say which source wrote an offset. The kind is recognised by the shape of
the JSON, and `Recognition` tells how far that can be trusted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from holdfast.model.fact import Unknown
from holdfast.model.json import Json


class Basis(StrEnum):
    """Why an offset is taken to be of a kind."""

    SHAPE = "recognised by its shape"
    SHARED_SHAPE = "recognised by a shape that other sources write too"
    DESCRIPTION = "named by the query's own records"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognition:
    """What the source is called, why, and which other sources would have written the same."""

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

    `{"topic":{"0":23}}`. Event Hubs writes the same shape, so this is shared unless the query's
    records name the source. `{}` is an offset of no partition.
    """

    recognition: Recognition
    partitions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventHubsOffset:
    """Event Hubs: the next sequence number, for each partition of each hub.

    The shape is Kafka's; only the query's records can tell that it is Event Hubs.
    """

    recognition: Recognition
    partitions: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOffset:
    """Spark's file source: a position in its own log, `{"logOffset":3}`. Sure."""

    recognition: Recognition
    log_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaOffset:
    """A Delta table: up to which version and which file in it. Sure.

    An index of -1 is before the first file of the version; -20 and -19 are at and after a change
    of the table's schema. In the starting snapshot the whole table as of `version` is read.
    """

    recognition: Recognition
    table_id: str
    version: int
    index: int
    in_starting_snapshot: bool
    source_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberOffset:
    """A bare number: the socket source counts lines, the memory source batches, rate seconds.

    File sources of Spark 2.1 wrote their log offset so. Shared by all of these.
    """

    recognition: Recognition
    value: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateMicroBatchOffset:
    """rate-micro-batch: rows so far and the time they stand for, `{"offset":..,"timestamp":..}`.

    Two plain names: likely, but a Python data source may write the same.
    """

    recognition: Recognition
    rows: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RatePartitionsOffset:
    """rate in continuous mode: per partition `{"value":..,"runTimeMs":..}`. Sure."""

    recognition: Recognition
    values: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNumbersOffset:
    """A number for each partition, `{"0":5,"1":8}` or `[5,8]`.

    Pub/Sub Lite writes the object, so does Spark's memory source in continuous and real-time
    mode; the socket source in continuous mode writes the list. Shared by these.
    """

    recognition: Recognition
    values: Mapping[int, int]


class ShardPosition(NamedTuple):
    """Where a shard was read to; `number` is the sequence number, empty where there is none.

    `inside` is the number of the record in those that a producer put together under one number, and
    `last` says that it is the last of them.
    """

    iterator: str
    number: str
    closed: bool
    inside: int = 0
    last: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KinesisOffset:
    """Kinesis: a position for each shard, by the key `stream/shard`.

    Sure for both shapes known: an object with `metadata` and a member for each shard (the open
    connectors), and a list of shards with `lastSeqNum` (Databricks).
    """

    recognition: Recognition
    shards: Mapping[str, ShardPosition]


@dataclass(frozen=True, slots=True, kw_only=True)
class PubSubOffset:
    """Pub/Sub of Databricks: `seqNum` with `fetchEpoch`.

    Documented and not open source: the names are sure, their number may vary.
    """

    recognition: Recognition
    sequence: int
    fetch_epoch: int
    source_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoLoaderOffset:
    """Auto Loader (cloudFiles): how many files it had discovered, `seqNum` with backfill times.

    Documented and not open source: sure where a backfill time or the input path is there.
    """

    recognition: Recognition
    sequence: int
    source_version: int
    input_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergOffset:
    """An Iceberg table: snapshot, and the position of the next file in it. Sure."""

    recognition: Recognition
    snapshot_id: int
    position: int
    scans_all_files: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SequentialUnionOffset:
    """Spark's sequential union: which of its sources is being read. Sure."""

    recognition: Recognition
    active: str
    all: tuple[str, ...]
    completed: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOffset:
    """The source had no offset yet: `-` in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpaqueOffset:
    """Any other JSON, shown as it is: a connector not known here, or a Python data source.

    What the latter writes may look like any other's: it is one where its description says so.
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

    CHANGED is for positions that have no order: another snapshot of a table, any opaque JSON.
    START_UNKNOWN is for an end whose start is in no entry any more, END_UNKNOWN for the start of a
    batch of Kinesis that has not told where it ended.
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
    """One partition between two offsets; a position is empty where there is none on that side.

    `count` is how many of the source's units lie between, where its positions count them.
    """

    partition: str
    start: str
    end: str
    count: int | Unknown
    change: Movement


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedRange:
    """What lies between two offsets of one source.

    `unit` says what a count counts: `offsets`, `log offsets`, `versions`, … A total is unknown
    as soon as one of the counts is.
    """

    source: str
    unit: str
    partitions: tuple[PartitionChange, ...]
    total: int | Unknown
