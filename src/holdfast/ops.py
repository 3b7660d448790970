"""The verbs of holdfast: the one place where the pure core and the edges meet."""

import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from holdfast.errors import OptionInvalid
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.gather.history.events import EventLog
    from holdfast.gather.inventory.tree import OnProgress
    from holdfast.gather.locate.resolve import Checkpoint, FolderOfCheckpoints
    from holdfast.model.definition import Job
    from holdfast.model.evidence import BatchDetail, CheckpointRow, Checkpoints, Evidence
    from holdfast.model.finding import Check, Diagnosis
    from holdfast.model.spark_version import SparkVersion
    from holdfast.model.state import OperatorEvidence
    from holdfast.run.pipeline import Pipeline
    from holdfast.run.start.locations import Base
    from holdfast.run.state import StateQuery, StateRows
    from holdfast.run.watch.driver import Say

_SignalHandler = Callable[[int, FrameType | None], object] | int | None

_END_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReport:
    """Rows of state, with the operator and the query that they were read with."""

    location: str
    operator: "OperatorEvidence"
    query: "StateQuery"
    rows: "StateRows"


def load(target: str) -> "Pipeline":
    """Return the pipeline that `MODULE[:PIPELINE]` names."""
    from holdfast.run import target as targets  # imported late: most commands need no pipeline

    return targets.load(target)


def inspect(
    location: str,
    *,
    storage: Mapping[str, str],
    event_log: str | None,
    now_ms: int,
    on_progress: "OnProgress",
) -> "Evidence | Checkpoints":
    """Read a checkpoint, or one row for each checkpoint in a folder. Changes nothing."""
    from holdfast.gather import evidence
    from holdfast.gather.locate import resolve

    resolved = resolve.find(location, storage)
    if isinstance(resolved, resolve.FolderOfCheckpoints):
        if event_log is not None:
            raise _make_event_log_error(event_log, resolved.url, resolved.checkpoints)
        return _inspect_folder(resolved, storage, now_ms, on_progress)
    return evidence.collect(
        resolved.place,
        resolved.top,
        event_log=_open_event_log(event_log, storage),
        now_ms=now_ms,
        on_progress=on_progress,
    )


def _inspect_folder(
    folder: "FolderOfCheckpoints",
    storage: Mapping[str, str],
    now_ms: int,
    on_progress: "OnProgress",
) -> "Checkpoints":
    from holdfast.gather import evidence
    from holdfast.gather.inventory.read import make_unreadable
    from holdfast.gather.locate import many
    from holdfast.model.evidence import Checkpoints
    from holdfast.report import verdict

    def read_row(checkpoint: "Checkpoint", on_listed: "OnProgress") -> "CheckpointRow":
        return verdict.make_row(
            evidence.collect(
                checkpoint.place,
                checkpoint.top,
                event_log=None,
                now_ms=now_ms,
                on_progress=on_listed,
            )
        )

    return Checkpoints(
        rows=tuple(many.read_each(folder, storage, read_row, on_progress)),
        unreadable=tuple(make_unreadable(refusal.path, refusal) for refusal in folder.refused),
    )


def _make_event_log_error(event_log: str, url: str, names: Sequence[str]) -> OptionInvalid:
    command = shlex.join(["holdfast", "inspect", f"{url}/{names[0]}", "--event-log", event_log])
    return OptionInvalid(
        f"`--event-log` needs one checkpoint, but `{url}` contains {len(names)}",
        hint=f"show one checkpoint: `{command}`",
    )


def diagnose(  # noqa: PLR0913  one parameter per option of the command
    location: str,
    *,
    storage: Mapping[str, str],
    event_log: str | None,
    spark: "SparkVersion | None",
    asynchronous: bool,
    settings: Mapping[str, str],
    kafka: str,
    now_ms: int,
    on_progress: "OnProgress",
) -> "Diagnosis":
    """Diagnose what a restart will do, and whether it is safe. Changes nothing."""
    from holdfast.diagnose import diagnosis
    from holdfast.gather import evidence
    from holdfast.gather.around import surroundings
    from holdfast.gather.locate import resolve
    from holdfast.predict import candidates

    checkpoint = resolve.find_checkpoint(location, storage)
    log = _open_event_log(event_log, storage)
    collected = evidence.collect(
        checkpoint.place,
        checkpoint.top,
        event_log=log,
        now_ms=now_ms,
        on_progress=on_progress,
        databases=True,
    )
    around = surroundings.collect(
        checkpoint.place,
        collected,
        surroundings.LookupOptions(kafka=kafka, start_settings=settings),
    )
    starts = candidates.list_candidates(collected, spark, asynchronous=asynchronous)
    return diagnosis.diagnose_worst(collected, starts, around)


def _open_event_log(place: str | None, storage: Mapping[str, str]) -> "EventLog | None":
    if place is None:
        return None
    from holdfast.gather.history import event_logs

    return event_logs.open_at(place, storage)


def inspect_batch(
    location: str,
    *,
    storage: Mapping[str, str],
    event_log: str | None,
    batch: int,
    after: int | None,
) -> "BatchDetail":
    """Read what a batch consumed; with `after`, what all batches after that one consumed.

    Changes nothing.
    """
    from holdfast.gather import batch_detail
    from holdfast.gather.locate import resolve

    checkpoint = resolve.find_checkpoint(location, storage)
    log = _open_event_log(event_log, storage)
    if after is None:
        return batch_detail.read(checkpoint.place, checkpoint.top, batch, log)
    return batch_detail.compare(checkpoint.place, checkpoint.top, after, batch, log)


