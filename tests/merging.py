"""What a merge should leave in a table, in plain Python, and merges of cases that are drawn."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import deltalake
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  Spark's own abbreviation

from holdfast.model.batch import Batch, LedgerKey, Writer
from holdfast.model.definition import DeltaMerge
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import DeltaMergeSink
from holdfast.sinks.delta.executors import override_settings
from holdfast.sinks.delta.ledger import make_app_id
from tests import delta_cases
from tests.measuring import ToldSize

Row = tuple[object, ...]
SERIAL = "serial_no"
_OUTPUT = "spark.sql.parquet.outputTimestampType"
_DAYS, _INT96 = (f"spark.sql.parquet.{name}RebaseModeInWrite" for name in ("datetime", "int96"))
WRITERS: Mapping[str, Mapping[str, str]] = {
    "as holdfast sets Spark": {_OUTPUT: "TIMESTAMP_MICROS"},
    "INT96": {_OUTPUT: "INT96"},
    "INT96 of the old calendar": {_OUTPUT: "INT96", _INT96: "LEGACY"},
    "the old calendar": {_OUTPUT: "TIMESTAMP_MICROS", _DAYS: "LEGACY"},
}
"""How plain Spark may have written the files that a table has before holdfast merges into it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeCase:
    """A table, the rows of a job that merges into it, and batches of them."""

    table: T.StructType
    rows: T.StructType
    keys: tuple[str, ...]
    newest: str | None
    partition_by: tuple[str, ...]
    zone: str
    aside: bool
    batches: Sequence[Sequence[Row]]
    verdicts: Sequence[SizeVerdict]
    present: Sequence[Row] = ()
    """Rows that plain Spark writes before the batches, with the settings of `writer`."""
    writer: Mapping[str, str] = field(default_factory=dict)


class Model:
    """A table after merges, by the rules that the documentation states."""

    def __init__(self, case: MergeCase) -> None:
        self._case = case
        self._places = {name: index for index, name in enumerate(case.rows.names)}
        self._held: dict[object, dict[str, object]] = {}

    def merge(self, batch: Sequence[Row]) -> None:
        """Merge one batch."""
        chosen: dict[object, Row] = {}
        for given in batch:
            row = self._stored(given)
            key = tuple(comparable(self._value(row, name)) for name in self._case.keys)
            if key not in chosen or self._order(row) > self._order(chosen[key]):
                chosen[key] = row
        for one, row in chosen.items():
            values = dict(zip(self._case.rows.names, row, strict=True))
            held = self._held.get(one)
            if held is None:
                self._held[one] = values
            elif self._replaces(values, held):
                held.update(values)

    def rows(self) -> list[Row]:
        """What the table then has, in its order of columns."""
        return [
            tuple(held.get(name) for name in self._case.table.names) for held in self._held.values()
        ]

    def _stored(self, row: Row) -> Row:
        """The row as a table keeps it: the empty text of a partition column is null."""
        named = zip(self._case.rows.names, row, strict=True)
        by = self._case.partition_by
        return tuple(None if name in by and value == "" else value for name, value in named)

    def _value(self, row: Row, name: str) -> object:
        return row[self._places[name]]

    def _order(self, row: Row) -> list[tuple[object, ...]]:
        ties = [f.name for f in self._case.rows.fields if _breaks_ties(f.dataType)]
        first = [self._case.newest] if self._case.newest else []
        return [ordered(self._value(row, name)) for name in (*first, *ties)]

    def _replaces(self, row: Mapping[str, object], held: Mapping[str, object]) -> bool:
        newest = self._case.newest
        if newest is None or held[newest] is None:
            return True
        return row[newest] is not None and ordered(row[newest]) > ordered(held[newest])


def _breaks_ties(kind: T.DataType) -> bool:
    if isinstance(kind, T.StructType):
        return all(_breaks_ties(field.dataType) for field in kind.fields)
    return not isinstance(kind, T.ArrayType | T.MapType)


def ordered(value: object) -> tuple[object, ...]:
    """A value that Python orders as Spark does: null first, NaN last, text by its bytes."""
    match value:
        case None:
            return (0,)
        case float():
            return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
        case str():
            return (1, value.encode())
        case bytearray():
            return (1, bytes(value))
        case list() | tuple():
            return (1, tuple(ordered(one) for one in value))
        case _:
            return (1, value)


def comparable(value: object) -> object:
    """A value that is equal to another one exactly where Spark's `<=>` says so."""
    return ordered(value)


