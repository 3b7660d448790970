"""Kill the driver at every step of the JDBC sinks, into a real MariaDB; the rows are right."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.mariadb_server import USER, MariaDbServer
from tests.spark.driving import KEYS, KILLED, ROWS, Stage, land

from holdfast.run import jars

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
    drivers = ",".join(str(path) for path in jars.paths("jdbc-drivers"))
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