def read_state(  # noqa: PLR0913  one parameter per option of the command
    location: str,
    *,
    storage: Mapping[str, str],
    operator: int,
    batch: int | None,
    changes: tuple[int, int] | None,
    limit: int,
    debug: bool,
) -> "StateReport":
    """Read rows of a stateful operator with Spark, from a copy of the checkpoint."""
    from holdfast.gather.history.query_facts import History
    from holdfast.gather.inventory import snapshot
    from holdfast.gather.locate import resolve
    from holdfast.gather.logs import tail
    from holdfast.gather.state import operators as states
    from holdfast.gather.state import readable_batches, stores
    from holdfast.run import state as state_reader
    from holdfast.run import state_copy

    checkpoint = resolve.find_checkpoint(location, storage)
    reader = checkpoint.place.reader
    tree = snapshot.take(reader, checkpoint.top)
    request = readable_batches.StateRequest(
        location=location, operator=operator, batch=batch, changes=changes
    )
    readable_batches.require_listed(request, tree)
    logged = stores.make_logged_state(tree, tail.read(reader, tree), History())
    evidence = readable_batches.find_operator(request, states.read(reader, tree, logged).operators)
    query = state_reader.StateQuery(
        operator=operator,
        batch=readable_batches.choose_batch(request, tree, evidence),
        changes=changes,
        limit=limit,
        unique_ids=any(unique for _, unique in tree.kinds_of_state),
    )
    readable_batches.require_schema(request, tree)
    with state_copy.copy_checkpoint(reader, checkpoint.top, operator) as copy:
        rows = state_reader.read_with_own_spark(copy, evidence, query, debug=debug)
    return StateReport(location=checkpoint.place.url, operator=evidence, query=query, rows=rows)


def run(  # noqa: PLR0913  one parameter per option of the command
    pipeline: "Pipeline",
    names: Sequence[str],
    *,
    master: str | None,
    given: Mapping[str, str],
    once: bool,
    grace: float,
    dev: bool,
    accepted: Sequence[str],
    lease_seconds: float,
    debug: bool,
    say: "Say",
) -> None:
    """Run the jobs until they are done, or until a signal stops the process."""
    from holdfast.run import order
    from holdfast.run.session import build
    from holdfast.run.start.admission import RunOptions

    options = RunOptions(
        dev=dev,
        once=once,
        grace=grace,
        accepted=frozenset(accepted),
        lease_ms=round(lease_seconds * 1000),
    )
    jobs = pipeline.chosen(names)
    with _catch_stop_signals() as stop, ExitStack() as ending:

        def open_session(base: "Base") -> "SparkSession":
            spark = build.open_session(
                pipeline.name,
                master=master,
                given={**pipeline.settings, **given},
                on_s3=urls.is_s3(base.url),
                reaches_s3=any(urls.is_s3(path) for job in jobs for path in _list_paths(job)),
                debug=debug,
            )
            ending.callback(_end_session, spark)
            _handle_signals(stop)  # Spark replaced the handlers: its own cancel the running batch
            return spark

        running = order.start(pipeline.declaration, jobs, options, open_session, say=say, wake=stop)
        running.wait(stop)
        if stop.is_set():
            say(f"stopping: waiting up to {grace:g} s for the running batch")
            running.stop()


def _end_session(spark: "SparkSession") -> None:
    """Stop Spark in a thread: Spark waits for a batch past its grace, this process does not."""
    ender = threading.Thread(target=spark.stop, name="holdfast-end", daemon=True)
    ender.start()
    ender.join(_END_SECONDS)


def check(
    pipeline: "Pipeline",
    names: Sequence[str],
    *,
    master: str | None,
    given: Mapping[str, str],
    debug: bool,
) -> "tuple[Check, ...]":
    """Check whether each job may start from its checkpoint. Starts no query, writes nothing."""
    from holdfast.run.query import check as checks
    from holdfast.run.session import build
    from holdfast.run.start import locations

    jobs, declared = pipeline.chosen(names), pipeline.declaration
    base = locations.resolve_base(declared.checkpoints, declared.name)
    places = {job.name: f"{base}/{job.name}" for job in jobs}
    # Before Spark starts, because a checkpoint that cannot be read is then reported at once.
    evidence = {
        name: checks.read_evidence(place, declared.storage) for name, place in places.items()
    }
    spark = build.open_session(
        pipeline.name,
        master=master,
        given={**pipeline.settings, **given},
        on_s3=urls.is_s3(base),
        reaches_s3=any(urls.is_s3(path) for job in jobs for path in _list_paths(job)),
        debug=debug,
    )
    try:
        return tuple(
            checks.check_job(job, places[job.name], evidence[job.name], declared.storage, spark)
            for job in jobs
        )
    finally:
        spark.stop()


def _list_paths(job: "Job") -> Iterator[str]:
    """Yield the paths that a job reads and writes."""
    from holdfast.model.definition import DeltaTable, Files, Kafka, find_path

    for source in job.reads:
        match source:
            case DeltaTable() | Files():
                yield source.path
            case Kafka():
                continue
    yield from filter(None, (find_path(output.sink) for output in job.writes))


@contextmanager
def _catch_stop_signals() -> Iterator[threading.Event]:
    """Let SIGTERM and SIGINT set an event instead of ending the process."""
    stop = threading.Event()
    previous = _handle_signals(stop)
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _handle_signals(stop: threading.Event) -> "Mapping[signal.Signals, _SignalHandler]":
    """Let both signals set the event, and return the previous handlers."""

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    return {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
