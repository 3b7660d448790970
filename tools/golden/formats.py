"""Scenarios for formats that depend on a setting or on the way a query runs."""

import time
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter
from tools.golden.operators import PROVIDERS, aggregate, noop, tws_in_pandas, watermarked
from tools.golden.scenario import (
    SCHEMA,
    TWO_AND_TWO,
    Continuous,
    Needs,
    Paced,
    Part,
    RealTime,
    Scenario,
    Stage,
    json_files,
    no_input,
)
from tools.golden.sources import feed_kafka, kafka_rows

_OFFSETS_2: Mapping[str, str] = {"spark.sql.streaming.offsetLog.formatVersion": "2"}
_SOURCE_NAMES: Mapping[str, str] = {
    **_OFFSETS_2,
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "true",
}
_SINK_NAMES: Mapping[str, str] = {
    "spark.sql.streaming.queryEvolution.enableSinkEvolution": "true",
}
_CHECKPOINT_2: Mapping[str, str] = {"spark.sql.streaming.stateStore.checkpointFormatVersion": "2"}
_SNAPSHOT_OFTEN: Mapping[str, str] = {"spark.sql.streaming.stateStore.minDeltasForSnapshot": "2"}
_KEEP_TWO: Mapping[str, str] = {"spark.sql.streaming.minBatchesToRetain": "2"}
_AVRO: Mapping[str, str] = {"spark.sql.streaming.stateStore.encodingFormat": "avro"}
_ROW_CHECKSUM: Mapping[str, str] = {"spark.sql.streaming.stateStore.rowChecksum.enabled": "true"}


def _files(stage: Stage) -> DataStreamWriter:
    return noop(stage.files())


def _two_inputs(stage: Stage) -> None:
    json_files(2, 1, name="input")(stage)
    json_files(2, 1, name="other")(stage)


def _union(stage: Stage) -> DataStreamWriter:
    return noop(stage.files().union(stage.files("other")))


def _named(reader: DataStreamReader, name: str) -> DataStreamReader:
    # Spark 4.2 has `name`, but the Spark that types are checked with does not.
    named: DataStreamReader = getattr(reader, "name")(name)  # noqa: B009
    return named


def _named_union(stage: Stage) -> DataStreamWriter:
    def files(name: str, folder: str) -> DataFrame:
        reader = stage.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return _named(reader, name).format("json").load(str(stage.input(folder)))

    return noop(files("clicks", "input").union(files("orders_2", "other")))


def _named_sink(stage: Stage) -> DataStreamWriter:
    writer = noop(stage.files())
    # So far, only the JVM's writer can name a sink.
    writer._jwrite = writer._jwrite.name("archive" if stage.run == 0 else "lake")  # noqa: SLF001
    return writer


def _slow_aggregate(stage: Stage) -> DataStreamWriter:
    """Make every batch last longer than the pause between two rounds of state maintenance."""

    def write(rows: DataFrame, _batch: int) -> None:
        rows.write.format("noop").mode("overwrite").save()
        time.sleep(1.5)

    by = watermarked(stage).groupBy(f.window("t", "10 minutes"), "k")
    return by.agg(f.sum("v").alias("total")).writeStream.foreachBatch(write)


def _repartitioned(partitions: int) -> Callable[[Stage], None]:
    """Return a feeder that also repartitions the state before the second run."""

    def feed(stage: Stage) -> None:
        if stage.run == 1:
            # Spark 4.2 has this manager, under a name that is not public yet.
            manager = getattr(stage.spark, "_streamingCheckpointManager")  # noqa: B009
            manager.repartition(str(stage.checkpoint), partitions)
        TWO_AND_TWO(stage)

    return feed


def _asynchronous(stage: Stage) -> DataStreamWriter:
    reader = stage.spark.readStream.format("rate").option("rowsPerSecond", 50)
    writer = noop(reader.load()).option("asyncProgressTrackingEnabled", "true")
    return writer.option("asyncProgressTrackingCheckpointIntervalMs", 1000)


def _rate_to_console(stage: Stage) -> DataStreamWriter:
    reader = stage.spark.readStream.format("rate").option("rowsPerSecond", 5)
    return reader.option("numPartitions", 2).load().writeStream.format("console")


def _kafka_to_console(stage: Stage) -> DataStreamWriter:
    return kafka_rows(stage).writeStream.format("console")


def _kafka_counts(stage: Stage) -> DataStreamWriter:
    return kafka_rows(stage).groupBy("key").count().writeStream.format("console")


