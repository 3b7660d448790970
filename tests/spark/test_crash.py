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
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

POINTS = ("planned@0", "writing@1", "staged@2", "written@3")
CASES = {
    "append": POINTS,
    "append-large": ("writing@0", "staged@1", "written@2"),
    "append-partitioned": ("writing@0", "written@1"),
    "append-spark": ("planned@0", "writing@1", "written@2"),
    "merge": POINTS,
    "merge-spark": ("writing@0", "written@1"),
    "stateful": POINTS,
    "outputs": ("planned@0", "writing@1", "written@2"),
    "files": ("planned@0", "writing@1", "written@2"),
}


@pytest.mark.parametrize("sink", CASES)
def test_killed_driver_loses_and_duplicates_nothing(tmp_path: Path, sink: str) -> None:
    land(tmp_path)
    stage = Stage(home=tmp_path, source="files", sink=sink)
    if sink.endswith("-spark"):
        create_table_that_only_spark_writes(stage)
    for point in CASES[sink]:
        died = stage.run(point)
        assert died.code == KILLED, f"{point}: {died.said}"
    last = stage.run()
    assert last.code == 0, last.said
    assert_right(stage)
