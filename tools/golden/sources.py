"""Scenarios without state: every source and sink that needs no cloud."""

import contextlib
import socket
import threading
import time

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tools.golden.scenario import (
    ROOT,
    Needs,
    Paced,
    Scenario,
    Stage,
    json_files,
    no_input,
)

_SOCKET_PORT = 29099
_TABLE = "lake.db.events"
_LINES = "one\ntwo\nthree\n"


def _noop(frame: DataFrame) -> DataStreamWriter:
    return frame.writeStream.format("noop")


def _files(stage: Stage) -> DataStreamWriter:
    return _noop(stage.files())


def _files_to_files(stage: Stage) -> DataStreamWriter:
    return stage.files().coalesce(1).writeStream.format("json").option("path", str(stage.sink))


def _files_to_console(stage: Stage) -> DataStreamWriter:
    return stage.files(latestFirst="false").writeStream.format("console")


def _files_foreach_batch(stage: Stage) -> DataStreamWriter:
    def write(rows: DataFrame, _batch: int) -> None:
        rows.write.format("noop").mode("overwrite").save()

    return stage.files().writeStream.foreachBatch(write)


def _rate(stage: Stage) -> DataStreamWriter:
    return _noop(stage.spark.readStream.format("rate").option("rowsPerSecond", 5).load())


def _rate_micro_batch(stage: Stage) -> DataStreamWriter:
    reader = stage.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5)
    return _noop(reader.option("startTimestamp", 1_767_225_600_000).load())


def _serve_lines(stage: Stage) -> None:
    """Start a server before the first run; it lives as long as the process."""
    if stage.run == 0:
        server = socket.create_server(("127.0.0.1", _SOCKET_PORT))
        threading.Thread(target=_answer, args=(server,), daemon=True).start()


def _answer(server: socket.socket) -> None:
    """Send lines to every client, more to each than to the previous: a restart reads new lines."""
    before = 0
    while True:
        connection, _ = server.accept()
        before += 1
        connection.sendall(_LINES.encode() * before)
        threading.Thread(target=_go_on, args=(connection,), daemon=True).start()


