"""What is refused about a table before a batch is planned, and again when the table changed."""

import datetime as dt
from collections.abc import Iterable, Mapping
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  Spark's own abbreviation
from tests.measuring import ToldSize

from holdfast.errors import HoldfastError, SchemaMismatch, SinkRefused
from holdfast.model.batch import Batch, LedgerKey, Writer
from holdfast.model.definition import DeltaAppend, DeltaMerge
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import DeltaAppendSink, DeltaMergeSink
from holdfast.sinks.delta.executors import override_settings
from holdfast.sinks.delta.ledger import make_app_id

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"


class Started:
    """A driver with a sink of either kind, as it is declared."""

    def __init__(
        self,
        path: Path,
        *,
        by: tuple[str, ...] = (),
        properties: Mapping[str, str] | None = None,
        evolve: bool = False,
        keys: tuple[str, ...] = (),
    ) -> None:
        self.life = Writer(
            job=JobName("j"), generation=Generation(1), epoch=Epoch(1), location="/base/j"
        )
        app_id = make_app_id(
            LedgerKey(job=self.life.job, generation=self.life.generation, output=OutputName("t"))
        )
        self.size = ToldSize(SizeVerdict.SMALL)
        given = dict(properties or {})
        self.sink: DeltaAppendSink | DeltaMergeSink
        if keys:
            merging = DeltaMerge(
                path=str(path), keys=keys, newest=None, partition_by=by, properties=given
            )
            self.sink = DeltaMergeSink(merging, app_id, {}, size=self.size)
        else:
            adding = DeltaAppend(path=str(path), partition_by=by, evolve=evolve, properties=given)
            self.sink = DeltaAppendSink(adding, app_id, {}, size=self.size)

    def prepare(self, rows: DataFrame) -> "Started":
        """Prepare the sink for such rows."""
        self.sink.prepare(self.life, rows.schema, rows.sparkSession)
        return self

    def put(
        self, number: int, rows: DataFrame, verdict: SizeVerdict = SizeVerdict.SMALL
    ) -> Decision:
        """Write one batch."""
        self.size.verdict = verdict
        batch = Batch(
            life=self.life,
            id=BatchId(number),
            digest=Digest(f"digest-{number}"),
            offsets=[],
            expected_rows=Unknown(reason="nobody counts"),
        )
        return self.sink.write(batch, rows)


UNFIT = {
    "no such column": ("1 AS id, 2 AS n", ("day",), "no such column"),
    "an array": ("1 AS id, array(1) AS p", ("p",), "array<int>"),
    "a map": ("1 AS id, map('a', 1) AS p", ("p",), "map<string,int>"),
    "a struct": ("1 AS id, struct(1 AS x) AS p", ("p",), "struct<x:int>"),
    "binary": ("1 AS id, X'ff' AS p", ("p",), "binary"),
    "every column": ("1 AS id, 'x' AS p", ("P", "id"), "by all its columns"),
    "an array of nothing": ("1 AS id, array() AS v", (), "array<void>"),
    "an interval": ("1 AS id, interval '1' day AS v", (), "interval day"),
    "months": ("1 AS id, interval '1' month AS v", (), "interval month"),
    "a collation": ("1 AS id, 'x' COLLATE UTF8_LCASE AS v", (), "collate"),
    "one name twice": ("1 AS id, 2 AS ID", (), "twice"),
    "one name twice inside": ("named_struct('x', 1, 'X', 2) AS s", (), "twice"),
}


@pytest.mark.parametrize(("columns", "by", "told"), UNFIT.values(), ids=UNFIT)
def test_a_table_that_would_not_work_is_not_created(
    spark: SparkSession, tmp_path: Path, columns: str, by: tuple[str, ...], told: str
) -> None:
    rows = spark.sql(f"SELECT {columns}")
    with pytest.raises(SchemaMismatch, match=told):
        Started(tmp_path / "t", by=by).prepare(rows)
    with pytest.raises(HoldfastError):
        Started(tmp_path / "t", by=by, keys=("id",)).prepare(rows)
    assert not (tmp_path / "t").exists()


