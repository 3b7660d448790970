"""Jobs on a session that exists: rows, records, restarts, graceful stops, and bad input."""

import json
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import deltalake
import pytest
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery
from tests.looking import evidence
from tests.spark.driving import send_numbers

import holdfast
from holdfast import Pipeline, sinks, sources
from holdfast.errors import (
    BatchChanged,
    FunctionResultInvalid,
    HoldfastError,
    QueryFailed,
    SchemaMismatch,
    SinkBehind,
    SinkRefused,
    SourceUnavailable,
    StartUnsafe,
)
from holdfast.examples.broker import Broker
from holdfast.model.fact import Known
from holdfast.model.finding import Code, Judgement
from holdfast.run import order
from holdfast.run.session import build
from holdfast.run.start.admission import RunOptions
from holdfast.run.start.locations import Base
from holdfast.run.watch import driver

pytestmark = pytest.mark.spark

SCHEMA = "id LONG, text STRING"


class Place:
    """A landing directory, tables and checkpoints of one test."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home = home
        self.spark = spark
        (home / "landing").mkdir()

    def land(self, name: str, first: int, count: int, **more: object) -> None:
        """Land one file of rows, whole."""
        rows = (
            {"id": number, "text": f"row {number}", **more}
            for number in range(first, first + count)
        )
        hidden = self.home / f"landing/.{name}"
        hidden.write_text("\n".join(json.dumps(row) for row in rows))
        hidden.rename(self.home / "landing" / name)

    def pipeline(
        self,
        *writes: holdfast.model.definition.Output,
        function: Callable[[DataFrame], object] = lambda rows: rows,
        schema: str = SCHEMA,
        output_mode: str = "append",
        **options: str,
    ) -> Pipeline:
        """A pipeline of one job from the landing directory."""
        declared = Pipeline("test", checkpoints=str(self.home / "checkpoints"))
        landing = sources.files(
            str(self.home / "landing"), format="json", schema=schema, options=options
        )
        outputs = writes or (self.append(),)
        declared.job("job", reads=landing, writes=outputs, output_mode=output_mode)(function)
        return declared

    def append(self, name: str = "table", **options: object) -> holdfast.model.definition.Output:
        """An append output."""
        return sinks.delta_append(str(self.home / name), **options)  # type: ignore[arg-type]

    def run(self, declared: Pipeline, *accepted: str) -> None:
        """Run once to the end."""
        options = RunOptions(dev=True, once=True, restarts=1, accepted=frozenset(accepted))
        order.start(declared.declaration, declared.jobs, options, lambda _: self.spark).wait()

    def ids(self, name: str = "table") -> list[int]:
        """The ids in a table, sorted."""
        table = deltalake.DeltaTable(str(self.home / name)).to_pyarrow_table()
        return sorted(table.column("id").to_pylist())

    @property
    def checkpoint(self) -> Path:
        """The job's checkpoint."""
        return self.home / "checkpoints/job"


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:
    return Place(tmp_path, spark)


def test_a_lost_commit_entry_is_a_batch_that_the_sink_skips(place: Place) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    for name in ("commits/0", "commits/.0.crc"):
        (place.checkpoint / name).unlink()
    place.run(place.pipeline())
    assert place.ids() == list(range(10))
    assert (place.checkpoint / "commits/0").exists()


def test_a_source_that_is_used_twice_is_written_once(place: Place) -> None:
    """Spark logs two lines of offsets for it, and keeps one log of its files."""

    def halves(rows: DataFrame) -> DataFrame:
        return rows.filter("id % 2 = 0").union(rows.filter("id % 2 = 1"))

    for name, first in (("a.json", 0), ("b.json", 10)):
        place.land(name, first, 10)
        place.run(place.pipeline(function=halves))
    for name in ("commits/1", "commits/.1.crc"):
        (place.checkpoint / name).unlink()
    place.run(place.pipeline(function=halves))
    assert place.ids() == list(range(20))
    assert len((place.checkpoint / "offsets/1").read_text().splitlines()) == 4
    assert [one.name for one in (place.checkpoint / "sources").iterdir()] == ["0"]


