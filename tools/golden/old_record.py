"""Run the scenarios of an old Spark, and record what that Spark reports."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from tools.golden import words
from tools.golden.old_queries import OldScenario, OldStage
from tools.golden.old_sparks import Jvm, OldSpark, start_jvm
from tools.golden.rendering import render
from tools.golden.scenario import ROOT, Continuous, Paced, parse_version

_WITHIN_S = 120
# Since this version, Delta refuses a session without its extension and catalog.
_DELTA_INSISTS = (3, 3)
Json = dict[str, object]


def record(spark: OldSpark, scenarios: Sequence[OldScenario], *, kafka: str, kinesis: str) -> None:
    """Record all scenarios in one JVM; those that will be killed come last and end with it."""
    scratch = ROOT / "scratch" / spark.version
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    with start_jvm(spark, scratch) as jvm:
        recorder = _Recorder(
            spark=spark,
            jvm=jvm,
            session=session(spark, jvm, scratch),
            kafka=kafka,
            kinesis=kinesis,
        )
        for scenario in sorted(scenarios, key=lambda scenario: scenario.killed):
            begun = time.monotonic()
            try:
                recorder.record(scenario)
            except (Py4JJavaError, RuntimeError) as error:
                print(f"FAILED {scenario.name}: {words.first_lines(error)}", flush=True)
            else:
                print(f"{scenario.name} {time.monotonic() - begun:.1f} s", flush=True)
        recorder.kill()


def session(spark: OldSpark, jvm: Jvm, scratch: Path) -> JavaObject:
    """Return a session, with settings that do not affect a checkpoint."""
    builder = jvm.of.org.apache.spark.sql.SparkSession.builder().master("local[4]")
    conf = {
        "spark.app.name": "golden",
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.streaming.stateStore.maintenanceInterval": "1h",
        "spark.databricks.delta.snapshotPartitions": "1",
    }
    if parse_version(spark.version) >= _DELTA_INSISTS:
        conf["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        conf["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    for key, value in conf.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext().setLogLevel("ERROR")
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doomed:
    """A run that has reached the point at which it will be killed."""

    stage: OldStage
    query: JavaObject
    expected: Json
    runs: list[Json]


class _Recorder:
    """A recorder that runs scenarios in turn, and keeps the runs that will be killed."""

    def __init__(
        self, *, spark: OldSpark, jvm: Jvm, session: JavaObject, kafka: str, kinesis: str
    ) -> None:
        self._spark = spark
        self._jvm = jvm
        self._session = session
        self._kafka = kafka
        self._kinesis = kinesis
        self._doomed: list[_Doomed] = []

    def record(self, scenario: OldScenario) -> None:
        """Run a scenario twice; keep its checkpoint unless the scenario will be killed."""
        folder = ROOT / self._spark.version / scenario.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        runs: list[Json] = []
        with self._set(scenario):
            expected = self._expected(scenario, folder)
            for number in range(2):
                stage = OldStage(
                    jvm=self._jvm,
                    session=self._session,
                    folder=folder,
                    run=number,
                    kafka=self._kafka,
                    kinesis=self._kinesis,
                )
                scenario.feed(stage)
                query = start_query(self._jvm, scenario, stage)
                expected |= {"query_id": query.id().toString(), "query_name": query.name()}
                if scenario.killed and number:
                    _wait_for(stage.reached.exists, query)
                    self._doomed.append(
                        _Doomed(stage=stage, query=query, expected=expected, runs=runs)
                    )
                    return
                _finish(scenario, query)
                runs.append(_run_of(query, "stopped"))
        expected |= words.summarize_runs(runs)
        shutil.copytree(folder / "checkpoint", folder / "kept" / "checkpoint")
        _write(folder, expected)

    def kill(self) -> None:
        """Record the reports of each query so far, then kill the JVM."""
        for doomed in self._doomed:
            run = _run_of(doomed.query, "killed")
            run["planned_not_committed"] = int(doomed.stage.reached.read_text("utf-8"))
            said = words.summarize_runs([*doomed.runs, run])
            _write(doomed.stage.folder, {**doomed.expected, **said})
        os.kill(self._jvm.pid, signal.SIGKILL)
        for doomed in self._doomed:
            shutil.copytree(doomed.stage.checkpoint, doomed.stage.folder / "kept" / "checkpoint")

    def _expected(self, scenario: OldScenario, folder: Path) -> Json:
        pace = type(scenario.pace).__name__ if scenario.pace else "ProcessAllAvailable"
        return {
            "scenario": scenario.name,
            "about": scenario.about,
            "spark": self._spark.version,
            "location": str(folder / "checkpoint"),
            "output_mode": scenario.mode,
            "trigger": pace,
            "conf": words.read_conf(self._session.conf().get, scenario.conf),
        }

    @contextmanager
    def _set(self, scenario: OldScenario) -> Iterator[None]:
        for key, value in scenario.conf.items():
            self._session.conf().set(key, value)
        try:
            yield
        finally:
            for key in scenario.conf:
                self._session.conf().unset(key)


def start_query(jvm: Jvm, scenario: OldScenario, stage: OldStage) -> JavaObject:
    """Start the query of a scenario."""
    writer = scenario.query(stage).writeStream().queryName(scenario.name.replace("-", "_"))
    writer = scenario.write(stage, writer.outputMode(scenario.mode))
    triggers = jvm.of.org.apache.spark.sql.streaming.Trigger
    match scenario.pace:
        case Paced(every=every):
            writer = writer.trigger(triggers.ProcessingTime(every))
        case Continuous():
            writer = writer.trigger(triggers.Continuous("1 second"))
        case None:
            pass
    return writer.option("checkpointLocation", str(stage.checkpoint)).start()


def _finish(scenario: OldScenario, query: JavaObject) -> None:
    try:
        match scenario.pace:
            case Paced(batches=batches):
                _wait_for(lambda: len(_progress_of(query)) >= batches, query)
            case Continuous(seconds=seconds):
                time.sleep(seconds)
            case _:
                query.processAllAvailable()
    finally:
        query.stop()


def _wait_for(reached: Callable[[], bool], query: JavaObject) -> None:
    limit = time.monotonic() + _WITHIN_S
    while not reached():
        failure = query.exception()
        if failure.isDefined():
            raise RuntimeError(failure.get().getMessage())
        if time.monotonic() > limit:
            raise RuntimeError(f"the query made no progress within {_WITHIN_S} s")
        time.sleep(0.1)


def _progress_of(query: JavaObject) -> list[Json]:
    # Spark 2.1 knows the batch id, but does not print it.
    return [
        {"batchId": progress.batchId(), **json.loads(progress.json())}
        for progress in query.recentProgress()
    ]


def _run_of(query: JavaObject, ended: str) -> Json:
    return {
        "run_id": query.runId().toString(),
        "ended": ended,
        "progress": _progress_of(query),
    }


def _write(folder: Path, expected: Json) -> None:
    (folder / "expected.json").write_text(render(expected), "utf-8")
