"""The PostgreSQL append sink."""

from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
from psycopg import sql

from holdfast.model.batch import Batch, LastWritten, LedgerKey, Writer
from holdfast.model.definition import PostgresAppend
from holdfast.sinks.batch_size import BatchSize
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres import columns as table_columns
from holdfast.sinks.postgres import staging
from holdfast.sinks.postgres.columns import CatalogColumn, ColumnMapping
from holdfast.sinks.postgres.encode import CopyColumn
from holdfast.sinks.postgres.staging import StagedTable
from holdfast.sinks.postgres.table import LedgeredPostgresTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class PostgresAppendSink:
    """Appends each batch to a PostgreSQL table in one transaction with its ledger."""

    def __init__(
        self, sink: PostgresAppend, key: LedgerKey, *, size: BatchSize | None = None
    ) -> None:
        self._table = LedgeredPostgresTable(sink, key, _AppendWriter(sink), size)

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from the ledger beside it."""
        return self._table.last_written()

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:  # noqa: ARG002  JDBC needs it
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        self._table.require_fit(schema)

    def prepare(self, life: Writer, schema: "StructType", spark: "SparkSession") -> None:  # noqa: ARG002  Delta's sinks need it
        """Create the table and the ledger if there are none, and fence older drivers."""
        self._table.prepare(life, schema)

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Append the rows with the ledger in one transaction."""
        return self._table.write(batch, rows)


class _AppendWriter:
    """Rows that are added to a table."""

    def __init__(self, sink: PostgresAppend) -> None:
        self._name = f"{sink.schema}.{sink.table}"
        self._table = sql.Identifier(sink.schema, sink.table)

    def definitions(
        self,
        connection: psycopg.Connection,  # noqa: ARG002  an upsert asks for the server's version
        schema: "StructType",
    ) -> list[sql.Composable]:
        return table_columns.define_columns(schema, self._name)

    def fitting(
        self,
        connection: psycopg.Connection,  # noqa: ARG002  an upsert asks for the table's keys
        schema: "StructType",
        found: tuple[CatalogColumn, ...],
    ) -> ColumnMapping:
        return table_columns.map_columns(schema, found, self._name, {})

    def put(
        self, connection: psycopg.Connection, columns: tuple[CopyColumn, ...], rows: pa.Table
    ) -> int:
        batches = rows.to_batches()
        return staging.copy(connection, self._name, self._table, columns, batches)[0]

    def move(
        self,
        connection: psycopg.Connection,
        columns: tuple[CopyColumn, ...],
        staged: list[StagedTable],
    ) -> None:
        named = staging.list_names(columns)
        insert = sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}")
        for one in staged:
            moved = connection.execute(insert.format(self._table, named, named, one.table))
            staging.require_all_taken(self._name, moved.rowcount, one.rows)
