"""The JDBC sinks, append and upsert: Spark stages, one transaction of the driver moves.

    1  look at the ledger                 skip what is there, stop where a newer driver was
    2  look at the table's columns        a mismatch is found before a row is sent
    3  make a staging table               with the columns of the table, named by epoch and batch
    4  Spark's JDBC writer fills it       each task commits on its own
    5  begin; lock the ledger's row; decide again
    6  count the staged rows              a task that committed and was run again is found here
    7  move them, note the batch, commit  readers see the batch whole, with the ledger

A driver that dies in 1 to 6 leaves a staging table that the next start drops, and the ledger at
the batch before. One that dies in 7 leaves all of it or nothing, and the ledger tells which.

A task of Spark's writer can be run again after its rows were committed. Then there are more rows
staged than the plan gave; the batch fails, runs again, and is staged anew.
"""

import contextlib
import hashlib
import secrets
import weakref
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError

from holdfast.errors import SchemaMismatch, SinkRefused, SinkUnavailable
from holdfast.model.batch import Batch, LastWritten, LedgerKey, Life, Unknown
from holdfast.model.definition import JdbcAppend, JdbcUpsert
from holdfast.model.ids import Epoch
from holdfast.sinks import contract
from holdfast.sinks.contract import Decision
from holdfast.sinks.jdbc import dialect as dialects
from holdfast.sinks.jdbc.connection import Address, Connection, Value
from holdfast.sinks.jdbc.dialect import Upsert
from holdfast.sinks.jdbc.ledger import Ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_NO_JVM = Unknown(reason="a ledger behind JDBC is read through Spark, which has not started yet")


