r"""The lines of a Spark event log -> the events of streaming queries.

Each line is a JSON object whose first field is its event. Only these events are read:

    {"Event":"SparkListenerLogStart","Spark Version":"4.1.1"}
    {"Event":"SparkListenerEnvironmentUpdate","Spark Properties":{…},…}
    {"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent",
     "id":…,"runId":…,"name":…,"timestamp":"2026-01-01T00:00:00.000Z"}
    {"Event":"…$QueryProgressEvent","progress":{"id":…,"runId":…,"batchId":0,"sources":[…],
     "sink":{"description":"FileSink[file:/out]"},"stateOperators":[…],…}}
    {"Event":"…$QueryTerminatedEvent","id":…,"runId":…,"exception":null}          without a time
    {"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
     "description":"name\nid = …\nrunId = …\nbatch = 0","time":…,"sparkPlanInfo":{"nodeName":…,
     "simpleString":"StateStoreSave [k#1], state info [ checkpoint = file:/ck/state, runId = …,
      opId = 0, ver = 0, numPartitions = 2] …, Complete, 0, 0, 2","children":[…]}}

Only the plan of a stateful batch shows the checkpoint location and the output mode; the first plan
of each run is read. Do not use `physicalPlanDescription` of the same event: Spark plans the query
again for it, always in append mode and without a checkpoint (observed on 4.1.1).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from holdfast.decode import log, progress
from holdfast.model import json
from holdfast.model.events import (
    ApplicationSettings,
    ApplicationStarted,
    BatchPlanned,
    LogEvent,
    QueryProgress,
    QueryStarted,
    QueryTerminated,
)
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.ids import BatchId, QueryId, RunId
from holdfast.model.json import Json

_LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
_PLANNED = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
_EVENT = re.compile(rb'\s*\{\s*"Event"\s*:\s*"([^"\\]{1,120})"')
_HEAD = 256
_RUN = re.compile(rb"runId = (\S{1,64}?)\\nbatch = ")
_PLAN_HEAD = 4096
_BATCH = re.compile(r"(?:^|\n)id = (\S{1,64})\nrunId = (\S{1,64})\nbatch = (\d{1,19})(?:\n|$)")
_MODE = re.compile(r", (Append|Complete|Update),")
_SAVE, _STREAMLINE = "StateStoreSave", "StatefulStreamlineAggregate"


def decode(lines: Iterable[bytes]) -> Iterator[LogEvent | Unreadable]:
    """Yield the events of streaming queries in order, with one line in memory at a time.

    Lines of other events, which are most of a log, are skipped without parsing.
    """
    planned: set[bytes] = set()
    for line in lines:
        event = _EVENT.match(line[:_HEAD])
        if event is None:
            if line.strip():
                yield Unreadable(reason="a line is no event")
            continue
        name = event[1].decode("ascii", "replace")
        run = _RUN.search(line[:_PLAN_HEAD]) if name == _PLANNED else None
        if name not in _DECODERS or (run and run[1] in planned):
            continue
        decoded = _decode_event(name, line)
        if run and isinstance(decoded, BatchPlanned):
            planned.add(run[1])
        if decoded is not None:
            yield decoded


def _decode_event(name: str, line: bytes) -> LogEvent | Unreadable | None:
    text = log.decode_text(line)
    if isinstance(text, Unreadable):
        return text
    fields = log.parse_object(text)
    return fields if isinstance(fields, Unreadable) else _DECODERS[name](fields)


def _decode_application(fields: Mapping[str, Json]) -> LogEvent | Unreadable:
    version = fields.get("Spark Version")
    if not isinstance(version, str):
        return Unreadable(reason="the log's first event has no version of Spark")
    return ApplicationStarted(spark_version=version)


def _decode_settings(fields: Mapping[str, Json]) -> LogEvent:
    """Return the settings of Spark; before 3.0 the log has them as a list of pairs."""
    properties = fields.get("Spark Properties")
    if isinstance(properties, Sequence) and not isinstance(properties, str):
        pairs = [pair for pair in properties if isinstance(pair, Sequence) and len(pair) == 2]  # noqa: PLR2004
        return ApplicationSettings(settings={str(key): str(value) for key, value in pairs})
    return ApplicationSettings(settings=log.as_texts(properties))


def _read_ids(fields: Mapping[str, Json]) -> tuple[QueryId, RunId] | None:
    query, run = fields.get("id"), fields.get("runId")
    if not isinstance(query, str) or not isinstance(run, str):
        return None
    return QueryId(query), RunId(run)


def _decode_start(fields: Mapping[str, Json]) -> LogEvent | Unreadable:
    ids = _read_ids(fields)
    if ids is None:
        return Unreadable(reason="the start of a query has no id")
    name = fields.get("name")
    missing = Unknown(reason="the start of a query in an event log does not say")
    return QueryStarted(
        at_ms=progress.parse_time_ms(fields.get("timestamp")),
        query_id=ids[0],
        run_id=ids[1],
        name=name if isinstance(name, str) else "",
        spark_version=missing,
        location=missing,
        sink=missing,
        output_mode=missing,
        sources=(),
        settings={},
        record=fields,
    )


def _decode_progress(event: Mapping[str, Json]) -> LogEvent | Unreadable:
    fields = json.as_mapping(event.get("progress"))
    ids, batch = _read_ids(fields), log.as_integer(fields.get("batchId"))
    if ids is None or batch is None:
        return Unreadable(reason="the progress of a query has no id or no batch")
    sources = progress.decode_sources(fields.get("sources"))
    rows = [source.rows for source in sources if isinstance(source.rows, int)]
    return QueryProgress(
        at_ms=progress.parse_time_ms(fields.get("timestamp")),
        query_id=ids[0],
        run_id=ids[1],
        batch=BatchId(batch),
        rows=sum(rows) if len(rows) == len(sources) else Unknown(reason="a source does not say"),
        sink=progress.decode_text(json.as_mapping(fields.get("sink")).get("description"), "sink"),
        sources=sources,
        operators=progress.decode_operators(fields.get("stateOperators")),
        durations_ms=progress.decode_numbers(fields.get("durationMs")),
        watermark=str(json.as_mapping(fields.get("eventTime")).get("watermark") or ""),
    )


def _decode_end(fields: Mapping[str, Json]) -> LogEvent | Unreadable:
    ids, error = _read_ids(fields), fields.get("exception")
    if ids is None:
        return Unreadable(reason="the end of a query has no id")
    return QueryTerminated(
        at_ms=Unknown(reason="an event log does not say when a query ended"),
        query_id=ids[0],
        run_id=ids[1],
        error=error if isinstance(error, str) else "",
    )


def _decode_planned_batch(fields: Mapping[str, Json]) -> LogEvent | None:
    """Return a batch with state, or None for anything else that Spark executes.

    A nested execution is skipped: it repeats the plan of the outer one, or is the user's own.
    """
    description, execution = fields.get("description"), fields.get("executionId")
    batch = _BATCH.search(description) if isinstance(description, str) else None
    if batch is None or fields.get("rootExecutionId", execution) != execution:
        return None
    plan = [
        (name, text, _find_location(text))
        for name, text in _list_nodes(fields.get("sparkPlanInfo"))
    ]
    nodes = [node for node in plan if node[2]]
    if not nodes:
        return None
    modes = [mode for name, text, _ in nodes if (mode := _find_mode(name, text))]
    return BatchPlanned(
        at_ms=progress.decode_integer(fields.get("time"), "time"),
        query_id=QueryId(batch[1]),
        run_id=RunId(batch[2]),
        batch=BatchId(int(batch[3])),
        location=nodes[0][2],
        output_mode=modes[0] if modes else Unknown(reason="no aggregate shows it"),
        operators=tuple(name for name, _, _ in nodes),
    )


def _find_location(node: str) -> str:
    """Return the checkpoint location in the text of a stateful operator; empty for any other."""
    state = node.partition("state info [ checkpoint = ")[2].partition(", runId = ")[0]
    return state.removesuffix("/state") if state.endswith("/state") else ""


def _find_mode(name: str, node: str) -> str:
    """Return the output mode in the text of an aggregate; empty for any other operator.

    The mode follows the state's number of partitions; in real-time mode it precedes the state.
    """
    if name == _SAVE:
        modes = _MODE.findall(node.rpartition("numPartitions = ")[2])[:1]
    else:
        modes = _MODE.findall(node.partition("state info [")[0])[-1:] if name == _STREAMLINE else []
    return str(modes[0]).lower() if modes else ""


def _list_nodes(plan: Json) -> Iterator[tuple[str, str]]:
    """Yield name and text of each node of a plan, without recursion, because plans may be deep."""
    waiting = [json.as_mapping(plan)]
    while waiting:
        node = waiting.pop()
        name, text, children = (node.get(key) for key in ("nodeName", "simpleString", "children"))
        if isinstance(name, str) and isinstance(text, str):
            yield name, text
        if isinstance(children, Sequence) and not isinstance(children, str):
            waiting.extend(json.as_mapping(child) for child in children)


_DECODERS = {
    "SparkListenerLogStart": _decode_application,
    "SparkListenerEnvironmentUpdate": _decode_settings,
    f"{_LISTENER}QueryStartedEvent": _decode_start,
    f"{_LISTENER}QueryProgressEvent": _decode_progress,
    f"{_LISTENER}QueryTerminatedEvent": _decode_end,
    _PLANNED: _decode_planned_batch,
}
