"""Merges into Delta by delta-rs and by Spark: one table, whichever way a batch went."""

import dataclasses
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from threading import Thread
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  Spark's own abbreviation
from tests import delta_cases
from tests.adapters.test_delta_merge import NEWEST
from tests.merging import WRITERS, MergeCase, Merger, draw_case, run_case

from holdfast.errors import (
    DriverFenced,
    RowsMiscounted,
    SchemaMismatch,
    SinkContended,
    SinkRefused,
)
from holdfast.model.batch import LedgerKey
from holdfast.model.definition import DeltaAppend
from holdfast.model.ids import BatchId, Epoch, OutputName
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import DeltaAppendSink, clone, executors, ledger, merge, merged_rows
from holdfast.sinks.delta.executors import override_settings
from holdfast.sinks.delta.ledger import make_app_id
from holdfast.sinks.delta.newest import MergeRule
from holdfast.storage import open_store

pytestmark = pytest.mark.spark

CASES = 8
WAYS = pytest.mark.parametrize("aside", [False, True], ids=["in place", "aside"])
LONG_CASES = 500


def case_of(
    rows: str, *, keys: tuple[str, ...], newest: str | None = None, aside: bool = False
) -> MergeCase:
    """A case without batches: what the sink is declared with."""
    schema = T.DataType.fromDDL(rows)
    assert isinstance(schema, T.StructType)
    return MergeCase(
        table=schema,
        rows=schema,
        keys=keys,
        newest=newest,
        partition_by=(),
        zone="UTC",
        aside=aside,
        batches=[],
        verdicts=[],
    )


def held(spark: SparkSession, path: Path) -> list[tuple[object, ...]]:
    rows = spark.read.format("delta").load(str(path)).collect()
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.parametrize("seed", range(CASES))
def test_drawn_merges_leave_what_the_rules_say(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    case = draw_case(Random(seed))
    found, wanted = run_case(spark, tmp_path / "table", case)
    assert found == wanted, case


@pytest.mark.prove
@pytest.mark.slow
@pytest.mark.timeout(7_200)
def test_many_drawn_merges_leave_what_the_rules_say(spark: SparkSession, tmp_path: Path) -> None:
    for seed in range(CASES, LONG_CASES):
        case = draw_case(Random(seed))
        found, wanted = run_case(spark, tmp_path / f"table-{seed}", case)
        assert found == wanted, (seed, case)


@pytest.mark.parametrize("writer", WRITERS.values(), ids=WRITERS)
def test_a_small_merge_leaves_other_rows_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, writer: Mapping[str, str]
) -> None:
    """A merge rewrites whole files: also rows whose times delta-rs would read differently."""
    path = tmp_path / "table"
    case = case_of("id long, until timestamp, born date, n long", keys=("id",))
    query = "SELECT {} AS id, timestamp'9999-12-31 01:02:03Z' AS until, date'1500-02-28' AS born"
    with override_settings(spark, writer):
        rows = spark.sql(query.format("id") + ", 0L AS n FROM range(2)").coalesce(1)
        rows.write.format("delta").save(str(path))
    before = held(spark, path)
    merger = Merger(path, case)
    merger.prepare(rows)
    merger.write(0, spark.sql(query.format("1L") + ", 5L AS n"))
    assert held(spark, path) == [before[0], (*before[1][:-1], 5)]


