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
import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from holdfast.errors import SchemaMismatch, SinkRefused, SinkUnavailable
from holdfast.model.batch import Batch, LastWritten, LedgerKey, Writer
from holdfast.model.definition import JdbcAppend, JdbcUpsert
from holdfast.model.fact import Unknown
from holdfast.model.ids import Epoch
from holdfast.sinks import contract
from holdfast.sinks.contract import Decision
from holdfast.sinks.jdbc import columns as table_columns
from holdfast.sinks.jdbc import connection as connections
from holdfast.sinks.jdbc.address import Address
from holdfast.sinks.jdbc.columns import Column, Kind
from holdfast.sinks.jdbc.connection import Connection
from holdfast.sinks.jdbc.dialect import Dialect, Place, Upsert
from holdfast.sinks.jdbc.ledger import HISTORY, LEDGER, Ledger
from holdfast.sinks.jdbc.mariadb import MariaDb
from holdfast.sinks.jdbc.postgresql import PostgreSql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NO_JVM = Unknown(reason="a ledger behind JDBC is read through Spark, which has not started yet")
_LOCK_SECONDS = 3
_DROP_SECONDS = 1
_ATTEMPTS = 5
_TIMES = (Kind.DATE, Kind.MOMENT, Kind.LOCAL)


class JdbcSink:
    """Writes each batch to a table in one transaction with its ledger."""

    def __init__(self, sink: JdbcAppend | JdbcUpsert, key: LedgerKey) -> None:
        self._sink = sink
        self._address = Address.of(sink)
        self._dialect = _dialect_of(self._address.kind)
        self._words = self._dialect.words
        self._schema = (sink.schema,) if sink.schema else ()
        self._place = Place(schema=sink.schema, table=sink.table)
        self._table = self._words.quoted(*self._schema, sink.table)
        self._ledger = Ledger(self._words, sink.schema, self._table, key)
        named = f"{key.job}/{key.generation}/{key.output}"
        self._prefix = _digest(named)
        self._tag = _digest(f"{sink.schema or ''}/{named}")  # sessions belong to no schema
        self._connection: Connection | None = None
        self._fenced: Epoch | None = None

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from the ledger beside it; not known without Spark."""
        from pyspark.sql import SparkSession

        spark = SparkSession.getActiveSession()
        if spark is None:
            return _NO_JVM
        with (
            contextlib.closing(Connection(spark, self._address)) as connection,
            connection.explained(self._sink.table),
        ):
            there = connection.columns(self._table) is not None
            return self._ledger.last_written(connection, there=there)

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        with (
            contextlib.closing(Connection(spark, self._address)) as connection,
            connection.explained(self._sink.table),
        ):
            if connection.columns(self._table) is not None:
                self._fit(connection, schema)

    def prepare(self, life: Writer, schema: "StructType", spark: "SparkSession") -> None:
        """Make what is missing, check the columns, fence older drivers, drop what they left."""
        self._close()
        connection = self._connected(spark, life.epoch)
        with connection.explained(self._sink.table):
            if connection.columns(self._table) is None:
                self._ledger.forget(connection, life, again=self._fenced == life.epoch)
                self._create(connection, schema)
            self._look(connection, schema)
            self._ledger.create(connection)
            for table in (LEDGER, HISTORY):
                self._require_durable(
                    connection, Place(schema=self._sink.schema, table=table), ledger=True
                )
            self._fence(connection, life)
            self._sweep(connection, life.epoch)

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Write the rows and the ledger in one transaction, or skip what is there."""
        connection = self._connected(rows.sparkSession, batch.life.epoch)
        with connection.explained(self._sink.table):
            if self._decide(connection, batch, lock=False) is Decision.SKIP:
                return Decision.SKIP
            columns = self._look(connection, rows.schema)
            staging = f"{self._prefix}{batch.life.epoch}_{batch.id}_{secrets.token_hex(4)}"
            quoted = self._words.quoted(*self._schema, staging)
            defined = ", ".join(f"{self._quoted(c)} {c.staged}" for c in columns)
            connection.execute(f"CREATE TABLE {quoted} ({defined}){self._words.storage}")
            try:
                chosen = self._one_a_key(rows)
                count = self._stage(quoted, chosen.selectExpr(*(c.expression for c in columns)))
                return self._moved(connection, batch, quoted, columns, count)
            except Py4JJavaError as error:
                if not connections.is_locked(error):
                    raise
                raise self._blocked(connection) from None  # the cause may hold the login
            finally:
                self._drop(connection, [quoted])

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
        return int(seen.get["rows"])

    def _moved(
        self,
        connection: Connection,
        batch: Batch,
        staging: str,
        columns: Sequence[Column],
        count: int,
    ) -> Decision:
        try:
            with connection.transaction():
                self._dialect.hold(connection, self._place)
                if self._decide(connection, batch, lock=True) is Decision.SKIP:
                    return Decision.SKIP
                self._require_same(connection, batch, columns)
                self._require_count(connection, batch, staging, count)
                self._require_values(connection, staging, columns)
                self._move(connection, staging, columns, count)
                self._require_count(connection, batch, staging, count)
                self._ledger.record(connection, batch, count)
        except (Py4JJavaError, SinkRefused) as error:
            if not isinstance(error, Py4JJavaError) or not connections.is_locked(error):
                # A late task may be why: its rows have the keys of others.
                self._require_count(connection, batch, staging, count)
            raise
        return Decision.WRITE

    def _move(
        self, connection: Connection, staging: str, columns: Sequence[Column], count: int
    ) -> None:
        """Move the staged rows; raise unless the table took every one that it should."""
        moved = sum(
            connection.changed(statement)
            for statement in self._statements(connection, staging, columns)
        )
        if isinstance(self._sink, JdbcUpsert) and moved < count:
            query = self._dialect.lost(self._upsert(self._sink, staging, columns))
            moved = count - int(connection.execute(query)[0][0] or 0)
        if moved < count:
            raise SinkRefused(
                f"expected `{self._sink.table}` to take all {count} rows, but it took {moved}: a"
                " trigger kept the others out or sent them elsewhere",
                hint=f"drop the trigger of `{self._sink.table}`; nothing of the batch was written",
            )

    def _require_count(
        self, connection: Connection, batch: Batch, staging: str, count: int
    ) -> None:
        """Raise unless as many rows are staged as the plan gave."""
        counted = f"SELECT COUNT(*) FROM {staging}{self._words.latest}"
        found = connection.execute(counted, locks=True)[0][0]
        if found != count:
            raise SinkUnavailable(
                f"expected {count} staged rows of batch {batch.id} for `{self._sink.table}`, found"
                f" {found}: a task of Spark's writer was run twice",
                hint="let the batch run again; nothing of it was written",
            )

    def _require_same(
        self, connection: Connection, batch: Batch, columns: Sequence[Column]
    ) -> None:
        """Raise unless the table, now locked, is as it was when the rows were staged."""
        self._require_durable(connection, self._place)
        now = {column.name: column for column in self._dialect.look(connection, self._place)}
        if any(now.get(column.found.name) != column.found for column in columns):
            raise contract.altered(batch, self._sink.table)
        if isinstance(self._sink, JdbcUpsert):
            self._dialect.require_key(connection, self._place, self._sink.keys, columns)

    def _require_values(
        self, connection: Connection, staging: str, columns: Sequence[Column]
    ) -> None:
        """Raise for what the database would change without an error: blanks cut, nulls replaced."""
        checks = [check for column in columns for check in self._checks(column)]
        if not checks:
            return
        counted = ", ".join(f"MAX(CASE WHEN {check} THEN 1 ELSE 0 END)" for check, _ in checks)
        found = connection.execute(f"SELECT {counted} FROM {staging}")[0]
        for hit, (_, said) in zip(found, checks, strict=True):
            if hit:
                raise SinkRefused(
                    f"expected rows that fit `{self._sink.table}`, found {said}",
                    hint="mend or drop the value in the job's function; nothing of the batch was"
                    " written",
                )

    def _checks(self, column: Column) -> Iterator[tuple[str, str]]:
        """Yield the conditions under which a staged value would change, and what each one means."""
        found, name = column.found, self._quoted(column)
        if not found.nullable:
            yield f"{name} IS NULL", f"a null in `{found.name}`"
        if column.most is not None:
            longer = f"a text too long for `{found.name}`, which takes {column.most} characters"
            yield f"CHAR_LENGTH({name}) > {column.most}", longer
        if found.octets is not None and column.kind in (Kind.TEXT, Kind.BYTES):
            # INSERT ... SELECT of MariaDB cuts long texts and blobs even in strict mode.
            longer = f"a value too long for `{found.name}`, which takes {found.octets} bytes"
            yield f"OCTET_LENGTH({name}) > {found.octets}", longer
        if column.kind in _TIMES:
            unread = f"{name} IS NOT NULL AND {self._dialect.move(column)} IS NULL"
            yield unread, f"a date or time out of the range of `{found.name}`"

    def _statements(
        self, connection: Connection, staging: str, columns: Sequence[Column]
    ) -> list[str]:
        if isinstance(self._sink, JdbcAppend):
            names = ", ".join(self._quoted(column) for column in columns)
            values = ", ".join(self._dialect.move(column) for column in columns)
            return [f"INSERT INTO {self._table} ({names}) SELECT {values} FROM {staging}"]
        upsert = self._upsert(self._sink, staging, columns)
        if self._sink.newest is None:
            self._require_one_a_key(connection, staging, upsert.keys)
        return list(self._dialect.upsert(upsert))

    def _upsert(self, sink: JdbcUpsert, staging: str, columns: Sequence[Column]) -> Upsert:
        q = self._words.quoted
        return Upsert(
            table=self._table,
            staging=staging,
            columns=[self._quoted(column) for column in columns],
            values=[self._dialect.move(column) for column in columns],
            keys=[q(key) for key in sink.keys],
            newest=q(sink.newest) if sink.newest else None,
            newest_is_text=any(
                c.found.name == sink.newest and c.kind is Kind.TEXT for c in columns
            ),
        )

    def _one_a_key(self, rows: "DataFrame") -> "DataFrame":
        """The newest row of each key, where a column says which that is."""
        from pyspark.sql import functions as F  # noqa: N812  only where Spark runs

        if isinstance(self._sink, JdbcAppend) or self._sink.newest is None:
            return rows
        rows = _by_bytes(rows)
        quote = table_columns.quote
        whole = F.struct(*map(quote, rows.columns))
        order = F.struct(quote(self._sink.newest), whole)
        newest = F.max_by(whole, order).alias("newest")
        grouped = rows.groupBy(*map(quote, self._sink.keys)).agg(newest)
        return grouped.select("newest.*")

    def _require_one_a_key(self, connection: Connection, staging: str, keys: Sequence[str]) -> None:
        grouped = f"SELECT 1 FROM {staging} GROUP BY {', '.join(keys)} HAVING COUNT(*) > 1"
        if connection.execute(f"{grouped} LIMIT 1"):
            raise SinkRefused(
                f"expected each key once a batch for `{self._sink.table}`, found one more than"
                " once, and no column says which row is newer",
                hint='declare it: `jdbc_upsert(url, table, keys=[…], newest="event_time")`',
            )

    def _decide(self, connection: Connection, batch: Batch, *, lock: bool) -> Decision:
        standing = self._ledger.standing(connection, lock=lock)
        return contract.decide(
            batch, standing, lambda earlier: self._ledger.recall(connection, earlier)
        )

    def _fence(self, connection: Connection, life: Writer) -> None:
        """Put this driver's epoch; end older drivers that hang in their transactions."""
        self._dialect.limit_locks(connection, _LOCK_SECONDS)
        for _ in range(_ATTEMPTS):
            try:
                self._ledger.fence(connection, life, again=self._fenced == life.epoch)
            except Py4JJavaError as error:
                if not connections.is_locked(error):
                    raise
                # Read without the lock: only who is older than this driver is ended.
                standing = self._ledger.standing(connection, lock=False)
                if standing.epoch > life.epoch:
                    raise contract.fenced(life, standing.epoch) from None
                self._dialect.end_older(connection, self._tag, standing.epoch, life.epoch)
            else:
                self._dialect.limit_locks(connection, None)
                self._fenced = life.epoch
                return
        raise self._blocked(connection)

    def _blocked(self, connection: Connection) -> SinkUnavailable:
        holders = self._dialect.name_holders(connection, self._ledger.name)
        return contract.blocked(self._sink.table, holders, self._words.cure)

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

    def _look(self, connection: Connection, schema: "StructType") -> tuple[Column, ...]:
        """Return how the rows are written to the table as it is now; raises if it is unfit."""
        self._require_durable(connection, self._place)
        columns = self._fit(connection, schema)
        if isinstance(self._sink, JdbcUpsert):
            self._dialect.require_key(connection, self._place, self._sink.keys, columns)
        return columns

    def _fit(self, connection: Connection, schema: "StructType") -> tuple[Column, ...]:
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
        self, connection: Connection, place: Place, *, ledger: bool = False
    ) -> None:
        """A table that cannot be rolled back keeps rows of which the ledger knows nothing."""
        refusal = self._dialect.check(connection, place, ledger=ledger)
        if refusal is not None:
            raise refusal

    def _sweep(self, connection: Connection, up_to: Epoch) -> None:
        """Drop what drivers up to an epoch left behind; nobody reads it any more."""
        left = connection.tables(self._sink.schema, self._prefix)
        epochs = ((name, name.removeprefix(self._prefix).partition("_")[0]) for name in left)
        self._drop(
            connection,
            [
                self._words.quoted(*self._schema, name)
                for name, epoch in epochs
                if epoch.isdecimal() and int(epoch) <= up_to
            ],
        )

    def _drop(self, connection: Connection, tables: Sequence[str]) -> None:
        """Drop staging tables; one that a task still writes to is left for the next start.

        A task that Spark gave up, on an executor that hangs, may have its transaction open for
        ever.
        """
        with contextlib.suppress(Py4JJavaError):  # the connection is gone
            self._dialect.limit_locks(connection, _DROP_SECONDS)
            for table in tables:
                with contextlib.suppress(Py4JJavaError):
                    connection.execute(f"DROP TABLE {table}")
            self._dialect.limit_locks(connection, None)

    def _quoted(self, column: Column) -> str:
        return self._words.quoted(column.found.name)

    def _connected(self, spark: "SparkSession", epoch: Epoch) -> Connection:
        if self._connection is None or not self._connection.alive():
            self._close()
            self._connection = Connection(spark, self._address)
            weakref.finalize(self, self._connection.close)
            with self._connection.explained(self._sink.table):
                self._dialect.enter(self._connection, f"{self._tag}{epoch}")
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _digest(name: str) -> str:
    return f"hf_{hashlib.sha256(name.encode()).hexdigest()[:12]}_"


def _by_bytes(rows: "DataFrame") -> "DataFrame":
    """Return the rows with texts that are told apart and ordered by bytes, as the database does it.

    A collation that the query gave a column would make one key of `a` and `A`.
    """
    from pyspark.sql import functions as F  # noqa: N812  only where Spark runs
    from pyspark.sql.types import StringType

    bytewise = StringType()
    columns = {
        field.name: F.collate(table_columns.quote(field.name), bytewise.collation)
        for field in rows.schema.fields
        if isinstance(field.dataType, StringType) and field.dataType != bytewise
    }
    return rows.withColumns(columns) if columns else rows


def _dialect_of(kind: str) -> Dialect:
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
