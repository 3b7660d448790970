"""The JDBC sinks on two real servers: written once, fenced, whole or not at all."""

import contextlib
import datetime as dt
import decimal
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from tests.mariadb_server import USER, MariaDbServer

from holdfast import sinks
from holdfast.errors import (
    BatchChanged,
    DriverFenced,
    OptionInvalid,
    SchemaMismatch,
    SinkBehind,
    SinkRefused,
    SinkUnavailable,
)
from holdfast.examples.database import ROLE, Database
from holdfast.model.batch import Batch, LastWritten, LedgerKey, Life, Nothing, Unknown, Written
from holdfast.model.definition import JdbcAppend, JdbcUpsert, Output
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.sinks.contract import Decision
from holdfast.sinks.jdbc import JdbcSink
from holdfast.sinks.jdbc.connection import Connection

pytestmark = pytest.mark.spark

LIFE = Life(job=JobName("job"), generation=Generation(1), epoch=Epoch(1), location="/base/job")
PASSWORD = "env:HOLDFAST_TEST_PASSWORD"
KEY = LedgerKey(job=LIFE.job, generation=LIFE.generation, output=OutputName("rows"))


NOTHING = Nothing(epoch=Epoch(0), location=Unknown(reason="there is no ledger of the job yet"))


def written(*, taken_back: bool) -> Written:
    return Written(
        epoch=Epoch(1),
        batch=BatchId(0),
        digest=Digest("digest-0"),
        location="/base/job",
        taken_back=taken_back,
    )


