"""What an error or a finding says to do: followed to the letter, it works.

Each test follows one piece of advice in a real setup, on every kind of sink that it speaks of.
"""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import deltalake
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.diagnosing import codes, diagnosed

from holdfast import Pipeline, sinks, sources
from holdfast.errors import BatchChanged, SinkBehind, SinkRefused
from holdfast.examples.database import ROLE, Database
from holdfast.model import advice
from holdfast.model.definition import Output
from holdfast.model.finding import Code
from holdfast.run import admission, driver

pytestmark = pytest.mark.spark
PASSWORD = "HOLDFAST_TEST_PASSWORD"


class Setup:
    """A job from a landing folder into one sink or two; each file is one batch."""

    def __init__(self, home: Path, spark: SparkSession, database: Database) -> None:
        self.home = home
        self.spark = spark
        self.database = database
        self.job = home.name.replace("_", "-")
        self.table = self.job.replace("-", "_")
        (home / "landing").mkdir()

    def land(self, first: int, count: int = 5) -> None:
        """Land one file of rows."""
        rows = "\n".join(json.dumps({"id": one}) for one in range(first, first + count))
        hidden = self.home / f"landing/.{first}"
        hidden.write_text(rows)
        hidden.rename(self.home / f"landing/{first:05}.json")

    def outputs(self, *kinds: str) -> list[Output]:
        """Outputs by their kinds."""
        jdbc = f"jdbc:postgresql://127.0.0.1:{self.database.port}/postgres"
        served, table = self.database.connection, self.table
        made = {
            "delta": lambda: sinks.delta_append(str(self.home / "table")),
            "merge": lambda: sinks.delta_merge(str(self.home / "merged"), keys=["id"]),
            "postgres": lambda: sinks.postgres_append(served, table),
            "upsert": lambda: sinks.postgres_upsert(served, table, keys=["id"]),
            "jdbc": lambda: sinks.jdbc_append(jdbc, table, user=ROLE, password=f"env:{PASSWORD}"),
            "jdbc-upsert": lambda: sinks.jdbc_upsert(
                jdbc, table, keys=["id"], user=ROLE, password=f"env:{PASSWORD}"
            ),
        }
        return [made[kind]() for kind in kinds]

    def run(self, *kinds: str, accept: str = "", job: str = "", landing: str = "landing") -> None:
        """Run the job once to the end."""
        declared = Pipeline("hints", checkpoints=str(self.home / "checkpoints"))
        reads = sources.files(
            str(self.home / landing),
            format="json",
            schema="id LONG",
            options={"maxFilesPerTrigger": "1"},
        )
        outputs = self.outputs(*kinds)
        declared.job(job or self.job, reads=reads, writes=outputs)(lambda rows: rows)
        accepted = frozenset({accept} - {""})
        wishes = admission.Wishes(dev=True, once=True, restarts=0, accepted=accepted)
        driver.start(declared.declaration, declared.jobs, self.spark, wishes).wait()

    def rows(self, kind: str) -> list[int]:
        """The ids in a sink, sorted."""
        if kind in ("delta", "merge"):
            name = "table" if kind == "delta" else "merged"
            files = deltalake.DeltaTable(self.home / name).file_uris()
            tables = [pq.read_table(file, columns=["id"]) for file in files]
            return sorted(pa.concat_tables(tables).column("id").to_pylist())
        return sorted(int(str(one)) for (one,) in self.query(f"SELECT id FROM {self.table}"))

    def query(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement in the database."""
        with psycopg.connect(self.database.connection, autocommit=True) as connection:
            done = connection.execute(statement.encode())
            return done.fetchall() if done.description else []

    def delete_tables(self, *kinds: str) -> None:
        """Delete the tables, and nothing else."""
        for kind in kinds:
            if kind in ("delta", "merge"):
                shutil.rmtree(self.home / ("table" if kind == "delta" else "merged"))
            else:
                self.query(f"DROP TABLE {self.table}")

    def create_for_upsert(self) -> None:
        """An upsert by JDBC needs a table with a key."""
        self.query(f"CREATE TABLE {self.table} (id BIGINT PRIMARY KEY)")

    @property
    def checkpoint(self) -> Path:
        """The job's checkpoint."""
        return self.home / f"checkpoints/{self.job}"


@pytest.fixture
def setup(
    tmp_path: Path, spark: SparkSession, database: Database, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Setup]:
    """A landing folder, a checkpoint base, and a table name of its own."""
    monkeypatch.setenv(PASSWORD, database.password_file.read_text().strip())
    made = Setup(tmp_path, spark, database)
    yield made
    made.query(f"DROP TABLE IF EXISTS {made.table}")


def _kinds(some: str, *others: str) -> list[object]:
    """Cases by the kinds of their sinks; all but the first are swept in `make prove`."""
    swept = [pytest.param(one.split(), id=one, marks=pytest.mark.prove) for one in others]
    return [pytest.param(some.split(), id=some), *swept]


@pytest.mark.parametrize(
    "kinds", _kinds("delta postgres", "merge", "upsert", "jdbc", "merge jdbc-upsert", "delta")
)
def test_a_job_begins_from_nothing_as_told(setup: Setup, kinds: list[str]) -> None:
    if "jdbc-upsert" in kinds:
        setup.create_for_upsert()
    setup.land(0)
    setup.land(10)
    setup.run(*kinds)
    # The checkpoint alone is deleted, and the source has other files by now.
    shutil.rmtree(setup.checkpoint)
    (setup.home / "landing/00000.json").unlink()
    setup.land(20)
    with pytest.raises(BatchChanged) as told:
        setup.run(*kinds)
    assert told.value.hint.endswith(advice.start_over(setup.job, str(setup.checkpoint)))
    # What the hint says:
    shutil.rmtree(setup.checkpoint)
    setup.delete_tables(*kinds)
    (forget,) = re.findall(r"`(DELETE FROM holdfast_ledger [^`]+)`", told.value.hint)
    if set(kinds) - {"delta", "merge"}:
        setup.query(forget)
    if "jdbc-upsert" in kinds:
        setup.create_for_upsert()
    setup.run(*kinds)
    for kind in kinds:
        assert setup.rows(kind) == [*range(10, 15), *range(20, 25)]
    setup.land(30)
    setup.run(*kinds)
    for kind in kinds:
        assert setup.rows(kind) == [*range(10, 15), *range(20, 25), *range(30, 35)]


@pytest.mark.parametrize(
    "kind", ["postgres", "jdbc-upsert", pytest.param("jdbc", marks=pytest.mark.prove)]
)
def test_a_dropped_table_is_empty_whatever_its_ledger_says(setup: Setup, kind: str) -> None:
    """Nobody has to know of the ledger where the table was dropped with the checkpoint."""
    if kind == "jdbc-upsert":
        setup.create_for_upsert()
    setup.land(0)
    setup.run(kind)
    shutil.rmtree(setup.checkpoint)
    setup.delete_tables(kind)
    (setup.home / "landing/00000.json").unlink()
    setup.land(10)
    if kind == "jdbc-upsert":
        with pytest.raises(SinkRefused, match="to upsert into, found none"):
            setup.run(kind)
        setup.create_for_upsert()
    setup.run(kind)
    assert setup.rows(kind) == [*range(10, 15)]


@pytest.mark.parametrize("kinds", _kinds("delta postgres", "merge", "upsert", "jdbc"))
def test_a_lost_table_is_accepted_as_told(setup: Setup, kinds: list[str]) -> None:
    setup.land(0)
    setup.run(*kinds)
    setup.delete_tables(*kinds)
    setup.land(10)
    with pytest.raises(SinkBehind, match="a sink without any batch") as told:
        setup.run(*kinds)
    assert told.value.hint == advice.BEHIND
    setup.run(*kinds, accept="SINK_BEHIND")
    setup.land(20)
    setup.run(*kinds)
    for kind in kinds:
        assert setup.rows(kind) == [*range(10, 15), *range(20, 25)]


@pytest.mark.parametrize(
    "kind", ["postgres", *(pytest.param(one, marks=pytest.mark.prove) for one in ("delta", "jdbc"))]
)
def test_a_sink_that_lacks_several_batches_is_accepted_as_told(setup: Setup, kind: str) -> None:
    """As after a backup was put back: table and ledger are whole, and three batches older."""
    setup.land(0)
    setup.run(kind)
    ledger = f"SELECT batch, digest, offsets::text FROM holdfast_ledger WHERE job = '{setup.job}'"
    kept = [] if kind == "delta" else setup.query(ledger)
    if kind == "delta":
        shutil.copytree(setup.home / "table", setup.home / "backup")
    for first in (10, 20, 30):
        setup.land(first)
    setup.run(kind)
    if kind == "delta":
        shutil.rmtree(setup.home / "table")
        shutil.copytree(setup.home / "backup", setup.home / "table")
    else:
        (batch, digest, offsets) = kept[0]
        setup.query(f"DELETE FROM {setup.table} WHERE id >= 10")
        setup.query(
            f"UPDATE holdfast_ledger SET batch = {batch}, digest = '{digest}',"
            f" offsets = '{offsets}' WHERE job = '{setup.job}'"
        )
    setup.land(40)
    with pytest.raises(SinkBehind, match="batch 0 as the sink's last"):
        setup.run(kind)
    setup.run(kind, accept="SINK_BEHIND")
    assert setup.rows(kind) == [*range(5), *range(40, 45)]
    setup.land(50)
    setup.run(kind)
    assert setup.rows(kind) == [*range(5), *range(40, 45), *range(50, 55)]


def test_a_restored_table_goes_on_as_told(setup: Setup) -> None:
    setup.land(0)
    setup.run("delta")
    table = deltalake.DeltaTable(setup.home / "table")
    whole = table.version()
    table.restore(0)
    deltalake.DeltaTable(setup.home / "table").restore(whole)
    setup.land(10)
    with pytest.raises(SinkBehind, match="restored or replaced") as told:
        setup.run("delta")
    assert "put back by hand, start once with `--accept SINK_BEHIND`" in told.value.hint
    setup.run("delta", accept="SINK_BEHIND")
    setup.land(20)
    setup.run("delta")
    assert setup.rows("delta") == [*range(5), *range(10, 15), *range(20, 25)]


def test_a_new_name_reads_a_new_folder_into_the_same_table(setup: Setup) -> None:
    setup.land(0)
    setup.run("delta", "postgres")
    (setup.home / "new").mkdir()
    (setup.home / "new/a.json").write_text('{"id": 100}\n')
    setup.run("delta", "postgres", job=f"{setup.job}-2", landing="new")
    for kind in ("delta", "postgres"):
        assert setup.rows(kind) == [*range(5), 100]


def test_a_copy_of_the_table_is_put_back_as_told(setup: Setup) -> None:
    setup.land(0)
    setup.run("delta")
    shutil.copytree(setup.home / "table", setup.home / "copy")
    setup.land(10)
    setup.run("delta")
    # The checkpoint is taken back, and batch 1 comes as a new one with other files.
    for path in (*setup.checkpoint.glob("offsets/*1*"), *setup.checkpoint.glob("commits/*1*")):
        path.unlink()
    for path in setup.checkpoint.glob("sources/0/*1*"):
        path.unlink()
    (told,) = (one for one in diagnosed(setup.checkpoint).findings if one.code is Code.SINK_SKIPS)
    assert told.remedies[0] == "put back a copy of the table from before that batch"
    shutil.rmtree(setup.home / "table")
    shutil.copytree(setup.home / "copy", setup.home / "table")
    assert Code.SINK_SKIPS not in codes(diagnosed(setup.checkpoint))
    setup.run("delta")
    assert setup.rows("delta") == [*range(5), *range(10, 15)]
