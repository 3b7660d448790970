"""The verbs: the one place where the pure core and the edges meet."""

import shlex
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from holdfast.errors import OptionInvalid
from holdfast.storage import urls

if TYPE_CHECKING:
    from holdfast.gather.history.events import EventLog
    from holdfast.gather.inventory.tree import OnProgress
    from holdfast.gather.locate.resolve import Checkpoint, FolderOfCheckpoints
    from holdfast.model.definition import Job
    from holdfast.model.evidence import BatchDetail, CheckpointRow, Checkpoints, Evidence
    from holdfast.model.finding import Check, Diagnosis
    from holdfast.model.spark_version import SparkVersion
    from holdfast.model.state import OperatorEvidence
    from holdfast.run.pipeline import Pipeline
    from holdfast.run.state import StateQuery, StateRows
    from holdfast.run.watch.driver import Say

_SignalHandler = Callable[[int, FrameType | None], object] | int | None

_END_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateShown:
    """Rows of state, and what they are rows of."""

    location: str
    operator: "OperatorEvidence"
    wanted: "StateQuery"
    rows: "StateRows"


def load(target: str) -> "Pipeline":
    """The pipeline that `MODULE[:PIPELINE]` names."""
    from holdfast.run import target as targets  # looking needs no declarations

    return targets.load(target)


