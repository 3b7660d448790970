"""A query as it was and as it is to be: what `holdfast check` says beside what real Spark does.

    <folder>/in0/0.json …     what source 0 reads; `in1` for a second one
    <folder>/ck               the checkpoint, with a run record of the old query beside it

The old query runs over two files and stops. Two more files come, and the new query starts from the
checkpoint. Beside it the new query runs from the beginning, over two files and then over four: what
it gives in its second run is what a safe change gives after the restart, row for row.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.restarting import HDFS, copied

from holdfast.decode import fingerprint as plans
from holdfast.model.finding import Check, Code, Judgement
from holdfast.run import check as checks
from holdfast.run import fingerprint

SCHEMA = "k string, k2 string, v long, w long, t timestamp"
Rows = Counter[tuple[object, ...]]
Build = Callable[[Sequence[DataFrame]], DataFrame]
_EPOCH = 1_767_225_600
_SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.stateStore.providerClass": HDFS,
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Query:
    """A query that can be built again, itself and no other; `reads` are folders of its sources."""

    build: Build
    reads: tuple[str, ...] = ("in0",)
    mode: str = "append"
    schema: str = SCHEMA
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    def frame(self, spark: SparkSession, folder: Path) -> DataFrame:
        """The streaming DataFrame, in a session of its own."""
        session = spark.newSession()
        for key, value in {**_SETTINGS, **self.settings}.items():
            session.conf.set(key, value)
        return self.build([self._read(session, folder, one) for one in self.reads])

    def _read(self, session: SparkSession, folder: Path, name: str) -> DataFrame:
        if name == "rate":
            rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
            return rate.selectExpr(
                "string(value) k", "string(value) k2", "value v", "value w", "timestamp t"
            )
        options = {"maxFilesPerTrigger": "1", **self.options}
        reader = session.readStream.schema(self.schema).options(**options)
        return reader.json(f"{folder}/{name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A change, the verdict that it must get, and the codes that must be told."""

    name: str
    old: Query
    new: Query
    verdict: Judgement
    codes: frozenset[Code]
    removed: str = ""
    """A folder of the checkpoint that somebody has removed in between."""

    def __str__(self) -> str:
        """The name of the case."""
        return self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What was said, with and without a run record, and what Spark did."""

    said: Check
    without_record: Check
    failed: str
    rows: Rows
    wanted: Rows

    @property
    def same(self) -> bool:
        """Whether the restart gave what the new query gives that ran from the beginning."""
        return not self.failed and self.rows == self.wanted


def write_input(folder: Path, batch: int) -> None:
    """The input files of a number, for both sources: keys that all share, and keys of their own."""
    minute = f"2026-01-01T{batch // 6 + 14:02d}:{batch % 6}0:00Z"
    late = f"2026-01-01T{batch // 6 + 15:02d}:{batch % 6}7:00Z"
    for source in (0, 1):
        lines: list[Mapping[str, object]] = [
            {"k": "a", "k2": "b", "v": 10 - batch, "w": 100 * (batch + 1), "t": minute},
            {"k": "b", "k2": "a", "v": 10 * (batch + 1), "w": 7 + source, "t": minute},
            {"k": f"f{batch}", "k2": f"g{batch}", "v": 5 + source, "w": 3, "t": late},
            {"k": f"x{batch}", "k2": f"f{max(batch - 2, 0)}", "v": -batch, "w": 1, "t": minute},
            {"k": f"g{batch % 2}", "k2": f"g{batch % 2}", "v": 50, "w": batch, "t": minute},
            {"k": "again", "k2": "same", "v": 1, "w": 2, "t": "2026-01-01T14:00:00Z"},
        ]
        path = folder / f"in{source}" / f"{batch:04d}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(json.dumps(row) for row in lines))
        os.utime(path, (_EPOCH + batch, _EPOCH + batch))
    (folder / "other").mkdir(exist_ok=True)


class Bases:
    """Queries that have run over two files, and what they give over two more; each once."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._made: dict[Query, Path] = {}
        self._wanted: dict[Query, Rows] = {}

    def at(self, query: Query, folder: Path) -> Path:
        """A copy of a query's folder after two files, with two more to read."""
        copied(self._base(query), folder)
        for batch in (2, 3):
            write_input(folder, batch)
        return folder

    def wanted(self, query: Query) -> Rows:
        """What the query gives over the two files that come later, having read the first two."""
        if query not in self._wanted:
            folder = self.at(query, self._folder / f"wanted{len(self._wanted)}")
            failed, self._wanted[query] = ran(self._spark, query, folder)
            assert not failed, failed
        return self._wanted[query]

    def _base(self, query: Query) -> Path:
        if query not in self._made:
            folder = self._folder / f"base{len(self._made)}"
            for batch in (0, 1):
                write_input(folder, batch)
            failed, _ = ran(self._spark, query, folder)
            assert not failed, failed
            self._made[query] = folder
        return self._made[query]


def ran(spark: SparkSession, query: Query, folder: Path) -> tuple[str, Rows]:
    """Run a query to the end of its input: the error, or nothing, and all rows that it gave."""
    rows: Rows = Counter()

    def keep(frame: DataFrame, _: int) -> None:
        rows.update(tuple(str(value) for value in row) for row in frame.collect())

    try:
        running = _writer(query, spark, folder).foreachBatch(keep).start()
        running.awaitTermination()
    except PySparkException as error:
        return str(error)[:300], rows
    return "", rows


def _writer(query: Query, spark: SparkSession, folder: Path) -> DataStreamWriter:
    stream = query.frame(spark, folder).writeStream.outputMode(query.mode)
    return stream.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True)


def outcome(spark: SparkSession, bases: Bases, case: Case, folder: Path) -> Outcome:
    """Check the change, then let Spark start the new query."""
    bases.at(case.old, folder)
    location = str(folder / "ck")
    if case.removed:
        shutil.rmtree(folder / "ck" / case.removed)
    new = case.new.frame(spark, folder)
    without = checks.check(new, location, output_mode=case.new.mode)
    record(spark, case.old, folder)
    before = _files(folder)
    said = checks.check(new, location, output_mode=case.new.mode)
    assert _files(folder) == before, "a check has changed something"
    failed, rows = ran(spark, case.new, folder)
    return Outcome(
        said=said,
        without_record=without,
        failed=failed,
        rows=rows,
        wanted=Counter() if failed else bases.wanted(case.new),
    )


def record(spark: SparkSession, query: Query, folder: Path) -> None:
    """A run record of a query, as its runner writes one."""
    plan = fingerprint.of(query.frame(spark, folder), sinks=(), output_mode=query.mode)
    run = folder / ".holdfast/ck/runs/1767225600000-r1"
    run.mkdir(parents=True)
    query_id = json.loads((folder / "ck/metadata").read_text())["id"]
    started = {
        "event": "started", "at_ms": 1_767_225_600_000, "query_id": query_id, "run_id": "r1",
        "name": "ck", "spark_version": spark.version, "location": str(folder / "ck"),
        "sources": [], "configuration": {}, "output_mode": query.mode, "plan": plans.encode(plan),
    }  # fmt: skip
    (run / "000000.jsonl").write_text(json.dumps(started) + "\n")


def _files(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*")}
