"""A segment of holdfast's run records -> the events of the query.

    .holdfast/<job>/runs/<started ms>-<run id>/000000.jsonl

    {"event":"started","at_ms":…,"query_id":…,"run_id":…,"name":…,"spark_version":…,"sink":…,
     "output_mode":…,"location":…,"sources":[…],"configuration":{…},…}
    {"event":"progress","at_ms":…,"batch":0,"rows":2,"duration_ms":{…},"sources":[…],"state":[…]}
    {"event":"terminated","at_ms":…,"error":null}

Only the first line of the first segment has the run id, so the run id is taken from the name of the
folder.
"""

from collections.abc import Mapping

from holdfast.decode import log, progress
from holdfast.model.events import QueryEvent, QueryProgress, QueryStarted, QueryTerminated
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.ids import BatchId, QueryId, RunId
from holdfast.model.json import Json, as_sequence


def decode(data: bytes, run_id: RunId) -> tuple[QueryEvent | Unreadable, ...]:
    """Return the events of a segment in order; the run id is in the name of its folder."""
    return tuple(_decode_event(line, run_id) for line in data.split(b"\n") if line.strip())


def _decode_event(line: bytes, run_id: RunId) -> QueryEvent | Unreadable:
    text = log.decode_text(line)
    if isinstance(text, Unreadable):
        return text
    fields = log.parse_object(text)
    if isinstance(fields, Unreadable):
        return fields
    match fields.get("event"):
        case "started":
            return _decode_start(fields, run_id)
        case "progress":
            return _decode_progress(fields, run_id)
        case "terminated":
            return _decode_end(fields, run_id)
        case _:
            return Unreadable(reason=f"`{log.shorten(text)}` is no record of a run")


def _decode_start(fields: Mapping[str, Json], run_id: RunId) -> QueryStarted | Unreadable:
    query_id, name, sources = (fields.get(key) for key in ("query_id", "name", "sources"))
    if not isinstance(query_id, str):
        return Unreadable(reason="the start of a run has no query id")
    return QueryStarted(
        at_ms=progress.decode_integer(fields.get("at_ms"), "time"),
        query_id=QueryId(query_id),
        run_id=run_id,
        name=name if isinstance(name, str) else "",
        spark_version=progress.decode_text(fields.get("spark_version"), "version of Spark"),
        location=progress.decode_text(fields.get("location"), "location"),
        sink=progress.decode_text(fields.get("sink"), "sink"),
        output_mode=progress.decode_text(fields.get("output_mode"), "output mode"),
        sources=tuple(source for source in as_sequence(sources) if isinstance(source, str)),
        settings=log.as_texts(fields.get("configuration")),
        record=fields,
    )


def _decode_progress(fields: Mapping[str, Json], run_id: RunId) -> QueryProgress | Unreadable:
    batch, watermark = log.as_integer(fields.get("batch")), fields.get("watermark")
    if batch is None:
        return Unreadable(reason="the progress of a run has no batch")
    return QueryProgress(
        at_ms=progress.decode_integer(fields.get("at_ms"), "time"),
        query_id=Unknown(reason="the start of the run says it"),
        run_id=run_id,
        batch=BatchId(batch),
        rows=progress.decode_integer(fields.get("rows"), "number of rows"),
        sink=Unknown(reason="the start of the run says it"),
        sources=progress.decode_sources(fields.get("sources")),
        operators=progress.decode_operators(fields.get("state")),
        durations_ms=progress.decode_numbers(fields.get("duration_ms")),
        watermark=watermark if isinstance(watermark, str) else "",
    )


def _decode_end(fields: Mapping[str, Json], run_id: RunId) -> QueryTerminated:
    error = fields.get("error")
    return QueryTerminated(
        at_ms=progress.decode_integer(fields.get("at_ms"), "time"),
        query_id=Unknown(reason="the start of the run says it"),
        run_id=run_id,
        error=error if isinstance(error, str) else "",
    )
