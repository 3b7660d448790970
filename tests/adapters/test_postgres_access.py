"""Who may connect and how: passwords from their places, TLS as asked, and no right too many."""

import re
import secrets
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from psycopg import sql
from pyspark.sql.types import StringType, StructField, StructType
from tests.adapters.postgres_driving import MARKED, MARKED_TYPES, SCHEMA, TYPES, Desk, Driver

from holdfast.errors import DriverFenced, HoldfastError, SinkRefused, SinkUnavailable
from holdfast.examples.database import Database
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres import encode, staging
from holdfast.sinks.postgres.connect import Server
from holdfast.sinks.postgres.encode import CopyColumn, Oid

SCHEMA_RIGHTS = "USAGE, CREATE"
DATABASE_RIGHTS = "CONNECT, TEMPORARY"
APPEND_RIGHTS = "INSERT"
UPSERT_RIGHTS = "SELECT, INSERT, UPDATE"
DELETE_RIGHTS = "SELECT, INSERT, UPDATE, DELETE"


@pytest.fixture
def no_pgpass(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))


def server(database: Database, password: str | None = None) -> Server:
    return Server(connection=database.connection, password=password)


def test_a_password_from_libpqs_own_places(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with server(database).connect("test") as connection:  # PGPASSFILE, by the fixture
        assert connection.execute("SELECT 1").fetchone() == (1,)
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGPASSWORD", database.password_file.read_text())
    server(database).connect("test").close()
    monkeypatch.delenv("PGPASSWORD")
    services = tmp_path / "services"
    host = database.connection.replace(" ", "\n")
    services.write_text(f"[serving]\n{host}\npassword={database.password_file.read_text()}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    Server(connection="service=serving", password=None).connect("test").close()


@pytest.mark.usefixtures("no_pgpass")
def test_a_password_by_reference(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    server(database, f"file:{database.password_file}").connect("test").close()
    with pytest.raises(SinkRefused, match="environment variable `SERVING_PASSWORD`, found none"):
        server(database, "env:SERVING_PASSWORD").connect("test")
    monkeypatch.setenv("SERVING_PASSWORD", database.password_file.read_text())
    server(database, "env:SERVING_PASSWORD").connect("test").close()
    with pytest.raises(SinkRefused, match="in the file `/nowhere`, found: No such file"):
        server(database, "file:/nowhere").connect("test")


@pytest.mark.usefixtures("no_pgpass")
def test_no_password_or_a_wrong_one_is_refused_and_not_repeated(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SinkRefused, match="no password supplied"):
        server(database).connect("test")
    monkeypatch.setenv("SERVING_PASSWORD", "hunter2")
    with pytest.raises(SinkRefused, match="password authentication failed") as caught:
        server(database, "env:SERVING_PASSWORD").connect("test")
    assert caught.value.__cause__ is None
    assert "hunter2" not in f"{caught.value!r} {caught.value} {caught.value.hint}"
    with pytest.raises(SinkRefused) as caught:
        Server(connection="host=db nonsense=1", password="env:SERVING_PASSWORD").connect("test")
    assert "hunter2" not in f"{caught.value!r} {caught.value}"


def test_tls_is_what_the_connection_asks_for(database: Database) -> None:
    wanted = Server(connection=f"{database.connection} sslmode=require", password=None)
    with pytest.raises(SinkUnavailable, match="server does not support SSL"):
        wanted.connect("test")


@pytest.fixture
def bare(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Desk, Desk]]:
    """A database with nothing in it, for its owner and for a role without any right."""
    name, password = f"bare_{secrets.token_hex(4)}", secrets.token_hex(8)
    monkeypatch.setenv("STREAM_PASSWORD", password)
    with psycopg.connect(database.connection, autocommit=True) as admin:
        quoted = sql.Identifier(name)
        admin.execute(sql.SQL("CREATE DATABASE {}").format(quoted))
        admin.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(quoted))
        create = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}")
        admin.execute(create.format(quoted, sql.Literal(password)))
        owner = Desk(database, dbname=name)
        role = Desk(database, dbname=name, schema=owner.schema, user=name)
        owner.query("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        yield owner, role
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(quoted))
        admin.execute(sql.SQL("DROP ROLE {}").format(quoted))


def grant(owner: Desk, role: Desk, rights: str, on: str) -> None:
    owner.query(f"GRANT {rights} ON {on} TO {role.user}")


def granted(owner: Desk, role: Desk) -> None:
    grant(owner, role, DATABASE_RIGHTS, f"DATABASE {role.user}")
    schema = sql.Identifier(owner.schema).as_string()
    grant(owner, role, SCHEMA_RIGHTS, f"SCHEMA {schema}")


def test_a_role_with_the_documented_rights_makes_its_own_tables(bare: tuple[Desk, Desk]) -> None:
    owner, role = bare
    granted(owner, role)
    driver = Driver(role.upsert(deleted="gone"), schema=MARKED, types=MARKED_TYPES).start()
    driver.write(0, ("a", 1, "x", False), ("b", 1, "x", False))
    driver.write(1, ("a", 2, "", True))
    assert owner.query("SELECT key FROM rows") == [("b",)]


