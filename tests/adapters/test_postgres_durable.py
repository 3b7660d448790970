"""Rows and ledger change in one durable step, or the PostgreSQL sink does not start."""

import secrets
from collections.abc import Callable
from functools import partial

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from tests.adapters.postgres_driving import SCHEMA, TYPES, Desk, Driver, Rows

from holdfast.errors import (
    HoldfastError,
    SchemaMismatch,
    SinkBehind,
    SinkRefused,
    SinkUnavailable,
)
from holdfast.examples.database import Database
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres import staging

COLUMNS = "key text, at bigint, value text"
LEDGER = """CREATE UNLOGGED TABLE holdfast_ledger (job text, generation bigint, output text,
    epoch bigint NOT NULL, location text NOT NULL, tables text NOT NULL, batch bigint, digest text,
    offsets jsonb, rows bigint, written_at timestamptz, PRIMARY KEY (job, generation, output))"""
# what the target is: what the error says
UNSAFE = {
    "unlogged": (f"CREATE UNLOGGED TABLE rows ({COLUMNS})", "UNLOGGED"),
    "an unlogged partition": (
        (
            f"CREATE TABLE rows ({COLUMNS}) PARTITION BY LIST (at);"
            "CREATE TABLE one PARTITION OF rows FOR VALUES IN (1);"
            "CREATE UNLOGGED TABLE other PARTITION OF rows DEFAULT"
        ),
        "other is UNLOGGED",
    ),
    "an unlogged child": (
        f"CREATE TABLE rows ({COLUMNS}); CREATE UNLOGGED TABLE child () INHERITS (rows)",
        "child is UNLOGGED",
    ),
    "a view": (
        f"CREATE TABLE base ({COLUMNS}); CREATE VIEW rows AS SELECT * FROM base",
        "is a view",
    ),
    "a materialized view": (
        f"CREATE TABLE base ({COLUMNS}); CREATE MATERIALIZED VIEW rows AS SELECT * FROM base",
        "is a view",
    ),
    "a rule": (
        f"CREATE TABLE rows ({COLUMNS});CREATE RULE away AS ON INSERT TO rows DO INSTEAD NOTHING",
        "has a rule",
    ),
    "a foreign table": (
        (
            "CREATE FOREIGN DATA WRAPPER nothing;"
            "CREATE SERVER elsewhere FOREIGN DATA WRAPPER nothing;"
            f"CREATE FOREIGN TABLE rows ({COLUMNS}) SERVER elsewhere"
        ),
        "is a foreign table",
    ),
    "an unlogged ledger": (f"CREATE TABLE rows ({COLUMNS}); {LEDGER}", "holdfast_ledger"),
}


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


@pytest.mark.parametrize(("made", "said"), UNSAFE.values(), ids=UNSAFE)
def test_a_target_that_does_not_keep_its_rows_is_refused(desk: Desk, made: str, said: str) -> None:
    desk.query(made)
    with pytest.raises(SinkRefused, match=said):
        Driver(desk.append()).start()


def test_a_partitioned_table_and_its_children_are_written(desk: Desk) -> None:
    desk.query(
        f"CREATE TABLE rows ({COLUMNS}) PARTITION BY LIST (at);"
        "CREATE TABLE one PARTITION OF rows FOR VALUES IN (1);"
        "CREATE TABLE other PARTITION OF rows DEFAULT"
    )
    driver = Driver(desk.append()).start()
    assert driver.write(0, ("a", 1, "x"), ("b", 2, "y")) is Decision.WRITE
    assert desk.query("SELECT key FROM one UNION ALL SELECT key FROM other") == [("a",), ("b",)]


def test_a_table_that_becomes_unlogged_while_the_job_runs_is_refused(desk: Desk) -> None:
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    desk.query("ALTER TABLE rows SET UNLOGGED")
    with pytest.raises(SinkRefused, match="UNLOGGED") as refused:
        driver.write(1, ("b", 1, "x"))
    desk.query(refused.value.hint.partition("then run ")[2])
    assert driver.write(1, ("b", 1, "x")) is Decision.WRITE


