"""`make golden`: have every Spark write its checkpoints, and put them into `tests/checkpoints`.

    python -m tools.golden [--spark VERSION]... [--part PART]... [SCENARIO...]

Every Spark lives in a virtual environment of its own in `.golden/`, made at the first time (half a
gigabyte each). It records its scenarios in up to five processes, see `scenario.Part`; a Spark whose
Python is too old for ours in one, see `old_sparks`. What a selection of versions or scenarios
leaves out stays as it is in `tests/checkpoints`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from tools.golden import java, kinesalite, old_queries, old_record, pipelines, readme, sparks
from tools.golden.old_queries import OldScenario
from tools.golden.old_sparks import OLD_SPARKS, OldSpark
from tools.golden.record import SCENARIOS
from tools.golden.scenario import ROOT, Needs, Part, Scenario, version_of
from tools.golden.sparks import REPOSITORY, SPARKS, Spark

from holdfast.examples.broker import Broker

CHECKPOINTS = REPOSITORY / "tests" / "checkpoints"


def main(arguments: Sequence[str]) -> int:
    """Record what was chosen; the exit code is 1 if a scenario could not be recorded."""
    parser = argparse.ArgumentParser(prog="make golden")
    versions = [spark.version for spark in (*OLD_SPARKS, *SPARKS)]
    parser.add_argument("--spark", action="append", choices=versions)
    parser.add_argument("--part", action="append", type=Part, choices=list(Part))
    parser.add_argument("scenarios", nargs="*")
    given = parser.parse_args(arguments)
    chosen = frozenset(given.spark or versions)
    names = frozenset(given.scenarios)
    missing: list[str] = []
    for old in OLD_SPARKS:
        if old.version in chosen and not given.part:
            missing += _old(old, names)
    for spark in SPARKS:
        for part in given.part or list(Part):
            missing += _part(spark, part, names) if spark.version in chosen else []
    readme.write(CHECKPOINTS)
    for line in missing:
        print(f"not recorded: {line}")
    return 1 if missing else 0


def _old(spark: OldSpark, names: frozenset[str]) -> list[str]:
    """Record the scenarios of an old Spark, all or those named; what could not be recorded."""
    chosen = [
        scenario
        for scenario in old_queries.SCENARIOS
        if scenario.since <= version_of(spark.version)
        and (spark.delta or not scenario.needs_delta)
        and (spark.kinesis or not scenario.needs_kinesis)
        and (not names or scenario.name in names)
    ]
    if not chosen:
        return []
    print(f"Spark {spark.version}: {len(chosen)} scenarios", flush=True)
    wanted = any(scenario.needs_kinesis for scenario in chosen)
    with _broker(chosen) as kafka, kinesalite.running() if wanted else nullcontext("") as kinesis:
        old_record.record(spark, chosen, kafka=kafka, kinesis=kinesis)
    return _left_out(spark.version, chosen)


def _part(spark: Spark, part: Part, names: frozenset[str]) -> list[str]:
    """Record a part of a Spark's scenarios, all or those named; what could not be recorded."""
    if part is Part.PIPELINE:
        wanted = not names or pipelines.NAME in names
        return _pipeline(spark) if wanted and version_of(spark.version) >= pipelines.SINCE else []
    chosen = [
        scenario
        for scenario in SCENARIOS
        if scenario.part is part and _can(spark, scenario) and (not names or scenario.name in names)
    ]
    return _recorded(spark, part, chosen) if chosen else []


def _pipeline(spark: Spark) -> list[str]:
    print(f"Spark {spark.version}, pipeline", flush=True)
    try:
        pipelines.record(sparks.installed(spark.version, spark.packages), spark.version)
    except subprocess.CalledProcessError as error:
        print(f"FAILED pipeline: exit code {error.returncode}", flush=True)
    recorded = ROOT / spark.version / pipelines.NAME
    return [] if _adopted(recorded, spark.version) else [f"{spark.version}/{pipelines.NAME}"]


def _can(spark: Spark, scenario: Scenario) -> bool:
    had = {
        Needs.KAFKA: spark.kafka,
        Needs.DELTA: spark.delta,
        Needs.ICEBERG: bool(spark.iceberg),
        Needs.JAVA: True,
    }
    return scenario.since <= version_of(spark.version) <= scenario.until and (
        scenario.needs is None or had[scenario.needs]
    )


def _recorded(spark: Spark, part: Part, scenarios: Sequence[Scenario]) -> list[str]:
    """Record scenarios in one process; those that it did not finish."""
    python = sparks.installed(spark.version, spark.packages)
    print(f"Spark {spark.version}, {part}: {len(scenarios)} scenarios", flush=True)
    command = [str(python), "-m", "tools.golden.record"]
    with _broker(scenarios) as kafka:
        if any(scenario.needs is not None for scenario in scenarios):
            found = [*sparks.downloaded(spark.jars), _classes(spark, python)]
            if any(scenario.needs is Needs.ICEBERG for scenario in scenarios):
                found += sparks.downloaded((spark.iceberg,))
            command += ["--jars", ",".join(str(path) for path in found)]
        if spark.delta and any(scenario.needs is Needs.DELTA for scenario in scenarios):
            command += ["--delta"]
        if kafka:
            command += ["--kafka", kafka]
        for scenario in scenarios:
            shutil.rmtree(ROOT / spark.version / scenario.name, ignore_errors=True)
        subprocess.run(  # noqa: S603 - the command is built here
            [*command, part, *(scenario.name for scenario in scenarios)],
            cwd=REPOSITORY,
            env={
                **os.environ,
                "PYTHONPATH": str(REPOSITORY),
                "PYSPARK_PYTHON": str(python),
                "PYSPARK_DRIVER_PYTHON": str(python),
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            check=False,
        )
    return _left_out(spark.version, scenarios)


def _classes(spark: Spark, python: Path) -> Path:
    folder = ROOT / "scratch" / spark.version
    shutil.rmtree(folder, ignore_errors=True)
    return java.compiled(folder, ("Groups",), sparks.jars_in(python))


@contextmanager
def _broker(scenarios: Iterable[Scenario | OldScenario]) -> Iterator[str]:
    """The address of a broker with the topics that scenarios want, or nothing if none does."""
    wanted = [
        (f"{one.name}-{topic}", one.topics[topic]) for one in scenarios for topic in one.topics
    ]
    if not wanted:
        yield ""
        return
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        for topic, partitions in wanted:
            broker.create_topic(topic, partitions)
        yield broker.bootstrap_servers


def _left_out(version: str, scenarios: Iterable[Scenario | OldScenario]) -> list[str]:
    """Adopt what was recorded; the names of what was not."""
    names = (scenario.name for scenario in scenarios)
    return [f"{version}/{name}" for name in names if not _adopted(ROOT / version / name, version)]


def _adopted(recorded: Path, version: str) -> bool:
    """Replace a scenario in the repository by the one just recorded, if that is complete."""
    kept = recorded / "kept" / "checkpoint"
    if not kept.is_dir() or not (recorded / "expected.json").is_file():
        return False
    place = CHECKPOINTS / version / recorded.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    shutil.copytree(kept, place / "checkpoint")
    shutil.copy2(recorded / "expected.json", place)
    if (recorded / "sink").is_dir():
        shutil.copytree(recorded / "sink", place / "sink")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
