"""The append sink on real Spark: tables that ask much of a writer, and what each item once lost."""

import contextlib
import datetime as dt
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import deltalake
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own abbreviation
from pyspark.sql.pandas.functions import pandas_udf
from tests import twin_totals
from tests.adapters.delta_driving import Driver
from tests.delta_twins import Twins, draw_case, partitions_of
from tests.measuring import ToldSize

from holdfast.errors import RowsMiscounted, SchemaMismatch, SinkContended, SinkRefused
from holdfast.model.definition import DeltaAppend
from holdfast.model.ids import BatchId, Epoch
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import DeltaAppendSink, executors, ledger
from holdfast.sinks.delta.executors import override_settings
from holdfast.sinks.delta.layout import Layout
from holdfast.storage import Folder, Missing

pytestmark = pytest.mark.spark

ROWS = 20
FIRST_LONG_SEED = 1_000
LARGE, SMALL = SizeVerdict.LARGE, SizeVerdict.SMALL


class Appending:
    """A driver with the append sink, that takes every batch for as large as it is told."""

    def __init__(
        self, path: Path, rows: DataFrame, size: SizeVerdict, by: tuple[str, ...] = ()
    ) -> None:
        self.driver = Driver(path)
        declared = DeltaAppend(path=str(path), partition_by=by, evolve=True, properties={})
        self.sink = DeltaAppendSink(declared, self.driver.app_id, {}, size=ToldSize(size))
        self.sink.prepare(self.driver.life, rows.schema, rows.sparkSession)

    def put(self, number: int, rows: DataFrame) -> Decision:
        """Write a batch."""
        return self.sink.write(replace(self.driver.batch(number), expected_rows=ROWS), rows)


def read(spark: SparkSession, path: Path) -> DataFrame:
    """Read the table with Spark."""
    return spark.read.format("delta").load(str(path))


def engines(path: Path) -> list[str]:
    """Return who made each commit, oldest first."""
    found: list[str] = []
    for entry in sorted((path / "_delta_log").glob("*.json")):
        for line in entry.read_text().splitlines():
            info = json.loads(line).get("commitInfo", {})
            found += [info["engineInfo"].split("/")[0]] if info else []
    return found


@pytest.mark.parametrize("size", [LARGE, SMALL])
@pytest.mark.parametrize("name", ["_day", ".x", "a.b"])
def test_a_partition_column_of_any_name_loses_no_row(
    spark: SparkSession, tmp_path: Path, size: SizeVerdict, name: str
) -> None:
    rows = spark.range(ROWS).select("id", (F.col("id") % 2).cast("string").alias(name))
    rows = rows.withColumn(name, F.concat(F.col(f"`{name}`"), F.lit("/x.parquet")))
    Appending(tmp_path / "t", rows, size, (name,)).put(0, rows)
    assert read(spark, tmp_path / "t").count() == ROWS
    by_driver = list((tmp_path / "t").glob("holdfast-*/part-*"))
    assert bool(by_driver) is (size == SMALL)
    assert len(partitions_of(str(tmp_path / "t"))) == 2


@pytest.mark.parametrize("size", [LARGE, SMALL])
def test_an_instant_has_one_partition_value_in_every_session(
    spark: SparkSession, tmp_path: Path, size: SizeVerdict
) -> None:
    texts = ["2026-01-01 12:00:00Z", "2026-11-01 05:30:00Z", "2026-11-01 06:30:00.000001Z"]
    values = ", ".join(f"({n}L, timestamp'{text}')" for n, text in enumerate(texts))
    with override_settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        rows = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, at)")
        Appending(tmp_path / "t", rows, size, ("at",)).put(0, rows)
        assert spark.conf.get("spark.sql.session.timeZone") == "America/New_York"
    assert partitions_of(str(tmp_path / "t")) == [
        "['2026-01-01T12:00:00.000000Z']",
        "['2026-11-01T05:30:00.000000Z']",
        "['2026-11-01T06:30:00.000001Z']",
    ]
    expected = [dt.datetime.fromisoformat(text.replace(" ", "T")) for text in texts]
    for zone in ("UTC", "Asia/Kolkata"):
        with override_settings(spark, {"spark.sql.session.timeZone": zone}):
            found = read(spark, tmp_path / "t").orderBy("id").toArrow()
        assert [value.astimezone(dt.UTC) for value in found["at"].to_pylist()] == expected
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(tmp_path / "t"))
    found = pa.table(query.execute("SELECT at FROM t ORDER BY id").read_all())
    assert [value.astimezone(dt.UTC) for value in found["at"].to_pylist()] == expected


