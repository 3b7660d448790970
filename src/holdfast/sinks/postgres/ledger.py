"""The ledger: two small tables in the schema that holds the job's table.

    holdfast_ledger           one row a job, generation and output: where the sink stands
      job text, generation bigint, output text                                  the key
      epoch bigint          the driver that may write
      location text         its checkpoint
      tables text           numbers of the ledger and of the job's table; see below
      batch bigint, digest text, offsets jsonb, rows bigint, written_at timestamptz
                            of the last batch, null before the first
    holdfast_ledger_history   the same of the last batches, for those that come again

The row is locked by every transaction that writes a batch, and by every driver that starts: one
waits for the other, and who comes second sees what the first left.

A table that was dropped and made anew has another number, and no longer holds what the ledger
says. If the ledger's own number changed too, both were restored from a dump, and agree.
"""

import psycopg
from psycopg import errors as pg
from psycopg import sql

from holdfast.errors import SinkBehind
from holdfast.model import ends, json
from holdfast.model.batch import (
    Batch,
    LastWritten,
    LedgerKey,
    NothingWritten,
    SinkPosition,
    Writer,
    WrittenBatch,
)
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch
from holdfast.sinks import contract

KEPT = 100
LEDGER, HISTORY = "holdfast_ledger", "holdfast_ledger_history"
_NO_OFFSETS = "the ledger has no offsets of the batch"
_NO_DIGEST = "the ledger has no digest of the batch"
_NO_ROW = NothingWritten(
    epoch=Epoch(0), location=Unknown(reason="there is no ledger of the job yet")
)
_CREATE = (
    """CREATE TABLE IF NOT EXISTS {ledger} (
        job text, generation bigint, output text,
        epoch bigint NOT NULL, location text NOT NULL, tables text NOT NULL,
        batch bigint, digest text, offsets jsonb, rows bigint, written_at timestamptz,
        PRIMARY KEY (job, generation, output))""",
    """CREATE TABLE IF NOT EXISTS {history} (
        job text, generation bigint, output text, batch bigint,
        epoch bigint NOT NULL, digest text NOT NULL, offsets jsonb NOT NULL,
        rows bigint NOT NULL, written_at timestamptz NOT NULL,
        PRIMARY KEY (job, generation, output, batch))""",
)
_OURS = "WHERE job = %(job)s AND generation = %(generation)s AND output = %(output)s"
_TABLES = "concat(to_regclass(%(ledger)s)::oid, '/', to_regclass(%(table)s)::oid)"
_LOOK = "SELECT epoch, location, batch, digest, tables, {tables}, offsets FROM {ledger} {ours}"
_LOCK = _LOOK + " FOR UPDATE"
_FIRST = """
INSERT INTO {ledger} (job, generation, output, epoch, location, tables)
VALUES (%(job)s, %(generation)s, %(output)s, 0, '', {tables})
ON CONFLICT DO NOTHING"""
_TAKE_OVER = """
UPDATE {ledger} SET epoch = %(epoch)s, location = %(location)s, tables = {tables} {ours}"""
_FORGET = (
    """UPDATE {ledger} SET batch = NULL, digest = NULL, offsets = NULL, rows = NULL,
        written_at = NULL, tables = {tables} {ours}""",
    "DELETE FROM {history} {ours}",
)
_PUT_BACK = (
    """UPDATE {ledger} SET batch = nullif(%(before)s, -1),
        digest = (SELECT digest FROM {history} {ours} AND batch = %(before)s),
        offsets = (SELECT offsets FROM {history} {ours} AND batch = %(before)s),
        rows = (SELECT rows FROM {history} {ours} AND batch = %(before)s) {ours}""",
    "DELETE FROM {history} {ours} AND batch > %(before)s",
)
_RECALL = "SELECT digest FROM {history} {ours} AND batch = %(batch)s"
_RECORD = """
WITH forgotten AS (DELETE FROM {history} {ours} AND batch <= %(oldest)s),
noted AS (
    INSERT INTO {history}
    VALUES (%(job)s, %(generation)s, %(output)s, %(batch)s, %(epoch)s, %(digest)s, %(offsets)s,
            %(rows)s, clock_timestamp())
    ON CONFLICT (job, generation, output, batch) DO UPDATE SET epoch = excluded.epoch,
        digest = excluded.digest, offsets = excluded.offsets, rows = excluded.rows,
        written_at = excluded.written_at)
UPDATE {ledger} SET batch = %(batch)s, digest = %(digest)s, offsets = %(offsets)s,
    rows = %(rows)s, written_at = clock_timestamp() {ours}"""