@pytest.mark.parametrize("rights", [APPEND_RIGHTS, UPSERT_RIGHTS, DELETE_RIGHTS])
def test_a_role_with_the_documented_rights_on_a_table_that_is_there(
    bare: tuple[Desk, Desk], rights: str
) -> None:
    owner, role = bare
    granted(owner, role)
    owner.query("CREATE TABLE rows (key text PRIMARY KEY, at bigint, value text)")
    grant(owner, role, rights, "TABLE rows")
    if rights == DELETE_RIGHTS:
        driver = Driver(role.upsert(deleted="gone"), schema=MARKED, types=MARKED_TYPES).start()
        driver.write(0, ("a", 1, "x", False), ("b", 1, "x", True))
    else:
        driver = Driver(role.append() if rights == APPEND_RIGHTS else role.upsert()).start()
        driver.write(0, ("a", 1, "x"))
    assert owner.query("SELECT * FROM rows") == [("a", 1, "x")]
    stage_and_sweep(role)


class HangingInCopy:
    """A driver that hangs in the middle of its COPY, until it is told to go on."""

    def __init__(self, driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        self._driver = driver
        self._hangs, self._go_on = threading.Event(), threading.Event()
        self._encoded = encode.encode_rows
        self._thread = threading.Thread(target=self._write)
        self.failed: list[HoldfastError] = []
        monkeypatch.setattr(encode, "encode_rows", self._hang)
        self._thread.start()
        assert self._hangs.wait(60)

    def wake(self) -> None:
        """Let it go on, and wait for its end."""
        self._go_on.set()
        self._thread.join()

    def _hang(self, columns: Sequence[CopyColumn], rows: pa.RecordBatch) -> Iterator[memoryview]:
        if not self._hangs.is_set():
            self._hangs.set()
            self._go_on.wait(60)
        yield from self._encoded(columns, rows)

    def _write(self) -> None:
        try:
            self._driver.write(0, ("a", 1, "x"))
        except HoldfastError as error:
            self.failed.append(error)


def test_a_driver_that_hangs_in_copy_under_another_role_is_named_and_ended_as_told(
    bare: tuple[Desk, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session inside COPY counts as active: no timeout of the server ends it."""
    monkeypatch.setattr("holdfast.sinks.postgres.table._LOCK_MS", 100)
    owner, role = bare
    granted(owner, role)
    old = Driver(owner.append()).start()
    for table in ("rows", "holdfast_ledger", "holdfast_ledger_history"):
        grant(owner, role, DELETE_RIGHTS, f"TABLE {table}")
    zombie = HangingInCopy(old, monkeypatch)
    with pytest.raises(SinkUnavailable, match="role holdfast, application `hf_") as told:
        Driver(role.append(), epoch=2).start()
    assert "as the role that it names or as a superuser" in told.value.hint
    (session,) = re.findall(r"holds it: (\d+) \(", told.value.message)
    (statement,) = re.findall("`(.+)`", told.value.hint)
    owner.query(statement.replace("…", session))
    heir = Driver(role.append(), epoch=2).start()
    assert heir.write(0, ("a", 1, "x")) is Decision.WRITE
    zombie.wake()
    assert [type(error) for error in zombie.failed] == [SinkUnavailable]
    with pytest.raises(DriverFenced):
        old.write(0, ("a", 1, "x"))
    assert owner.query("SELECT key FROM rows") == [("a",)]


def stage_and_sweep(role: Desk) -> None:
    """What executors do with the same rights."""
    column = CopyColumn(name="v", sql="bigint", oid=Oid.INT8, array=False, most=0, required=False)
    place = staging.StagingArea(
        server=Server(connection=role.connection, password=role.password),
        schema=role.schema,
        table="rows",
        prefix="hf_000000000000_",
        columns=(column,),
    )
    with place.server.connect("test") as connection:
        create = sql.SQL("CREATE UNLOGGED TABLE {} ({})")
        name = sql.Identifier(role.schema, "hf_000000000000_1_0_0_0")
        connection.execute(create.format(name, staging.define_columns((column,))))
        staging.sweep(connection, place, Driver(role.append()).life.epoch)
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute(sql.SQL("SELECT 1 FROM {}").format(name))


def test_a_right_too_few_is_one_clear_error(bare: tuple[Desk, Desk]) -> None:
    owner, role = bare
    with pytest.raises(SinkRefused, match="permission denied for database"):
        Driver(role.append()).start()
    grant(owner, role, DATABASE_RIGHTS, f"DATABASE {role.user}")
    with pytest.raises(SinkRefused, match="permission denied for schema"):
        Driver(role.append()).start()
    granted(owner, role)
    owner.query("CREATE TABLE rows (key text, at bigint, value text)")
    driver = Driver(role.append()).start()
    with pytest.raises(SinkRefused, match="permission denied for table rows"):
        driver.write(0, ("a", 1, "x"))
    grant(owner, role, APPEND_RIGHTS, "TABLE rows")
    assert driver.write(0, ("a", 1, "x")) is Decision.WRITE


@pytest.mark.parametrize("name", ['"; DROP TABLE x; --', "a.b", "SELECT", "ü 😀", "%s {x} $1"])
def test_names_are_quoted_whatever_they_are(database: Database, name: str) -> None:
    desk = Desk(database, schema=f"{secrets.token_hex(3)}{name}")
    schema = StructType([*SCHEMA.fields[:2], StructField(name, StringType())])
    types = TYPES.set(2, TYPES.field(2).with_name(name))
    driver = Driver(desk.append(table=name), schema=schema, types=types).start()
    assert driver.write(0, ("a", 1, "x")) is Decision.WRITE
    column = table = sql.Identifier(name)
    assert desk.query(sql.SQL("SELECT {} FROM {}").format(column, table).as_string()) == [("x",)]
