"""Events of a query, from run records and event logs -> History.

    started      checkpoint location, Spark version, sink, output mode
    progress     rows of a batch, rows of the state
    terminated   how a run ended

If several runs say something, the newest counts, by its start time. For the same run, records
contain more than an event log and take precedence.
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
"""The file of an event, and the event."""


class LogEvents(Protocol):
    """The events of one or more logs, which are read on each iteration."""

    left_out: str
    """What the last iteration did not read, in words; empty if it read everything."""

    def __iter__(self) -> Iterator[EventWithFile]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """An event log, or a folder of them, that the user names, and its events."""

    place: str
    events: LogEvents


def build_history(
    records: Sequence[EventWithFile],
    log: LogEvents | None,
    query_id: QueryId | None,
    location: str,
    batches: Collection[BatchId],
) -> History:
    """Return what the events say about the query of a checkpoint, and about some batches.

    If the query id is unknown, it is the query of the newest record, or the query whose plan in the
    event log names the location. No other query in a log is used, not even the only one.
    """
    known = query_id or _find_newest_query(records)
    logged = _Runs(RestartSign.EVENT_LOG, known, batches)
    for path, event in log or ():
        logged.add(path, event)
    recorded = _Runs(RestartSign.RECORDED, known, batches)
    for path, event in records:
        recorded.add(path, event)
    wanted = known or logged.find_query_at(location)
    history = _merge_runs([*logged.list_of(wanted), *recorded.list_of(wanted)])
    if log is not None:
        history.log_silent = logged.explain_silence(wanted)
        history.log_left_out = log.left_out
    return history


@dataclass(slots=True, kw_only=True)
class _RunHistory:
    """What records, or an event log, say about one run."""

    run_id: RunId
    query_id: QueryId | None
    began_ms: int | None = None
    location: str = ""
    history: History = field(default_factory=History)


class _Runs:
    """The runs of the wanted query in a stream of events, or of all queries if it is unknown.

    Events are summarised as they stream, because a log has more events than fit into memory. The
    end of a batch is kept only if the batch is wanted: a large topic has thousands of partitions.
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

    def add(self, path: str, event: LogEvent) -> None:
        """Add an event; one without a query id belongs to the query of its run."""
        match event:
            case ApplicationStarted():
                self._version = Known(value=event.spark_version, read_from=(path,))
            case ApplicationSettings():
                return
            case _:
                query = None if isinstance(event.query_id, Unknown) else event.query_id
                self._queries |= {query} if query else set()
                if self._wanted is None or query in (None, self._wanted):
                    self._add(path, event, query)

    def _add(self, path: str, event: QueryEvent | BatchPlanned, query: QueryId | None) -> None:
        run = self._runs.setdefault(event.run_id, _RunHistory(run_id=event.run_id, query_id=query))
        run.query_id = run.query_id or query
        if isinstance(event.at_ms, int):
            run.began_ms = min(event.at_ms, run.began_ms or event.at_ms)
        if not isinstance(event, QueryStarted):
            _apply_missing_start(run, self._sign, path, self._version)
        match event:
            case QueryStarted():
                _apply_start(run.history, self._sign, path, event, self._version)
            case BatchPlanned():
                run.location = event.location
                _apply_plan(run.history, path, event, self._version)
            case QueryProgress():
                if event.batch in self._batches:
                    _apply_batch(run.history, path, event)
                _apply_progress(run.history, path, event)
            case QueryTerminated():
                _apply_end(run.history, event)

    def list_of(self, query_id: QueryId | None) -> list[_RunHistory]:
        """Return the runs of one query."""
        return [
            run for run in self._runs.values() if query_id is not None and run.query_id == query_id
        ]

    def find_query_at(self, location: str) -> QueryId | None:
        """Return the newest query whose plan names a checkpoint location."""
        runs = [run for run in self._runs.values() if run.location]
        there = [run for run in runs if urls.to_canonical(run.location) == location]
        return max(there, key=lambda run: run.began_ms or 0).query_id if there else None

    def explain_silence(self, wanted: QueryId | None) -> str:
        """Return why the events say nothing about the wanted query; empty if they do."""
        if self.list_of(wanted):
            return ""
        if not self._queries:
            return "has no streaming query"
        if wanted is None:
            return "does not say which of its queries belongs to this checkpoint"
        return "has only other queries"