def test_only_files_that_delta_rs_reads_as_spark_are_merged_by_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By the driver while it may; by Spark from the first foreign file until none is left."""
    path = tmp_path / "table"
    case = case_of("id long, at timestamp", keys=("id",))
    one = "SELECT {}L AS id, timestamp'2026-01-01 00:00:00Z' AS at"
    engines = []
    merger = Merger(path, case)
    merger.prepare(spark.sql(one.format(0)))
    for number in range(5):
        if number == 4:
            merger = Merger(path, case, epoch=2)
            merger.prepare(spark.sql(one.format(0)))
        if number == 2:
            with override_settings(spark, WRITERS["INT96"]):
                spark.sql(one.format(100)).write.format("delta").mode("append").save(str(path))
        merger.write(number, spark.sql(one.format(number)))
        last = deltalake.DeltaTable(path).history(1)[0]
        engines.append("Spark" if "Spark" in str(last.get("engineInfo")) else "driver")
        if number == 3:
            with override_settings(spark, WRITERS["as holdfast sets Spark"]):
                spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 100")
    assert engines == ["driver", "driver", "Spark", "Spark", "driver"]


def test_the_newest_wins_by_spark_as_by_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    """The cases of the driver's path, all in one table: a key of its own for each case."""
    case = case_of(
        "case string, key string, at long, value string", keys=("case", "key"), newest="at"
    )
    merger = Merger(tmp_path / "table", case, SizeVerdict.LARGE)
    merger.prepare(spark.createDataFrame([], case.rows))
    for number in range(max(len(batches) for batches, _ in NEWEST.values())):
        rows = [
            (name, *row)
            for name, (batches, _) in NEWEST.items()
            for row in (batches[number] if number < len(batches) else ())
        ]
        merger.write(number, spark.createDataFrame(rows, case.rows))
    wanted = [(name, *row) for name, (_, rows) in NEWEST.items() for row in rows]
    assert held(spark, tmp_path / "table") == sorted(wanted, key=repr)


@pytest.mark.parametrize("verdict", [SizeVerdict.SMALL, SizeVerdict.LARGE])
def test_a_nan_is_one_value_whatever_its_bits(
    spark: SparkSession, tmp_path: Path, verdict: SizeVerdict
) -> None:
    """As a key, and as the newest of all."""
    other = "sqrt(double(1 - id))"  # computed by the machine, which mostly sets its sign
    case = case_of("k double, v double, n long", keys=("k",), newest="v")
    merger = Merger(tmp_path / "table", case, verdict)
    merger.prepare(spark.createDataFrame([], case.rows))
    merger.write(0, spark.sql("SELECT double('NaN') AS k, 5D AS v, 0L AS n"))
    merger.write(1, spark.sql(f"SELECT {other} AS k, {other} AS v, 1L AS n FROM range(2, 3)"))
    merger.write(2, spark.sql("SELECT double('NaN') AS k, double('inf') AS v, 2L AS n"))
    assert [row[2] for row in held(spark, tmp_path / "table")] == [1]

    case = case_of("k long, v double, n long", keys=("k",), newest="v")
    merger = Merger(tmp_path / "newest", case, verdict)
    merger.prepare(spark.createDataFrame([], case.rows))
    for number, newest in enumerate(("-0D", "0D", "5D", other, "double('NaN')", "double('inf')")):
        rows = spark.sql(f"SELECT 1L AS k, {newest} AS v, {number}L AS n FROM range(2, 3)")
        merger.write(number, rows)
    assert [row[2] for row in held(spark, tmp_path / "newest")] == [3]


@pytest.mark.parametrize("verdict", list(SizeVerdict))
def test_a_key_twice_without_a_rule_is_refused(
    spark: SparkSession, tmp_path: Path, verdict: SizeVerdict
) -> None:
    case = case_of("k long, v string", keys=("K",))
    merger = Merger(tmp_path / "table", case, verdict)
    merger.prepare(spark.createDataFrame([], case.rows))
    twice = spark.createDataFrame([(None, "x"), (None, "y")], case.rows)
    with pytest.raises(SinkRefused, match="a key more than once"):
        merger.write(0, twice)
    assert held(spark, tmp_path / "table") == []
    assert merger.write(0, twice.limit(1)) is Decision.WRITE


@WAYS
def test_instants_of_an_hour_that_repeats_stay_apart(
    spark: SparkSession, tmp_path: Path, *, aside: bool
) -> None:
    case = case_of("s string, hour timestamp, v long", keys=("s", "hour"), aside=aside)
    case = dataclasses.replace(case, partition_by=("hour",))
    merger = Merger(tmp_path / "table", case, SizeVerdict.LARGE)
    zone = {"spark.sql.session.timeZone": "America/New_York"}
    with executors.override_settings(spark, zone):
        merger.prepare(spark.createDataFrame([], case.rows))
        for number in range(2):
            hours = "timestamp'2026-11-01 05:30:00Z', timestamp'2026-11-01 06:30:00Z'"
            rows = f"SELECT 'a' AS s, explode(array({hours})) AS hour, {number}L AS v"
            merger.write(number, spark.sql(rows))
    table = spark.read.format("delta").load(str(tmp_path / "table"))
    found = table.selectExpr("unix_seconds(hour) AS hour", "v").orderBy("hour").collect()
    assert [tuple(row) for row in found] == [(1_793_511_000, 1), (1_793_514_600, 1)]