class JdbcSink:
    """Writes each batch to a table in one transaction with its ledger."""

    def __init__(self, sink: JdbcAppend | JdbcUpsert, key: LedgerKey) -> None:
        self._sink = sink
        self._address = Address.of(sink)
        self._dialect = dialects.of(sink.url)
        self._place = (sink.schema,) if sink.schema else ()
        self._table = self._dialect.quoted(*self._place, sink.table)
        self._ledger = Ledger(self._dialect, sink.schema, self._table, key)
        named = f"{key.job}/{key.generation}/{key.output}".encode()
        self._prefix = f"hf_{hashlib.sha256(named).hexdigest()[:12]}_"
        self._connection: Connection | None = None

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from the ledger beside it; not known without Spark."""
        from pyspark.sql import SparkSession  # noqa: PLC0415  only where Spark runs

        spark = SparkSession.getActiveSession()
        if spark is None:
            return _NO_JVM
        connection = self._connected(spark)
        with connection.explained(self._sink.table):
            there = connection.columns(self._table) is not None
            return self._ledger.last_written(connection, there=there)

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        connection = self._connected(spark)
        with connection.explained(self._sink.table):
            if connection.columns(self._table) is not None:
                self._require_columns(connection, schema.names)

    def prepare(self, life: Life, schema: "StructType", spark: "SparkSession") -> None:
        """Make what is missing, check the columns, fence older drivers, drop what they left."""
        connection = self._connected(spark)
        with connection.explained(self._sink.table):
            if connection.columns(self._table) is None:
                self._ledger.forget(connection)
                self._create(connection, schema, spark)
            self._require_columns(connection, schema.names)
            self._ledger.create(connection)
            self._require_transactions(connection)
            self._require_unique(connection)
            self._ledger.fence(connection, life)
            self._sweep(connection, life.epoch)

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Write the rows and the ledger in one transaction, or skip what is there."""
        connection = self._connected(rows.sparkSession)
        with connection.explained(self._sink.table):
            if self._decide(connection, batch, lock=False) is Decision.SKIP:
                return Decision.SKIP
            names = self._require_columns(connection, rows.columns)
            staging = f"{self._prefix}{batch.life.epoch}_{batch.id}_{secrets.token_hex(4)}"
            quoted = self._dialect.quoted(*self._place, staging)
            connection.execute(
                f"CREATE TABLE {quoted} AS SELECT {self._listed(names)} FROM {self._table}"
                " WHERE 1 = 0"
            )
            try:
                count = self._stage(quoted, self._one_a_key(rows.select(*map(_column, names))))
                return self._moved(connection, batch, quoted, names, count)
            finally:
                with contextlib.suppress(Py4JJavaError):  # what is left is swept another time
                    connection.execute(f"DROP TABLE {quoted}")

    def _stage(self, staging: str, rows: "DataFrame") -> int:
        """Have Spark's JDBC writer fill the staging table; how many rows the plan gave."""
        from pyspark.sql import Observation  # noqa: PLC0415  only where Spark runs
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        seen = Observation()
        (
            rows.observe(seen, F.count(F.lit(1)).alias("rows"))
            .write.format("jdbc")
            .options(**self._address.settings())
            .option("url", dialects.for_spark(self._address.url))
            .option("dbtable", staging)
            .mode("append")
            .save()
        )
        return int(seen.get["rows"])

    def _moved(
        self, connection: Connection, batch: Batch, staging: str, names: list[str], count: int
    ) -> Decision:
        with connection.transaction():
            if self._decide(connection, batch, lock=True) is Decision.SKIP:
                return Decision.SKIP
            found = connection.execute(f"SELECT COUNT(*) FROM {staging}")[0][0]
            if found != count:
                raise self._staged_twice(batch, count, found)
            for statement in self._statements(connection, staging, names):
                moved = connection.changed(statement)
                # A task that Spark gave up may commit after the count.
                if isinstance(self._sink, JdbcAppend) and moved > count:
                    raise self._staged_twice(batch, count, moved)
            self._ledger.record(connection, batch, count)
        return Decision.WRITE

    def _staged_twice(self, batch: Batch, count: int, found: Value) -> SinkUnavailable:
        return SinkUnavailable(
            f"expected {count} staged rows of batch {batch.id} for `{self._sink.table}`, found"
            f" {found}: a task of Spark's writer was run twice",
            hint="let the batch run again; nothing of it was written",
        )

    def _statements(self, connection: Connection, staging: str, names: list[str]) -> list[str]:
        listed = self._listed(names)
        if isinstance(self._sink, JdbcAppend):
            return [f"INSERT INTO {self._table} ({listed}) SELECT {listed} FROM {staging}"]
        q = self._dialect.quoted
        keys = [q(key) for key in self._sink.keys]
        if self._sink.newest is None:
            self._require_one_a_key(connection, staging, keys)
        return list(
            self._dialect.upsert(
                Upsert(
                    table=self._table,
                    staging=staging,
                    columns=[q(name) for name in names],
                    keys=keys,
                    newest=q(self._sink.newest) if self._sink.newest else None,
                )
            )
        )

    def _one_a_key(self, rows: "DataFrame") -> "DataFrame":
        """The newest row of each key, where a column says which that is."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415  only where Spark runs

        if isinstance(self._sink, JdbcAppend) or self._sink.newest is None:
            return rows
        whole = F.struct(*map(_column, rows.columns))
        order = F.struct(_column(self._sink.newest), whole)
        newest = F.max_by(whole, order).alias("newest")
        grouped = rows.groupBy(*map(_column, self._sink.keys)).agg(newest)
        return grouped.select("newest.*")

    def _require_one_a_key(self, connection: Connection, staging: str, keys: list[str]) -> None:
        grouped = f"SELECT 1 FROM {staging} GROUP BY {', '.join(keys)} HAVING COUNT(*) > 1"
        if connection.execute(grouped):
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

    def _create(self, connection: Connection, schema: "StructType", spark: "SparkSession") -> None:
        """Have Spark make the table for an append; an upsert needs a key that Spark cannot make."""
        if isinstance(self._sink, JdbcUpsert):
            keys = ", ".join(self._sink.keys)
            raise SinkRefused(
                f"expected the table `{self._sink.table}` to upsert into, found none",
                hint=f"create it with a primary key or unique index on ({keys})",
            )
        (
            spark.createDataFrame([], schema)
            .write.format("jdbc")
            .options(**self._address.settings())
            .option("url", dialects.for_spark(self._address.url))
            .option("dbtable", self._table)
            .mode("ignore")
            .save()
        )
        for field in schema.fields:
            kind = self._dialect.times.get(field.dataType.typeName())
            if kind is not None:
                column = self._dialect.quoted(field.name)
                connection.execute(f"ALTER TABLE {self._table} MODIFY COLUMN {column} {kind}")

    def _require_columns(self, connection: Connection, given: list[str]) -> list[str]:
        """The rows' columns under the names that the table has for them."""
        found = connection.columns(self._table)
        if found is None:
            raise SinkRefused(
                f"expected the table `{self._sink.table}`, found none any more",
                hint=f"restore `{self._sink.table}`, then start again",
            )
        unknown = [name for name in given if name not in found]
        if unknown:
            raise SchemaMismatch(
                f"expected columns of `{self._sink.table}`, which are"
                f" {', '.join(f'`{n}`' for n in found)}, found `{unknown[0]}`",
                hint="rename or drop the column in the job's function, or add it to the table",
            )
        wanted = self._sink.keys if isinstance(self._sink, JdbcUpsert) else ()
        for key in wanted:
            if key not in given:
                raise SchemaMismatch(
                    f"expected the key column `{key}` among the rows for `{self._sink.table}`,"
                    f" found {', '.join(f'`{n}`' for n in given)}",
                    hint="name columns of the job's result as `keys`",
                )
        return list(given)

    def _require_transactions(self, connection: Connection) -> None:
        """A table that cannot be rolled back keeps rows of which the ledger knows nothing."""
        if self._dialect.engine is None:
            return
        found = connection.execute(self._dialect.engine, self._sink.schema or "", self._sink.table)
        if found:
            raise SinkRefused(
                f"expected the table `{self._sink.table}` to be of an engine with transactions,"
                f" found {found[0][0]}",
                hint=f"ALTER TABLE {self._table} ENGINE = InnoDB",
            )

    def _require_unique(self, connection: Connection) -> None:
        """Where the database does not say so itself: an upsert needs an index on its keys."""
        if self._dialect.uniques is None or isinstance(self._sink, JdbcAppend):
            return
        found = connection.execute(self._dialect.uniques, self._sink.schema or "", self._sink.table)
        indexes: dict[Value, set[str]] = {}
        for index, column in found:
            indexes.setdefault(index, set()).add(str(column).lower())
        if {key.lower() for key in self._sink.keys} not in indexes.values():
            raise SinkRefused(
                f"expected a unique index of `{self._sink.table}` on exactly"
                f" {', '.join(f'`{key}`' for key in self._sink.keys)}, found none",
                hint=f"create it: without one, {self._table} would get each key again and again",
            )

    def _sweep(self, connection: Connection, up_to: Epoch) -> None:
        """Drop what drivers up to an epoch left behind; nobody reads it any more."""
        for name in connection.tables(self._sink.schema, self._prefix):
            epoch = name.removeprefix(self._prefix).partition("_")[0]
            if epoch.isdecimal() and int(epoch) <= up_to:
                with contextlib.suppress(Py4JJavaError):
                    connection.execute(f"DROP TABLE {self._dialect.quoted(*self._place, name)}")

    def _listed(self, names: list[str]) -> str:
        return ", ".join(self._dialect.quoted(name) for name in names)

    def _connected(self, spark: "SparkSession") -> Connection:
        if self._connection is None or not self._connection.alive():
            self._connection = Connection(spark, self._address)
            weakref.finalize(self, self._connection.close)
        return self._connection


def _column(name: str) -> str:
    """A column's name as Spark takes it, whatever characters are in it."""
    return f"`{name.replace('`', '``')}`"
