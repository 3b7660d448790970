"""The messages that were sent and every table -> the rows that are lost or duplicated.

Each stage compares two multisets, the expected rows and the rows of a table:

    raw               payloads of all messages
    readings          every reading once, with all its fields
    quarantine        payloads of the garbage
    sensor_latest     one row per sensor and metric, with all fields of its newest reading
    sensor_minutely   one row per sensor, metric and minute, with its aggregates

The last two are compared in Delta and, if the pipeline writes there, in PostgreSQL. A missing row
is lost, a surplus row is duplicated, and a row with a wrong field is both. The tables are read
without Spark, and the expected rows come only from the simulator.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import deltalake
import psycopg
import pyarrow as pa
from deltalake.exceptions import TableNotFoundError
from psycopg import sql
from pyarrow import fs

from holdfast.examples.sensors import simulator
from holdfast.examples.sensors.pipeline import LATEST, MINUTELY, Settings
from holdfast.examples.sensors.simulator import Message, MessageKind, Reading, Truth

TableRow = tuple[object, ...]

_READING = ("sensor", "metric", "event_time", "value", "sequence")
_MINUTE = ("sensor", "metric", "minute", "count", "min", "max", "mean")
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The number of rows in each table.

    `merged` is the number of readings that the minutes of the Delta table count together, and
    `served` is the same in PostgreSQL.
    """

    raw: int = 0
    readings: int = 0
    quarantine: int = 0
    latest: int = 0
    minutely: int = 0
    merged: int = 0
    served: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """The number of rows of each stage, and the lost and duplicated rows over all stages.

    `device_duplicates` counts the rows of raw that are neither in readings nor in quarantine.
    `differences` describes some lost and surplus rows in words.
    """

    sent: int
    raw: int
    readings: int
    quarantine: int
    device_duplicates: int
    latest: int
    minutely: int
    postgres_latest: int
    postgres_minutely: int
    lost: int
    duplicated: int
    differences: tuple[str, ...]

    @property
    def exact(self) -> bool:
        """Return whether every stage contains every expected row once, and no other."""
        return not self.lost and not self.duplicated


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stage:
    """The expected rows of a stage, and the rows of its table."""

    name: str
    expected: Counter[TableRow]
    found: Counter[TableRow]


def count_rows(settings: Settings) -> Counts:
    """Count the rows of each table cheaply, from Delta's logs and one small column."""
    minutes = _read_table(settings.table(MINUTELY), ["count"])
    return Counts(
        raw=_count_table(settings.table("raw")),
        readings=_count_table(settings.table("readings")),
        quarantine=_count_table(settings.table("quarantine")),
        latest=_count_table(settings.table(LATEST)),
        minutely=minutes.num_rows,
        merged=_sum_counts(minutes),
        served=_sum_counts(_read_postgres_table(settings.postgres, MINUTELY, ["count"]))
        if settings.postgres
        else 0,
    )


def has_caught_up(settings: Settings, truth: Truth) -> bool:
    """Return whether every table has enough rows, and the newest readings."""
    counts = count_rows(settings)
    has_enough = (
        counts.raw >= truth.sent
        and counts.readings >= truth.readings
        and counts.quarantine >= truth.garbage
        and counts.merged >= truth.readings
        and (settings.postgres is None or counts.served >= truth.readings)
    )
    return has_enough and not any(
        stage.expected - stage.found
        for stage in _make_gold_stages(settings, truth)
        if "latest" in stage.name
    )


def compare(sent: Sequence[Message], truth: Truth, settings: Settings) -> Reconciliation:
    """Compare every stage with the messages; `truth` must be computed from the same messages."""
    raw = _make_payload_stage("raw", settings, sent)
    garbage = _make_payload_stage(
        "quarantine", settings, (m for m in sent if m.kind is MessageKind.GARBAGE)
    )
    stages = (
        raw,
        _make_readings_stage(settings, sent),
        garbage,
        *_make_gold_stages(settings, truth),
    )
    rows = {stage.name: stage.found.total() for stage in stages}
    return Reconciliation(
        sent=truth.sent,
        raw=rows["raw"],
        readings=rows["readings"],
        quarantine=rows["quarantine"],
        device_duplicates=rows["raw"] - rows["readings"] - rows["quarantine"],
        latest=rows[LATEST],
        minutely=rows[MINUTELY],
        postgres_latest=rows.get(f"postgres {LATEST}", 0),
        postgres_minutely=rows.get(f"postgres {MINUTELY}", 0),
        lost=sum((stage.expected - stage.found).total() for stage in stages),
        duplicated=sum((stage.found - stage.expected).total() for stage in stages),
        differences=tuple(line for stage in stages for line in _describe_differences(stage)),
    )


def _make_payload_stage(name: str, settings: Settings, expected: Iterable[Message]) -> _Stage:
    payloads = _read_table(settings.table(name), ["payload"])
    return _Stage(
        name=name,
        expected=Counter((message.payload,) for message in expected),
        found=Counter(_to_tuples(payloads)),
    )