def test_a_zone_that_repeats_hours_is_refused_where_the_table_computes(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (at timestamp, hour timestamp GENERATED ALWAYS AS"
        " (date_trunc('HOUR', at)), k long) USING delta PARTITIONED BY (hour)"
    )
    rows = spark.sql("SELECT timestamp'2026-11-01 05:30:00Z' AS at, 1L AS k")
    append = DeltaAppendSink(
        DeltaAppend(path=str(path), partition_by=(), evolve=False, properties={}), "app", {}
    )
    life = Merger(path, case_of("at timestamp, k long", keys=("k",))).life
    with (
        executors.override_settings(spark, {"spark.sql.session.timeZone": "Asia/Kolkata"}),
        pytest.raises(SinkRefused, match="in the time zone `Asia/Kolkata`"),
    ):
        append.prepare(life, rows.schema, spark)
    append.prepare(dataclasses.replace(life, epoch=Epoch(2)), rows.schema, spark)


@pytest.mark.parametrize("verdict", list(SizeVerdict))
def test_columns_that_the_rows_lack_stay_as_they_are(
    spark: SparkSession, tmp_path: Path, verdict: SizeVerdict
) -> None:
    path = tmp_path / "table"
    spark.createDataFrame([(1, "a", "w")], "k long, v string, w string").write.format("delta").save(
        str(path)
    )
    case = case_of("v string, k long", keys=("k",))
    merger = Merger(path, case, verdict)
    merger.prepare(spark.createDataFrame([], case.rows))
    merger.write(0, spark.createDataFrame([("b", 1), ("b", 2)], case.rows))
    assert held(spark, path) == [(1, "b", "w"), (2, "b", None)]


@pytest.mark.parametrize(
    ("table", "found"),
    [
        ("k long, w string NOT NULL", "must not be null"),
        ("k long, w string GENERATED ALWAYS AS (CAST(k AS STRING))", "fills by a rule"),
        ("k long, w long GENERATED ALWAYS AS IDENTITY", "fills by a rule"),
        ("k long, w string DEFAULT 'x'", "fills by a rule"),
        ("k string, v string", "as string"),
        ("k long", "found `v` string"),
    ],
)
def test_rows_that_cannot_be_merged_are_refused_before_a_batch(
    spark: SparkSession, tmp_path: Path, table: str, found: str
) -> None:
    columns = table if "v string" in table or table == "k long" else f"{table}, v string"
    properties = "TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/table` ({columns}) USING delta {properties}")
    version = deltalake.DeltaTable(tmp_path / "table").version()
    case = case_of("k long, v string", keys=("k",))
    with pytest.raises(SchemaMismatch, match=found):
        Merger(tmp_path / "table", case).prepare(spark.createDataFrame([], case.rows))
    assert deltalake.DeltaTable(tmp_path / "table").version() == version


@pytest.mark.parametrize("kind", ["map<int, int>", "array<map<int, int>>", "variant"])
@pytest.mark.parametrize("newest", [True, False])
def test_columns_that_cannot_be_compared_are_refused(
    spark: SparkSession, tmp_path: Path, kind: str, *, newest: bool
) -> None:
    case = case_of(f"k long, m {kind}", keys=("k",), newest="m")
    if not newest:
        case = dataclasses.replace(case, keys=("m",), newest=None)
    with pytest.raises(SchemaMismatch, match="can be compared"):
        Merger(tmp_path / "table", case).prepare(spark.createDataFrame([], case.rows))
    assert not (tmp_path / "table").exists()