def _merge_runs(runs: Sequence[_RunHistory]) -> History:
    """Return one history of many runs, oldest first; for the same run, the later one counts."""
    began: dict[RunId, int] = {}
    for run in runs:
        if run.began_ms is not None:
            began[run.run_id] = min(run.began_ms, began.get(run.run_id, run.began_ms))
    whole = History()
    for run in sorted(runs, key=lambda run: began.get(run.run_id, 0)):
        whole.add(run.history)
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
    """Note a run whose start is missing, as when only one file of a rolling log is given."""
    if run.history.starts or run.query_id is None:
        return
    run.history.query_id = Known(value=run.query_id, read_from=(path,))
    run.history.spark_version = version
    run.history.starts[run.run_id] = Start(
        sign=sign,
        at_ms=Unknown(reason="its start is not recorded"),
        run_id=run.run_id,
        first_batch=None,
        ended_ms=NO_END,
        error="",
        spark_version=version.value if version else "",
        note=f"run `{run.run_id}`, whose start is not recorded",
        read_from=path,
    )


def _apply_record(history: History, record: Mapping[str, Json], read_from: tuple[str, ...]) -> None:
    """Add what only holdfast's own records contain."""
    job, generation, writes = (record.get(key) for key in ("job", "generation", "writes"))
    history.job = job if isinstance(job, str) else history.job
    history.generation = generation if isinstance(generation, int) else history.generation
    operators = record.get("stateful_operators")
    if isinstance(operators, Sequence) and not isinstance(operators, str):
        history.operators = tuple(str(name) for name in operators)
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
        for m in (as_mapping(write) for write in writes)
    )
    sinks = "; ".join(f"{write.kind} {write.path}".strip() for write in history.writes)
    history.sink = Known(value=sinks, read_from=read_from)


def _apply_plan(
    history: History, path: str, event: BatchPlanned, version: Known[str] | None
) -> None:
    history.spark_version = version or history.spark_version
    if isinstance(event.output_mode, str):
        history.output_mode = Known(value=event.output_mode, read_from=(path,))
    history.operators = event.operators or history.operators


def _apply_batch(history: History, path: str, event: QueryProgress) -> None:
    """Add how many rows a batch had, and where it ended."""
    if isinstance(event.rows, int):
        history.note_rows(event.batch, event.rows)
        if event.rows > 0:
            ends = tuple(source.end for source in event.sources)
            history.ends[event.batch] = Known(value=ends, read_from=(path,))


def _apply_progress(history: History, path: str, event: QueryProgress) -> None:
    if isinstance(event.sink, str) and history.sink is None:
        history.sink = Known(value=event.sink, read_from=(path,))
    history.sources = tuple(source.description for source in event.sources) or history.sources
    names = tuple(operator.name for operator in event.operators)
    if names:
        history.progress_operators = Known(value=names, read_from=(path,))
    # A report without rows may belong to no batch; it then has the id of the next batch.
    history.state_batches = (event.batch, *([BatchId(event.batch - 1)] if event.rows == 0 else []))
    history.state_rows = {
        operator.name: operator.numbers["numRowsTotal"]
        for operator in event.operators
        if names.count(operator.name) == 1 and "numRowsTotal" in operator.numbers
    }
    start = history.starts.get(event.run_id)
    if start is not None and start.first_batch is None and isinstance(start.at_ms, int):
        history.starts[event.run_id] = replace(start, first_batch=event.batch)


def _apply_end(history: History, event: QueryTerminated) -> None:
    start = history.starts.get(event.run_id)
    if start is not None:
        history.starts[event.run_id] = replace(start, ended_ms=event.at_ms, error=event.error)
