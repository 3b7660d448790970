"""Drivers of a job at a PostgreSQL table, through the driver's own COPY; without Spark."""

# ruff: noqa: D102  a fake says what it does by what it stands for

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

import psycopg
import pyarrow as pa
from psycopg import sql
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType
from tests.measuring import ToldSize

from holdfast.examples.database import ROLE, Database
from holdfast.model.batch import Batch, LedgerKey, Writer
from holdfast.model.definition import PostgresAppend, PostgresUpsert
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres import PostgresAppendSink, PostgresUpsertSink

SCHEMA = StructType(
    [
        StructField("key", StringType()),
        StructField("at", LongType()),
        StructField("value", StringType()),
    ]
)
TYPES = pa.schema([("key", pa.string()), ("at", pa.int64()), ("value", pa.string())])
MARKED = StructType([*SCHEMA.fields, StructField("gone", BooleanType())])
MARKED_TYPES = TYPES.append(pa.field("gone", pa.bool_()))


class Rows:
    """As much of a DataFrame as a sink asks of one that it collects."""

    def __init__(self, table: pa.Table, schema: StructType) -> None:
        self._table = table
        self.schema = schema

    def toArrow(self) -> pa.Table:  # noqa: N802  Spark's name
        return self._table


class Desk:
    """One schema of a database, as one role sees it: its tables are looked at here."""

    def __init__(
        self,
        database: Database,
        *,
        dbname: str = "postgres",
        user: str = ROLE,
        schema: str | None = None,
    ) -> None:
        self.user = user
        self.password = None if user == ROLE else "env:STREAM_PASSWORD"
        self.connection = f"host=127.0.0.1 port={database.port} dbname={dbname} user={user}"
        # In a name that has to be quoted, unless it is given.
        self.schema = f"it's \"{secrets.token_hex(4)}" if schema is None else schema
        if user == ROLE:
            self.query(f"CREATE SCHEMA {sql.Identifier(self.schema).as_string()}")

    def append(self, **named: str) -> PostgresAppend:
        sink = PostgresAppend(
            connection=self.connection,
            password=self.password,
            schema=self.schema,
            table="rows",
        )
        return replace(sink, **named)

    def upsert(
        self,
        *,
        keys: tuple[str, ...] = ("key",),
        newest: str | None = "at",
        deleted: str | None = None,
    ) -> PostgresUpsert:
        return PostgresUpsert(
            connection=self.connection,
            password=self.password,
            schema=self.schema,
            table="rows",
            keys=keys,
            newest=newest,
            deleted=deleted,
        )

    def query(self, text: str, *values: object) -> list[tuple[object, ...]]:
        """Rows of a query, or none of a statement; names without a schema are this one's."""
        with psycopg.connect(self.connection, autocommit=True) as connection:
            path = sql.SQL("SET search_path = {}").format(sql.Identifier(self.schema))
            connection.execute(path)
            cursor = connection.execute(text.encode(), values or None)
            return cursor.fetchall() if cursor.description else []


class Driver:
    """One driver of a job, at a table."""

    def __init__(
        self,
        sink: PostgresAppend | PostgresUpsert,
        *,
        epoch: int = 1,
        schema: StructType = SCHEMA,
        types: pa.Schema = TYPES,
        base: str = "/base",
        verdict: SizeVerdict = SizeVerdict.SMALL,
    ) -> None:
        self.life = Writer(
            job=JobName("j"), generation=Generation(1), epoch=Epoch(epoch), location=f"{base}/j"
        )
        key = LedgerKey(job=self.life.job, generation=self.life.generation, output=OutputName("t"))
        self._schema, self._types = schema, types
        size = ToldSize(verdict)
        if isinstance(sink, PostgresAppend):
            self.sink: PostgresAppendSink | PostgresUpsertSink = PostgresAppendSink(
                sink, key, size=size
            )
        else:
            self.sink = PostgresUpsertSink(sink, key, size=size)

    def start(self) -> "Driver":
        self.sink.prepare(self.life, self._schema, None)  # type: ignore[arg-type]
        return self

    def batch(self, number: int, rows: int = 1, digest: str | None = None) -> Batch:
        return Batch(
            life=self.life,
            id=BatchId(number),
            digest=Digest(digest or f"digest-{number}"),
            offsets=[{"source": "0", "start": number, "end": number + 1}],
            expected_rows=rows,
        )

    def write(self, number: int, *rows: Sequence[object], digest: str | None = None) -> Decision:
        named: list[Mapping[str, object]] = [
            dict(zip(self._types.names, row, strict=True)) for row in rows
        ]
        return self.put(number, pa.Table.from_pylist(named, self._types), digest=digest)

    def put(self, number: int, table: pa.Table, *, digest: str | None = None) -> Decision:
        batch = self.batch(number, table.num_rows, digest)
        return self.sink.write(batch, Rows(table, self._schema))  # type: ignore[arg-type]
