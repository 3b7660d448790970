"""Delta merge: delta-rs on the driver against Spark's MERGE, by size of batch and of table.

The sink chooses by size; the benchmark forces it to use each way in turn. Half of the keys of a
batch are in the table, spread over all its files. That is the most expensive case, because every
file must be rewritten.
"""

import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from bench.measure import Result, at_least
from holdfast.model.batch import Batch, LedgerKey, Writer
from holdfast.model.definition import DeltaMerge
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.sinks import batch_size
from holdfast.sinks.delta import merge, survey
from holdfast.sinks.delta.ledger import make_app_id

CASES = (
    (100_000, 1_000),
    (100_000, 100_000),
    (1_000_000, 10_000),
    (1_000_000, 200_000),
    (5_000_000, 10_000),
)
"""Rows of the table, rows of a batch."""

_WRITER = Writer(
    job=JobName("bench"), generation=Generation(1), epoch=Epoch(1), location="bench/merge"
)
_NO_LIMIT = 1 << 60


def measure_merges(spark: SparkSession, home: Path, rounds: int) -> list[Result]:
    """Measure how much longer Spark's MERGE takes, at sizes for which the sink uses delta-rs."""
    return [
        _measure_case(spark, home, table_rows, batch_rows, rounds)
        for table_rows, batch_rows in CASES
    ]


def _measure_case(
    spark: SparkSession, home: Path, table_rows: int, batch_rows: int, rounds: int
) -> Result:
    engines = {
        name: _merge_batches(
            spark, home / f"{name}-{table_rows}-{batch_rows}", table_rows, batch_rows
        )
        for name in ("driver", "spark")
    }
    samples: dict[str, list[float]] = {name: [] for name in engines}
    for round_number in range(-1, rounds):
        for name, batches in engines.items():
            survey.MODERATE_BYTES = _NO_LIMIT if name == "driver" else -1
            elapsed = next(batches)
            if round_number >= 0:  # an extra first round warms up the JVM
                samples[name].append(elapsed)
    title = f"merge of {batch_rows:,} rows into {table_rows:,}"
    return at_least(title, "ms", samples, "spark", "driver", 1)


def _merge_batches(
    spark: SparkSession, path: Path, table_rows: int, batch_rows: int
) -> Iterator[float]:
    """Create a table, then merge one batch per step and yield its milliseconds."""
    _make_rows(spark, table_rows).write.format("delta").save(str(path))
    declared = DeltaMerge(
        path=str(path), keys=("id",), newest="version", partition_by=(), properties={}
    )
    app_id = make_app_id(
        LedgerKey(job=_WRITER.job, generation=_WRITER.generation, output=OutputName("table"))
    )
    sink = merge.DeltaMergeSink(declared, app_id, {})
    sink.prepare(_WRITER, _make_rows(spark, 1).schema, spark)
    number = 0
    while True:
        batch = Batch(
            life=_WRITER,
            id=BatchId(number),
            digest=Digest(str(number)),
            offsets=number,
            expected_rows=min(batch_rows, batch_size.SMALL_ROWS),
        )
        half = batch_rows // 2
        present = F.col("id") * (table_rows // half)
        absent = F.col("id") + table_rows + number * batch_rows
        rows = (
            _make_rows(spark, batch_rows)
            .withColumn("id", F.when(F.col("id") < half, present).otherwise(absent))
            .withColumn("version", F.lit(number + 1).cast("long"))
        )
        started = time.perf_counter()
        sink.write(batch, rows)
        yield (time.perf_counter() - started) * 1000
        number += 1


def _make_rows(spark: SparkSession, count: int) -> DataFrame:
    """Return rows of about 60 bytes."""
    return spark.range(0, count, numPartitions=2).select(
        F.col("id"),
        F.concat(F.lit("sensor-"), F.col("id") % 997).alias("sensor"),
        F.rand(7).alias("value"),
        F.lit(0).cast("long").alias("version"),
        F.sha1(F.col("id").cast("string")).alias("note"),
    )
