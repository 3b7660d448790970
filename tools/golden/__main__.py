"""`make golden`: let every Spark write its checkpoints, and copy them into `tests/checkpoints`.

    python -m tools.golden [--spark VERSION]... [--part PART]... [SCENARIO...]

Every Spark has its own virtual environment in `.golden/`, which the first run creates (half a
gigabyte each). It records its scenarios in up to five processes, see `scenario.Part`; a Spark that
needs an older Python uses one process, see `old_sparks`. Versions and scenarios that are not
selected stay unchanged in `tests/checkpoints`.
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
from tools.golden.scenario import ROOT, Needs, Part, Scenario, parse_version
from tools.golden.sparks import REPOSITORY, SPARKS, Spark

from holdfast.examples.broker import Broker

CHECKPOINTS = REPOSITORY / "tests" / "checkpoints"


def main(arguments: Sequence[str]) -> int:
    """Record the selected scenarios, and return 1 if one could not be recorded."""
    parser = argparse.ArgumentParser(prog="make golden")
    versions = [spark.version for spark in (*OLD_SPARKS, *SPARKS)]
    parser.add_argument("--spark", action="append", choices=versions)
    parser.add_argument("--part", action="append", type=Part, choices=list(Part))
    parser.add_argument("scenarios", nargs="*")
    options = parser.parse_args(arguments)
    chosen = frozenset(options.spark or versions)
    names = frozenset(options.scenarios)
    missing: list[str] = []
    for old in OLD_SPARKS:
        if old.version in chosen and not options.part:
            missing += _record_old(old, names)
    for spark in SPARKS:
        for part in options.part or list(Part):
            missing += _record_part(spark, part, names) if spark.version in chosen else []
    readme.write(CHECKPOINTS)
    for line in missing:
        print(f"not recorded: {line}")
    return 1 if missing else 0


def _record_old(spark: OldSpark, names: frozenset[str]) -> list[str]:
    """Record all or the named scenarios of an old Spark, and return those that failed."""
    chosen = [
        scenario
        for scenario in old_queries.SCENARIOS
        if scenario.since <= parse_version(spark.version)
        and (spark.delta or not scenario.needs_delta)
        and (spark.kinesis or not scenario.needs_kinesis)
        and (not names or scenario.name in names)
    ]
    if not chosen:
        return []
    print(f"Spark {spark.version}: {len(chosen)} scenarios", flush=True)
    kinesis_server = (
        kinesalite.serve()
        if any(scenario.needs_kinesis for scenario in chosen)
        else nullcontext("")
    )
    with _start_broker(chosen) as kafka, kinesis_server as kinesis:
        old_record.record(spark, chosen, kafka=kafka, kinesis=kinesis)
    return _adopt_all(spark.version, chosen)


def _record_part(spark: Spark, part: Part, names: frozenset[str]) -> list[str]:
    """Record all or the named scenarios of a part of a Spark, and return those that failed."""
    if part is Part.PIPELINE:
        is_chosen = not names or pipelines.NAME in names
        is_supported = parse_version(spark.version) >= pipelines.SINCE
        return _record_pipeline(spark) if is_chosen and is_supported else []
    chosen = [
        scenario
        for scenario in SCENARIOS
        if scenario.part is part
        and _can_run(spark, scenario)
        and (not names or scenario.name in names)
    ]
    return _record_scenarios(spark, part, chosen) if chosen else []


def _record_pipeline(spark: Spark) -> list[str]:
    print(f"Spark {spark.version}, pipeline", flush=True)
    try:
        pipelines.record(sparks.install(spark.version, spark.packages), spark.version)
    except subprocess.CalledProcessError as error:
        print(f"FAILED pipeline: exit code {error.returncode}", flush=True)
    recorded = ROOT / spark.version / pipelines.NAME
    return [] if _adopt(recorded, spark.version) else [f"{spark.version}/{pipelines.NAME}"]


def _can_run(spark: Spark, scenario: Scenario) -> bool:
    available = {
        Needs.KAFKA: spark.kafka,
        Needs.DELTA: spark.delta,
        Needs.ICEBERG: bool(spark.iceberg),
        Needs.JAVA: True,
    }
    return scenario.since <= parse_version(spark.version) <= scenario.until and (
        scenario.needs is None or available[scenario.needs]
    )


def _record_scenarios(spark: Spark, part: Part, scenarios: Sequence[Scenario]) -> list[str]:
    """Record scenarios in one process, and return those that it did not finish."""
    python = sparks.install(spark.version, spark.packages)
    print(f"Spark {spark.version}, {part}: {len(scenarios)} scenarios", flush=True)
    command = [str(python), "-m", "tools.golden.record"]
    with _start_broker(scenarios) as kafka:
        if any(scenario.needs is not None for scenario in scenarios):
            jars = [*sparks.download(spark.jars), _compile_classes(spark, python)]
            if any(scenario.needs is Needs.ICEBERG for scenario in scenarios):
                jars += sparks.download((spark.iceberg,))
            command += ["--jars", ",".join(str(path) for path in jars)]
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
    return _adopt_all(spark.version, scenarios)


def _compile_classes(spark: Spark, python: Path) -> Path:
    folder = ROOT / "scratch" / spark.version
    shutil.rmtree(folder, ignore_errors=True)
    return java.compile_classes(folder, ("Groups",), sparks.list_jars(python))


@contextmanager
def _start_broker(scenarios: Iterable[Scenario | OldScenario]) -> Iterator[str]:
    """Yield the address of a broker with the topics of the scenarios; "" if they need none."""
    topics = [
        (f"{scenario.name}-{topic}", scenario.topics[topic])
        for scenario in scenarios
        for topic in scenario.topics
    ]
    if not topics:
        yield ""
        return
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        for topic, partitions in topics:
            broker.create_topic(topic, partitions)
        yield broker.bootstrap_servers


def _adopt_all(version: str, scenarios: Iterable[Scenario | OldScenario]) -> list[str]:
    """Adopt the recorded scenarios, and return the names of those that were not recorded."""
    names = (scenario.name for scenario in scenarios)
    return [f"{version}/{name}" for name in names if not _adopt(ROOT / version / name, version)]


def _adopt(recorded: Path, version: str) -> bool:
    """Copy a recorded scenario into the repository if it is complete; return whether it is."""
    kept = recorded / "kept" / "checkpoint"
    if not kept.is_dir() or not (recorded / "expected.json").is_file():
        return False
    target = CHECKPOINTS / version / recorded.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    shutil.copytree(kept, target / "checkpoint")
    shutil.copy2(recorded / "expected.json", target)
    if (recorded / "sink").is_dir():
        shutil.copytree(recorded / "sink", target / "sink")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
