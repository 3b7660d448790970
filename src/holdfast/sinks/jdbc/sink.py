"""The JDBC sinks, append and upsert: Spark stages, one transaction of the driver moves.

    1  look at the ledger                 skip what is there, stop where a newer driver was
    2  look at the table and its columns  a mismatch is found before a row is sent
    3  make a staging table               of types that take every value, named by epoch and batch
    4  Spark's JDBC writer fills it       each task commits on its own
    5  begin; lock the table and the      a table that was altered since 2 makes the batch run again
       ledger's row; decide and look again
    6  count and check the staged rows    a task that committed and was run again is found here
    7  move them, and count both sides    one that commits only now is found here, and so is a row
                                          that the table did not take
    8  note the batch, commit             readers see the batch whole, with the ledger

A driver that dies in 1 to 7 leaves a staging table that the next start drops, and the ledger at
the batch before. One that dies in 8 leaves all of it or nothing, and the ledger tells which.

A driver that hangs in 5 to 8 holds the lock of the ledger's row. The one that takes over has a
higher epoch; it waits a little, then ends the older one's session, which rolls it back.

A task of Spark's writer can be run again after its rows were committed, and one that Spark gave up
can commit at any moment. Then there are more rows staged than the plan gave; the batch fails, runs
again, and is staged again. Rows are only ever added to a staging table: if there are as many after
the move as the plan gave, the move saw those and no others.
"""

import contextlib
import hashlib
import secrets
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from holdfast.errors import HoldfastError, SchemaMismatch, SinkRefused, SinkUnavailable
from holdfast.model.batch import Batch, LastWritten, LedgerKey, Writer
from holdfast.model.definition import JdbcAppend, JdbcUpsert
from holdfast.model.fact import Unknown
from holdfast.model.ids import Epoch
from holdfast.sinks import contract, observed_count
from holdfast.sinks.contract import Decision
from holdfast.sinks.jdbc import columns as table_columns
from holdfast.sinks.jdbc import connection as connections
from holdfast.sinks.jdbc.address import Address
from holdfast.sinks.jdbc.columns import StagedColumn
from holdfast.sinks.jdbc.connection import Connection
from holdfast.sinks.jdbc.dialect import Dialect, TableName
from holdfast.sinks.jdbc.ledger import HISTORY, LEDGER, JdbcLedger
from holdfast.sinks.jdbc.mariadb import MariaDb
from holdfast.sinks.jdbc.postgresql import PostgreSql
from holdfast.sinks.jdbc.rows import StagedRows, keep_newest
from holdfast.sinks.jdbc.session import Session

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NO_JVM = Unknown(reason="a ledger behind JDBC is read through Spark, which has not started yet")
_FENCE_SECONDS = 3
_LOCK_SECONDS = 30
_ROWS_SECONDS = 300
_ATTEMPTS = 5
_SWEEP_SECONDS = 10