def draw_case(draw: Random) -> MergeCase:
    """Draw a case whose keys occur again and again."""
    drawn = delta_cases.draw_schema(draw, (2, 6), depth=1)
    table = T.StructType([*drawn.fields, T.StructField(SERIAL, T.LongType())])
    able = [f.name for f in drawn.fields if not _has_map(f.dataType)]
    if len(able) < 2:
        return draw_case(draw)
    keys = tuple(draw.sample(able, draw.randint(1, min(3, len(able) - 1))))
    rest = [name for name in able if name not in keys]
    newest = draw.choice(rest) if draw.random() < 0.7 else None
    plain = T.StructType([f for f in drawn.fields if "." not in f.name])
    partition_by = delta_cases.draw_partitioning(draw, plain) if len(plain.fields) > 1 else ()
    needed = {*keys, newest, SERIAL}
    dropped = {f.name for f in drawn.fields if f.name not in needed and draw.random() < 0.3}
    rows = T.StructType([f for f in table.fields if f.name not in dropped])
    pools = {
        f.name: [delta_cases.draw_value(draw, f.dataType) for _ in range(2)] + [None]
        for f in rows.fields
        if f.name in keys
    }
    batches: list[Sequence[Row]] = []
    for number in range(4):
        batch = delta_cases.draw_rows(draw, rows, draw.randint(0, 12))
        placed = [
            (
                *(
                    draw.choice(pools[name]) if name in pools else value
                    for name, value in zip(rows.names[:-1], row[:-1], strict=True)
                ),
                number * 100 + index,
            )
            for index, row in enumerate(batch)
        ]
        unique = number == 0 or newest is None
        batches.append(_one_per_key(placed, rows, keys, partition_by) if unique else placed)
    present = batches.pop(0) if draw.random() < 0.7 else ()
    ways = [
        SizeVerdict.SMALL,
        SizeVerdict.SMALL,
        SizeVerdict.UNMEASURED,
        SizeVerdict.LARGE,
        SizeVerdict.LARGE,
    ]
    verdicts = [draw.choice(ways) for _ in batches]
    return MergeCase(
        table=table,
        rows=rows,
        keys=keys,
        newest=newest,
        partition_by=partition_by,
        zone=draw.choice(delta_cases.ZONES),
        aside=draw.random() < 0.5,
        batches=batches,
        verdicts=verdicts,
        present=present,
        writer=draw.choice(list(WRITERS.values())),
    )


def _has_map(kind: T.DataType) -> bool:
    match kind:
        case T.MapType():
            return True
        case T.ArrayType():
            return _has_map(kind.elementType)
        case T.StructType():
            return any(_has_map(field.dataType) for field in kind.fields)
        case _:
            return False


def _one_per_key(
    batch: Sequence[Row], rows: T.StructType, keys: tuple[str, ...], partition_by: tuple[str, ...]
) -> list[Row]:
    places = {name: rows.names.index(name) for name in keys}
    by_key: dict[object, Row] = {}
    for row in batch:
        stored = [
            None if name in partition_by and row[place] == "" else row[place]
            for name, place in places.items()
        ]
        by_key[tuple(comparable(value) for value in stored)] = row
    return list(by_key.values())


class Merger:
    """A driver that merges, by the path that it is told."""

    def __init__(
        self,
        path: Path | str,
        case: MergeCase,
        verdict: SizeVerdict = SizeVerdict.SMALL,
        options: Mapping[str, str] | None = None,
        *,
        epoch: int = 1,
    ) -> None:
        self.life = Writer(
            job=JobName("j"), generation=Generation(1), epoch=Epoch(epoch), location="/base/j"
        )
        declared = DeltaMerge(
            path=str(path),
            keys=case.keys,
            newest=case.newest,
            partition_by=case.partition_by,
            properties={},
        )
        app_id = make_app_id(
            LedgerKey(job=self.life.job, generation=self.life.generation, output=OutputName("t"))
        )
        self.size = ToldSize(verdict)
        self.sink = DeltaMergeSink(
            declared, app_id, options or {}, size=self.size, overwrites=self._overwrites
        )
        self._aside = case.aside
        self.meanwhile: list[Callable[[], object]] = []

    def _overwrites(self, *_: object) -> bool:
        """Whether Spark merges into a clone, as on S3.

        The sink asks before each merge by Spark, and again after a look at a table that only Spark
        may merge into. Then happens what is next `meanwhile`.
        """
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return self._aside

    def prepare(self, rows: DataFrame) -> None:
        """Prepare the sink for rows of this kind."""
        self.sink.prepare(self.life, rows.schema, rows.sparkSession)

    def write(self, number: int, rows: DataFrame) -> Decision:
        """Write one batch."""
        batch = Batch(
            life=self.life,
            id=BatchId(number),
            digest=Digest(f"digest-{number}"),
            offsets=[],
            expected_rows=Unknown(reason="nobody counts"),
        )
        return self.sink.write(batch, rows)


def _count_by_delta_rs(path: Path) -> int:
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    found = pa.table(query.execute(f'SELECT count("{SERIAL}") AS n FROM t').read_all())
    return int(found.column("n")[0].as_py())


def _write_present(spark: SparkSession, path: Path, case: MergeCase) -> None:
    """Let plain Spark write the rows that are in the table before the batches."""
    if case.present:
        rows = spark.createDataFrame(list(case.present), case.rows).coalesce(1)
        with override_settings(spark, case.writer):
            rows.write.format("delta").mode("append").save(str(path))


def run_case(spark: SparkSession, path: Path, case: MergeCase) -> tuple[list[str], list[str]]:
    """The rows of the table after holdfast has merged the batches, and those it should have."""
    with override_settings(spark, {**delta_cases.QUICK, "spark.sql.session.timeZone": case.zone}):
        spark.sql(delta_cases.create_table_sql(str(path), case.table, case.partition_by))
        _write_present(spark, path, case)
        merger, model = Merger(path, case), Model(case)
        model.merge(case.present)
        merger.prepare(spark.createDataFrame([], case.rows))
        for number, (batch, verdict) in enumerate(zip(case.batches, case.verdicts, strict=True)):
            merger.size.verdict = verdict
            rows = spark.createDataFrame(list(batch), case.rows).repartition(2)
            assert merger.write(number, rows) is Decision.WRITE
            model.merge(batch)
        found = spark.read.format("delta").load(str(path)).collect()
        wanted = spark.createDataFrame(model.rows(), case.table).collect()
        assert _count_by_delta_rs(path) == len(found), "delta-rs and Spark read different rows"
        return sorted(map(repr, found)), sorted(map(repr, wanted))
