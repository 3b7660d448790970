"""A PostgreSQL table with a job's ledger beside it: how every batch is written.

    1  look at the ledger                 skip what is there, stop where a newer driver was
    2  look at the table's columns        a mismatch is found before a row is sent
    3  stage the rows                     large batches: executors, each in tables of its own
    4  begin; lock table and ledger row   a driver that starts waits here, and so do we
    5  decide and look again              both answers hold until the commit; a table that was
                                          altered since 2 makes the batch run again
    6  put the rows                       COPY from the driver, or move what was staged
    7  note the batch in the ledger
    8  commit                             rows and ledger become visible together

What dies where, and what the next start finds:

    driver in 1 to 3      the ledger at the batch before; staging that its start sweeps away
    driver in 4 to 7      the same: the server rolls back when the connection ends
    driver in 8           either all of it or nothing; the batch runs again and the ledger tells
    driver after 8        the batch is in the ledger: it is skipped, its plan runs for the state
    executor in 3         Spark runs the task again, into another staging table
    server in 3           the driver or the task has an error; the batch runs again
    server after 3        staging tables that exist and are empty: the counts do not match, and the
                          batch runs again
    server in 4 to 8      as with the driver
    connection in 8       not known whether it was committed: the batch runs again, and the ledger
                          tells

A driver that hangs inside 4 to 8 holds the lock of the ledger's row. The one that takes over has
a higher epoch; it waits a little, then ends the older one's connections, which rolls them back.
Under a role that may not end them it stops, and names the session and how to end it: one that
hangs inside COPY counts as active, and no timeout of the server ends it.
"""

import contextlib
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import psycopg
import pyarrow as pa
from psycopg import errors as pg
from psycopg import sql

from holdfast.errors import SinkUnavailable
from holdfast.model.batch import Batch, LastWritten, LedgerKey, Writer
from holdfast.model.definition import PostgresAppend, PostgresUpsert
from holdfast.sinks import contract, pg_catalog
from holdfast.sinks.batch_size import BatchSize
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres import columns as table_columns
from holdfast.sinks.postgres import connect, staging
from holdfast.sinks.postgres.columns import CatalogColumn, ColumnMapping
from holdfast.sinks.postgres.connect import Server
from holdfast.sinks.postgres.encode import CopyColumn
from holdfast.sinks.postgres.ledger import PostgresLedger
from holdfast.sinks.postgres.staging import StagedTable, StagingArea

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from holdfast.model.ids import Epoch

_LOCK_MS = 3_000
_ATTEMPTS = 5
_WRITE_LOCK_MS = 30_000
_ROWS_LOCK_MS = 300_000
_DURABLE = pg_catalog.RELATIONS.format("%s")
_HOLDERS = pg_catalog.HOLDERS.format("%s")
_OLDER = pg_catalog.OLDER.format("%(prefix)s", "%(epoch)s")
_END = pg_catalog.END.format("%s")


def _do_nothing() -> None:
    """There is no connection to end."""


