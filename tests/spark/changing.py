"""A query as it was and as it is to be: what `holdfast check` says beside what real Spark does.

    <folder>/in0/0.json …     what source 0 reads; `in1` for a second one
    <folder>/delta0           the same as a Delta table
    <folder>/topics.json      the broker, and what its topics `kafka0` and `kafka1` are called
    <folder>/out0             where a query writes to that has a sink of Spark's
    <folder>/ck               the checkpoint, with a run record of the old query beside it

The old query runs over two files and stops. Two more files come, and the new query starts from the
checkpoint. Beside it the new query runs from the beginning, over two files and then over four: what
it gives in its second run is what a safe change gives after the restart, row for row. Of a query
with a sink of files everything is compared that then lies there.
"""

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from confluent_kafka import Producer
from deltalake import write_deltalake
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.restarting import HDFS, copied

from holdfast.decode import fingerprint as plans
from holdfast.examples.broker import Broker
from holdfast.model.finding import Check, Code, Judgement
from holdfast.run.query import check as checks
from holdfast.run.query import fingerprint

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
    """A query that can be built again, itself and no other.

    `reads` are its sources: `in0`, `delta0`, `kafka0`, `rate`. `sink` is one of Spark's, as
    `parquet out0` or `kafka out0`; without one a function gets the rows.
    """

    build: Build
    reads: tuple[str, ...] = ("in0",)
    mode: str = "append"
    schema: str = SCHEMA
    options: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    sink: str = ""

    def frame(self, spark: SparkSession, folder: Path) -> DataFrame:
        """The streaming DataFrame, in a session of its own."""
        session = spark.newSession()
        for key, value in {**_SETTINGS, **self.settings}.items():
            session.conf.set(key, value)
        return self.build([self._read(session, folder, one) for one in self.reads])

    def writer(self, spark: SparkSession, folder: Path) -> DataStreamWriter:
        """What is to be started, with its sink if that is one of Spark's."""
        stream = self.frame(spark, folder).writeStream.outputMode(self.mode)
        stream = stream.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True)
        kind, _, name = self.sink.partition(" ")
        if kind == "kafka":
            topics = _topics(folder)
            stream = stream.option("kafka.bootstrap.servers", topics["servers"])
            return stream.format(kind).option("topic", f"{name}-{topics['suffix']}")
        return stream.format(kind).option("path", f"{folder}/{name}") if kind else stream

    def _read(self, session: SparkSession, folder: Path, name: str) -> DataFrame:
        if name == "rate":
            rate = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
            return rate.selectExpr(
                "string(value) k", "string(value) k2", "value v", "value w", "timestamp t"
            )
        if name.startswith("kafka"):
            topics = _topics(folder)
            names = ",".join(f"{one}-{topics['suffix']}" for one in name.split(","))
            given = {"kafka.bootstrap.servers": topics["servers"], "startingOffsets": "earliest"}
            reader = session.readStream.format("kafka").options(**{**given, **self.options})
            read = reader.option("subscribe", names).load()
            return read.select(
                sql.from_json(read.value.cast("string"), self.schema).alias("r")
            ).select("r.*")
        options = {"maxFilesPerTrigger": "1", **self.options}
        if name.startswith("delta"):
            return session.readStream.format("delta").options(**options).load(f"{folder}/{name}")
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


def write_input(folder: Path, batch: int) -> Mapping[int, Sequence[Mapping[str, object]]]:
    """The input files of a number, for both sources: keys that all share, and keys of their own."""
    minute = f"2026-01-01T{batch // 6 + 14:02d}:{batch % 6}0:00Z"
    late = f"2026-01-01T{batch // 6 + 15:02d}:{batch % 6}7:00Z"
    written: dict[int, Sequence[Mapping[str, object]]] = {}
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
        written[source] = lines
    (folder / "other").mkdir(exist_ok=True)
    return written


