"""What an error or a finding says to do: followed to the letter, it works.

Each test follows one piece of advice in a real setup, on every kind of sink that it speaks of.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import deltalake
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.diagnosing import codes, diagnosed

from holdfast import Pipeline, sinks, sources
from holdfast.errors import (
    BatchChanged,
    LocationMoved,
    QueryFailed,
    SinkBehind,
    SinkRefused,
    SourceUnavailable,
    StartUnsafe,
)
from holdfast.examples.database import ROLE, Database
from holdfast.model import advice
from holdfast.model.definition import Output
from holdfast.model.finding import Code
from holdfast.run import order
from holdfast.run.start.admission import RunOptions

pytestmark = pytest.mark.spark
PASSWORD = "HOLDFAST_TEST_PASSWORD"
ROOT = Path(__file__).parents[2]
_IN_FOLDERS = {"delta", "merge"}


class Setup:
    """A job from a landing folder into one sink or two; each file is one batch."""

    def __init__(self, home: Path, spark: SparkSession, database: Database) -> None:
        self.home = home
        self.spark = spark
        self.database = database
        self.job = home.name.replace("_", "-")
        self.table = self.job.replace("-", "_")
        self.folder = "table"
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
            "delta": lambda: sinks.delta_append(str(self.home / self.folder)),
            "merge": lambda: sinks.delta_merge(str(self.home / "merged"), keys=["id"]),
            "postgres": lambda: sinks.postgres_append(served, table),
            "upsert": lambda: sinks.postgres_upsert(served, table, keys=["id"]),
            "jdbc": lambda: sinks.jdbc_append(jdbc, table, user=ROLE, password=f"env:{PASSWORD}"),
            "jdbc-upsert": lambda: sinks.jdbc_upsert(
                jdbc, table, keys=["id"], user=ROLE, password=f"env:{PASSWORD}"
            ),
        }
        return [made[kind]() for kind in kinds]

    def run(
        self,
        *kinds: str,
        accept: str = "",
        job: str = "",
        landing: str = "landing",
        base: str = "checkpoints",
        code: Callable[[DataFrame], DataFrame] = lambda rows: rows,
        format_: str = "json",
    ) -> None:
        """Run the job once to the end."""
        declared = Pipeline("hints", checkpoints=str(self.home / base))
        reads = sources.files(
            str(self.home / landing),
            format=format_,
            schema="id LONG",
            options={"maxFilesPerTrigger": "1"},
        )
        outputs = self.outputs(*kinds)
        declared.job(job or self.job, reads=reads, writes=outputs)(code)
        accepted = frozenset(accept.split())
        options = RunOptions(dev=True, once=True, restarts=0, accepted=accepted)
        order.start(declared.declaration, declared.jobs, options, lambda _: self.spark).wait()

    def rows(self, kind: str) -> list[int]:
        """The ids in a sink, sorted."""
        if kind in ("delta", "merge"):
            name = self.folder if kind == "delta" else "merged"
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
    with pytest.raises(SinkBehind, match="no batch of this job") as told:
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
    with pytest.raises(SinkBehind, match="ends at batch 0"):
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


def _remove(location: Path, told: str) -> None:
    """Remove the entries that a remedy names, with their hidden checksums."""
    named = re.findall(r"`(offsets|commits)/(\d+)`(?: to `(?:offsets|commits)/(\d+)`)?", told)
    for log, first, last in named:
        for batch in range(int(first), int(last or first) + 1):
            (location / log / str(batch)).unlink()
            (location / log / f".{batch}.crc").unlink(missing_ok=True)


def _remedy(location: Path, code: Code, place: int) -> str:
    (told,) = (one for one in diagnosed(location).findings if one.code is code)
    return told.remedies[place]


def _lose_offsets(setup: Setup) -> tuple[Code, int]:
    _remove(setup.checkpoint, "`offsets/1` to `offsets/2`")
    return Code.COMMIT_AHEAD, 0


def _damage_offsets(setup: Setup) -> tuple[Code, int]:
    (setup.checkpoint / "offsets/.2.crc").unlink(missing_ok=True)
    (setup.checkpoint / "offsets/2").write_text("")
    return Code.ENTRY_UNREADABLE, 1


def _lose_commits(setup: Setup) -> tuple[Code, int]:
    _remove(setup.checkpoint, "`commits/1` to `commits/2`")
    return Code.BATCHES_SKIPPED, 0


@pytest.mark.parametrize(
    ("harm", "kinds"),
    [
        pytest.param(_lose_offsets, ["delta", "postgres"], id="offsets lost"),
        *(
            pytest.param(harm, kinds, marks=pytest.mark.prove)
            for harm, kinds in (
                (_lose_offsets, ["merge"]),
                (_lose_offsets, ["jdbc"]),
                (_damage_offsets, ["upsert"]),
                (_damage_offsets, ["delta"]),
                (_lose_commits, ["postgres"]),
                (_lose_commits, ["delta"]),
            )
        ),
    ],
)
def test_sinks_and_checkpoint_are_taken_back_as_told(
    setup: Setup, harm: Callable[[Setup], tuple[Code, int]], kinds: list[str]
) -> None:
    """The tables come from a copy, in a database with the job's rows in the ledger."""
    folders = [{"delta": "table", "merge": "merged"}[one] for one in kinds if one in _IN_FOLDERS]
    served = bool(set(kinds) - _IN_FOLDERS)
    ours = f"WHERE job = '{setup.job}'"
    for number in range(3):
        setup.land(10 * number)
        setup.run(*kinds)
        for name in folders:
            shutil.copytree(setup.home / name, setup.home / f"{name}-{number}")
        if served:
            setup.query(f"CREATE TABLE {setup.table}_{number} AS SELECT * FROM {setup.table}")
            copied = f"CREATE TABLE {setup.table}_ledger_{number}"
            setup.query(f"{copied} AS SELECT * FROM holdfast_ledger {ours}")
    code, last = harm(setup)
    told = _remedy(setup.checkpoint, code, 1)
    assert advice.take_sinks_back(last) in told
    # What the remedy says:
    for name in folders:
        shutil.rmtree(setup.home / name)
        shutil.copytree(setup.home / f"{name}-{last}", setup.home / name)
    if served:
        setup.query(f"DELETE FROM {setup.table}")
        setup.query(f"INSERT INTO {setup.table} SELECT * FROM {setup.table}_{last}")
        setup.query(f"DELETE FROM holdfast_ledger {ours}")
        setup.query(f"INSERT INTO holdfast_ledger SELECT * FROM {setup.table}_ledger_{last}")
    _remove(setup.checkpoint, told.partition("; then ")[2].partition(": ")[0])
    setup.land(30)
    setup.run(*kinds)
    for kind in kinds:
        assert setup.rows(kind) == sorted(
            [*range(5), *range(10, 15), *range(20, 25), *range(30, 35)]
        )
    for number in range(3) if served else ():
        setup.query(f"DROP TABLE {setup.table}_{number}, {setup.table}_ledger_{number}")


