"""The PostgreSQL upsert sink: one row a key, newest wins.

    key is new                                   the row is added
    key is there, newer or no `newest` column    the row is replaced
    key is there, not newer                      the row stays
    `deleted` is true, by the same rules         the row is taken out

Of several rows with one key in a batch the newest counts; of those that are as new, the greatest
by all columns, so that the outcome does not depend on how the batch was partitioned. Without a
`newest` column a key may occur once a batch. Keys need a unique index; in a table that the sink
makes, a null is a key like any other.

A table that has the `deleted` column itself keeps deleted rows, marked, and with them the memory
of how new they were. In one that has not, a row that comes later than a newer deletion is new.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
from psycopg import errors as pg
from psycopg import sql

from holdfast.errors import SchemaMismatch, SinkRefused
from holdfast.model.batch import Batch, LastWritten, LedgerKey, Life
from holdfast.model.definition import PostgresUpsert
from holdfast.sinks import pg_catalog
from holdfast.sinks.batch_size import BatchSize
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres import columns as table_columns
from holdfast.sinks.postgres import staging
from holdfast.sinks.postgres.columns import Fit, Found
from holdfast.sinks.postgres.encode import Column, Oid
from holdfast.sinks.postgres.staging import Staged
from holdfast.sinks.postgres.table import LedgeredTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ROWS = sql.Identifier("pg_temp", "holdfast_rows")
_INDEXES = """
SELECT array_agg(a.attname::text), coalesce((to_jsonb(i)->>'indnullsnotdistinct')::boolean, false)
FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = to_regclass(%s) AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = i.indnatts
GROUP BY i.indexrelid, 2"""
_INEXACT = pg_catalog.INEXACT.format("%(table)s")
_NULLS_NOT_DISTINCT_SINCE = 150_000


class PostgresUpsertSink:
    """Upserts each batch into a PostgreSQL table in one transaction with its ledger."""

    def __init__(
        self, sink: PostgresUpsert, key: LedgerKey, *, size: BatchSize | None = None
    ) -> None:
        self._sink = sink
        self._table = LedgeredTable(sink, key, _Upserted(sink), size)

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from the ledger beside it."""
        return self._table.last_written()

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:  # noqa: ARG002  JDBC needs it
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        self._table.require_fit(schema)

    def prepare(self, life: Life, schema: "StructType", spark: "SparkSession") -> None:  # noqa: ARG002  Delta's sinks need it
        """Create the table and the ledger if there are none, and fence older drivers."""
        sink = self._sink
        for column in (*sink.keys, *(c for c in (sink.newest, sink.deleted) if c)):
            if column not in schema.names:
                found = ", ".join(f"`{name}`" for name in sorted(schema.names))
                raise SchemaMismatch(
                    f"expected the column `{column}` among the rows for"
                    f" `{sink.schema}.{sink.table}`, found {found}",
                    hint="name columns of the job's result as `keys`, `newest` and `deleted`",
                )
        self._table.prepare(life, schema)

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Upsert the rows with the ledger in one transaction."""
        return self._table.write(batch, rows)


class _Upserted:
    """Rows that are merged into a table by their keys."""

    def __init__(self, sink: PostgresUpsert) -> None:
        self._sink = sink
        self._name = f"{sink.schema}.{sink.table}"
        self._table = sql.Identifier(sink.schema, sink.table)

    def definitions(
        self, connection: psycopg.Connection, schema: "StructType"
    ) -> list[sql.Composable]:
        from pyspark.sql.types import StructType  # noqa: PLC0415  only where Spark runs

        kept = StructType([field for field in schema.fields if field.name != self._sink.deleted])
        modern = connection.info.server_version >= _NULLS_NOT_DISTINCT_SINCE
        constraint = "UNIQUE NULLS NOT DISTINCT ({})" if modern else "PRIMARY KEY ({})"
        keys = sql.SQL(", ").join(sql.Identifier(key) for key in self._sink.keys)
        return [*table_columns.definitions(kept, self._name), sql.SQL(constraint).format(keys)]

    def fitting(
        self, connection: psycopg.Connection, schema: "StructType", found: tuple[Found, ...]
    ) -> Fit:
        beside = {}
        if self._sink.deleted is not None:
            self._require_marker(schema, self._sink.deleted)
            beside[self._sink.deleted] = Column(
                name=self._sink.deleted,
                sql="boolean",
                oid=Oid.BOOL,
                array=False,
                most=0,
                required=False,
                stored=False,
            )
        fit = table_columns.fitting(schema, found, self._name, beside)
        keys = {_named(fit.columns, key).name for key in self._sink.keys}
        self._require_exact(connection, keys)
        if self._null_is_a_key(connection, keys):
            return fit
        columns = (replace(c, required=c.required or c.name in keys) for c in fit.columns)
        return replace(fit, columns=tuple(columns))

    def put(
        self, connection: psycopg.Connection, columns: tuple[Column, ...], rows: pa.Table
    ) -> int:
        create = sql.SQL("CREATE TEMPORARY TABLE holdfast_rows ({}) ON COMMIT DROP")
        connection.execute(create.format(staging.definition(columns)))
        count, _ = staging.copy(connection, self._name, _ROWS, columns, rows.to_batches())
        self._merge(connection, columns, _ROWS)
        return count

    def move(
        self, connection: psycopg.Connection, columns: tuple[Column, ...], staged: list[Staged]
    ) -> None:
        if staged:
            select = sql.SQL("SELECT {} FROM {}")
            named = staging.names(columns)
            parts = sql.SQL(" UNION ALL ").join(select.format(named, one.table) for one in staged)
            self._merge(connection, columns, sql.SQL("({}) AS staged").format(parts))

    def _merge(
        self, connection: psycopg.Connection, columns: tuple[Column, ...], rows: sql.Composable
    ) -> None:
        marker = _named(columns, self._sink.deleted) if self._sink.deleted else None
        newest = self._newest(columns, rows)
        if marker is not None and not marker.stored:
            self._require_one_a_key(connection, columns, rows)
            for match in self._matches(columns):
                delete = sql.SQL("DELETE FROM {} AS t USING ({}) AS n WHERE n.{} AND {} AND {}")
                connection.execute(
                    delete.format(
                        self._table,
                        newest,
                        sql.Identifier(marker.name),
                        match,
                        self._newer(columns, "n"),
                    )
                )
        try:
            connection.execute(self._insert(columns, newest, marker))
        except pg.CardinalityViolation:
            raise self._ambiguous() from None

    def _insert(
        self, columns: tuple[Column, ...], newest: sql.Composable, marker: Column | None
    ) -> sql.Composed:
        keys = [_named(columns, key).name for key in self._sink.keys]
        stored = [column for column in columns if column.stored]
        updates = [
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(column.name))
            for column in stored
            if column.name not in keys
        ]
        action: sql.Composable = sql.SQL("NOTHING")
        if updates:
            update = sql.SQL("UPDATE SET {} WHERE {}")
            action = update.format(sql.SQL(", ").join(updates), self._newer(columns, "excluded"))
        live: sql.Composable = sql.SQL("true")
        if marker is not None and not marker.stored:
            live = sql.SQL("{} IS NOT TRUE").format(sql.Identifier(marker.name))
        names = staging.names(stored)
        insert = sql.SQL(
            "INSERT INTO {} AS t ({}) SELECT {} FROM ({}) AS n WHERE {} ON CONFLICT ({}) DO {}"
        )
        return insert.format(self._table, names, names, newest, live, _list(keys), action)

    def _newest(self, columns: tuple[Column, ...], rows: sql.Composable) -> sql.Composed:
        """One row a key: the newest, and of those that are as new the greatest."""
        if self._sink.newest is None:
            return sql.SQL("SELECT {} FROM {}").format(staging.names(columns), rows)
        keys = [_named(columns, key).name for key in self._sink.keys]
        first = _named(columns, self._sink.newest)
        rest = [c for c in columns if c.name not in keys and c.name != first.name]
        order = [sql.SQL("{} DESC NULLS LAST").format(_ordered(c)) for c in (first, *rest)]
        return sql.SQL("SELECT DISTINCT ON ({}) {} FROM {} ORDER BY {}, {}").format(
            _list(keys), staging.names(columns), rows, _list(keys), sql.SQL(", ").join(order)
        )

    def _newer(self, columns: tuple[Column, ...], row: str) -> sql.Composable:
        """Whether the incoming row may replace the table's."""
        if self._sink.newest is None:
            return sql.SQL("true")
        name = sql.Identifier(_named(columns, self._sink.newest).name)
        newer = sql.SQL("(t.{} IS NULL OR {}.{} > t.{})")
        return newer.format(name, sql.SQL(row), name, name)

    def _matches(self, columns: tuple[Column, ...]) -> list[sql.Composable]:
        """Which row of the table has the incoming row's key.

        Two conditions, because only equality can use an index or a hash: the second is for keys
        with a null in them, which are few, if they can be at all.
        """
        keys = [_named(columns, key) for key in self._sink.keys]
        both = [sql.Identifier(key.name) for key in keys]
        equal = sql.SQL(" AND ").join(sql.SQL("t.{0} = n.{0}").format(key) for key in both)
        if all(key.required for key in keys):
            return [equal]
        same = sql.SQL(" AND ").join(
            sql.SQL("t.{0} IS NOT DISTINCT FROM n.{0}").format(key) for key in both
        )
        some = sql.SQL(" OR ").join(sql.SQL("n.{} IS NULL").format(key) for key in both)
        return [equal, sql.SQL("{} AND ({})").format(same, some)]

    def _null_is_a_key(self, connection: psycopg.Connection, keys: set[str]) -> bool:
        """Whether the index that the keys need takes a null as a key; raises if there is none."""
        indexes = connection.execute(_INDEXES, (self._table.as_string(),)).fetchall()
        fitting = [nulls for names, nulls in indexes if set(names) == keys]
        if not fitting:
            wanted = ", ".join(f"`{key}`" for key in self._sink.keys)
            raise SchemaMismatch(
                f"expected a unique index of `{self._name}` on exactly {wanted}, found none",
                hint=f"CREATE UNIQUE INDEX ON {self._table.as_string()}"
                f" ({', '.join(sql.Identifier(key).as_string() for key in self._sink.keys)})",
            )
        return any(fitting)

    def _require_exact(self, connection: psycopg.Connection, keys: set[str]) -> None:
        table = {"table": self._table.as_string()}
        found = connection.execute(_INEXACT, table).fetchall()
        refusal = pg_catalog.refuse_key(self._name, sorted(keys), found)
        if refusal is not None:
            raise refusal

    def _require_marker(self, schema: "StructType", marker: str) -> None:
        from pyspark.sql.types import BooleanType  # noqa: PLC0415  only where Spark runs

        kind = schema[marker].dataType
        if not isinstance(kind, BooleanType):
            raise SchemaMismatch(
                f"expected column `{marker}`, which marks deleted rows for `{self._name}`, as"
                f" boolean, found {kind.simpleString()}",
                hint=f"cast `{marker}` in the job's function",
            )

    def _require_one_a_key(
        self, connection: psycopg.Connection, columns: tuple[Column, ...], rows: sql.Composable
    ) -> None:
        """Without a version, a deletion and a row of one key would not say which comes last."""
        if self._sink.newest is not None:
            return
        keys = _list([_named(columns, key).name for key in self._sink.keys])
        twice = sql.SQL("SELECT 1 FROM {} GROUP BY {} HAVING count(*) > 1 LIMIT 1")
        if connection.execute(twice.format(rows, keys)).fetchone() is not None:
            raise self._ambiguous()

    def _ambiguous(self) -> SinkRefused:
        return SinkRefused(
            f"expected each key once a batch for `{self._name}`, found one more often, and no"
            " column says which is newer",
            hint='declare it: `postgres_upsert(…, keys=[…], newest="event_time")`',
        )


def _list(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def _named(columns: Sequence[Column], name: str) -> Column:
    """The column that the sink's declaration names, in the table's spelling."""
    exact = [column for column in columns if column.name == name]
    return (exact or [column for column in columns if column.name.lower() == name.lower()])[0]


def _ordered(column: Column) -> sql.Composable:
    """A column to sort by: PostgreSQL has no order of `json`, but of its text."""
    name = sql.Identifier(column.name)
    return sql.SQL("{}::text").format(name) if column.oid is Oid.JSON else name
