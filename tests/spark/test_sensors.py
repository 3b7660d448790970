"""The sensor stages on real Spark, against what the simulator says was sent."""

import secrets
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import deltalake
import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from holdfast.examples.database import Database
from holdfast.examples.sensors import pipeline, reconcile, simulator, stages
from holdfast.examples.sensors.landing import LandingWriter
from holdfast.examples.sensors.pipeline import Settings
from holdfast.examples.sensors.simulator import (
    Defect,
    Encoding,
    Message,
    MessageKind,
    Reading,
    Truth,
)
from holdfast.examples.sensors.stages import Reason

pytestmark = pytest.mark.spark

SEED = 11
RAW = "key binary, payload binary, origin string, position bigint, received_at timestamp"
FIELD_REASONS = {
    Reason.SENSOR_MISSING,
    Reason.METRIC_UNKNOWN,
    Reason.EVENT_TIME_IMPOSSIBLE,
    Reason.VALUE_NOT_FINITE,
    Reason.SEQUENCE_MISSING,
}
EXPECTED = {
    Defect.TRUNCATED: {Reason.PAYLOAD_UNDECODABLE},
    Defect.NOT_UTF8: {Reason.PAYLOAD_NOT_UTF8, Reason.METRIC_UNKNOWN},
    Defect.FIELD_MISSING: FIELD_REASONS,
    Defect.VALUE_AS_TEXT: {Reason.VALUE_NOT_FINITE},
    Defect.VALUE_NOT_FINITE: {Reason.VALUE_NOT_FINITE},
    Defect.METRIC_UNKNOWN: {Reason.METRIC_UNKNOWN},
    Defect.TIME_IN_FUTURE: {Reason.EVENT_TIME_IMPOSSIBLE},
    Defect.EMPTY: {Reason.PAYLOAD_EMPTY},
}


def sent(count: int, encoding: Encoding) -> tuple[Message, ...]:
    return tuple(simulator.generate_messages(SEED, count, encoding=encoding))


def raw(spark: SparkSession, messages: Sequence[Message]) -> DataFrame:
    rows = [(m.key, m.payload, "here", number, None) for number, m in enumerate(messages)]
    return spark.createDataFrame(rows, RAW)


def of(reading: Reading) -> tuple[object, ...]:
    return (
        reading.sensor,
        reading.metric,
        reading.event_time,
        reading.value,
        reading.sequence,
    )


def readings_of(rows: DataFrame) -> Counter[tuple[object, ...]]:
    in_ms = F.unix_millis("event_time").alias("event_time")
    found = rows.select("sensor", "metric", in_ms, "value", "sequence").collect()
    return Counter(tuple(row) for row in found)


@pytest.mark.parametrize("encoding", list(Encoding))
def test_every_payload_is_a_reading_or_has_the_reason_of_its_defect(
    spark: SparkSession, encoding: Encoding
) -> None:
    messages = sent(6_000, encoding)

    typed = stages.decode_readings(raw(spark, messages), encoding)

    assert readings_of(stages.select_readings(typed)) == Counter(
        of(m.content) for m in messages if isinstance(m.content, Reading)
    )
    wrong = stages.select_quarantine(typed).select("position", "payload", "reason").collect()
    garbage = {n: m for n, m in enumerate(messages) if m.kind is MessageKind.GARBAGE}
    assert {row.position for row in wrong} == set(garbage)
    for row in wrong:
        message = garbage[row.position]
        assert bytes(row.payload) == message.payload
        assert isinstance(message.content, Defect)
        assert row.reason in EXPECTED[message.content]


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"{}", Reason.PAYLOAD_UNDECODABLE),
        (b"[]", Reason.PAYLOAD_UNDECODABLE),
        (b"null", Reason.PAYLOAD_UNDECODABLE),
        (b'{"sensor":""}', Reason.SENSOR_MISSING),
        (b'{"sensor":"s","metric":"humidity"}', Reason.EVENT_TIME_IMPOSSIBLE),
        (
            b'{"sensor":"s","metric":"humidity","event_time":1767225600000,"value":1}',
            Reason.SEQUENCE_MISSING,
        ),
        (
            b'{"sensor":"s","metric":"humidity","event_time":1767225600000,"value":1,"sequence":-1}',
            Reason.SEQUENCE_MISSING,
        ),
        (
            b'{"sensor":"s","metric":"humidity","event_time":9223372036854775807}',
            Reason.EVENT_TIME_IMPOSSIBLE,
        ),
        (None, Reason.PAYLOAD_EMPTY),
    ],
)
def test_what_the_simulator_does_not_send_is_quarantined_too(
    spark: SparkSession, payload: bytes | None, reason: Reason
) -> None:
    rows = spark.createDataFrame([(b"k", payload, "here", 0, None)], RAW)

    typed = stages.decode_readings(rows, Encoding.JSON)

    assert [row.reason for row in stages.select_quarantine(typed).collect()] == [reason]
    assert stages.select_readings(typed).count() == 0


