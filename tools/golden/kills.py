"""Scenarios whose last run ends by SIGKILL, at a point that the batch itself reaches.

The function of the batch writes the file `reached` and then waits to be killed. At that point the
batch is in the offset log, and not in the commit log.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tools.golden.operators import PROVIDERS, watermarked
from tools.golden.scenario import Part, Scenario, Stage, json_files

_FOREVER_S = 600
Write = Callable[[DataFrame], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Where a query is killed: a batch of a run, both counted from 0."""

    run: int = 1
    batch: int = 1


def _nothing(_rows: DataFrame) -> None:
    """Compute nothing: the kill comes before any row of the batch is computed."""


def _all(rows: DataFrame) -> None:
    """Compute every row: the kill comes when the state is one version ahead."""
    rows.write.format("noop").mode("overwrite").save()


def _one_partition(rows: DataFrame) -> None:
    """Compute one partition: the kill comes when only the first partition has written its state."""
    context = rows.sparkSession.sparkContext
    context.runJob(rows.rdd, list, [0])


def _until(point: Point, write: Write, stage: Stage) -> Callable[[DataFrame, int], None]:
    begun: list[int] = []

    def batch(rows: DataFrame, number: int) -> None:
        begun.append(number)
        if (stage.run, len(begun) - 1) < (point.run, point.batch):
            _all(rows)
            return
        write(rows)
        stage.reached.write_text(str(number), "utf-8")
        time.sleep(_FOREVER_S)

    return batch


def _files(point: Point, write: Write) -> Callable[[Stage], DataStreamWriter]:
    def query(stage: Stage) -> DataStreamWriter:
        return stage.files().writeStream.foreachBatch(_until(point, write, stage))

    return query


def _sums(point: Point, write: Write) -> Callable[[Stage], DataStreamWriter]:
    def query(stage: Stage) -> DataStreamWriter:
        by = watermarked(stage).groupBy(f.window("t", "10 minutes"), "k")
        sums = by.agg(f.sum("v").alias("total"))
        return sums.writeStream.foreachBatch(_until(point, write, stage))

    return query


SCENARIOS = (
    Scenario(
        name="killed-first-batch",
        about="killed in the first batch: no commit at all",
        query=_files(Point(run=0, batch=0), _nothing),
        feed=json_files(2),
        runs=1,
        part=Part.KILLED,
    ),
    Scenario(
        name="killed-before-write",
        about="killed after the second batch of the second run was planned",
        query=_files(Point(), _nothing),
        part=Part.KILLED,
    ),
    Scenario(
        name="killed-before-state",
        about="windowed sums, killed after a batch was planned",
        query=_sums(Point(), _nothing),
        mode="update",
        conf=PROVIDERS["hdfs"],
        part=Part.KILLED,
    ),
    Scenario(
        name="killed-after-state-hdfs",
        about="windowed sums, killed when the state was written and the commit was not",
        query=_sums(Point(), _all),
        mode="update",
        conf=PROVIDERS["hdfs"],
        part=Part.KILLED,
    ),
    Scenario(
        name="killed-after-state-changelog",
        about="windowed sums, killed when the state was written and the commit was not",
        query=_sums(Point(), _all),
        mode="update",
        conf=PROVIDERS["changelog"],
        part=Part.KILLED,
    ),
    Scenario(
        name="killed-after-one-partition",
        about="windowed sums, killed when one of two partitions had written its state",
        query=_sums(Point(), _one_partition),
        mode="update",
        conf=PROVIDERS["hdfs"],
        part=Part.KILLED,
    ),
)
