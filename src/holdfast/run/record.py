"""Run records for any PySpark application: one call per session."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.run.watch.listener import Records


def record(spark: "SparkSession", *, storage: Mapping[str, str] | None = None) -> "Records":
    """Write run records for every streaming query of a session, next to its checkpoint.

    The records of a query with the checkpoint `<folder>/<name>` go to
    `<folder>/.holdfast/<name>/runs/`. Call this once, before the queries start.
    """
    from holdfast.run.watch import listener, records

    recorder = records.Recorder(flush_seconds=1.0)
    listening = listener.Records(spark, recorder, storage or {}, every_query=True)
    spark.streams.addListener(listening)
    return listening
