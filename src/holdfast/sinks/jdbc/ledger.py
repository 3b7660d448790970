"""The ledger, by JDBC: the same two tables that the PostgreSQL sinks keep, in plain SQL.

    holdfast_ledger           one row a job, generation and output: where the sink stands; here
                              `tables` is the name of the job's table
    holdfast_ledger_history   the last batches, for those that come again

The row is locked by every transaction that writes a batch, and by every driver that starts: one
waits for the other, and who comes second sees what the first left.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

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
from holdfast.sinks.jdbc import connection as connections
from holdfast.sinks.jdbc.connection import Connection, Value
from holdfast.sinks.jdbc.dialect import Words

if TYPE_CHECKING:
    from holdfast.model.json import Json

KEPT = 100
LEDGER, HISTORY = "holdfast_ledger", "holdfast_ledger_history"
_NO_DIGEST = Unknown(reason="the ledger has no digest of the batch")
_NO_ROW = NothingWritten(
    epoch=Epoch(0), location=Unknown(reason="there is no ledger of the job yet")
)


class JdbcLedger:
    """One row of the ledger, and its history."""

    def __init__(self, dialect: Words, schema: str | None, table: str, key: LedgerKey) -> None:
        self._dialect = dialect
        self._table = table
        place = (schema,) if schema else ()
        self._ledger = dialect.quoted(*place, LEDGER)
        self._history = dialect.quoted(*place, HISTORY)
        self.name = self._ledger
        self._key: tuple[str | int, ...] = (key.job, key.generation, key.output)
        q = dialect.quoted
        self._ours = f"WHERE {q('job')} = ? AND {q('generation')} = ? AND {q('output')} = ?"

    def create(self, connection: Connection) -> None:
        """Make the tables that are missing."""
        for table, statement in ((self._ledger, self._create), (self._history, self._create_past)):
            if connection.columns(table) is not None:
                continue
            try:
                connection.execute(statement())
            except Py4JJavaError:
                if connection.columns(table) is None:  # otherwise another driver was first
                    raise

    def last_written(self, connection: Connection, *, there: bool) -> LastWritten:
        """What the sink holds for the job; `there` says whether its table is."""
        found = self.exists(connection)
        rows = connection.execute(self._look(lock=False), *self._key) if found else []
        if not rows or not int(rows[0][0] or 0):
            return _NO_ROW
        epoch, location, batch, digest, table, ranges = rows[0]
        # A table that was dropped holds nothing, whatever is noted of it.
        if batch is None or not there:
            return NothingWritten(epoch=Epoch(int(epoch or 0)), location=str(location))
        return WrittenBatch(
            epoch=Epoch(int(epoch or 0)),
            batch=BatchId(int(batch)),
            digest=_NO_DIGEST if digest is None else Digest(str(digest)),
            location=str(location),
            taken_back=table not in ("", self._table),
            offsets=_parse_offsets(ranges),
        )

    def exists(self, connection: Connection) -> bool:
        """Whether there is a ledger; not inside a transaction, which PostgreSQL would end."""
        return connection.columns(self._ledger) is not None

    def forget(self, connection: Connection, life: Writer, *, again: bool) -> None:
        """Inside a transaction, before a table is made again: it holds no batch of the old one.

        An older driver that comes late must not forget what a newer one has written since, nor make
        a table for it: raises DriverFenced. The same driver may start its query more than once.
        """
        rows = connection.execute(self._look(lock=False), *self._key)
        if rows:
            _require_newest(rows[0], life, again=again)
        q = self._dialect.quoted
        noted = ("batch", "digest", "offsets", "rows", "written_at")
        nothing = ", ".join(f"{q(name)} = NULL" for name in noted)
        older = f"{self._ours} AND {q('epoch')} <= ?"
        connection.execute(f"UPDATE {self._ledger} SET {nothing} {older}", *self._key, life.epoch)

    def fence(self, connection: Connection, life: Writer, *, again: bool) -> None:
        """Inside a transaction: put this driver's epoch, so that no other one can write any more.

        `again`: this driver has put it before.
        """
        row = connection.execute(self._look(lock=True), *self._key)[0]
        _require_newest(row, life, again=again)
        self._put_back(connection, life, row)
        q = self._dialect.quoted
        connection.execute(
            f"UPDATE {self._ledger} SET {q('epoch')} = ?, {q('location')} = ?,"
            f" {q('tables')} = ? {self._ours}",
            *(life.epoch, life.location, self._table),
            *self._key,
        )

    def _put_back(self, connection: Connection, life: Writer, row: Sequence[Value]) -> None:
        """Where a different table was accepted: forget the batches that Spark runs again.

        Nobody knows whether the table has their rows. Skipped, they would be lost for good.
        """
        pending, batch = life.gap_before, row[2]
        if pending is None or batch is None or row[4] in ("", self._table) or int(batch) < pending:
            return
        q = self._dialect.quoted
        kept = f"FROM {self._history} {self._ours} AND {q('batch')} = ?"
        noted = ("digest", "offsets", "rows")
        changes = ", ".join(f"{q(n)} = (SELECT {q(n)} {kept})" for n in noted)
        before = (*self._key, pending - 1)
        connection.execute(
            f"UPDATE {self._ledger} SET {q('batch')} = NULLIF(?, -1), {changes} {self._ours}",
            *(pending - 1, *before, *before, *before, *self._key),
        )
        later = f"DELETE FROM {self._history} {self._ours} AND {q('batch')} > ?"
        connection.execute(later, *before)

    def standing(self, connection: Connection, *, lock: bool) -> SinkPosition:
        """Where the sink stands; with `lock`, it stays so until the transaction ends."""
        rows = connection.execute(self._look(lock=lock), *self._key)
        if not rows:
            return SinkPosition(epoch=Epoch(0), batch=None)
        epoch, _, batch, _, _, ranges = rows[0]
        return SinkPosition(
            epoch=Epoch(int(epoch or 0)),
            batch=None if batch is None else BatchId(int(batch)),
            ended=ends.read_ends(_parse_offsets(ranges)),
        )

    def recall(self, connection: Connection, batch: BatchId) -> Digest | Unknown:
        """The digest that an earlier batch was written with."""
        q = self._dialect.quoted
        rows = connection.execute(
            f"SELECT {q('digest')} FROM {self._history} {self._ours} AND {q('batch')} = ?",
            *self._key,
            batch,
        )
        if not rows:
            return Unknown(reason=f"the ledger keeps only the last {KEPT} batches")
        return Digest(str(rows[0][0]))

    def record(self, connection: Connection, batch: Batch, rows: int) -> None:
        """Inside the transaction that writes the rows: note the batch."""
        q, offsets = self._dialect.quoted, json.to_canonical(batch.offsets)
        value = self._dialect.json_value
        connection.execute(
            f"DELETE FROM {self._history} {self._ours} AND ({q('batch')} <= ? OR {q('batch')} = ?)",
            *self._key,
            *(batch.id - KEPT, batch.id),
        )
        names = ("job", "generation", "output", "batch", "epoch", "digest", "offsets", "rows")
        listed = ", ".join(q(name) for name in (*names, "written_at"))
        try:
            connection.execute(
                f"INSERT INTO {self._history} ({listed})"
                f" VALUES (?, ?, ?, ?, ?, ?, {value}, ?, CURRENT_TIMESTAMP)",
                *self._key,
                *(batch.id, batch.life.epoch, batch.digest, offsets, rows),
            )
        except Py4JJavaError as error:
            if not connections.is_unfit_json(error):
                raise
            raise contract.unfit_offsets(batch, connections.describe(error)) from None
        connection.execute(
            f"UPDATE {self._ledger} SET {q('batch')} = ?, {q('digest')} = ?,"
            f" {q('offsets')} = {value}, {q('rows')} = ?, {q('written_at')} = CURRENT_TIMESTAMP"
            f" {self._ours}",
            *(batch.id, batch.digest, offsets, rows),
            *self._key,
        )

    def begin(self, connection: Connection) -> None:
        """Make the job's row where it is missing."""
        if connection.execute(self._look(lock=False), *self._key):
            return
        q = self._dialect.quoted
        names = ", ".join(
            q(n) for n in ("job", "generation", "output", "epoch", "location", "tables")
        )
        try:
            connection.execute(
                f"INSERT INTO {self._ledger} ({names}) VALUES (?, ?, ?, 0, '', '')",
                *self._key,
            )
        except Py4JJavaError:
            if not connection.execute(self._look(lock=False), *self._key):
                raise  # otherwise another driver was first

    def _look(self, *, lock: bool) -> str:
        q = self._dialect.quoted
        named = ("epoch", "location", "batch", "digest", "tables", "offsets")
        columns = ", ".join(q(name) for name in named)
        return f"SELECT {columns} FROM {self._ledger} {self._ours}{' FOR UPDATE' if lock else ''}"

    def _create(self) -> str:
        d = self._dialect
        q = d.quoted
        return (
            f"CREATE TABLE {self._ledger} ({q('job')} {d.name} NOT NULL,"
            f" {q('generation')} {d.whole} NOT NULL, {q('output')} {d.name} NOT NULL,"
            f" {q('epoch')} {d.whole} NOT NULL, {q('location')} {d.text} NOT NULL,"
            f" {q('tables')} {d.text} NOT NULL, {q('batch')} {d.whole}, {q('digest')} {d.name},"
            f" {q('offsets')} {d.json}, {q('rows')} {d.whole}, {q('written_at')} {d.time} NULL,"
            f" PRIMARY KEY ({q('job')}, {q('generation')}, {q('output')})){d.storage}"
        )

    def _create_past(self) -> str:
        d = self._dialect
        q = d.quoted
        return (
            f"CREATE TABLE {self._history} ({q('job')} {d.name} NOT NULL,"
            f" {q('generation')} {d.whole} NOT NULL, {q('output')} {d.name} NOT NULL,"
            f" {q('batch')} {d.whole} NOT NULL, {q('epoch')} {d.whole} NOT NULL,"
            f" {q('digest')} {d.name} NOT NULL, {q('offsets')} {d.json} NOT NULL,"
            f" {q('rows')} {d.whole} NOT NULL, {q('written_at')} {d.time} NOT NULL,"
            f" PRIMARY KEY ({q('job')}, {q('generation')}, {q('output')}, {q('batch')})){d.storage}"
        )


def _require_newest(row: Sequence[Value], life: Writer, *, again: bool) -> None:
    """Raise DriverFenced if the ledger's row is that of a newer driver, or of one that is as new.

    After a loss of the records two drivers can come to one epoch. The first to put it has it.
    """
    epoch, mine = Epoch(int(row[0] or 0)), again and row[1] == life.location
    if epoch > life.epoch or (epoch == life.epoch and not mine):
        raise contract.make_fenced_error(life, epoch)


def _parse_offsets(text: Value) -> "Json | Unknown":
    """Return the offsets of a batch from their text."""
    try:
        return json.parse(str(text))
    except (ValueError, RecursionError):
        return Unknown(reason="the ledger has no offsets of the batch")