def test_letter_case_does_not_tell_partition_columns_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.sql("SELECT 1 AS id, 'x' AS day")
    driver = Started(tmp_path / "t", by=("Day",)).prepare(rows)
    for number, verdict in enumerate((SizeVerdict.SMALL, SizeVerdict.LARGE)):
        assert driver.put(number, rows, verdict) is Decision.WRITE
    assert deltalake.DeltaTable(tmp_path / "t").metadata().partition_columns == ["day"]


BY_SPARK = {
    "of one's own": {"my.key": "x"},
    "a feature": {"delta.feature.allowColumnDefaults": "supported"},
    "row tracking": {"delta.enableRowTracking": "true"},
    "in-commit time stamps": {"delta.enableInCommitTimestamps": "true"},
    "other letters": {"delta.appendonly": "true"},
}


@pytest.mark.parametrize("properties", BY_SPARK.values(), ids=BY_SPARK)
def test_properties_that_delta_rs_does_not_know_are_left_to_spark(
    spark: SparkSession, tmp_path: Path, properties: Mapping[str, str]
) -> None:
    rows = spark.sql("SELECT 1 AS id, 'x' AS v")
    driver = Started(tmp_path / "t", properties=properties).prepare(rows)
    for number, verdict in enumerate((SizeVerdict.SMALL, SizeVerdict.LARGE)):
        assert driver.put(number, rows, verdict) is Decision.WRITE
    assert spark.read.format("delta").load(str(tmp_path / "t")).count() == 2


INVALID = {
    "unknown": {"delta.foo": "bar"},
    "no number": {"delta.dataSkippingNumIndexedCols": "abc"},
    "not positive": {"delta.checkpointInterval": "0"},
}


