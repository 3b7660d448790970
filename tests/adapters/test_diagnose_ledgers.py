"""`diagnose` asks the ledger of a PostgreSQL table that a run record names, or is not safe."""

import secrets
import socket
import struct
import threading
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from tests.adapters.test_inspect_ledgers import checkpoint
from tests.commands import holdfast
from tests.diagnosing import codes, diagnosed
from tests.looking import evidence

from holdfast.examples.database import Database
from holdfast.model.batch import LedgerKey, Writer
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Diagnosis, Judgement
from holdfast.model.ids import Epoch, Generation, JobName, OutputName
from holdfast.model.json import Json
from holdfast.sinks.postgres.ledger import PostgresLedger

LIFE = Writer(job=JobName("c"), generation=Generation(1), epoch=Epoch(3), location="/base/c")
KEY = LedgerKey(job=LIFE.job, generation=LIFE.generation, output=OutputName("gold"))


class Served:
    """A table in a schema whose name has a dot, with the ledger of a job."""

    def __init__(self, database: Database) -> None:
        self.server = database.connection
        self.schema = f"a.{secrets.token_hex(4)}"
        self._table = sql.Identifier(self.schema, "rows")
        with psycopg.connect(self.server, autocommit=True) as connection:
            named = sql.Identifier(self.schema)
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(named))
            connection.execute(sql.SQL("CREATE TABLE {} (id bigint)").format(self._table))
            ledger = PostgresLedger(self.schema, "rows", KEY)
            ledger.create(connection)
            ledger.fence(connection, LIFE, again=False)

    def stand(self, batch: int) -> None:
        """Let the ledger end at a batch."""
        update = sql.SQL("UPDATE {} SET batch = {}, digest = 'x'")
        with psycopg.connect(self.server, autocommit=True) as connection:
            ledger = sql.Identifier(self.schema, "holdfast_ledger")
            connection.execute(update.format(ledger, sql.Literal(batch)))

    def drop_table(self) -> None:
        """Drop the table, and not its ledger."""
        with psycopg.connect(self.server, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP TABLE {}").format(self._table))

    def write(self, **more: str) -> Json:
        """What a run record says of the output."""
        said = {"server": self.server, "schema": self.schema} | more
        return {"kind": "PostgresAppend", "name": "gold", "path": f"{self.schema}.rows", **said}


@pytest.fixture
def served(database: Database) -> Served:
    """A table of its own."""
    return Served(database)


def _diagnosed(tmp_path: Path, write: Json) -> Diagnosis:
    location = checkpoint(tmp_path, job="c", generation=1, writes=[write])
    return diagnosed(location)


def _unread(told: Diagnosis) -> str:
    (found,) = (one for one in told.not_assessed if "whether the sink contains" in one.question)
    return found.reason


def test_a_ledger_in_step_is_safe(tmp_path: Path, served: Served) -> None:
    served.stand(2)
    told = _diagnosed(tmp_path, served.write())
    assert (told.judgement, codes(told) & {Code.SINK_BEHIND}) == (Judgement.SAFE, set())
    assert not any("whether the sink contains" in one.question for one in told.not_assessed)


@pytest.mark.parametrize("lost", ["set back", "dropped"])
def test_a_ledger_that_lacks_batches_is_not_safe(tmp_path: Path, served: Served, lost: str) -> None:
    served.stand(1 if lost == "set back" else 2)
    if lost == "dropped":
        served.drop_table()
    told = _diagnosed(tmp_path, served.write())
    assert (told.judgement, codes(told) & {Code.SINK_BEHIND}) == (
        Judgement.UNSAFE,
        {Code.SINK_BEHIND},
    )


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"server": ""}, "the run records do not name the server of the table"),
        ({"server": "host=127.0.0.1 port=1 dbname=d user=u"}, "expected to reach PostgreSQL at"),
        ({"kind": "JdbcAppend"}, "a JDBC ledger can only be read through Spark"),
    ],
)
def test_a_ledger_that_is_not_read_is_named_and_never_safe(
    tmp_path: Path, served: Served, more: dict[str, str], reason: str
) -> None:
    told = _diagnosed(tmp_path, served.write(**more))
    assert told.judgement is Judgement.UNKNOWN
    assert reason in _unread(told)


def test_the_command_says_so(tmp_path: Path, served: Served) -> None:
    write = served.write(kind="JdbcAppend")
    location = checkpoint(tmp_path, job="c", generation=1, writes=[write])
    done = holdfast("diagnose", str(location))
    assert done.returncode == 1
    assert "safe" not in done.stdout.splitlines()[0]
    assert "a JDBC ledger" in done.stdout


def test_inspect_asks_no_database(tmp_path: Path) -> None:
    write: Json = {
        "kind": "PostgresAppend",
        "name": "gold",
        "path": "s.t",
        "server": "host=nowhere",
    }
    found = evidence(checkpoint(tmp_path, job="c", generation=1, writes=[write])).ledgers
    assert isinstance(found[0].batch, Unknown)
    assert "was not queried" in found[0].batch.reason


class ClearTextServer:
    """A server that asks whoever connects for the password in clear text, and keeps the answer."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.answer = b""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def connection(self) -> str:
        """How it is reached."""
        port = self._listening.getsockname()[1]
        return f"host=127.0.0.1 port={port} dbname=d user=u sslmode=disable gssencmode=disable"

    def close(self) -> None:
        """End it."""
        self._thread.join(timeout=20)
        self._listening.close()

    def _serve(self) -> None:
        peer, _ = self._listening.accept()
        with peer:
            peer.settimeout(20)
            peer.recv(1024)
            peer.sendall(b"R" + struct.pack("!ii", 8, 3))
            self.answer = peer.recv(1024)


def test_a_server_that_a_record_names_gets_no_password_in_clear_text(
    tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "not-for-strangers")
    stranger = ClearTextServer()
    told = _diagnosed(tmp_path, served.write(server=stranger.connection))
    stranger.close()
    assert told.judgement is Judgement.UNKNOWN
    assert stranger.answer == b""
