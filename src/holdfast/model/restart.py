"""What a restart of a query will do, predicted: its batch, range, state, sink and error.

A query is started in steps, and where it fails decides what is left behind:

    START        the logs and the sources are read           nothing of a batch is written
    PLANNING     `offsets/N` is written, the plan is checked  a new batch N is pinned to its range
    WRITING      state is loaded, rows go to the sink         the sink may hold a part
    COMMITTING   the sink has written, `commits/N` is not     the sink holds the batch
    AFTERWARDS   another thread writes the logs, later        the sink holds more batches than one
"""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.model.json import Json
from holdfast.model.source_offset import ConsumedRange
from holdfast.model.spark_version import SparkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """How the query will be started: which Spark, and with asynchronous progress tracking or not.

    `chosen` says where the version comes from. `continuous` is the trigger of that name.
    """

    spark: SparkVersion
    chosen: str
    asynchronous: bool = False
    continuous: bool = False


class Stage(StrEnum):
    """How far a start comes before it fails."""

    START = "start"
    PLANNING = "planning"
    WRITING = "writing"
    COMMITTING = "committing"
    AFTERWARDS = "afterwards"


class RunForecast(StrEnum):
    """Whether the predicted batch runs."""

    SURELY = "surely"
    IF_THERE_IS_DATA = "if there is data"
    UNKNOWN = "unknown"
    NOT = "not"


class SinkAction(StrEnum):
    """What the sink does with the batch."""

    WRITE = "write"
    SKIP = "skip"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartError:
    """The error that Spark raises: its condition where it has one, and the exception's class.

    `exceptions` are several where the damage itself decides, as in a file that is no JSON.
    `unless` is what nothing in a checkpoint can tell, and what would make the start succeed.
    """

    stage: Stage
    batch: BatchId | Unknown
    condition: str
    exceptions: tuple[str, ...]
    reason: str
    read_from: tuple[str, ...]
    unless: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRange:
    """What the batch reads of one source; the end of a new batch is for the source to decide.

    `or_kinds` are other sources whose offsets look the same. `positions` are where it begins, a
    partition each, as text; empty where that is the beginning of the source.
    """

    source: str
    kind: str
    or_kinds: tuple[str, ...]
    start: Json
    end: "Json | Unknown"
    consumed: ConsumedRange | Unknown
    positions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLoad:
    """Which version of its state an operator loads, and which stores cannot give it.

    `ended` is the version that all its stores end at, where the batches went on without them and
    nothing names the operator; otherwise 0. An operator that has `never_written` has a schema
    and no state of any version.
    """

    operator: int
    version: int
    missing: tuple[str, ...]
    ended: int = 0
    never_written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAnswer:
    """What one sink will do, and why."""

    table: str
    act: SinkAction
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What the next start does. `later` are errors of batches after the predicted one.

    `otherwise` is what it does if something is not so that was inferred, and that nothing tells.
    """

    starting: StartOptions
    batch: BatchId | Unknown
    rerun: bool
    runs: RunForecast
    ranges: tuple[SourceRange, ...]
    watermark_ms: int | Unknown
    state: tuple[StateLoad, ...]
    sinks: tuple[SinkAnswer, ...]
    error: StartError | None
    later: tuple[StartError, ...]
    otherwise: "AlternativeRestart | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeRestart:
    """The other reading of a checkpoint: what would have to be so, and what a start does then."""

    condition: str
    restart: Restart
