"""Merges into Delta by delta-rs and by Spark: one table, whichever way a batch went."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from random import Random

import deltalake
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import types as T  # noqa: N812  Spark's own abbreviation
from tests import delta_cases
from tests.adapters.test_delta_merge import NEWEST
from tests.merging import MergeCase, Merger, draw_case, force, run_case

from holdfast.errors import RowsMiscounted, SchemaMismatch, SinkRefused
from holdfast.model.definition import DeltaAppend
from holdfast.model.ids import Epoch
from holdfast.sinks.batch_size import Verdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import DeltaAppendSink, executors, merge, merge_by_spark, parquet
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.executors import settings
from holdfast.sinks.delta.newest import Rule

pytestmark = pytest.mark.spark

CASES = 8
LONG_CASES = 500


def case_of(rows: str, *, keys: tuple[str, ...], newest: str | None = None) -> MergeCase:
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
        aside=False,
        batches=[],
        verdicts=[],
    )


def held(spark: SparkSession, path: Path) -> list[tuple[object, ...]]:
    rows = spark.read.format("delta").load(str(path)).collect()
    return sorted((tuple(row) for row in rows), key=repr)


@pytest.mark.parametrize("seed", range(CASES))
def test_drawn_merges_leave_what_the_rules_say(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    case = draw_case(Random(seed))
    found, wanted = run_case(spark, tmp_path / "table", case, monkeypatch)
    assert found == wanted, case


@pytest.mark.prove
@pytest.mark.slow
@pytest.mark.timeout(7_200)
def test_many_drawn_merges_leave_what_the_rules_say(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(CASES, LONG_CASES):
        case = draw_case(Random(seed))
        found, wanted = run_case(spark, tmp_path / f"table-{seed}", case, monkeypatch)
        assert found == wanted, (seed, case)


def test_the_newest_wins_by_spark_as_by_the_driver(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cases of the driver's path, all in one table: a key of its own for each case."""
    force(monkeypatch, Verdict.LARGE)
    case = case_of(
        "case string, key string, at long, value string", keys=("case", "key"), newest="at"
    )
    merger = Merger(tmp_path / "table", case)
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


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_key_twice_without_a_rule_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    force(monkeypatch, verdict)
    case = case_of("k long, v string", keys=("K",))
    merger = Merger(tmp_path / "table", case)
    merger.prepare(spark.createDataFrame([], case.rows))
    twice = spark.createDataFrame([(None, "x"), (None, "y")], case.rows)
    with pytest.raises(SinkRefused, match="a key more than once"):
        merger.write(0, twice)
    assert held(spark, tmp_path / "table") == []
    assert merger.write(0, twice.limit(1)) is Decision.WRITE


@pytest.mark.parametrize("exclusive", [True, False], ids=["in place", "aside"])
def test_instants_of_an_hour_that_repeats_stay_apart(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, exclusive: bool
) -> None:
    monkeypatch.setattr(tables, "has_exclusive_commits", lambda *_: exclusive)
    case = case_of("s string, hour timestamp, v long", keys=("s", "hour"))
    merger = Merger(tmp_path / "table", dataclasses.replace(case, partition_by=("hour",)))
    zone = {"spark.sql.session.timeZone": "America/New_York"}
    with executors.settings(spark, zone):
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
        executors.settings(spark, {"spark.sql.session.timeZone": "Asia/Kolkata"}),
        pytest.raises(SinkRefused, match="in the time zone `Asia/Kolkata`"),
    ):
        append.prepare(life, rows.schema, spark)
    append.prepare(dataclasses.replace(life, epoch=Epoch(2)), rows.schema, spark)


@pytest.mark.parametrize("verdict", list(Verdict))
def test_columns_that_the_rows_lack_stay_as_they_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    force(monkeypatch, verdict)
    path = tmp_path / "table"
    spark.createDataFrame([(1, "a", "w")], "k long, v string, w string").write.format("delta").save(
        str(path)
    )
    case = case_of("v string, k long", keys=("k",))
    merger = Merger(path, case)
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
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feature: str
) -> None:
    """Refused at the start, not with a batch planned."""
    case = case_of("k long, v string", keys=("k",))
    table = delta_cases.create_table_sql(
        f"{tmp_path}/table", case.rows, (), {f"delta.{feature}": "true"}
    )
    spark.sql(table)
    monkeypatch.setattr(tables, "has_exclusive_commits", lambda *_: False)
    with pytest.raises(SinkRefused, match="only one writer can make"):
        Merger(tmp_path / "table", case).prepare(spark.createDataFrame([], case.rows))


def merge_first_batch(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Merger, MergeCase]:
    """A table with two rows, into which Spark merges the next batch as on S3."""
    monkeypatch.setattr(tables, "has_exclusive_commits", lambda *_: False)
    force(monkeypatch, Verdict.SMALL)
    case = case_of("k long, v string", keys=("k",))
    merger = Merger(path, case)
    first = spark.createDataFrame([(1, "a"), (2, "a")], case.rows).coalesce(1)
    merger.prepare(first)
    merger.write(0, first)
    force(monkeypatch, Verdict.LARGE)
    return merger, case


