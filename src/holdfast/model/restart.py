"""The prediction of a restart: its batch, range, state, sink and error.

A query starts in stages. The stage that fails decides what remains:

    START        Spark reads the logs and the sources         nothing of a batch is written
    PLANNING     Spark writes `offsets/N`, checks the plan    a new batch N is pinned to its range
    WRITING      Spark loads state, writes rows to the sink   the sink may have a part of the batch
    COMMITTING   the sink is done, `commits/N` is missing     the sink has the batch
    AFTERWARDS   another thread writes the logs later         the sink has more than one batch
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
    """How the query will start: the Spark version, and asynchronous progress tracking.

    `chosen_because` says where the version comes from. `continuous` is the trigger of that name.
    """

    spark: SparkVersion
    chosen_because: str
    asynchronous: bool = False
    continuous: bool = False


class Stage(StrEnum):
    """The stage of a start that fails."""

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
    """The error that Spark raises: its condition, if it has one, and the class of the exception.

    `exceptions` has several classes if the exact damage decides, as in a file that is not JSON.
    `unless` is a circumstance that the checkpoint does not show and that makes the start succeed.
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
    """What the batch reads from one source; the source decides where a new batch ends.

    `other_kinds` are other kinds of sources whose offsets look the same. `positions` are the start
    positions, one per partition, as text; empty at the beginning of the source.
    """

    source: str
    kind: str
    other_kinds: tuple[str, ...]
    start: Json
    end: "Json | Unknown"
    consumed: ConsumedRange | Unknown
    positions: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLoad:
    """The version of the state that an operator loads, and the stores that cannot provide it.

    `ended` is the last version of all its stores, if later batches ran without them and nothing
    names the operator; otherwise 0. An operator that has `never_written` has a schema and no state
    of any version.
    """

    operator: int
    version: int
    missing: tuple[str, ...]
    ended: int = 0
    never_written: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkAnswer:
    """What one sink will do with the batch, and why."""

    table: str
    act: SinkAction
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What the next start does. `later` are errors of batches after the predicted one.

    `alternative` is what it does if an inference about the checkpoint is wrong.
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
    alternative: "AlternativeRestart | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternativeRestart:
    """The restart under a different reading of the checkpoint, and the condition for it."""

    condition: str
    restart: Restart
