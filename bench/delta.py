"""Kafka to Delta, exactly once: holdfast's sink against Spark's Delta sink and the noop sink.

All queries run in one session, in turn, for several rounds. Each query has its own table and
checkpoint, and reads the same topic in batches of the same size.
"""

import statistics
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from bench.measure import Result, at_least, at_most
from holdfast import sinks, sources
from holdfast.examples.broker import Broker
from holdfast.run import order
from holdfast.run.pipeline import Pipeline
from holdfast.run.start.admission import RunOptions

BATCH_ROWS = 10_000
BATCHES = 8
WARM = 3
LARGE_ROWS = 2_000_000
SNAPSHOT = "spark.databricks.delta.snapshotPartitions"

Query = Callable[[Path, int], list[float]]


def fill(broker: Broker, topic: str, rows: int) -> None:
    """Create a topic with two partitions, and write rows of about 100 bytes to it."""
    broker.create_topic(topic, 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 50})
    for number in range(rows):
        value = f'{{"id":{number},"sensor":"sensor-{number % 997:04d}","value":{number % 4099}.25}}'
        while True:
            try:
                producer.produce(topic, value.encode(), key=str(number % 997), partition=number % 2)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


class Bench:
    """The queries that are compared; each method returns the milliseconds of every trigger."""

    def __init__(self, spark: SparkSession, broker: Broker, topic: str) -> None:
        self._spark = spark
        self._servers = broker.bootstrap_servers
        self._topic = topic

    def _read(self, spark: SparkSession, batch_rows: int) -> DataFrame:
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self._servers)
            .option("subscribe", self._topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", batch_rows)
            .load()
        )

    def run_noop(self, home: Path, batch_rows: int) -> list[float]:
        """Run with Spark's noop sink: the cost of a trigger without writing."""
        stream = self._read(self._spark, batch_rows).writeStream.format("noop")
        return _run(stream, home, home / "none")

    def run_delta(self, home: Path, batch_rows: int) -> list[float]:
        """Run with Spark's Delta sink, with the defaults of Spark and Delta."""
        spark = self._spark.newSession()
        spark.conf.set(SNAPSHOT, "50")
        spark.conf.set("spark.sql.shuffle.partitions", "200")
        return _run(self._read(spark, batch_rows).writeStream.format("delta"), home, home / "table")

    def run_tuned_delta(self, home: Path, batch_rows: int) -> list[float]:
        """Run with Spark's Delta sink, with one snapshot partition."""
        stream = self._read(self._spark, batch_rows).writeStream.format("delta")
        return _run(stream, home, home / "table")

    def run_holdfast(self, home: Path, batch_rows: int) -> list[float]:
        """Run with holdfast, including lease, records and ledger."""
        pipeline = Pipeline("bench", checkpoints=str(home / "checkpoints"))
        options = {"maxOffsetsPerTrigger": str(batch_rows)}

        @pipeline.job(
            "bench",
            reads=sources.kafka(self._servers, self._topic, options=options),
            writes=sinks.delta_append(str(home / "table")),
        )
        def bench(rows: DataFrame) -> DataFrame:
            return rows

        run_options = RunOptions(dev=True, once=True)
        running = order.start(
            pipeline.declaration, pipeline.jobs, run_options, lambda _: self._spark
        )
        running.wait()
        return _list_triggers(running.queries["bench"])


def _run(stream: object, home: Path, table: Path) -> list[float]:
    query = (
        stream.option("checkpointLocation", str(home / "checkpoint"))  # type: ignore[attr-defined]
        .trigger(availableNow=True)
        .start(str(table))
    )
    query.awaitTermination()
    return _list_triggers(query)


def _list_triggers(query: object) -> list[float]:
    progress = query.recentProgress  # type: ignore[attr-defined]
    return [p["durationMs"]["triggerExecution"] for p in progress if p["numInputRows"] > 0]


def measure_small_batches(
    spark: SparkSession, broker: Broker, home: Path, rounds: int
) -> list[Result]:
    """Measure the median trigger with batches of 10,000 rows."""
    fill(broker, "small", BATCH_ROWS * BATCHES)
    bench = Bench(spark, broker, "small")
    queries: dict[str, Query] = {
        "noop": bench.run_noop,
        "holdfast": bench.run_holdfast,
        "delta": bench.run_delta,
    }
    samples: dict[str, list[float]] = {name: [] for name in queries}
    for round_number in range(-1, rounds):
        for name, query in queries.items():
            triggers = query(home / f"small-{name}-{round_number}", BATCH_ROWS)
            assert len(triggers) == BATCHES, (name, triggers)
            if round_number >= 0:  # an extra first round warms up the JVM
                samples[name].append(statistics.median(triggers[WARM:]))
    return [
        at_least("10,000-row batches, trigger", "ms", samples, "delta", "holdfast", 8),
        at_most("10,000-row batches, trigger over noop", "ms", samples, "holdfast", "noop", 1.5),
    ]


def measure_large_batch(
    spark: SparkSession, broker: Broker, home: Path, rounds: int
) -> list[Result]:
    """Measure the throughput of two million rows in one batch."""
    fill(broker, "large", LARGE_ROWS)
    bench = Bench(spark, broker, "large")
    queries: dict[str, Query] = {"holdfast": bench.run_holdfast, "delta": bench.run_tuned_delta}
    samples: dict[str, list[float]] = {name: [] for name in queries}
    for round_number in range(rounds):
        for name, query in queries.items():
            triggers = query(home / f"large-{name}-{round_number}", LARGE_ROWS)
            assert len(triggers) == 1, (name, triggers)
            samples[name].append(LARGE_ROWS / triggers[0] * 1000)
    return [
        at_least("2 million rows in one batch", "rows/s", samples, "holdfast", "delta", 1.3),
    ]
