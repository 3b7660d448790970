"""A pipeline from one Delta table to another, whose batches take all that is there."""

import json
import os

from pyspark.sql import DataFrame

from holdfast import Pipeline, sinks, sources

PLACE = os.environ["LATE_PLACE"]
STORAGE: dict[str, str] = json.loads(os.environ["LATE_STORAGE"])

pipeline = Pipeline("late", checkpoints=f"{PLACE}/checkpoints", storage=STORAGE)


@pipeline.job(
    "late-job",
    reads=[sources.delta(os.environ["LATE_SOURCE"])],
    writes=[sinks.delta_append(f"{PLACE}/table")],
)
def copy(rows: DataFrame) -> DataFrame:
    """The rows as they are."""
    return rows
