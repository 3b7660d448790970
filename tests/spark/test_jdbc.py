"""The JDBC sinks on two real servers: written once, fenced, whole or not at all."""

import contextlib
import datetime as dt
import decimal
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from tests.collations import LOCALE
from tests.spark.jdbc_driving import KEY, LIFE, PASSWORD, Server, append, batch, connect, opened

from holdfast import sinks
from holdfast.errors import (
    BatchChanged,
    DriverFenced,
    HoldfastError,
    OptionInvalid,
    SchemaMismatch,
    SinkBehind,
    SinkRefused,
    SinkUnavailable,
)
from holdfast.model.batch import LastWritten, NothingWritten, WrittenBatch
from holdfast.model.definition import Output
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, OutputName
from holdfast.sinks.contract import Decision
from holdfast.sinks.jdbc import JdbcSink
from holdfast.sinks.jdbc.address import Address
from holdfast.sinks.jdbc.columns import StagedColumn
from holdfast.sinks.jdbc.connection import Connection
from holdfast.sinks.jdbc.mariadb import MariaDb
from holdfast.sinks.jdbc.postgresql import PostgreSql

pytestmark = pytest.mark.spark

NOTHING = NothingWritten(
    epoch=Epoch(0), location=Unknown(reason="there is no ledger of the job yet")
)


def written(*, taken_back: bool) -> WrittenBatch:
    return WrittenBatch(
        epoch=Epoch(1),
        batch=BatchId(0),
        digest=Digest("digest-0"),
        location="/base/job",
        taken_back=taken_back,
    )


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server without tables."""
    with connect(request.param, request, monkeypatch) as found:
        yield found


def upsert(server: Server, newest: str | None = "version") -> Output:
    server.query('CREATE TABLE "rows" (k bigint PRIMARY KEY, version bigint, note varchar(40))')
    return sinks.jdbc_upsert(
        server.url, "rows", keys=["k"], newest=newest, user=server.user, password=PASSWORD
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
    with pytest.raises(SinkBehind, match="needs batch 1 next"):
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
    with pytest.raises(DriverFenced, match="this driver has epoch 1, and the ledger has epoch 2"):
        sink.write(batch(0), two(spark, 0))
    assert ids(server) == []
    with pytest.raises(DriverFenced):
        sink.prepare(LIFE, two(spark, 0).schema, spark)


class AlteredWhileStaging(JdbcSink):
    """A driver whose table somebody alters between its staging and its transaction."""

    alter: Callable[[], object]

    def _stage(self, staging: str, rows: DataFrame) -> int:
        count = super()._stage(staging, rows)
        self.alter()
        return count


# what is done to the table while the batch runs: the errors that are right
ALTERED = {
    "postgresql": {
        'ALTER TABLE "rows" ALTER COLUMN v TYPE numeric(10,2)': SinkUnavailable,
        'ALTER TABLE "rows" ALTER COLUMN v TYPE numeric(12,6)': SinkUnavailable,
        'ALTER TABLE "rows" SET UNLOGGED': SinkRefused,
    },
    "mariadb": {
        'ALTER TABLE "rows" MODIFY v decimal(10,2)': SinkUnavailable,
        'ALTER TABLE "rows" MODIFY v decimal(12,6)': SinkUnavailable,
        'ALTER TABLE "rows" ENGINE = MyISAM': SinkRefused,
    },
}


def test_a_table_that_is_altered_while_a_batch_runs_gets_none_of_its_rows(
    server: Server, spark: SparkSession
) -> None:
    rows = spark.sql("SELECT 1L AS id, CAST(1.2345 AS DECIMAL(10,4)) AS v")
    for done, error in ALTERED["mariadb" if server.is_mariadb else "postgresql"].items():
        server.clear()
        sink = opened(append(server), AlteredWhileStaging)
        sink.alter = partial(server.query, done)  # type: ignore[attr-defined]
        sink.prepare(LIFE, rows.schema, spark)
        with pytest.raises(error):
            sink.write(batch(0), rows)
        assert ids(server) == [], done


class AlteredWhileMoving(JdbcSink):
    """A driver whose table somebody tries to replace when its transaction has looked at it."""

    alter: Callable[[], object]

    def _statements(
        self, connection: Connection, staging: str, columns: Sequence[StagedColumn]
    ) -> list[str]:
        self.alter()
        return super()._statements(connection, staging, columns)


def test_a_table_cannot_be_altered_between_the_last_look_and_the_commit(
    server: Server, spark: SparkSession
) -> None:
    soon = "SET SESSION lock_wait_timeout = 1" if server.is_mariadb else "SET lock_timeout = 500"
    refused: list[Exception] = []
    sink = opened(append(server), AlteredWhileMoving)

    def rename() -> None:
        with contextlib.closing(Connection(spark, sink._address)) as other:  # noqa: SLF001
            other.execute(soon)
            try:
                other.execute(f"ALTER TABLE {sink._table} RENAME TO old")  # noqa: SLF001
            except Py4JJavaError as error:
                refused.append(error)

    sink.alter = rename  # type: ignore[attr-defined]
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    assert sink.write(batch(0), two(spark, 0)) is Decision.WRITE
    assert len(refused) == 1
    assert ids(server) == [0, 1]


HANGS, GO_ON = threading.Event(), threading.Event()


class Hanging(JdbcSink):
    """A driver that hangs inside its transaction, with the ledger's row locked."""

    def _statements(
        self, connection: Connection, staging: str, columns: Sequence[StagedColumn]
    ) -> list[str]:
        HANGS.set()
        GO_ON.wait(60)
        return super()._statements(connection, staging, columns)