class Server:
    """Either server, as the tests need it."""

    def __init__(self, url: str, user: str, server: MariaDbServer | Database) -> None:
        self.url = url
        self.user = user
        self._server = server

    def query(self, text: str) -> list[tuple[object, ...]]:
        """Rows of a query, or none where there are none to give."""
        if isinstance(self._server, MariaDbServer):
            return self._server.query(text.replace('"', "`"))
        with psycopg.connect(self._server.connection, autocommit=True) as connection:
            done = connection.execute(text.encode())
            return done.fetchall() if done.description else []

    def tables(self) -> list[str]:
        """The tables there are."""
        found = self.query(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema IN ('public', 'serving')"
        )
        return sorted(str(name) for (name,) in found)


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server without tables."""
    if request.param == "mariadb":
        mariadb: MariaDbServer = request.getfixturevalue("mariadb")
        monkeypatch.setenv("HOLDFAST_TEST_PASSWORD", mariadb.password)
        found = Server(mariadb.url, USER, mariadb)
    else:
        database: Database = request.getfixturevalue("database")
        parts = dict(part.split("=") for part in database.connection.split())
        url = f"jdbc:postgresql://{parts['host']}:{parts['port']}/{parts['dbname']}"
        password = database.pgpass.read_text().strip().rpartition(":")[2]
        monkeypatch.setenv("HOLDFAST_TEST_PASSWORD", password)
        found = Server(url, ROLE, database)
    yield found
    for table in found.tables():
        found.query(sql.SQL("DROP TABLE {}").format(sql.Identifier(table)).as_string())


def append(server: Server) -> Output:
    return sinks.jdbc_append(server.url, "rows", user=server.user, password=PASSWORD)


def upsert(server: Server, newest: str | None = "version") -> Output:
    server.query('CREATE TABLE "rows" (k bigint PRIMARY KEY, version bigint, note varchar(40))')
    return sinks.jdbc_upsert(
        server.url, "rows", keys=["k"], newest=newest, user=server.user, password=PASSWORD
    )


def opened(output: Output, kind: type[JdbcSink] = JdbcSink) -> JdbcSink:
    assert isinstance(output.sink, JdbcAppend | JdbcUpsert)
    return kind(output.sink, KEY)


def batch(number: int, *, epoch: int = 1, digest: str | None = None) -> Batch:
    return Batch(
        life=replace(LIFE, epoch=Epoch(epoch)),
        id=BatchId(number),
        digest=Digest(digest or f"digest-{number}"),
        offsets=[{"source": "0", "end": number}],
        expected_rows=2,
    )


def two(spark: SparkSession, number: int) -> DataFrame:
    rows = [(number * 2, f"row \\ '{number}' \"é😀"), (number * 2 + 1, "")]
    return spark.createDataFrame(rows, "id LONG, text STRING").repartition(2)


def ids(server: Server) -> list[object]:
    return [row[0] for row in server.query('SELECT id FROM "rows" ORDER BY id')]


def test_each_batch_is_written_once(server: Server, spark: SparkSession) -> None:
    first = opened(append(server))
    first.prepare(LIFE, two(spark, 0).schema, spark)
    assert [first.write(batch(n), two(spark, n)) for n in (0, 1)] == [Decision.WRITE] * 2
    second = opened(append(server))
    second.prepare(replace(LIFE, epoch=Epoch(2)), two(spark, 0).schema, spark)
    again = [second.write(batch(n, epoch=2), two(spark, n)) for n in (0, 1, 2)]
    assert again == [Decision.SKIP, Decision.SKIP, Decision.WRITE]
    assert ids(server) == [0, 1, 2, 3, 4, 5]
    assert server.query('SELECT text FROM "rows" WHERE id = 2') == [("row \\ '1' \"é😀",)]
    noted = server.query('SELECT batch, epoch, digest, "rows" FROM holdfast_ledger')
    assert noted == [(2, 2, "digest-2", 2)]
    assert server.tables() == ["holdfast_ledger", "holdfast_ledger_history", "rows"]


def test_other_rows_under_the_same_id_are_refused(server: Server, spark: SparkSession) -> None:
    sink = opened(append(server))
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    sink.write(batch(0), two(spark, 0))
    with pytest.raises(BatchChanged):
        sink.write(batch(0, digest="another"), two(spark, 9))
    with pytest.raises(SinkBehind, match="expected batch 1"):
        sink.write(batch(2), two(spark, 2))
    assert ids(server) == [0, 1]


class FencedWhileStaging(JdbcSink):
    """A driver that another one overtakes between its staging and its transaction."""

    def _stage(self, staging: str, rows: DataFrame) -> int:
        count = super()._stage(staging, rows)
        newer = JdbcSink(self._sink, KEY)
        newer.prepare(replace(LIFE, epoch=Epoch(2)), rows.schema, rows.sparkSession)
        return count


def test_an_older_driver_is_fenced_inside_its_transaction(
    server: Server, spark: SparkSession
) -> None:
    sink = opened(append(server), FencedWhileStaging)
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    with pytest.raises(DriverFenced, match="with epoch 1, found epoch 2"):
        sink.write(batch(0), two(spark, 0))
    assert ids(server) == []
    with pytest.raises(DriverFenced):
        sink.prepare(LIFE, two(spark, 0).schema, spark)


class StagedTwice(JdbcSink):
    """A task whose rows were committed, and that was run again all the same."""

    def _stage(self, staging: str, rows: DataFrame) -> int:
        super()._stage(staging, rows.limit(1))
        return super()._stage(staging, rows)


def test_a_task_that_was_run_twice_is_noticed(server: Server, spark: SparkSession) -> None:
    sink = opened(append(server), StagedTwice)
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    with pytest.raises(SinkUnavailable, match="expected 2 staged rows of batch 0"):
        sink.write(batch(0), two(spark, 0))
    assert ids(server) == []
    good = opened(append(server))
    assert good.write(batch(0), two(spark, 0)) is Decision.WRITE
    assert ids(server) == [0, 1]
    assert server.tables() == ["holdfast_ledger", "holdfast_ledger_history", "rows"]


class GivenUp(JdbcSink):
    """A task that Spark gave up, and that commits when the rows have been counted."""

    def _statements(self, connection: Connection, staging: str, names: list[str]) -> list[str]:
        with contextlib.closing(Connection(self._spark, self._address)) as other:
            other.execute(f"INSERT INTO {staging} SELECT * FROM {staging}")
        return super()._statements(connection, staging, names)

    def _stage(self, staging: str, rows: DataFrame) -> int:
        self._spark = rows.sparkSession
        return super()._stage(staging, rows)


def test_a_task_that_commits_after_the_count_is_noticed(
    server: Server, spark: SparkSession
) -> None:
    sink = opened(append(server), GivenUp)
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    with pytest.raises(SinkUnavailable, match=r"expected 2 staged rows of batch 0 .* found 4"):
        sink.write(batch(0), two(spark, 0))
    assert ids(server) == []
    assert opened(append(server)).write(batch(0), two(spark, 0)) is Decision.WRITE


def test_outputs_whose_names_differ_in_letters_only_are_two(
    server: Server, spark: SparkSession
) -> None:
    names = ("rows", "Rows", "r\u00f6ws")
    for name in names:
        sink = JdbcSink(
            append(server).sink,  # type: ignore[arg-type]
            replace(KEY, output=OutputName(name)),
        )
        sink.prepare(LIFE, two(spark, 0).schema, spark)
        assert sink.write(batch(0), two(spark, 0)) is Decision.WRITE
    assert ids(server) == sorted([0, 1] * len(names))


# what is done to the tables: what the next start is told of them
LOST: dict[str, tuple[str, LastWritten]] = {
    "nothing": ("SELECT 1", written(taken_back=False)),
    "the table": ('DROP TABLE "rows"', Nothing(epoch=Epoch(1), location="/base/job")),
    "its name": ("UPDATE holdfast_ledger SET tables = 'another'", written(taken_back=True)),
    "a ledger of before": ("UPDATE holdfast_ledger SET tables = ''", written(taken_back=False)),
    "the row": ("DELETE FROM holdfast_ledger", NOTHING),
    "the ledger": ("DROP TABLE holdfast_ledger", NOTHING),
}


@pytest.mark.parametrize(("done", "told"), LOST.values(), ids=LOST)
def test_what_the_sink_holds_is_told_once_spark_runs(
    server: Server, spark: SparkSession, done: str, told: LastWritten
) -> None:
    sink = opened(append(server))
    assert sink.last_written() == NOTHING
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    assert sink.last_written() == Nothing(epoch=Epoch(1), location="/base/job")
    sink.write(batch(0), two(spark, 0))
    server.query(done)
    assert opened(append(server)).last_written() == told


def test_mariadb_is_asked_for_what_it_would_not_say(
    mariadb: MariaDbServer, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without transactions rows stay that the ledger does not know; without an index keys do."""
    monkeypatch.setenv("HOLDFAST_TEST_PASSWORD", mariadb.password)
    server = Server(mariadb.url, USER, mariadb)
    keyed = sinks.jdbc_upsert(server.url, "rows", keys=["id"], user=USER, password=PASSWORD)
    schema = two(spark, 0).schema
    server.query("CREATE TABLE `rows` (id bigint, text varchar(40), KEY (id), UNIQUE (id, text))")
    with pytest.raises(SinkRefused, match="expected a unique index of `rows` on exactly `id`"):
        opened(keyed).prepare(LIFE, schema, spark)
    server.query("ALTER TABLE `rows` ADD PRIMARY KEY (id)")
    opened(keyed).prepare(LIFE, schema, spark)
    server.query("ALTER TABLE `rows` ENGINE = MyISAM")
    with pytest.raises(SinkRefused, match=r"`rows` to be of an engine .* found MyISAM"):
        opened(keyed).prepare(LIFE, schema, spark)
    for table in server.tables():
        server.query(f"DROP TABLE `{table}`")


