"""Stage 1: what Spark reports of a batch -> SourceProgress, OperatorProgress.

Run records and event logs both keep these parts of Spark's own progress report:

    "sources":[{"description":"FileStreamSource[file:/in]","startOffset":null,
                "endOffset":{"logOffset":0},"numInputRows":2}]
    "stateOperators":[{"operatorName":"stateStoreSave","numRowsTotal":2,…}]

An event log has each offset as a text with JSON in it.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.events import OperatorProgress, SourceProgress
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.json import Json, sequence

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def sources(value: Json) -> tuple[SourceProgress, ...]:
    """What each source gave to the batch."""
    return tuple(_source(json.mapping(one)) for one in sequence(value))


def operators(value: Json) -> tuple[OperatorProgress, ...]:
    """The state of each operator after the batch."""
    return tuple(_operator(json.mapping(one)) for one in sequence(value))


def numbers(value: Json) -> Mapping[str, int]:
    """The whole numbers among an object's members."""
    found = ((key, log.integer(one)) for key, one in json.mapping(value).items())
    return {key: number for key, number in found if number is not None}


def whole(value: Json, name: str) -> int | Unknown:
    """A whole number, or that it is not there."""
    found = log.integer(value)
    return Unknown(reason=f"there is no {name}") if found is None else found


def words(value: Json, name: str) -> str | Unknown:
    """A text that is not empty, or that it is not there."""
    return value if isinstance(value, str) and value else Unknown(reason=f"there is no {name}")


def time_ms(value: Json) -> int | Unknown:
    """A time as Spark writes it, `2026-01-01T00:00:00.000Z`, in milliseconds."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        return Unknown(reason="there is no time")
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _source(found: Mapping[str, Json]) -> SourceProgress:
    return SourceProgress(
        description=str(found.get("description") or ""),
        start=_offset(found.get("startOffset")),
        end=_offset(found.get("endOffset")),
        rows=whole(found.get("numInputRows"), "number of rows"),
    )


def _offset(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    inner = log.value(value)
    return value if isinstance(inner, Unreadable) else inner


def _operator(found: Mapping[str, Json]) -> OperatorProgress:
    return OperatorProgress(name=str(found.get("operatorName") or ""), numbers=numbers(dict(found)))