SCENARIOS = (
    Scenario(
        name="checkpoint-format-2-rocksdb",
        about="windowed sums, state checkpoint format 2: the commit log names the state's files",
        query=aggregate,
        feed=json_files(1, 1),
        mode="update",
        conf={**PROVIDERS["rocksdb"], **_CHECKPOINT_2},
        since=(4, 0),
        part=Part.FORMAT_2,
    ),
    Scenario(
        name="checkpoint-format-2-changelog",
        about="windowed sums, state checkpoint format 2, changelog with lineage",
        query=aggregate,
        mode="update",
        conf={**PROVIDERS["changelog"], **_CHECKPOINT_2},
        since=(4, 0),
        part=Part.FORMAT_2,
    ),
    Scenario(
        name="checkpoint-format-2-tws",
        about="transformWithStateInPandas, state checkpoint format 2",
        query=tws_in_pandas,
        mode="update",
        conf={**PROVIDERS["changelog"], **_CHECKPOINT_2},
        since=(4, 0),
        part=Part.FORMAT_2,
    ),
    Scenario(
        name="tws-avro",
        about="transformWithStateInPandas, state rows encoded as Avro",
        query=tws_in_pandas,
        mode="update",
        conf={**PROVIDERS["changelog"], **_AVRO},
        since=(4, 0),
    ),
    Scenario(
        name="row-checksum",
        about="windowed sums, a checksum per state row",
        query=aggregate,
        mode="update",
        conf={**PROVIDERS["changelog"], **_ROW_CHECKSUM},
        since=(4, 2),
    ),
    Scenario(
        name="offsets-2",
        about="two folders of JSON files, offset log version 2, sources by number",
        query=_union,
        feed=_two_inputs,
        conf=_OFFSETS_2,
        since=(4, 2),
    ),
    Scenario(
        name="offsets-2-aggregate",
        about="windowed sums, offset log version 2",
        query=aggregate,
        mode="update",
        conf={**PROVIDERS["hdfs"], **_OFFSETS_2},
        since=(4, 2),
    ),
    Scenario(
        name="offsets-2-named",
        about="two folders of JSON files, offset log version 2, named sources",
        query=_named_union,
        feed=_two_inputs,
        conf=_SOURCE_NAMES,
        since=(4, 2),
    ),
    Scenario(
        name="commits-3",
        about="JSON files to a named sink and, after the restart, to another: commit log version 3",
        query=_named_sink,
        conf=_SINK_NAMES,
        since=(4, 2),
    ),
    Scenario(
        name="repartitioned-fewer",
        about="windowed sums, their state brought from two partitions to one before the restart",
        query=aggregate,
        feed=_repartitioned(1),
        mode="update",
        conf=PROVIDERS["rocksdb"],
        since=(4, 2),
    ),
    Scenario(
        name="repartitioned-more",
        about="windowed sums, their state brought from two partitions to three before the restart",
        query=aggregate,
        feed=_repartitioned(3),
        mode="update",
        conf=PROVIDERS["changelog"],
        since=(4, 2),
    ),
    Scenario(
        name="asynchronous-progress",
        about="rate to noop with asynchronous progress tracking: the logs have gaps",
        query=_asynchronous,
        feed=no_input,
        pace=Paced(every="300 milliseconds", batches=6),
        asynchronous=True,
    ),
    Scenario(
        name="continuous",
        about="rate to console in continuous mode",
        query=_rate_to_console,
        feed=no_input,
        pace=Continuous(),
    ),
    Scenario(
        name="real-time",
        about="Kafka to console in real-time mode",
        query=_kafka_to_console,
        feed=feed_kafka,
        pace=RealTime(),
        mode="update",
        since=(4, 2),
        needs=Needs.KAFKA,
        topics={"events": 2, "payments": 1},
    ),
    Scenario(
        name="real-time-aggregate",
        about="counts of Kafka rows to console in real-time mode",
        query=_kafka_counts,
        feed=feed_kafka,
        pace=RealTime(),
        mode="update",
        conf={**PROVIDERS["changelog"], **_CHECKPOINT_2},
        since=(4, 3),
        needs=Needs.KAFKA,
        topics={"events": 2, "payments": 1},
    ),
    Scenario(
        name="snapshots-hdfs",
        about="windowed sums with maintenance between batches: delta and snapshot files",
        query=_slow_aggregate,
        mode="update",
        conf={**PROVIDERS["hdfs"], **_SNAPSHOT_OFTEN},
        feed=json_files(4, 2),
        part=Part.MAINTAINED,
    ),
    Scenario(
        name="snapshots-changelog",
        about="windowed sums with maintenance between batches: changelog and snapshot files",
        query=_slow_aggregate,
        mode="update",
        conf={**PROVIDERS["changelog"], **_SNAPSHOT_OFTEN},
        feed=json_files(4, 2),
        part=Part.MAINTAINED,
    ),
    Scenario(
        name="purged",
        about="JSON files, twelve batches of which the logs keep three",
        query=_files,
        conf=_KEEP_TWO,
        feed=json_files(6, 6),
        part=Part.MAINTAINED,
    ),
    Scenario(
        name="purged-hdfs",
        about="windowed sums, eight batches, logs and state purged",
        query=_slow_aggregate,
        mode="update",
        conf={**PROVIDERS["hdfs"], **_SNAPSHOT_OFTEN, **_KEEP_TWO},
        feed=json_files(4, 4),
        part=Part.MAINTAINED,
    ),
    Scenario(
        name="purged-rocksdb",
        about="windowed sums, eight batches, logs and state purged",
        query=_slow_aggregate,
        mode="update",
        conf={**PROVIDERS["rocksdb"], **_SNAPSHOT_OFTEN, **_KEEP_TWO},
        feed=json_files(4, 4),
        part=Part.MAINTAINED,
    ),
)