def _make_readings_stage(settings: Settings, sent: Iterable[Message]) -> _Stage:
    first = (m.content for m in sent if m.kind is MessageKind.READING)
    expected = Counter(_to_row(reading) for reading in first if isinstance(reading, Reading))
    return _Stage(
        name="readings",
        expected=expected,
        found=Counter(_to_tuples(_read_table(settings.table("readings"), _READING))),
    )


def _make_gold_stages(settings: Settings, truth: Truth) -> tuple[_Stage, ...]:
    stages = (
        _make_latest_stage(LATEST, _read_table(settings.table(LATEST), _READING), truth),
        _make_minutely_stage(MINUTELY, _read_table(settings.table(MINUTELY), _MINUTE), truth),
    )
    if settings.postgres is None:
        return stages
    latest = _read_postgres_table(settings.postgres, LATEST, _READING)
    minutely = _read_postgres_table(settings.postgres, MINUTELY, _MINUTE)
    return (
        *stages,
        _make_latest_stage(f"postgres {LATEST}", latest, truth),
        _make_minutely_stage(f"postgres {MINUTELY}", minutely, truth),
    )


def _make_latest_stage(name: str, table: pa.Table, truth: Truth) -> _Stage:
    return _Stage(
        name=name,
        expected=Counter(_to_row(reading) for reading in truth.latest.values()),
        found=Counter(_to_tuples(table)),
    )


def _make_minutely_stage(name: str, table: pa.Table, truth: Truth) -> _Stage:
    return _Stage(
        name=name,
        expected=Counter(
            (*key, m.count, m.min, m.max, m.mean) for key, m in truth.minutely.items()
        ),
        found=Counter(_replace_mean(row, truth.minutely) for row in _to_tuples(table)),
    )


def _replace_mean(
    row: TableRow, expected: Mapping[tuple[str, str, int], simulator.Minute]
) -> TableRow:
    """Return the row with the expected mean, if its own differs only by the order of addition."""
    match row:
        case (str() as sensor, str() as metric, int() as minute, *others, float() as mean):
            exact = expected.get((sensor, metric, minute))
            if exact is not None and math.isclose(mean, exact.mean, rel_tol=1e-9, abs_tol=1e-9):
                return (sensor, metric, minute, *others, exact.mean)
            return row
        case _:
            return row


def _to_row(reading: Reading) -> TableRow:
    return tuple(getattr(reading, name) for name in _READING)


def _describe_differences(stage: _Stage) -> list[str]:
    """Describe the first few differences of a stage."""
    lost, surplus = stage.expected - stage.found, stage.found - stage.expected
    words = [(lost, "lost"), (surplus, "surplus")]
    return [
        f"{stage.name}: {what} {times} times: {row}"
        for differences, what in words
        for row, times in list(differences.items())[:_MOST_SHOWN]
    ]


def _count_table(path: Path) -> int:
    try:
        return deltalake.DeltaTable(path).count()
    except TableNotFoundError:
        return 0


def _read_table(path: Path, columns: Sequence[str]) -> pa.Table:
    """Return columns of a table, with times in milliseconds since 1970; empty without a table."""
    try:
        table = deltalake.DeltaTable(path).to_pyarrow_dataset(filesystem=_open_file_system(path))
    except TableNotFoundError:
        return _make_empty_table(columns)
    return _convert_times(table.to_table(columns=list(columns)))


def _open_file_system(path: Path) -> fs.SubTreeFileSystem:
    """Return pyarrow's own file system for a table's folder.

    Without it, pyarrow reads through the file system of delta-rs, which is Python code, and a
    thread of pyarrow frees Python buffers. If the interpreter is ending at that moment, it ends the
    thread, and the process aborts: exit code 134 after the right answer.
    """
    return fs.SubTreeFileSystem(str(path), fs.LocalFileSystem())


def _read_postgres_table(connection: str, table: str, columns: Sequence[str]) -> pa.Table:
    """Return columns of a table in PostgreSQL, like `_read_table`."""
    names = sql.SQL(", ").join(sql.Identifier(name) for name in columns)
    select = sql.SQL("SELECT {} FROM {}").format(names, sql.Identifier("public", table))
    with psycopg.connect(connection) as server:
        try:
            rows = server.execute(select).fetchall()
        except psycopg.errors.UndefinedTable:
            rows = []
    if not rows:
        return _make_empty_table(columns)
    values = zip(*rows, strict=True)
    return _convert_times(pa.table(dict(zip(columns, map(list, values), strict=True))))


def _make_empty_table(columns: Sequence[str]) -> pa.Table:
    return pa.table({name: pa.array([], pa.int64()) for name in columns})


def _convert_times(table: pa.Table) -> pa.Table:
    for index, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            in_ms = table.column(index).cast(pa.timestamp("ms", field.type.tz)).cast(pa.int64())
            table = table.set_column(index, field.name, in_ms)
    return table


def _sum_counts(table: pa.Table) -> int:
    return sum(table["count"].to_pylist())


def _to_tuples(table: pa.Table) -> Iterable[TableRow]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
