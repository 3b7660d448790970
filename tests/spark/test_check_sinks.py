"""`holdfast check` asks the sinks whether the rows fit, and writes nothing."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.adapters.postgres_driving import Desk

import holdfast
from holdfast import Pipeline, sinks, sources
from holdfast.examples.database import ROLE, Database
from holdfast.model.definition import Output
from holdfast.model.finding import Check, Code, Judgement
from holdfast.run import order
from holdfast.run.query import check
from holdfast.run.start.admission import RunOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming.readwriter import DataStreamWriter

pytestmark = pytest.mark.spark
PASSWORD = "HOLDFAST_TEST_PASSWORD"


class Place:
    """A job from a landing folder, before and after a change of its rows."""

    def __init__(self, home: Path, spark: SparkSession) -> None:
        self.home = home
        self.spark = spark
        (home / "landing").mkdir()
        (home / "landing/a.json").write_text(json.dumps({"id": 1}))

    def declare(self, *writes: Output, change: str = "") -> Pipeline:
        """A pipeline of one job."""

        def function(rows: DataFrame) -> DataFrame:
            match change:
                case "type":
                    return rows.withColumn("id", F.col("id").cast("string"))
                case "column":
                    return rows.withColumn("added", F.lit(1))
                case _:
                    return rows

        declared = Pipeline("p", checkpoints=str(self.home / "checkpoints"))
        reads = sources.files(str(self.home / "landing"), format="json", schema="id LONG")
        declared.job("job", reads=reads, writes=writes)(function)
        return declared

    def run(self, declared: Pipeline) -> None:
        """Run once to the end."""
        options = RunOptions(dev=True, once=True, restarts=0)
        order.start(declared.declaration, declared.jobs, options, lambda _: self.spark).wait()

    def check(self, declared: Pipeline) -> Check:
        """Check as the command does, on a session that is there."""
        location = str(self.home / "checkpoints/job")
        seen = check.read_evidence(location, {})
        before = self.files()
        found = check.check_job(declared.jobs[0], location, seen, {}, self.spark)
        assert self.files() == before
        return found

    def files(self) -> set[Path]:
        """Every file below the home."""
        return set(self.home.rglob("*"))


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:
    """A folder of its own."""
    return Place(tmp_path, spark)


def _unfit(found: Check) -> bool:
    (one,) = (one for one in found.findings if one.code is Code.ROWS_DO_NOT_FIT)
    return found.judgement is Judgement.UNSAFE and "SCHEMA_MISMATCH" in one.text


def test_rows_that_a_delta_table_refuses_are_not_safe(place: Place) -> None:
    append = sinks.delta_append(str(place.home / "table"))
    merge = sinks.delta_merge(str(place.home / "merged"), keys=["id"])
    evolving = sinks.delta_append(str(place.home / "table"), evolve=True)
    place.run(place.declare(append, merge))
    same = place.check(place.declare(append, merge))
    assert Code.ROWS_DO_NOT_FIT not in {one.code for one in same.findings}
    assert same.judgement is Judgement.SAFE
    assert _unfit(place.check(place.declare(append, change="type")))
    assert _unfit(place.check(place.declare(append, change="column")))
    assert _unfit(place.check(place.declare(merge, change="type")))
    found = place.check(place.declare(evolving, change="column"))
    assert Code.ROWS_DO_NOT_FIT not in {one.code for one in found.findings}


def test_rows_that_a_database_refuses_are_not_safe(
    place: Place, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, database.password_file.read_text().strip())
    desk = Desk(database)
    url = f"jdbc:postgresql://127.0.0.1:{database.port}/postgres"
    append = sinks.postgres_append(desk.connection, "rows", schema=desk.schema)
    upsert = sinks.postgres_upsert(desk.connection, "rows", keys=["id"], schema=desk.schema)
    jdbc = sinks.jdbc_append(url, "rows", schema=desk.schema, user=ROLE, password=f"env:{PASSWORD}")
    with psycopg.connect(desk.connection, autocommit=True) as connection:
        made = f'CREATE TABLE "{desk.schema.replace(chr(34), chr(34) * 2)}".rows'
        connection.execute(f"{made} (id bigint PRIMARY KEY)".encode())
        for sink in (append, upsert, jdbc):
            fits = place.check(place.declare(sink))
            assert (fits.judgement, fits.first_start) == (Judgement.SAFE, True), fits
            assert _unfit(place.check(place.declare(sink, change="column")))
        tables = connection.execute(
            b"SELECT count(*) FROM pg_tables WHERE schemaname = %s", (desk.schema,)
        ).fetchone()
    assert tables == (1,)  # no ledger was made


def test_a_sink_that_does_not_answer_is_not_safe(place: Place) -> None:
    away = sinks.postgres_append("host=127.0.0.1 port=1 dbname=d user=u", "rows")
    found = place.check(place.declare(away))
    assert found.judgement is Judgement.UNKNOWN
    assert "expected to reach PostgreSQL" in found.not_assessed[-1].reason


def test_a_first_start_may_wait_for_its_source(place: Place) -> None:
    declared = Pipeline("p", checkpoints=str(place.home / "checkpoints"))
    reads = sources.delta(str(place.home / "not-made-yet"))
    writes = sinks.delta_append(str(place.home / "table"))
    declared.job("job", reads=reads, writes=writes)(lambda rows: rows)
    found = place.check(declared)
    assert (found.judgement, found.first_start) == (Judgement.SAFE, True)
    assert found.not_assessed[0].question == "whether the rows fit the tables"


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_changed_path_of_any_stream_is_found(place: Place, kind: str) -> None:
    """The sink of a query that somebody else declares is known by the name that Spark gives it."""
    checkpoint = str(place.home / "checkpoints/own")

    def writer(path: str, form: str = kind) -> "DataStreamWriter":
        rows = place.spark.readStream.schema("id LONG").json(str(place.home / "landing"))
        made = rows.writeStream.format(form).option("checkpointLocation", checkpoint)
        made = made.trigger(availableNow=True)
        return made.option("path", path) if path else made

    first = str(place.home / "first")
    kept = holdfast.record(place.spark)
    writer(first).start().awaitTermination()
    kept.settle(5)
    place.spark.streams.removeListener(kept)
    kept._recorder.close()  # noqa: SLF001  so that all is written

    same = holdfast.check(writer(f"{first}/"), checkpoint)
    assert not [one for one in same.not_assessed if "the sink" in one.question]
    assert Code.SINK_CHANGED not in {one.code for one in same.findings}
    other = holdfast.check(writer(str(place.home / "second")), checkpoint)
    assert Code.SINK_CHANGED in {one.code for one in other.findings}
    assert other.judgement is not Judgement.SAFE
    exchanged = holdfast.check(writer(first, "json" if kind == "delta" else "delta"), checkpoint)
    assert Code.SINK_CHANGED in {one.code for one in exchanged.findings}
    (unknown,) = (
        one
        for one in holdfast.check(writer(""), checkpoint).not_assessed
        if "the sink" in one.question
    )
    assert f"Sink[{'file:' if kind == 'parquet' else ''}{first}]`" in unknown.reason
