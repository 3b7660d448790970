"""From continuous mode to micro-batches, with real Spark and Kafka: it fails, and what cures it."""

import json
import re
import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.diagnosing import codes, diagnosed
from tests.spark.driving import send_numbers

from holdfast.examples.broker import Broker
from holdfast.model.finding import Code, Finding

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow, pytest.mark.prove]

_EPOCHS = 3


def _frame(spark: SparkSession, broker: Broker, topic: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("subscribe", topic)
    reader = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers)
    return reader.option("startingOffsets", "earliest").load().selectExpr("int(string(value)) n")


def _ran_continuously(spark: SparkSession, broker: Broker, topic: str, checkpoint: Path) -> None:
    stream = _frame(spark, broker, topic).writeStream.format("noop").trigger(continuous="1 second")
    query = stream.option("checkpointLocation", str(checkpoint)).start()
    deadline = time.monotonic() + 60
    while len(list((checkpoint / "commits").glob("[0-9]*"))) < _EPOCHS:
        assert time.monotonic() < deadline
        assert query.exception() is None
        time.sleep(0.2)
    query.stop()


def _read_in_batches(
    spark: SparkSession, broker: Broker, topic: str, checkpoint: Path
) -> list[int]:
    found: list[int] = []

    def take(rows: DataFrame, _batch: int) -> None:
        found.extend(int(row.n) for row in rows.collect())

    stream = _frame(spark, broker, topic).writeStream.foreachBatch(take).trigger(availableNow=True)
    stream.option("checkpointLocation", str(checkpoint)).start().awaitTermination()
    return sorted(found)


def _newest(checkpoint: Path, log: str) -> int:
    return max(int(one.name) for one in (checkpoint / log).glob("[0-9]*"))


def _told(checkpoint: Path) -> Finding:
    (told,) = (one for one in diagnosed(checkpoint).findings if one.code is Code.CONTINUOUS_MODE)
    return told


def _followed(checkpoint: Path, remedy: str) -> None:
    """Do what a remedy says, by its own words."""
    away = re.search(r"move `offsets/(\d+)`(?: to `offsets/(\d+)`)?", remedy)
    if away is not None:
        for batch in range(int(away[1]), int(away[2] or away[1]) + 1):
            (checkpoint / f"offsets/{batch}").unlink()
            (checkpoint / f"offsets/.{batch}.crc").unlink(missing_ok=True)
    line = re.search(r"give `(offsets/(\d+))` the second line `(.+?)` and", remedy)
    assert line is not None, remedy
    entry = checkpoint / line[1]
    head, _, rest = entry.read_text().split("\n", 2)
    entry.write_text(f"{head}\n{line[3]}\n{rest}")
    (checkpoint / f"offsets/.{line[2]}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("pending", [0, 1])
def test_another_trigger_fails_until_the_entry_has_settings(
    spark: SparkSession, broker: Broker, tmp_path: Path, pending: int
) -> None:
    topic, checkpoint = f"continuous-{pending}", tmp_path / "ck"
    broker.create_topic(topic, 1)
    send_numbers(broker, topic, range(5))
    _ran_continuously(spark, broker, topic, checkpoint)
    last = _newest(checkpoint, "offsets")
    for epoch in range(last + 1 - pending, _newest(checkpoint, "commits") + 1):
        (checkpoint / f"commits/{epoch}").unlink()
        (checkpoint / f"commits/.{epoch}.crc").unlink(missing_ok=True)
    send_numbers(broker, topic, range(5, 8))
    told = _told(checkpoint)
    assert f"and fails, because the second line of `offsets/{last}` is empty" in told.text
    with pytest.raises(StreamingQueryException, match="watermarkTracker"):
        _read_in_batches(spark, broker, topic, checkpoint)
    _followed(checkpoint, told.remedies[1])
    assert not codes(diagnosed(checkpoint)) & {Code.CONTINUOUS_MODE, Code.ENTRY_WITHOUT_SETTINGS}
    entry = checkpoint / f"offsets/{_newest(checkpoint, 'offsets')}"
    stands = json.loads(entry.read_text().split("\n")[2])
    assert _read_in_batches(spark, broker, topic, checkpoint) == [*range(stands[topic]["0"], 8)]