class Bases:
    """Queries that have run over two files, with two more to read; each once."""

    def __init__(self, spark: SparkSession, folder: Path, broker: Callable[[], Broker]) -> None:
        self._spark = spark
        self._folder = folder
        self._broker = broker
        self._made: dict[Query, Path] = {}
        self._wanted: dict[Query, Rows] = {}

    def at(self, query: Query, folder: Path) -> Path:
        """A copy of a query's folder after two files, with two more to read."""
        return copied(self._base(query), folder)

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
            self._feed(query, folder, (0, 1))
            failed, _ = ran(self._spark, query, folder)
            assert not failed, failed
            self._feed(query, folder, (2, 3))
            self._made[query] = folder
        return self._made[query]

    def _feed(self, query: Query, folder: Path, batches: Sequence[int]) -> None:
        """Files always, tables and topics where the query is of them."""
        kinds = {one.rstrip("01,") for one in (*query.reads, *query.sink.split(" "))}
        if "kafka" in " ".join(kinds) and not (folder / "topics.json").exists():
            self._topics(folder)
        for batch in batches:
            for source, rows in write_input(folder, batch).items():
                if "delta" in kinds:
                    table = pa.Table.from_pylist([dict(one) for one in rows])
                    write_deltalake(f"{folder}/delta{source}", table, mode="append")
                if any(one.startswith("kafka") for one in query.reads):
                    self._send(f"kafka{source}-{_topics(folder)['suffix']}", rows)

    def _topics(self, folder: Path) -> None:
        suffix = folder.name
        for one in ("kafka0", "kafka1", "out0", "out1"):
            self._broker().create_topic(f"{one}-{suffix}", 1)
        told = {"servers": self._broker().bootstrap_servers, "suffix": suffix}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "topics.json").write_text(json.dumps(told))

    def _send(self, topic: str, rows: Sequence[Mapping[str, object]]) -> None:
        producer = Producer({"bootstrap.servers": self._broker().bootstrap_servers})
        for row in rows:
            producer.produce(topic, json.dumps(row).encode())
        producer.flush()


def _topics(folder: Path) -> Mapping[str, str]:
    found: Mapping[str, str] = json.loads((folder / "topics.json").read_text())
    return found


def ran(spark: SparkSession, query: Query, folder: Path) -> tuple[str, Rows]:
    """Run a query to the end of its input: the error, or nothing, and all rows that it gave."""
    rows: Rows = Counter()

    def keep(frame: DataFrame, _: int) -> None:
        rows.update(_shown(frame))

    before = _topic_rows(spark, query, folder)
    try:
        writer = query.writer(spark, folder)
        running = (writer if query.sink else writer.foreachBatch(keep)).start()
        running.awaitTermination()
        kind, _, name = query.sink.partition(" ")
        if kind == "kafka":
            rows = _topic_rows(spark, query, folder) - before
        elif kind:
            rows.update(_shown(spark.read.format(kind).load(f"{folder}/{name}")))
    except (PySparkException, Py4JJavaError) as error:
        return str(error)[:300], rows
    return "", rows


def _shown(frame: DataFrame) -> list[tuple[str, ...]]:
    return [tuple(str(value) for value in row) for row in frame.collect()]


def _topic_rows(spark: SparkSession, query: Query, folder: Path) -> Rows:
    """What is in the topic that a query writes to, for all that share it."""
    kind, _, name = query.sink.partition(" ")
    if kind != "kafka":
        return Counter()
    topics = _topics(folder)
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", topics["servers"])
    read = reader.option("subscribe", f"{name}-{topics['suffix']}").load()
    return Counter(_shown(read.select(read.value.cast("string"))))


def outcome(spark: SparkSession, bases: Bases, case: Case, folder: Path) -> Outcome:
    """Check the change, then let Spark start the new query."""
    bases.at(case.old, folder)
    location = str(folder / "ck")
    if case.removed:
        shutil.rmtree(folder / "ck" / case.removed)
    new = case.new.writer(spark, folder) if case.new.sink else case.new.frame(spark, folder)
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
    frame, sinks, _ = checks.unpack_writer(query.writer(spark, folder))
    plan = fingerprint.take_from_frame(
        frame, sinks=sinks if query.sink else (), output_mode=query.mode
    )
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
