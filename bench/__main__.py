"""Run the figures and write them down: `python -m bench [NAME …]`, with the names in `ALL`."""

import dataclasses
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench import delta, inspection, judging, merge, overhead, postgres, restart
from bench.measure import Result
from holdfast.examples.broker import Broker
from holdfast.run.session import build

ROUNDS = 5
RESULTS = Path("bench/results.json")
POSTGRES = ("pg-append", "pg-upsert", "pg-small", "pg-memory")
INSPECT = ("inspect", "inspect-100k", "inspect-1m", "inspect-s3")
JUDGE = ("diagnose", "check")
ALL = ("small", "large", "merge", "overhead", "restart", *POSTGRES, *INSPECT, *JUDGE)


def main(wanted: list[str]) -> int:
    """Measure what is wanted, print and write it; 1 if a figure does not hold.

    Each in a process of its own: a JVM remembers the environment that it was started with.
    """
    if len(wanted) > 1:
        codes = [subprocess.call([sys.executable, "-m", "bench", name]) for name in wanted]
        return int(any(codes))  # one that was killed has a code below zero
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        home = Path(folder)
        for name in wanted:
            (home / name).mkdir()
        if "overhead" in wanted:
            results += overhead.overhead(home / "overhead")
        if "restart" in wanted:
            results += restart.restart(home / "restart", ROUNDS)
        if "merge" in wanted:
            results += _merges(home / "merge")
        results += _looking(home, wanted)
        results += _with_postgres(home, wanted)
        if {"small", "large"} & set(wanted):
            results += _with_spark(home, wanted)
    for result in results:
        _print(result)
    _write(results)
    return 0 if all(result.holds for result in results) else 1


def _looking(home: Path, wanted: list[str]) -> list[Result]:
    results: list[Result] = []
    if "inspect" in wanted:
        results += inspection.ordinary(home / "inspect", ROUNDS)
    if "inspect-100k" in wanted:
        results += inspection.large(home / "inspect-100k", 100_000, 1.0)
    if "inspect-1m" in wanted:
        results += inspection.large(home / "inspect-1m", 1_000_000, 8.0)
    if "inspect-s3" in wanted:
        results += inspection.on_s3(home / "inspect-s3", ROUNDS)
    if "diagnose" in wanted:
        results += judging.diagnose(home / "diagnose", ROUNDS)
    if "check" in wanted:
        results += judging.check(home / "check", ROUNDS)
    return results


def _with_postgres(home: Path, wanted: list[str]) -> list[Result]:
    figures = {
        "pg-append": lambda folder: postgres.appends(folder, ROUNDS),
        "pg-upsert": lambda folder: postgres.upserts(folder, ROUNDS),
        "pg-small": lambda folder: postgres.small(folder, ROUNDS),
        "pg-memory": postgres.memory,
    }
    return [result for name in POSTGRES if name in wanted for result in figures[name](home / name)]


def _with_spark(home: Path, wanted: list[str]) -> list[Result]:
    results: list[Result] = []
    with Broker(home / "broker") as broker:
        spark = build.open_session("bench", master="local[*]", given={}, on_s3=False, debug=False)
        try:
            if "small" in wanted:
                results += delta.small_batches(spark, broker, home / "small", ROUNDS)
            if "large" in wanted:
                results += delta.large_batch(spark, broker, home / "large", ROUNDS)
        finally:
            spark.stop()
    return results


def _merges(home: Path) -> list[Result]:
    spark = build.open_session("bench", master="local[*]", given={}, on_s3=False, debug=False)
    try:
        return merge.merges(spark, home, ROUNDS)
    finally:
        spark.stop()


def _print(result: Result) -> None:
    verdict = "holds" if result.holds else "DOES NOT HOLD"
    low, high = result.spread
    print(
        f"{result.name}: {result.ratio:.3g} ({low:.3g} to {high:.3g}), {result.wanted}: {verdict}"
    )
    for name, samples in result.samples.items():
        print(f"    {name:10} median {statistics.median(samples):,.4g} {result.unit}")


def _write(results: list[Result]) -> None:
    earlier = json.loads(RESULTS.read_text())["results"] if RESULTS.exists() else []
    fresh = {result.name for result in results}
    kept = [one for one in earlier if one["name"] not in fresh]
    rounded = [
        {
            **dataclasses.asdict(result),
            "samples": {side: _summary(samples) for side, samples in result.samples.items()},
        }
        for result in results
    ]
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    RESULTS.write_text(json.dumps({"machine": machine, "results": kept + rounded}, indent=1) + "\n")


def _summary(samples: list[float]) -> dict[str, float]:
    return {
        "rounds": len(samples),
        "median": round(statistics.median(samples), 3),
        "smallest": round(min(samples), 3),
        "largest": round(max(samples), 3),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(ALL)))
