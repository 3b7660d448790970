"""Run scenarios with the pyspark of this interpreter, and record what Spark reports.

    python -m tools.golden.record [--kafka HOST:PORT] [--jars A,B] [--delta] PART SCENARIO...

`expected.json`, beside each checkpoint, contains only Spark's own reports: the answers of its API
while the queries ran, and the state that its state data sources read from the finished checkpoint.
"""

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tools.golden import formats, kills, operators, sources, words
from tools.golden.rendering import render
from tools.golden.scenario import (
    ROOT,
    AvailableNow,
    Continuous,
    Paced,
    Part,
    RealTime,
    Scenario,
    Stage,
)
from tools.golden.state import read_state

SCENARIOS = (
    *sources.SCENARIOS,
    *operators.SCENARIOS,
    *formats.SCENARIOS,
    *kills.SCENARIOS,
)
_WITHIN_S = 120
Json = dict[str, object]


def main(arguments: Sequence[str]) -> int:
    """Record scenarios of a part, and return the number of those that failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("part", type=Part, choices=list(Part))
    parser.add_argument("--kafka", default="")
    parser.add_argument("--jars", default="")
    parser.add_argument("--delta", action="store_true")
    parser.add_argument("scenarios", nargs="*")
    given = parser.parse_args(arguments)
    spark = _session(given.part, given.jars, delta=given.delta)
    chosen = [
        scenario
        for scenario in SCENARIOS
        if scenario.part is given.part and scenario.name in given.scenarios
    ]
    recorder = Recorder(spark=spark, kafka=given.kafka)
    failed = 0
    for scenario in chosen:
        begun = time.monotonic()
        try:
            recorder.record(scenario)
        except Exception as error:
            failed += 1
            print(f"FAILED {scenario.name}: {words.first_lines(error)}", flush=True)
        else:
            print(f"{scenario.name} {time.monotonic() - begun:.1f} s", flush=True)
    if given.part is Part.KILLED:
        recorder.kill()
    spark.stop()
    return failed


def _session(part: Part, jars: str, *, delta: bool) -> SparkSession:
    scratch = ROOT / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    every = "1s" if part is Part.MAINTAINED else "1h"
    conf = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        # RocksDB writes its working folder into the files it uploads.
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={scratch} "
            f"-Dderby.system.home={scratch}"
        ),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": every,
        "spark.sql.streaming.forceDeleteTempCheckpointLocation": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "false",
    }
    if jars:
        conf["spark.jars"] = jars
    if delta:
        # The default is fifty tasks for a log of five lines.
        conf["spark.databricks.delta.snapshotPartitions"] = "1"
        conf["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        conf["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    # Real-time mode runs all stages of a batch at once, and needs a slot for each task.
    builder = SparkSession.builder.master("local[6]").appName("golden")
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


class Doomed(NamedTuple):
    """A run that has reached the point at which it will be killed."""

    scenario: Scenario
    stage: Stage
    query: StreamingQuery
    expected: Json
    runs: list[Json]


class Recorder:
    """A recorder that runs scenarios in turn, and keeps the runs that will be killed."""

    def __init__(self, *, spark: SparkSession, kafka: str) -> None:
        self._spark = spark
        self._kafka = kafka
        self._doomed: list[Doomed] = []

    def record(self, scenario: Scenario) -> None:
        """Run a scenario; keep its checkpoint and reports unless the scenario will be killed."""
        folder = ROOT / pyspark.__version__ / scenario.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        runs: list[Json] = []
        with _set(self._spark, scenario.conf):
            expected = _expected(scenario, words.read_conf(self._spark.conf.get, scenario.conf))
            for number in range(scenario.runs):
                stage = Stage(spark=self._spark, folder=folder, run=number, kafka=self._kafka)
                scenario.feed(stage)
                last = number == scenario.runs - 1
                query = _start(scenario, stage)
                expected |= {"query_id": str(query.id), "query_name": query.name}
                if scenario.part is Part.KILLED and last:
                    _wait_for(stage.reached.exists, query)
                    self._doomed.append(Doomed(scenario, stage, query, expected, runs))
                    return
                error = _finish(scenario, query)
                if error and not (scenario.refused and last):
                    raise RuntimeError(f"run {number}: {error}")
                runs.append(words.describe_run(query, error))
            # First the copy: reading the state is no part of what wrote the checkpoint.
            shutil.copytree(folder / "checkpoint", folder / "kept" / "checkpoint")
            expected |= words.summarize_runs(runs, asynchronous=scenario.asynchronous)
            if (folder / "checkpoint" / "state").is_dir():
                expected["state"] = read_state(self._spark, folder / "checkpoint")
        _write(folder, expected)

    def kill(self) -> None:
        """End the JVM and every query in it; what each said so far is written down before."""
        for doomed in self._doomed:
            run = words.describe_run(doomed.query, "")
            run["ended"] = "killed"
            run["planned_not_committed"] = int(doomed.stage.reached.read_text("utf-8"))
            runs = [*doomed.runs, run]
            _write(doomed.stage.folder, {**doomed.expected, **words.summarize_runs(runs)})
            print(f"{doomed.stage.folder.name} killed in batch {run['planned_not_committed']}")
        jvm = self._spark.sparkContext._jvm  # noqa: SLF001 - only the JVM knows its process id
        if jvm is None:
            raise RuntimeError("there is no JVM to kill")
        os.kill(jvm.java.lang.ProcessHandle.current().pid(), signal.SIGKILL)
        for doomed in self._doomed:
            shutil.copytree(doomed.stage.checkpoint, doomed.stage.folder / "kept" / "checkpoint")
        sys.stdout.flush()
        # No code of pyspark may run now: it would wait for the JVM.
        os._exit(0)


class _set:  # noqa: N801 - used as a statement
    """A block with the settings of a scenario."""

    def __init__(self, spark: SparkSession, conf: Mapping[str, str]) -> None:
        self._spark = spark
        self._conf = conf

    def __enter__(self) -> None:
        for key, value in self._conf.items():
            self._spark.conf.set(key, value)

    def __exit__(self, *_: object) -> None:
        for key in self._conf:
            self._spark.conf.unset(key)


def _start(scenario: Scenario, stage: Stage) -> StreamingQuery:
    writer = scenario.query(stage).queryName(scenario.name.replace("-", "_"))
    writer = writer.outputMode(scenario.mode).option("checkpointLocation", str(stage.checkpoint))
    return _triggered(scenario, writer).start()


def _triggered(scenario: Scenario, writer: DataStreamWriter) -> DataStreamWriter:
    match scenario.pace:
        case AvailableNow():
            return writer.trigger(availableNow=True)
        case Paced(every=every):
            return writer.trigger(processingTime=every)
        case Continuous():
            return writer.trigger(continuous="1 second")
        case RealTime(batch=batch):
            # Spark 4.2 has this trigger, but the Spark that types are checked with does not.
            timed: DataStreamWriter = getattr(writer, "trigger")(realTime=batch)  # noqa: B009
            return timed


def _finish(scenario: Scenario, query: StreamingQuery) -> str:
    """Wait for the end of a run, and return its error, or an empty text."""
    try:
        match scenario.pace:
            case AvailableNow():
                if not query.awaitTermination(_WITHIN_S):
                    raise RuntimeError(f"{scenario.name} did not end within {_WITHIN_S} s")
            case Continuous(seconds=seconds):
                time.sleep(seconds)
            case Paced(batches=batches) | RealTime(batches=batches):
                _wait_for(lambda: len(words.list_progress(query)) >= batches, query)
    except StreamingQueryException as error:
        return words.first_lines(error)
    finally:
        query.stop()
    return ""


def _wait_for(reached: Callable[[], bool], query: StreamingQuery) -> None:
    limit = time.monotonic() + _WITHIN_S
    while not reached():
        failure = query.exception()
        if failure is not None:
            raise failure
        if time.monotonic() > limit:
            raise RuntimeError(f"the query made no progress within {_WITHIN_S} s")
        time.sleep(0.1)


def _expected(scenario: Scenario, conf: Mapping[str, str]) -> Json:
    return {
        "scenario": scenario.name,
        "about": scenario.about,
        "spark": pyspark.__version__,
        "location": str(ROOT / pyspark.__version__ / scenario.name / "checkpoint"),
        "output_mode": scenario.mode,
        "trigger": type(scenario.pace).__name__,
        "conf": dict(conf),
    }


def _write(folder: Path, expected: Json) -> None:
    (folder / "expected.json").write_text(render(expected), "utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
