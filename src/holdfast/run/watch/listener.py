"""Spark's events about a query -> run records.

    started      who runs what, where and with which settings
    progress     what a batch read, how long each phase took, how large the state is
    terminated   how the run ended

Spark calls the listener from its event thread. Everything that takes time, or that calls Spark,
runs on the recorder's thread.
"""

import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from holdfast.decode import fingerprint as plans
from holdfast.gather.history import processes
from holdfast.model import json
from holdfast.model.batch import Writer
from holdfast.model.definition import Job, PostgresSink, find_kind, find_target
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import Fingerprint
from holdfast.model.json import Json
from holdfast.model.version import VERSION
from holdfast.report import error_line, redact
from holdfast.run.query import fingerprint
from holdfast.run.session import clock
from holdfast.run.watch import batches_run
from holdfast.run.watch.records import Event, Recorder, RunLog
from holdfast.storage import Folder, open_store, urls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GIT_SECONDS = 5.0
_HELD_BACK = "BatchHeldBack"
_RECORDED_SETTINGS = (
    "spark.databricks.",
    "spark.driver.memory",
    "spark.executor.",
    "spark.hadoop.",
    "spark.master",
    "spark.sql.",
    "spark.submit.",
)


class Records(StreamingQueryListener):
    """A listener that records the declared jobs of a session, or every query of the session."""

    def __init__(
        self,
        spark: "SparkSession",
        recorder: Recorder,
        storage: Mapping[str, str],
        *,
        every_query: bool,
    ) -> None:
        self._spark = spark
        self._recorder = recorder
        self._storage = storage
        self._every_query = every_query
        self._declared: dict[str, Event] = {}
        self._logs: dict[str, RunLog] = {}
        self._live_runs: set[str] = set()
        self._run_ended = threading.Condition()

    def declare(
        self, job: Job, writer: Writer, plan: Fingerprint | Unknown, accepted: frozenset[str]
    ) -> None:
        """Add what Spark's events do not contain about a job; call this before its query starts."""
        self._declared[job.name] = _describe_job(job, writer, plan, accepted)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  Spark's name
        """Open the run's records."""
        name, query, run, now = event.name or "", str(event.id), str(event.runId), clock.now_ms()
        if name in self._declared or self._every_query:
            with self._run_ended:
                self._live_runs.add(run)
            self._recorder.submit(lambda: self._open_log(name, query, run, now))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802  Spark's name
        """Record a batch that ran; old versions of Spark also report triggers without data."""
        if batches_run.has_run(event.progress.durationMs):
            text, run = event.progress.json, str(event.progress.runId)
            self._add(run, lambda: _make_progress_event(text, clock.now_ms()))

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802  Spark's name
        """Record nothing: the query has no new data."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802  Spark's name
        """Record the end, with the error if there is one."""
        error, run, now = event.exception, str(event.runId), clock.now_ms()
        self._add(
            run, lambda: {"event": "terminated", "at_ms": now, "error": _shorten_error(error)}
        )
        with self._run_ended:
            self._live_runs.discard(run)
            self._run_ended.notify_all()

    def settle(self, seconds: float) -> None:
        """Wait until Spark has reported the end of every run whose start it reported."""
        with self._run_ended:
            self._run_ended.wait_for(lambda: not self._live_runs, seconds)

    def _add(self, run: str, make: Callable[[], Event]) -> None:
        def task() -> RunLog | None:
            log = self._logs.get(run)
            if log is not None:
                log.add(make())
            return log

        self._recorder.submit(task)

    def _open_log(self, name: str, query: str, run: str, now: int) -> RunLog | None:
        running = _read_running_query(self._spark, query, with_plan=name not in self._declared)
        location = str(running.get("location") or "")
        base, _, folder = location.rpartition("/")
        declared = self._declared.get(name, {})
        if not base:
            return None
        store: Folder = open_store(base, self._storage)
        log = RunLog(store, folder, now, run)
        log.add(
            {
                "event": "started",
                "at_ms": now,
                "query_id": query,
                "run_id": run,
                "name": name,
                "spark_version": self._spark.version,
                "holdfast_version": VERSION,
                "host": processes.get_current().host,
                "pid": processes.get_current().pid,
                "configuration": _read_configuration(self._spark),
                **running,
                **declared,
                "git_revision": _find_git_revision(declared.get("declared")),
            }
        )
        self._logs[run] = log
        return log


def _describe_job(
    job: Job, writer: Writer, plan: Fingerprint | Unknown, accepted: frozenset[str]
) -> Event:
    plan_members: Event = {}
    if not isinstance(plan, Unknown):
        plan_members = {
            "stateful_operators": [operator.kind for operator in plan.operators],
            "plan": plans.encode(plan),
        }
    return {
        "job": job.name,
        "epoch": writer.epoch,
        "generation": writer.generation,
        "declared": str(job.declared_at),
        "proven": job.is_proven,
        "output_mode": job.output_mode.value,
        **plan_members,
        "accepted": sorted(accepted),
        "reads": [
            {"kind": type(source).__name__, "options": redact.value(source.options)}
            for source in job.reads
        ],
        "writes": describe_outputs(job),
    }


def describe_outputs(job: Job) -> list[Json]:
    """Return each output as a record contains it: enough to read its ledger later."""
    return [
        {
            "name": output.name,
            "kind": find_kind(output.sink).value,
            "path": find_target(output.sink),
            # No declaration contains a password.
            **(
                {"server": output.sink.connection, "schema": output.sink.schema}
                if isinstance(output.sink, PostgresSink)
                else {}
            ),
        }
        for output in job.writes
    ]


def _read_running_query(spark: "SparkSession", query: str, *, with_plan: bool) -> dict[str, Json]:
    """Return what only the running query knows: its checkpoint, sink, output mode and plan."""
    java = spark._jsparkSession.streams().get(query)  # noqa: SLF001  PySpark has no public access
    if java is None:
        return {}
    execution = java.streamingQuery()
    root = str(execution.resolvedCheckpointRoot())
    mode = str(execution.outputMode().toString()).lower()
    plan: dict[str, Json] = {}
    if with_plan:
        taken = fingerprint.try_taking(
            lambda: fingerprint.take_from_plan(
                execution.analyzedPlan(),
                spark,
                sinks=(),
                output_mode=mode,
                session=execution.sparkSession(),
            )
        )
        if not isinstance(taken, Unknown):
            plan["plan"] = plans.encode(taken)
    return {
        **plan,
        "location": urls.to_canonical(root),
        "sink": str(execution.sink().toString()),
        "output_mode": mode,
        "sources": [str(execution.sources().apply(i)) for i in range(execution.sources().size())],
    }


def _read_configuration(spark: "SparkSession") -> dict[str, Json]:
    """Return the settings of the session, without secrets."""
    settings = dict(spark.sparkContext.getConf().getAll()) | dict(spark.conf.getAll)
    recorded = {key: value for key, value in settings.items() if key.startswith(_RECORDED_SETTINGS)}
    return {**redact.settings(recorded)}


def _make_progress_event(text: str, now: int) -> Event:
    value = json.as_mapping(json.parse(text))
    sources = value.get("sources")
    operators = value.get("stateOperators")
    return {
        "event": "progress",
        "at_ms": now,
        "batch": value.get("batchId"),
        "rows": value.get("numInputRows"),
        "duration_ms": value.get("durationMs"),
        "watermark": json.as_mapping(value.get("eventTime")).get("watermark"),
        "sources": [
            _pick(source, "description", "startOffset", "endOffset", "numInputRows")
            for source in (sources if isinstance(sources, list) else [])
        ],
        "state": [
            _pick(
                operator,
                "operatorName",
                "numRowsTotal",
                "numRowsUpdated",
                "numRowsRemoved",
                "numRowsDroppedByWatermark",
                "memoryUsedBytes",
                "commitTimeMs",
            )
            for operator in (operators if isinstance(operators, list) else [])
        ],
    }


def _pick(value: Json, *keys: str) -> Json:
    members = json.as_mapping(value)
    return {key: members[key] for key in keys if key in members}


def _shorten_error(error: str | None) -> str | None:
    if error is None or _HELD_BACK in error:
        return None
    return error_line.shorten(error)


def _find_git_revision(declared: Json) -> str | None:
    """Return the git revision of the code that declared the job, if it is in a repository."""
    if not isinstance(declared, str):
        return None
    folder = Path(declared.rpartition(":")[0]).parent
    try:
        done = subprocess.run(  # noqa: S603
            ["git", "-C", str(folder), "rev-parse", "HEAD"],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