@pytest.mark.parametrize(
    "property", ["enableDeletionVectors", "enableChangeDataFeed", "appendOnly"]
)
def test_a_property_that_is_set_while_the_job_runs_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    property: str,  # noqa: A002  Delta's word
) -> None:
    """With deletion vectors the commit would name a file that does not exist."""
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, monkeypatch)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.{property}' = 'true')")
    version = deltalake.DeltaTable(path).version()
    with pytest.raises(SinkRefused):
        merger.write(1, spark.createDataFrame([(2, "b")], case.rows))
    assert deltalake.DeltaTable(path).version() == version
    assert held(spark, path) == [(1, "a"), (2, "a")]


def test_a_property_that_is_set_during_a_merge_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, monkeypatch)
    merge = merge_by_spark._execute  # noqa: SLF001  what happens while it runs

    def merge_while_altered(*given: object) -> None:
        spark.sql(
            f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
        )
        merge(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(merge_by_spark, "_execute", merge_while_altered)
    with pytest.raises(SinkRefused, match="only one writer can make"):
        merger.write(1, spark.createDataFrame([(2, "b")], case.rows))
    assert held(spark, path) == [(1, "a"), (2, "a")]


@pytest.mark.parametrize("feature", ["enableDeletionVectors", "enableChangeDataFeed"])
def test_a_default_of_the_session_does_no_harm(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, feature: str
) -> None:
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, monkeypatch)
    with settings(spark, {f"spark.databricks.delta.properties.defaults.{feature}": "true"}):
        merger.write(1, spark.createDataFrame([(2, "b")], case.rows))
    assert held(spark, path) == [(1, "a"), (2, "b")]


def test_a_merged_file_that_is_lost_is_not_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table"
    merger, case = merge_first_batch(spark, path, monkeypatch)
    merge = merge_by_spark._execute  # noqa: SLF001  what happens after it

    def merge_and_lose(*given: object) -> None:
        merge(*given)  # type: ignore[arg-type]
        next(path.glob("holdfast-1-1-*/*.parquet")).unlink()

    monkeypatch.setattr(merge_by_spark, "_execute", merge_and_lose)
    with pytest.raises(RowsMiscounted):
        merger.write(1, spark.createDataFrame([(2, "b")], case.rows))
    assert held(spark, path) == [(1, "a"), (2, "a")]


STRANGE: Mapping[str, merge_by_spark.Line] = {
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
def test_what_the_tables_log_cannot_say_of_a_merge_is_refused(line: merge_by_spark.Line) -> None:
    with pytest.raises(SinkRefused, match="Nothing of the batch was written"):
        merge_by_spark.require_plain_files("s3://bucket/t", [{"commitInfo": {}}, line])


def test_a_partition_column_that_sparks_merge_cannot_name_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    case = dataclasses.replace(case_of("k long, `a.b` long", keys=("k",)), partition_by=("a.b",))
    with pytest.raises(SchemaMismatch, match="without dots"):
        Merger(tmp_path / "table", case).prepare(spark.createDataFrame([], case.rows))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_names_of_any_spelling(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    """Keys in another case than the rows, the rows in another case than the table."""
    force(monkeypatch, verdict)
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
    merger = Merger(path, case)
    merger.prepare(spark.createDataFrame([], rows))
    for number, newest in enumerate((1, 3, 2)):
        given = spark.createDataFrame([(newest, number, 0, 0, 0, 0, 0)], rows)
        assert merger.write(number, given) is Decision.WRITE
    assert held(spark, path) == [(0, 0, 0, 0, 0, 1, 3)]


@pytest.mark.parametrize("aside", [True, False])
@pytest.mark.parametrize("newest", [None, "at"])
def test_a_merge_whose_file_was_lost_is_not_passed_over(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    aside: bool,  # noqa: FBT001
    newest: str | None,
) -> None:
    """Aside, the merge is not committed; in place, the stream stops and says so."""
    force(monkeypatch, Verdict.LARGE)
    monkeypatch.setattr(tables, "has_exclusive_commits", lambda *_: not aside)
    case = case_of("k long, at long", keys=("k",), newest=newest)
    merger = Merger(tmp_path / "table", case)
    merger.prepare(spark.createDataFrame([], case.rows))
    rows = spark.createDataFrame([(n, n) for n in range(4)], case.rows)
    assert merger.write(0, rows) is Decision.WRITE
    read_back = parquet.read_back
    expected = RowsMiscounted if aside else SinkRefused
    with monkeypatch.context() as patched:
        patched.setattr(parquet, "read_back", lambda *given: read_back(*given)[1:])
        with pytest.raises(expected, match="rows, its files hold"):
            merger.write(1, rows.selectExpr("k + 2 AS k", "at + 1 AS at"))
    if aside:
        assert held(spark, tmp_path / "table") == [(n, n) for n in range(4)]


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
    rule = Rule(keys=("k",), newest=newest, ties=(), texts=(), by_driver=True)
    found = merge._find_loss(told | said, 4, rule)  # noqa: SLF001
    assert reason in found
    assert bool(reason) == bool(found)
