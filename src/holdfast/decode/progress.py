"""Spark's report of a batch -> SourceProgress, OperatorProgress.

Run records and event logs both contain these parts of Spark's own progress report:

    "sources":[{"description":"FileStreamSource[file:/in]","startOffset":null,
                "endOffset":{"logOffset":0},"numInputRows":2}]
    "stateOperators":[{"operatorName":"stateStoreSave","numRowsTotal":2,…}]

In an event log, each offset is a text that contains JSON.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.events import OperatorProgress, SourceProgress
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.json import Json, as_sequence

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def decode_sources(value: Json) -> tuple[SourceProgress, ...]:
    """Return what each source contributed to the batch."""
    return tuple(_decode_source(json.as_mapping(source)) for source in as_sequence(value))


def decode_operators(value: Json) -> tuple[OperatorProgress, ...]:
    """Return the state of each operator after the batch."""
    return tuple(_decode_operator(json.as_mapping(operator)) for operator in as_sequence(value))


def decode_numbers(value: Json) -> Mapping[str, int]:
    """Return the whole numbers among an object's members."""
    numbers = ((key, log.as_integer(member)) for key, member in json.as_mapping(value).items())
    return {key: number for key, number in numbers if number is not None}


def decode_integer(value: Json, name: str) -> int | Unknown:
    """Return a whole number, or Unknown if it is missing."""
    number = log.as_integer(value)
    return Unknown(reason=f"there is no {name}") if number is None else number


def decode_text(value: Json, name: str) -> str | Unknown:
    """Return a text, or Unknown if it is missing or empty."""
    return value if isinstance(value, str) and value else Unknown(reason=f"there is no {name}")


def parse_time_ms(value: Json) -> int | Unknown:
    """Return a time in Spark's format, `2026-01-01T00:00:00.000Z`, in milliseconds."""
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        at = None
    if at is None or at.tzinfo is None:
        return Unknown(reason="there is no time")
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _decode_source(fields: Mapping[str, Json]) -> SourceProgress:
    return SourceProgress(
        description=str(fields.get("description") or ""),
        start=_decode_offset(fields.get("startOffset")),
        end=_decode_offset(fields.get("endOffset")),
        rows=decode_integer(fields.get("numInputRows"), "number of rows"),
    )


def _decode_offset(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    inner = log.parse_json(value)
    return value if isinstance(inner, Unreadable) else inner


def _decode_operator(fields: Mapping[str, Json]) -> OperatorProgress:
    return OperatorProgress(
        name=str(fields.get("operatorName") or ""), numbers=decode_numbers(dict(fields))
    )