def test_landing_files_become_raw_rows_with_a_line_number_each(
    spark: SparkSession, tmp_path: Path
) -> None:
    messages = sent(500, Encoding.AVRO)
    LandingWriter(directory=tmp_path, messages_per_file=100).write(messages)
    (tmp_path / "part-000000500.tsv").write_bytes(b"not of a landing file\nkey\t*\n")

    read = spark.read.format("text").option("wholetext", "true").load(str(tmp_path))
    rows = stages.parse_files(read).orderBy("origin", "position").collect()

    assert [(bytes(row.key), bytes(row.payload)) for row in rows[:500]] == [
        (message.key, message.payload) for message in messages
    ]
    assert [bytes(row.payload) for row in rows[500:]] == [b"not of a landing file", b"key\t*"]
    assert [row.position for row in rows] == [*range(100)] * 5 + [0, 1]
    assert len({(row.origin, row.position) for row in rows}) == len(rows)
    assert all(row.received_at is not None for row in rows)


def test_kafka_records_become_raw_rows_with_partition_and_offset(spark: SparkSession) -> None:
    schema = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"
    )
    records = spark.createDataFrame([(b"k", b"v", "sensors", 3, 42, None)], schema)

    rows = stages.parse_kafka(records)

    assert rows.select("key", "payload", "origin", "position").collect() == [
        (b"k", b"v", "sensors/3", 42)
    ]
    assert dict(rows.dtypes) == dict(raw(spark, ()).dtypes)


def test_minutes_and_newest_readings_are_those_of_the_truth(spark: SparkSession) -> None:
    messages = sent(4_000, Encoding.JSON)
    truth = simulator.compute_truth(messages)
    typed = stages.decode_readings(raw(spark, messages), Encoding.JSON)
    distinct = stages.select_readings(typed).dropDuplicates(["sensor", "metric", "sequence"])

    minutes = stages.aggregate_minutes(distinct)

    in_ms = F.unix_millis("minute").alias("minute")
    found = {
        (row.sensor, row.metric, row.minute): (row.rows, row.min, row.max, row.mean)
        for row in stages.select_minutes(minutes)
        .select("sensor", "metric", in_ms, F.col("count").alias("rows"), "min", "max", "mean")
        .collect()
    }
    assert found == {
        key: (minute.count, minute.min, minute.max, pytest.approx(minute.mean))
        for key, minute in truth.minutely.items()
    }
    newest = sorted(
        readings_of(stages.select_latest(minutes)).elements(), key=lambda row: str(row[2])
    )
    assert {(row[0], row[1]): row for row in newest} == {
        key: of(reading) for key, reading in truth.latest.items()
    }


