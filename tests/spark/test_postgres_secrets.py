"""One run with all that writes things down, and an error on the way: no password is in any."""

from pathlib import Path

import psycopg
import pytest
from tests.spark.driving import land
from tests.spark.postgres_driving import DatabaseStage, assert_rows_right, fresh_schema

from holdfast.examples.database import ROLE, Database
from holdfast.run.session import jars

pytestmark = [pytest.mark.spark, pytest.mark.slow]

JDBC_URL = "jdbc:postgresql://127.0.0.1:{}/postgres"
END_THEM = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""


def command_lines() -> list[str]:
    """The command line of every process that there is."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return lines


def written_down(events: Path) -> list[str]:
    """Options of a driver that logs all its plans and settings, as they are."""
    events.mkdir()
    drivers = ",".join(str(path) for path in jars.fetch("jdbc-drivers"))
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(events),
        "spark.eventLog.compress": "false",
        "spark.jars": drivers,
    }
    return [option for key, value in settings.items() for option in ("--set", f"{key}={value}")]


def assert_in_no_file(home: Path, password: str) -> None:
    files = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    assert any(b"physicalPlanDescription" in data for data in files.values())
    assert any(".holdfast" in path.parts for path in files)
    assert not [path for path, data in files.items() if password.encode() in data]


@pytest.mark.parametrize(
    "sink", ["pg-append-large", pytest.param("jdbc-append", marks=pytest.mark.prove)]
)
def test_the_password_is_written_down_nowhere(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch, sink: str
) -> None:
    password = database.password_file.read_text()
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    monkeypatch.setenv("PGPASSWORD", password)
    monkeypatch.setenv("CRASH_USER", ROLE)
    monkeypatch.setenv("CRASH_PASSWORD", password)
    land(tmp_path)
    by_jdbc = sink.startswith("jdbc-")
    stage = DatabaseStage(
        home=tmp_path,
        source="files",
        sink=sink,
        connection=database.connection,
        driver_connection=JDBC_URL.format(database.port) if by_jdbc else "",
        schema="public" if by_jdbc else fresh_schema(database),
        holds=("writing@1",),
    )
    seen: list[str] = []

    def look_and_disturb(_: str) -> None:
        seen.extend(command_lines())
        with psycopg.connect(database.connection, autocommit=True) as connection:
            connection.execute(END_THEM)

    end = stage.run_through(look_and_disturb, *written_down(tmp_path / "events"))

    assert end.code == 0, end.said
    assert_rows_right(stage)
    if by_jdbc:  # whose tables are in the schema that all tests share
        with psycopg.connect(database.connection, autocommit=True) as connection:
            connection.execute("DROP TABLE rows, holdfast_ledger, holdfast_ledger_history")
    assert any("holdfast run" in line for line in seen)
    assert any("pyspark.daemon" in line for line in seen)
    assert not [line for line in seen if password in line]
    assert password not in end.said
    assert_in_no_file(tmp_path, password)
