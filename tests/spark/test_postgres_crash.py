"""Kill the driver at every step of the PostgreSQL sinks; the rows are right all the same.

The oracle is the input: every row once, every key at its newest. A reader looks at table and
ledger all the while, and never sees a part of a batch.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.spark.cutting_proxy import CuttingProxy
from tests.spark.driving import KILLED, ended, land, wait_for
from tests.spark.postgres_driving import (
    DatabaseStage,
    Reader,
    assert_rows_right,
    fresh_schema,
)

from holdfast.examples.database import Database

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

CASES = {
    "pg-append": ("planned@0", "writing@1", "moved@2", "written@3"),
    "pg-append-large": ("writing@0", "staged@1", "noted@2", "written@3"),
    "pg-upsert": ("planned@0", "moved@1", "noted@2", "written@3"),
    "pg-upsert-large": ("writing@0", "staged@1", "moved@2", "written@3"),
    "pg-stateful": ("planned@0", "moved@1", "written@2"),
}
EVERY_POINT = [
    f"{point}@{n}"
    for point in ("planned", "writing", "staged", "moved", "noted", "written")
    for n in (0, 2)
]
IN_TEST = {"pg-append-large": "staged@1", "pg-upsert": "noted@1"}


def stage(
    home: Path,
    database: Database,
    sink: str,
    *,
    holds: tuple[str, ...] = (),
    proxy: CuttingProxy | None = None,
) -> DatabaseStage:
    land(home)
    through = database.connection.replace(f"port={database.port}", f"port={proxy and proxy.port}")
    return DatabaseStage(
        home=home,
        source="files",
        sink=sink,
        connection=database.connection,
        schema=fresh_schema(database),
        holds=holds,
        driver_connection=through if proxy else "",
    )


@pytest.fixture
def own(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Database]:
    """A server that a test may crash."""
    with Database(tmp_path_factory.mktemp("own")) as running:
        monkeypatch.setenv("PGPASSFILE", str(running.pgpass))
        yield running


@pytest.mark.parametrize("sink", IN_TEST)
def test_killed_driver_loses_and_duplicates_nothing(
    tmp_path: Path, database: Database, sink: str
) -> None:
    kill_and_restart(stage(tmp_path, database, sink), (IN_TEST[sink],))


@pytest.mark.prove
@pytest.mark.parametrize("sink", CASES)
def test_drivers_that_are_killed_one_after_the_other(
    tmp_path: Path, database: Database, sink: str
) -> None:
    kill_and_restart(stage(tmp_path, database, sink), CASES[sink])


@pytest.mark.prove
@pytest.mark.parametrize("point", EVERY_POINT)
@pytest.mark.parametrize("sink", list(CASES))
def test_every_sink_at_every_point(
    tmp_path: Path, database: Database, sink: str, point: str
) -> None:
    if point.startswith("staged") and not sink.endswith("-large"):
        sink = f"{sink}-large" if sink != "pg-stateful" else "pg-append-large"
    kill_and_restart(stage(tmp_path, database, sink), (point,))


def kill_and_restart(stage: DatabaseStage, points: tuple[str, ...]) -> None:
    """Kill a driver at each point, let the last one run to the end, and look at the rows."""
    with Reader(stage) as reader:
        for point in points:
            died = stage.run(point)
            assert died.code == KILLED, f"{point}: {died.said}"
        last = stage.run()
        assert last.code == 0, last.said
    assert_rows_right(stage)
    if "append" in stage.sink:
        reader.assert_whole_batches()


def finish(stage: DatabaseStage, disturb: Callable[[str], None]) -> None:
    with Reader(stage) as reader:
        end = stage.run_through(disturb)
    assert end.code == 0, end.said
    assert_rows_right(stage)
    if "append" in stage.sink:
        reader.assert_whole_batches()


SERVER_CRASHES = {
    "pg-append-large": ("writing@0", "staged@1", "moved@2", "noted@3"),
    "pg-append": ("copying@0", "moved@1", "noted@2", "written@3"),
    "pg-upsert": ("copying@0", "moved@1", "noted@2", "written@3"),
    "pg-upsert-large": ("writing@0", "staged@1", "moved@2", "noted@3"),
}


@pytest.mark.parametrize(
    "sink",
    [
        s if s == "pg-append-large" else pytest.param(s, marks=pytest.mark.prove)
        for s in SERVER_CRASHES
    ],
)
def test_a_server_that_crashes_in_the_middle(tmp_path: Path, own: Database, sink: str) -> None:
    def crash(_: str) -> None:
        own.stop(immediately=True)
        own.start()

    finish(stage(tmp_path, own, sink, holds=SERVER_CRASHES[sink]), crash)


CUTS = {
    "pg-append": ("copying@0", "moved@1", "noted@2", "written@3"),
    "pg-append-large": ("writing@0", "staged@1", "moved@2", "noted@3"),
    "pg-upsert": ("copying@0", "moved@1", "noted@2", "written@3"),
}


@pytest.mark.parametrize(
    "sink", [s if s == "pg-append" else pytest.param(s, marks=pytest.mark.prove) for s in CUTS]
)
def test_a_connection_that_is_cut(tmp_path: Path, database: Database, sink: str) -> None:
    with CuttingProxy(database.port) as proxy:

        def cut(point: str) -> None:
            if point.startswith("noted"):
                proxy.swallow_answers()  # the commit arrives; that it did is never told
            else:
                proxy.cut()

        finish(stage(tmp_path, database, sink, holds=CUTS[sink], proxy=proxy), cut)


@pytest.mark.prove
def test_tasks_that_fail_and_batches_that_are_partitioned_anew(
    tmp_path: Path, database: Database
) -> None:
    several = replace(stage(tmp_path, database, "pg-append-large"), partitions=3)
    retried = "local[2,3]"
    with Reader(several) as reader:
        assert several.run("staged@0", "--master", retried).code == KILLED
        again = replace(several, partitions=5)
        assert again.run("written@1", "--master", retried).code == KILLED
        last = again.run("failing@2", "--master", retried)
        assert last.code == 0, last.said
        assert (tmp_path / "crashed-failing-2").exists()
    assert_rows_right(several)
    reader.assert_whole_batches()


@pytest.mark.parametrize(
    ("sink", "point"),
    [
        ("pg-append", "frozen-noted@1"),
        pytest.param("pg-append-large", "frozen-staged@1", marks=pytest.mark.prove),
        pytest.param("pg-upsert-large", "frozen-moved@1", marks=pytest.mark.prove),
    ],
)
def test_a_driver_that_wakes_after_its_lease_commits_nothing(
    tmp_path: Path, database: Database, sink: str, point: str
) -> None:
    frozen = stage(tmp_path, database, sink)
    zombie = frozen.start(point, "--lease", "2")
    try:
        wait_for(tmp_path / f"crashed-{point.replace('@', '-')}")
        time.sleep(2.5)
        heir = frozen.run("", "--lease", "2")
        assert heir.code == 0, heir.said
        os.killpg(zombie.pid, signal.SIGCONT)
        woken = ended(zombie)
        assert woken.code == 4, woken.said
        assert "DRIVER_FENCED" in woken.said
    finally:
        if zombie.poll() is None:
            os.killpg(zombie.pid, signal.SIGKILL)
    assert_rows_right(frozen)