@pytest.mark.parametrize("size", [LARGE, SMALL])
def test_a_pandas_function_sees_the_zone_of_the_session(
    spark: SparkSession, tmp_path: Path, size: SizeVerdict
) -> None:
    @pandas_udf("string")  # type: ignore[call-overload, untyped-decorator]
    def spell(at: pd.Series) -> pd.Series:
        return at.astype(str)

    with override_settings(spark, {"spark.sql.session.timeZone": "America/New_York"}):
        at = spark.sql("SELECT timestamp'2026-01-01 12:00:00Z' AS at")
        rows = at.withColumn("local", spell("at"))
        Appending(tmp_path / "t", rows, size, ("at",)).put(0, rows)
    assert read(spark, tmp_path / "t").collect()[0].local == "2026-01-01 07:00:00"


RULES = {
    "VARCHAR": ("v VARCHAR(3)", "'ab' AS v", "'abcd' AS v", r"too long: .*length\(v\) <= 3"),
    "CHAR": ("v CHAR(3)", "'ab' AS v", "'abcd' AS v", r"too long: .*length\(v\) <= 3"),
    "NOT NULL": ("v STRING NOT NULL", "'ab' AS v", "STRING(NULL) AS v", "no value .* column `v`"),
    "CHECK": ("v STRING", "'ab' AS v", "'abcd' AS v", r"rule `brief` .*length\(v\) < 4"),
    "generated": (
        "v STRING, n INT GENERATED ALWAYS AS (length(v))",
        "'ab' AS v",
        "'abcd' AS v, 7 AS n",
        "n <=>",
    ),
}


@pytest.mark.parametrize(("columns", "good", "bad", "said"), RULES.values(), ids=RULES)
def test_a_row_that_breaks_a_rule_of_the_table_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, columns: str, good: str, bad: str, said: str
) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, {columns}) USING delta")
    if columns == "v STRING":
        rule = "CONSTRAINT brief CHECK (length(v) < 4)"
        spark.sql(f"ALTER TABLE delta.`{path}` ADD {rule}")
    kept, broken = (spark.sql(f"SELECT 1L AS id, {text}") for text in (good, bad))
    driver = Appending(path, kept, SMALL)
    with pytest.raises(SinkRefused, match=said) as refusal:
        driver.put(0, broken)
    assert "abcd" not in str(refusal.value)
    assert driver.put(0, kept) is Decision.WRITE
    assert read(spark, path).collect()[0].v.strip() == "ab"


def test_rows_that_lack_a_column_that_must_not_be_null_are_refused_before_the_first_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, v STRING NOT NULL) USING delta")
    with pytest.raises(SchemaMismatch, match="`v`"):
        Appending(path, spark.range(1), SMALL)


def test_rows_that_number_themselves_are_refused_before_the_first_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    columns = "id BIGINT GENERATED ALWAYS AS IDENTITY, v STRING"
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
    with pytest.raises(SchemaMismatch, match="`id`"):
        Appending(path, spark.sql("SELECT 1L AS id, 'x' AS v"), SMALL)


def test_rows_that_no_longer_fit_are_not_appended(spark: SparkSession, tmp_path: Path) -> None:
    """Delta's transaction takes rows of any type, and starts after the look at the table."""
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT NOT NULL, v STRING) USING delta")
    driver, meanwhile = Driver(path), list[Callable[[], object]]()

    def happen(*_: object) -> bool:
        for one in meanwhile:
            one()
        return False

    declared = DeltaAppend(path=str(path), partition_by=(), evolve=False, properties={})
    sink = DeltaAppendSink(declared, driver.app_id, {}, overwrites=happen)
    rows = spark.sql("SELECT 1L AS id, 'x' AS v")
    sink.prepare(driver.life, rows.schema, spark)
    other = spark.sql("SELECT 'one' AS id, 'x' AS v").write.format("delta").mode("overwrite")
    meanwhile.append(lambda: other.option("overwriteSchema", "true").save(str(path)))
    with pytest.raises(SinkContended, match="changed its columns"):
        sink.write(driver.batch(0), rows)
    assert [tuple(row) for row in read(spark, path).collect()] == [("one", "x")]


