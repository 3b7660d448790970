"""`make golden`: have every Spark write its checkpoints, and put them into `tests/checkpoints`.

    python -m tools.golden [--spark VERSION]... [--part PART]... [SCENARIO...]

Every Spark lives in a virtual environment of its own in `.golden/`, made at the first time (half a
gigabyte each). It records its scenarios in up to five processes, see `scenario.Part`. What a
selection of versions or scenarios leaves out stays as it is in `tests/checkpoints`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from jgo.maven import MavenContext
from tools.golden import pipelines, readme
from tools.golden.record import SCENARIOS
from tools.golden.scenario import ROOT, Needs, Part, Scenario, version_of
from tools.golden.sparks import SPARKS, Spark

from holdfast.examples.broker import Broker
from holdfast.run import jars

REPOSITORY = Path(__file__).parent.parent.parent
CHECKPOINTS = REPOSITORY / "tests" / "checkpoints"


def main(arguments: Sequence[str]) -> int:
    """Record what was chosen; the exit code is 1 if a scenario could not be recorded."""
    parser = argparse.ArgumentParser(prog="make golden")
    parser.add_argument("--spark", action="append", choices=[spark.version for spark in SPARKS])
    parser.add_argument("--part", action="append", type=Part, choices=list(Part))
    parser.add_argument("scenarios", nargs="*")
    given = parser.parse_args(arguments)
    missing: list[str] = []
    for spark in SPARKS:
        if given.spark and spark.version not in given.spark:
            continue
        for part in given.part or list(Part):
            missing += _part(spark, part, frozenset(given.scenarios))
    readme.write(CHECKPOINTS)
    for line in missing:
        print(f"not recorded: {line}")
    return 1 if missing else 0


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
        pipelines.record(_environment(spark), spark.version)
    except subprocess.CalledProcessError as error:
        print(f"FAILED pipeline: exit code {error.returncode}", flush=True)
    recorded = ROOT / spark.version / pipelines.NAME
    return [] if _adopted(recorded, spark) else [f"{spark.version}/{pipelines.NAME}"]


def _can(spark: Spark, scenario: Scenario) -> bool:
    had = {Needs.KAFKA: spark.kafka, Needs.DELTA: spark.delta}
    return scenario.since <= version_of(spark.version) <= scenario.until and (
        scenario.needs is None or had[scenario.needs]
    )


def _recorded(spark: Spark, part: Part, scenarios: Sequence[Scenario]) -> list[str]:
    """Record scenarios in one process; those that it did not finish."""
    python = _environment(spark)
    print(f"Spark {spark.version}, {part}: {len(scenarios)} scenarios", flush=True)
    command = [str(python), "-m", "tools.golden.record"]
    with ExitStack() as stack:
        if any(scenario.needs is not None for scenario in scenarios):
            command += ["--jars", ",".join(str(path) for path in _jars(spark))]
        if spark.delta and any(scenario.needs is Needs.DELTA for scenario in scenarios):
            command += ["--delta"]
        if any(scenario.needs is Needs.KAFKA for scenario in scenarios):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            broker = stack.enter_context(Broker(Path(folder)))
            for scenario in scenarios:
                for topic, partitions in scenario.topics.items():
                    broker.create_topic(f"{scenario.name}-{topic}", partitions)
            command += ["--kafka", broker.bootstrap_servers]
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
    return [
        f"{spark.version}/{scenario.name}"
        for scenario in scenarios
        if not _adopted(ROOT / spark.version / scenario.name, spark)
    ]


def _adopted(recorded: Path, spark: Spark) -> bool:
    """Replace a scenario in the repository by the one just recorded, if that is complete."""
    kept = recorded / "kept" / "checkpoint"
    if not kept.is_dir() or not (recorded / "expected.json").is_file():
        return False
    place = CHECKPOINTS / spark.version / recorded.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    shutil.copytree(kept, place / "checkpoint")
    shutil.copy2(recorded / "expected.json", place)
    if (recorded / "sink").is_dir():
        shutil.copytree(recorded / "sink", place / "sink")
    return True


def _environment(spark: Spark) -> Path:
    """The interpreter of a Spark's own virtual environment."""
    folder = REPOSITORY / ".golden" / spark.version
    python = folder / "bin" / "python"
    done = folder / ".installed"
    wanted = "\n".join((f"pyspark=={spark.version}", *spark.packages))
    if done.is_file() and done.read_text("utf-8") == wanted:
        return python
    print(f"installing pyspark {spark.version}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)  # noqa: S603
    subprocess.run(  # noqa: S603
        [str(python), "-m", "pip", "install", "--quiet", *wanted.splitlines()], check=True
    )
    done.write_text(wanted, "utf-8")
    return python


def _jars(spark: Spark) -> Iterable[Path]:
    if isinstance(spark.jars, str):
        return jars.paths(spark.jars)
    maven = MavenContext(repo_cache=jars.cache_folder(), timeout=120)
    found = []
    for coordinate in spark.jars:
        group, artifact, version = coordinate.split(":")
        component = maven.project(group, artifact).at_version(version)
        found.append(component.artifact().resolve())
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