def _go_on(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        while True:
            time.sleep(0.5)
            connection.sendall(b"more\n")


def _socket(stage: Stage) -> DataStreamWriter:
    reader = stage.spark.readStream.format("socket").option("host", "127.0.0.1")
    return _noop(reader.option("port", _SOCKET_PORT).load())


def _two_inputs(stage: Stage) -> None:
    json_files(2, 2, name="input")(stage)
    json_files(1, 2, name="other")(stage)


def _union(stage: Stage) -> DataStreamWriter:
    return _noop(stage.files().union(stage.files("other")))


def _second_input_empty(stage: Stage) -> None:
    json_files(2, 2, name="input")(stage)
    stage.input("other").mkdir(exist_ok=True)


def _late_second_input(stage: Stage) -> None:
    json_files(2, 2, name="input")(stage)
    json_files(0, 1, name="other")(stage)


def _write_to_kafka(stage: Stage, topic: str, rows: int) -> None:
    frame = stage.spark.range(rows).select(
        f.col("id").cast("string").alias("key"), f.concat(f.lit("row "), "id").alias("value")
    )
    writer = frame.write.format("kafka").option("kafka.bootstrap.servers", stage.kafka)
    writer.option("topic", stage.topic(topic)).save()


def feed_kafka(stage: Stage) -> None:
    """Write rows for a run that reads Kafka; the second topic has none before the restart."""
    _write_to_kafka(stage, "events", 20)
    _write_to_kafka(stage, "payments", 5 * stage.run)


def kafka_rows(stage: Stage, **options: str) -> DataFrame:
    """Return keys and values of a scenario's two topics."""
    reader = stage.spark.readStream.format("kafka").option("kafka.bootstrap.servers", stage.kafka)
    topics = f"{stage.topic('events')},{stage.topic('payments')}"
    reader = reader.option("subscribe", topics).option("startingOffsets", "earliest")
    return reader.options(**options).load().select("key", "value")


def _kafka_to_noop(stage: Stage) -> DataStreamWriter:
    return _noop(kafka_rows(stage, maxOffsetsPerTrigger="10"))


def _kafka_to_kafka(stage: Stage) -> DataStreamWriter:
    writer = kafka_rows(stage, maxOffsetsPerTrigger="15").writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", stage.kafka)
    return writer.option("topic", stage.topic("out"))


def _feed_delta(stage: Stage) -> None:
    for number in range(2):
        rows = stage.spark.range(number * 10, number * 10 + 3).coalesce(1)
        rows.write.format("delta").mode("append").save(str(stage.input()))


def _delta(stage: Stage) -> DataStreamWriter:
    reader = stage.spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
    frame = reader.load(str(stage.input())).coalesce(1)
    return frame.writeStream.format("delta").option("path", str(stage.sink))


def _feed_iceberg(stage: Stage) -> None:
    if stage.run == 0:
        stage.spark.sql(f"DROP TABLE IF EXISTS {_TABLE}")
        stage.spark.sql(f"CREATE TABLE {_TABLE} (id BIGINT) USING iceberg")
    for number in range(2):
        rows = stage.spark.range(number * 10, number * 10 + 3).coalesce(1)
        rows.writeTo(_TABLE).append()


def _iceberg(stage: Stage) -> DataStreamWriter:
    reader = stage.spark.readStream.format("iceberg")
    return _noop(reader.option("streaming-max-files-per-micro-batch", 1).load(_TABLE))


def _python_source(stage: Stage) -> DataStreamWriter:
    # Imported here, because the module needs Spark 4.
    from tools.golden.python_source import CounterSource

    stage.spark.dataSource.register(CounterSource)
    return _noop(stage.spark.readStream.format(CounterSource.name()).load())


def _simple_python_source(stage: Stage) -> DataStreamWriter:
    from tools.golden.python_source import SimpleCounterSource

    stage.spark.dataSource.register(SimpleCounterSource)
    return _noop(stage.spark.readStream.format(SimpleCounterSource.name()).load())


SCENARIOS = (
    Scenario(
        name="files-compact",
        about="JSON files to noop, enough batches for a compact file of the source's log",
        query=_files,
        feed=json_files(6, 5),
    ),
    Scenario(
        name="files-to-files",
        about="JSON files to a file sink whose log is compacted every third batch",
        query=_files_to_files,
        conf={"spark.sql.streaming.fileSink.log.compactInterval": "3"},
    ),
    Scenario(
        name="files-to-console",
        about="JSON files to the console",
        query=_files_to_console,
    ),
    Scenario(
        name="files-foreach-batch",
        about="JSON files to a Python function per batch",
        query=_files_foreach_batch,
    ),
    Scenario(
        name="files-union",
        about="two folders of JSON files, unioned",
        query=_union,
        feed=_two_inputs,
    ),
    Scenario(
        name="files-union-no-offset",
        about="two folders of JSON files, unioned, the second always empty: its offset is `-`",
        query=_union,
        feed=_second_input_empty,
    ),
    Scenario(
        name="files-union-late",
        about="two folders of JSON files, unioned, the second empty until the restart",
        query=_union,
        feed=_late_second_input,
    ),
    Scenario(
        name="rate",
        about="the rate source",
        query=_rate,
        feed=no_input,
        pace=Paced(),
    ),
    Scenario(
        name="rate-micro-batch",
        about="the rate source with a fixed number of rows per batch",
        query=_rate_micro_batch,
        feed=no_input,
        pace=Paced(),
    ),
    Scenario(
        name="socket",
        about="lines from a socket, which a restart cannot read again",
        query=_socket,
        feed=_serve_lines,
        pace=Paced(),
        refused=True,
    ),
    Scenario(
        name="kafka",
        about="two Kafka topics to noop; the second gets its first rows before the restart",
        query=_kafka_to_noop,
        feed=feed_kafka,
        needs=Needs.KAFKA,
        topics={"events": 3, "payments": 1},
    ),
    Scenario(
        name="kafka-to-kafka",
        about="two Kafka topics to a third",
        query=_kafka_to_kafka,
        feed=feed_kafka,
        needs=Needs.KAFKA,
        topics={"events": 2, "payments": 1, "out": 1},
    ),
    Scenario(
        name="delta-to-delta",
        about="a Delta table to another",
        query=_delta,
        feed=_feed_delta,
        needs=Needs.DELTA,
    ),
    Scenario(
        name="iceberg",
        about="an Iceberg table to noop",
        query=_iceberg,
        feed=_feed_iceberg,
        conf={
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(ROOT / "scratch" / "lake"),
        },
        needs=Needs.ICEBERG,
    ),
    Scenario(
        name="python-source",
        about="a Python data source with partitions",
        query=_python_source,
        feed=no_input,
        since=(4, 0),
        pace=Paced(),
    ),
    Scenario(
        name="python-source-simple",
        about="a Python data source whose driver reads the rows itself, and caches them",
        query=_simple_python_source,
        feed=no_input,
        since=(4, 0),
        pace=Paced(),
    ),
)
