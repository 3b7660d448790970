"""Run the figures and write them down: `python -m bench [small large overhead restart]`."""

import dataclasses
import json
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

from bench import delta, overhead, restart
from bench.measure import Result
from holdfast.examples.broker import Broker
from holdfast.run import session

ROUNDS = 5
RESULTS = Path("bench/results.json")
ALL = ("small", "large", "overhead", "restart")


def main(wanted: list[str]) -> int:
    """Measure what is wanted, print and write it; 1 if a figure does not hold."""
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        home = Path(folder)
        for name in wanted:
            (home / name).mkdir()
        if "overhead" in wanted:
            results += overhead.overhead(home / "overhead")
        if "restart" in wanted:
            results += restart.restart(home / "restart", ROUNDS)
        if {"small", "large"} & set(wanted):
            results += _with_spark(home, wanted)
    for result in results:
        _print(result)
    _write(results)
    return 0 if all(result.holds for result in results) else 1


def _with_spark(home: Path, wanted: list[str]) -> list[Result]:
    results: list[Result] = []
    with Broker(home / "broker") as broker:
        spark = session.build("bench", master="local[*]", given={}, on_s3=False, debug=False)
        try:
            if "small" in wanted:
                results += delta.small_batches(spark, broker, home / "small", ROUNDS)
            if "large" in wanted:
                results += delta.large_batch(spark, broker, home / "large", ROUNDS)
        finally:
            spark.stop()
    return results


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