@pytest.mark.parametrize(("column", "value"), [("é", "x"), ("p", "é")])
def test_delta_rs_replaces_no_file_whose_path_it_writes_differently(
    spark: SparkSession, tmp_path: Path, column: str, value: str
) -> None:
    """Spark would keep the file, and the row that was replaced with it."""
    rows = f"k long, `{column}` string, v string"
    case = dataclasses.replace(case_of(rows, keys=("k",)), partition_by=(column,))
    path = tmp_path / "table"
    first = spark.createDataFrame([(1, value, "a")], case.rows)
    first.write.format("delta").partitionBy(column).save(str(path))
    merger = Merger(path, case)
    merger.prepare(first)
    for number, text in enumerate("bc"):
        merger.write(number, spark.createDataFrame([(1, value, text)], case.rows))
        assert held(spark, path) == [(1, value, text)]


def test_a_table_that_takes_no_updates_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"delta.appendOnly": "true"}
    case = case_of("k long, v string", keys=("k",))
    spark.sql(delta_cases.create_table_sql(f"{tmp_path}/table", case.rows, (), properties))
    with pytest.raises(SinkRefused, match="takes updates"):
        Merger(tmp_path / "table", case).prepare(spark.createDataFrame([], case.rows))


@pytest.mark.parametrize("feature", ["enableDeletionVectors", "enableChangeDataFeed"])
def test_a_table_that_only_spark_may_merge_into_needs_its_commits(
    spark: SparkSession, tmp_path: Path, feature: str
) -> None:
    """Refused at the start, not with a batch planned."""
    case = case_of("k long, v string", keys=("k",), aside=True)
    table = delta_cases.create_table_sql(
        f"{tmp_path}/table", case.rows, (), {f"delta.{feature}": "true"}
    )
    spark.sql(table)
    with pytest.raises(SinkRefused, match="only one writer can make"):
        Merger(tmp_path / "table", case).prepare(spark.createDataFrame([], case.rows))


def merge_first_batch(
    spark: SparkSession, path: Path, *, aside: bool = True
) -> tuple[Merger, MergeCase]:
    """A table with two rows, into which Spark merges the next batch, by default as on S3."""
    case = case_of("k long, v string", keys=("k",), aside=aside)
    merger = Merger(path, case)
    first = spark.createDataFrame([(1, "a"), (2, "a")], case.rows).coalesce(1)
    merger.prepare(first)
    merger.write(0, first)
    merger.size.verdict = SizeVerdict.LARGE
    return merger, case


def set_property(path: Path | str, name: str) -> None:
    """Set a property of a table, in a commit of Delta's other writer."""
    table = deltalake.DeltaTable(path)
    table.alter.set_table_properties({f"delta.{name}": "true"}, raise_if_not_exists=False)


def while_read(rows: DataFrame, happens: Callable[[], object]) -> DataFrame:
    """The rows, and what happens when Spark reads them: inside of a merge, after its snapshot."""

    def tell(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        happens()
        yield from batches

    return rows.coalesce(1).mapInArrow(tell, rows.schema)


def once(flag: Path, happens: Callable[[], object]) -> Callable[[], None]:
    """What happens the first time only: Spark may read the rows of a merge twice."""
    name = str(flag)

    def happen() -> None:
        if not os.path.exists(name):  # noqa: PTH110  inside of Spark's worker
            happens()
            open(name, "w").close()  # noqa: PTH123

    return happen


PROPERTIES = ["enableDeletionVectors", "enableChangeDataFeed", "appendOnly"]


@pytest.mark.parametrize("property", PROPERTIES)
def test_a_property_that_is_set_while_the_job_runs_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    property: str,  # noqa: A002  Delta's word
) -> None:
    """With deletion vectors the commit would name a file that does not exist."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path)
    set_property(path, property)
    version = deltalake.DeltaTable(path).version()
    with pytest.raises(SinkRefused):
        merger.write(1, spark.createDataFrame([(2, "b")], case.rows))
    assert deltalake.DeltaTable(path).version() == version
    assert held(spark, path) == [(1, "a"), (2, "a")]


@pytest.mark.parametrize("property", PROPERTIES)
def test_a_property_that_is_set_during_a_merge_on_s3_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    property: str,  # noqa: A002  Delta's word
) -> None:
    """A merge that was computed before it would leave readers of the change data feed without."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path)
    table = str(path)
    rows = spark.createDataFrame([(2, "b")], case.rows)
    change = once(tmp_path / "set", lambda: set_property(table, property))
    with pytest.raises(SinkRefused):
        merger.write(1, while_read(rows, change))
    assert (tmp_path / "set").exists()
    assert held(spark, path) == [(1, "a"), (2, "a")]


