"""The sessions of a PostgreSQL sink: what they set, what they wait for, what they say."""

import secrets
from dataclasses import replace

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from tests.adapters.postgres_driving import SCHEMA, TYPES, Desk, Driver, Rows

from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.examples.database import Database
from holdfast.model.ids import BatchId
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres.connect import Server

SETTINGS = {
    "transaction_isolation": "read committed",
    "statement_timeout": "0",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "1min",
    "lock_timeout": "5min",
    "row_security": "off",
    "synchronous_commit": "on",
}
OTHERS = (
    "-c default_transaction_isolation=serializable -c statement_timeout=9s"
    " -c idle_session_timeout=9s -c transaction_timeout=9s -c synchronous_commit=off"
)


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


def hold_rows(desk: Desk, other: psycopg.Connection, table: str) -> int:
    """Lock the rows of a table from another session."""
    lock = sql.SQL("SELECT 1 FROM {} FOR UPDATE").format(sql.Identifier(desk.schema, table))
    other.execute(lock)
    return other.info.backend_pid


@pytest.mark.parametrize("lost", [False, True], ids=["the role's", "a pooler's"])
def test_a_transaction_has_its_settings_whatever_the_session_has(desk: Desk, *, lost: bool) -> None:
    kept = ", ".join(f"{name} text DEFAULT current_setting('{name}')" for name in SETTINGS)
    desk.query(f"CREATE TABLE rows (key text, at bigint, value text, {kept})")
    driver = Driver(desk.append(connection=f"{desk.connection} options='{OTHERS}'")).start()
    if lost:  # a pooler gives the transaction a session that nobody has set up
        driver.sink._table._connection.execute("DISCARD ALL")  # type: ignore[union-attr]  # noqa: SLF001
    driver.write(0, ("a", 1, "x"))
    assert desk.query(f"SELECT {', '.join(SETTINGS)} FROM rows") == [tuple(SETTINGS.values())]


class EndedMeanwhile(Rows):
    """A plan that runs longer than the server keeps the driver's connection."""

    def __init__(self, desk: Desk, table: pa.Table) -> None:
        super().__init__(table, SCHEMA)
        self._desk = desk

    def toArrow(self) -> pa.Table:  # noqa: D102, N802  Spark's name
        ended = self._desk.query(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name LIKE 'hf\\_%\\_1' AND pid <> pg_backend_pid()"
        )
        assert (True,) in ended
        return super().toArrow()


def test_a_connection_that_ends_while_the_plan_runs_is_replaced(desk: Desk) -> None:
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    rows = pa.Table.from_pylist([{"key": "b", "at": 1, "value": "x"}], TYPES)
    slow = EndedMeanwhile(desk, rows)
    assert driver.sink.write(driver.batch(1), slow) is Decision.WRITE  # type: ignore[arg-type]
    assert desk.query("SELECT key FROM rows ORDER BY key") == [("a",), ("b",)]


def test_a_value_beyond_a_limit_of_the_server_is_refused(desk: Desk) -> None:
    driver = Driver(desk.upsert()).start()
    with pytest.raises(SinkRefused, match="index row requires"):
        driver.write(0, (secrets.token_hex(6_000), 1, "x"))


def test_a_statement_that_an_operator_cancels_is_told_in_the_servers_words(desk: Desk) -> None:
    desk.query("CREATE TABLE rows (key text, at bigint, value text)")
    desk.query(
        "CREATE FUNCTION cancel() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM pg_cancel_backend(pg_backend_pid()); PERFORM pg_sleep(5); RETURN NEW; END $$"
    )
    desk.query("CREATE TRIGGER t BEFORE INSERT ON rows FOR EACH ROW EXECUTE FUNCTION cancel()")
    driver = Driver(desk.append()).start()
    with pytest.raises(SinkUnavailable, match="canceling statement due to user request") as told:
        driver.write(0, ("a", 1, "x"))
    assert "server runs" not in told.value.hint


def test_a_session_that_holds_rows_of_the_table_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = Driver(desk.upsert()).start()
    driver.write(0, ("a", 1, "x"))
    monkeypatch.setattr("holdfast.sinks.postgres.table._ROWS_LOCK_MS", 100)
    with psycopg.connect(desk.connection, application_name="a colleague") as other:
        pid = hold_rows(desk, other, "rows")
        with pytest.raises(SinkUnavailable, match=rf"lock timeout.* {pid} \(role .*a colleague"):
            driver.write(1, ("a", 2, "y"))
    assert driver.write(1, ("a", 2, "y")) is Decision.WRITE


def test_a_start_does_not_wait_for_ever_for_the_ledger_of_a_table_that_is_gone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    Driver(desk.append()).start().write(0, ("a", 1, "x"))
    desk.query("DROP TABLE rows")
    monkeypatch.setattr("holdfast.sinks.postgres.table._WRITE_LOCK_MS", 100)
    with psycopg.connect(desk.connection) as other:
        pid = hold_rows(desk, other, "holdfast_ledger")
        with pytest.raises(SinkUnavailable, match=f"{pid} "):
            Driver(desk.append(), epoch=2).start()


@pytest.mark.parametrize("pending", [1, 0])
def test_a_batch_that_is_pending_when_a_replaced_table_is_accepted_is_written(
    desk: Desk, pending: int
) -> None:
    first = Driver(desk.append()).start()
    for number in (0, 1):
        first.write(number, ("a", number, "x"))
    desk.query("CREATE TABLE restored (LIKE rows)")
    desk.query("DROP TABLE rows")
    desk.query("ALTER TABLE restored RENAME TO rows")
    again = Driver(desk.append(), epoch=2)
    again.life = replace(again.life, gap_before=BatchId(pending))
    again.start()
    for number in range(pending, 2):
        assert again.write(number, ("a", number, "x")) is Decision.WRITE
    expected = [(number,) for number in range(pending, 2)]
    assert desk.query("SELECT at FROM rows ORDER BY at") == expected
    assert again.write(1, ("a", 1, "x")) is Decision.SKIP


def test_a_batch_in_a_table_that_was_not_replaced_is_skipped_whatever_is_accepted(
    desk: Desk,
) -> None:
    Driver(desk.append()).start().write(0, ("a", 0, "x"))
    again = Driver(desk.append(), epoch=2)
    again.life = replace(again.life, gap_before=BatchId(0))
    assert again.start().write(0, ("a", 0, "x")) is Decision.SKIP


def test_offsets_that_the_ledger_cannot_keep_are_named(desk: Desk) -> None:
    driver = Driver(desk.append()).start()
    batch = replace(driver.batch(0), offsets=[{"source": "0", "file": "a\0b"}])
    rows = Rows(pa.Table.from_pylist([{"key": "b", "at": 1, "value": "x"}], TYPES), SCHEMA)
    with pytest.raises(SinkRefused, match="cannot note the offsets of batch 0") as told:
        driver.sink.write(batch, rows)  # type: ignore[arg-type]
    assert "the source" in told.value.hint


def test_of_several_hosts_the_primary_is_asked(database: Database) -> None:
    one = conninfo_to_dict(database.connection)
    twice = {name: f"{value},{value}" for name, value in one.items() if name in ("host", "port")}
    address = " ".join(f"{name}={value}" for name, value in {**one, **twice}.items())
    for text, chosen in ((address, "primary"), (f"{address} target_session_attrs=any", None)):
        with Server(connection=text, password=None).connect("test") as connection:
            parameters = connection.info.get_parameters()
        assert parameters.get("target_session_attrs") == chosen or chosen is None