@pytest.mark.parametrize("kind", ["postgres", pytest.param("jdbc", marks=pytest.mark.prove)])
def test_a_database_forgets_batches_by_hand_as_the_guide_says(setup: Setup, kind: str) -> None:
    for number in range(3):
        setup.land(10 * number)
        setup.run(kind)
    code, last = _lose_offsets(setup)
    told = _remedy(setup.checkpoint, code, 1)
    guide = (ROOT / "docs/guides/start-over.md").read_text()
    (block,) = re.findall(r"```sql\s+(DELETE FROM orders.*?)```", guide, re.DOTALL)
    said = block.replace("DELETE FROM orders ", f"DELETE FROM {setup.table} ")
    said = said.replace("orders-ingest", setup.job).replace("id > 1000", "id >= 10")
    assert "batch = 7" in said
    for statement in (
        said.replace("batch = 7", f"batch = {last}").replace("> 7", f"> {last}").split(";")
    ):
        if statement.strip():
            setup.query(statement)
    _remove(setup.checkpoint, told.partition("; then ")[2].partition(": ")[0])
    setup.run(kind)
    assert setup.rows(kind) == [*range(5), *range(10, 15), *range(20, 25)]


def test_a_landing_folder_is_created_as_told(setup: Setup) -> None:
    with pytest.raises(SourceUnavailable) as told:
        setup.run("delta", landing="new place")
    (command,) = re.findall(r"`(.+)`", told.value.hint)
    subprocess.run(["sh", "-c", command], check=True)
    (setup.home / "new place/a.json").write_text('{"id": 1}')
    setup.run("delta", landing="new place")
    assert setup.rows("delta") == [1]


