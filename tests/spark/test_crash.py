"""Kill the driver where it hurts; the rows are right all the same.

Each case kills a driver at several points, one after the other, each in a batch of its own; the
last driver runs to the end. The oracle is the input: every row once, every key at its newest.
"""

from pathlib import Path

import pytest
from tests.spark.driving import (
    KILLED,
    Stage,
    assert_right,
    create_table_that_only_spark_writes,
    land,
    send,
)

from holdfast.examples.broker import Broker

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

POINTS = ("planned@0", "writing@1", "staged@2", "written@3")
CASES = {
    "append": POINTS,
    "append-large": ("writing@0", "staged@1"),
    "append-partitioned": ("writing@0", "written@1"),
    "append-spark": ("writing@0", "written@1"),
    "merge": POINTS,
    "merge-spark": ("writing@0", "written@1"),
    "stateful": ("planned@0", "written@1"),
    "outputs": ("writing@0", "written@1"),
    "files": ("planned@0", "writing@1", "written@2"),
}
FROM_KAFKA = {
    "append": ("planned@0", "staged@1"),
    "merge": ("writing@0", "written@1"),
}
EVERY_POINT = tuple(f"{point}@{n}" for n in (0, 2) for point in ("planned", "writing", "written"))
ONLY_IN_PROVE = ("append-partitioned", "append-spark", "merge-spark")


@pytest.mark.parametrize("sink", [sink for sink in CASES if sink not in ONLY_IN_PROVE])
def test_killed_driver_loses_and_duplicates_nothing(tmp_path: Path, sink: str) -> None:
    land(tmp_path)
    kill_and_restart(Stage(home=tmp_path, source="files", sink=sink), CASES[sink])


@pytest.mark.kafka
@pytest.mark.parametrize("sink", FROM_KAFKA)
def test_the_same_from_kafka(tmp_path: Path, broker: Broker, sink: str) -> None:
    send(tmp_path, broker)
    stage = Stage(home=tmp_path, source=broker.bootstrap_servers, sink=sink)
    kill_and_restart(stage, FROM_KAFKA[sink])


@pytest.mark.prove
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("sink", list(CASES))
@pytest.mark.parametrize("source", ["files", "kafka"])
def test_every_sink_at_every_point(tmp_path: Path, broker: Broker, source: str, sink: str) -> None:
    if source == "files":
        land(tmp_path)
    else:
        send(tmp_path, broker)
    where = "files" if source == "files" else broker.bootstrap_servers
    kill_and_restart(Stage(home=tmp_path, source=where, sink=sink), EVERY_POINT)


def kill_and_restart(stage: Stage, points: tuple[str, ...]) -> None:
    """Kill a driver at each point, let the last one run to the end, and look at the rows."""
    if stage.sink.endswith("-spark"):
        create_table_that_only_spark_writes(stage)
    for point in points:
        died = stage.run(point)
        assert died.code == KILLED, f"{point}: {died.said}"
    last = stage.run()
    assert last.code == 0, last.said
    assert_right(stage)
