"""Existing jobs: one line in `foreachBatch` gives them a sink's guarantee."""

# ruff: noqa: D102  the job says what it does by what it stands for

import json
import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import deltalake
import psycopg
import pytest
from psycopg import sql
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own abbreviation
from tests.adapters.postgres_driving import Desk
from tests.diagnosing import codes, diagnosed
from tests.looking import evidence

import holdfast
from holdfast import sinks
from holdfast.errors import OptionInvalid
from holdfast.examples.database import ROLE, Database
from holdfast.model.definition import Output
from holdfast.model.fact import Known
from holdfast.model.finding import Code, Judgement

pytestmark = pytest.mark.spark

PASSWORD = "HOLDFAST_TEST_PASSWORD"
_EPOCH = 1_767_225_600


class ExistingJob:
    """A streaming job of somebody who does not declare pipelines: a count by key, in batches."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark = spark
        self.landing = home / "landing"
        self.landing.mkdir()
        self.checkpoint = home / "checkpoints" / "existing-job"

    def land(self, number: int) -> None:
        lines = [json.dumps({"id": n, "k": n % 3}) for n in range(number * 10, number * 10 + 10)]
        path = self.landing / f"{number}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (_EPOCH + number, _EPOCH + number))  # Spark takes the oldest first

    def run(self, write: Callable[[DataFrame, int], None]) -> None:
        stream = (
            self.spark.readStream.schema("id LONG, k LONG")
            .option("maxFilesPerTrigger", 1)
            .json(str(self.landing))
        )
        query = (
            stream.writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def forget_last_commit(self) -> None:
        """As a driver leaves it that was killed after the sink's commit."""
        commits = self.checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
        for path in commits.glob(f"*{last}*"):
            path.unlink()


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> ExistingJob:
    made = ExistingJob(spark, tmp_path)
    for number in range(3):
        made.land(number)
    return made


def every(home: Path, desk: Desk, other: Desk) -> list[Output]:
    parts = dict(part.split("=") for part in other.connection.split())
    place = f"{parts['host']}:{parts['port']}/{parts['dbname']}?currentSchema={other.schema}"
    return [
        sinks.delta_append(str(home / "table")),
        sinks.postgres_append(desk.connection, "rows", schema=desk.schema),
        sinks.jdbc_append(
            f"jdbc:postgresql://{place}", "jdbc_rows", user=ROLE, password=f"env:{PASSWORD}"
        ),
    ]


def test_batches_that_come_again_are_skipped_by_every_sink(
    job: ExistingJob, tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, database.pgpass.read_text().strip().rpartition(":")[2])
    desk, other = Desk(database), Desk(database, schema=f"jdbc_{secrets.token_hex(4)}")
    outputs = every(tmp_path, desk, other)
    first = holdfast.once(outputs, checkpoint=str(job.checkpoint), dev=True)
    job.run(first)
    first.close()
    job.forget_last_commit()
    job.land(3)
    second = holdfast.once(outputs, checkpoint=str(job.checkpoint), dev=True)
    job.run(second)
    ids = deltalake.DeltaTable(tmp_path / "table").to_pyarrow_table().column("id").to_pylist()
    assert Counter(ids) == Counter(range(40))
    assert Counter(n for (n,) in desk.query("SELECT id FROM rows")) == Counter(range(40))
    assert Counter(n for (n,) in other.query("SELECT id FROM jdbc_rows")) == Counter(range(40))
    assert desk.query("SELECT job, epoch, batch FROM holdfast_ledger") == [("existing-job", 2, 3)]
    job.land(4)
    third = holdfast.once(outputs, checkpoint=str(job.checkpoint), dev=True)
    job.run(third)  # the query of the second has ended, so that its lease is taken over
    assert desk.query("SELECT job, epoch, batch FROM holdfast_ledger") == [("existing-job", 3, 4)]
    job.land(5)
    job.run(second)  # and back
    assert Counter(n for (n,) in desk.query("SELECT id FROM rows")) == Counter(range(60))
    second.close()
    third.close()


def test_a_second_object_for_a_query_that_still_runs_is_refused(
    job: ExistingJob, tmp_path: Path
) -> None:
    first, second = (
        holdfast.once(
            sinks.delta_append(str(tmp_path / n)), checkpoint=str(job.checkpoint), dev=True
        )
        for n in "ab"
    )

    def both(rows: DataFrame, batch: int) -> None:
        first(rows, batch)
        second(rows, batch)

    with pytest.raises(StreamingQueryException, match="through a different `once` object"):
        job.run(both)
    first.close()
    assert not (tmp_path / "b").exists()


