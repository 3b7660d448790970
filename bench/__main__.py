"""Run benchmarks and record their results: `python -m bench [NAME …]`, with the names in `ALL`."""

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


def main(names: list[str]) -> int:
    """Run benchmarks, print and record the results, and return 1 if a result misses its target.

    Each benchmark runs in its own process: a JVM keeps the environment that it was started with.
    """
    if len(names) > 1:
        codes = [subprocess.call([sys.executable, "-m", "bench", name]) for name in names]
        return int(any(codes))  # the code of a killed process is negative
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        home = Path(folder)
        for name in names:
            (home / name).mkdir()
        if "overhead" in names:
            results += overhead.measure_overhead(home / "overhead")
        if "restart" in names:
            results += restart.measure_restart(home / "restart", ROUNDS)
        if "merge" in names:
            results += _measure_merges(home / "merge")
        results += _measure_inspection(home, names)
        results += _measure_postgres(home, names)
        if {"small", "large"} & set(names):
            results += _measure_delta(home, names)
    for result in results:
        _print(result)
    _write(results)
    return 0 if all(result.holds for result in results) else 1


def _measure_inspection(home: Path, names: list[str]) -> list[Result]:
    results: list[Result] = []
    if "inspect" in names:
        results += inspection.measure_ordinary(home / "inspect", ROUNDS)
    if "inspect-100k" in names:
        results += inspection.measure_large(home / "inspect-100k", 100_000, 1.0)
    if "inspect-1m" in names:
        results += inspection.measure_large(home / "inspect-1m", 1_000_000, 8.0)
    if "inspect-s3" in names:
        results += inspection.measure_s3(home / "inspect-s3", ROUNDS)
    if "diagnose" in names:
        results += judging.measure_diagnose(home / "diagnose", ROUNDS)
    if "check" in names:
        results += judging.measure_check(home / "check", ROUNDS)
    return results


def _measure_postgres(home: Path, names: list[str]) -> list[Result]:
    benchmarks = {
        "pg-append": lambda folder: postgres.measure_appends(folder, ROUNDS),
        "pg-upsert": lambda folder: postgres.measure_upserts(folder, ROUNDS),
        "pg-small": lambda folder: postgres.measure_small_batches(folder, ROUNDS),
        "pg-memory": postgres.measure_memory,
    }
    return [
        result for name in POSTGRES if name in names for result in benchmarks[name](home / name)
    ]


def _measure_delta(home: Path, names: list[str]) -> list[Result]:
    results: list[Result] = []
    with Broker(home / "broker") as broker:
        spark = build.open_session("bench", master="local[*]", given={}, on_s3=False, debug=False)
        try:
            if "small" in names:
                results += delta.measure_small_batches(spark, broker, home / "small", ROUNDS)
            if "large" in names:
                results += delta.measure_large_batch(spark, broker, home / "large", ROUNDS)
        finally:
            spark.stop()
    return results


def _measure_merges(home: Path) -> list[Result]:
    spark = build.open_session("bench", master="local[*]", given={}, on_s3=False, debug=False)
    try:
        return merge.measure_merges(spark, home, ROUNDS)
    finally:
        spark.stop()


def _print(result: Result) -> None:
    verdict = "met" if result.holds else "MISSED"
    low, high = result.spread
    print(
        f"{result.name}: {result.ratio:.3g} ({low:.3g} to {high:.3g}),"
        f" target {result.wanted}: {verdict}"
    )
    for name, samples in result.samples.items():
        print(f"    {name:10} median {statistics.median(samples):,.4g} {result.unit}")


def _write(results: list[Result]) -> None:
    recorded = json.loads(RESULTS.read_text())["results"] if RESULTS.exists() else []
    measured = {result.name for result in results}
    kept = [result for result in recorded if result["name"] not in measured]
    rounded = [
        {
            **dataclasses.asdict(result),
            "samples": {side: _summarize(samples) for side, samples in result.samples.items()},
        }
        for result in results
    ]
    machine = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }
    RESULTS.write_text(json.dumps({"machine": machine, "results": kept + rounded}, indent=1) + "\n")


def _summarize(samples: list[float]) -> dict[str, float]:
    return {
        "rounds": len(samples),
        "median": round(statistics.median(samples), 3),
        "smallest": round(min(samples), 3),
        "largest": round(max(samples), 3),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or list(ALL)))
