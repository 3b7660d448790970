"""The extra time of `diagnose` over `inspect`, and of `check` over only starting Spark."""

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.inspection import BATCHES, measure_seconds, write_logs
from bench.measure import Result, more_by
from holdfast.model.json import to_canonical

EPOCH = 1_767_225_600
FILES = 1000

STARTED = """
from holdfast.run.session import build
build.open_session("bench", master="local[*]", given={}, on_s3=False, debug=False).stop()
print("started")
"""

DECLARED = """
from pyspark.sql import functions as F
from holdfast import Pipeline, sinks, sources
home = {home!r}
pipeline = Pipeline("bench", checkpoints=home + "/checkpoints")

@pipeline.job("sums", writes=sinks.delta_merge(home + "/sums", keys=["id"]), output_mode="update",
    reads=sources.files(home + "/landing", format="json", schema="id LONG, n LONG"))
def sums(rows):
    return rows.groupBy("id").agg(F.sum("n").alias("n"))
"""


def measure_diagnose(home: Path, rounds: int) -> list[Result]:
    """Measure `inspect` and `diagnose` on an ordinary checkpoint and on one of a file source."""
    write_logs(home / "checkpoint", BATCHES)
    write_landing(home / "files", BATCHES, FILES // BATCHES)
    locations = {
        "diagnose, s more than inspect": home / "checkpoint",
        f"diagnose with {FILES:,} landing files, s more than inspect": home / "files/ck",
    }
    results = []
    for title, location in locations.items():
        samples: dict[str, list[float]] = {"inspect": [], "diagnose": []}
        for number in range(-1, rounds):
            for name, measured in samples.items():
                seconds = measure_seconds(_make_command(name, str(location)))
                if number >= 0:  # an extra first round warms up the disk cache
                    measured.append(seconds)
        results.append(more_by(title, "s", samples, "diagnose", "inspect", 0.1))
    return results


def write_landing(home: Path, batches: int, files: int) -> None:
    """Write a landing folder and a checkpoint that has read it, with `files` files per batch."""
    location, landing = home / "ck", home / "landing"
    for folder in (location / "offsets", location / "commits", location / "sources/0", landing):
        folder.mkdir(parents=True)
    (location / "metadata").write_text('{"id":"6b0f5f5c-1f5a-4c57-9f5e-0a4f2f0c1d11"}')
    entries: list[str] = []
    for batch in range(batches):
        for name in [f"{batch:04d}-{number:04d}.json" for number in range(files)]:
            path = landing / name
            path.write_text("{}")
            os.utime(path, (EPOCH + batch, EPOCH + batch))
            entry = {"path": f"file://{path}", "timestamp": (EPOCH + batch) * 1000}
            entries.append(json.dumps({**entry, "batchId": batch}, separators=(",", ":")))
        is_compact = (batch + 1) % 10 == 0
        lines = entries if is_compact else entries[-files:]
        name = f"{batch}.compact" if is_compact else str(batch)
        (location / f"sources/0/{name}").write_text("\n".join(["v1", *lines]))
        head = to_canonical({"batchWatermarkMs": 0, "batchTimestampMs": (EPOCH + batch) * 1000})
        (location / f"offsets/{batch}").write_text(f'v1\n{head}\n{{"logOffset":{batch}}}')
        (location / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')


def measure_check(home: Path, rounds: int) -> list[Result]:
    """Measure `check` of a stateful job that has run, and a process that only starts Spark."""
    (home / "landing").mkdir()
    (home / "landing/0.json").write_text('{"id":1,"n":1}\n')
    module = home / "declared.py"
    module.write_text(DECLARED.format(home=str(home)))
    (home / "started.py").write_text(STARTED)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    subprocess.run(_make_command("run", str(module), "--once", "--dev"), check=True)
    commands = {
        "spark": [sys.executable, str(home / "started.py")],
        "check": _make_command("check", str(module)),
    }
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(-1, rounds):
        for name, command in commands.items():
            seconds = measure_seconds(command)
            if number >= 0:
                samples[name].append(seconds)
    return [more_by("check, s more than starting Spark", "s", samples, "check", "spark", 5)]


def _make_command(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("holdfast")), *arguments]