def test_staging_that_was_left_behind_is_dropped_and_a_newer_drivers_is_not(
    server: Server, spark: SparkSession
) -> None:
    sink = opened(append(server))
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    prefix = sink._prefix  # noqa: SLF001
    for epoch in (1, 2, 9):
        server.query(f"CREATE TABLE {prefix}{epoch}_0_abcd (id bigint)")
    opened(append(server)).prepare(replace(LIFE, epoch=Epoch(2)), two(spark, 0).schema, spark)
    assert [name for name in server.tables() if name.startswith(prefix)] == [f"{prefix}9_0_abcd"]


@pytest.mark.parametrize("kind", ["newest", "replace"])
def test_upsert(server: Server, spark: SparkSession, kind: str) -> None:
    newest = "version" if kind == "newest" else None
    sink = opened(upsert(server, newest))
    schema = "k LONG, version LONG, note STRING"
    begun: list[tuple[int, int | None, str]] = [(1, 5, "a"), (2, 5, "b"), (3, None, "c")]
    first = spark.createDataFrame(begun, schema)
    sink.prepare(LIFE, first.schema, spark)
    sink.write(batch(0), first)
    rows: list[tuple[int, int | None, str]] = [
        (1, 4, "older"),
        (2, 6, "newer"),
        (3, 1, "said"),
        (4, 1, "added"),
    ]
    if newest:
        rows += [(4, 3, "newest of the batch"), (4, 2, "older of the batch"), (2, None, "silent")]
    sink.write(batch(1), spark.createDataFrame(rows, schema).repartition(3))
    assert server.query('SELECT k, note FROM "rows" ORDER BY k') == [
        (1, "a" if newest else "older"),
        (2, "newer"),
        (3, "said"),
        (4, "newest of the batch" if newest else "added"),
    ]


