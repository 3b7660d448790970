"""Driving `holdfast run` as a process of its own, as a user or a cluster manager does."""

import functools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Producer

from holdfast.examples.broker import Broker

ROWS = 2_000
ROWS_A_BATCH = 500
KEYS = 50
KILLED = -9


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a driver ended, and what it said."""

    code: int
    said: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One folder with a source, a sink and a checkpoint base; drivers come and go.

    With `place`, a URL, the table and the checkpoint base are there instead.
    """

    home: Path
    source: str
    sink: str
    place: str = ""
    storage: Mapping[str, str] = field(default_factory=dict)

    def environment(self, crash_at: str) -> dict[str, str]:
        """What the crash pipeline is told."""
        return {
            **os.environ,
            "CRASH_HOME": str(self.home),
            "CRASH_SOURCE": self.source,
            "CRASH_SINK": self.sink,
            "CRASH_AT": crash_at,
            "CRASH_PLACE": self.place,
            "CRASH_STORAGE": json.dumps(dict(self.storage)),
            "PYSPARK_PYTHON": sys.executable,
        }

    def start(self, crash_at: str = "", *options: str) -> subprocess.Popen[str]:
        """Start a driver in a process group of its own."""
        return self.start_with(java_options(), crash_at, *options)

    def start_with(self, java: str, crash_at: str, *options: str) -> subprocess.Popen[str]:
        """The same, with options for Java."""
        module = Path(__file__).with_name("crash_pipeline.py")
        command = [sys.executable, "-m", "holdfast", "run", str(module), "--once", "--dev"]
        settings = (f"spark.driver.extraJavaOptions={java}", "spark.ui.enabled=false")
        driver = subprocess.Popen(
            [*command, *(word for one in settings for word in ("--set", one)), *options],
            env=self.environment(crash_at),
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        (self.home / "driver.pid").write_text(str(driver.pid))
        return driver

    def run(self, crash_at: str = "", *options: str) -> Ended:
        """Run a driver to its end."""
        return ended(self.start(crash_at, *options))

    def table(self, name: str) -> deltalake.DeltaTable:
        """A table that the job writes."""
        url = f"{self.place or self.home}/{name}"
        return deltalake.DeltaTable(url, storage_options=dict(self.storage) or None)

    def ids(self, name: str = "table") -> Counter[int]:
        """How often each id is in a table."""
        rows = self.table(name).to_pyarrow_table()
        return Counter(rows.column("id").to_pylist())

    def by_key(self) -> Mapping[int, tuple[int, int]]:
        """The id and the count (1 where there is none) of each key of the table."""
        table = self.table("table").to_pyarrow_table().to_pylist()
        found = {row["k"]: (row["id"], row.get("count", 1)) for row in table}
        assert len(found) == len(table), "a key is there twice"
        return found

    def ids_in_files(self) -> Counter[int]:
        """How often each id is in the file sink's output, for a reader that honours its log."""
        log = self.home / "table/_spark_metadata"
        lines = [line for entry in log.glob("[0-9]*") for line in entry.read_text().splitlines()]
        paths = {json.loads(line)["path"] for line in lines if line.startswith("{")}
        ids: Counter[int] = Counter()
        for path in paths:
            file = Path(path.removeprefix("file://"))
            ids.update(pq.read_table(file, columns=["id"]).column("id").to_pylist())
        return ids


@functools.cache
def java_options() -> str:
    """What a driver that lives for seconds tells Java: one compiler, and Spark's classes mapped.

    Java writes the classes that a process has loaded into an archive when it ends, and ignores an
    archive that another Java or another class path made. With it a driver takes two thirds of the
    CPU. It lies in the virtual environment: made once, gone with it.
    """
    short_life = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    archive = Path(sys.prefix) / "spark-classes.jsa"
    if not archive.exists():
        fresh = archive.with_suffix(f".{os.getpid()}")
        with tempfile.TemporaryDirectory() as home:
            land(Path(home))
            stage = Stage(home=Path(home), source="files", sink="stateful")
            ended(stage.start_with(f"{short_life} -XX:ArchiveClassesAtExit={fresh}", ""))
        if not fresh.exists():  # a Java that was built without this
            return short_life
        fresh.replace(archive)
    return f"{short_life} -XX:SharedArchiveFile={archive} -Xlog:disable"


def ended(driver: subprocess.Popen[str], timeout: float = 240) -> Ended:
    """Wait for a driver's end."""
    said, _ = driver.communicate(timeout=timeout)
    return Ended(code=driver.returncode, said=said)


def rows() -> Iterable[dict[str, object]]:
    """The rows that every stage is given."""
    for number in range(ROWS):
        yield {
            "id": number,
            "k": number % KEYS,
            "at": f"2026-01-01T00:{number // 60 % 60:02d}:{number % 60:02d}.{number:06d}Z",
            "text": f'row {number} \\ "quoted" \u00e9\U0001f600',
        }


def send(home: Path, broker: Broker) -> None:
    """Send the rows to a topic of one partition, so that batches are the same as with files."""
    topic = f"crash-{home.name}"
    broker.create_topic(topic, 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for row in rows():
        producer.produce(topic, json.dumps(row).encode())
    assert producer.flush(30) == 0


def send_numbers(broker: Broker, topic: str, numbers: Iterable[int]) -> None:
    """Send numbers, as texts, to the first partition of a topic."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, value=str(number).encode(), partition=0)
    assert producer.flush(30) == 0


def land(home: Path) -> None:
    """Land the rows as files, one a batch."""
    folder = home / "landing"
    folder.mkdir(parents=True)
    lines = [json.dumps(row) for row in rows()]
    for start in range(0, ROWS, ROWS_A_BATCH):
        part = "\n".join(lines[start : start + ROWS_A_BATCH])
        (folder / f"part-{start:06d}.json").write_text(part)
        # The file source takes the oldest first, by the second.
        stamp = 1_767_225_600 + start
        os.utime(folder / f"part-{start:06d}.json", (stamp, stamp))


def create_table_that_only_spark_writes(stage: Stage) -> None:
    """A NOT NULL column is a duty that holdfast leaves to Spark's Delta writer."""
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("k", pa.int64()),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("text", pa.string()),
        ]
    )
    deltalake.DeltaTable.create(str(stage.home / "table"), schema)


def assert_right(stage: Stage) -> None:
    """The table holds what an unkilled run would have written."""
    newest = {k: max(range(k, ROWS, KEYS)) for k in range(KEYS)}
    match stage.sink:
        case "merge" | "merge-spark" | "merge-large":
            assert stage.by_key() == {k: (newest[k], 1) for k in newest}
        case "stateful":
            assert stage.by_key() == {k: (newest[k], ROWS // KEYS) for k in newest}
        case "outputs":
            assert stage.ids() == Counter(range(0, ROWS, 2))
            assert stage.ids("other") == Counter(range(1, ROWS, 2))
        case "files":
            assert stage.ids_in_files() == Counter(range(ROWS))
        case _:
            assert stage.ids() == Counter(range(ROWS))


def wait_for(path: Path, seconds: float = 120) -> None:
    """Wait until a file is there."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear in {seconds} s"
        time.sleep(0.05)