@pytest.mark.parametrize("columns", ["id BIGINT NOT NULL", "id BIGINT, n BIGINT DEFAULT 1"])
def test_a_batch_whose_file_was_lost_is_not_committed_by_spark(
    spark: SparkSession, tmp_path: Path, columns: str
) -> None:
    """The same guard holds where the table asks for Delta's own commit."""
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({columns}) USING delta"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    rows = spark.range(ROWS).repartition(2)
    driver = Appending(path, rows, LARGE)
    head, table = driver.driver.table.log.head(), str(path)
    transaction = executors.AppTransaction(
        path=table, app_id=driver.driver.app_id, version=ledger.pack(Epoch(1), BatchId(0)), said=""
    )
    losing = Losing(driver.driver.table.store, path, LOSSES["replaces"])
    with pytest.raises(RowsMiscounted):
        executors.append(
            losing, executors.start(spark, table, head.table, head.version), head, rows, transaction
        )
    assert read(spark, path).count() == 0
    assert driver.put(0, rows) is Decision.WRITE
    assert read(spark, path).count() == ROWS
    assert engines(path)[-1] == "Apache-Spark"


# what a table may ask of whoever changes its columns
ASKING = {
    "nothing": "",
    "row tracking": "TBLPROPERTIES ('delta.enableRowTracking' = 'true')",
    "column mapping": "TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "in-commit timestamps": "TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')",
    "type widening": "TBLPROPERTIES ('delta.enableTypeWidening' = 'true')",
    "clustering": "CLUSTER BY (id)",
    "defaults": "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
    "change data feed": "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
    "deletion vectors": "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
    "v2 checkpoints": "TBLPROPERTIES ('delta.checkpointPolicy' = 'v2')",
}


@pytest.mark.parametrize("asked", ASKING.values(), ids=ASKING)
def test_columns_are_added_nullable_whatever_the_table_asks(
    spark: SparkSession, tmp_path: Path, asked: str
) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta {asked}")
    first = spark.range(1)
    wider = first.select(
        "id",
        F.lit("x").alias("said"),
        F.current_timestamp().alias("at"),
        F.struct(F.lit(1).alias("n")).alias("s"),
    )
    driver = Appending(path, first, SMALL)
    driver.put(0, first)
    driver.put(1, wider)
    found = read(spark, path)
    assert sorted(str(row.said) for row in found.collect()) == ["None", "x"]
    assert all(field.nullable for field in found.schema.fields)
    assert found.schema["s"].dataType["n"].nullable  # type: ignore[index]


def test_a_column_that_needs_a_feature_is_refused_before_the_first_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark's own writer asks for the feature to be enabled by hand."""
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta")
    local = F.to_timestamp_ntz(F.lit("2026-01-01 00:00:00")).alias("local")
    rows = spark.range(1).select("id", local)
    with pytest.raises(SinkRefused, match="timestampNtz"):
        Appending(path, rows, SMALL)


def test_an_identity_column_is_left_to_the_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    columns = "n BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT"
    spark.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta")
    rows = spark.range(1)
    driver = Appending(path, rows, SMALL)
    assert driver.put(0, rows) is Decision.WRITE
    assert driver.put(1, rows.withColumn("more", F.lit(1))) is Decision.WRITE
    assert read(spark, path).where("n IS NOT NULL").count() == 2