def test_an_unlogged_table_would_lose_what_the_ledger_has(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Show why: a crash of the server empties the table and leaves the ledger."""
    with Database(tmp_path_factory.mktemp("own")) as own:
        monkeypatch.setenv("PGPASSFILE", str(own.pgpass))
        desk = Desk(own)
        driver = Driver(desk.append()).start()
        driver.write(0, ("a", 1, "x"))
        desk.query("ALTER TABLE rows SET UNLOGGED; CHECKPOINT")
        own.stop(immediately=True)
        own.start()
        assert desk.query("SELECT count(*) FROM rows") == [(0,)]
        assert desk.query("SELECT batch FROM holdfast_ledger") == [(0,)]
        with pytest.raises(SinkRefused, match="UNLOGGED"):
            Driver(desk.append(), epoch=2).start()


def test_a_trigger_that_keeps_rows_out_fails_the_batch(desk: Desk) -> None:
    driver = Driver(desk.append()).start()
    desk.query(
        "CREATE FUNCTION keep_out() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF NEW.at = 1 THEN RETURN NULL; END IF; RETURN NEW; END $$;"
        "CREATE TRIGGER keep_out BEFORE INSERT ON rows FOR EACH ROW EXECUTE FUNCTION keep_out()"
    )
    with pytest.raises(SinkRefused, match="all 2 rows, but it took 1"):
        driver.write(0, ("a", 1, "x"), ("b", 2, "y"))
    assert desk.query("SELECT * FROM rows") == []
    assert driver.write(0, ("b", 2, "y")) is Decision.WRITE


@pytest.mark.parametrize(
    "kind", ["timestamptz(0)", "timestamptz(3)", "timestamptz(0)[]", "seconds", "cents"]
)
def test_columns_that_would_round_are_refused(desk: Desk, kind: str) -> None:
    from pyspark.sql import types as t

    desk.query("CREATE DOMAIN cents AS numeric(10,1); CREATE DOMAIN seconds AS timestamptz(0)")
    desk.query(f"CREATE TABLE rows (key text, at {kind})")
    moment: t.DataType = t.DecimalType(10, 2) if kind == "cents" else t.TimestampType()
    if kind.endswith("[]"):
        moment = t.ArrayType(moment)
    schema = t.StructType([t.StructField("key", t.StringType()), t.StructField("at", moment)])
    with pytest.raises(SchemaMismatch, match="column `at`"):
        Driver(desk.append(), schema=schema).start()


def test_a_session_that_holds_the_ledger_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sinks.postgres.table._LOCK_MS", 100)
    monkeypatch.setattr("holdfast.sinks.postgres.table._WRITE_LOCK_MS", 100)
    driver = Driver(desk.append()).start()
    with psycopg.connect(desk.connection, application_name="a colleague") as other:
        ledger = sql.Identifier(desk.schema, "holdfast_ledger")
        other.execute(sql.SQL("SELECT 1 FROM {} FOR UPDATE").format(ledger))
        pid = other.info.backend_pid
        with pytest.raises(SinkUnavailable, match=rf"{pid} \(role holdfast, .*a colleague"):
            driver.write(0, ("a", 1, "x"))
        with pytest.raises(SinkUnavailable, match=rf"{pid} \(role holdfast, .*a colleague"):
            Driver(desk.append(), epoch=2).start()
    assert driver.write(0, ("a", 1, "x")) is Decision.WRITE


@pytest.mark.parametrize("exact", ["neither", "the column", "the index"])
def test_a_key_that_takes_different_texts_for_equal_is_refused(desk: Desk, exact: str) -> None:
    """The server of the tests has no such collation, so its catalog is told of one."""
    name = f"either_{secrets.token_hex(4)}"
    desk.query(f"CREATE COLLATION {name} (locale = 'C')")
    of_column = "" if exact == "the column" else f"COLLATE {name}"
    of_index = 'COLLATE "C"' if exact == "the index" else f"COLLATE {name}"
    desk.query(f"CREATE TABLE rows (key text {of_column} NOT NULL, at bigint, value text)")
    desk.query(f"CREATE UNIQUE INDEX ON rows (key {of_index})")
    hidden = f"UPDATE pg_collation SET collisdeterministic = false WHERE collname = '{name}'"
    desk.query(hidden)
    with pytest.raises(SinkRefused, match="key column `key`"):
        Driver(desk.upsert()).start()


class Altered(Rows):
    """Rows whose plan runs while somebody alters the table."""

    def __init__(self, table: pa.Table, alter: Callable[[], object]) -> None:
        super().__init__(table, SCHEMA)
        self._alter = alter

    def toArrow(self) -> pa.Table:  # noqa: D102, N802  Spark's name
        self._alter()
        return super().toArrow()


# what is done to the table while the batch runs: the error that is right
ALTERED: dict[str, type[HoldfastError]] = {
    "ALTER TABLE rows ALTER COLUMN at TYPE double precision": SchemaMismatch,
    "ALTER TABLE rows ALTER COLUMN at TYPE integer": SinkUnavailable,
    "ALTER TABLE rows SET UNLOGGED": SinkRefused,
    "ALTER TABLE rows RENAME TO old": SinkBehind,
    "ALTER TABLE rows RENAME TO old; CREATE TABLE rows (LIKE old)": SinkBehind,
}


@pytest.mark.parametrize("done", ALTERED)
def test_a_table_that_is_altered_while_a_batch_runs_gets_none_of_its_rows(
    desk: Desk, done: str
) -> None:
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    given = pa.Table.from_pylist([{"key": "b", "at": 2, "value": "y"}], TYPES)
    rows = Altered(
        given,
        partial(desk.query, done),
    )
    with pytest.raises(ALTERED[done]):
        driver.sink.write(driver.batch(1), rows)  # type: ignore[arg-type]
    assert desk.query(f"SELECT key FROM {'old' if 'old' in done else 'rows'}") == [("a",)]
    assert desk.query("SELECT batch FROM holdfast_ledger") == [(0,)]


def test_a_table_cannot_be_replaced_between_the_last_look_and_the_commit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(desk.append()).start()
    copy = staging.copy
    refused: list[Exception] = []

    def replace_first(*given: object) -> tuple[int, int]:
        try:
            desk.query("SET lock_timeout = 300; ALTER TABLE rows RENAME TO old")
        except psycopg.errors.LockNotAvailable as error:
            refused.append(error)
        return copy(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(staging, "copy", replace_first)
    assert driver.write(0, ("a", 1, "x")) is Decision.WRITE
    assert len(refused) == 1
    assert desk.query("SELECT key FROM rows") == [("a",)]