@pytest.mark.parametrize("verdict", [SizeVerdict.SMALL, SizeVerdict.LARGE])
def test_change_data_feed_that_is_switched_on_during_a_merge_gets_the_merge(
    spark: SparkSession, tmp_path: Path, verdict: SizeVerdict
) -> None:
    """Where Spark may commit, the merge is computed again, with its changes."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, aside=False)
    merger.size.verdict = verdict
    table = str(path)
    rows = spark.createDataFrame([(2, "b")], case.rows)
    change = once(tmp_path / "set", lambda: set_property(table, "enableChangeDataFeed"))
    assert merger.write(1, while_read(rows, change)) is Decision.WRITE
    since = next(
        entry["version"]
        for entry in deltalake.DeltaTable(path).history()
        if "SET TBLPROPERTIES" in entry["operation"]
    )
    feed = spark.read.format("delta").option("readChangeFeed", "true")
    changes = feed.option("startingVersion", since).load(table)
    found = changes.select("_change_type", "k", "v").collect()
    assert sorted(tuple(row) for row in found) == [
        ("update_postimage", 2, "b"),
        ("update_preimage", 2, "a"),
    ]


@pytest.mark.parametrize("feature", ["enableDeletionVectors", "enableChangeDataFeed"])
def test_a_default_of_the_session_does_no_harm(
    spark: SparkSession, tmp_path: Path, feature: str
) -> None:
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path)
    with override_settings(
        spark, {f"spark.databricks.delta.properties.defaults.{feature}": "true"}
    ):
        merger.write(1, spark.createDataFrame([(2, "b")], case.rows))
    assert held(spark, path) == [(1, "a"), (2, "b")]


@WAYS
def test_a_merge_starts_over_when_an_appender_was_first(
    spark: SparkSession, tmp_path: Path, *, aside: bool
) -> None:
    """The row that was appended meanwhile has the key of a merged one, and is replaced, too."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, aside=aside)
    append = once(tmp_path / "appended", partial(append_row, str(path), 2, "c"))
    rows = while_read(spark.createDataFrame([(2, "b")], case.rows), append)
    assert merger.write(1, rows) is Decision.WRITE
    assert held(spark, path) == [(1, "a"), (2, "b"), (2, "b")]


def append_row(path: str, key: int, value: str) -> None:
    """Append a row as another writer."""
    deltalake.write_deltalake(path, pa.table({"k": [key], "v": [value]}), mode="append")


@WAYS
def test_a_merge_that_never_gets_its_turn_ends_with_a_reason(
    spark: SparkSession, tmp_path: Path, *, aside: bool
) -> None:
    """Beside an appender that commits during every merge; the batch is written when it pauses."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, aside=aside)
    rows = spark.createDataFrame([(2, "b")], case.rows)
    with pytest.raises(SinkContended, match="during each of 5 merges") as raised:
        merger.write(1, while_read(rows, partial(append_row, str(path), 3, "c")))
    assert raised.value.curable_by_restart
    assert {(1, "a"), (2, "a")} < set(held(spark, path))
    assert merger.write(1, rows) is Decision.WRITE
    assert {(1, "a"), (2, "b")} < set(held(spark, path))


def test_commits_without_files_do_not_hold_a_merge_up(spark: SparkSession, tmp_path: Path) -> None:
    """Drivers that start, and batches without rows: one during every merge."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path)
    rows = spark.createDataFrame([(2, "b")], case.rows)
    assert merger.write(1, while_read(rows, partial(commit_nothing, str(path)))) is Decision.WRITE
    assert held(spark, path) == [(1, "a"), (2, "b")]
    assert merger.write(1, rows) is Decision.SKIP


