"""One live driver a job: the second is refused, and one that wakes too late writes nothing."""

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.driving import (
    KILLED,
    ROWS,
    ROWS_A_BATCH,
    Stage,
    assert_right,
    create_table_that_only_spark_writes,
    ended,
    land,
    wait_for,
)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

ONCE = Counter(range(ROWS))


def test_of_two_drivers_started_at_once_one_runs(tmp_path: Path) -> None:
    land(tmp_path)
    stage = Stage(home=tmp_path, source="files", sink="append")
    first, second = stage.start(), stage.start()
    ends = sorted([ended(first), ended(second)], key=lambda end: end.code)
    assert [end.code for end in ends] == [0, 4], ends
    assert "LEASE_HELD: another driver runs job `crash-job`" in ends[1].said
    assert f"process {first.pid if first.returncode == 0 else second.pid} on host" in ends[1].said
    assert stage.ids() == ONCE


@pytest.mark.parametrize(
    "sink",
    ["append", *(pytest.param(one, marks=pytest.mark.prove) for one in ("merge", "append-spark"))],
)
def test_a_driver_that_wakes_after_its_lease_commits_nothing(tmp_path: Path, sink: str) -> None:
    land(tmp_path)
    stage = Stage(home=tmp_path, source="files", sink=sink)
    if sink == "append-spark":
        create_table_that_only_spark_writes(stage)
    point = "frozen-planned@1" if sink == "append-spark" else "frozen-staged@1"
    zombie = stage.start(point, "--lease", "2")
    try:
        wait_for(tmp_path / f"crashed-{point.replace('@', '-')}")
        time.sleep(2.5)
        heir = stage.run("", "--lease", "2")
        assert heir.code == 0, heir.said
        os.killpg(zombie.pid, signal.SIGCONT)
        woken = ended(zombie)
        assert woken.code == 4, woken.said
        assert "DRIVER_FENCED" in woken.said
    finally:
        if zombie.poll() is None:
            os.killpg(zombie.pid, signal.SIGKILL)
    assert_right(stage)


def test_killed_driver_on_this_host_is_replaced_at_once(tmp_path: Path) -> None:
    land(tmp_path)
    stage = Stage(home=tmp_path, source="files", sink="append")
    assert stage.run("planned@0", "--lease", "600").code == KILLED
    heir = stage.run("", "--lease", "600")
    assert heir.code == 0, heir.said
    assert stage.ids() == ONCE


def test_a_driver_keeps_its_lease_while_spark_starts(tmp_path: Path) -> None:
    land(tmp_path)
    stage = Stage(home=tmp_path, source="files", sink="append")
    first = stage.start("", "--lease", "3")
    try:
        wait_for(tmp_path / "checkpoints/.holdfast/crash-job/lease/000000000001.json")
        time.sleep(3.5)
        second = stage.run("", "--lease", "3")
        assert second.code == 4, second.said
        assert "LEASE_HELD" in second.said
        kept = ended(first)
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
    assert kept.code == 0, kept.said
    assert stage.ids() == ONCE


@pytest.mark.parametrize("told_by", [signal.SIGTERM, signal.SIGINT])
def test_a_run_of_what_is_there_ends_in_order_when_it_is_told(
    tmp_path: Path, told_by: signal.Signals
) -> None:
    land(tmp_path)
    stage = Stage(home=tmp_path, source="files", sink="append")
    driver = stage.start()
    try:
        wait_for(tmp_path / "checkpoints/crash-job/commits/0")
        driver.send_signal(told_by)
        told = ended(driver, timeout=60)
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
    assert told.code == 0, told.said
    lease = tmp_path / "checkpoints/.holdfast/crash-job/lease/000000000001.json"
    assert json.loads(lease.read_text())["released"]
    checkpoint = tmp_path / "checkpoints/crash-job"
    batches = [
        {int(entry.name) for entry in (checkpoint / log).iterdir() if entry.name.isdigit()}
        for log in ("offsets", "commits")
    ]
    planned, committed = batches
    assert len(planned - committed) <= 1, "at most the batch after the stop is left for later"
    assert stage.ids() == Counter(range(ROWS_A_BATCH * len(committed)))
    assert stage.run().code == 0
    assert stage.ids() == ONCE
