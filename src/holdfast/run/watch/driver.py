"""The jobs of a run while they run: prepare, launch, watch, restart, stop.

`run/order.py` says in which order a start uses this.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.errors import DriverFenced, HoldfastError
from holdfast.model.batch import Writer
from holdfast.model.definition import Job
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import NOT_RECORDED, Fingerprint
from holdfast.model.lease import Lease
from holdfast.run.query import failure, fingerprint, stream
from holdfast.run.query.batch import OffsetReader
from holdfast.run.query.failure import Failure
from holdfast.run.start import admission, lease, preflight
from holdfast.run.start.admission import AdmittedJob, RunOptions
from holdfast.run.start.locations import Base
from holdfast.run.watch import batches_run
from holdfast.run.watch.listener import Records
from holdfast.run.watch.records import Recorder
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_POLL_SECONDS = 0.1
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 60.0
_SETTLE_SECONDS = 3.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.02
_ASK_SECONDS = 1.0
_TELL_SECONDS = 60.0


def say_nothing(_: str) -> None:
    """Say nothing."""


Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedQuery:
    """A query whose sinks are ready: its rows, and its plan for the run records."""

    result: "DataFrame"
    plan: Fingerprint | Unknown


@dataclass(slots=True)
class Runner:
    """One job while it runs: its query, and how often it was restarted."""

    admitted: AdmittedJob
    writer: stream.BatchWriter | None = None
    query: "StreamingQuery | None" = None
    plan: Fingerprint | Unknown = NOT_RECORDED
    restarts: int = 0
    restart_at: float = 0.0
    ask_at: float = 0.0
    done: bool = False
    last_batch: int = -1
    error: HoldfastError | None = None
    lost: threading.Event = field(default_factory=threading.Event)

    @property
    def job(self) -> Job:
        """What was declared."""
        return self.admitted.job

    @property
    def life(self) -> Writer:
        """Who writes."""
        return self.admitted.life


class Running:
    """Jobs that were started: watch them, stop them."""

    def __init__(
        self,
        base: Base,
        storage: Mapping[str, str],
        spark: "SparkSession",
        options: RunOptions,
        say: "Say",
    ) -> None:
        self._spark = spark
        self._options = options
        self._base = base
        self._storage = storage
        self._runners: list[Runner] = []
        self._keeper = lease.Keeper(base.store, self._note_lost_lease)
        flush_seconds = 1.0 if urls.is_local(base.url) else 10.0
        self._recorder = Recorder(flush_seconds=flush_seconds)
        self._records = Records(spark, self._recorder, storage, every_query=False)
        self._stopping = threading.Event()
        self._say = say
        self._closed = False
        spark.streams.addListener(self._records)

    @property
    def queries(self) -> Mapping[str, "StreamingQuery"]:
        """The queries by job name, also those that are done."""
        return {r.job.name: r.query for r in self._runners if r.query is not None}

    def stop(self, grace: float | None = None) -> None:
        """Let each batch at hand finish and commit, up to `grace` seconds, then end."""
        self._stopping.set()
        deadline = time.monotonic() + (self._options.grace if grace is None else grace)
        live = [runner for runner in self._runners if runner.query is not None and not runner.done]
        if self._closed:
            return
        for runner in live:
            if runner.writer is not None:
                runner.writer.stop_before_next()
        for runner in live:
            self._stop_runner(runner, deadline)
        self.close()

    def wait(self, wake: threading.Event | None = None) -> None:
        """Watch until every job is done, one fails for good, or `wake` is set.

        A failed query is restarted after a pause that doubles, unless the error is one that
        comes back at every start; then every job is stopped and the error is raised.
        """
        while not all(runner.done for runner in self._runners):
            if (wake is not None and wake.wait(_POLL_SECONDS)) or self._stopping.is_set():
                return
            if wake is None:
                time.sleep(_POLL_SECONDS)
            for runner in self._runners:
                self._look(runner)
                if runner.error is not None:
                    self.stop()
                    raise runner.error
        self.close()

    def close(self) -> None:
        """Give the leases up and write what is left of the records; a second time does nothing."""
        if self._closed:
            return
        self._closed = True
        self._keeper.close()
        self._records.settle(_SETTLE_SECONDS)
        self._spark.streams.removeListener(self._records)
        self._recorder.close()

    def add(self, admitted: AdmittedJob) -> Runner:
        """Take a job in, and keep its lease from now on."""
        runner = Runner(admitted=admitted)
        self._runners.append(runner)
        self._keeper.keep(admitted.lease)
        return runner

    def prepare(self, runner: Runner) -> PreparedQuery:
        """Step 4 of a start: build the query, compare it, read the ledgers again, fence.

        Also before each restart within a run: others may have written to the table in the pause.
        """
        session = stream.derive_session(runner.job, self._spark)
        result = stream.build_result(runner.job, session)
        plan = fingerprint.try_taking(lambda: fingerprint.take_from_job(runner.job, result))
        self._judge(runner, plan)
        accepted, again = self._options.accepted, runner.writer is not None
        complete = admission.require_sinks_complete(
            self._base, runner.admitted, accepted, again=again
        )
        runner.admitted = admission.catch_up(complete, self._keeper, accepted, again=again)
        stream.prepare(runner.admitted.outputs, runner.life, result)
        return PreparedQuery(result=result, plan=plan)

    def launch(self, runner: Runner, prepared: PreparedQuery) -> None:
        """Step 5 of a start: start the query."""
        reader = OffsetReader(self._base.store, runner.job.name, runner.life)
        runner.writer = stream.BatchWriter(runner.admitted.outputs, reader)
        self._records.declare(runner.job, runner.life, prepared.plan, self._options.accepted)
        runner.query = stream.start(
            runner.job,
            prepared.result,
            runner.life.location,
            runner.writer,
            once=self._options.once,
        )
        runner.ask_at = 0.0

    def wait_for(self, runner: Runner, wake: threading.Event | None) -> None:
        """Watch one job until it is done, fails for good, or `wake` is set."""
        pause = wake or threading.Event()
        while not runner.done and not pause.wait(_POLL_SECONDS):
            self._look(runner)
            if runner.error is not None:
                self.stop()
                raise runner.error

    def _judge(self, runner: Runner, plan: Fingerprint | Unknown) -> None:
        """Hold the query against the checkpoint; after its first start only what it reads from."""
        if runner.query is not None:
            self._judge_again(runner, plan)
            return
        runner.plan = plan
        looked = runner.admitted.evidence
        if looked is None:
            return
        if isinstance(plan, Unknown):
            self._say(f"{runner.job.name}: not compared with its checkpoint: {plan.reason}")
            return
        for one in preflight.require_safe_query(runner.job, looked, plan, self._options.accepted):
            self._say(f"{runner.job.name}: {one.code}: {one.text}")

    def _judge_again(self, runner: Runner, plan: Fingerprint | Unknown) -> None:
        was = runner.plan
        if isinstance(plan, Unknown) or isinstance(was, Unknown) or plan.sources == was.sources:
            return
        looked = preflight.observe(runner.life.location, self._storage)
        if looked is not None:
            preflight.require_safe_restart(runner.job, looked, (was, plan), self._options.accepted)

    def _look(self, runner: Runner) -> None:
        if runner.done or runner.query is None:
            return
        if runner.lost.is_set():
            self._fail_lost(runner)
            return
        if runner.restart_at:
            if time.monotonic() >= runner.restart_at:
                runner.restart_at = 0.0
                self._relaunch(runner)
            return
        active, now = runner.query.isActive, time.monotonic()
        if not active or now >= runner.ask_at:
            runner.ask_at = now + (_TELL_SECONDS if self._progressed(runner) else _ASK_SECONDS)
        if active:
            return
        error = runner.query.exception()
        if error is None:
            runner.done = True
            self._keeper.release(runner.job.name)
            self._say(f"{runner.job.name}: done")
            return
        inner = runner.writer.failure if runner.writer is not None else None
        self._failed(runner, failure.explain(runner.job, error, inner))

    def _progressed(self, runner: Runner) -> bool:
        """Tell the last batch, if there was another one since; a restart has then helped."""
        if runner.query is None:
            return False
        progress, known = batches_run.find_newest(runner.query, runner.last_batch)
        runner.last_batch = known
        if progress is None:
            return False
        runner.restarts = 0
        seconds = progress["durationMs"].get("triggerExecution", 0) / 1000
        self._say(
            f"{runner.job.name}: batch {progress['batchId']} done,"
            f" {progress['numInputRows']:,} rows read, {seconds:.1f} s"
        )
        return True

    def _failed(self, runner: Runner, found: Failure) -> None:
        if not found.curable or runner.restarts >= self._options.restarts:
            runner.error = found.error
            return
        pause = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2**runner.restarts)
        runner.restarts += 1
        runner.restart_at = time.monotonic() + pause
        self._say(
            f"{runner.job.name}: {found.error}; restart {runner.restarts} of"
            f" {self._options.restarts} in {pause:.0f} s"
        )

    def _relaunch(self, runner: Runner) -> None:
        try:
            self.launch(runner, self.prepare(runner))
        except Exception as error:  # whatever it is, it is explained and counted
            self._failed(runner, failure.explain(runner.job, error, None))

    def _stop_runner(self, runner: Runner, deadline: float) -> None:
        """Stop a query between two batches: when it waits for data, or its next was held back."""
        live = runner.query
        if live is None:
            return
        _, first = batches_run.find_newest(live, runner.last_batch)
        while live.isActive and time.monotonic() < deadline and not runner.lost.is_set():
            moved, first = batches_run.find_newest(live, first)
            if moved is not None or not live.status["isTriggerActive"]:
                break
            time.sleep(_LOOK_SECONDS)
        _stop_query(live)
        self._say(f"{runner.job.name}: stopped")

    def _fail_lost(self, runner: Runner) -> None:
        if runner.query is not None:
            _stop_query(runner.query)
        runner.error = DriverFenced(
            f"this driver (epoch {runner.life.epoch}) lost the lease of job `{runner.job.name}`:"
            " another driver took over",
            hint="let this process end; the job runs elsewhere",
        )

    def _note_lost_lease(self, lost: Lease) -> None:
        for runner in self._runners:
            if runner.job.name == lost.job:
                runner.lost.set()


def _stop_query(live: "StreamingQuery") -> None:
    """Stop a query, but do not wait for ever: Spark waits for Python code that it cannot stop."""
    stopper = threading.Thread(target=live.stop, name="holdfast-stop", daemon=True)
    stopper.start()
    stopper.join(_STOP_SECONDS)
