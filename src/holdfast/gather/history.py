"""Stage 2: events of a query, from run records and event logs -> what they say of it.

    started      where the checkpoint is, which Spark, which sink, which output mode
    progress     rows of a batch, rows of the state
    terminated   how a run ended

Records hold more than event logs and come first where both tell the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.decode import fingerprint
from holdfast.gather.told import History, Write
from holdfast.model.batch import Unknown
from holdfast.model.events import (
    ApplicationSettings,
    ApplicationStarted,
    BatchPlanned,
    LogEvent,
    QueryProgress,
    QueryStarted,
    QueryTerminated,
)
from holdfast.model.evidence import Known, RestartSign, Start
from holdfast.model.ids import BatchId, QueryId
from holdfast.model.json import Json, mapping

_NO_START = "does not hold the start of a run of this query"

Told = tuple[str, LogEvent]
"""The file that tells it, and the event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """An event log that somebody names, or a folder of them, and what is in it."""

    place: str
    events: Iterable[Told]


def of(records: Sequence[Told], log: Iterable[Told] | None, query_id: QueryId | None) -> History:
    """What the events say of a query; of any query that they name if its id is not known."""
    history = History()
    wanted = query_id or _newest_query(records)
    if log is not None:
        history.log_silent = _taken_in(history, RestartSign.EVENT_LOG, log, wanted)
    _taken_in(history, RestartSign.RECORDED, records, wanted)
    return history


def _taken_in(
    history: History, sign: RestartSign, events: Iterable[Told], wanted: QueryId | None
) -> str:
    """Take events in; why they tell nothing of the query, or nothing."""
    version: Known[str] | None = None
    told = False
    silent = "tells of no streaming query"
    for path, event in events:
        if isinstance(event, ApplicationStarted):
            version = Known(value=event.spark_version, read_from=(path,))
        elif not isinstance(event, ApplicationSettings):
            if _take(history, sign, (path, event), version, wanted):
                told = True
            elif event.query_id == wanted:
                silent = _NO_START
            elif silent != _NO_START:
                silent = "tells of other queries only"
    return "" if told else silent


def _take(
    history: History,
    sign: RestartSign,
    told: Told,
    version: Known[str] | None,
    wanted: QueryId | None,
) -> bool:
    """Take an event in, if it is one of the query."""
    path, event = told
    match event:
        case QueryStarted() if wanted in (None, event.query_id):
            _started(history, sign, path, event, version)
        case BatchPlanned() if wanted in (None, event.query_id):
            _planned(history, path, event, version)
        case QueryProgress() if event.run_id in history.starts:
            _progressed(history, path, event)
        case QueryTerminated() if event.run_id in history.starts:
            _terminated(history, event)
        case _:
            return False
    return True


def _newest_query(records: Sequence[Told]) -> QueryId | None:
    started = [event for _, event in records if isinstance(event, QueryStarted)]
    return started[-1].query_id if started else None


def _started(
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
    _recorded(history, event.record, read_from)
    plan = fingerprint.decode(event.record.get("plan"))
    if not isinstance(plan, Unknown):
        history.plans[event.run_id] = Known(value=plan, read_from=read_from)
    history.starts[event.run_id] = Start(
        sign=sign,
        at_ms=event.at_ms,
        run_id=event.run_id,
        first_batch=None,
        ended_ms=Unknown(reason="no end was told"),
        error="",
        spark_version=version.value if version else "",
        note=f"run `{event.run_id}`",
        read_from=path,
    )


def _recorded(history: History, record: Mapping[str, Json], read_from: tuple[str, ...]) -> None:
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
        Write(kind=str(m.get("kind", "")), name=str(m.get("name", "")), path=str(m.get("path", "")))
        for m in (mapping(one) for one in writes)
    )
    told = "; ".join(f"{write.kind} {write.path}".strip() for write in history.writes)
    history.sink = Known(value=told, read_from=read_from)


def _planned(history: History, path: str, event: BatchPlanned, version: Known[str] | None) -> None:
    history.spark_version = version or history.spark_version
    if isinstance(event.output_mode, str):
        history.output_mode = Known(value=event.output_mode, read_from=(path,))
    history.operators = event.operators or history.operators


def _progressed(history: History, path: str, event: QueryProgress) -> None:
    if isinstance(event.rows, int):
        # A batch without data reports again under the id of the one that comes next. After a rewind
        # a batch runs again with other rows, and the later run counts.
        if event.rows > 0 or event.batch not in history.rows:
            history.rows[event.batch] = event.rows
        if event.rows > 0:
            ends = tuple(one.end for one in event.sources)
            history.ends[event.batch] = Known(value=ends, read_from=(path,))
    if isinstance(event.sink, str) and history.sink is None:
        history.sink = Known(value=event.sink, read_from=(path,))
    history.sources = tuple(one.description for one in event.sources) or history.sources
    names = [one.name for one in event.operators]
    # A report without rows may be of no batch at all: it then has the id of the one to come.
    history.state_batches = (event.batch, *([BatchId(event.batch - 1)] if event.rows == 0 else []))
    history.state_rows = {
        one.name: one.numbers["numRowsTotal"]
        for one in event.operators
        if names.count(one.name) == 1 and "numRowsTotal" in one.numbers
    }
    start = history.starts[event.run_id]
    if start.first_batch is None:
        history.starts[event.run_id] = _changed(start, first_batch=event.batch)


def _terminated(history: History, event: QueryTerminated) -> None:
    start = history.starts[event.run_id]
    history.starts[event.run_id] = _changed(start, ended_ms=event.at_ms, error=event.error)


def _changed(
    start: Start,
    *,
    first_batch: BatchId | None = None,
    ended_ms: int | Unknown | None = None,
    error: str | None = None,
) -> Start:
    return Start(
        sign=start.sign,
        at_ms=start.at_ms,
        run_id=start.run_id,
        first_batch=start.first_batch if first_batch is None else first_batch,
        ended_ms=start.ended_ms if ended_ms is None else ended_ms,
        error=start.error if error is None else error,
        spark_version=start.spark_version,
        note=start.note,
        read_from=start.read_from,
    )