@pytest.mark.parametrize("properties", INVALID.values(), ids=INVALID)
def test_properties_that_delta_does_not_take_are_refused(
    spark: SparkSession, tmp_path: Path, properties: Mapping[str, str]
) -> None:
    rows = spark.sql("SELECT 1 AS id, 'x' AS v")
    with pytest.raises(SinkRefused, match="as it is declared") as caught:
        Started(tmp_path / "t", properties=properties).prepare(rows)
    assert "`properties`" in caught.value.hint
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["append", "merge"])
def test_columns_of_the_change_data_feed_are_refused(
    spark: SparkSession, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    """Spark would take the rows for changes, and leave them out of the table."""
    feed = {"delta.enableChangeDataFeed": "true"}
    rows = spark.sql("SELECT 1 AS id, 'insert' AS _change_type")
    with pytest.raises(SchemaMismatch, match="change data feed"):
        Started(tmp_path / "new", properties=feed, keys=keys).prepare(rows)
    driver = Started(tmp_path / "t", keys=keys).prepare(rows)
    driver.put(0, rows)
    spark.sql(
        f"ALTER TABLE delta.`{tmp_path / 't'}` SET TBLPROPERTIES"
        " ('delta.enableChangeDataFeed' = 'false')"
    )
    driver.put(1, rows)
    path = tmp_path / "t"
    table = deltalake.DeltaTable(path)
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    with pytest.raises(SchemaMismatch, match="change data feed"):
        driver.put(2, rows, SizeVerdict.LARGE)
    assert spark.read.format("delta").load(str(path)).count() == (1 if keys else 2)


def test_a_feed_that_is_switched_on_while_a_batch_is_collected_stops_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The files are written by then, and not committed."""
    path = tmp_path / "t"
    rows = spark.sql("SELECT 1 AS id, 'insert' AS _change_type")
    driver = Started(path).prepare(rows)
    driver.put(0, rows)
    table = str(path)

    def switch_on(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        properties = {"delta.enableChangeDataFeed": "true"}
        deltalake.DeltaTable(table).alter.set_table_properties(properties)
        yield from batches

    late = rows.coalesce(1).mapInArrow(switch_on, rows.schema)
    with pytest.raises(SchemaMismatch, match="change data feed"):
        driver.put(1, late)
    assert spark.read.format("delta").load(table).count() == 1


def test_rows_without_the_partition_column_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id int, p string) USING delta PARTITIONED BY (p)")
    with pytest.raises(SchemaMismatch, match=r"`p` .* which the table is partitioned by"):
        Started(path).prepare(spark.sql("SELECT 1 AS id"))


def test_a_partition_column_that_the_table_fills_may_be_missing(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    (
        DeltaTable.create(spark)
        .location(str(path))
        .addColumn("id", "INT")
        .addColumn("p", "INT", generatedAlwaysAs="id * 2")
        .partitionedBy("p")
        .execute()
    )
    rows = spark.sql("SELECT 1 AS id")
    assert Started(path).prepare(rows).put(0, rows) is Decision.WRITE
    assert [tuple(row) for row in spark.read.format("delta").load(str(path)).collect()] == [(1, 2)]


@pytest.mark.parametrize(
    "column",
    ["array() AS v", "interval '1' day AS v", "'x' COLLATE UTF8_LCASE AS v"],
)
def test_a_column_that_delta_cannot_keep_is_not_added(
    spark: SparkSession, tmp_path: Path, column: str
) -> None:
    Started(tmp_path / "t", evolve=True).prepare(spark.sql("SELECT 1 AS id"))
    with pytest.raises(SchemaMismatch, match="`v`"):
        Started(tmp_path / "t", evolve=True).prepare(spark.sql(f"SELECT 1 AS id, {column}"))
    assert [field.name for field in deltalake.DeltaTable(tmp_path / "t").schema().fields] == ["id"]


def test_nulls_inside_a_column_that_takes_none_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's Delta writer would store them as zeros."""
    path = tmp_path / "t"
    kind = T.ArrayType(T.LongType(), containsNull=False)
    schema = T.StructType([T.StructField("id", T.LongType()), T.StructField("v", kind)])
    DeltaTable.create(spark).location(str(path)).addColumns(schema).execute()
    rows = spark.sql("SELECT 1L AS id, array(1L, null) AS v")
    with pytest.raises(SchemaMismatch, match="no nulls inside") as caught:
        Started(path).prepare(rows)
    assert "array_compact" in caught.value.hint
    fixed = rows.selectExpr("id", "array_compact(v) AS v")
    assert Started(path).prepare(fixed).put(0, fixed) is Decision.WRITE


@pytest.mark.parametrize("keys", [(), ("id",)], ids=["append", "merge"])
def test_text_that_is_not_utf_8_names_a_partition_as_spark_names_it(
    spark: SparkSession, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    rows = spark.sql("SELECT 1 AS id, 'x' AS v, cast(X'ff61' AS string) AS p")
    driver = Started(tmp_path / "t", by=("p",), keys=keys).prepare(rows)
    assert driver.put(0, rows) is Decision.WRITE
    found = spark.read.format("delta").load(str(tmp_path / "t")).collect()
    assert [tuple(row) for row in found] == [(1, "x", "\ufffda")]


@pytest.mark.parametrize("verdict", [SizeVerdict.SMALL, SizeVerdict.LARGE])
@pytest.mark.parametrize("keys", [(), ("id",)], ids=["append", "merge"])
def test_what_prepare_refuses_is_refused_after_a_change_of_the_table_too(
    spark: SparkSession, tmp_path: Path, keys: tuple[str, ...], verdict: SizeVerdict
) -> None:
    """A constraint makes Spark spell partition values in the zone of the session."""
    path = tmp_path / "t"
    instants = [dt.datetime(2026, 11, 1, hour, 30, tzinfo=dt.UTC) for hour in (5, 6)]
    with override_settings(spark, {ZONE: "America/New_York"}):
        rows = spark.createDataFrame(list(enumerate(instants)), "id long, p timestamp")
        driver = Started(path, by=("p",), keys=keys).prepare(rows)
        driver.put(0, rows, verdict)
        spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT c CHECK (id >= 0)")
        with pytest.raises(SinkRefused, match="in the time zone `America/New_York`"):
            driver.put(1, rows, verdict)


def test_a_feature_that_a_new_column_needs_is_enabled_as_told(
    spark: SparkSession, tmp_path: Path
) -> None:
    Started(tmp_path / "t", evolve=True).prepare(spark.sql("SELECT 1 AS id"))
    rows = spark.sql("SELECT 1 AS id, timestamp_ntz'2026-01-01 00:00:00' AS v")
    with pytest.raises(SinkRefused, match="Cannot add `v`") as caught:
        Started(tmp_path / "t", evolve=True).prepare(rows)
    statement = caught.value.hint.partition("`ALTER")[2].rpartition("` with Spark SQL")[0]
    spark.sql(f"ALTER{statement}")
    assert Started(tmp_path / "t", evolve=True).prepare(rows).put(0, rows) is Decision.WRITE