class JdbcSink:
    """Writes each batch to a table in one transaction with its ledger."""

    def __init__(self, sink: JdbcAppend | JdbcUpsert, key: LedgerKey) -> None:
        self._sink = sink
        self._address = Address.of(sink)
        self._dialect = _choose_dialect(self._address.kind)
        self._words = self._dialect.words
        self._schema = (sink.schema,) if sink.schema else ()
        self._place = TableName(schema=sink.schema, table=sink.table)
        self._table = self._words.quoted(*self._schema, sink.table)
        self._ledger = JdbcLedger(self._words, sink.schema, self._table, key)
        named = f"{key.job}/{key.generation}/{key.output}"
        self._prefix = _digest(named)
        self._tag = _digest(f"{sink.schema or ''}/{named}")  # sessions belong to no schema
        self._session = Session(self._address, self._dialect, self._tag)
        self._rows = StagedRows(sink, self._dialect, self._table)
        self._fenced: Epoch | None = None

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from the ledger beside it; not known without Spark."""
        from pyspark import SparkContext

        # Not the active session, which each thread has or has not.
        context = SparkContext._active_spark_context  # noqa: SLF001  PySpark has no name for it
        if context is None:
            return _NO_JVM
        with self._opened(context) as opened:
            there = opened.columns(self._table) is not None
            return self._ledger.last_written(opened, there=there)

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        with self._opened(spark) as opened:
            if opened.columns(self._table) is not None:
                self._fit(opened, schema)

    def prepare(self, life: Writer, schema: "StructType", spark: "SparkSession") -> None:
        """Make what is missing, check the columns, fence older drivers, drop what they left."""
        self._session.close()
        with self._explained(), self._naming_holders(spark):
            connection = self._session.open(spark, life.epoch)
            if connection.columns(self._table) is None:
                self._forget(connection, life)
                self._create(connection, schema)
            self._look(connection, schema)
            self._ledger.create(connection)
            for table in (LEDGER, HISTORY):
                self._require_durable(
                    connection, TableName(schema=self._sink.schema, table=table), ledger=True
                )
            self._fence(connection, life)
            self._sweep(connection, life.epoch)

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Write the rows and the ledger in one transaction, or skip what is there."""
        spark, epoch = rows.sparkSession, batch.life.epoch
        with self._explained(), self._naming_holders(spark):
            connection = self._session.open(spark, epoch)
            if self._decide(connection, batch, lock=False) is Decision.SKIP:
                return Decision.SKIP
            columns = self._look(connection, rows.schema)
            staging = f"{self._prefix}{epoch}_{batch.id}_{secrets.token_hex(4)}"
            quoted = self._words.quoted(*self._schema, staging)
            defined = ", ".join(f"{self._words.quoted(c.found.name)} {c.staged}" for c in columns)
            connection.execute(f"CREATE TABLE {quoted} ({defined}){self._words.storage}")
            try:
                chosen = keep_newest(self._sink, rows)
                count = self._stage(quoted, chosen.selectExpr(*(c.expression for c in columns)))
                # Staging may take longer than a server or a proxy keeps an idle connection.
                connection = self._session.open(spark, epoch)
                return self._moved(connection, batch, quoted, columns, count)
            finally:
                self._clean_up(spark, epoch, quoted)

    def _stage(self, staging: str, rows: "DataFrame") -> int:
        """Have Spark's JDBC writer fill the staging table; how many rows the plan gave."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        seen = Observation()
        (
            rows.observe(seen, F.count(F.lit(1)).alias("rows"))
            .write.format("jdbc")
            .options(**self._address.settings())
            .option("url", self._address.for_spark)
            .option("dbtable", staging)
            .mode("append")
            .save()
        )
        return observed_count.await_count(seen, self._sink.table)

    def _moved(
        self,
        connection: Connection,
        batch: Batch,
        staging: str,
        columns: Sequence[StagedColumn],
        count: int,
    ) -> Decision:
        epoch = batch.life.epoch
        try:
            with self._session.transaction(connection, epoch, _LOCK_SECONDS):
                self._dialect.hold(connection, self._place)
                if self._decide(connection, batch, lock=True) is Decision.SKIP:
                    return Decision.SKIP
                self._require_same(connection, batch, columns)
                self._require_count(connection, batch, staging, count)
                self._require_values(connection, staging, columns)
                # Other writers of the table may hold rows of it for a while.
                self._dialect.limit_locks(connection, _ROWS_SECONDS)
                self._move(connection, staging, columns, count)
                self._dialect.limit_locks(connection, _LOCK_SECONDS)
                self._require_count(connection, batch, staging, count)
                self._ledger.record(connection, batch, count)
        except (Py4JJavaError, SinkRefused) as error:
            if not isinstance(error, Py4JJavaError) or not connections.is_locked(error):
                # A late task may be why: its rows have the keys of others.
                with self._session.transaction(connection, epoch, _LOCK_SECONDS):
                    self._require_count(connection, batch, staging, count)
            raise
        return Decision.WRITE

    def _move(
        self, connection: Connection, staging: str, columns: Sequence[StagedColumn], count: int
    ) -> None:
        """Move the staged rows; raise unless the table took every one that it should."""
        statements = self._statements(connection, staging, columns)
        moved = sum(connection.changed(statement) for statement in statements)
        self._rows.require_moved(connection, staging, columns, moved=moved, count=count)

    def _statements(
        self, connection: Connection, staging: str, columns: Sequence[StagedColumn]
    ) -> list[str]:
        return self._rows.statements(connection, staging, columns)

    def _require_values(
        self, connection: Connection, staging: str, columns: Sequence[StagedColumn]
    ) -> None:
        self._rows.require_values(connection, staging, columns)

    def _require_count(
        self, connection: Connection, batch: Batch, staging: str, count: int
    ) -> None:
        """Raise unless as many rows are staged as the plan gave."""
        counted = f"SELECT COUNT(*) FROM {staging}{self._words.latest}"
        found = connection.execute(counted)[0][0]
        if found != count:
            raise SinkUnavailable(
                f"expected {count} staged rows of batch {batch.id} for `{self._sink.table}`, found"
                f" {found}: a task of Spark's writer was run twice",
                hint="let the batch run again; nothing of it was written",
            )

    def _require_same(
        self, connection: Connection, batch: Batch, columns: Sequence[StagedColumn]
    ) -> None:
        """Raise unless the table, now locked, is as it was when the rows were staged."""
        self._require_durable(connection, self._place)
        now = {column.name: column for column in self._dialect.look(connection, self._place)}
        if any(now.get(column.found.name) != column.found for column in columns):
            raise contract.make_altered_error(batch, self._sink.table)
        if isinstance(self._sink, JdbcUpsert):
            self._dialect.require_key(connection, self._place, self._sink.keys, columns)

    def _decide(self, connection: Connection, batch: Batch, *, lock: bool) -> Decision:
        standing = self._ledger.standing(connection, lock=lock)
        return contract.decide(
            batch, standing, lambda earlier: self._ledger.recall(connection, earlier)
        )

    def _fence(self, connection: Connection, life: Writer) -> None:
        """Put this driver's epoch; end older drivers that hang in their transactions."""
        self._ledger.begin(connection)
        for left in reversed(range(_ATTEMPTS)):
            try:
                with self._session.transaction(connection, life.epoch, _FENCE_SECONDS):
                    self._ledger.fence(connection, life, again=self._fenced == life.epoch)
            except Py4JJavaError as error:
                if not connections.is_locked(error):
                    raise
                # Read without the lock: only who is older than this driver is ended.
                standing = self._ledger.standing(connection, lock=False)
                if standing.epoch > life.epoch:
                    raise contract.make_fenced_error(life, standing.epoch) from None
                self._dialect.end_older(connection, self._tag, standing.epoch, life.epoch)
                if not left:
                    raise
            else:
                self._fenced = life.epoch
                return

    @contextlib.contextmanager
    def _opened(self, spark: "SparkSession | SparkContext") -> Iterator[Connection]:
        """Give a connection that only reads."""
        with self._explained(), contextlib.closing(Connection(spark, self._address)) as opened:
            self._dialect.limit_locks(opened, _LOCK_SECONDS, local=False)
            yield opened

    def _explained(self) -> contextlib.AbstractContextManager[None]:
        return connections.explained(self._address, self._sink.table)

    @contextlib.contextmanager
    def _naming_holders(self, spark: "SparkSession") -> Iterator[None]:
        """Turn a lock that was not got in time into an error that names who may hold it."""
        try:
            yield
        except Py4JJavaError as error:
            if not connections.is_locked(error):
                raise
            said, holders = connections.describe(error), dict[str, None]()
            with contextlib.closing(Connection(spark, self._address)) as other:
                for table in (self._ledger.name, self._table):
                    holders |= dict.fromkeys(self._dialect.name_holders(other, table))
            table, cure = self._sink.table, self._words.cure
            raise contract.make_blocked_error(table, said, list(holders), cure) from None

    def _forget(self, connection: Connection, life: Writer) -> None:
        """Forget the batches of a table that is gone."""
        if self._ledger.exists(connection):
            with self._session.transaction(connection, life.epoch, _LOCK_SECONDS):
                self._ledger.forget(connection, life, again=self._fenced == life.epoch)

    def _create(self, connection: Connection, schema: "StructType") -> None:
        """Make the table for an append; an upsert needs a key that holdfast cannot choose."""
        if isinstance(self._sink, JdbcUpsert):
            keys = ", ".join(self._sink.keys)
            raise SinkRefused(
                f"expected the table `{self._sink.table}` to upsert into, found none",
                hint=f"create it with a primary key or unique index on ({keys})",
            )
        made = table_columns.define(schema, self._sink.table, self._words.types)
        defined = ", ".join(f"{self._words.quoted(name)} {kind}" for name, kind in made)
        # In one statement: a driver that dies after it leaves a table that is as it should be.
        create = f"CREATE TABLE IF NOT EXISTS {self._table} ({defined}){self._words.storage}"
        connection.execute(create)

    def _look(self, connection: Connection, schema: "StructType") -> tuple[StagedColumn, ...]:
        """Return how the rows are written to the table as it is now; raises if it is unfit."""
        self._require_durable(connection, self._place)
        columns = self._fit(connection, schema)
        if isinstance(self._sink, JdbcUpsert):
            self._dialect.require_key(connection, self._place, self._sink.keys, columns)
        return columns

    def _fit(self, connection: Connection, schema: "StructType") -> tuple[StagedColumn, ...]:
        """How the rows are written; raises where the table has no place for them."""
        found = self._dialect.look(connection, self._place)
        if not found:
            raise SinkRefused(
                f"expected the table `{self._sink.table}`, found none any more",
                hint=f"restore `{self._sink.table}`, then start again",
            )
        wanted = self._sink.keys if isinstance(self._sink, JdbcUpsert) else ()
        for key in wanted:
            if key not in schema.names:
                raise SchemaMismatch(
                    f"expected the key column `{key}` among the rows for `{self._sink.table}`,"
                    f" found {', '.join(f'`{n}`' for n in schema.names)}",
                    hint="name columns of the job's result as `keys`",
                )
        return table_columns.fit(schema, found, self._sink.table, self._words.types)

    def _require_durable(
        self, connection: Connection, place: TableName, *, ledger: bool = False
    ) -> None:
        """A table that cannot be rolled back keeps rows of which the ledger knows nothing."""
        refusal = self._dialect.check(connection, place, ledger=ledger)
        if refusal is not None:
            raise refusal

    def _sweep(self, connection: Connection, up_to: Epoch) -> None:
        """Drop what drivers up to an epoch left behind; nobody reads it any more.

        A task that Spark gave up, on an executor that hangs, may have its transaction open for
        ever: its table, and what is left after a while, is for the next start.
        """
        ends = time.monotonic() + _SWEEP_SECONDS
        left = connection.tables(self._sink.schema, self._prefix)
        for name in left:
            epoch = name.removeprefix(self._prefix).partition("_")[0]
            if epoch.isdecimal() and int(epoch) <= up_to and time.monotonic() < ends:
                with contextlib.suppress(Py4JJavaError):
                    self._dialect.drop(connection, self._words.quoted(*self._schema, name))

    def _clean_up(self, spark: "SparkSession", epoch: Epoch, staging: str) -> None:
        """Drop the staging table of a batch; one that is still in use is for the next start."""
        with contextlib.suppress(Py4JJavaError, HoldfastError):
            self._dialect.drop(self._session.open(spark, epoch), staging)


def _digest(name: str) -> str:
    return f"hf_{hashlib.sha256(name.encode()).hexdigest()[:12]}_"


def _choose_dialect(kind: str) -> Dialect:
    """Return the dialect of a database by its name in a JDBC address."""
    match kind:
        case "postgresql":
            return PostgreSql()
        case "mariadb":
            return MariaDb()
        case _:
            raise SinkRefused(
                f"expected a database that is tested, PostgreSQL or MariaDB, found `{kind}`",
                hint="write to PostgreSQL or MariaDB, or to a Delta table",
            )