def test_a_driver_that_hangs_in_its_transaction_is_ended(
    server: Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sinks.jdbc.sink._FENCE_SECONDS", 1)
    old = opened(append(server), Hanging)
    old.prepare(LIFE, two(spark, 0).schema, spark)
    HANGS.clear()
    GO_ON.clear()
    failed: list[Exception] = []

    def write() -> None:
        try:
            old.write(batch(0), two(spark, 0))
        except HoldfastError as error:
            failed.append(error)

    zombie = threading.Thread(target=write)
    zombie.start()
    assert HANGS.wait(60)
    heir = opened(append(server))
    heir.prepare(replace(LIFE, epoch=Epoch(2)), two(spark, 0).schema, spark)
    assert heir.write(batch(0, epoch=2), two(spark, 0)) is Decision.WRITE
    GO_ON.set()
    zombie.join()
    assert [type(error) for error in failed] == [SinkUnavailable], failed
    with pytest.raises(DriverFenced):
        old.write(batch(0), two(spark, 0))
    assert ids(server) == [0, 1]


def test_a_job_of_the_same_name_in_another_database_is_not_ended(
    own_mariadb: Server, spark: SparkSession
) -> None:
    """User locks are the server's, not the database's."""
    own_mariadb.administrate("CREATE DATABASE other")
    own_mariadb.administrate("GRANT ALL ON other.* TO holdfast")
    try:
        url = own_mariadb.url.replace("/serving", "/other")
        there = Address(url=url, user=own_mariadb.user, password=PASSWORD, options=())
        here = replace(there, url=own_mariadb.url)
        with contextlib.ExitStack() as stack:
            first, second, third, heir = (
                stack.enter_context(contextlib.closing(Connection(spark, address)))
                for address in (here, there, there, there)
            )
            for older in (first, second, third):
                MariaDb().enter(older, "hf_job_1")
            MariaDb().end_older(heir, "hf_job_", Epoch(1), Epoch(2))
            assert [one.alive() for one in (first, second, third)] == [True, False, False]
    finally:
        own_mariadb.administrate("DROP DATABASE other")


def test_a_session_of_another_role_that_this_one_may_not_end_is_no_error(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    role, password = f"stream_{secrets.token_hex(4)}", secrets.token_hex(8)
    with connect("postgresql", request, monkeypatch) as server:
        server.query(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'")
        monkeypatch.setenv("HOLDFAST_TEST_ROLE", password)
        own = Address(url=server.url, user=server.user, password=PASSWORD, options=())
        its = replace(own, user=role, password="env:HOLDFAST_TEST_ROLE")
        with (
            contextlib.closing(Connection(spark, own)) as first,
            contextlib.closing(Connection(spark, its)) as second,
            contextlib.closing(Connection(spark, its)) as heir,
        ):
            PostgreSql().enter(first, "hf_job_1")
            PostgreSql().enter(second, "hf_job_1")
            PostgreSql().end_older(heir, "hf_job_", Epoch(1), Epoch(2))
            assert [one.alive() for one in (first, second)] == [True, False]
        server.query(f"DROP ROLE {role}")


def test_a_session_that_holds_the_ledger_is_named(
    server: Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sinks.jdbc.sink._FENCE_SECONDS", 1)
    monkeypatch.setattr("holdfast.sinks.jdbc.sink._ATTEMPTS", 1)
    monkeypatch.setattr("holdfast.sinks.jdbc.sink._LOCK_SECONDS", 1)
    sink = opened(append(server))
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    who = "CONNECTION_ID()" if server.is_mariadb else "pg_backend_pid()"
    with contextlib.closing(Connection(spark, sink._address)) as other, other.transaction():  # noqa: SLF001
        other.execute("SELECT epoch FROM holdfast_ledger FOR UPDATE")
        ((session,),) = other.execute(f"SELECT {who}")
        with pytest.raises(SinkUnavailable, match=rf"holds it: .*\b{session} \((role|user) "):
            sink.write(batch(0), two(spark, 0))
        with pytest.raises(SinkUnavailable, match=rf"holds it: .*\b{session} \((role|user) "):
            opened(append(server)).prepare(
                replace(LIFE, epoch=Epoch(2)), two(spark, 0).schema, spark
            )
    assert sink.write(batch(0), two(spark, 0)) is Decision.WRITE


class GivenUp(JdbcSink):
    """A task that Spark gave up, and that commits when the rows have been counted."""

    late = "*"

    def _require_values(
        self, connection: Connection, staging: str, columns: Sequence[StagedColumn]
    ) -> None:
        super()._require_values(connection, staging, columns)
        with contextlib.closing(Connection(self._spark, self._address)) as other:
            soon = "innodb_lock_wait_timeout = 1" if "mariadb" in self._address.url else ""
            if soon:
                other.execute(f"SET SESSION {soon}")
            with contextlib.suppress(Py4JJavaError):  # the driver may keep it out altogether
                other.execute(f"INSERT INTO {staging} SELECT {self.late} FROM {staging}")

    def _stage(self, staging: str, rows: DataFrame) -> int:
        self._spark = rows.sparkSession
        return super()._stage(staging, rows)


class GivenUpWithOtherRows(GivenUp):
    """The same, of a plan that gives other rows when it runs again."""

    late = "k + 100, version + 1, 'late'"


@pytest.mark.parametrize("kind", [GivenUp, GivenUpWithOtherRows])
@pytest.mark.parametrize("newest", ["version", None])
def test_a_task_that_commits_after_the_count_of_an_upsert_changes_nothing(
    server: Server, spark: SparkSession, newest: str | None, kind: type[GivenUp]
) -> None:
    sink = opened(upsert(server, newest), kind)
    schema = "k LONG, version LONG, note STRING"
    first = spark.createDataFrame([(1, 1, "a"), (101, 1, "stays")], schema)
    sink.prepare(LIFE, first.schema, spark)
    JdbcSink(sink._sink, KEY).write(batch(0), first)  # noqa: SLF001
    second = spark.createDataFrame([(1, 2, "b"), (2, 2, "c")], schema)
    expected = [(1, "b"), (2, "c"), (101, "stays")]
    try:
        sink.write(batch(1), second)
    except SinkUnavailable as error:
        assert "expected 2 staged rows of batch 1" in error.message  # noqa: PT017
        expected = [(1, "a"), (101, "stays")]
    assert server.query('SELECT k, note FROM "rows" ORDER BY k') == expected
    assert JdbcSink(sink._sink, KEY).write(batch(1), second) in Decision  # noqa: SLF001


class Frozen(JdbcSink):
    """A task that Spark gave up, on an executor that hangs with its rows not committed."""

    other: Connection

    def _stage(self, staging: str, rows: DataFrame) -> int:
        count = super()._stage(staging, rows)
        self.other = Connection(rows.sparkSession, self._address)
        self.other._java.setAutoCommit(False)  # noqa: SLF001
        self.other.execute(f"INSERT INTO {staging} SELECT * FROM {staging}")
        return count


def test_a_task_that_hangs_does_not_hold_the_batch_up_for_ever(
    server: Server, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sinks.jdbc.sink._LOCK_SECONDS", 2)
    sink = opened(append(server), Frozen)
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    begun = time.monotonic()
    try:
        done: object = sink.write(batch(0), two(spark, 0))
    except SinkUnavailable as error:
        done = error
    assert isinstance(done, SinkUnavailable) is server.is_mariadb, done
    heir = opened(append(server))
    heir.prepare(replace(LIFE, epoch=Epoch(2)), two(spark, 0).schema, spark)
    assert heir.write(batch(0, epoch=2), two(spark, 0)) in Decision
    assert time.monotonic() - begun < 30
    assert ids(server) == [0, 1]
    sink.other.close()  # type: ignore[attr-defined]
    opened(append(server)).prepare(replace(LIFE, epoch=Epoch(3)), two(spark, 0).schema, spark)
    assert server.tables() == ["holdfast_ledger", "holdfast_ledger_history", "rows"]


def test_of_two_drivers_with_the_same_epoch_only_the_first_writes(
    server: Server, spark: SparkSession
) -> None:
    """Without records each took the epoch after the ledger's, before the other put it."""
    opened(append(server)).prepare(LIFE, two(spark, 0).schema, spark)
    first, second = opened(append(server)), opened(append(server))
    later = replace(LIFE, epoch=Epoch(2))
    first.prepare(later, two(spark, 0).schema, spark)
    with pytest.raises(
        DriverFenced, match="this driver has epoch 2, and the ledger has the same epoch"
    ):
        second.prepare(later, two(spark, 0).schema, spark)
    first.prepare(later, two(spark, 0).schema, spark)
    assert first.write(batch(0, epoch=2), two(spark, 0)) is Decision.WRITE
    assert ids(server) == [0, 1]


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


def test_a_task_that_commits_after_the_count_is_noticed(
    server: Server, spark: SparkSession
) -> None:
    sink = opened(append(server), GivenUp)
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    if server.is_mariadb:  # the driver's count keeps it out
        assert sink.write(batch(0), two(spark, 0)) is Decision.WRITE
        assert ids(server) == [0, 1]
        return
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
    "the table": ('DROP TABLE "rows"', NothingWritten(epoch=Epoch(1), location="/base/job")),
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
    assert sink.last_written() == NothingWritten(epoch=Epoch(1), location="/base/job")
    sink.write(batch(0), two(spark, 0))
    server.query(done)
    assert opened(append(server)).last_written() == told


def test_a_table_that_is_dropped_between_two_starts_of_a_driver_gets_its_batches_again(
    server: Server, spark: SparkSession
) -> None:
    """A run starts its query again after a failure, with the same epoch."""
    sink = opened(append(server))
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    sink.write(batch(0), two(spark, 0))
    server.query('DROP TABLE "rows"')
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    assert sink.write(batch(0), two(spark, 0)) is Decision.WRITE
    assert ids(server) == [0, 1]


def test_an_older_driver_that_comes_late_makes_no_table_and_forgets_nothing(
    server: Server, spark: SparkSession
) -> None:
    newer = opened(append(server))
    newer.prepare(replace(LIFE, epoch=Epoch(2)), two(spark, 0).schema, spark)
    newer.write(batch(0, epoch=2), two(spark, 0))
    server.query('DROP TABLE "rows"')
    for late in (LIFE, replace(LIFE, epoch=Epoch(2), location="/elsewhere")):
        with pytest.raises(DriverFenced):
            opened(append(server)).prepare(late, two(spark, 0).schema, spark)
    assert "rows" not in server.tables()
    assert server.query("SELECT epoch, batch FROM holdfast_ledger") == [(2, 0)]


@contextlib.contextmanager
def blinded(server: Server, table: str) -> Iterator[Output]:
    """Give an append as a user who may write to every table, and read all of them but one."""
    change = server.administrate if server.is_mariadb else server.query
    place = "serving" if server.is_mariadb else "public"
    secret = f"'{os.environ['HOLDFAST_TEST_PASSWORD']}'"
    if server.is_mariadb:
        change(f"CREATE USER writer IDENTIFIED BY {secret}")
        change("GRANT CREATE, INSERT, UPDATE ON serving.* TO writer")
    else:
        change(f"CREATE ROLE writer LOGIN PASSWORD {secret}")
        change("GRANT ALL ON SCHEMA public TO writer")
    for name in server.tables():
        rights = "INSERT, UPDATE" if name == table else "SELECT, INSERT, UPDATE, DELETE"
        change(f"GRANT {rights} ON {place}.{name} TO writer")
    try:
        yield sinks.jdbc_append(server.url, "rows", user="writer", password=PASSWORD)
    finally:
        if not server.is_mariadb:
            change("DROP OWNED BY writer")
        change(f"DROP {'USER' if server.is_mariadb else 'ROLE'} writer")


@pytest.mark.parametrize("table", ["rows", "holdfast_ledger"])
def test_a_table_that_may_not_be_read_is_not_taken_for_a_missing_one(
    server: Server, spark: SparkSession, table: str
) -> None:
    sink = opened(append(server))
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    sink.write(batch(0), two(spark, 0))
    newer = replace(LIFE, epoch=Epoch(2))
    with blinded(server, table) as output:
        blind = opened(output)
        with pytest.raises(SinkRefused, match=r"(?i)denied"):
            blind.prepare(newer, two(spark, 0).schema, spark)
        with pytest.raises(SinkRefused, match=r"(?i)denied"):
            blind.last_written()
    assert server.query("SELECT epoch, batch FROM holdfast_ledger") == [(1, 0)]
    sink.prepare(newer, two(spark, 0).schema, spark)
    assert sink.write(batch(0, epoch=2), two(spark, 0)) is Decision.SKIP
    assert ids(server) == [0, 1]


@pytest.fixture
def own_mariadb(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """MariaDB without tables."""
    with connect("mariadb", request, monkeypatch) as found:
        yield found


def keyed(server: Server, newest: str | None = None) -> Output:
    return sinks.jdbc_upsert(
        server.url, "rows", keys=["id"], newest=newest, user=server.user, password=PASSWORD
    )


EXACT = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
# what the table is: what the error says
UNSAFE_KEYS = {
    "no index": (
        "(id bigint NOT NULL, text longtext, KEY (id), UNIQUE (id, text(9)))",
        "expected a unique index of `rows` on exactly `id`",
    ),
    "an index of the first letters": (
        f"(id varchar(40) {EXACT} NOT NULL, text longtext, UNIQUE (id(2)))",
        "expected a unique index of `rows` on exactly `id`",
    ),
    "a null": ("(id bigint UNIQUE, text longtext)", "`id` of `rows` to take no null"),
    "letters of either case": (
        "(id varchar(40) PRIMARY KEY, text longtext)",
        "found the collation `utf8mb4_general_ci`",
    ),
    "blanks at the end": (
        "(id varchar(40) COLLATE utf8mb4_bin PRIMARY KEY, text longtext)",
        "found the collation `utf8mb4_bin`",
    ),
    "no transactions": ("(id bigint PRIMARY KEY, text longtext) ENGINE=MyISAM", "found MyISAM"),
    "no crash safety": ("(id bigint PRIMARY KEY, text longtext) ENGINE=Aria", "found Aria"),
}


@pytest.mark.parametrize(("made", "said"), UNSAFE_KEYS.values(), ids=UNSAFE_KEYS)
def test_a_table_that_would_lose_rows_of_an_upsert_is_refused(
    own_mariadb: Server, spark: SparkSession, made: str, said: str
) -> None:
    own_mariadb.query(f"CREATE TABLE `rows` {made}")
    key = "STRING" if "varchar" in made else "LONG"
    schema = spark.createDataFrame([], f"id {key}, text STRING").schema
    with pytest.raises(SinkRefused, match=said) as told:
        opened(keyed(own_mariadb)).prepare(LIFE, schema, spark)
    assert "holdfast_ledger" not in own_mariadb.tables()
    (statement,) = re.findall(r"ALTER TABLE .+", told.value.hint)
    own_mariadb.query(statement)
    opened(keyed(own_mariadb)).prepare(LIFE, schema, spark)


def test_mariadb_forgets_batches_by_hand_as_the_guide_says(
    own_mariadb: Server, spark: SparkSession
) -> None:
    sink = opened(append(own_mariadb))
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    for number in range(3):
        sink.write(batch(number), two(spark, 10 * number))
    guide = (Path(__file__).parents[2] / "docs/guides/start-over.md").read_text()
    (said,) = re.findall(r"```sql\s+DELETE FROM orders WHERE id > 1000;(.*?)```", guide, re.DOTALL)
    said = said.replace("orders-ingest", KEY.job).replace("batch = 7", "batch = 0")
    own_mariadb.query("DELETE FROM `rows` WHERE id >= 10")
    for statement in said.replace("batch > 7", "batch > 0").strip().rstrip(";").split(";"):
        own_mariadb.query(statement)
    again = opened(append(own_mariadb))
    again.prepare(replace(LIFE, epoch=Epoch(LIFE.epoch + 1)), two(spark, 0).schema, spark)
    last = again.last_written()
    assert isinstance(last, WrittenBatch)
    assert (last.batch, last.digest) == (0, batch(0).digest)
    assert again.write(batch(1, epoch=2), two(spark, 10)) is Decision.WRITE
    assert ids(own_mariadb) == [0, 1, 20, 21]


def test_a_key_of_postgresql_takes_no_null_as_told(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    with connect("postgresql", request, monkeypatch) as server:
        server.query('CREATE TABLE "rows" (id bigint UNIQUE, text text)')
        schema = two(spark, 0).schema
        with pytest.raises(SinkRefused, match="`id` of `rows` to take no null") as told:
            opened(keyed(server)).prepare(LIFE, schema, spark)
        server.query(told.value.hint)
        opened(keyed(server)).prepare(LIFE, schema, spark)


def test_keys_that_differ_in_case_and_blanks_are_different_keys(
    own_mariadb: Server, spark: SparkSession
) -> None:
    own_mariadb.query(f"CREATE TABLE `rows` (id varchar(40) {EXACT} PRIMARY KEY, n bigint)")
    rows = spark.createDataFrame(
        [("a", 1), ("A", 2), ("a ", 3), ("\u00e4", 4)], "id STRING, n LONG"
    )
    sink = opened(keyed(own_mariadb, "n"))
    sink.prepare(LIFE, rows.schema, spark)
    sink.write(batch(0), rows)
    sink.write(batch(1), rows.selectExpr("id", "n + 10 AS n"))
    found = own_mariadb.query("SELECT id, n FROM `rows` ORDER BY n")
    assert found == [("a", 11), ("A", 12), ("a ", 13), ("\u00e4", 14)]


@pytest.mark.parametrize("newest", ["n", None])
def test_another_unique_index_does_not_overwrite_another_keys_row(
    server: Server, spark: SparkSession, newest: str | None
) -> None:
    """A row with a new key and the mail of another key: the batch fails, no row is replaced."""
    server.query('CREATE TABLE "rows" (id bigint PRIMARY KEY, mail varchar(40) UNIQUE, n bigint)')
    schema = "id LONG, mail STRING, n LONG"
    sink = opened(keyed(server, newest))
    first = spark.createDataFrame([(1, "a@x", 1), (2, "b@x", 1)], schema)
    sink.prepare(LIFE, first.schema, spark)
    sink.write(batch(0), first)
    with pytest.raises(SinkRefused, match=r"(?i)duplicate"):
        sink.write(batch(1), spark.createDataFrame([(3, "a@x", 2)], schema))
    held = server.query('SELECT id, mail, n FROM "rows" ORDER BY id')
    assert held == [(1, "a@x", 1), (2, "b@x", 1)]
    sink.write(batch(1), spark.createDataFrame([(2, "c@x", 2), (3, "d@x", 2)], schema))
    held = server.query('SELECT id, mail, n FROM "rows" ORDER BY id')
    assert held == [(1, "a@x", 1), (2, "c@x", 2), (3, "d@x", 2)]


def test_a_number_that_the_database_counts_is_kept(
    own_mariadb: Server, spark: SparkSession
) -> None:
    """MariaDB replaces a 0 by the next number, unless it is told not to."""
    own_mariadb.query(
        "CREATE TABLE `rows` (n bigint AUTO_INCREMENT PRIMARY KEY, id bigint NOT NULL UNIQUE,"
        " text longtext)"
    )
    sink = opened(keyed(own_mariadb))
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    sink.write(batch(0), two(spark, 0))
    sink.write(batch(1), two(spark, 0).selectExpr("id", "'again' AS text"))
    assert own_mariadb.query("SELECT n, id, text FROM `rows` ORDER BY id") == [
        (1, 0, "again"),
        (2, 1, "again"),
    ]
    own_mariadb.clear()
    own_mariadb.query("CREATE TABLE `rows` (id bigint AUTO_INCREMENT PRIMARY KEY, text longtext)")
    sink.prepare(LIFE, two(spark, 0).schema, spark)
    sink.write(batch(0), two(spark, 0))
    assert ids(own_mariadb) == [0, 1]


def test_ledger_and_table_are_made_whole_and_with_transactions(
    own_mariadb: Server, spark: SparkSession
) -> None:
    """Whatever the server makes by default; and each by one statement, for a crash after it."""
    before = own_mariadb.query("SELECT @@global.default_storage_engine")[0][0]
    rows = two(spark, 0).selectExpr("*", "current_timestamp() AS at")
    own_mariadb.administrate("SET GLOBAL default_storage_engine = MyISAM")
    try:
        opened(append(own_mariadb)).prepare(LIFE, rows.schema, spark)
    finally:
        own_mariadb.administrate(f"SET GLOBAL default_storage_engine = {before}")
    engines = own_mariadb.query(
        "SELECT DISTINCT ENGINE FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
    )
    assert engines == [("InnoDB",)]
    own_mariadb.query("ALTER TABLE holdfast_ledger_history DROP PRIMARY KEY, ENGINE = MyISAM")
    with pytest.raises(SinkRefused, match="`holdfast_ledger_history` to be of an engine") as told:
        opened(append(own_mariadb)).prepare(LIFE, rows.schema, spark)
    own_mariadb.query(told.value.hint.partition("then run ")[2])
    own_mariadb.query("ALTER TABLE holdfast_ledger CONVERT TO CHARACTER SET utf8mb4")
    with pytest.raises(SinkRefused, match="tell names apart by every character") as told:
        opened(append(own_mariadb)).prepare(LIFE, rows.schema, spark)
    for statement in told.value.hint.split("; "):
        own_mariadb.query(statement)
    opened(append(own_mariadb)).prepare(replace(LIFE, epoch=Epoch(2)), rows.schema, spark)


def test_a_server_that_lets_values_through_is_told_not_to(
    own_mariadb: Server, spark: SparkSession
) -> None:
    """Without its strict mode MariaDB cuts texts and numbers, and writes the rest."""
    before = own_mariadb.query("SELECT @@global.sql_mode, @@global.time_zone")[0]
    own_mariadb.query("CREATE TABLE `rows` (id tinyint, text varchar(4), at timestamp(6) NULL)")
    at = "TIMESTAMP'2026-07-01 12:00:00.000001Z' AS at"
    rows = spark.sql(f"SELECT 1L AS id, 'good' AS text, {at}")
    own_mariadb.administrate("SET GLOBAL sql_mode = '', GLOBAL time_zone = '-05:00'")
    try:
        sink = opened(append(own_mariadb))
        sink.prepare(LIFE, rows.schema, spark)
        for wrong in ("700L AS id, 'good' AS text", "1L AS id, 'too long' AS text"):
            with pytest.raises(SinkRefused):
                sink.write(batch(0), spark.sql(f"SELECT {wrong}, {at}"))
        sink.write(batch(0), rows)
    finally:
        own_mariadb.administrate(
            f"SET GLOBAL sql_mode = '{before[0]}', GLOBAL time_zone = '{before[1]}'"
        )
    held = own_mariadb.query("SELECT id, text, UNIX_TIMESTAMP(at) * 1000000 FROM `rows`")
    assert held == [(1, "good", 1_782_907_200_000_001)]


SHORT_TYPES = {
    "tinytext": 255,
    "text": 65_535,
    "tinyblob": 255,
    "blob": 65_535,
    "varbinary(300)": 300,
}


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_mariadb_cuts_no_text_and_no_blob(
    own_mariadb: Server, spark: SparkSession, kind: str
) -> None:
    """In INSERT ... SELECT even a strict server keeps the length modulo 2^8 or 2^16."""
    types = list(SHORT_TYPES) if kind == "append" else ["text"]
    defined = ", ".join(f"c{n} {short}" for n, short in enumerate(types))
    own_mariadb.query(f"CREATE TABLE `rows` (id bigint PRIMARY KEY, {defined})")

    def sized(*sizes: int) -> DataFrame:
        values = (
            f"CAST(repeat('x', {size}) AS {'BINARY' if 'b' in short else 'STRING'}) AS c{n}"
            for n, (short, size) in enumerate(zip(types, sizes, strict=True))
        )
        return spark.sql(f"SELECT 1L AS id, {', '.join(values)}")

    most = [SHORT_TYPES[short] for short in types]
    sink = opened(append(own_mariadb) if kind == "append" else keyed(own_mariadb))
    sink.prepare(LIFE, sized(*most).schema, spark)
    if kind == "upsert":
        sink.write(batch(0), sized(*most))
    for n, short in enumerate(types):
        longer = [*most[:n], SHORT_TYPES[short] + 1, *most[n + 1 :]]
        with pytest.raises(
            SinkRefused, match=rf"too long for `c{n}`, which takes {SHORT_TYPES[short]} bytes"
        ):
            sink.write(batch(1 if kind == "upsert" else 0), sized(*longer))
    sink.write(batch(1 if kind == "upsert" else 0), sized(*most))
    lengths = ", ".join(f"OCTET_LENGTH(c{n})" for n in range(len(types)))
    assert own_mariadb.query(f"SELECT {lengths} FROM `rows`") == [tuple(most)]


UNSAFE_TABLES = {
    "unlogged": ('CREATE UNLOGGED TABLE "rows" (id bigint, text text)', "UNLOGGED"),
    "a rule": (
        """CREATE TABLE "rows" (id bigint, text text);
        CREATE RULE away AS ON INSERT TO "rows" DO INSTEAD NOTHING""",
        "has a rule",
    ),
}


@pytest.mark.parametrize(("made", "said"), UNSAFE_TABLES.values(), ids=UNSAFE_TABLES)
def test_a_postgresql_table_that_does_not_keep_its_rows_is_refused(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
    made: str,
    said: str,
) -> None:
    with connect("postgresql", request, monkeypatch) as server:
        server.query(made)
        with pytest.raises(SinkRefused, match=said) as told:
            opened(append(server)).prepare(LIFE, two(spark, 0).schema, spark)
        dropped = told.value.hint.startswith("drop the rule")
        server.query(
            'DROP RULE away ON "rows"' if dropped else told.value.hint.partition("run ")[2]
        )
        opened(append(server)).prepare(LIFE, two(spark, 0).schema, spark)


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


def test_the_newest_text_is_the_same_within_a_batch_and_against_the_table(
    server: Server, spark: SparkSession
) -> None:
    """Spark orders texts by bytes; a database orders them by a collation."""
    collation = "utf8mb4_general_ci"
    if not server.is_mariadb:
        collation = f"words_{secrets.token_hex(4)}"
        server.query(f"CREATE COLLATION {collation} (provider = libc, locale = '{LOCALE}')")
    server.query(f'CREATE TABLE "rows" (id bigint PRIMARY KEY, n varchar(9) COLLATE {collation})')
    sink = opened(keyed(server, "n"))
    rows = spark.createDataFrame([(1, "a"), (1, "B"), (2, "a")], "id LONG, n STRING")
    sink.prepare(LIFE, rows.schema, spark)
    sink.write(batch(0), rows)
    sink.write(batch(1), spark.createDataFrame([(2, "B")], rows.schema))
    assert server.query('SELECT id, n FROM "rows" ORDER BY id') == [(1, "a"), (2, "a")]


def test_a_collation_of_spark_makes_no_two_keys_one(server: Server, spark: SparkSession) -> None:
    exact = "CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin" if server.is_mariadb else ""
    server.query(f'CREATE TABLE "rows" (id varchar(9) {exact} PRIMARY KEY, n varchar(9))')
    sink = opened(keyed(server, "n"))
    rows = spark.createDataFrame(
        [("a", "1"), ("A", "2"), ("b", "a"), ("b", "B")], "id STRING, n STRING"
    ).selectExpr("id COLLATE UTF8_LCASE AS id", "n COLLATE UTF8_LCASE AS n")
    sink.prepare(LIFE, rows.schema, spark)
    sink.write(batch(0), rows)
    found = sorted(server.query('SELECT id, n FROM "rows"'))
    assert found == [("A", "2"), ("a", "1"), ("b", "a")]


KEEP_OUT = """
CREATE FUNCTION keep_out_{0}() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN IF NEW.note = 'out' THEN RETURN NULL; END IF; RETURN NEW; END $$;
CREATE TRIGGER keep_out BEFORE {1} ON "rows" FOR EACH ROW EXECUTE FUNCTION keep_out_{0}()"""


@pytest.mark.parametrize("newest", ["version", None])
@pytest.mark.parametrize(("event", "key"), [("INSERT", 4), ("INSERT", 1), ("UPDATE", 1)])
def test_a_trigger_that_keeps_rows_out_of_an_upsert_fails_the_batch(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    spark: SparkSession,
    newest: str | None,
    event: str,
    key: int,
) -> None:
    schema = "k LONG, version LONG, note STRING"
    with connect("postgresql", request, monkeypatch) as server:
        sink = opened(upsert(server, newest))
        first = spark.createDataFrame([(1, 5, "x"), (2, 5, "x")], schema)
        sink.prepare(LIFE, first.schema, spark)
        sink.write(batch(0), first)
        server.query(KEEP_OUT.format(secrets.token_hex(4), event))
        others = [(2, 4, "older"), (3, 1, "new")]
        with pytest.raises(SinkRefused, match="all 3 rows, but it took 2: a trigger"):
            sink.write(batch(1), spark.createDataFrame([(key, 9, "out"), *others], schema))
        assert server.query('SELECT k, note FROM "rows" ORDER BY k') == [(1, "x"), (2, "x")]
        assert sink.write(batch(1), spark.createDataFrame(others, schema)) is Decision.WRITE
        kept = "x" if newest else "older"
        found = server.query('SELECT k, note FROM "rows" ORDER BY k')
        assert found == [(1, "x"), (2, kept), (3, "new")]


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
        {"url": "jdbc:mysql://h/d"},
        {"url": "jdbc:sqlserver://h;databaseName=d"},
        {"url": "jdbc:oracle:thin:a/b@h:1521:d"},
        {"url": "jdbc:h2:mem:d"},
    ],
)
def test_a_password_or_an_untested_database_in_the_declaration_is_refused(
    given: dict[str, object],
) -> None:
    with pytest.raises(OptionInvalid) as refused:
        sinks.jdbc_append(table="t", **given)  # type: ignore[arg-type]
    assert "password=b" not in str(refused.value)
    assert "a/b" not in str(refused.value)