def test_the_batch_after_a_skipped_one_is_known_to_be_small(place: Place) -> None:
    declared = place.pipeline(sinks.delta_merge(str(place.home / "table"), keys=["id"]))
    place.land("a.json", 0, 10)
    place.run(declared)
    for name in ("commits/0", "commits/.0.crc"):
        (place.checkpoint / name).unlink()
    place.land("b.json", 10, 10)
    place.run(declared)
    assert place.ids() == list(range(20))
    newest = deltalake.DeltaTable(str(place.home / "table")).history(1)[0]
    assert "delta-rs" in newest["engineInfo"], "Spark has merged ten rows"


def test_a_lost_metadata_file_does_not_duplicate(place: Place) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    for name in ("commits/0", "commits/.0.crc", "metadata", ".metadata.crc"):
        (place.checkpoint / name).unlink()
    place.run(place.pipeline())
    assert place.ids() == list(range(10))


def test_other_files_under_the_same_batch_id_are_refused(place: Place) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    place.land("b.json", 10, 10)
    place.run(place.pipeline())
    for name in ("commits/1", "commits/.1.crc", "offsets/1", "offsets/.1.crc"):
        (place.checkpoint / name).unlink()
    place.land("c.json", 20, 10)
    with pytest.raises(BatchChanged):
        place.run(place.pipeline())
    assert place.ids() == list(range(20))


def test_a_first_batch_that_begins_elsewhere_is_refused(place: Place, broker: Broker) -> None:
    """The checkpoint was deleted to read from the beginning, and the sink knows batch 0."""

    def run(starting: str) -> None:
        declared = Pipeline("test", checkpoints=str(place.home / "checkpoints"))
        reads = sources.kafka(broker.bootstrap_servers, "begun", starting=starting)
        job = declared.job("job", reads=reads, writes=place.append())
        job(lambda rows: rows.selectExpr("bigint(string(value)) id"))
        place.run(declared)

    broker.create_topic("begun", 1)
    send_numbers(broker, "begun", range(3))
    run('{"begun":{"0":2}}')
    assert place.ids() == [2]
    shutil.rmtree(place.checkpoint)
    with pytest.raises(BatchChanged):
        run("earliest")


def test_other_code_on_the_same_state_is_refused_and_can_be_accepted(place: Place) -> None:
    def declared(key: str) -> Pipeline:
        def counted(rows: DataFrame) -> DataFrame:
            return rows.groupBy(F.expr(key).alias("id")).agg(F.count("text").alias("count"))

        merged = sinks.delta_merge(str(place.home / "table"), keys=["id"])
        return place.pipeline(merged, function=counted, output_mode="update")

    place.land("a.json", 0, 10)
    place.run(declared("id % 2"))
    before = sorted(place.checkpoint.rglob("*"))
    place.land("b.json", 10, 10)
    with pytest.raises(StartUnsafe, match="KEYS_CHANGED") as refused:
        place.run(declared("id % 3"))
    assert "--accept KEYS_CHANGED" in refused.value.hint
    assert sorted(place.checkpoint.rglob("*")) == before
    place.run(declared("id % 3"), "KEYS_CHANGED")
    started = [
        one
        for one in recorded(place.home / "checkpoints/.holdfast/job/runs")
        if one["event"] == "started"
    ]
    assert [one["accepted"] for one in started] == [[], ["KEYS_CHANGED"]]


def test_a_damaged_checkpoint_is_refused_before_spark_writes_into_it(place: Place) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    place.land("b.json", 10, 10)
    place.run(place.pipeline())
    (place.checkpoint / "offsets/0").unlink()
    place.land("c.json", 20, 10)
    with pytest.raises(StartUnsafe, match="OFFSET_BEFORE_MISSING"):
        place.run(place.pipeline())
    assert not (place.checkpoint / "offsets/2").exists()


def test_a_landing_file_that_is_too_old_stops_the_start(place: Place, tmp_path: Path) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    place.land("b.json", 10, 10)
    (late,) = tmp_path.rglob("b.json")
    os.utime(late, (1_700_000_000, 1_700_000_000))
    with pytest.raises(StartUnsafe, match="SOURCE_FILES_TOO_OLD"):
        place.run(place.pipeline())
    place.run(place.pipeline(), "SOURCE_FILES_TOO_OLD")
    assert place.ids() == list(range(10))
    late.touch()
    place.run(place.pipeline())
    assert place.ids() == list(range(20))


