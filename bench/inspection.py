"""Looking at checkpoints: an ordinary one against PySpark, large ones, and one on S3.

Seconds are from the start of the process to the end of its output. PySpark's side starts a
session and reads the same files: `metadata`, the offset log and the commit log.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from tests.servers import S3Server, free_port

from bench.measure import Result, at_least
from holdfast.model.json import to_canonical

BATCHES, SOURCES, KAFKA_PARTITIONS = 100, 4, 8
STATE_PARTITIONS = 200
CHECKPOINTS = 40
DELAY_S = 0.02
ROUNDS_LARGE = 3
MEGABYTE = 1 << 20

PYSPARK = """
import sys
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.log.level", "FATAL").getOrCreate())
for name in ("metadata", "offsets", "commits"):
    for row in spark.read.option("wholetext", True).text(f"file://{sys.argv[1]}/{name}").collect():
        print(row.value)
spark.stop()
"""


def ordinary(home: Path, rounds: int) -> list[Result]:
    """100 batches of 4 Kafka sources: shell to output, and the same facts through PySpark."""
    checkpoint = home / "checkpoint"
    write_logs(checkpoint, BATCHES)
    (home / "bare.py").write_text(PYSPARK)
    samples: dict[str, list[float]] = {"holdfast": [], "pyspark": []}
    for number in range(-1, rounds):
        for name, taken in samples.items():
            command = (
                _command(str(checkpoint))
                if name == "holdfast"
                else [sys.executable, str(home / "bare.py"), str(checkpoint)]
            )
            seconds = timed(command)
            if number >= 0:  # the round before the first warms the disk's cache
                taken.append(seconds)
    return [
        at_least("inspect, an ordinary checkpoint", "s", samples, "pyspark", "holdfast", 15),
        _at_most_seconds(
            "inspect, an ordinary checkpoint, shell to output", samples["holdfast"], 0.3
        ),
    ]


def large(home: Path, files: int, most_s: float) -> list[Result]:
    """So many files on local disk: seconds, and memory over that of an ordinary checkpoint."""
    small, checkpoint = home / "small", home / f"files-{files}"
    write_logs(small, BATCHES)
    write_large(checkpoint, files)
    seconds: list[float] = []
    memory: dict[str, list[float]] = {"large": [], "small": []}
    for number in range(-1, ROUNDS_LARGE):
        taken = timed(_command(str(checkpoint)))
        if number >= 0:
            seconds.append(taken)
            memory["large"].append(peak(_command(str(checkpoint))))
            memory["small"].append(peak(_command(str(small))))
    more = [a - b for a, b in zip(memory["large"], memory["small"], strict=True)]
    flat = Result(
        name=f"inspect, {files:,} files, memory",
        unit="MB",
        samples=memory,
        ratio=statistics.median(more),
        spread=(min(more), max(more)),
        wanted="at most 20 MB more than an ordinary checkpoint",
        holds=statistics.median(more) <= 20,
    )
    return [_at_most_seconds(f"inspect, {files:,} files", seconds, most_s), flat]


def on_s3(home: Path, rounds: int) -> list[Result]:
    """On S3 with 20 ms per request: one stateful checkpoint, and many, read concurrently."""
    with S3Server(home / "s3") as server:
        server.bucket("lake")
        lake = server.folder / "buckets/lake"
        write_logs(lake / "checkpoint", BATCHES)
        write_state(lake / "checkpoint", STATE_PARTITIONS, 5)
        for number in range(CHECKPOINTS):
            write_logs(lake / f"base/job-{number}", 10)
            write_state(lake / f"base/job-{number}", 2, 10)
        figures = {"inspect": "checkpoint", f"inspect of {CHECKPOINTS} checkpoints": "base"}
        return [_together(server, name, folder, rounds) for name, folder in figures.items()]


def _together(server: S3Server, name: str, folder: str, rounds: int) -> Result:
    options = dict(server.storage)
    with Delay(int(options["aws_endpoint"].rpartition(":")[2])) as proxy:
        options["aws_endpoint"] = f"http://127.0.0.1:{proxy.port}"
        given = [part for pair in options.items() for part in ("--storage", "=".join(pair))]
        samples: dict[str, list[float]] = {"one by one": [], "holdfast": []}
        for number in range(-1, rounds):
            proxy.requests = 0
            seconds = timed(_command(f"s3://lake/{folder}", *given))
            if number >= 0:
                samples["holdfast"].append(seconds)
                samples["one by one"].append(proxy.requests * DELAY_S)
    return at_least(
        f"{name} on S3, 20 ms per request, against one request at a time",
        "s",
        samples,
        "one by one",
        "holdfast",
        4,
    )


def write_logs(place: Path, batches: int) -> None:
    """The two logs of a query with four Kafka sources."""
    for name in ("offsets", "commits"):
        (place / name).mkdir(parents=True)
    (place / "metadata").write_text('{"id":"6b0f5f5c-1f5a-4c57-9f5e-0a4f2f0c1d11"}')
    settings = {f"spark.sql.streaming.setting{n}": "value" for n in range(12)}
    for batch in range(batches):
        metadata = {
            "batchWatermarkMs": 0,
            "batchTimestampMs": 1_767_225_600_000 + batch * 1000,
            "conf": settings,
        }
        ends = {str(n): batch * 100 + n for n in range(KAFKA_PARTITIONS)}
        lines = [to_canonical({f"topic{n}": ends}) for n in range(SOURCES)]
        (place / f"offsets/{batch}").write_text("\n".join(["v1", json.dumps(metadata), *lines]))
        (place / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')


def write_state(place: Path, partitions: int, versions: int) -> None:
    """Changes of an HDFS-backed state store."""
    for partition in range(partitions):
        folder = place / f"state/0/{partition}"
        folder.mkdir(parents=True)
        for version in range(1, versions + 1):
            with (folder / f"{version}.delta").open("wb") as file:
                file.write(b"x" * 46)


def write_large(place: Path, files: int) -> None:
    """A tenth in long logs, the rest in the state of 200 partitions."""
    logs = files // 20
    write_logs(place, logs)
    write_state(place, STATE_PARTITIONS, (files - 2 * logs) // STATE_PARTITIONS)


def timed(command: Sequence[str]) -> float:
    """Seconds that a command took, to the end of its output."""
    started = time.perf_counter()
    done = subprocess.run(command, env=_environment(), stdout=subprocess.PIPE, check=True)
    seconds = time.perf_counter() - started
    assert done.stdout
    return seconds


def peak(command: Sequence[str]) -> float:
    """The most memory that a command had, in MB.

    Asked of a small process in between: what a process starts with counts as its own.
    """
    between = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    asking = [sys.executable, "-I", "-S", "-c", between, *command]
    done = subprocess.run(asking, env=_environment(), stdout=subprocess.PIPE, check=True)
    return int(done.stdout) * 1024 / MEGABYTE


def _environment() -> dict[str, str]:
    """With compiled modules, as an installed package has: the first round writes them."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYSPARK_PYTHON": sys.executable, "NO_COLOR": "1"}