def test_a_log_store_that_decides_elsewhere_gets_every_commit(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    rows = spark.range(ROWS)
    session = Configured(spark, {"spark.delta.logStore.file.impl": "io.delta.storage.Dynamo"})
    driver = Driver(path)
    declared = DeltaAppend(path=str(path), partition_by=(), evolve=True, properties={})
    sink = DeltaAppendSink(declared, driver.app_id, {})
    sink.prepare(driver.life, rows.schema, session)  # type: ignore[arg-type]
    sink.write(driver.batch(0), rows)
    sink.write(driver.batch(1), rows.withColumn("more", F.lit(1)))
    assert set(engines(path)) == {"Apache-Spark"}
    assert read(spark, path).count() == 2 * ROWS


class Configured:
    """A session whose context was started with more settings."""

    def __init__(self, spark: SparkSession, more: dict[str, str]) -> None:
        self._spark = spark
        self._more = more

    def __getattr__(self, name: str) -> object:
        return getattr(self._spark, name)

    @property
    def sparkContext(self) -> "Configured":  # noqa: N802  Spark's name
        """This very thing, as a context."""
        return self

    def getConf(self) -> "Configured":  # noqa: N802  Spark's name
        """This very thing, as a configuration."""
        return self

    def get(self, key: str) -> str | None:
        """Return a setting."""
        return self._more.get(key)


def test_a_log_store_of_the_other_scheme_is_refused(spark: SparkSession) -> None:
    dynamo = "io.delta.storage.S3DynamoDBLogStore"
    session = Configured(spark, {"spark.delta.logStore.s3.impl": dynamo})
    driver = Driver("s3://bucket/table")
    with pytest.raises(SinkRefused, match="S3DynamoDBLogStore"):
        driver.table.prepare(driver.life, spark.range(1).schema, session)  # type: ignore[arg-type]


@pytest.mark.parametrize("codec", ["zstd", "none", "lz4"])
def test_files_are_compressed_as_the_session_says(
    spark: SparkSession, tmp_path: Path, codec: str
) -> None:
    rows = spark.range(ROWS)
    with override_settings(spark, {"spark.sql.parquet.compression.codec": codec}):
        Appending(tmp_path / "t", rows, SMALL).put(0, rows)
    (file, *_) = (tmp_path / "t").rglob("*.parquet")
    found = pq.read_metadata(file).row_group(0).column(0).compression.lower()
    # pyarrow has no name for the LZ4 of Hadoop, which only Spark's writer writes
    assert found == {"none": "uncompressed", "lz4": "unknown"}.get(codec, codec)


@pytest.mark.parametrize("size", [LARGE, SMALL])
@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("dataSkippingNumIndexedCols", "1", ["a"]),
        ("dataSkippingNumIndexedCols", "0", []),
        ("dataSkippingStatsColumns", "s.n,`b.c`", ["b.c", "s"]),
    ],
)
def test_statistics_are_of_the_columns_that_the_table_names(
    spark: SparkSession,
    tmp_path: Path,
    size: SizeVerdict,
    key: str,
    value: str,
    expected: list[str],
) -> None:
    path = tmp_path / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (a BIGINT, `b.c` BIGINT, s STRUCT<n: BIGINT, m: BIGINT>)"
        f" USING delta TBLPROPERTIES ('delta.{key}' = '{value}')"
    )
    rows = spark.sql("SELECT 1L AS a, 2L AS `b.c`, named_struct('n', 3L, 'm', 4L) AS s")
    Appending(path, rows, size).put(0, rows)
    actions = [
        json.loads(line)
        for line in max((path / "_delta_log").glob("*.json")).read_text().splitlines()
    ]
    stats = json.loads(next(a["add"]["stats"] for a in actions if "add" in a))
    assert stats["numRecords"] == 1
    assert sorted(stats["minValues"]) == expected
    assert stats["minValues"].get("s", {"n": 3}) == {"n": 3}