def test_a_deleted_table_is_refused_and_can_be_accepted(place: Place, tmp_path: Path) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    (tmp_path / "table").rename(tmp_path / "gone")
    place.land("b.json", 10, 10)
    with pytest.raises(SinkBehind, match="no batch of this job"):
        place.run(place.pipeline())
    place.run(place.pipeline(), "SINK_BEHIND")
    assert place.ids() == list(range(10, 20))


def test_a_restored_table_is_refused(place: Place, tmp_path: Path) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    place.land("b.json", 10, 10)
    place.run(place.pipeline())
    deltalake.DeltaTable(str(tmp_path / "table")).restore(1)
    with pytest.raises(SinkBehind, match="restored or replaced after batch 1"):
        place.run(place.pipeline())


LOSSES: dict[str, Callable[[str], object]] = {
    "deleted": shutil.rmtree,
    "restored": lambda table: deltalake.DeltaTable(table).restore(0),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_a_table_that_loses_its_rows_between_admission_and_start_is_refused(
    place: Place, loss: Callable[[str], object]
) -> None:
    """As while Spark starts, or while the jobs before it run."""
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    declared, options = place.pipeline(), RunOptions(dev=True, once=True)

    def lose(_: Base) -> SparkSession:
        loss(str(place.home / "table"))
        place.land("b.json", 10, 10)
        return place.spark

    with pytest.raises(SinkBehind):
        order.start(declared.declaration, declared.jobs, options, lose)


@pytest.mark.parametrize(("pause", "told"), [(0.0, [0, 1, 2, 3]), (3600.0, [0, 3])])
def test_the_first_batch_is_told_then_one_in_a_while_and_the_last(
    place: Place, monkeypatch: pytest.MonkeyPatch, pause: float, told: list[int]
) -> None:
    monkeypatch.setattr(driver, "_TELL_SECONDS", pause)
    landing = sources.files(str(place.home / "landing"), format="json", schema=SCHEMA,
                            options={"maxFilesPerTrigger": "1"})  # fmt: skip
    declared = Pipeline("test", checkpoints=str(place.home / "checkpoints"))
    slow = sinks.foreach_batch(lambda rows, _: time.sleep(1.5 + 0 * rows.count()))
    declared.job("job", reads=landing, writes=slow)(lambda rows: rows)
    for number in range(4):
        place.land(f"{number}.json", number, 1000 + number)
    options = RunOptions(dev=True, once=True)
    said: list[str] = []
    order.start(
        declared.declaration, declared.jobs, options, lambda _: place.spark, say=said.append
    ).wait()
    _, *batches, last = said
    assert last == "job: done"
    assert [line.rpartition(", ")[0] for line in batches] == [
        f"job: batch {number} done, {1000 + number:,} rows read" for number in told
    ]


def test_a_query_without_data_reports_no_batch_that_never_ran(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark reports progress of an idle query with the number of the next batch."""
    for name in ("_TELL_SECONDS", "_ASK_SECONDS"):
        monkeypatch.setattr(driver, name, 0.0)
    place.land("a.json", 0, 10)
    declared, options = place.pipeline(), RunOptions(dev=True)
    said: list[str] = []
    interval = "spark.sql.streaming.noDataProgressEventInterval"
    place.spark.conf.set(interval, "50ms")
    try:
        running = order.start(
            declared.declaration, declared.jobs, options, lambda _: place.spark, say=said.append
        )
    finally:
        place.spark.conf.unset(interval)
    wake = threading.Event()
    waiting = threading.Thread(target=running.wait, args=(wake,))
    waiting.start()
    until_idle(running.queries["job"], 1)
    time.sleep(1)
    [runner] = running._runners  # noqa: SLF001
    runner.restarts = 3
    time.sleep(1)
    wake.set()
    waiting.join()
    assert runner.restarts == 3, "no batch has run since"
    running.stop()
    assert [line.rpartition(", ")[0] for line in said[1:]] == [
        "job: batch 0 done, 10 rows read",
        "",
    ]
    assert [path.name for path in (place.checkpoint / "commits").glob("[0-9]*")] == ["0"]


def until_idle(live: StreamingQuery, following: int) -> None:
    """Wait until the query reports that it waits for this batch."""
    deadline = time.monotonic() + 60
    while live.lastProgress is None or live.lastProgress["batchId"] != following:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("accepted", [(), ("SINK_BEHIND",)], ids=["", "accepted at the start"])
def test_a_table_that_is_deleted_before_a_query_starts_again_is_refused(
    place: Place, accepted: tuple[str, ...]
) -> None:
    failed: list[int] = []

    def failing(rows: DataFrame, batch: int) -> None:
        if batch == 1 and not failed:
            failed.append(rows.count())
            shutil.rmtree(place.home / "table")
            raise OSError(batch)

    declared = place.pipeline(place.append(), sinks.foreach_batch(failing))
    for name, first in (("a.json", 0), ("b.json", 10)):
        place.land(name, first, 10)
        if first == 0:
            place.run(declared)
    with pytest.raises(SinkBehind, match="no batch of this job"):
        place.run(declared, *accepted)


def test_a_gap_that_was_accepted_stays_accepted_until_a_batch_is_committed(place: Place) -> None:
    failed: list[int] = []

    def failing(rows: DataFrame, batch: int) -> None:
        if batch == 1 and not failed:
            failed.append(rows.count())
            raise OSError(batch)

    declared = place.pipeline(sinks.foreach_batch(failing), place.append())
    place.land("a.json", 0, 10)
    place.run(declared)
    shutil.rmtree(place.home / "table")
    place.land("b.json", 10, 10)
    place.run(declared, "SINK_BEHIND")
    assert failed == [10]
    assert place.ids() == list(range(10, 20))


def test_a_skipped_batch_of_a_stateful_query_moves_its_state(place: Place) -> None:
    def counted(rows: DataFrame) -> DataFrame:
        return rows.groupBy((F.col("id") % 2).alias("id")).agg(F.count("text").alias("count"))

    def declared() -> Pipeline:
        merged = sinks.delta_merge(str(place.home / "table"), keys=["id"])
        return place.pipeline(merged, function=counted, output_mode="update")

    place.land("a.json", 0, 10)
    place.run(declared())
    started = recorded(place.home / "checkpoints/.holdfast/job/runs")[0]
    assert started["stateful_operators"] == ["stateStoreSave"]
    for name in ("commits/0", "commits/.0.crc"):
        (place.checkpoint / name).unlink()
    place.land("b.json", 10, 10)
    place.run(declared())
    rows = deltalake.DeltaTable(str(place.home / "table")).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["count"] for row in rows} == {0: 10, 1: 10}


def test_a_sorted_aggregate_goes_to_several_outputs(place: Place) -> None:
    def newest(rows: DataFrame) -> DataFrame:
        grouped = rows.withColumn("k", F.col("id") % 2).groupBy("k")
        return grouped.agg(F.max_by(F.struct("id", "text"), "id").alias("n")).select("k", "n.*")

    outputs = [
        sinks.delta_merge(str(place.home / name), keys=["k"], newest="id")
        for name in ("table", "other")
    ]
    place.land("a.json", 0, 10)
    place.run(place.pipeline(*outputs, function=newest, output_mode="update"))
    assert place.ids() == place.ids("other") == [8, 9]


def test_new_columns_are_refused_or_added_on_request(place: Place) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    place.land("b.json", 10, 10, extra="x")
    wider = f"{SCHEMA}, extra STRING"
    with pytest.raises(SchemaMismatch, match="found `extra` string"):
        place.run(place.pipeline(schema=wider))
    place.run(place.pipeline(place.append(evolve=True), schema=wider))
    table = deltalake.DeltaTable(str(place.home / "table")).to_pyarrow_table()
    assert sorted(table.column("extra").to_pylist(), key=str) == [None] * 10 + ["x"] * 10


def test_a_changed_type_is_refused_and_the_next_start_is_unharmed(place: Place) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    place.land("b.json", 10, 10)
    with pytest.raises(SchemaMismatch, match=r"column `id` .* as bigint, found string"):
        place.run(place.pipeline(schema="id STRING, text STRING"))
    place.run(place.pipeline())
    assert place.ids() == list(range(20))


def test_several_outputs_with_the_users_own_function(place: Place) -> None:
    seen: list[tuple[int, int]] = []
    own = sinks.foreach_batch(lambda rows, batch: seen.append((batch, rows.count())))
    declared = place.pipeline(place.append(), own)
    assert not declared.jobs[0].is_proven
    place.land("a.json", 0, 10)
    place.run(declared)
    assert seen == [(0, 10)]
    assert place.ids() == list(range(10))


PARTIAL: dict[str, Callable[[Place], holdfast.model.definition.Output]] = {
    "no rows": lambda place: place.append(select=lambda rows: rows.where("false")),
    "the first row": lambda place: place.append(select=lambda rows: rows.limit(1)),
    "no rows to merge": lambda place: sinks.delta_merge(
        str(place.home / "table"), keys=["k"], select=lambda rows: rows.limit(0)
    ),
    "a function that takes nothing": lambda _: sinks.foreach_batch(lambda _rows, _batch: None),
    "a function that takes one row": lambda _: sinks.foreach_batch(lambda rows, _: rows.show(1)),
}


@pytest.mark.parametrize("output", [pytest.param(one, id=name) for name, one in PARTIAL.items()])
def test_state_moves_whatever_an_output_takes_of_the_rows(
    place: Place, output: Callable[[Place], holdfast.model.definition.Output]
) -> None:
    def count(rows: DataFrame) -> DataFrame:
        return rows.withColumn("k", F.col("id") % 3).groupBy("k").count()

    for names in (("a.json", "b.json"), ("c.json",)):
        for name in names:
            place.land(name, 0, 10)
        declared = place.pipeline(
            output(place), function=count, output_mode="update", maxFilesPerTrigger="1"
        )
        place.run(declared)
    state = place.spark.read.format("statestore").load(str(place.checkpoint))
    counts = state.selectExpr("key.k", "value.count").collect()
    assert sorted(map(tuple, counts)) == [(0, 12), (1, 9), (2, 9)]


def test_one_output_of_a_stateless_job_is_not_cached(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the first batch of a start, whose number of rows nobody knows."""
    cached: list[DataFrame] = []
    persist = DataFrame.persist

    def persist_and_tell(rows: DataFrame, *levels: StorageLevel) -> DataFrame:
        cached.append(rows)
        return persist(rows, *levels)

    monkeypatch.setattr(DataFrame, "persist", persist_and_tell)
    place.land("a.json", 0, 10)
    place.run(place.pipeline(place.append(select=lambda rows: rows.where("id < 5"))))
    assert place.ids() == list(range(5))
    assert not cached


def test_a_function_that_returns_no_dataframe(place: Place) -> None:
    with pytest.raises(FunctionResultInvalid, match="returned NoneType, not a DataFrame"):
        place.run(place.pipeline(function=lambda _: None))


def test_a_function_that_returns_a_batch_dataframe(place: Place) -> None:
    with pytest.raises(FunctionResultInvalid, match="streaming DataFrame"):
        place.run(place.pipeline(function=lambda _: place.spark.range(1)))


def test_an_error_in_the_function_is_one_sentence(place: Place) -> None:
    with pytest.raises(QueryFailed, match="nowhere") as told:
        place.run(place.pipeline(function=lambda rows: rows.select("nowhere")))
    assert "\n" not in told.value.message


def test_an_error_is_that_of_the_job_whose_function_has_it(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    declared = place.pipeline()
    landing = sources.files(str(place.home / "landing"), format="json", schema=SCHEMA)
    declared.job("other", reads=landing, writes=place.append("other"))(
        lambda rows: rows.select("nowhere")
    )
    build.hush()
    with pytest.raises(QueryFailed, match="job `other` failed because Spark cannot run its query"):
        place.run(declared)
    assert "ContextLogger" not in capfd.readouterr().err


def test_a_missing_landing_directory(place: Place) -> None:
    (place.home / "landing").rmdir()
    with pytest.raises(SourceUnavailable, match="does not exist"):
        place.run(place.pipeline())


def test_a_missing_delta_source(place: Place) -> None:
    declared = Pipeline("test", checkpoints=str(place.home / "checkpoints"))
    reads = sources.delta(str(place.home / "nothing"))
    declared.job("job", reads=reads, writes=place.append())(lambda rows: rows)
    with pytest.raises(SourceUnavailable, match="nothing"):
        place.run(declared)


def test_a_table_path_that_is_a_file(place: Place) -> None:
    (place.home / "table").write_text("not a folder")
    with pytest.raises(HoldfastError) as told:
        place.run(place.pipeline())
    assert told.value.code in ("SINK_REFUSED", "STORAGE_UNAVAILABLE")
    assert str(place.home / "table") in told.value.message


def test_a_corrupt_landing_file_stops_the_batch_whole(place: Place) -> None:
    declared = Pipeline("test", checkpoints=str(place.home / "checkpoints"))
    reads = sources.files(str(place.home / "landing"), format="parquet", schema=SCHEMA)
    declared.job("job", reads=reads, writes=place.append())(lambda rows: rows)
    place.spark.range(10).selectExpr("id", "'x' text").coalesce(1).write.parquet(
        str(place.home / "staged")
    )
    part = next((place.home / "staged").glob("part-*.parquet"))
    part.rename(place.home / "landing/a.parquet")
    (place.home / "landing/b.parquet").write_bytes(b"PAR1 this is not parquet PAR1")
    with pytest.raises(SourceUnavailable, match="a file cannot be read"):
        place.run(declared)
    assert place.ids() == []
    (place.home / "landing/b.parquet").unlink()


def test_an_unreachable_broker(place: Place) -> None:
    declared = Pipeline("test", checkpoints=str(place.home / "checkpoints"))
    reads = sources.kafka("127.0.0.1:1", "topic")
    declared.job("job", reads=reads, writes=place.append())(lambda rows: rows)
    with pytest.raises(SourceUnavailable, match=r"no Kafka broker answers at `127\.0\.0\.1:1`"):
        place.run(declared)


@pytest.mark.kafka
def test_a_missing_topic(place: Place, broker: Broker) -> None:
    declared = Pipeline("test", checkpoints=str(place.home / "checkpoints"))
    reads = sources.kafka(broker.bootstrap_servers, "no-such-topic")
    declared.job("job", reads=reads, writes=place.append())(lambda rows: rows)
    with pytest.raises(SourceUnavailable, match="a Kafka topic does not exist"):
        place.run(declared)


def test_stopping_lets_the_batch_finish_and_commit(place: Place) -> None:
    begun = threading.Event()

    def slowly(rows: DataFrame, _: int) -> None:
        rows.count()
        begun.set()
        time.sleep(3)

    declared = place.pipeline(sinks.foreach_batch(slowly, name="slow"), place.append())
    place.land("a.json", 0, 10)
    running = order.start(
        declared.declaration, declared.jobs, RunOptions(dev=True), lambda _: place.spark
    )
    assert begun.wait(60)
    running.stop(grace=30)
    assert place.ids() == list(range(10))
    assert (place.checkpoint / "commits/0").exists()
    lease = max((place.home / "checkpoints/.holdfast/job/lease").iterdir())
    assert json.loads(lease.read_text())["released"] is True


def test_stopping_with_a_backlog_leaves_the_rest_to_the_next_start(place: Place) -> None:
    seen: list[int] = []

    def slowly(rows: DataFrame, batch: int) -> None:
        rows.count()
        seen.append(batch)
        time.sleep(0.5)

    def declared() -> Pipeline:
        pipeline = Pipeline("test", checkpoints=str(place.home / "checkpoints"))
        one_by_one = {"maxFilesPerTrigger": "1"}
        landing = str(place.home / "landing")
        reads = sources.files(landing, format="json", schema=SCHEMA, options=one_by_one)
        writes = [sinks.foreach_batch(slowly, name="slow"), place.append()]
        pipeline.job("job", reads=reads, writes=writes)(lambda rows: rows)
        return pipeline

    for number in range(12):
        place.land(f"{number:02d}.json", number * 10, 10)
    running = declared().start(place.spark, dev=True)
    deadline = time.monotonic() + 60
    while len(seen) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    running.stop(grace=30)
    assert len(seen) < 12
    # Which files came first is not said: Spark takes them by the millisecond of their landing.
    landed = Counter(number // 10 for number in place.ids())
    assert 0 < len(landed) < 12
    assert set(landed.values()) == {10}
    place.run(declared())
    assert place.ids() == list(range(120))


def test_a_run_of_what_is_there_stops_when_told(place: Place) -> None:
    told = threading.Event()

    def telling(rows: DataFrame, _: int) -> None:
        rows.count()
        told.set()

    declared = place.pipeline(sinks.foreach_batch(telling, name="telling"), place.append())
    place.land("a.json", 0, 10)
    second = sources.files(str(place.home / "landing"), format="json", schema=SCHEMA)
    declared.job("second", reads=second, writes=place.append("other"))(lambda rows: rows)
    options = RunOptions(dev=True, once=True)
    running = order.start(
        declared.declaration, declared.jobs, options, lambda _: place.spark, wake=told
    )
    running.wait(told)
    running.stop()
    assert place.ids() in ([], list(range(10)))
    assert not (place.home / "checkpoints/second/offsets").exists()


def test_runs_are_recorded_beside_the_checkpoint(place: Place) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    assert sorted(p.name for p in place.checkpoint.iterdir() if not p.name.startswith(".")) == [
        "commits",
        "metadata",
        "offsets",
        "sources",
    ]
    events = recorded(place.home / "checkpoints/.holdfast/job/runs")
    started = next(event for event in events if event["event"] == "started")
    assert started["job"] == "job"
    assert started["spark_version"] == place.spark.version
    assert started["output_mode"] == "append"
    assert started["location"] == str(place.checkpoint)
    query_id = json.loads((place.checkpoint / "metadata").read_text())["id"]
    assert started["query_id"] == query_id
    progress = next(event for event in events if event["event"] == "progress")
    assert (progress["batch"], progress["rows"]) == (0, 10)
    assert events[-1]["event"] == "terminated"
    assert events[-1]["error"] is None


def test_any_application_can_keep_records(place: Place) -> None:
    kept = holdfast.record(place.spark)
    try:
        place.land("a.json", 0, 10)
        rows = place.spark.readStream.schema(SCHEMA).json(str(place.home / "landing"))
        stream = rows.writeStream.format("noop").trigger(availableNow=True)
        # To Hadoop a `file:` URL is text: nothing in it is an escape, a query or a fragment.
        name = "%41 a%20b#c?d"
        location = f"file://{place.home}/elsewhere/{name}"
        query = stream.option("checkpointLocation", location).start()
        query.awaitTermination()
        runs = place.home / f"elsewhere/.holdfast/{name}/runs"
        deadline = time.monotonic() + 20
        while "terminated" not in str(recorded(runs)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert [event["event"] for event in recorded(runs)] == ["started", "progress", "terminated"]
        seen = evidence(location)
        assert seen.location.value == str(place.home / "elsewhere" / name)
        assert isinstance(seen.sink, Known)
        same = holdfast.check(stream, location)
        assert (same.judgement, same.findings) == (Judgement.SAFE, ())
        twice = holdfast.check(rows.union(rows), location)
        assert [one.code for one in twice.findings][:1] == [Code.SOURCE_COUNT_CHANGED]
    finally:
        place.spark.streams.removeListener(kept)


def recorded(folder: Path) -> list[dict[str, object]]:
    """The events of a job's runs, in order."""
    segments = sorted(folder.glob("*/*.jsonl"))
    lines = [line for segment in segments for line in segment.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_a_sink_that_cannot_be_written_leaves_the_next_start_unharmed(place: Place) -> None:
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    log = place.home / "table/_delta_log"
    log.rename(place.home / "log")
    place.land("b.json", 10, 10)
    with pytest.raises((SinkBehind, SinkRefused)):
        place.run(place.pipeline())
    (place.home / "log").rename(log)
    place.run(place.pipeline())
    assert place.ids() == list(range(20))
