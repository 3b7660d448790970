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

from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
from psycopg import errors as pg
from psycopg import sql

from holdfast.errors import SchemaMismatch, SinkRefused
from holdfast.model.batch import Batch, LastWritten, LedgerKey, Writer
from holdfast.model.definition import PostgresUpsert
from holdfast.sinks import pg_catalog
from holdfast.sinks.batch_size import BatchSize
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres import columns as table_columns
from holdfast.sinks.postgres import staging
from holdfast.sinks.postgres.columns import CatalogColumn, ColumnMapping
from holdfast.sinks.postgres.encode import CopyColumn, Oid
from holdfast.sinks.postgres.staging import StagedTable
from holdfast.sinks.postgres.table import LedgeredPostgresTable
from holdfast.sinks.postgres.upsert_statements import UpsertStatements, find_named, list_names

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
_DELETE_TRIGGERS = pg_catalog.DELETE_TRIGGERS.format("%(table)s")
_NULLS_NOT_DISTINCT_SINCE = 150_000


class PostgresUpsertSink:
    """Upserts each batch into a PostgreSQL table in one transaction with its ledger."""

    def __init__(
        self, sink: PostgresUpsert, key: LedgerKey, *, size: BatchSize | None = None
    ) -> None:
        self._sink = sink
        self._table = LedgeredPostgresTable(sink, key, _UpsertWriter(sink), size)

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from the ledger beside it."""
        return self._table.last_written()

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:  # noqa: ARG002  JDBC needs it
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        self._table.require_fit(schema)

    def prepare(self, life: Writer, schema: "StructType", spark: "SparkSession") -> None:  # noqa: ARG002  Delta's sinks need it
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


class _UpsertWriter:
    """Rows that are merged into a table by their keys."""

    def __init__(self, sink: PostgresUpsert) -> None:
        self._sink = sink
        self._name = f"{sink.schema}.{sink.table}"
        self._table = sql.Identifier(sink.schema, sink.table)

    def definitions(
        self, connection: psycopg.Connection, schema: "StructType"
    ) -> list[sql.Composable]:
        from pyspark.sql.types import StructType

        kept = StructType([field for field in schema.fields if field.name != self._sink.deleted])
        modern = connection.info.server_version >= _NULLS_NOT_DISTINCT_SINCE
        constraint = "UNIQUE NULLS NOT DISTINCT ({})" if modern else "PRIMARY KEY ({})"
        keys = sql.SQL(", ").join(sql.Identifier(key) for key in self._sink.keys)
        return [*table_columns.define_columns(kept, self._name), sql.SQL(constraint).format(keys)]

    def fitting(
        self, connection: psycopg.Connection, schema: "StructType", found: tuple[CatalogColumn, ...]
    ) -> ColumnMapping:
        beside = {}
        if self._sink.deleted is not None:
            self._require_marker(schema, self._sink.deleted)
            beside[self._sink.deleted] = CopyColumn(
                name=self._sink.deleted,
                sql="boolean",
                oid=Oid.BOOL,
                array=False,
                most=0,
                required=False,
                stored=False,
            )
        fit = table_columns.map_columns(schema, found, self._name, beside)
        self._require_order(fit.columns)
        keys = {find_named(fit.columns, key).name for key in self._sink.keys}
        self._require_exact(connection, keys)
        if self._null_is_a_key(connection, keys):
            return fit
        columns = (replace(c, required=c.required or c.name in keys) for c in fit.columns)
        return replace(fit, columns=tuple(columns))

    def put(
        self, connection: psycopg.Connection, columns: tuple[CopyColumn, ...], rows: pa.Table
    ) -> int:
        create = sql.SQL("CREATE TEMPORARY TABLE holdfast_rows ({}) ON COMMIT DROP")
        connection.execute(create.format(staging.define_columns(columns)))
        count, _ = staging.copy(connection, self._name, _ROWS, columns, rows.to_batches())
        self._merge(connection, columns, _ROWS)
        return count

    def move(
        self,
        connection: psycopg.Connection,
        columns: tuple[CopyColumn, ...],
        staged: list[StagedTable],
    ) -> None:
        if staged:
            select = sql.SQL("SELECT {} FROM {}")
            named = staging.list_names(columns)
            parts = sql.SQL(" UNION ALL ").join(select.format(named, one.table) for one in staged)
            self._merge(connection, columns, sql.SQL("({})").format(parts))

    def _merge(
        self, connection: psycopg.Connection, columns: tuple[CopyColumn, ...], rows: sql.Composable
    ) -> None:
        marker = find_named(columns, self._sink.deleted) if self._sink.deleted else None
        statements = UpsertStatements(sink=self._sink, table=self._table, columns=columns)
        newest = statements.newest(rows)
        live: sql.Composable = sql.SQL("true")
        if marker is not None and not marker.stored:
            live = sql.SQL("n.{} IS NOT TRUE").format(sql.Identifier(marker.name))
            self._require_one_a_key(connection, columns, rows)
            self._delete(connection, statements, newest, marker)
        try:
            ((given, put),) = connection.execute(statements.insert(newest, live)).fetchall()
        except pg.CardinalityViolation:
            raise self._ambiguous() from None
        if put < given:
            ((lost,),) = connection.execute(statements.lost(newest, live)).fetchall()
            staging.require_all_taken(self._name, given - lost, given)

    def _delete(
        self,
        connection: psycopg.Connection,
        statements: UpsertStatements,
        newest: sql.Composable,
        marker: CopyColumn,
    ) -> None:
        """Take out the keys whose newest row is marked; raise if a trigger keeps one in."""
        table = {"table": self._table.as_string()}
        triggered = connection.execute(_DELETE_TRIGGERS, table).fetchone() is not None
        delete = sql.SQL("DELETE FROM {} AS t USING ({}) AS n WHERE n.{} AND {} AND {}")
        kept = sql.SQL("SELECT count(*) FROM {} AS t, ({}) AS n WHERE n.{} AND {} AND {}")
        for match in statements.matches():
            parts = (
                *(self._table, newest, sql.Identifier(marker.name)),
                *(match, statements.newer("n")),
            )
            connection.execute(delete.format(*parts))
            # Asked only where a trigger can do it: another session may add the key meanwhile.
            if triggered:
                ((count,),) = connection.execute(kept.format(*parts)).fetchall()
                self._require_deleted(count)

    def _require_deleted(self, kept: int) -> None:
        if kept:
            raise SinkRefused(
                f"expected `{self._name}` without {kept} rows that the batch deletes, found"
                " them still there: a trigger kept them in",
                hint=f"drop the trigger of `{self._name}`, or give the table the column"
                f" `{self._sink.deleted}`; nothing of the batch was written",
            )

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

    def _require_order(self, columns: tuple[CopyColumn, ...]) -> None:
        if self._sink.newest is None:
            return
        column = find_named(columns, self._sink.newest)
        if column.oid is Oid.JSON:
            raise SchemaMismatch(
                f"expected column `{column.name}` of `{self._name}`, which says which row is newer,"
                f" to have an order, found {column.sql}",
                hint="name a number, a time or a text as `newest`",
            )

    def _require_marker(self, schema: "StructType", marker: str) -> None:
        from pyspark.sql.types import BooleanType

        kind = schema[marker].dataType
        if not isinstance(kind, BooleanType):
            raise SchemaMismatch(
                f"expected column `{marker}`, which marks deleted rows for `{self._name}`, as"
                f" boolean, found {kind.simpleString()}",
                hint=f"cast `{marker}` in the job's function",
            )

    def _require_one_a_key(
        self, connection: psycopg.Connection, columns: tuple[CopyColumn, ...], rows: sql.Composable
    ) -> None:
        """Without a version, a deletion and a row of one key would not say which comes last."""
        if self._sink.newest is not None:
            return
        keys = list_names([find_named(columns, key).name for key in self._sink.keys])
        twice = sql.SQL("SELECT 1 FROM {} AS r GROUP BY {} HAVING count(*) > 1 LIMIT 1")
        if connection.execute(twice.format(rows, keys)).fetchone() is not None:
            raise self._ambiguous()

    def _ambiguous(self) -> SinkRefused:
        return SinkRefused(
            f"expected each key once a batch for `{self._name}`, found one more often, and no"
            " column says which is newer",
            hint='declare it: `postgres_upsert(…, keys=[…], newest="event_time")`',
        )
