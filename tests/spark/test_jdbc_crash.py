"""Kill the driver at every step of the JDBC sinks, into a real MariaDB; the rows are right."""

import json
import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.mariadb_server import USER, MariaDbServer
from tests.spark.driving import KEYS, KILLED, ROWS, Stage, ended, land, wait_for

from holdfast.run.session import jars

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

NEWEST = {k: max(range(k, ROWS, KEYS)) for k in range(KEYS)}
CASES = {
    "jdbc-append": ("staged@0", "noted@1", "written@2"),
    "jdbc-upsert": ("planned@0", "writing@1", "moved@2", "written@3"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcStage(Stage):
    """A stage whose table is in MariaDB."""

    server: MariaDbServer

    def environment(self, crash_at: str) -> dict[str, str]:
        """What the crash pipeline is told."""
        mine = {
            "CRASH_DATABASE": self.server.url,
            "CRASH_USER": USER,
            "CRASH_PASSWORD": self.server.password,
        }
        return Stage.environment(self, crash_at) | mine


@pytest.fixture
def drivers(mariadb: MariaDbServer) -> Iterator[tuple[str, str]]:
    """How a driver finds the JDBC drivers; MariaDB is left without tables."""
    paths = ",".join(str(path) for path in jars.fetch("jdbc-drivers"))
    yield "--set", f"spark.jars={paths}"
    for (name,) in mariadb.query("SHOW TABLES"):
        mariadb.query(f"DROP TABLE `{name}`")


def test_a_driver_that_is_frozen_in_its_transaction_is_taken_over(
    tmp_path: Path, mariadb: MariaDbServer, drivers: tuple[str, str]
) -> None:
    land(tmp_path)
    stage = JdbcStage(home=tmp_path, source="files", sink="jdbc-append", server=mariadb)
    zombie = stage.start("frozen-noted@1", "--lease", "2", *drivers)
    try:
        wait_for(tmp_path / "crashed-frozen-noted-1")
        time.sleep(2.5)
        heir = stage.run("", "--lease", "2", *drivers)
        assert heir.code == 0, heir.said
        os.killpg(zombie.pid, signal.SIGCONT)
        woken = ended(zombie)
        assert woken.code == 4, woken.said
        assert "DRIVER_FENCED" in woken.said
    finally:
        if zombie.poll() is None:
            os.killpg(zombie.pid, signal.SIGKILL)
    assert Counter(mariadb.query("SELECT id FROM `rows`")) == Counter((n,) for n in range(ROWS))


def test_lost_records_do_not_stop_the_stream(
    tmp_path: Path, mariadb: MariaDbServer, drivers: tuple[str, str]
) -> None:
    """The ledger behind JDBC is read when Spark runs; the lease has then begun at 1 again."""
    land(tmp_path)
    stage = JdbcStage(home=tmp_path, source="files", sink="jdbc-append", server=mariadb)
    first = stage.run("", *drivers)
    assert first.code == 0, first.said
    mariadb.query("UPDATE holdfast_ledger SET epoch = 7")
    shutil.rmtree(tmp_path / "checkpoints/.holdfast")
    row = {"id": ROWS, "k": 0, "at": "2026-01-02T00:00:00Z", "text": "later"}
    (tmp_path / "landing/part-later.json").write_text(json.dumps(row))
    second = stage.run("", *drivers)
    assert second.code == 0, second.said
    assert Counter(mariadb.query("SELECT id FROM `rows`")) == Counter((n,) for n in range(ROWS + 1))
    assert mariadb.query("SELECT epoch FROM holdfast_ledger") == [(8,)]


def test_a_driver_that_lives_through_the_loss_of_the_records_is_shut_out(
    tmp_path: Path, mariadb: MariaDbServer, drivers: tuple[str, str]
) -> None:
    """Without records the next driver's lease begins at 1, the epoch that the first still has."""
    land(tmp_path)
    stage = JdbcStage(home=tmp_path, source="files", sink="jdbc-append", server=mariadb)
    first = stage.start("frozen-planned@1", *drivers)
    try:
        wait_for(tmp_path / "crashed-frozen-planned-1")
        assert mariadb.query("SELECT epoch, batch FROM holdfast_ledger") == [(1, 0)]
        shutil.rmtree(tmp_path / "checkpoints/.holdfast")
        heir = stage.run("", *drivers)
        assert heir.code == 0, heir.said
        assert mariadb.query("SELECT epoch FROM holdfast_ledger") == [(2,)]
        os.killpg(first.pid, signal.SIGCONT)
        woken = ended(first)
        assert woken.code == 4, woken.said
        assert "DRIVER_FENCED" in woken.said
    finally:
        if first.poll() is None:
            os.killpg(first.pid, signal.SIGKILL)
    assert Counter(mariadb.query("SELECT id FROM `rows`")) == Counter((n,) for n in range(ROWS))
    written = mariadb.query("SELECT batch, epoch FROM holdfast_ledger_history ORDER BY batch")
    assert {epoch for batch, epoch in written if batch} == {2}, written


def test_killed_driver_loses_and_duplicates_nothing(tmp_path: Path, mariadb: MariaDbServer) -> None:
    kill_and_restart(tmp_path, mariadb, "jdbc-append", ("noted@1",))


@pytest.mark.prove
@pytest.mark.parametrize("sink", CASES)
def test_drivers_that_are_killed_one_after_the_other(
    tmp_path: Path, mariadb: MariaDbServer, sink: str
) -> None:
    kill_and_restart(tmp_path, mariadb, sink, CASES[sink])


def kill_and_restart(
    tmp_path: Path, mariadb: MariaDbServer, sink: str, points: tuple[str, ...]
) -> None:
    """Kill a driver at each point, let the last one run to the end, and look at the rows."""
    land(tmp_path)
    if sink == "jdbc-upsert":
        mariadb.query(
            "CREATE TABLE `rows` (id bigint, k bigint PRIMARY KEY, at timestamp(6) NULL,"
            " text longtext)"
        )
    stage = JdbcStage(home=tmp_path, source="files", sink=sink, server=mariadb)
    drivers = ",".join(str(path) for path in jars.fetch("jdbc-drivers"))
    try:
        for point in points:
            died = stage.run(point, "--set", f"spark.jars={drivers}")
            assert died.code == KILLED, f"{point}: {died.said}"
        last = stage.run("", "--set", f"spark.jars={drivers}")
        assert last.code == 0, last.said
        assert mariadb.password not in last.said
        if sink == "jdbc-upsert":
            found = Counter(mariadb.query("SELECT k, id FROM `rows`"))
            assert found == Counter(NEWEST.items())
        else:
            assert Counter(mariadb.query("SELECT id FROM `rows`")) == Counter(
                (n,) for n in range(ROWS)
            )
        names = {name for (name,) in mariadb.query("SHOW TABLES")}
        assert names == {"holdfast_ledger", "holdfast_ledger_history", "rows"}
    finally:
        for (name,) in mariadb.query("SHOW TABLES"):
            mariadb.query(f"DROP TABLE `{name}`")
