"""What a PostgreSQL sink does with a batch: written once, fenced, refused, and remembered."""

import threading
import time

import psycopg
import pytest
from psycopg import sql
from tests.adapters.postgres_driving import Desk, Driver

from holdfast.errors import (
    BatchChanged,
    BatchUnverifiable,
    DriverFenced,
    SinkBehind,
    SinkRefused,
    SinkUnavailable,
)
from holdfast.examples.database import Database
from holdfast.model.batch import NothingWritten, WrittenBatch
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres import ledger


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


def written(batch: int, *, epoch: int = 1, taken_back: bool = False) -> WrittenBatch:
    return WrittenBatch(
        epoch=Epoch(epoch),
        batch=BatchId(batch),
        digest=Digest(f"digest-{batch}"),
        location="/base/j",
        taken_back=taken_back,
    )


def test_batches_are_written_in_order_and_once(desk: Desk) -> None:
    driver = Driver(desk.append())
    assert driver.sink.last_written() == NothingWritten(
        epoch=Epoch(0), location=Unknown(reason="there is no ledger of the job yet")
    )
    driver.start()
    assert driver.sink.last_written() == NothingWritten(epoch=Epoch(1), location="/base/j")
    assert driver.write(0, ("a", 1, "x"), ("b", 2, None)) is Decision.WRITE
    assert driver.write(0, ("a", 1, "x"), ("b", 2, None)) is Decision.SKIP
    assert driver.write(1) is Decision.WRITE
    assert driver.write(2, ("c", None, "")) is Decision.WRITE
    assert driver.sink.last_written() == written(2)
    assert desk.query("SELECT * FROM rows ORDER BY key") == [
        ("a", 1, "x"),
        ("b", 2, None),
        ("c", None, ""),
    ]
    assert desk.query(
        "SELECT job, generation, output, epoch, batch, rows FROM holdfast_ledger"
    ) == [("j", 1, "t", 1, 2, 1)]
    offsets = desk.query("SELECT offsets FROM holdfast_ledger_history ORDER BY batch")
    assert offsets == [([{"source": "0", "start": n, "end": n + 1}],) for n in range(3)]


def test_a_later_driver_skips_what_is_there_and_goes_on(desk: Desk) -> None:
    first = Driver(desk.append()).start()
    first.write(0, ("a", 1, "x"))
    second = Driver(desk.append(), epoch=2).start()
    assert second.sink.last_written() == written(0, epoch=2)
    assert second.write(0, ("a", 1, "x")) is Decision.SKIP
    assert second.write(1, ("b", 1, "x")) is Decision.WRITE
    with pytest.raises(DriverFenced, match="this driver has epoch 1, and the ledger has epoch 2"):
        first.write(1, ("b", 1, "x"))
    with pytest.raises(DriverFenced):
        Driver(desk.append()).start()
    with pytest.raises(DriverFenced):  # another base with an epoch of its own
        Driver(desk.append(), epoch=2, base="/other").start()
    assert desk.query("SELECT key FROM rows ORDER BY key") == [("a",), ("b",)]


def test_what_must_not_be_written_is_not(desk: Desk) -> None:
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    with pytest.raises(BatchChanged):
        driver.write(0, ("b", 1, "x"), digest="another")
    with pytest.raises(SinkBehind):
        driver.write(2, ("b", 1, "x"))
    assert desk.query("SELECT key FROM rows") == [("a",)]


def test_the_history_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "KEPT", 3)
    driver = Driver(desk.append()).start()
    for number in range(6):
        driver.write(number, ("a", number, "x"))
    assert desk.query("SELECT batch FROM holdfast_ledger_history ORDER BY 1") == [(3,), (4,), (5,)]
    assert driver.write(3, ("a", 3, "x")) is Decision.SKIP
    with pytest.raises(BatchUnverifiable, match="keeps only the last 3 batches"):
        driver.write(2, ("a", 2, "x"))


