"""JDBC sinks at two real servers, as the tests need them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from tests.mariadb_server import USER, MariaDbServer

from holdfast import sinks
from holdfast.examples.database import ROLE, Database
from holdfast.model.batch import Batch, LedgerKey, Writer
from holdfast.model.definition import JdbcAppend, JdbcUpsert, Output
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.sinks.jdbc import JdbcSink

LIFE = Writer(job=JobName("job"), generation=Generation(1), epoch=Epoch(1), location="/base/job")
PASSWORD = "env:HOLDFAST_TEST_PASSWORD"
KEY = LedgerKey(job=LIFE.job, generation=LIFE.generation, output=OutputName("rows"))


class Server:
    """Either server, as the tests need it."""

    def __init__(self, url: str, user: str, server: MariaDbServer | Database) -> None:
        self.url = url
        self.user = user
        self._server = server

    @property
    def is_mariadb(self) -> bool:
        """Which of the two it is."""
        return isinstance(self._server, MariaDbServer)

    def query(self, text: str) -> list[tuple[object, ...]]:
        """Rows of a query, or none where there are none to give."""
        if isinstance(self._server, MariaDbServer):
            return self._server.query(text.replace('"', "`"))
        with psycopg.connect(self._server.connection, autocommit=True) as connection:
            done = connection.execute(text.encode())
            return done.fetchall() if done.description else []

    def administrate(self, text: str) -> None:
        """Run a statement that only MariaDB's root may run."""
        assert isinstance(self._server, MariaDbServer)
        self._server.query(text, user="admin")

    def tables(self) -> list[str]:
        """The tables there are."""
        found = self.query(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema IN ('public', 'serving') AND table_type <> 'VIEW'"
        )
        return sorted(str(name) for (name,) in found)

    def clear(self) -> None:
        """Drop every table."""
        for table in self.tables():
            self.query(sql.SQL("DROP TABLE {}").format(sql.Identifier(table)).as_string())


@contextmanager
def connect(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    """Give a server without tables, and leave none."""
    if kind == "mariadb":
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
    found.clear()
    yield found
    found.clear()


def append(server: Server) -> Output:
    """An append to the table `rows`."""
    return sinks.jdbc_append(server.url, "rows", user=server.user, password=PASSWORD)


def opened(output: Output, kind: type[JdbcSink] = JdbcSink) -> JdbcSink:
    """The sink of an output."""
    assert isinstance(output.sink, JdbcAppend | JdbcUpsert)
    return kind(output.sink, KEY)


def batch(number: int, *, epoch: int = 1, digest: str | None = None) -> Batch:
    """A batch of the job."""
    return Batch(
        life=replace(LIFE, epoch=Epoch(epoch)),
        id=BatchId(number),
        digest=Digest(digest or f"digest-{number}"),
        offsets=[{"source": "0", "end": number}],
        expected_rows=2,
    )
