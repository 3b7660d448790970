"""Scenarios and their input: a scenario is a query that usually runs twice on one checkpoint.

All files are below `ROOT`, which is the same folder on every machine: a checkpoint contains
absolute paths, and no path of a particular machine may get into the repository.

    ROOT/<spark version>/<scenario>/input/       the files that a file source reads
                                   /sink/        the files of a file or Delta sink
                                   /checkpoint/  the checkpoint to be kept
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

# Every regeneration uses the same event times and file times, whatever the clock says.
_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Part(StrEnum):
    """The process that records a scenario; per Spark version, a part is one process."""

    PLAIN = "plain"
    # State maintenance every second, so that snapshots and deletions happen while a query runs.
    MAINTAINED = "maintained"
    # State checkpoint format 2: Spark 4.0 writes the format of a process's first query into the
    # RocksDB metadata of all of them.
    FORMAT_2 = "format-2"
    # All queries of the process are killed at once, with their JVM.
    KILLED = "killed"
    # Spark's own command runs a declarative pipeline, in its own process.
    PIPELINE = "pipeline"


class Needs(StrEnum):
    """A requirement of a scenario besides pyspark."""

    KAFKA = "kafka"
    DELTA = "delta"
    ICEBERG = "iceberg"
    # Classes of `tools/golden/java`, for an operator that Spark has only for Scala and Java.
    JAVA = "java"


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """A run that reads all available data, in as many batches as the source needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """A run with a batch every few seconds, stopped in the pause after `batches` batches."""

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
    """The place of one run of a scenario."""

    spark: SparkSession
    folder: Path
    run: int
    kafka: str = ""

    @property
    def checkpoint(self) -> Path:
        """Return the checkpoint location, which is the same for each run."""
        return self.folder / "checkpoint"

    @property
    def sink(self) -> Path:
        """Return the folder for a file sink, which is kept beside the checkpoint."""
        return self.folder / "sink"

    @property
    def reached(self) -> Path:
        """Return the file that appears when a run has reached the point of its kill."""
        return self.folder / "reached"

    def input(self, name: str = "input") -> Path:
        """Return a folder for a file source."""
        return self.folder / name

    def topic(self, name: str) -> str:
        """Return the name of a topic that only this scenario uses."""
        return f"{self.folder.name}-{name}"

    def files(self, name: str = "input", per_batch: int = 1, **options: str) -> DataFrame:
        """Return a stream of the JSON files in an input folder."""
        reader = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", per_batch)
        return reader.options(**options).json(str(self.input(name)))


def no_input(stage: Stage) -> None:
    """Feed nothing, for sources that make their own rows."""


def json_files(*counts: int, name: str = "input") -> Callable[[Stage], None]:
    """Return a feeder that adds files before each run, each ten minutes of events later."""

    def feed(stage: Stage) -> None:
        first = sum(counts[: stage.run])
        json_files_in(stage.input(name), range(first, first + counts[stage.run]))

    return feed


def json_files_in(folder: Path, numbers: range) -> None:
    """Write files for a file source, each ten minutes of events after the previous file."""
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
    """A query, how it is run, and the Spark versions that support it."""

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
    # Spark reports commits before it writes them, and does not write one for every batch.
    asynchronous: bool = False
    # Spark refuses this restart: the last run may end with an error, which is recorded.
    refused: bool = False


def parse_version(text: str) -> tuple[int, int]:
    """Return `(4, 1)` for `4.1.4`."""
    major, minor, *_ = text.split(".")
    return int(major), int(minor)