def commit_nothing(path: str) -> None:
    """Commit without files, as another job does with a batch without rows."""
    table = deltalake.DeltaTable(path)
    said = deltalake.CommitProperties(app_transactions=[deltalake.Transaction("another", 1)])
    table.create_write_transaction([], "append", table.schema(), [], commit_properties=said)


def test_a_newer_driver_that_starts_during_a_merge_fences_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its start is a commit without files, too, and not passed over."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path)
    newer = Merger(path, case)
    newer.life = dataclasses.replace(newer.life, epoch=Epoch(2))
    key, standing = (
        make_app_id(
            LedgerKey(job=newer.life.job, generation=newer.life.generation, output=OutputName("t"))
        ),
        0,
    )

    def take_over(path: str = str(path), key: str = key) -> None:
        table = deltalake.DeltaTable(path)
        said = deltalake.CommitProperties(
            app_transactions=[deltalake.Transaction(key, ledger.pack(Epoch(2), BatchId(standing)))]
        )
        table.create_write_transaction([], "append", table.schema(), [], commit_properties=said)

    rows = spark.createDataFrame([(2, "b")], case.rows)
    with pytest.raises(DriverFenced):
        merger.write(1, while_read(rows, once(tmp_path / "taken", take_over)))
    assert held(spark, path) == [(1, "a"), (2, "a")]


STRANGE: Mapping[str, clone.CommitLine] = {
    "deletion vector": {"add": {"path": "a.parquet", "deletionVector": {"cardinality": 1}}},
    "removed vector": {"remove": {"path": "a.parquet", "deletionVector": {"cardinality": 1}}},
    "full address": {"add": {"path": "s3a://bucket/t/a.parquet"}},
    "full path": {"add": {"path": "/t/a.parquet"}},
    "local address": {"add": {"path": "file:/t/a.parquet"}},
    "change data": {"cdc": {"path": "_change_data/a.parquet"}},
    "metadata": {"metaData": {"id": "x"}},
    "protocol": {"protocol": {"minReaderVersion": 3}},
    "domain": {"domainMetadata": {"domain": "delta.clustering"}},
    "transaction": {"txn": {"appId": "x", "version": 1}},
}


@pytest.mark.parametrize("line", STRANGE.values(), ids=STRANGE)
def test_what_the_tables_log_cannot_say_of_a_merge_is_refused(line: clone.CommitLine) -> None:
    with pytest.raises(SinkRefused, match="Nothing of the batch was written"):
        clone.require_plain_files("s3://bucket/t", [{"commitInfo": {}}, line])


def test_a_partition_column_that_sparks_merge_cannot_name_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = dataclasses.replace(case_of("k long, `a.b` long", keys=("k",)), partition_by=("a.b",))
    with pytest.raises(SchemaMismatch, match="without dots"):
        Merger(tmp_path / "table", case).prepare(spark.createDataFrame([], case.rows))


@pytest.mark.parametrize("verdict", list(SizeVerdict))
def test_names_of_any_spelling(spark: SparkSession, tmp_path: Path, verdict: SizeVerdict) -> None:
    """Keys in another case than the rows, the rows in another case than the table."""
    path = tmp_path / "table"
    names = ["Dot.Ted", 'say"x"', "it's", "_row", "__x", "é", "1st"]
    schema = T.StructType([T.StructField(name, T.LongType()) for name in names])
    spark.sql(delta_cases.create_table_sql(str(path), schema))
    rows = T.StructType([T.StructField(name.upper(), T.LongType()) for name in reversed(names)])
    case = dataclasses.replace(
        case_of("a long", keys=()),
        rows=rows,
        keys=tuple(name.lower() for name in names[:5]),
        newest=names[6].swapcase(),
    )
    merger = Merger(path, case, verdict)
    merger.prepare(spark.createDataFrame([], rows))
    for number, newest in enumerate((1, 3, 2)):
        given = spark.createDataFrame([(newest, number, 0, 0, 0, 0, 0)], rows)
        assert merger.write(number, given) is Decision.WRITE
    assert held(spark, path) == [(0, 0, 0, 0, 0, 1, 3)]