@pytest.mark.parametrize("mend", [True, False])
def test_a_damaged_file_is_mended_or_taken_out_as_told(setup: Setup, *, mend: bool) -> None:
    staged = setup.home / "staged"
    setup.spark.range(5).coalesce(1).write.parquet(str(staged))
    (part,) = staged.glob("part-*.parquet")
    damaged = setup.home / "landing/a.parquet"
    damaged.write_bytes(b"PAR1 this is not parquet PAR1")
    with pytest.raises(SourceUnavailable, match="a file cannot be read") as told:
        setup.run("delta", format_="parquet")
    assert "start once with `--accept SOURCE_FILES_GONE`" in told.value.hint
    if mend:
        shutil.copy(part, damaged)
        setup.run("delta", format_="parquet")
        assert setup.rows("delta") == [*range(5)]
        return
    damaged.rename(setup.home / "away")
    shutil.copy(part, setup.home / "landing/b.parquet")
    with pytest.raises(StartUnsafe, match="SOURCE_FILES_GONE"):
        setup.run("delta", format_="parquet")
    setup.run("delta", format_="parquet", accept="SOURCE_FILES_GONE")
    assert setup.rows("delta") == [*range(5)]


def test_the_code_that_wrote_the_checkpoint_goes_on_as_told(setup: Setup) -> None:
    def once(rows: DataFrame) -> DataFrame:
        return rows.dropDuplicates(["id"])

    def changed(rows: DataFrame) -> DataFrame:
        texts = rows.selectExpr("CAST(id AS STRING) AS id").dropDuplicates(["id"])
        return texts.selectExpr("CAST(id AS LONG) AS id")

    setup.land(0)
    setup.run("delta", code=once)
    setup.land(3)
    with pytest.raises(QueryFailed, match="the checkpoint does not fit this query") as told:
        setup.run("delta", code=changed, accept="STATE_SCHEMA_CHANGED")
    assert told.value.hint.startswith("start the code that wrote the checkpoint")
    setup.run("delta", code=once)
    assert setup.rows("delta") == [*range(8)]


@pytest.mark.parametrize("whole", [True, False], ids=["base", "checkpoint"])
def test_a_checkpoint_is_moved_as_told(setup: Setup, *, whole: bool) -> None:
    """As a finding about storage that does not last says, and LOCATION_MOVED."""
    kinds = ("delta", "postgres")
    setup.land(0)
    setup.run(*kinds)
    if whole:
        (setup.home / "checkpoints").rename(setup.home / "lasting")
    else:
        (setup.home / "lasting").mkdir()
        setup.checkpoint.rename(setup.home / f"lasting/{setup.job}")
    setup.land(10)
    with pytest.raises(LocationMoved) as told:
        setup.run(*kinds, base="lasting")
    assert "start once with `--accept LOCATION_MOVED`" in told.value.hint
    setup.run(*kinds, base="lasting", accept="LOCATION_MOVED")
    setup.land(20)
    setup.run(*kinds, base="lasting")
    for kind in kinds:
        assert setup.rows(kind) == [*range(5), *range(10, 15), *range(20, 25)]


def test_a_rewritten_file_is_renamed_as_told(setup: Setup) -> None:
    setup.land(0)
    setup.run("delta")
    file = setup.home / "landing/00000.json"
    file.write_text(file.read_text() + '\n{"id": 9}')
    assert Code.SOURCE_FILES_REWRITTEN in codes(diagnosed(setup.checkpoint))
    file.rename(setup.home / "landing/renamed.json")
    setup.run("delta")
    assert setup.rows("delta") == sorted([*range(5), *range(5), 9])


def test_what_was_written_before_is_copied_as_told(setup: Setup) -> None:
    setup.land(0)
    setup.run("delta")
    shutil.copytree(setup.home / "table", setup.home / "other")
    setup.folder = "other"
    setup.land(10)
    setup.run("delta", accept="SINK_CHANGED SINK_BEHIND")
    setup.land(20)
    setup.run("delta")
    assert setup.rows("delta") == [*range(5), *range(10, 15), *range(20, 25)]
