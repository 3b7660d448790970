"""Run records for any PySpark application, in one line."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.run.watch.listener import Records


def record(spark: "SparkSession", *, storage: Mapping[str, str] | None = None) -> "Records":
    """Keep run records of every streaming query of a session, beside each checkpoint.

    The records of a query with the checkpoint `<folder>/<name>` go to
    `<folder>/.holdfast/<name>/runs/`. Call it once, before the queries start.
    """
    from holdfast.run.watch import listener, records

    recorder = records.Recorder(flush_seconds=1.0)
    listening = listener.Records(spark, recorder, storage or {}, every_query=True)
    spark.streams.addListener(listening)
    return listening