class PostgresLedger:
    """The ledger of one key in one schema, for one table there."""

    def __init__(self, schema: str, table: str, key: LedgerKey) -> None:
        self._names: dict[str, sql.Composable] = {
            "ledger": _escape_percent(sql.Identifier(schema, LEDGER)),
            "history": _escape_percent(sql.Identifier(schema, HISTORY)),
            "ours": sql.SQL(_OURS),
            "tables": sql.SQL(_TABLES),
        }
        self.tables = (sql.Identifier(schema, LEDGER), sql.Identifier(schema, HISTORY))
        self._values: dict[str, str | int] = {
            "job": key.job,
            "generation": key.generation,
            "output": key.output,
            "ledger": sql.Identifier(schema, LEDGER).as_string(),
            "table": sql.Identifier(schema, table).as_string(),
        }

    def create(self, connection: psycopg.Connection) -> None:
        """Make the tables where they are missing; inside a transaction."""
        if self._exists(connection):
            return
        # IF NOT EXISTS alone fails for one of two drivers that start at once.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('holdfast_ledger'))")
        for statement in _CREATE:
            self._execute(connection, statement)

    def last_written(self, connection: psycopg.Connection) -> LastWritten:
        """What the sink holds for the job."""
        row = self._row(connection, _LOOK) if self._exists(connection) else None
        if row is None:
            return _NO_ROW
        epoch, location, batch, digest, recorded, now, ranges = row
        # A table that was dropped holds nothing, whatever is noted of it.
        if batch is None or not now.partition("/")[2]:
            return NothingWritten(epoch=Epoch(epoch), location=location)
        return WrittenBatch(
            epoch=Epoch(epoch),
            batch=BatchId(batch),
            digest=Unknown(reason=_NO_DIGEST) if digest is None else Digest(digest),
            location=location,
            taken_back=_is_replaced(recorded, now),
            offsets=Unknown(reason=_NO_OFFSETS) if ranges is None else ranges,
        )

    def forget(self, connection: psycopg.Connection, life: Writer, *, again: bool) -> None:
        """Inside the transaction that makes the table: it holds no batch of the one before it.

        An older driver that comes late must not forget what a newer one has written since: raises
        DriverFenced, and the table that it made is rolled back.
        """
        row = self._row(connection, _LOCK)
        if row is not None:
            _require_newest(row, life, again=again)
        for statement in _FORGET:
            self._execute(connection, statement)

    def fence(self, connection: psycopg.Connection, life: Writer, *, again: bool) -> None:
        """Inside a transaction: put this driver's epoch, so that no other one can write.

        `again`: this driver has put it before.
        """
        who: dict[str, str | int] = {"epoch": life.epoch, "location": life.location}
        self._execute(connection, _FIRST)
        row = self._row(connection, _LOCK)
        if row is not None:
            _require_newest(row, life, again=again)
            self._put_back(connection, life, row)
        self._execute(connection, _TAKE_OVER, who)

    def _put_back(
        self, connection: psycopg.Connection, life: Writer, row: psycopg.rows.TupleRow
    ) -> None:
        """Where a replaced table was accepted: forget the batches that Spark runs again.

        Nobody knows whether the table has their rows. Skipped, they would be lost for good.
        """
        pending = life.gap_before
        if pending is None or row[2] is None or not _is_replaced(row[4], row[5]):
            return
        if row[2] >= pending:
            for statement in _PUT_BACK:
                self._execute(connection, statement, {"before": pending - 1})

    def standing(self, connection: psycopg.Connection, *, lock: bool) -> SinkPosition:
        """Where the sink stands; with `lock`, it stays so until the transaction ends."""
        row = self._row(connection, _LOCK if lock else _LOOK)
        if row is None:
            return SinkPosition(epoch=Epoch(0), batch=None)
        if _is_replaced(row[4], row[5]):
            raise SinkBehind(
                f"expected the table {self._values['table']} that job `{self._values['job']}` wrote"
                " to, found another one by its name: it was dropped or replaced while the job ran",
                hint="put the table back, then start again",
            )
        return SinkPosition(
            epoch=Epoch(row[0]),
            batch=None if row[2] is None else BatchId(row[2]),
            ended=ends.read_ends(row[6]),
        )

    def recall(self, connection: psycopg.Connection, batch: BatchId) -> Digest | Unknown:
        """The digest that an earlier batch was written with."""
        row = self._row(connection, _RECALL, {"batch": batch})
        if row is None:
            return Unknown(reason=f"the ledger keeps only the last {KEPT} batches")
        return Digest(row[0])

    def record(self, connection: psycopg.Connection, batch: Batch, rows: int) -> None:
        """Inside the transaction that writes the rows: note the batch."""
        noted: dict[str, str | int] = {
            "epoch": batch.life.epoch,
            "batch": batch.id,
            "digest": batch.digest,
            "offsets": json.to_canonical(batch.offsets),
            "rows": rows,
            "oldest": batch.id - KEPT,
        }
        try:
            self._execute(connection, _RECORD, noted)
        except pg.UntranslatableCharacter as error:
            raise contract.unfit_offsets(batch, str(error.diag.message_primary)) from None

    def _exists(self, connection: psycopg.Connection) -> bool:
        row = self._row(connection, "SELECT to_regclass(%(ledger)s) IS NOT NULL")
        return row is not None and bool(row[0])

    def _row(
        self,
        connection: psycopg.Connection,
        statement: str,
        values: dict[str, str | int] | None = None,
    ) -> psycopg.rows.TupleRow | None:
        return self._execute(connection, statement, values).fetchone()

    def _execute(
        self,
        connection: psycopg.Connection,
        statement: str,
        values: dict[str, str | int] | None = None,
    ) -> psycopg.Cursor:
        text = sql.SQL(statement).format(**self._names)
        return connection.execute(text, {**self._values, **(values or {})})


def _escape_percent(name: sql.Identifier) -> sql.SQL:
    """A name in a statement that has values: there a `%` stands for one, even inside a name."""
    return sql.SQL(name.as_string().replace("%", "%%"))


def _require_newest(row: psycopg.rows.TupleRow, life: Writer, *, again: bool) -> None:
    """Raise DriverFenced if the ledger's row is that of a newer driver, or of one that is as new.

    After a loss of the records two drivers can come to one epoch. The first to put it has it.
    """
    mine = again and row[1] == life.location
    if row[0] > life.epoch or (row[0] == life.epoch and not mine):
        raise contract.make_fenced_error(life, Epoch(row[0]))


def _is_replaced(recorded: str, now: str) -> bool:
    """Whether the table has another number than it had, in a ledger that has its own still."""
    ledger, _, table = recorded.partition("/")
    ledger_now, _, table_now = now.partition("/")
    return ledger == ledger_now and table != table_now