def test_a_table_that_was_replaced_is_noticed(desk: Desk) -> None:
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    desk.query("CREATE TABLE other (LIKE rows); DROP TABLE rows; ALTER TABLE other RENAME TO rows")
    with pytest.raises(SinkBehind, match="dropped or replaced"):
        driver.write(1, ("b", 1, "x"))
    assert driver.sink.last_written() == written(0, taken_back=True)


def test_a_restored_dump_is_taken_as_it_is(desk: Desk) -> None:
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    for table in ("rows", "holdfast_ledger", "holdfast_ledger_history"):
        desk.query(
            f"CREATE TABLE copy (LIKE {table} INCLUDING ALL); INSERT INTO copy SELECT * FROM"
            f" {table}; DROP TABLE {table}; ALTER TABLE copy RENAME TO {table}"
        )
    assert driver.sink.last_written() == written(0)
    heir = Driver(desk.append(), epoch=2).start()
    assert heir.write(0, ("a", 1, "x")) is Decision.SKIP
    assert heir.write(1, ("b", 1, "x")) is Decision.WRITE


def test_a_ledger_that_is_gone_stops_the_driver(desk: Desk) -> None:
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    desk.query("DELETE FROM holdfast_ledger")
    with pytest.raises(SinkBehind, match="its ledger has no epoch"):
        driver.write(1, ("b", 1, "x"))


