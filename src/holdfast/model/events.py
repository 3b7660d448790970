"""What happened to a query: its starts, batches and ends, from run records or an event log."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, QueryId, RunId
from holdfast.model.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryStarted:
    """One start of a query. Only run records know where its checkpoint is and what it writes to."""

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
    """Everything that was recorded, as it was; for holdfast's own records: job, host, code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProgress:
    """What one source gave to a batch."""

    description: str
    start: Json
    end: Json
    rows: int | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProgress:
    """The state of one operator after a batch, with all numbers that were reported."""

    name: str
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProgress:
    """One batch of a run, or one look for data that found none."""

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
    """The end of a run; an empty error is a stop without one."""

    at_ms: int | Unknown
    query_id: QueryId | Unknown
    run_id: RunId
    error: str


QueryEvent = QueryStarted | QueryProgress | QueryTerminated


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationStarted:
    """A Spark application, as the head of its event log tells."""

    spark_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationSettings:
    """The settings that an application was started with."""

    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlanned:
    """What the plan of a run's first stateful batch shows: checkpoint, output mode, operators.

    The output mode is unknown for a query without an aggregate. Stateless queries show nothing.
    """

    at_ms: int | Unknown
    query_id: QueryId
    run_id: RunId
    batch: BatchId
    location: str
    output_mode: str | Unknown
    operators: tuple[str, ...]


LogEvent = QueryEvent | ApplicationStarted | ApplicationSettings | BatchPlanned