def test_the_log_gets_a_checkpoint_as_often_as_the_table_says(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    rows = spark.range(1)
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT) USING delta"
        " TBLPROPERTIES ('delta.checkpointInterval' = '3')"
    )
    driver = Appending(path, rows, SMALL)  # version 1
    found: set[int] = set()
    deadline = time.monotonic() + 100
    for number in itertools.count():  # one is left out while the one before is still written
        driver.put(number, rows)
        found |= {int(one.name[:20]) for one in (path / "_delta_log").glob("*.checkpoint.parquet")}
        if len(found) > 1:
            break
        assert time.monotonic() < deadline
    # Each is of the newest commit when it begins, which may be a few after the third.
    assert len({version // 3 for version in found}) == len(found)
    assert min(found) >= 3


# what a storage can do to a file of a batch before the commit names it
LOSSES: dict[str, Callable[[Path], object]] = {
    "deletes": lambda file: file.unlink(),
    "truncates": lambda file: file.write_bytes(file.read_bytes()[:-20]),
    "replaces": lambda file: pq.write_table(pa.table({"id": [1]}), file),
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_a_batch_whose_file_was_lost_is_not_committed(
    spark: SparkSession, tmp_path: Path, lose: Callable[[Path], object]
) -> None:
    path = tmp_path / "t"
    rows = spark.range(ROWS).repartition(2)
    driver = Appending(path, rows, LARGE)
    losing = Losing(driver.driver.table.store, path, lose)
    with pytest.raises(RowsMiscounted):
        executors.write_files(losing, str(path), driver.driver.table.log.head(), rows, Layout())
    assert read(spark, path).count() == 0


def test_a_table_that_was_created_again_is_not_written_from_memory(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark may remember the table that was at this place before."""
    path = tmp_path / "t"
    rows = spark.range(ROWS)
    Appending(path, rows, LARGE).put(0, rows)
    shutil.rmtree(path)
    wider = rows.withColumn("more", F.lit("x"))
    again = Appending(path, wider, LARGE)
    with contextlib.suppress(SinkContended):
        again.put(0, wider)
    again.put(0, wider)
    assert read(spark, path).where("more = 'x'").count() == ROWS


class Losing:
    """The table's folder on a storage that loses the first file that is looked at."""

    def __init__(self, store: Folder, path: Path, lose: Callable[[Path], object]) -> None:
        self._store = store
        self._path = path
        self._lose = [lose]
        self.write, self.names, self.delete = store.write, store.names, store.delete
        self.size = store.size

    def read(self, path: str, *, last: int | None = None) -> bytes | Missing:
        """Lose it, then look."""
        while self._lose:
            self._lose.pop()(self._path / path)
        return self._store.read(path, last=last)


@pytest.mark.parametrize("seed", range(10))
def test_holdfast_writes_what_spark_writes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    twins = Twins(spark, draw_case(seed), tmp_path)
    twins.write()
    twins.compare()


@pytest.mark.prove
@pytest.mark.timeout(0)
def test_holdfast_writes_what_spark_writes_for_an_hour(spark: SparkSession, tmp_path: Path) -> None:
    """Go on from the seed after the last one, for `HOLDFAST_TWIN_SECONDS`; keep the totals."""
    budget = float(os.environ.get("HOLDFAST_TWIN_SECONDS", "3600"))
    ends = time.monotonic() + budget
    while (started := time.monotonic()) < ends:
        seed = twin_totals.read_total("append").next_seed
        case = draw_case(FIRST_LONG_SEED + seed)
        home = tmp_path / str(seed)
        twins = Twins(spark, case, home)
        try:
            twins.write()
            twins.compare()
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error
        twin_totals.add_case("append", time.monotonic() - started)
        shutil.rmtree(home)


OLD_CALENDAR = {
    "days": {"spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY"},
    "int96": {"spark.sql.parquet.outputTimestampType": "INT96"},
    "int96 of the old calendar": {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    },
}


@pytest.mark.parametrize("chosen", OLD_CALENDAR.values(), ids=OLD_CALENDAR)
def test_rows_of_early_dates_are_found_whatever_calendar_wrote_them(
    spark: SparkSession, tmp_path: Path, chosen: dict[str, str]
) -> None:
    """Bounds of the old calendar would make readers skip the file."""
    rows = spark.sql(
        "SELECT 1L AS id, date'1500-02-20' AS day, timestamp'1500-02-20 01:02:03Z' AS at"
    )
    with override_settings(spark, chosen):
        Appending(tmp_path / "t", rows, LARGE).put(0, rows)
    found = read(spark, tmp_path / "t")
    assert found.where("day = date'1500-02-20'").count() == 1
    assert found.where("at = timestamp'1500-02-20 01:02:03Z'").count() == 1
