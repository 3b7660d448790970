"""Stage 2: events of a query, from run records and event logs -> what they say of it.

    started      where the checkpoint is, which Spark, which sink, which output mode
    progress     rows of a batch, rows of the state
    terminated   how a run ended

What several runs tell is taken from the newest of them, by the time of its start. Of one run,
records hold more than an event log, and come first where both tell the same.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from holdfast.decode import fingerprint
from holdfast.gather.history.query_facts import NO_END, History, RecordedOutput
from holdfast.model.events import (
    ApplicationSettings,
    ApplicationStarted,
    BatchPlanned,
    LogEvent,
    QueryEvent,
    QueryProgress,
    QueryStarted,
    QueryTerminated,
)
from holdfast.model.evidence import RestartSign, Start
from holdfast.model.fact import Known, Unknown
from holdfast.model.ids import BatchId, QueryId, RunId
from holdfast.model.json import Json, as_mapping
from holdfast.storage import urls

EventWithFile = tuple[str, LogEvent]
"""The file that tells it, and the event."""


class LogEvents(Protocol):
    """The events of one or more logs, which are read whenever they are asked for."""

    left_out: str
    """What was not read of the logs when they were last read, in words; empty where all was."""

    def __iter__(self) -> Iterator[EventWithFile]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """An event log that somebody names, or a folder of them, and what is in it."""

    place: str
    events: LogEvents


def build_history(
    records: Sequence[EventWithFile],
    log: LogEvents | None,
    query_id: QueryId | None,
    location: str,
    batches: Collection[BatchId],
) -> History:
    """What the events say of the query whose checkpoint is at a location, and of some batches.

    If its id is not known, it is the query of the newest record, or the one whose plan in the event
    log names the location. No other query of a log is taken for it, not even the only one.
    """
    known = query_id or _find_newest_query(records)
    logged = _Runs(RestartSign.EVENT_LOG, known, batches)
    for path, event in log or ():
        logged.take(path, event)
    recorded = _Runs(RestartSign.RECORDED, known, batches)
    for path, event in records:
        recorded.take(path, event)
    wanted = known or logged.find_query_at(location)
    history = _merge_runs([*logged.of(wanted), *recorded.of(wanted)])
    if log is not None:
        history.log_silent, history.log_left_out = logged.silent(wanted), log.left_out
    return history


@dataclass(slots=True, kw_only=True)
class _RunHistory:
    """What records, or an event log, tell of one run."""

    run_id: RunId
    query_id: QueryId | None
    began_ms: int | None = None
    location: str = ""
    told: History = field(default_factory=History)


class _Runs:
    """The runs that events tell of, of the query that is wanted or, if that is not known, of all.

    They are folded while they stream: a log has more events than fit into memory. Of a batch that
    nobody asks for not even its end is kept: that of a large topic has thousands of partitions.
    """

    def __init__(
        self, sign: RestartSign, wanted: QueryId | None, batches: Collection[BatchId]
    ) -> None:
        self._sign = sign
        self._wanted = wanted
        self._batches = batches
        self._runs: dict[RunId, _RunHistory] = {}
        self._queries: set[QueryId] = set()
        self._version: Known[str] | None = None

    def take(self, path: str, event: LogEvent) -> None:
        """Take an event in; one without a query belongs to that of its run."""
        match event:
            case ApplicationStarted():
                self._version = Known(value=event.spark_version, read_from=(path,))
            case ApplicationSettings():
                return
            case _:
                query = None if isinstance(event.query_id, Unknown) else event.query_id
                self._queries |= {query} if query else set()
                if self._wanted is None or query in (None, self._wanted):
                    self._take(path, event, query)

    def _take(self, path: str, event: QueryEvent | BatchPlanned, query: QueryId | None) -> None:
        run = self._runs.setdefault(event.run_id, _RunHistory(run_id=event.run_id, query_id=query))
        run.query_id = run.query_id or query
        if isinstance(event.at_ms, int):
            run.began_ms = min(event.at_ms, run.began_ms or event.at_ms)
        if not isinstance(event, QueryStarted):
            _apply_missing_start(run, self._sign, path, self._version)
        match event:
            case QueryStarted():
                _apply_start(run.told, self._sign, path, event, self._version)
            case BatchPlanned():
                run.location = event.location
                _apply_plan(run.told, path, event, self._version)
            case QueryProgress():
                if event.batch in self._batches:
                    _apply_batch(run.told, path, event)
                _apply_progress(run.told, path, event)
            case QueryTerminated():
                _apply_end(run.told, event)

    def of(self, query_id: QueryId | None) -> list[_RunHistory]:
        """The runs of one query."""
        return [
            run for run in self._runs.values() if query_id is not None and run.query_id == query_id
        ]

    def find_query_at(self, location: str) -> QueryId | None:
        """The query whose plan names a checkpoint location, the newest if there are several."""
        runs = [run for run in self._runs.values() if run.location]
        found = [run for run in runs if urls.to_canonical(run.location) == location]
        return max(found, key=lambda run: run.began_ms or 0).query_id if found else None

    def silent(self, wanted: QueryId | None) -> str:
        """Why nothing is told of the query that is wanted, or nothing."""
        if self.of(wanted):
            return ""
        if not self._queries:
            return "tells of no streaming query"
        if wanted is None:
            return "does not tell which of its queries is the one of this checkpoint"
        return "tells of other queries only"


def _merge_runs(runs: Sequence[_RunHistory]) -> History:
    """One history of many runs, oldest first; of one run, what comes later counts."""
    began: dict[RunId, int] = {}
    for run in runs:
        if run.began_ms is not None:
            began[run.run_id] = min(run.began_ms, began.get(run.run_id, run.began_ms))
    whole = History()
    for run in sorted(runs, key=lambda one: began.get(one.run_id, 0)):
        whole.add(run.told)
    return whole


def _find_newest_query(records: Sequence[EventWithFile]) -> QueryId | None:
    started = [event for _, event in records if isinstance(event, QueryStarted)]
    return started[-1].query_id if started else None


def _apply_start(
    history: History,
    sign: RestartSign,
    path: str,
    event: QueryStarted,
    version: Known[str] | None,
) -> None:
    read_from = (path,)
    if isinstance(event.spark_version, str):
        version = Known(value=event.spark_version, read_from=read_from)
    history.query_id = Known(value=event.query_id, read_from=read_from)
    history.spark_version = version or history.spark_version
    if isinstance(event.sink, str):
        history.sink = Known(value=event.sink, read_from=read_from)
    if isinstance(event.output_mode, str):
        history.output_mode = Known(value=event.output_mode, read_from=read_from)
    history.sources = event.sources or history.sources
    _apply_record(history, event.record, read_from)
    plan = fingerprint.decode(event.record.get("plan"))
    if not isinstance(plan, Unknown):
        history.plans[event.run_id] = Known(value=plan, read_from=read_from)
    start = Start(
        sign=sign,
        at_ms=event.at_ms,
        run_id=event.run_id,
        first_batch=None,
        ended_ms=NO_END,
        error="",
        spark_version=version.value if version else "",
        note=f"run `{event.run_id}`",
        read_from=path,
    )
    history.note_start(event.run_id, start)


def _apply_missing_start(
    run: _RunHistory, sign: RestartSign, path: str, version: Known[str] | None
) -> None:
    """A run that is told of from its middle on, as by one file of a rolling log."""
    if run.told.starts or run.query_id is None:
        return
    run.told.query_id = Known(value=run.query_id, read_from=(path,))
    run.told.spark_version = version
    run.told.starts[run.run_id] = Start(
        sign=sign,
        at_ms=Unknown(reason="its start is not told"),
        run_id=run.run_id,
        first_batch=None,
        ended_ms=NO_END,
        error="",
        spark_version=version.value if version else "",
        note=f"run `{run.run_id}`, whose start is not told",
        read_from=path,
    )


def _apply_record(history: History, record: Mapping[str, Json], read_from: tuple[str, ...]) -> None:
    """What only holdfast's own records have."""
    job, generation, writes = (record.get(key) for key in ("job", "generation", "writes"))
    history.job = job if isinstance(job, str) else history.job
    history.generation = generation if isinstance(generation, int) else history.generation
    operators = record.get("stateful_operators")
    if isinstance(operators, Sequence) and not isinstance(operators, str):
        history.operators = tuple(str(one) for one in operators)
    if not isinstance(writes, Sequence) or isinstance(writes, str) or not writes:
        return
    history.writes = tuple(
        RecordedOutput(
            kind=str(m.get("kind", "")),
            name=str(m.get("name", "")),
            path=str(m.get("path", "")),
            server=str(m.get("server", "")),
            schema=str(m.get("schema", "")),
        )
        for m in (as_mapping(one) for one in writes)
    )
    told = "; ".join(f"{write.kind} {write.path}".strip() for write in history.writes)
    history.sink = Known(value=told, read_from=read_from)