def damage_when_committed(path: Path, log: str, damage: Callable[[Path], object]) -> Thread:
    """Damage a file as soon as the commit that adds it is there, before Spark says so."""

    def wait() -> None:
        while not (entries := sorted(path.glob(log))):
            time.sleep(0.001)
        lines = map(json.loads, entries[0].read_text().splitlines())
        added = next(line["add"]["path"] for line in lines if "add" in line)
        damage(entries[0].parent.parent / unquote(added))

    thread = Thread(target=wait)
    thread.start()
    return thread


def halve(file: Path) -> None:
    """Keep the first half of a file."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@WAYS
@pytest.mark.parametrize("damage", [Path.unlink, halve], ids=["lost", "cut short"])
def test_a_merge_whose_file_is_damaged_is_not_passed_over(
    spark: SparkSession, tmp_path: Path, *, aside: bool, damage: Callable[[Path], object]
) -> None:
    """Aside, the merge is not committed. In place it is, so that another try would skip it."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, aside=aside)
    version = deltalake.DeltaTable(path).version()
    entry = f"_delta_log/{1 if aside else version + 1:020d}.json"
    thread = damage_when_committed(path, f"holdfast-1-1-*/{entry}" if aside else entry, damage)
    try:
        with pytest.raises((RowsMiscounted, SinkRefused), match="was written with") as raised:
            merger.write(1, spark.createDataFrame([(2, "b")], case.rows))
    finally:
        thread.join()
    assert raised.type is (RowsMiscounted if aside else SinkRefused)
    assert (deltalake.DeltaTable(path).version() == version) is aside


Damage = Callable[[list[dict[str, dict[str, object]]]], object]


def tell_metrics(**said: str) -> Damage:
    """Let the commit say something else about the rows."""

    def change(lines: list[dict[str, dict[str, object]]]) -> None:
        info = next(line["commitInfo"] for line in lines if "commitInfo" in line)
        metrics = info["operationMetrics"]
        assert isinstance(metrics, dict)
        info["operationMetrics"] = metrics | said

    return change


def drop_metrics(lines: list[dict[str, dict[str, object]]]) -> None:
    next(line["commitInfo"] for line in lines if "commitInfo" in line).pop("operationMetrics")


def drop_file(lines: list[dict[str, dict[str, object]]]) -> None:
    lines.remove(next(line for line in lines if "add" in line))


def resize_file(lines: list[dict[str, dict[str, object]]]) -> None:
    next(line["add"] for line in lines if "add" in line)["size"] = 1


def drop_everything_but_what_was_said(lines: list[dict[str, dict[str, object]]]) -> None:
    lines[:] = [line for line in lines if "commitInfo" in line]
    drop_metrics(lines)


LOSSES: Mapping[str, tuple[Damage, int, str]] = {
    "nothing": (lambda _: None, 2, ""),
    "no commit": (list.clear, 2, "its commit has 0"),
    "a file that the commit lacks": (drop_file, 2, "its files hold"),
    "a file of another size": (resize_file, 2, "was written with 1 bytes"),
    "a commit that does not count": (drop_metrics, 2, "wrote 0 rows, its files hold"),
    "neither files nor counts": (drop_everything_but_what_was_said, 2, "its commit has 0"),
    "fewer rows copied": (tell_metrics(numTargetRowsCopied="7"), 2, "its files hold"),
    "fewer rows in the files": (tell_metrics(numTargetRowsInserted="9"), 2, "its files hold"),
    "more rows changed": (lambda _: None, 9, "changed 9 rows"),
    "fewer rows changed": (tell_metrics(numSourceRows="3"), 2, "had 3 rows"),
}


