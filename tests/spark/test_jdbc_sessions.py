"""The sessions of a JDBC sink: what they set, what they wait for, what they say."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psycopg
import pymysql
import pytest
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.mariadb_server import USER, MariaDbServer
from tests.spark.jdbc_driving import LIFE, PASSWORD, Server, append, batch, connect, opened
from tests.spark.test_running import Place

from holdfast import sinks
from holdfast.errors import HoldfastError, SinkBehind, SinkRefused, SinkUnavailable
from holdfast.examples.database import Database
from holdfast.model.definition import Output
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Epoch
from holdfast.run.query import failure
from holdfast.sinks import observed_count
from holdfast.sinks.contract import Decision
from holdfast.sinks.jdbc import JdbcSink

pytestmark = pytest.mark.spark


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server without tables."""
    with connect(request.param, request, monkeypatch) as found:
        yield found


@pytest.fixture
def own_mariadb(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """MariaDB without tables."""
    with connect("mariadb", request, monkeypatch) as found:
        yield found


@pytest.fixture
def postgresql(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """PostgreSQL without tables."""
    with connect("postgresql", request, monkeypatch) as found:
        yield found


@contextmanager
def foreign(server: Server) -> Iterator[Callable[[str], object]]:
    """Give a session of another program, in a transaction."""
    if isinstance(server._server, MariaDbServer):  # noqa: SLF001
        mariadb = pymysql.connect(
            host="127.0.0.1",
            port=server._server.port,  # noqa: SLF001
            user=USER,
            password=server._server.password,  # noqa: SLF001
            database="serving",
        )
        with mariadb, mariadb.cursor() as cursor:
            yield lambda text: cursor.execute(text.replace('"', "`"))
    else:
        assert isinstance(server._server, Database)  # noqa: SLF001
        with psycopg.connect(server._server.connection) as connection:  # noqa: SLF001
            yield lambda text: connection.execute(text.encode())


@contextmanager
def globally(server: Server, setting: str, value: str) -> Iterator[None]:
    """Let sessions that begin now have a setting."""
    if not server.is_mariadb:
        server.query(f"ALTER ROLE {server.user} SET {setting} = {value}")
        try:
            yield
        finally:
            server.query(f"ALTER ROLE {server.user} RESET {setting}")
        return
    ((before,),) = server.query(f"SELECT @@global.{setting}")
    server.administrate(f"SET GLOBAL {setting} = {value}")
    try:
        yield
    finally:
        server.administrate(
            f"SET GLOBAL {setting} = '{before}'"
            if isinstance(before, str)
            else f"SET GLOBAL {setting} = {before}"
        )


def end_sessions(server: Server) -> None:
    """End the sessions of drivers."""
    if server.is_mariadb:
        idle = "USER = 'holdfast' AND COMMAND = 'Sleep' AND ID <> CONNECTION_ID()"
        for (number,) in server.query(
            f"SELECT ID FROM information_schema.PROCESSLIST WHERE {idle}"
        ):
            server.administrate(f"KILL {number}")
        return
    driver = "application_name LIKE 'hf\\_%' AND pid <> pg_backend_pid()"
    server.query(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE {driver}")


def test_a_key_that_another_session_adds_while_an_upsert_runs_is_not_lost(
    own_mariadb: Server, spark: SparkSession
) -> None:
    """At READ COMMITTED the key would be added between the two statements of the upsert."""
    own_mariadb.query("CREATE TABLE `rows` (k bigint PRIMARY KEY, version bigint)")
    own_mariadb.query("INSERT INTO `rows` VALUES (9, 0)")
    output = sinks.jdbc_upsert(
        own_mariadb.url, "rows", keys=["k"], newest="version", user=USER, password=PASSWORD
    )
    rows = spark.sql("SELECT id + 1 AS k, 10L AS version FROM range(20)")
    done: list[object] = []
    with globally(own_mariadb, "tx_isolation", "'READ-COMMITTED'"), foreign(own_mariadb) as first:
        sink = opened(output)
        sink.prepare(LIFE, rows.schema, spark)
        first("SELECT * FROM `rows` WHERE k = 9 FOR UPDATE")
        writer = threading.Thread(target=lambda: done.append(sink.write(batch(0), rows)))
        writer.start()
        waiting = "SELECT 1 FROM information_schema.PROCESSLIST WHERE INFO LIKE 'UPDATE %'"
        deadline = time.monotonic() + 60
        while not own_mariadb.query(waiting):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.5)  # until it waits for the row
        with foreign(own_mariadb) as second:
            second("SET innodb_lock_wait_timeout = 1")
            for key in (*range(1, 9), *range(10, 21)):
                try:
                    second(f"INSERT INTO `rows` VALUES ({key}, 5)")
                    second("COMMIT")
                except pymysql.err.OperationalError:
                    break
        first("COMMIT")
        writer.join()
    assert done == [Decision.WRITE]
    assert own_mariadb.query("SELECT version, COUNT(*) FROM `rows` GROUP BY 1") == [(10, 20)]


def test_a_newer_row_of_another_session_is_no_row_that_a_trigger_kept_out(
    own_mariadb: Server, spark: SparkSession
) -> None:
    """The transaction must look at what was committed last, not at what was there as it began."""
    own_mariadb.query("CREATE TABLE `rows` (k bigint PRIMARY KEY, version bigint)")
    output = sinks.jdbc_upsert(
        own_mariadb.url, "rows", keys=["k"], newest="version", user=USER, password=PASSWORD
    )
    rows = spark.sql("SELECT 1L AS k, 10L AS version")

    class Meanwhile(JdbcSink):
        def _require_values(self, connection, staging, columns):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
            connection.execute("SELECT COUNT(*) FROM `rows`")
            own_mariadb.query("INSERT INTO `rows` VALUES (1, 20)")
            super()._require_values(connection, staging, columns)

    sink = opened(output, Meanwhile)
    sink.prepare(LIFE, rows.schema, spark)
    assert sink.write(batch(0), rows) is Decision.WRITE
    assert own_mariadb.query("SELECT version FROM `rows`") == [(20,)]


@pytest.mark.parametrize("kind", ["sequential", "replication", "loadbalance"])
def test_a_client_that_connects_again_by_itself_changes_no_value(
    own_mariadb: Server, spark: SparkSession, kind: str
) -> None:
    host = own_mariadb.url.removeprefix("jdbc:mariadb://").partition("/")[0]
    output = sinks.jdbc_append(
        f"jdbc:mariadb:{kind}://{host},{host}/serving", "rows", user=USER, password=PASSWORD
    )
    own_mariadb.query("CREATE TABLE `rows` (at timestamp(6) NULL)")
    rows = spark.sql("SELECT TIMESTAMP'2024-01-01 12:00:00Z' AS at")
    with globally(own_mariadb, "time_zone", "'+05:00'"):
        sink = opened(output)
        sink.prepare(LIFE, rows.schema, spark)
        for number in (0, 1, 2):
            assert sink.write(batch(number), rows) is Decision.WRITE
            end_sessions(own_mariadb)
    assert own_mariadb.query("SELECT DISTINCT UNIX_TIMESTAMP(at) FROM `rows`") == [(1704110400,)]


def test_a_client_that_repeats_transactions_by_itself_is_refused(
    own_mariadb: Server, spark: SparkSession
) -> None:
    url = f"{own_mariadb.url}?transactionReplay=true"
    sink = opened(sinks.jdbc_append(url, "rows", user=USER, password=PASSWORD))
    with pytest.raises(SinkRefused, match="`transactionReplay`"):
        sink.prepare(LIFE, spark.range(1).schema, spark)


class EndedWhileStaging(JdbcSink):
    """A batch that runs longer than the server keeps a connection that is idle."""

    end: Callable[[], None]

    def _stage(self, staging: str, rows: DataFrame) -> int:
        count = super()._stage(staging, rows)
        self.end()
        return count


def test_a_connection_that_ends_while_rows_are_staged_is_replaced(
    server: Server, spark: SparkSession
) -> None:
    sink = opened(append(server), EndedWhileStaging)
    sink.end = lambda: end_sessions(server)  # type: ignore[attr-defined]
    sink.prepare(LIFE, spark.range(1).schema, spark)
    for number in (0, 1):
        assert sink.write(batch(number), spark.range(2)) is Decision.WRITE
    assert server.tables() == ["holdfast_ledger", "holdfast_ledger_history", "rows"]


def test_a_worker_that_is_killed_is_no_failure_of_the_database(
    server: Server, spark: SparkSession, tmp_path: Path, place: Place
) -> None:
    killed = tmp_path / "killed"

    def kill(value):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  hints choose pandas
        if not killed.exists():
            killed.touch()
            os._exit(137)
        return value

    rows = spark.range(2).select(F.udf(kill, "long")("id").alias("id"))
    sink = opened(append(server))
    sink.prepare(LIFE, rows.schema, spark)
    with pytest.raises(Exception) as raised:  # noqa: PT011  Spark's own
        sink.write(batch(0), rows)
    assert not isinstance(raised.value, HoldfastError)
    assert failure.explain(place.pipeline().jobs[0], raised.value, None).curable
    assert sink.write(batch(0), rows) is Decision.WRITE


def test_a_limit_of_the_server_does_not_end_a_batch(server: Server, spark: SparkSession) -> None:
    server.query('CREATE TABLE "rows" (id bigint)')
    if server.is_mariadb:
        setting = "max_statement_time"
        server.administrate("CREATE TRIGGER s BEFORE INSERT ON `rows` FOR EACH ROW DO SLEEP(1.2)")
    else:
        setting = "statement_timeout"
        server.query(
            "CREATE OR REPLACE FUNCTION pause() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN PERFORM pg_sleep(1.2); RETURN NEW; END $$"
        )
        server.query("CREATE TRIGGER s BEFORE INSERT ON rows FOR EACH ROW EXECUTE FUNCTION pause()")
    with globally(server, setting, "1" if server.is_mariadb else "'1s'"):
        sink = opened(append(server))
        sink.prepare(LIFE, spark.range(1).schema, spark)
        assert sink.write(batch(0), spark.range(1)) is Decision.WRITE


def test_a_session_that_holds_rows_of_the_table_is_named(
    server: Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sinks.jdbc.sink._ROWS_SECONDS", 1)
    server.query('CREATE TABLE "rows" (k bigint PRIMARY KEY, v bigint)')
    server.query('INSERT INTO "rows" VALUES (1, 1)')
    output = sinks.jdbc_upsert(server.url, "rows", keys=["k"], user=server.user, password=PASSWORD)
    rows = spark.sql("SELECT 1L AS k, 2L AS v")
    sink = opened(output)
    sink.prepare(LIFE, rows.schema, spark)
    with foreign(server) as other:
        other('SELECT * FROM "rows" FOR UPDATE')
        with pytest.raises(SinkUnavailable, match=r"(lock timeout|Lock wait).*\d+ \((role|user) "):
            sink.write(batch(0), rows)
    assert sink.write(batch(0), rows) is Decision.WRITE


def test_the_ledger_is_read_from_every_thread(server: Server, spark: SparkSession) -> None:
    sink = opened(append(server))
    sink.prepare(LIFE, spark.range(1).schema, spark)
    sink.write(batch(0), spark.range(2))
    found: list[object] = []
    reader = threading.Thread(target=lambda: found.append(opened(append(server)).last_written()))
    reader.start()
    reader.join()
    assert found == [opened(append(server)).last_written()]
    assert not isinstance(found[0], Unknown)


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:
    return Place(tmp_path, spark)


def run_in_a_thread(place: Place, output: Output) -> list[Exception]:
    """Run a pipeline to its end in a thread that built no session."""
    failed: list[Exception] = []

    def run() -> None:
        try:
            place.run(place.pipeline(output))
        except HoldfastError as error:
            failed.append(error)

    runner = threading.Thread(target=run)
    runner.start()
    runner.join()
    return failed


def test_a_start_from_another_thread_finds_what_was_lost(
    postgresql: Server, spark: SparkSession, place: Place
) -> None:
    assert spark is place.spark
    place.land("a.json", 0, 3)
    assert run_in_a_thread(place, append(postgresql)) == []
    shutil.rmtree(place.home / "checkpoints/.holdfast")  # the ledger alone knows the epoch
    place.land("b.json", 3, 3)
    assert run_in_a_thread(place, append(postgresql)) == []
    postgresql.query("DROP TABLE rows")
    place.land("c.json", 6, 3)
    assert [type(one) for one in run_in_a_thread(place, append(postgresql))] == [SinkBehind]
    assert "rows" not in postgresql.tables()


def test_a_ledger_that_is_not_read_although_spark_runs_refuses_the_start(
    postgresql: Server, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread = Unknown(reason="nobody knows")
    monkeypatch.setattr(JdbcSink, "last_written", lambda _: unread)
    place.land("a.json", 0, 3)
    with pytest.raises(SinkUnavailable, match="was not read: nobody knows"):
        place.run(place.pipeline(append(postgresql)))
    assert postgresql.tables() == []


def test_a_batch_that_is_pending_when_another_table_is_accepted_is_written(
    server: Server, spark: SparkSession
) -> None:
    first = opened(append(server))
    first.prepare(LIFE, spark.range(1).schema, spark)
    for number in (0, 1):
        first.write(batch(number), spark.range(number, number + 1))
    other = sinks.jdbc_append(server.url, "other", user=server.user, password=PASSWORD)
    server.query("CREATE TABLE other (id bigint)")
    life = replace(LIFE, epoch=Epoch(2), gap_before=BatchId(1))
    sink = opened(other)
    sink.prepare(life, spark.range(1).schema, spark)
    again = replace(batch(1, epoch=2), life=life)
    assert sink.write(again, spark.range(1, 2)) is Decision.WRITE
    assert server.query("SELECT id FROM other") == [(1,)]
    assert sink.write(again, spark.range(1, 2)) is Decision.SKIP


def test_an_address_without_a_database_takes_a_schema(
    own_mariadb: Server, spark: SparkSession
) -> None:
    url = own_mariadb.url.removesuffix("serving")
    output = sinks.jdbc_append(url, "rows", schema="serving", user=USER, password=PASSWORD)
    sink = opened(output)
    sink.prepare(LIFE, spark.range(1).schema, spark)
    assert sink.write(batch(0), spark.range(2)) is Decision.WRITE
    assert own_mariadb.query("SELECT COUNT(*) FROM `rows`") == [(2,)]


def test_a_table_that_is_not_in_the_first_schema_of_the_search_path_is_found(
    postgresql: Server, spark: SparkSession
) -> None:
    sink = opened(append(postgresql))
    sink.prepare(LIFE, spark.range(1).schema, spark)
    sink.write(batch(0), spark.range(2))
    postgresql.query(f"CREATE SCHEMA {postgresql.user}")  # `"$user", public` is the default path
    try:
        heir = opened(append(postgresql))
        heir.prepare(replace(LIFE, epoch=Epoch(2)), spark.range(1).schema, spark)
        assert heir.write(batch(1, epoch=2), spark.range(2)) is Decision.WRITE
        assert postgresql.query("SELECT COUNT(*) FROM public.rows") == [(4,)]
    finally:
        postgresql.query(f"DROP SCHEMA {postgresql.user} CASCADE")


def test_years_after_9999_are_kept_and_years_before_christ_refused(
    postgresql: Server, spark: SparkSession
) -> None:
    late = spark.sql(
        "SELECT DATE'+12345-06-07' AS d, TIMESTAMP_NTZ'+12345-06-07 01:02:03' AS n,"
        " timestamp_micros(327400000000000000) AS t"
    )
    sink = opened(append(postgresql))
    sink.prepare(LIFE, late.schema, spark)
    sink.write(batch(0), late)
    kept = postgresql.query("SELECT d::text, n::text, (extract(epoch FROM t))::bigint FROM rows")
    assert kept == [("12345-06-07", "12345-06-07 01:02:03", 327400000000)]
    early = late.select(F.expr("DATE'-0044-03-15'").alias("d"), "n", "t")
    with pytest.raises(SinkRefused, match="a date or time out of the range of `d`"):
        sink.write(batch(1), early)


def test_offsets_that_the_ledger_cannot_keep_are_named(
    postgresql: Server, spark: SparkSession
) -> None:
    sink = opened(append(postgresql))
    sink.prepare(LIFE, spark.range(1).schema, spark)
    named = replace(batch(0), offsets=[{"source": "0", "file": "a\0b"}])
    with pytest.raises(SinkRefused, match="cannot note the offsets of batch 0"):
        sink.write(named, spark.range(2))


def test_a_count_that_spark_never_reports_fails_the_batch(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observed_count, "_SECONDS", 0.2)
    seen = Observation()
    spark.range(1).observe(seen, F.count(F.lit(1)).alias("rows"))
    with pytest.raises(SinkUnavailable, match="did not report"):
        observed_count.await_count(seen, "rows")
