"""`holdfast inspect`: an ordinary checkpoint against PySpark, large checkpoints, and S3.

Times run from the start of the process to the end of its output. The PySpark side starts a session
and reads the same files: `metadata`, the offset log and the commit log.
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


def measure_ordinary(home: Path, rounds: int) -> list[Result]:
    """Measure a checkpoint of 100 batches and 4 Kafka sources, and PySpark on the same files."""
    checkpoint = home / "checkpoint"
    write_logs(checkpoint, BATCHES)
    (home / "bare.py").write_text(PYSPARK)
    samples: dict[str, list[float]] = {"holdfast": [], "pyspark": []}
    for number in range(-1, rounds):
        for name, measured in samples.items():
            command = (
                _make_command(str(checkpoint))
                if name == "holdfast"
                else [sys.executable, str(home / "bare.py"), str(checkpoint)]
            )
            seconds = measure_seconds(command)
            if number >= 0:  # an extra first round warms up the disk cache
                measured.append(seconds)
    return [
        at_least("inspect, an ordinary checkpoint", "s", samples, "pyspark", "holdfast", 15),
        _at_most_seconds(
            "inspect, an ordinary checkpoint, shell to output", samples["holdfast"], 0.3
        ),
    ]


def measure_large(home: Path, files: int, most_s: float) -> list[Result]:
    """Measure a checkpoint of many local files: the time, and the memory over an ordinary one."""
    small, checkpoint = home / "small", home / f"files-{files}"
    write_logs(small, BATCHES)
    write_large(checkpoint, files)
    seconds: list[float] = []
    memory: dict[str, list[float]] = {"large": [], "small": []}
    for number in range(-1, ROUNDS_LARGE):
        elapsed = measure_seconds(_make_command(str(checkpoint)))
        if number >= 0:
            seconds.append(elapsed)
            memory["large"].append(measure_peak_memory(_make_command(str(checkpoint))))
            memory["small"].append(measure_peak_memory(_make_command(str(small))))
    more = [a - b for a, b in zip(memory["large"], memory["small"], strict=True)]
    memory_result = Result(
        name=f"inspect, {files:,} files, memory",
        unit="MB",
        samples=memory,
        ratio=statistics.median(more),
        spread=(min(more), max(more)),
        wanted="at most 20 MB more than an ordinary checkpoint",
        holds=statistics.median(more) <= 20,
    )
    return [_at_most_seconds(f"inspect, {files:,} files", seconds, most_s), memory_result]


def measure_s3(home: Path, rounds: int) -> list[Result]:
    """Measure one stateful checkpoint and many checkpoints on S3, with 20 ms per request."""
    with S3Server(home / "s3") as server:
        server.bucket("lake")
        lake = server.folder / "buckets/lake"
        write_logs(lake / "checkpoint", BATCHES)
        write_state(lake / "checkpoint", STATE_PARTITIONS, 5)
        for number in range(CHECKPOINTS):
            write_logs(lake / f"base/job-{number}", 10)
            write_state(lake / f"base/job-{number}", 2, 10)
        folders = {"inspect": "checkpoint", f"inspect of {CHECKPOINTS} checkpoints": "base"}
        return [_measure_delayed(server, name, folder, rounds) for name, folder in folders.items()]


def _measure_delayed(server: S3Server, name: str, folder: str, rounds: int) -> Result:
    """Compare `inspect` with the time that its requests would take one after the other."""
    options = dict(server.storage)
    with Delay(int(options["aws_endpoint"].rpartition(":")[2])) as proxy:
        options["aws_endpoint"] = f"http://127.0.0.1:{proxy.port}"
        arguments = [part for pair in options.items() for part in ("--storage", "=".join(pair))]
        samples: dict[str, list[float]] = {"one by one": [], "holdfast": []}
        for number in range(-1, rounds):
            proxy.requests = 0
            seconds = measure_seconds(_make_command(f"s3://lake/{folder}", *arguments))
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


def write_logs(location: Path, batches: int) -> None:
    """Write `metadata` and the two logs of a query with four Kafka sources."""
    for name in ("offsets", "commits"):
        (location / name).mkdir(parents=True)
    (location / "metadata").write_text('{"id":"6b0f5f5c-1f5a-4c57-9f5e-0a4f2f0c1d11"}')
    settings = {f"spark.sql.streaming.setting{n}": "value" for n in range(12)}
    for batch in range(batches):
        metadata = {
            "batchWatermarkMs": 0,
            "batchTimestampMs": 1_767_225_600_000 + batch * 1000,
            "conf": settings,
        }
        ends = {str(n): batch * 100 + n for n in range(KAFKA_PARTITIONS)}
        lines = [to_canonical({f"topic{n}": ends}) for n in range(SOURCES)]
        (location / f"offsets/{batch}").write_text("\n".join(["v1", json.dumps(metadata), *lines]))
        (location / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')


def write_state(location: Path, partitions: int, versions: int) -> None:
    """Write delta files of an HDFS-backed state store."""
    for partition in range(partitions):
        folder = location / f"state/0/{partition}"
        folder.mkdir(parents=True)
        for version in range(1, versions + 1):
            with (folder / f"{version}.delta").open("wb") as file:
                file.write(b"x" * 46)


def write_large(location: Path, files: int) -> None:
    """Write a checkpoint with a tenth of the files in its logs, the rest in 200 partitions."""
    batches = files // 20
    write_logs(location, batches)
    write_state(location, STATE_PARTITIONS, (files - 2 * batches) // STATE_PARTITIONS)


def measure_seconds(command: Sequence[str]) -> float:
    """Return the seconds from the start of a command to the end of its output."""
    started = time.perf_counter()
    ended = subprocess.run(command, env=_make_environment(), stdout=subprocess.PIPE, check=True)
    seconds = time.perf_counter() - started
    assert ended.stdout
    return seconds


def measure_peak_memory(command: Sequence[str]) -> float:
    """Return the peak memory of a command in MB.

    A small process starts the command and reads its peak, because a new process begins with the
    memory of the process that started it, and the system counts that memory too.
    """
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    measuring = [sys.executable, "-I", "-S", "-c", script, *command]
    ended = subprocess.run(measuring, env=_make_environment(), stdout=subprocess.PIPE, check=True)
    return int(ended.stdout) * 1024 / MEGABYTE


def _make_environment() -> dict[str, str]:
    """Return an environment in which the first round compiles modules, as an installation does."""
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYSPARK_PYTHON": sys.executable, "NO_COLOR": "1"}


def _make_command(location: str, *more: str) -> list[str]:
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
    """A proxy that delays every request to a server, and counts the requests.

    Concurrent requests wait at the same time. HTTP/1.1 has one request at a time per connection, so
    a request begins when the client sends data after an answer of the server.
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
        await asyncio.start_server(self._connect, "127.0.0.1", self.port)

    async def _connect(
        self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter
    ) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
        is_answered = asyncio.Event()
        is_answered.set()

        async def forward_requests() -> None:
            while data := await from_client.read(1 << 16):
                if is_answered.is_set():
                    is_answered.clear()
                    self.requests += 1
                    await asyncio.sleep(DELAY_S)
                to_server.write(data)
                await to_server.drain()
            to_server.close()

        async def forward_answers() -> None:
            while data := await from_server.read(1 << 16):
                is_answered.set()
                to_client.write(data)
                await to_client.drain()
            to_client.close()

        await asyncio.gather(forward_requests(), forward_answers(), return_exceptions=True)