@pytest.fixture(scope="module")
def merged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table into which Spark has merged one new row and one that replaces another."""
    path = tmp_path_factory.mktemp("merged") / "table"
    merger, case = merge_first_batch(spark, path, aside=False)
    merger.write(1, spark.createDataFrame([(2, "b"), (3, "b")], case.rows))
    return path


@pytest.mark.parametrize("loss", LOSSES)
def test_the_guard_finds_every_kind_of_loss(merged: Path, loss: str) -> None:
    damage, changed, reason = LOSSES[loss]
    entry = max((merged / "_delta_log").glob("*.json"))
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    damage(lines)
    rule = MergeRule(keys=("k",), newest=None, ties=(), texts=(), by_driver=True)
    found = merged_rows.find_loss(open_store(str(merged)), "", lines, changed, rule)
    assert reason in found
    assert bool(reason) == bool(found)


@WAYS
def test_a_session_that_counts_nothing_is_made_to(
    spark: SparkSession, tmp_path: Path, *, aside: bool
) -> None:
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, aside=aside)
    with override_settings(spark, {"spark.databricks.delta.history.metricsEnabled": "false"}):
        assert merger.write(1, spark.createDataFrame([(2, "b")], case.rows)) is Decision.WRITE
    assert held(spark, path) == [(1, "a"), (2, "b")]


@WAYS
def test_rows_that_no_longer_fit_are_not_merged(
    spark: SparkSession, tmp_path: Path, *, aside: bool
) -> None:
    """Spark would cast the key to the new type of the column."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, aside=aside)
    merger.meanwhile.append(lambda: retype_key(spark, path))
    with pytest.raises(SinkContended, match="changed its columns"):
        merger.write(1, spark.createDataFrame([(2, "b")], case.rows))
    assert held(spark, path) == [("9", "z")]
    with pytest.raises(SchemaMismatch, match="as string"):
        merger.write(1, spark.createDataFrame([(2, "b")], case.rows))


def retype_key(spark: SparkSession, path: Path) -> None:
    """Write the table anew, with texts as keys."""
    other = spark.createDataFrame([("9", "z")], "k string, v string")
    other.write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(path))


def test_rows_that_no_longer_fit_are_not_merged_by_the_driver(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path)
    merger.size.verdict = SizeVerdict.SMALL
    table = str(path)

    def retype() -> None:
        other = pa.table({"k": ["9"], "v": ["z"]})
        deltalake.write_deltalake(table, other, mode="overwrite", schema_mode="overwrite")

    rows = while_read(spark.createDataFrame([(2, "b")], case.rows), once(tmp_path / "f", retype))
    with pytest.raises(SinkContended, match="changed its columns"):
        merger.write(1, rows)
    assert held(spark, path) == [("9", "z")]


def test_spark_skips_a_merge_of_an_older_driver_without_a_word(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, aside=False)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableChangeDataFeed'='true')")
    newer = Merger(path, case)
    newer.life = dataclasses.replace(newer.life, epoch=Epoch(2))
    rows = spark.createDataFrame([(2, "b")], case.rows)
    # The third question comes after the older driver's last look at the table.
    merger.meanwhile += [lambda: None, lambda: None, lambda: newer.prepare(rows)]
    with pytest.raises(DriverFenced):
        merger.write(1, rows)
    assert held(spark, path) == [(1, "a"), (2, "a")]


@pytest.mark.parametrize(
    ("said", "newest", "reason"),
    [
        ({}, None, ""),
        ({"num_source_rows": 3}, None, "the merge read 3"),
        ({"num_output_rows": 5}, None, "wrote 5 rows"),
        ({"num_target_rows_updated": 1, "num_output_rows": 5}, None, "added or replaced 3"),
        ({"num_target_rows_updated": 1, "num_output_rows": 5}, "at", ""),
    ],
)
def test_what_delta_rs_says_of_a_merge_has_to_add_up(
    said: dict[str, int], newest: str | None, reason: str
) -> None:
    told = {
        "num_source_rows": 4,
        "num_target_rows_inserted": 2,
        "num_target_rows_updated": 2,
        "num_target_rows_copied": 2,
        "num_output_rows": 6,
    }
    rule = MergeRule(keys=("k",), newest=newest, ties=(), texts=(), by_driver=True)
    found = merge._find_loss(told | said, 4, rule)  # noqa: SLF001
    assert reason in found
    assert bool(reason) == bool(found)