def test_a_stream_removes_what_was_sent_twice_and_keeps_all_that_is_wrong(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Over many batches: no garbage is lost, and none moves the watermark so that readings are."""
    messages = sent(4_000, Encoding.JSON)
    truth = simulator.compute_truth(messages)
    empty = sum(m.content is Defect.EMPTY for m in messages)
    LandingWriter(directory=tmp_path / "landing", messages_per_file=800).write(messages)
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    wire = session.readStream.format("text").options(wholetext="true", maxFilesPerTrigger="1")
    typed = stages.decode_readings(
        stages.parse_files(wire.load(str(tmp_path / "landing"))), Encoding.JSON
    )

    query = (
        stages.drop_duplicates(typed)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "distinct"))
    )
    query.awaitTermination()

    batches = [dict(progress["eventTime"]) for progress in query.recentProgress]
    assert max(str(batch.get("watermark")) for batch in batches) < "2026-01-02"
    found = session.read.parquet(str(tmp_path / "distinct"))
    assert stages.select_readings(found).count() == truth.readings
    wrong = stages.select_quarantine(found)
    assert wrong.count() == truth.garbage
    assert wrong.where(F.col("reason") == Reason.PAYLOAD_EMPTY.value).count() == empty > 1


@pytest.fixture
def served(database: Database) -> str:
    """An empty database of its own."""
    name = f"served_{secrets.token_hex(4)}"
    with psycopg.connect(database.connection, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return make_conninfo(database.connection, dbname=name)


def tell_when_caught_up(settings: Settings, truth: Truth, enough: threading.Event) -> None:
    deadline = time.monotonic() + 150
    while time.monotonic() < deadline and not enough.wait(0.5):
        if reconcile.has_caught_up(settings, truth):
            break
    enough.set()


@pytest.mark.slow
@pytest.mark.parametrize("encoding", list(Encoding))
def test_the_pipeline_reconciles_with_what_was_sent(
    spark: SparkSession, tmp_path: Path, served: str, encoding: Encoding
) -> None:
    messages = sent(3_000, encoding)
    truth = simulator.compute_truth(messages)
    settings = Settings(home=tmp_path, encoding=encoding, postgres=served)
    LandingWriter(directory=settings.landing, messages_per_file=100).write(messages)

    running = pipeline.make_pipeline(settings).start(spark, dev=True)
    enough = threading.Event()
    watcher = threading.Thread(target=tell_when_caught_up, args=(settings, truth, enough))
    watcher.start()
    try:
        running.wait(wake=enough)
        running.stop()
    finally:
        enough.set()
        watcher.join()

    found = reconcile.compare(messages, truth, settings)
    assert found.differences == ()
    assert (found.postgres_latest, found.postgres_minutely) == (
        len(truth.latest),
        len(truth.minutely),
    )
    assert (found.lost, found.duplicated) == (0, 0)
    assert found.device_duplicates == truth.duplicates


def write_tables(settings: Settings, messages: Sequence[Message]) -> None:
    """The tables as they must be, without Spark."""
    truth = simulator.compute_truth(messages)
    distinct = {m.content: None for m in messages if isinstance(m.content, Reading)}
    write(settings.table("raw"), [{"payload": m.payload} for m in messages])
    garbage = [{"payload": m.payload} for m in messages if m.kind is MessageKind.GARBAGE]
    write(settings.table("quarantine"), garbage)
    write(settings.table("readings"), [asdict(reading) for reading in distinct])
    latest = [asdict(reading) for reading in truth.latest.values()]
    minutes = [
        {"sensor": sensor, "metric": metric, "minute": minute, **asdict(values)}
        for (sensor, metric, minute), values in truth.minutely.items()
    ]
    for name, rows in ((pipeline.LATEST, latest), (pipeline.MINUTELY, minutes)):
        write(settings.table(name), rows)
        serve(settings, name, rows)


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    deltalake.write_deltalake(path, with_times(rows), mode="overwrite")


def with_times(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    table = pa.Table.from_pylist(list(rows))
    for index, name in enumerate(table.column_names):
        if name in {"event_time", "minute"}:
            times = table.column(index).cast(pa.timestamp("ms")).cast(pa.timestamp("us", "UTC"))
            table = table.set_column(index, name, times)
    return table


def serve(settings: Settings, name: str, rows: Sequence[Mapping[str, object]]) -> None:
    kinds = {"int64": "bigint", "double": "double precision", "string": "text"}
    table = with_times(rows)
    columns = ", ".join(
        f'"{field.name}" {kinds.get(str(field.type), "timestamptz")}' for field in table.schema
    )
    assert settings.postgres is not None
    with psycopg.connect(settings.postgres) as connection:
        connection.execute(f"CREATE TABLE {name} ({columns})".encode())
        with connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
            for row in table.to_pylist():
                copy.write_row(list(row.values()))


def query(settings: Settings, text: str) -> None:
    assert settings.postgres is not None
    with psycopg.connect(settings.postgres) as connection:
        connection.execute(text.encode())


def test_reconciling_counts_what_is_missing_surplus_and_wrong(tmp_path: Path, served: str) -> None:
    messages = sent(2_000, Encoding.JSON)
    truth = simulator.compute_truth(messages)
    settings = Settings(home=tmp_path, postgres=served)
    write_tables(settings, messages)
    whole = reconcile.compare(messages, truth, settings)
    assert whole.exact
    assert (whole.raw, whole.readings, whole.quarantine) == (2_000, truth.readings, truth.garbage)
    assert whole.device_duplicates == truth.duplicates
    assert reconcile.has_caught_up(settings, truth)

    raw_payloads = [{"payload": m.payload} for m in messages]
    write(settings.table("raw"), [*raw_payloads[3:], *raw_payloads[10:12]])
    latest = [asdict(reading) for reading in truth.latest.values()]
    write(settings.table(pipeline.LATEST), [{**latest[0], "value": -1.0}, *latest[1:]])

    broken = reconcile.compare(messages, truth, settings)

    assert (broken.lost, broken.duplicated) == (3 + 1, 2 + 1)
    assert any(words.startswith("sensor_latest: lost") for words in broken.differences)
    assert not reconcile.has_caught_up(settings, truth)


def test_reconciling_looks_at_what_is_served(tmp_path: Path, served: str) -> None:
    messages = sent(2_000, Encoding.JSON)
    truth = simulator.compute_truth(messages)
    settings = Settings(home=tmp_path, postgres=served)
    write_tables(settings, messages)
    one = "SELECT ctid FROM {} LIMIT 1"
    query(settings, f"DELETE FROM sensor_latest WHERE ctid = ({one.format('sensor_latest')})")
    query(
        settings,
        f"UPDATE sensor_minutely SET max = -1 WHERE ctid = ({one.format('sensor_minutely')})",
    )

    broken = reconcile.compare(messages, truth, settings)

    assert (broken.lost, broken.duplicated) == (2, 1)
    assert broken.postgres_latest == len(truth.latest) - 1
    assert any(words.startswith("postgres sensor_latest: lost") for words in broken.differences)
    assert not reconcile.has_caught_up(settings, truth)


def test_nothing_is_caught_up_where_there_are_no_tables(tmp_path: Path, served: str) -> None:
    messages = sent(100, Encoding.JSON)
    truth = simulator.compute_truth(messages)
    settings = Settings(home=tmp_path, postgres=served)

    assert reconcile.count_rows(settings) == reconcile.Counts()
    assert not reconcile.has_caught_up(settings, truth)
    assert reconcile.compare(messages, truth, settings).lost > 100
