"""What judging costs: `diagnose` over `inspect`, and `check` over a Spark that only starts."""

import os
import subprocess
import sys
from pathlib import Path

from bench.inspection import BATCHES, timed, write_logs
from bench.measure import Result, more_by

STARTED = """
from holdfast.run import session
session.build("bench", master="local[*]", given={}, on_s3=False, debug=False).stop()
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


def diagnose(home: Path, rounds: int) -> list[Result]:
    """An ordinary checkpoint: shell to output of both commands."""
    write_logs(home / "checkpoint", BATCHES)
    samples: dict[str, list[float]] = {"inspect": [], "diagnose": []}
    for number in range(-1, rounds):
        for name, taken in samples.items():
            seconds = timed(_holdfast(name, str(home / "checkpoint")))
            if number >= 0:  # the round before the first warms the disk's cache
                taken.append(seconds)
    return [more_by("diagnose, s more than inspect", "s", samples, "diagnose", "inspect", 0.1)]


def check(home: Path, rounds: int) -> list[Result]:
    """A stateful job that has run: the whole command, and a process that starts the same Spark."""
    (home / "landing").mkdir()
    (home / "landing/0.json").write_text('{"id":1,"n":1}\n')
    module = home / "declared.py"
    module.write_text(DECLARED.format(home=str(home)))
    (home / "started.py").write_text(STARTED)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    subprocess.run(_holdfast("run", str(module), "--once", "--dev"), check=True)
    commands = {
        "spark": [sys.executable, str(home / "started.py")],
        "check": _holdfast("check", str(module)),
    }
    samples: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(-1, rounds):
        for name, command in commands.items():
            seconds = timed(command)
            if number >= 0:
                samples[name].append(seconds)
    return [more_by("check, s more than starting Spark", "s", samples, "check", "spark", 5)]


def _holdfast(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("holdfast")), *arguments]