def _command(location: str, *more: str) -> list[str]:
    return [str(Path(sys.executable).with_name("holdfast")), "inspect", location, *more]


def _at_most_seconds(name: str, seconds: list[float], wanted: float) -> Result:
    return Result(
        name=name,
        unit="s",
        samples={"holdfast": seconds},
        ratio=statistics.median(seconds),
        spread=(min(seconds), max(seconds)),
        wanted=f"at most {wanted:g} s",
        holds=statistics.median(seconds) <= wanted,
    )


class Delay:
    """A proxy in front of a server that lets every request wait, however many there are at once.

    A request begins where a client speaks after the server did; HTTP/1.1 has one at a time on a
    connection.
    """

    def __init__(self, server_port: int) -> None:
        self.port = free_port()
        self.requests = 0
        self._server_port = server_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Delay":
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self) -> None:
        self._loop.run_forever()

    async def _listen(self) -> None:
        await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def _connected(self, client: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        server, forth = await asyncio.open_connection("127.0.0.1", self._server_port)
        answered = asyncio.Event()
        answered.set()

        async def ask() -> None:
            while data := await client.read(1 << 16):
                if answered.is_set():
                    answered.clear()
                    self.requests += 1
                    await asyncio.sleep(DELAY_S)
                forth.write(data)
                await forth.drain()
            forth.close()

        async def answer() -> None:
            while data := await server.read(1 << 16):
                answered.set()
                back.write(data)
                await back.drain()
            back.close()

        await asyncio.gather(ask(), answer(), return_exceptions=True)
