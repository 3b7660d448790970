"""What a scenario is, and the input it feeds: a query, run at least twice on one checkpoint.

Everything happens below `ROOT`, because a checkpoint holds absolute paths: the same folder on every
machine, so that no path of one machine gets into the repository.

    ROOT/<spark version>/<scenario>/input/       what a file source reads
                                   /sink/        what a file or Delta sink wrote
                                   /checkpoint/  what this is all about
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

ROOT = Path("/tmp/holdfast-golden")  # noqa: S108 - the same on every machine, see above
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
SCHEMA = "k STRING, v LONG, t TIMESTAMP"

# An instant that every regeneration shares: event times and file times are no part of the clock.
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Part(StrEnum):
    """The process that a scenario is recorded in; a version's scenarios share one each."""

    PLAIN = "plain"
    # State maintenance every second, so that snapshots and deletions happen while a query runs.
    MAINTAINED = "maintained"
    # State checkpoint format 2: Spark 4.0 writes the format of a process's first query into the
    # RocksDB metadata of all of them.
    FORMAT_2 = "format-2"
    # Every query of the process is killed at once, with its JVM.
    KILLED = "killed"
    # No process of ours: Spark's own command runs a declarative pipeline.
    PIPELINE = "pipeline"


class Needs(StrEnum):
    """What a scenario needs beside pyspark."""

    KAFKA = "kafka"
    DELTA = "delta"
    ICEBERG = "iceberg"
    # Classes of `tools/golden/java`: an operator that Spark has for Scala and Java only.
    JAVA = "java"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """A run that reads what there is, in as many batches as the source makes of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """A run with a batch every few seconds, stopped in the pause after `batches` of them."""

    every: str = "2 seconds"
    batches: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuous:
    """A run in continuous mode, stopped after some seconds."""

    seconds: float = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RealTime:
    """A run in real-time mode: batches that last `batch`, stopped after `batches` of them."""

    batch: str = "5 seconds"
    batches: int = 2


Pace = AvailableNow | Paced | Continuous | RealTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where one run of a scenario happens."""

    spark: SparkSession
    folder: Path
    run: int
    kafka: str = ""

    @property
    def checkpoint(self) -> Path:
        """The checkpoint location, the same for each run."""
        return self.folder / "checkpoint"

    @property
    def sink(self) -> Path:
        """Where a sink of files may write; kept beside the checkpoint."""
        return self.folder / "sink"

    @property
    def reached(self) -> Path:
        """Appears when a run has reached the point where it is to be killed."""
        return self.folder / "reached"

    def input(self, name: str = "input") -> Path:
        """A folder for a file source."""
        return self.folder / name

    def topic(self, name: str) -> str:
        """A topic of this scenario alone."""
        return f"{self.folder.name}-{name}"

    def files(self, name: str = "input", per_batch: int = 1, **options: str) -> DataFrame:
        """A stream of the JSON files in an input folder."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_batch)
        return reader.options(**options).json(str(self.input(name)))


def no_input(stage: Stage) -> None:
    """For sources that make their own rows."""


def json_files(*counts: int, name: str = "input") -> Callable[[Stage], None]:
    """A feeder that adds so many files before each run, each ten minutes of events later."""

    def feed(stage: Stage) -> None:
        first = sum(counts[: stage.run])
        json_files_in(stage.input(name), range(first, first + counts[stage.run]))

    return feed


def json_files_in(folder: Path, numbers: range) -> None:
    """Files for a file source, each ten minutes of events after the one before it."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        _write(folder / f"part-{number:02}.json", number)


def _write(path: Path, number: int) -> None:
    at = _EPOCH + timedelta(minutes=10 * number)
    rows = [
        {"k": key, "v": number * 10 + place, "t": (at + timedelta(minutes=place)).isoformat()}
        for place, key in enumerate(("a", "b", "c", "a"))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    # A file source reads files in the order of their times.
    os.utime(path, (at.timestamp(), at.timestamp()))


TWO_AND_TWO = json_files(2, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A query, how it is run, and the Spark versions that have what it shows."""

    name: str
    about: str
    query: Callable[[Stage], DataStreamWriter]
    feed: Callable[[Stage], None] = TWO_AND_TWO
    conf: Mapping[str, str] = field(default_factory=dict)
    mode: str = "append"
    pace: Pace = AvailableNow()
    runs: int = 2
    since: tuple[int, int] = (3, 5)
    until: tuple[int, int] = (99, 0)
    needs: Needs | None = None
    topics: Mapping[str, int] = field(default_factory=dict)
    part: Part = Part.PLAIN
    # Commits are written later than they are reported, and not for every batch.
    asynchronous: bool = False
    # The last run may end with an error, which is recorded: Spark refuses this restart.
    refused: bool = False


def version_of(text: str) -> tuple[int, int]:
    """`4.1.4` -> `(4, 1)`."""
    major, minor, *_ = text.split(".")
    return int(major), int(minor)
