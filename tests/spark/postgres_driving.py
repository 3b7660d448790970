"""Driving `holdfast run` into PostgreSQL, with a reader that watches every batch appear whole."""

import os
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

import psycopg
from psycopg import sql
from tests.spark.driving import KEYS, ROWS, ROWS_A_BATCH, Ended, Stage, ended

from holdfast.examples.database import Database


def fresh_schema(database: Database) -> str:
    """A schema of its own for a test, in a name that has to be quoted."""
    name = f"it's \"{secrets.token_hex(4)}"
    with psycopg.connect(database.connection, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseStage(Stage):
    """A stage whose table is in a database."""

    connection: str
    schema: str
    driver_connection: str = ""
    holds: tuple[str, ...] = ()
    partitions: int = 0

    def environment(self, crash_at: str) -> dict[str, str]:
        """What the crash pipeline is told; the driver may take another way to the server."""
        mine = {
            "CRASH_DATABASE": self.driver_connection or self.connection,
            "CRASH_SCHEMA": self.schema,
            "CRASH_HOLDS": ",".join(self.holds),
            "CRASH_PARTITIONS": str(self.partitions or ""),
        }
        return Stage.environment(self, crash_at) | mine

    def run_through(self, disturb: Callable[[str], None], *options: str) -> Ended:
        """Run a driver to its end, and do something at each point where it waits."""
        driver = self.start("", *options)
        try:
            for point in self.holds:
                while not (self.home / f"held-{point}").exists():
                    if driver.poll() is not None:
                        return replace(ended(driver), code=-1)
                    time.sleep(0.02)
                disturb(point)
                (self.home / f"go-on-{point}").touch()
            return ended(driver)
        finally:
            if driver.poll() is None:
                os.killpg(driver.pid, signal.SIGKILL)
                driver.communicate()

    def query(self, text: str) -> list[tuple[object, ...]]:
        """Rows of a query, whose tables are those of this stage."""
        with psycopg.connect(self.connection, autocommit=True) as connection:
            path = sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema))
            connection.execute(path)
            return connection.execute(text.encode()).fetchall()

    def staging(self) -> list[tuple[object, ...]]:
        """The staging tables that there are."""
        return self.query(
            "SELECT relname FROM pg_class WHERE relname LIKE 'hf\\_%'"
            " AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())"
        )


def assert_rows_right(stage: DatabaseStage) -> None:
    """The table holds what an unkilled run would have written, and no staging is left."""
    newest = {k: max(range(k, ROWS, KEYS)) for k in range(KEYS)}
    match stage.sink:
        case "pg-upsert" | "pg-upsert-large":
            assert Counter(stage.query("SELECT k, id FROM rows")) == Counter(newest.items())
        case "pg-stateful":
            found = Counter(stage.query("SELECT k, id, count FROM rows"))
            assert found == Counter((k, newest[k], ROWS // KEYS) for k in newest)
        case _:
            found = Counter(stage.query("SELECT id, k, text FROM rows"))
            assert found == Counter(
                (n, n % KEYS, f'row {n} \\ "quoted" \u00e9\U0001f600') for n in range(ROWS)
            )
    assert stage.staging() == []


class Reader:
    """Looks at table and ledger again and again, each time in one snapshot."""

    def __init__(self, stage: DatabaseStage) -> None:
        self._stage = stage
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen: set[tuple[int, int]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def assert_whole_batches(self) -> None:
        """Every look saw as many rows as the ledger's batches have."""
        assert len(self.seen) > 1
        assert all(rows == (batch + 1) * ROWS_A_BATCH for rows, batch in self.seen), self.seen

    def _run(self) -> None:
        look = sql.SQL(
            "SELECT (SELECT count(*) FROM {}), (SELECT coalesce(max(batch), -1) FROM {})"
        ).format(
            sql.Identifier(self._stage.schema, "rows"),
            sql.Identifier(self._stage.schema, "holdfast_ledger"),
        )
        while not self._stop.is_set():
            try:
                with psycopg.connect(self._stage.connection, autocommit=True) as connection:
                    while not self._stop.wait(0.002):
                        rows, batch = connection.execute(look).fetchall()[0]
                        self.seen.add((rows, batch))
            except psycopg.Error:  # no table yet, or no server for a while
                self._stop.wait(0.02)
