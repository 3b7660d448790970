"""Which errors last: as real Spark and Delta raise them, in a batch and in a query."""

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

from holdfast import Pipeline, sinks, sources
from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.run import order
from holdfast.run.start.admission import RunOptions
from holdfast.sinks import spark_failure
from holdfast.sinks.delta.append import to_sink_error

pytestmark = pytest.mark.spark


def _fails(value: int) -> int:
    raise ValueError(f"[UNRESOLVED_COLUMN] AnalysisException: {value} doesn't exist")


def _udf(spark: SparkSession, _: Path) -> None:
    fails = F.udf(lambda value: _fails(value), LongType())  # noqa: PLW0108  no annotations
    spark.range(1).select(fails("id")).collect()


def _no_parquet(spark: SparkSession, home: Path) -> None:
    (home / "x.parquet").write_bytes(b"not a file of Parquet's")
    spark.read.schema("id LONG").parquet(str(home)).collect()


def _full_disk(spark: SparkSession, home: Path) -> None:
    (home / "a").write_text("")
    spark.range(1).write.parquet(str(home / "a" / "b"))


def _no_column(spark: SparkSession, _: Path) -> None:
    spark.range(1).select("nope")


def _no_sql(spark: SparkSession, _: Path) -> None:
    spark.sql("SELEC 1")


def _types(spark: SparkSession, _: Path) -> None:
    spark.sql("SELECT array(1) + 1")


def _constraint(spark: SparkSession, home: Path) -> None:
    place = f"delta.`{home}/t`"
    spark.range(0).write.format("delta").save(str(home / "t"))
    spark.sql(f"ALTER TABLE {place} ADD CONSTRAINT small CHECK (id < 5)")
    spark.range(10).write.format("delta").mode("append").save(str(home / "t"))


def _columns(spark: SparkSession, home: Path) -> None:
    spark.range(1).write.format("delta").save(str(home / "t"))
    more = spark.range(1).withColumn("more", F.lit(1))
    more.write.format("delta").mode("append").save(str(home / "t"))


_ERRORS: dict[str, tuple[Callable[[SparkSession, Path], None], bool]] = {
    "a function that failed": (_udf, False),
    "a file that cannot be read": (_no_parquet, False),
    "storage that cannot be written": (_full_disk, False),
    "a column that is missing": (_no_column, True),
    "SQL that is wrong": (_no_sql, True),
    "types that do not fit": (_types, True),
    "rows against a constraint": (_constraint, True),
    "columns that the table lacks": (_columns, True),
}


@pytest.mark.parametrize(("fail", "lasts"), _ERRORS.values(), ids=_ERRORS)
def test_only_what_spark_names_as_lasting_lasts(
    spark: SparkSession,
    tmp_path: Path,
    fail: Callable[[SparkSession, Path], None],
    lasts: bool,  # noqa: FBT001
) -> None:
    with pytest.raises((PySparkException, Py4JJavaError)) as raised:
        fail(spark, tmp_path)
    named = spark_failure.list_conditions(raised.value)
    assert spark_failure.is_lasting(raised.value) is lasts, named
    if isinstance(raised.value, PySparkException):
        expected = SinkRefused if lasts else SinkUnavailable
        assert type(to_sink_error("/lake/t", raised.value)) is expected


def test_a_function_that_fails_once_does_not_end_a_job_with_a_column_mapped_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Such a table is written by Spark, so that the function fails inside of the sink's write."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/a.json").write_text('{"id": 7}')
    failed = tmp_path / "failed"

    def flaky(value: int) -> int:
        if not failed.exists():
            failed.write_text("")
            raise ValueError("no answer of the service")
        return value + 1

    mapped = {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2",
              "delta.minWriterVersion": "5"}  # fmt: skip
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/t` (id LONG) USING delta TBLPROPERTIES ("
              + ",".join(f"'{key}'='{value}'" for key, value in mapped.items()) + ")")  # fmt: skip
    declared = Pipeline("test", checkpoints=str(tmp_path / "checkpoints"))
    landing = sources.files(str(tmp_path / "landing"), format="json", schema="id LONG")
    apply = F.udf(lambda value: flaky(value), LongType())  # noqa: PLW0108  no annotations
    declared.job("job", reads=landing, writes=sinks.delta_append(str(tmp_path / "t")))(
        lambda rows: rows.select(apply("id").alias("id"))
    )
    options = RunOptions(dev=True, once=True, restarts=1)
    said: list[str] = []
    order.start(
        declared.declaration, declared.jobs, options, lambda _: spark, say=said.append
    ).wait()
    assert "restart 1 of 1" in said[1]
    assert [
        row["id"] for row in spark.read.format("delta").load(str(tmp_path / "t")).collect()
    ] == [8]
