"""Rows -> staging tables, written by the executors; the driver moves them in its transaction.

    "hf_<ledger's key>_<epoch>_<batch>_<partition>_<attempt>"    unlogged, beside the job's table

Each attempt of a task makes a table of its own in a transaction of its own, so that a retried or
speculative attempt never mixes with another. A task reports the table's name when it is done;
only tables that Spark reports are moved, and only with as many rows as were reported: an unlogged
table is empty after a crash of the server.

A row that the table cannot hold is reported, not raised: Spark would run the task again.
"""

import hashlib
import itertools
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pyarrow as pa
from psycopg import sql

from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.model.batch import Batch, LedgerKey
from holdfast.model.ids import Epoch
from holdfast.sinks.postgres import connect, encode
from holdfast.sinks.postgres.connect import Server
from holdfast.sinks.postgres.encode import CopyColumn, ValueUnfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_REPORT = "staged STRING, rows LONG, size LONG, refused STRING, hint STRING"
_REPORT_ARROW = pa.schema(
    [
        ("staged", pa.string()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("refused", pa.string()),
        ("hint", pa.string()),
    ]
)
_LEFT_BEHIND = """
SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND starts_with(c.relname, %s) AND c.relkind = 'r'"""


_DROPPED_AT_ONCE = 100
_SWEEP_SECONDS = 10
# The transaction that moves the rows holds a lock on each table, on its TOAST table and on that
# one's index, and a server has room for a few thousand locks in all. More tasks than this at a time
# would be more connections than a server takes.
MOST_TABLES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTable:
    """A staging table that a task reported, with the count of its rows and their size in bytes."""

    table: sql.Identifier
    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StagingArea:
    """Where tasks put their rows: all that an executor is told. No password is in it."""

    server: Server
    schema: str
    table: str
    prefix: str
    columns: tuple[CopyColumn, ...]


def make_prefix(key: LedgerKey) -> str:
    """What the names of a ledger's staging tables begin with, in their schema."""
    return _digest(f"{key.job}/{key.generation}/{key.output}")


def tag(schema: str, key: LedgerKey) -> str:
    """What the names of a ledger's driver sessions begin with; sessions belong to no schema."""
    return _digest(f"{schema}/{key.job}/{key.generation}/{key.output}")


def _digest(text: str) -> str:
    return f"hf_{hashlib.sha256(text.encode()).hexdigest()[:12]}_"


def stage_by_executors(place: StagingArea, batch: Batch, rows: "DataFrame") -> list[StagedTable]:
    """Have the executors stage the rows; raises SinkRefused if one does not fit."""
    from pyspark.errors import PySparkException

    own = f"{place.prefix}{batch.life.epoch}_{batch.id}_"
    try:
        few = rows.coalesce(MOST_TABLES)  # of a plan with fewer partitions it changes nothing
        reports = few.mapInArrow(partial(_stage, place, own), _REPORT).collect()
    except PySparkException as error:
        found = re.search(rf"{SinkUnavailable.code}: (.+)", str(error))
        if found is None:
            raise
        raise SinkUnavailable(
            found.group(1), hint="check that the executors reach the server; the batch runs again"
        ) from error
    for report in reports:
        if report["refused"] is not None:
            raise SinkRefused(report["refused"], hint=report["hint"])
    return [
        StagedTable(
            table=sql.Identifier(place.schema, report["staged"]),
            rows=report["rows"],
            size=report["size"],
        )
        for report in reports
    ]


def _stage(
    place: StagingArea, own: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """On an executor: one attempt of one task -> one staging table, and a report of it."""
    from pyspark import TaskContext

    filled = (rows for rows in batches if rows.num_rows)
    first = next(filled, None)
    if first is None:
        return
    task = TaskContext.get()
    partition, attempt = (task.partitionId(), task.taskAttemptId()) if task else (0, 0)
    report: dict[str, str | int | None] = dict.fromkeys(_REPORT_ARROW.names)
    try:
        name = f"{own}{partition}_{attempt}"
        rows, size = _fill_table(place, name, itertools.chain([first], filled))
        report |= {"staged": name, "rows": rows, "size": size}
    except SinkRefused as error:
        report |= {"refused": error.message, "hint": error.hint}
    yield pa.RecordBatch.from_pylist([report], _REPORT_ARROW)


def _fill_table(
    place: StagingArea, name: str, batches: Iterable[pa.RecordBatch]
) -> tuple[int, int]:
    table = sql.Identifier(place.schema, name)
    with (
        place.server.connect(f"{place.prefix}staging") as connection,
        connect.translate_errors(place.server, place.table),
        connect.transaction(connection, f"{place.prefix}staging"),
    ):
        create = sql.SQL("CREATE UNLOGGED TABLE {} ({}) WITH (autovacuum_enabled = false)")
        connection.execute(create.format(table, define_columns(place.columns)))
        return copy(connection, place.table, table, place.columns, batches)


def define_columns(columns: Sequence[CopyColumn]) -> sql.Composed:
    """The columns of a staging table: named and typed as the table's, and free to be null."""
    return sql.SQL(", ").join(
        sql.SQL("{} {}").format(sql.Identifier(column.name), sql.SQL(column.sql))
        for column in columns
    )


def list_names(columns: Sequence[CopyColumn]) -> sql.Composed:
    """The columns' names, as a list."""
    return sql.SQL(", ").join(sql.Identifier(column.name) for column in columns)


def copy(
    connection: psycopg.Connection,
    of: str,
    table: sql.Identifier,
    columns: Sequence[CopyColumn],
    batches: Iterable[pa.RecordBatch],
) -> tuple[int, int]:
    """Stream rows into a table by binary COPY; how many, and their size. `of`: the job's table."""
    count = size = 0
    statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT binary)").format(
        table, list_names(columns)
    )
    with connection.cursor() as cursor:
        try:
            with cursor.copy(statement) as stream:
                stream.write(encode.HEADER)
                for rows in batches:
                    for part in encode.encode_rows(columns, rows):
                        stream.write(part)
                    count += rows.num_rows
                    size += rows.nbytes
                stream.write(encode.TRAILER)
        except ValueUnfit as unfit:
            raise SinkRefused(
                f"expected rows that fit column `{unfit.column}` of `{of}`, found {unfit.reason}",
                hint="mend or drop the value in the job's function; nothing of the batch was"
                " written",
            ) from None
        require_all_taken(of, cursor.rowcount, count)
    return count, size