def test_a_job_that_has_run_before_is_adopted_once(job: ExistingJob, tmp_path: Path) -> None:
    before: list[int] = []
    job.run(lambda rows, _: before.extend(row["id"] for row in rows.collect()))
    assert len(before) == 30
    job.land(3)
    output = sinks.delta_append(str(tmp_path / "table"))
    refused = holdfast.once(output, checkpoint=str(job.checkpoint), dev=True)
    with pytest.raises(StreamingQueryException, match="SINK_BEHIND"):
        job.run(refused)
    adopted = holdfast.once(output, checkpoint=str(job.checkpoint), dev=True, adopt=True)
    job.run(adopted)
    adopted.close()
    ids = deltalake.DeltaTable(tmp_path / "table").to_pyarrow_table().column("id").to_pylist()
    assert Counter(ids) == Counter(range(30, 40))
    job.land(4)
    shutil.rmtree(tmp_path / "table")
    left_in_the_code = holdfast.once(output, checkpoint=str(job.checkpoint), dev=True, adopt=True)
    with pytest.raises(StreamingQueryException, match="SINK_BEHIND"):
        job.run(left_in_the_code)


def test_an_adoption_that_was_cut_short_goes_on(job: ExistingJob, tmp_path: Path) -> None:
    job.run(lambda *_: None)
    job.land(3)
    output = sinks.delta_append(str(tmp_path / "table"))

    def fail(rows: DataFrame) -> DataFrame:
        return rows.withColumn("id", F.raise_error(F.lit("cut short")).cast("long"))

    failing = sinks.delta_append(str(tmp_path / "table"), select=fail)
    first = holdfast.once(failing, checkpoint=str(job.checkpoint), dev=True, adopt=True)
    with pytest.raises(StreamingQueryException, match="cut short"):
        job.run(first)
    first.close()
    second = holdfast.once(output, checkpoint=str(job.checkpoint), dev=True, adopt=True)
    job.run(second)
    second.close()
    ids = deltalake.DeltaTable(tmp_path / "table").to_pyarrow_table().column("id").to_pylist()
    assert Counter(ids) == Counter(range(30, 40))


def test_an_object_writes_for_one_query_only(job: ExistingJob, tmp_path: Path) -> None:
    write = holdfast.once(
        sinks.delta_append(str(tmp_path / "table")), checkpoint=str(job.checkpoint), dev=True
    )
    job.run(write)
    job.checkpoint = job.checkpoint.with_name("second")
    with pytest.raises(StreamingQueryException, match="Cannot write for query"):
        job.run(write)
    write.close()


def test_the_checkpoint_of_another_query_is_refused(job: ExistingJob, tmp_path: Path) -> None:
    other = tmp_path / "checkpoints" / "other"
    other.mkdir(parents=True)
    (other / "metadata").write_text('{"id":"11111111-2222-3333-4444-555555555555"}')
    write = holdfast.once(
        sinks.delta_append(str(tmp_path / "table")), checkpoint=str(other), dev=True
    )
    with pytest.raises(StreamingQueryException, match="is not the checkpoint of the running query"):
        job.run(write)
    assert not (tmp_path / "table").exists()


def test_what_has_no_ledger_is_refused() -> None:
    with pytest.raises(OptionInvalid, match="has no ledger"):
        holdfast.once(sinks.foreach_batch(print), checkpoint="/data/checkpoints/job")


def test_a_checkpoint_that_does_not_last_is_refused(job: ExistingJob, tmp_path: Path) -> None:
    write = holdfast.once(sinks.delta_append(str(tmp_path / "t")), checkpoint=str(job.checkpoint))
    with pytest.raises(StreamingQueryException, match="BASE_EPHEMERAL"):
        job.run(write)


@pytest.mark.parametrize("recorded", [False, True], ids=["alone", "with run records"])
def test_the_sinks_of_an_existing_job_are_known_to_a_diagnosis(
    job: ExistingJob, tmp_path: Path, database: Database, *, recorded: bool
) -> None:
    desk = Desk(database)
    outputs = [
        sinks.delta_append(str(tmp_path / "table")),
        sinks.postgres_append(desk.connection, "rows", schema=desk.schema),
    ]
    kept = holdfast.record(job.spark) if recorded else None
    first = holdfast.once(outputs, checkpoint=str(job.checkpoint), dev=True)
    job.run(first)
    first.close()
    if kept is not None:
        kept.settle(5)
        job.spark.streams.removeListener(kept)
        kept._recorder.close()  # noqa: SLF001  so that all is written
    told = diagnosed(job.checkpoint)
    assert Code.SINK_BEHIND not in codes(told)
    assert [one.table for one in told.restart.sinks] == [
        str(tmp_path / "table"),
        f"{desk.schema}.rows",
    ]
    assert not any("whether the sink holds" in one.question for one in told.not_assessed)
    with psycopg.connect(desk.connection, autocommit=True) as connection:
        ledger = sql.Identifier(desk.schema, "holdfast_ledger")
        connection.execute(sql.SQL("UPDATE {} SET batch = 0").format(ledger))
    told = diagnosed(job.checkpoint)
    assert (told.judgement, Code.SINK_BEHIND in codes(told)) == (Judgement.UNSAFE, True)
    found = evidence(job.checkpoint)
    assert isinstance(found.restart_history, Known)
    (start,) = found.restart_history.value
    assert isinstance(start.ended_ms, int)