def test_two_drivers_that_start_at_once_make_one_ledger(desk: Desk) -> None:
    drivers = [Driver(desk.append(), epoch=epoch) for epoch in range(1, 5)]
    failed: list[Exception] = []

    def start(driver: Driver) -> None:
        try:
            driver.start()
        except DriverFenced as error:
            failed.append(error)

    threads = [threading.Thread(target=start, args=(driver,)) for driver in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert drivers[-1].write(0, ("a", 1, "x")) is Decision.WRITE
    for driver in drivers[:-1]:
        with pytest.raises(DriverFenced):
            driver.write(1, ("b", 1, "x"))
    assert desk.query("SELECT epoch FROM holdfast_ledger") == [(4,)]


def test_a_driver_that_hangs_in_its_transaction_is_ended(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sinks.postgres.table._LOCK_MS", 300)
    hanging, go_on = threading.Event(), threading.Event()
    record = ledger.PostgresLedger.record

    def hang(self: ledger.PostgresLedger, *given: object) -> None:
        record(self, *given)  # type: ignore[arg-type]
        hanging.set()
        go_on.wait(30)

    old = Driver(desk.append()).start()
    caught: list[Exception] = []

    def write() -> None:
        try:
            old.write(0, ("a", 1, "old"))
        except (SinkUnavailable, DriverFenced) as error:
            caught.append(error)

    with monkeypatch.context() as frozen:
        frozen.setattr(ledger.PostgresLedger, "record", hang)
        zombie = threading.Thread(target=write)
        zombie.start()
        assert hanging.wait(10)
    heir = Driver(desk.append(), epoch=2).start()
    assert heir.write(0, ("a", 1, "new")) is Decision.WRITE
    go_on.set()
    zombie.join()
    assert len(caught) == 1
    with pytest.raises(DriverFenced):
        old.write(0, ("a", 1, "old"))
    assert desk.query("SELECT value FROM rows") == [("new",)]


def test_a_connection_that_went_stale_between_batches_is_made_anew(desk: Desk) -> None:
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    ended = desk.query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name LIKE 'hf\\_%\\_1' AND pid <> pg_backend_pid()"
    )
    assert (True,) in ended
    time.sleep(0.1)
    assert driver.write(1, ("b", 1, "x")) is Decision.WRITE
    assert desk.query("SELECT key FROM rows ORDER BY key") == [("a",), ("b",)]


def test_staging_of_older_drivers_is_swept_and_no_other(desk: Desk) -> None:
    old = Driver(desk.append()).start()
    staged = old.sink._table._prefix  # noqa: SLF001
    left = [f"{staged}{epoch}_7_0_{n}" for n, epoch in enumerate((1, 2, 3))]
    foreign = [f"hf_{'0' * 12}_1_7_0_0", f"{staged}mine", "hf_notes"]
    for name in (*left, *foreign):
        desk.query(f'CREATE UNLOGGED TABLE "{name}" (id int)')
    with psycopg.connect(desk.connection) as busy:  # a zombie's executor that still writes
        busy.execute(sql.SQL("LOCK TABLE {}").format(sql.Identifier(desk.schema, left[1])))
        Driver(desk.append(), epoch=2).start()
    tables = [str(name) for (name,) in desk.query(
        "SELECT relname::text FROM pg_class WHERE relname LIKE 'hf\\_%' AND"
        " relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
    )]  # fmt: skip
    assert sorted(tables) == sorted([left[1], left[2], *foreign])


def test_a_server_that_is_not_there_is_one_clear_error(desk: Desk) -> None:
    nowhere = desk.append(connection="host=127.0.0.1 port=1 dbname=postgres user=holdfast")
    with pytest.raises(SinkUnavailable, match=r"127\.0\.0\.1 port=1"):
        Driver(nowhere).sink.last_written()


def test_a_schema_that_is_not_there_is_refused(desk: Desk) -> None:
    with pytest.raises(SinkRefused, match="nowhere"):
        Driver(desk.append(schema="nowhere")).start()


def test_an_older_driver_that_comes_late_makes_no_table_and_forgets_nothing(desk: Desk) -> None:
    newer = Driver(desk.append(), epoch=2).start()
    newer.write(0, ("a", 1, "x"))
    desk.query("DROP TABLE rows")
    for late in (Driver(desk.append()), Driver(desk.append(), epoch=2, base="/elsewhere")):
        with pytest.raises(DriverFenced):
            late.start()
    assert desk.query("SELECT to_regclass('rows')") == [(None,)]
    assert desk.query("SELECT epoch, batch FROM holdfast_ledger") == [(2, 0)]
    assert desk.query("SELECT batch FROM holdfast_ledger_history") == [(0,)]


def test_a_table_that_is_dropped_between_two_starts_of_a_driver_gets_its_batches_again(
    desk: Desk,
) -> None:
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    desk.query("DROP TABLE rows")
    assert driver.start().write(0, ("a", 1, "x")) is Decision.WRITE
    assert desk.query("SELECT key FROM rows") == [("a",)]


def test_of_two_drivers_with_the_same_epoch_only_the_first_writes(desk: Desk) -> None:
    """Without records each took the epoch after the ledger's, before the other put it."""
    Driver(desk.append()).start().write(0, ("a", 1, "x"))
    first, second = Driver(desk.append(), epoch=2), Driver(desk.append(), epoch=2)
    first.start()
    with pytest.raises(
        DriverFenced, match="this driver has epoch 2, and the ledger has the same epoch"
    ):
        second.start()
    assert first.start().write(1, ("b", 1, "x")) is Decision.WRITE
    assert desk.query("SELECT key FROM rows ORDER BY key") == [("a",), ("b",)]


def test_a_job_of_the_same_name_in_another_schema_is_not_ended(
    desk: Desk, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.sinks.postgres.table._LOCK_MS", 100)
    elsewhere = Driver(Desk(database).append()).start()
    session = elsewhere.sink._table._connection  # noqa: SLF001
    Driver(desk.append()).start()
    ledger_of = sql.Identifier(desk.schema, "holdfast_ledger")
    with psycopg.connect(desk.connection) as other:
        other.execute(sql.SQL("SELECT 1 FROM {} FOR UPDATE").format(ledger_of))
        with pytest.raises(SinkUnavailable, match="holds it"):
            Driver(desk.append(), epoch=2).start()
    assert elsewhere.write(0, ("a", 1, "x")) is Decision.WRITE
    assert elsewhere.sink._table._connection is session  # noqa: SLF001