def require_all_taken(table: str, put: int, given: int) -> None:
    """Raise unless the table took every row: a trigger may keep rows out without an error."""
    if put != given:
        raise SinkRefused(
            f"expected `{table}` to take all {given} rows, but it took {put}: a trigger kept the"
            " others out or sent them elsewhere",
            hint=f"drop the trigger of `{table}`; nothing of the batch was written",
        )


def sweep(connection: psycopg.Connection, place: StagingArea, up_to: Epoch) -> None:
    """Drop what drivers up to an epoch have left behind.

    One that is still being written to is left for the next time: nobody reads it any more. So are
    the others, where many of them keep the sweep waiting.
    """
    left = connection.execute(_LEFT_BEHIND, (place.schema, place.prefix)).fetchall()
    epochs = ((name, name.removeprefix(place.prefix).partition("_")[0]) for (name,) in left)
    stale = [
        sql.Identifier(place.schema, name)
        for name, epoch in epochs
        if epoch.isdecimal() and int(epoch) <= up_to
    ]
    ends = time.monotonic() + _SWEEP_SECONDS
    for start in range(0, len(stale), _DROPPED_AT_ONCE):
        some = stale[start : start + _DROPPED_AT_ONCE]
        if not _try_drop(connection, some):
            for one in some:
                if time.monotonic() > ends:
                    return
                _try_drop(connection, [one])


def _try_drop(connection: psycopg.Connection, tables: Sequence[sql.Identifier]) -> bool:
    """Drop tables; False where one of them is in use, or belongs to another role."""
    drop = sql.SQL("DROP TABLE IF EXISTS {}").format(sql.SQL(", ").join(tables))
    try:
        with connection.transaction():
            connection.execute("SET LOCAL lock_timeout = 500")
            connection.execute(drop)
    except (psycopg.errors.LockNotAvailable, psycopg.ProgrammingError):
        return False
    return True
