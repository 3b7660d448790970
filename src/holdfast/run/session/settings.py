"""Every Spark and Delta setting that holdfast chooses, and why. The user's own always wins."""

from dataclasses import dataclass

from holdfast.sources import open as opening


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting, the reason for it, and what it was measured to gain."""

    key: str
    value: str
    why: str
    gain: str


_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"

ALWAYS = (
    Setting(
        key="spark.sql.extensions",
        value="io.delta.sql.DeltaSparkSessionExtension",
        why="Delta tables can be read and merged",
        gain="needed",
    ),
    Setting(
        key="spark.sql.catalog.spark_catalog",
        value="org.apache.spark.sql.delta.catalog.DeltaCatalog",
        why="Delta tables can be read and merged",
        gain="needed",
    ),
    Setting(
        key="spark.databricks.delta.snapshotPartitions",
        value="1",
        why="a Delta stream looks at the table's snapshot twice a batch, by default in 50 tasks",
        gain="Delta source, trigger 4,000 ms to 370 ms (one run)",
    ),
    Setting(
        key="spark.sql.streaming.stateStore.providerClass",
        value=_ROCKSDB,
        why="state outgrows the heap, and a full heap stalls every batch",
        gain="none while state is small (670 ms a trigger, in memory 360 ms)",
    ),
    Setting(
        key="spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        value="true",
        why="a batch uploads what changed, not a snapshot of all state",
        gain="none while state is small",
    ),
    Setting(
        key="spark.sql.parquet.outputTimestampType",
        value="TIMESTAMP_MICROS",
        why="Spark's default INT96 has no statistics, so files could not be skipped by time",
        gain="data skipping by time",
    ),
    Setting(
        key="spark.ui.showConsoleProgress",
        value="false",
        why="progress bars of Spark jobs overwrite what holdfast says",
        gain="readable output",
    ),
)

LOCAL = (
    Setting(
        key="spark.sql.shuffle.partitions",
        value="{cores}",
        why="200 state stores on one machine cost more than the batch; the first batch pins it",
        gain="stateful trigger 16 s to 0.7 s, 1,000 rows, two cores",
    ),
)

ON_S3 = (
    Setting(
        key="spark.sql.streaming.checkpointFileManagerClass",
        value=_ABORTABLE,
        why="S3 has no rename; the default manager copies and deletes for every log entry",
        gain="log writes a batch 300 ms to 85 ms (one run)",
    ),
)

KAFKA_SOURCE = (
    Setting(
        key="kafka.max.poll.records",
        value=opening.MAX_POLL_RECORDS,
        why="the default of 500 makes a large batch wait for the broker again and again",
        gain="reading 2 million rows 4.5 s to 2.6 s, two partitions",
    ),
)


def choose(*, cores: int | None, on_s3: bool) -> tuple[Setting, ...]:
    """The settings for a session: `cores` if it runs on this machine alone."""
    local = tuple(
        Setting(key=s.key, value=s.value.format(cores=cores), why=s.why, gain=s.gain)
        for s in (LOCAL if cores is not None else ())
    )
    return ALWAYS + local + (ON_S3 if on_s3 else ())
