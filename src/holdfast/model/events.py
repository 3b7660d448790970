"""The starts, batches and ends of a query, from run records or an event log."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, QueryId, RunId
from holdfast.model.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStarted:
    """One start of a query. Only run records have its checkpoint location and its sink."""

    at_ms: int | Unknown
    query_id: QueryId
    run_id: RunId
    name: str
    spark_version: str | Unknown
    location: str | Unknown
    sink: str | Unknown
    output_mode: str | Unknown
    sources: tuple[str, ...]
    settings: Mapping[str, str]
    record: Mapping[str, Json]
    """The whole record, unchanged; holdfast's own records also have job, host and code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """What a batch read from one source."""

    description: str
    start: Json
    end: Json
    rows: int | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProgress:
    """The state of one operator after a batch, with every number that Spark reported."""

    name: str
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """One batch of a run, or one trigger that found no data."""

    at_ms: int | Unknown
    query_id: QueryId | Unknown
    run_id: RunId
    batch: BatchId
    rows: int | Unknown
    sink: str | Unknown
    sources: tuple[SourceProgress, ...]
    operators: tuple[OperatorProgress, ...]
    durations_ms: Mapping[str, int]
    watermark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryTerminated:
    """The end of a run; the error is empty if the run stopped without one."""

    at_ms: int | Unknown
    query_id: QueryId | Unknown
    run_id: RunId
    error: str


QueryEvent = QueryStarted | QueryProgress | QueryTerminated


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStarted:
    """A Spark application, from the head of its event log."""

    spark_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSettings:
    """The settings of a Spark application at its start."""

    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlanned:
    """Checkpoint, output mode and operators, from the plan of a run's first stateful batch.

    The output mode is unknown for a query without an aggregation. A stateless query has no such
    event.
    """

    at_ms: int | Unknown
    query_id: QueryId
    run_id: RunId
    batch: BatchId
    location: str
    output_mode: str | Unknown
    operators: tuple[str, ...]


LogEvent = QueryEvent | ApplicationStarted | ApplicationSettings | BatchPlanned
