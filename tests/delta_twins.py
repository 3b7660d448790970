"""The same rows into two Delta tables, by holdfast and by Spark's own writer; then compare them."""

import datetime as dt
import glob
import json
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import deltalake
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own abbreviation
from pyspark.sql import types as T  # noqa: N812

from holdfast.errors import HoldfastError, SinkRefused
from holdfast.model.definition import DeltaAppend
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.delta import DeltaAppendSink
from holdfast.sinks.delta.executors import override_settings
from holdfast.sinks.delta.table import make_nullable
from tests import delta_cases as cases
from tests.adapters.delta_driving import Driver
from tests.measuring import ToldSize

ZONE = "spark.sql.session.timeZone"
CODEC = "spark.sql.parquet.compression.codec"
# What a table may ask of its writers, and a probability that is not small.
PROPERTIES: tuple[dict[str, str], ...] = (
    {"delta.dataSkippingNumIndexedCols": "1"},
    {"delta.dataSkippingNumIndexedCols": "-1"},
    {"delta.dataSkippingNumIndexedCols": "0"},
    {"delta.checkpointInterval": "2"},
    {"delta.enableChangeDataFeed": "true"},
    {"delta.enableDeletionVectors": "true"},
    {"delta.appendOnly": "true"},
    {"delta.randomizeFilePrefixes": "true"},
    {"delta.enableRowTracking": "true"},
    {"delta.columnMapping.mode": "name"},
    {"delta.columnMapping.mode": "id"},
    {"delta.enableInCommitTimestamps": "true"},
    {"delta.enableTypeWidening": "true"},
    {"delta.checkpointPolicy": "v2"},
    {"delta.feature.allowColumnDefaults": "supported"},
    {"delta.autoOptimize.optimizeWrite": "true"},
    {"parquet.bloom.filter.enabled": "true"},
    {"delta.dataSkippingStringPrefixLength": "4"},
)
# What a sink may say of values, which nobody knows when a driver starts. The last one is about a
# partition value that no folder can be named after.
VIOLATIONS = ("a text is too long", "breaks the rule", "must not be null", "TASK_WRITE_FAILED")
_PHYSICAL = "delta.columnMapping.physicalName"
MAPPED = ({"delta.columnMapping.mode": "name"}, {"delta.columnMapping.mode": "id"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What one comparison does; its seed repeats it."""

    seed: int
    schema: T.StructType
    partition_by: tuple[str, ...]
    properties: dict[str, str]
    zone: str
    codec: str
    small: bool
    created_by_spark: bool
    added: T.StructType
    clustered: bool
    constraint: str
    filled: bool
    rows: list[list[tuple[object, ...]]] = field(repr=False)


def draw_case(seed: int) -> Case:
    """Return the case of a seed."""
    draw = Random(seed)
    odd = draw.random() < 0.25
    created_by_spark = odd or draw.random() < 0.7
    names = cases.PLAIN_NAMES + (cases.ODD_NAMES if odd else ())
    not_null = draw.choice([0, 0, 0.3]) if created_by_spark else 0
    whole = cases.draw_schema(draw, (3, 8), names=names, not_null=not_null)
    evolves = draw.random() < 0.4
    added = T.StructType([_loose(draw, f) for f in whole.fields[-1:]] if evolves else [])
    schema = T.StructType(whole.fields[:-1] if evolves else whole.fields)
    partition_by = cases.draw_partitioning(draw, schema, binary=True)
    properties = dict(draw.choice(MAPPED)) if odd else {}
    if draw.random() < 0.6:
        properties |= draw.choice(PROPERTIES)
    if created_by_spark and draw.random() < 0.3:
        schema = T.StructType([_sized(draw, f) for f in schema.fields])
    filled = created_by_spark and draw.random() < 0.15
    if filled:
        properties["delta.feature.allowColumnDefaults"] = "supported"
    written = [schema, *([T.StructType([*schema.fields, *added.fields])] if evolves else [])]
    return Case(
        seed=seed,
        schema=schema,
        partition_by=partition_by,
        properties=properties if created_by_spark else {},
        zone=draw.choice(cases.ZONES),
        codec=draw.choice(["snappy", "zstd", "gzip", "none", "lz4"]),
        small=draw.random() < 0.5,
        created_by_spark=created_by_spark,
        added=added,
        clustered=created_by_spark and not partition_by and draw.random() < 0.1,
        constraint=_constraint(draw, schema) if created_by_spark and draw.random() < 0.2 else "",
        filled=filled,
        rows=[
            _spoil(draw, schema, cases.draw_rows(draw, one, draw.randint(0, 12))) for one in written
        ],
    )


def _constraint(draw: Random, schema: T.StructType) -> str:
    """Return a rule about one column that some rows may break."""
    kinds = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
    able = [f.name for f in schema.fields if isinstance(f.dataType, kinds)]
    if not able:
        return ""
    return f"{cases.quote(draw.choice(able))} {draw.choice(['<> 7', '> -100', '< 100'])}"


def _spoil(
    draw: Random, schema: T.StructType, rows: list[tuple[object, ...]]
) -> list[tuple[object, ...]]:
    """Put a null where none may be, now and then."""
    strict = [index for index, f in enumerate(schema.fields) if not f.nullable]
    if not (rows and strict and draw.random() < 0.3):
        return rows
    at = draw.choice(strict)
    first = tuple(None if index == at else value for index, value in enumerate(rows[0]))
    return [first, *rows[1:]]


def _loose(draw: Random, one: T.StructField) -> T.StructField:
    return T.StructField(one.name, one.dataType, nullable=draw.random() < 0.5)


def _sized(draw: Random, one: T.StructField) -> T.StructField:
    if not isinstance(one.dataType, T.StringType):
        return one
    kind = draw.choice([T.VarcharType(70), T.CharType(70), T.VarcharType(3)])
    return T.StructField(one.name, kind, nullable=one.nullable)


class Twins:
    """Two tables that are to become equal."""

    def __init__(self, spark: SparkSession, case: Case, home: Path) -> None:
        self._spark = spark
        self._case = case
        self.ours, self.theirs = str(home / "ours"), str(home / "theirs")
        self._refused = False

    def write(self) -> None:
        """Write every batch to both tables."""
        with self._settings():
            self._create()
            written = 0
            for number in range(len(self._case.rows)):
                theirs = self._write_theirs(number)
                ours = self._write_ours(number, written)
                if isinstance(ours, SinkRefused) and "in the time zone" in ours.message:
                    assert self._case.zone != "UTC"
                    self._spark.conf.set(ZONE, "UTC")  # as the hint says
                    ours = self._write_ours(number, written)
                assert (ours is None) == (theirs is None), f"{ours=} {theirs=}"
                written += ours is None
                self._refused = ours is not None

    def _settings(self) -> AbstractContextManager[None]:
        chosen = {ZONE: self._case.zone, CODEC: self._case.codec}
        return override_settings(self._spark, cases.QUICK | chosen)

    def _create(self) -> None:
        case = self._case
        if not case.created_by_spark:
            (
                self._frame(0, rows=[])
                .write.format("delta")
                .partitionBy(*case.partition_by)
                .save(self.theirs)
            )
            return
        for path in (self.ours, self.theirs):
            sql = cases.create_table_sql(path, case.schema, case.partition_by, case.properties)
            able = [f.name for f in case.schema.fields if isinstance(f.dataType, T.LongType)]
            if case.clustered and able and "." not in able[0]:
                sql = sql.replace("USING delta", f"USING delta CLUSTER BY ({cases.quote(able[0])})")
            if case.filled:
                sql = sql.replace("` (", "` (`filled` BIGINT DEFAULT 7, ", 1)
            self._spark.sql(sql)
            if case.constraint:
                added = f"ADD CONSTRAINT bounded CHECK ({case.constraint})"
                self._spark.sql(f"ALTER TABLE delta.`{path}` {added}")

    def _frame(self, number: int, rows: list[tuple[object, ...]] | None = None) -> DataFrame:
        case = self._case
        fields = [*case.schema.fields, *(case.added.fields if number else [])]
        schema = T.StructType(
            [
                T.StructField(f.name, _plain(f.dataType), f.nullable or f in case.schema.fields)
                for f in fields
            ]
        )
        return self._spark.createDataFrame(case.rows[number] if rows is None else rows, schema)

    def _write_theirs(self, number: int) -> Exception | None:
        """Return why Spark refused the batch, or nothing."""
        kinds = {f.name: f.dataType for f in self._case.schema.fields}
        if any(isinstance(kinds[name], T.TimestampType) for name in self._case.partition_by):
            self._spark.conf.set(ZONE, "UTC")  # Spark loses an instant of an hour that repeats
        try:
            writer = self._frame(number).write.format("delta").mode("append")
            writer.option("mergeSchema", "true").save(self.theirs)
        except Exception as error:  # whatever it is, it is a no
            return error
        finally:
            self._spark.conf.set(ZONE, self._case.zone)
        return None

    def _write_ours(self, number: int, written: int) -> Exception | None:
        """Return why the sink refused the batch, or nothing; a driver starts for every batch.

        The columns are known when the driver starts, so only the values may be refused later.
        """
        case = self._case
        driver = Driver(self.ours, epoch=number + 1)
        declared = DeltaAppend(
            path=self.ours, partition_by=case.partition_by, evolve=True, properties={}
        )
        verdict = SizeVerdict.SMALL if case.small else SizeVerdict.LARGE
        sink = DeltaAppendSink(declared, driver.app_id, {}, size=ToldSize(verdict))
        frame = self._frame(number)
        try:
            sink.prepare(driver.life, frame.schema, self._spark)
        except HoldfastError as error:
            return error
        batch = replace(driver.batch(written), expected_rows=max(1, len(case.rows[number])))
        try:
            sink.write(batch, frame)
        except (HoldfastError, Py4JJavaError) as error:
            if any(words in str(error) for words in VIOLATIONS):
                return error
            raise
        return None

    def compare(self) -> None:
        """Raise AssertionError where the tables differ."""
        with override_settings(self._spark, cases.QUICK):
            self._compare()

    def _compare(self) -> None:
        ours, theirs = (self._spark.read.format("delta").load(p) for p in (self.ours, self.theirs))
        more = [f for f in ours.schema.fields if f.name not in theirs.columns]
        if more and self._refused:
            # holdfast adds columns before the batch, Spark only with it.
            assert all(f.nullable for f in more)
            ours = ours.select(*(cases.quote(name) for name in theirs.columns))
        if self._case.created_by_spark:
            assert ours.schema.jsonValue() == theirs.schema.jsonValue()
        else:
            assert ours.schema.simpleString() == theirs.schema.simpleString()
            assert ours.schema.jsonValue() == make_nullable(ours.schema.jsonValue())
        assert self._answers(ours) == self._answers(theirs)
        assert named_partitions(self.ours) == named_partitions(self.theirs)
        if not more:
            self._compare_by_delta_rs()

    def _answers(self, table: DataFrame) -> list[str]:
        """Return all rows, and those that filters find, in one query."""
        row = F.struct(*(F.col(cases.quote(name)) for name in table.columns)).alias("row")
        every = table.select(F.lit(0).alias("question"), row)
        for number, condition in enumerate(self._conditions(), start=1):
            found = table.where(condition).select(F.lit(number).alias("question"), row)
            every = every.unionAll(found)
        return texts_of(every.toArrow())

    def _conditions(self) -> Iterator[Column]:
        draw = Random(self._case.seed)
        rows = self._case.rows[0]
        for index, one in draw.sample(list(enumerate(self._case.schema.fields)), 2):
            nested = isinstance(one.dataType, T.ArrayType | T.MapType | T.StructType)
            values = [row[index] for row in rows if row[index] is not None]
            column = F.col(cases.quote(one.name))
            if values and not nested:
                drawn = draw.choice(values)
                # PySpark spells the year 1 as `1`.
                said = drawn.isoformat() if type(drawn) is dt.date else drawn
                value = F.lit(said).cast(_plain(one.dataType))
                yield draw.choice([column == value, column <= value, column >= value])
            else:
                yield draw.choice([column.isNull(), column.isNotNull()])

    def _compare_by_delta_rs(self) -> None:
        try:
            theirs = read_by_delta_rs(self.theirs)
        except Exception:  # delta-rs does not read every table of Spark's
            return
        assert read_by_delta_rs(self.ours) == theirs


def _plain(kind: T.DataType) -> T.DataType:
    return T.StringType() if isinstance(kind, T.CharType | T.VarcharType) else kind


def read_by_delta_rs(path: str) -> list[str]:
    """Return the rows as texts, sorted."""
    table = deltalake.DeltaTable(path)
    query = deltalake.QueryBuilder().register("t", table)
    return texts_of(pa.table(query.execute("SELECT * FROM t").read_all()))


def texts_of(rows: pa.Table) -> list[str]:
    """Return every row as one text, so that NaN equals NaN and 0.0 does not equal -0.0."""
    return sorted(repr(_normal(row)) for row in rows.to_pylist())


def _normal(value: object) -> object:
    match value:
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC).isoformat()
        case dict():
            return {key: _normal(one) for key, one in value.items()}
        case list():
            return [_normal(one) for one in value]
        case tuple():
            return tuple(_normal(one) for one in value)
        case float() if math.isnan(value):
            return "NaN"
        case _:
            return value


def partitions_of(path: str) -> list[str]:
    """Return the partition values that the table's log names, as text, each once."""
    found = {json.dumps(one, sort_keys=True) for one in named_partitions(path)}
    return sorted(str(sorted(map(str, json.loads(one).values()))) for one in found)


def named_partitions(path: str) -> list[dict[str, str]]:
    """Return the partition values that the table's log names, by the names of the columns."""
    found, names = set(), {}
    for entry in sorted(glob.glob(f"{path}/_delta_log/*.json")):  # noqa: PTH207
        for line in Path(entry).read_text().splitlines():
            action = json.loads(line)
            if "metaData" in action:
                # Column mapping gives a column another name in the log, by chance.
                fields = json.loads(action["metaData"]["schemaString"])["fields"]
                names = {f["metadata"].get(_PHYSICAL, f["name"]): f["name"] for f in fields}
            if "add" in action:
                values = action["add"]["partitionValues"]
                found.add(json.dumps({names[k]: v for k, v in values.items()}, sort_keys=True))
    return [json.loads(one) for one in sorted(found)]