def inspect(
    location: str,
    *,
    storage: Mapping[str, str],
    event_log: str | None,
    now_ms: int,
    on_progress: "OnProgress",
) -> "Evidence | Checkpoints":
    """What is in a checkpoint, or one row for each checkpoint below a folder. Reads only."""
    from holdfast.gather import evidence
    from holdfast.gather.locate import resolve

    found = resolve.find(location, storage)
    if isinstance(found, resolve.FolderOfCheckpoints):
        if event_log is not None:
            raise _make_event_log_error(event_log, found.url, found.checkpoints)
        return _inspect_folder(found, storage, now_ms, on_progress)
    return evidence.collect(
        found.place,
        found.top,
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

    def row(one: "Checkpoint", listed: "OnProgress") -> "CheckpointRow":
        seen = evidence.collect(
            one.place, one.top, event_log=None, now_ms=now_ms, on_progress=listed
        )
        return verdict.make_row(seen)

    return Checkpoints(
        rows=tuple(many.read_each(folder, storage, row, on_progress)),
        unreadable=tuple(make_unreadable(one.path, one) for one in folder.refused),
    )


def _make_event_log_error(event_log: str, url: str, found: Sequence[str]) -> OptionInvalid:
    one = shlex.join(["holdfast", "inspect", f"{url}/{found[0]}", "--event-log", event_log])
    return OptionInvalid(
        f"expected one checkpoint with `--event-log`, found a folder of {len(found)}",
        hint=f"look at one of them: `{one}`",
    )


def diagnose(  # noqa: PLR0913  one parameter an option of the command
    location: str,
    *,
    storage: Mapping[str, str],
    event_log: str | None,
    spark: "SparkVersion | None",
    asynchronous: bool,
    asked: Mapping[str, str],
    kafka: str,
    now_ms: int,
    on_progress: "OnProgress",
) -> "Diagnosis":
    """What a restart will do, and what speaks against it. Reads only."""
    from holdfast.diagnose import diagnosis
    from holdfast.gather import evidence
    from holdfast.gather.around import surroundings
    from holdfast.gather.locate import resolve
    from holdfast.predict import restart

    found = resolve.find_checkpoint(location, storage)
    log = _open_event_log(event_log, storage)
    seen = evidence.collect(
        found.place,
        found.top,
        event_log=log,
        now_ms=now_ms,
        on_progress=on_progress,
        databases=True,
    )
    around = surroundings.collect(
        found.place, seen, surroundings.LookupOptions(kafka=kafka, start_settings=asked)
    )
    starts = restart.list_candidates(seen, spark, asynchronous=asynchronous)
    return diagnosis.diagnose_worst(seen, starts, around)


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
    """What one batch consumed; with `after`, what lies between two. Reads only."""
    from holdfast.gather import batch_detail
    from holdfast.gather.locate import resolve

    found = resolve.find_checkpoint(location, storage)
    log = _open_event_log(event_log, storage)
    if after is None:
        return batch_detail.read(found.place, found.top, batch, log)
    return batch_detail.compare(found.place, found.top, after, batch, log)


def read_state(  # noqa: PLR0913  one parameter an option of the command
    location: str,
    *,
    storage: Mapping[str, str],
    operator: int,
    batch: int | None,
    changes: tuple[int, int] | None,
    limit: int,
    debug: bool,
) -> "StateShown":
    """Rows of a stateful operator, through Spark, from a copy of the checkpoint."""
    from holdfast.gather.history.query_facts import History
    from holdfast.gather.inventory import snapshot
    from holdfast.gather.locate import resolve
    from holdfast.gather.logs import tail
    from holdfast.gather.state import operators as states
    from holdfast.gather.state import readable_batches, stores
    from holdfast.run import state as reading

    found = resolve.find_checkpoint(location, storage)
    listed = snapshot.take(found.place.reader, found.top)
    asked = readable_batches.StateRequest(
        location=location, operator=operator, batch=batch, changes=changes
    )
    readable_batches.require_listed(asked, listed)
    logged = stores.make_logged_state(listed, tail.read(found.place.reader, listed), History())
    seen = readable_batches.find_operator(
        asked, states.read(found.place.reader, listed, logged).operators
    )
    wanted = reading.StateQuery(
        operator=operator,
        batch=readable_batches.choose_batch(asked, listed, seen),
        changes=changes,
        limit=limit,
        unique_ids=any(unique for _, unique in listed.kinds_of_state),
    )
    readable_batches.require_schema(asked, listed)
    with reading.copy_checkpoint(found.place.reader, found.top, operator) as copy:
        rows = reading.read_with_own_spark(copy, seen, wanted, debug=debug)
    return StateShown(location=found.place.url, operator=seen, wanted=wanted, rows=rows)


def run(  # noqa: PLR0913  one parameter an option of the command
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
    """Run the jobs until they are done or the process is told to stop."""
    from holdfast.run.session import build
    from holdfast.run.start import admission
    from holdfast.run.watch import driver

    wishes = admission.RunOptions(
        dev=dev,
        once=once,
        grace=grace,
        accepted=frozenset(accepted),
        lease_ms=round(lease_seconds * 1000),
    )
    chosen = pipeline.chosen(names)
    with _catch_stop_signals() as stop:
        admitted = admission.admit(pipeline.declaration, chosen, wishes)
        for one in admitted.jobs:
            say(f"{one.job.name}: checkpoint {one.life.location}, epoch {one.life.epoch}")
        # Spark may take longer to start than a lease lasts.
        kept = admission.keep_leases(admitted.base, admitted.jobs)
        try:
            spark = build.open_session(
                pipeline.name,
                master=master,
                given={**pipeline.settings, **given},
                on_s3=urls.is_s3(admitted.base.url),
                reaches_s3=any(urls.is_s3(place) for job in chosen for place in _list_paths(job)),
                debug=debug,
            )
        except BaseException:
            kept.close()
            raise
        kept.end()
        _handle_signals(
            stop
        )  # Spark has put a handler of its own there, which cancels the batch at hand
        try:
            running = driver.launch(admitted, spark, wishes, say, stop)
            running.wait(stop)
            if stop.is_set():
                say(f"stopping: the batch at hand may take up to {grace:g} s")
                running.stop()
        finally:
            # Spark waits for Python code of a batch that is past its grace; this process does not.
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
    """Whether each job may start from its checkpoint. Starts no query, and writes nothing."""
    from holdfast.run.query import check as checks
    from holdfast.run.session import build
    from holdfast.run.start import locations

    chosen, declared = pipeline.chosen(names), pipeline.declaration
    base = locations.resolve_base(declared.checkpoints, declared.name)
    places = {job.name: f"{base}/{job.name}" for job in chosen}
    seen = {name: checks.read_evidence(place, declared.storage) for name, place in places.items()}
    spark = build.open_session(
        pipeline.name,
        master=master,
        given={**pipeline.settings, **given},
        on_s3=urls.is_s3(base),
        reaches_s3=any(urls.is_s3(place) for job in chosen for place in _list_paths(job)),
        debug=debug,
    )
    try:
        return tuple(
            checks.check_job(job, places[job.name], seen[job.name], declared.storage, spark)
            for job in chosen
        )
    finally:
        spark.stop()


def _list_paths(job: "Job") -> Iterator[str]:
    """The paths that a job reads and writes."""
    from holdfast.model.definition import DatabaseSink, ForeachBatch, Kafka

    for end in (*job.reads, *(output.sink for output in job.writes)):
        if not isinstance(end, Kafka | ForeachBatch | DatabaseSink):
            yield end.path


@contextmanager
def _catch_stop_signals() -> Iterator[threading.Event]:
    """SIGTERM and SIGINT set an event instead of ending the process."""
    stop = threading.Event()
    earlier = _handle_signals(stop)
    try:
        yield stop
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)


def _handle_signals(stop: threading.Event) -> "Mapping[signal.Signals, _SignalHandler]":
    """Let both signals set the event; the handlers that were there before."""

    def told(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    return {number: signal.signal(number, told) for number in (signal.SIGTERM, signal.SIGINT)}