class RowWriter(Protocol):
    """What an append and an upsert do differently."""

    def definitions(
        self, connection: psycopg.Connection, schema: "StructType"
    ) -> list[sql.Composable]:
        """The columns and constraints of a table that is made for the rows."""
        ...

    def fitting(
        self, connection: psycopg.Connection, schema: "StructType", found: tuple[CatalogColumn, ...]
    ) -> ColumnMapping:
        """How the rows are written to the columns found; raises SchemaMismatch."""
        ...

    def put(
        self, connection: psycopg.Connection, columns: tuple[CopyColumn, ...], rows: pa.Table
    ) -> int:
        """Inside the transaction: put rows that the driver holds; returns how many."""
        ...

    def move(
        self,
        connection: psycopg.Connection,
        columns: tuple[CopyColumn, ...],
        staged: list[StagedTable],
    ) -> None:
        """Inside the transaction: move what the executors staged."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """A batch, and how its rows were going to be written when its plan began to run."""

    batch: Batch
    schema: "StructType"
    fit: ColumnMapping


class LedgeredPostgresTable:
    """One table and one ledger row, which change in one transaction."""

    def __init__(
        self,
        sink: PostgresAppend | PostgresUpsert,
        key: LedgerKey,
        rows: RowWriter,
        size: BatchSize | None,
    ) -> None:
        self.identifier = sql.Identifier(sink.schema, sink.table)
        self._sink = sink
        self._rows = rows
        self._server = Server(connection=sink.connection, password=sink.password)
        self._ledger = PostgresLedger(sink.schema, sink.table, key)
        self._prefix = staging.make_prefix(key)
        self._tag = staging.tag(sink.schema, key)
        self._size = size or BatchSize()
        self._fenced: Epoch | None = None
        self._connection: psycopg.Connection | None = None
        self._ending: Callable[[], object] = _do_nothing

    @property
    def name(self) -> str:
        """The table's name, for people."""
        return f"{self._sink.schema}.{self._sink.table}"

    def last_written(self) -> LastWritten:
        """What the sink holds for the job, from its ledger."""
        with self._server.connect("holdfast") as connection, self._explained():
            return self._ledger.last_written(connection)

    def require_fit(self, schema: "StructType") -> None:
        """Raise SchemaMismatch if rows would not fit the table, if there is one."""
        with self._server.connect("holdfast") as connection, self._explained():
            found = self._found(connection)
            if found:
                self._rows.fitting(connection, schema, found)

    def prepare(self, life: Writer, schema: "StructType") -> None:
        """Make what is missing, check the columns, fence older drivers, sweep what they left."""
        self.close()
        with self._explained():
            connection = self._connected(life)
            with self._transaction(connection, life, _WRITE_LOCK_MS):
                made = self._create(connection, schema)
                self._look(connection, schema)
                self._ledger.create(connection)
                for table in self._ledger.tables:
                    self._require_durable(connection, table)
                if made:
                    self._ledger.forget(connection, life, again=self._fenced == life.epoch)
            self._fence(connection, life)
            staging.sweep(connection, self._place(()), life.epoch)

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Write the rows and the ledger in one transaction, or skip what is there."""
        with self._explained():
            connection = self._connected(batch.life)
            if self._decide(connection, batch, lock=False) is Decision.SKIP:
                return Decision.SKIP
            fit = self._look(connection, rows.schema)
            selected = fit.select(rows)
            planned = PlannedWrite(batch=batch, schema=rows.schema, fit=fit)
            # The plan may run longer than a server or a proxy keeps a connection that is idle:
            # each transaction asks for one that answers.
            if self._size.small(batch, selected):
                return self._write_collected(planned, self._size.collected(batch, selected))
            staged = staging.stage_by_executors(self._place(fit.columns), batch, selected)
            return self._write_staged(planned, staged)

    def close(self) -> None:
        """End the connection."""
        self._connection = None
        self._ending()

    def _write_collected(self, planned: PlannedWrite, rows: pa.Table) -> Decision:
        connection = self._connected(planned.batch.life)
        with self._transaction(connection, planned.batch.life, _WRITE_LOCK_MS):
            if self._decide_locked(connection, planned) is Decision.SKIP:
                return Decision.SKIP
            count = self._rows.put(connection, planned.fit.columns, rows)
            self._ledger.record(connection, planned.batch, count)
        return Decision.WRITE

    def _write_staged(self, planned: PlannedWrite, staged: list[StagedTable]) -> Decision:
        count, batch = sum(one.rows for one in staged), planned.batch
        connection = self._connected(batch.life)
        with self._transaction(connection, batch.life, _WRITE_LOCK_MS):
            if self._decide_locked(connection, planned) is Decision.SKIP:
                return Decision.SKIP
            self._require_all(connection, batch, staged)
            self._rows.move(connection, planned.fit.columns, staged)
            self._ledger.record(connection, batch, count)
        self._size.saw(batch, count, sum(one.size for one in staged))
        with contextlib.suppress(psycopg.Error):  # what is left now is swept another time
            staging.sweep(connection, self._place(()), batch.life.epoch)
        return Decision.WRITE

    def _require_all(
        self, connection: psycopg.Connection, batch: Batch, staged: list[StagedTable]
    ) -> None:
        """Every staged table must hold what its task reported: a crash of the server empties it."""
        for one in staged:
            statement = sql.SQL("SELECT count(*) FROM {}").format(one.table)
            found = connection.execute(statement).fetchall()[0][0]
            if found != one.rows:
                raise SinkUnavailable(
                    f"expected {one.rows} staged rows of batch {batch.id} for `{self.name}`, found"
                    f" {found}: the server lost unlogged tables in a crash",
                    hint="let the batch run again; nothing of it was written",
                )

    def _decide(self, connection: psycopg.Connection, batch: Batch, *, lock: bool) -> Decision:
        standing = self._ledger.standing(connection, lock=lock)
        return contract.decide(
            batch, standing, lambda earlier: self._ledger.recall(connection, earlier)
        )

    def _decide_locked(self, connection: psycopg.Connection, planned: PlannedWrite) -> Decision:
        """Lock the table and the ledger's row, then look at both again.

        Rows of the table that other sessions hold may take longer.
        """
        self._hold(connection)
        decision = self._decide(connection, planned.batch, lock=True)
        connection.execute(f"SET LOCAL lock_timeout = {_ROWS_LOCK_MS}")
        if decision is Decision.WRITE and self._look(connection, planned.schema) != planned.fit:
            raise contract.make_altered_error(planned.batch, self.name)
        return decision

    def _hold(self, connection: psycopg.Connection) -> None:
        """Let nobody alter, rename or drop the table until the transaction ends."""
        lock = sql.SQL("LOCK TABLE ONLY {} IN ROW EXCLUSIVE MODE").format(self.identifier)
        try:
            with connection.transaction():
                connection.execute(lock)
        except (pg.UndefinedTable, pg.InvalidSchemaName):
            return  # the ledger says what that means

    def _look(self, connection: psycopg.Connection, schema: "StructType") -> ColumnMapping:
        """Return how the rows are written to the table as it is now; raises if it is unfit."""
        self._require_durable(connection, self.identifier)
        return self._rows.fitting(connection, schema, self._found(connection))

    def _blocked(self, error: pg.LockNotAvailable) -> SinkUnavailable:
        """Return the error of a lock that was not got in time; it names who may hold it."""
        found: dict[str, None] = {}
        with self._server.connect("holdfast") as connection:
            for table in (self._ledger.tables[0], self.identifier):
                holders = connection.execute(_HOLDERS, (table.as_string(),)).fetchall()
                found |= {str(holder): None for (holder,) in holders}
        return contract.make_blocked_error(
            self.name, connect.read_message(error), list(found), pg_catalog.CURE
        )

    def _require_durable(self, connection: psycopg.Connection, table: sql.Identifier) -> None:
        found = connection.execute(_DURABLE, (table.as_string(),)).fetchall()
        refusal = pg_catalog.refuse_relation(self.name, found)
        if refusal is not None:
            raise refusal

    def _fence(self, connection: psycopg.Connection, life: Writer) -> None:
        for left in reversed(range(_ATTEMPTS)):
            try:
                with self._transaction(connection, life, _LOCK_MS):
                    self._ledger.fence(connection, life, again=self._fenced == life.epoch)
            except pg.LockNotAvailable:
                # Read without the lock: only who is older than this driver is ended.
                standing = self._ledger.standing(connection, lock=False)
                if standing.epoch > life.epoch:
                    raise contract.make_fenced_error(life, standing.epoch) from None
                self._end_older(connection, life)
                if not left:
                    raise
            else:
                self._fenced = life.epoch
                return

    def _end_older(self, connection: psycopg.Connection, life: Writer) -> None:
        """End the sessions of older drivers, as far as this role may."""
        older = {"prefix": self._tag, "epoch": life.epoch}
        for session in connection.execute(_OLDER, older).fetchall():
            with contextlib.suppress(pg.InsufficientPrivilege):  # then the error names it
                connection.execute(_END, session)

    def _create(self, connection: psycopg.Connection, schema: "StructType") -> bool:
        """Create the table if there is none; says whether there was none."""
        if self._found(connection):
            return False
        # IF NOT EXISTS alone fails for one of two drivers that start at once.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('holdfast_ledger'))")
        if self._found(connection):  # the other driver may have written to it already
            return False
        body = sql.SQL(", ").join(self._rows.definitions(connection, schema))
        create = sql.SQL("CREATE TABLE IF NOT EXISTS {} ({})").format(self.identifier, body)
        connection.execute(create)
        return True

    def _found(self, connection: psycopg.Connection) -> tuple[CatalogColumn, ...]:
        return table_columns.read_columns(connection, self.identifier.as_string())

    def _place(self, columns: tuple[CopyColumn, ...]) -> StagingArea:
        return StagingArea(
            server=self._server,
            schema=self._sink.schema,
            table=self.name,
            prefix=self._prefix,
            columns=columns,
        )

    def _connected(self, life: Writer) -> psycopg.Connection:
        """Return a connection that answers."""
        if self._connection is not None and not self._connection.closed:
            with contextlib.suppress(psycopg.OperationalError):  # it went stale
                self._connection.execute("SELECT 1")
                return self._connection
        self._ending()
        self._connection = self._server.connect(self._application(life))
        # A contract without an end: the connection ends with the sink.
        self._ending = weakref.finalize(self, self._connection.close)
        return self._connection

    def _application(self, life: Writer) -> str:
        return f"{self._tag}{life.epoch}"

    def _transaction(
        self, connection: psycopg.Connection, life: Writer, lock_ms: int
    ) -> contextlib.AbstractContextManager[None]:
        return connect.transaction(connection, self._application(life), lock_ms)

    @contextlib.contextmanager
    def _explained(self) -> "Iterator[None]":
        with connect.translate_errors(self._server, self.name):
            try:
                yield
            except pg.LockNotAvailable as error:
                raise self._blocked(error) from None