def test_a_key_twice_with_nothing_to_tell_them_apart(server: Server, spark: SparkSession) -> None:
    sink = opened(upsert(server, None))
    rows = spark.createDataFrame([(1, 1, "a"), (1, 2, "b")], "k LONG, version LONG, note STRING")
    sink.prepare(LIFE, rows.schema, spark)
    with pytest.raises(SinkRefused, match="expected each key once a batch"):
        sink.write(batch(0), rows)
    assert server.query('SELECT count(*) FROM "rows"') == [(0,)]


def test_a_column_that_the_table_has_not(server: Server, spark: SparkSession) -> None:
    sink = opened(append(server))
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    with pytest.raises(SchemaMismatch, match="found `more`"):
        sink.write(batch(0), two(spark, 0).selectExpr("id", "text", "1 AS more"))
    assert opened(append(server)).write(batch(0), two(spark, 0)) is Decision.WRITE


def test_a_value_that_does_not_fit_fails_the_batch_whole(
    server: Server, spark: SparkSession
) -> None:
    server.query('CREATE TABLE "rows" (id smallint, text varchar(4))')
    sink = opened(append(server))
    rows = spark.createDataFrame([(1, "good"), (2, "too long")], "id LONG, text STRING")
    sink.prepare(LIFE, rows.schema, spark)
    with pytest.raises(Exception, match=r"(?i)too long"):
        sink.write(batch(0), rows.repartition(2))
    assert ids(server) == []
    assert sink.write(batch(0), rows.where("id = 1")) is Decision.WRITE


def test_an_upsert_needs_its_table(server: Server, spark: SparkSession) -> None:
    sink = opened(
        sinks.jdbc_upsert(server.url, "rows", keys=["id"], user=server.user, password=PASSWORD)
    )
    with pytest.raises(SinkRefused, match="expected the table `rows` to upsert into"):
        sink.prepare(LIFE, two(spark, 0).schema, spark)


def test_values_round_trip(server: Server, spark: SparkSession) -> None:
    values = {
        "whole": 2**63 - 1,
        "small": -32768,
        "real": 1.1,
        "amount": decimal.Decimal("12345678901234.567890"),
        "day": dt.date(1999, 12, 31),
        "moment": dt.datetime(2026, 3, 1, 12, 0, 0, 123456),  # noqa: DTZ001
        "yes": True,
        "bytes": b"\x00\xff",
        "words": "quote ' \" back \\ line\nend 😀",
        "nothing": None,
    }
    schema = (
        "whole LONG, small SHORT, real DOUBLE, amount DECIMAL(20,6), day DATE,"
        " moment TIMESTAMP_NTZ, yes BOOLEAN, bytes BINARY, words STRING, nothing STRING"
    )
    rows = spark.createDataFrame([tuple(values.values())], schema)
    sink = opened(append(server))
    sink.prepare(LIFE, rows.schema, spark)
    sink.write(batch(0), rows)
    columns = ", ".join(f'"{name}"' for name in values)
    found = dict(zip(values, server.query(f'SELECT {columns} FROM "rows"')[0], strict=True))
    found["bytes"] = bytes(found["bytes"])  # type: ignore[call-overload]
    found["yes"] = found["yes"] in (True, 1, b"\x01")
    assert found == values


def test_no_password_is_said(
    server: Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_WRONG", "geheim-7351")
    output = sinks.jdbc_append(
        server.url, "rows", user="nobody-here", password="env:HOLDFAST_TEST_WRONG"
    )
    sink = opened(output)
    with pytest.raises((SinkRefused, SinkUnavailable)) as refused:
        sink.prepare(LIFE, two(spark, 0).schema, spark)
    assert "geheim-7351" not in f"{refused.value} {refused.value.__cause__} {output}"
    assert server.url in str(refused.value)


@pytest.mark.parametrize(
    "given",
    [
        {"url": "jdbc:mariadb://h/d?user=a&password=b"},
        {"url": "jdbc:mysql://a:b@h/d"},
        {"url": "jdbc:mariadb://h/d", "options": {"password": "b"}},
        {"url": "jdbc:mariadb://h/d", "password": "b"},
        {"url": "mariadb://h/d"},
    ],
)
def test_a_password_in_the_declaration_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(OptionInvalid) as refused:
        sinks.jdbc_append(table="t", **given)  # type: ignore[arg-type]
    assert "password=b" not in str(refused.value)
