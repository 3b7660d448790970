"""An event log that this Spark writes says what the decoder reads out of it."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.decode import event_log
from holdfast.model.events import (
    ApplicationStarted,
    BatchPlanned,
    QueryProgress,
    QueryStarted,
    QueryTerminated,
)
from holdfast.model.fact import Unreadable

pytestmark = pytest.mark.spark

APPLICATION = """
import sys
from pyspark.sql import SparkSession

home = sys.argv[1]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.eventLog.enabled", "true")
    .config("spark.eventLog.dir", f"file://{home}/log")
    .config("spark.eventLog.compress", "false")
    .config("spark.eventLog.rolling.enabled", "false")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .getOrCreate()
)
for name, mode in (("plain", "append"), ("counted", "complete"), ("broken", "append")):
    rows = spark.readStream.text(f"{home}/in")
    if name == "counted":
        rows = rows.groupBy("value").count()
    if name == "broken":
        rows = rows.selectExpr("raise_error(value)")
    writer = rows.writeStream.queryName(name).outputMode(mode).format("noop")
    query = writer.trigger(availableNow=True).option("checkpointLocation", f"{home}/{name}").start()
    try:
        query.awaitTermination()
    except Exception:
        assert name == "broken"
spark.stop()
"""


def test_what_spark_logs_of_its_queries(tmp_path: Path) -> None:
    for folder in ("in", "log"):
        (tmp_path / folder).mkdir()
    (tmp_path / "in" / "a.txt").write_text("a\nb\n")
    subprocess.run(
        [sys.executable, "-c", APPLICATION, str(tmp_path)], check=True, capture_output=True
    )
    (log,) = (tmp_path / "log").iterdir()
    with log.open("rb") as lines:
        events = list(event_log.decode(lines))
    assert not [event for event in events if isinstance(event, Unreadable)]
    (application,) = (event for event in events if isinstance(event, ApplicationStarted))
    assert application.spark_version.count(".") == 2
    names = {event.query_id: event.name for event in events if isinstance(event, QueryStarted)}
    assert sorted(names.values()) == ["broken", "counted", "plain"]
    (planned,) = (event for event in events if isinstance(event, BatchPlanned))
    assert names[planned.query_id] == "counted"
    assert planned.output_mode == "complete"
    assert planned.location == f"file:{tmp_path}/counted"
    assert "StateStoreSave" in planned.operators
    batches = {
        names[event.query_id]: event
        for event in events
        if isinstance(event, QueryProgress) and isinstance(event.query_id, str)
    }
    assert {batches[name].rows for name in ("plain", "counted")} == {2}
    assert batches["counted"].sink == "NoopTable"
    assert [one.name for one in batches["counted"].operators] == ["stateStoreSave"]
    assert batches["plain"].sources[0].end == {"logOffset": 0}
    ended = {
        names[event.query_id]: event.error
        for event in events
        if isinstance(event, QueryTerminated) and isinstance(event.query_id, str)
    }
    assert ended["plain"] == ended["counted"] == ""
    assert "USER_RAISED_EXCEPTION" in ended["broken"]