def _apply_plan(
    history: History, path: str, event: BatchPlanned, version: Known[str] | None
) -> None:
    history.spark_version = version or history.spark_version
    if isinstance(event.output_mode, str):
        history.output_mode = Known(value=event.output_mode, read_from=(path,))
    history.operators = event.operators or history.operators


def _apply_batch(history: History, path: str, event: QueryProgress) -> None:
    """How many rows a batch had, and where it ended."""
    if isinstance(event.rows, int):
        history.counted(event.batch, event.rows)
        if event.rows > 0:
            ends = tuple(one.end for one in event.sources)
            history.ends[event.batch] = Known(value=ends, read_from=(path,))


def _apply_progress(history: History, path: str, event: QueryProgress) -> None:
    if isinstance(event.sink, str) and history.sink is None:
        history.sink = Known(value=event.sink, read_from=(path,))
    history.sources = tuple(one.description for one in event.sources) or history.sources
    names = tuple(one.name for one in event.operators)
    if names:
        history.progress_operators = Known(value=names, read_from=(path,))
    # A report without rows may be of no batch at all: it then has the id of the one to come.
    history.state_batches = (event.batch, *([BatchId(event.batch - 1)] if event.rows == 0 else []))
    history.state_rows = {
        one.name: one.numbers["numRowsTotal"]
        for one in event.operators
        if names.count(one.name) == 1 and "numRowsTotal" in one.numbers
    }
    start = history.starts.get(event.run_id)
    if start is not None and start.first_batch is None and isinstance(start.at_ms, int):
        history.starts[event.run_id] = replace(start, first_batch=event.batch)


def _apply_end(history: History, event: QueryTerminated) -> None:
    start = history.starts.get(event.run_id)
    if start is not None:
        history.starts[event.run_id] = replace(start, ended_ms=event.at_ms, error=event.error)
