"""What Spark keeps nothing of, tried on real Spark beside what `holdfast check` says of it.

A table that the stream is joined with, and what the offsets of a source of one's own mean, no
record holds either: both are said to be not assessed. How long a variable lives, a record tells.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType
from tests.spark.changes import PROCESSOR
from tests.spark.changing import Query, record, write_input
from tests.spark.processing import processing

import holdfast
from holdfast.model.finding import Code

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.prove]


def test_a_table_that_the_stream_is_joined_with(spark: SparkSession, tmp_path: Path) -> None:
    def joined() -> DataFrame:
        rows = spark.readStream.schema("n long").json(f"{tmp_path}/landing")
        return rows.join(spark.read.schema("n long, name string").json(f"{tmp_path}/names"), "n")

    def names(first: str) -> None:
        (tmp_path / "names").mkdir(exist_ok=True)
        lines = [{"n": number, "name": f"{first}{number}"} for number in range(2)]
        (tmp_path / "names/0.json").write_text("\n".join(map(json.dumps, lines)))

    got: list[str] = []
    for number, first in enumerate("ab"):
        names(first)
        (tmp_path / "landing").mkdir(exist_ok=True)
        (tmp_path / f"landing/{number}.json").write_text(json.dumps({"n": number}))
        if number:
            said = holdfast.check(joined(), f"{tmp_path}/ck")
            assert any("table" in one.question for one in said.not_assessed)
        running = joined().writeStream.option("checkpointLocation", f"{tmp_path}/ck")
        running = running.foreachBatch(lambda rows, _: got.extend(r.name for r in rows.collect()))
        running.trigger(availableNow=True).start().awaitTermination()
    assert got == ["a0", "b1"], "Spark has noticed"


def test_a_source_of_ones_own_whose_offsets_mean_something_else(
    spark: SparkSession, tmp_path: Path
) -> None:
    first = _numbers(spark, tmp_path, 1)
    spark.dataSource.register(_counting(10))
    said = holdfast.check(spark.readStream.format("counting").load(), f"{tmp_path}/ck")
    assert any("still mean the same" in one.question for one in said.not_assessed)
    # The offsets go on, and mean other rows; a batch that was not committed came once more.
    assert min(_numbers(spark, tmp_path, 10)) >= 10 * max(first), "Spark has noticed"


def _numbers(spark: SparkSession, home: Path, step: int) -> list[int]:
    """What the source gives in two batches or more."""
    got: list[int] = []
    spark.dataSource.register(_counting(step))
    stream = spark.readStream.format("counting").load().writeStream
    stream = stream.option("checkpointLocation", f"{home}/ck")
    stream = stream.foreachBatch(lambda rows, _: got.extend(r.n for r in rows.collect()))
    running = stream.trigger(processingTime="0 seconds").start()
    _wait(lambda: len(got) > 1)
    running.stop()
    return got


def _counting(step: int) -> type[DataSource]:
    """A source of numbers, each so many times its offset."""

    class Reader(SimpleDataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:  # noqa: N802  the names are Spark's
            return {"at": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
            at = start["at"]
            return iter([(at * step,)]), {"at": at + 1}

        def readBetweenOffsets(  # noqa: N802
            self, start: dict[str, int], end: dict[str, int]
        ) -> Iterator[tuple[int]]:
            return iter([(at * step,) for at in range(start["at"], end["at"])])

    class Counting(DataSource):
        @classmethod
        def name(cls) -> str:
            return "counting"

        def schema(self) -> str:
            return "n long"

        def simpleStreamReader(self, schema: StructType) -> Reader:  # noqa: ARG002, N802
            return Reader()

    return Counting


def _wait(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_variable_that_lives_for_another_time(spark: SparkSession, tmp_path: Path) -> None:
    """What is there keeps its time, what comes gets the new one: nobody is told."""
    query = replace(
        PROCESSOR, build=processing("value n: c long", ttl_ms=3_600_000, mode="ProcessingTime")
    )
    shorter = replace(query, build=processing("value n: c long", ttl_ms=1, mode="ProcessingTime"))
    counts = []
    for number, one in enumerate((query, shorter, shorter)):
        write_input(tmp_path, number)
        if one is shorter:
            said = holdfast.check(
                one.frame(spark, tmp_path), f"{tmp_path}/ck", output_mode="update"
            )
            expected = Code.TIMEOUT_CHANGED in {one.code for one in said.findings}
            assert expected is (number == 1)
        counts.append(_once(spark, one, tmp_path))
        shutil.rmtree(tmp_path / ".holdfast", ignore_errors=True)
        record(spark, one, tmp_path)
    # Key `a` has one row in each file: the second goes on from the old value, the third does not.
    assert counts == ["[1]", "[2]", "[1]"], "Spark has noticed"


def _once(spark: SparkSession, query: Query, home: Path) -> str:
    """One batch of all that is there; with this time mode `availableNow` never comes to its end."""
    got: dict[str, str] = {}
    stream = query.writer(spark, home).trigger(once=True)
    stream = stream.foreachBatch(lambda rows, _: got.update({r.k: r.n for r in rows.collect()}))
    stream.start().awaitTermination()
    return got["a"]
