"""What a user declares: sources, outputs, triggers and jobs, as frozen values.

A definition carries the file and line where it was declared, so that an error can point there.
Nothing here runs; `holdfast.sources` and `holdfast.sinks` make these values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from holdfast.model.ids import JobName, OutputName


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclarationSite:
    """The file and line of the user's code that made a definition."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """A landing directory; files are moved into it and never changed."""

    path: str
    format: str
    schema: str | None
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """Topics of a Kafka cluster."""

    servers: str
    topics: tuple[str, ...]
    starting: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaTable:
    """A Delta table, read as a stream of its commits."""

    path: str
    options: Mapping[str, str]


DeclaredSource = Files | Kafka | DeltaTable


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaAppend:
    """Append every row to a Delta table, each batch in one commit with its ledger."""

    path: str
    partition_by: tuple[str, ...]
    evolve: bool
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaMerge:
    """Upsert by key into a Delta table; with `newest`, an older row never replaces a newer one."""

    path: str
    keys: tuple[str, ...]
    newest: str | None
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresAppend:
    """Append every row to a PostgreSQL table, each batch in one transaction with its ledger.

    `password` names the place of the password; the definition never contains the password itself.
    """

    connection: str
    password: str | None
    schema: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresUpsert:
    """Upsert by key into a PostgreSQL table; with `newest`, an older row replaces no newer one.

    A row whose column `deleted` is true deletes the row with its key from the table.
    """

    connection: str
    password: str | None
    schema: str
    table: str
    keys: tuple[str, ...]
    newest: str | None
    deleted: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcAppend:
    """Append every row to a table of MariaDB or PostgreSQL with JDBC, with a ledger beside it."""

    url: str
    user: str | None
    password: str | None
    schema: str | None
    table: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcUpsert:
    """Upsert by key into a table with JDBC; with `newest`, an older row replaces no newer one."""

    url: str
    user: str | None
    password: str | None
    schema: str | None
    table: str
    options: Mapping[str, str]
    keys: tuple[str, ...]
    newest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSink:
    """Spark's own file sink; its `_spark_metadata` ensures that each batch id counts only once."""

    path: str
    format: str
    partition_by: tuple[str, ...]
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeachBatch:
    """The user's own function for a batch: unproven until it is audited."""

    function: Callable[..., object]


DeltaSink = DeltaAppend | DeltaMerge
PostgresSink = PostgresAppend | PostgresUpsert
JdbcTable = JdbcAppend | JdbcUpsert
DatabaseSink = PostgresSink | JdbcTable
DeclaredLedgerSink = DeltaSink | DatabaseSink
DeclaredSink = DeclaredLedgerSink | FileSink | ForeachBatch


class SinkKind(StrEnum):
    """The kinds of sinks, as run records name them."""

    DELTA_APPEND = "DeltaAppend"
    DELTA_MERGE = "DeltaMerge"
    POSTGRES_APPEND = "PostgresAppend"
    POSTGRES_UPSERT = "PostgresUpsert"
    JDBC_APPEND = "JdbcAppend"
    JDBC_UPSERT = "JdbcUpsert"
    FILES = "FileSink"
    FUNCTION = "ForeachBatch"


def find_kind(sink: DeclaredSink) -> SinkKind:  # noqa: C901, PLR0911  one per sink
    """Return the kind of a sink."""
    match sink:
        case DeltaAppend():
            return SinkKind.DELTA_APPEND
        case DeltaMerge():
            return SinkKind.DELTA_MERGE
        case PostgresAppend():
            return SinkKind.POSTGRES_APPEND
        case PostgresUpsert():
            return SinkKind.POSTGRES_UPSERT
        case JdbcAppend():
            return SinkKind.JDBC_APPEND
        case JdbcUpsert():
            return SinkKind.JDBC_UPSERT
        case FileSink():
            return SinkKind.FILES
        case ForeachBatch():
            return SinkKind.FUNCTION


def find_path(sink: DeclaredSink) -> str:
    """Return the path that a sink writes to; empty if it writes to none."""
    match sink:
        case DeltaAppend() | DeltaMerge() | FileSink():
            return sink.path
        case PostgresAppend() | PostgresUpsert() | JdbcAppend() | JdbcUpsert() | ForeachBatch():
            return ""


def find_target(sink: DeclaredSink) -> str:
    """Return the path or the table of a sink; a user's own function has neither."""
    match sink:
        case PostgresAppend() | PostgresUpsert() | JdbcAppend() | JdbcUpsert():
            return f"{sink.schema}.{sink.table}" if sink.schema else sink.table
        case DeltaAppend() | DeltaMerge() | FileSink() | ForeachBatch():
            return find_path(sink)


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One output of a job: a sink, and the function that selects the rows for it."""

    name: OutputName
    sink: DeclaredSink
    select: Callable[..., object] | None


class OutputMode(StrEnum):
    """Spark's output modes."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuously:
    """Start a batch as soon as the previous one is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Every:
    """Start a batch at a fixed interval in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailableNow:
    """Process the data that is available now, then stop."""


Trigger = Continuously | Every | AvailableNow


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One streaming query with its name, its sources, its function and its outputs."""

    name: JobName
    function: Callable[..., object]
    reads: tuple[DeclaredSource, ...]
    writes: tuple[Output, ...]
    trigger: Trigger
    output_mode: OutputMode
    settings: Mapping[str, str]
    declared_at: DeclarationSite

    @property
    def is_proven(self) -> bool:
        """Return whether no output is a user's own function: all others write exactly once."""
        return not any(isinstance(output.sink, ForeachBatch) for output in self.writes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """A pipeline as it was declared: its jobs and the base of their checkpoints."""

    name: str
    checkpoints: str | None
    settings: Mapping[str, str]
    storage: Mapping[str, str]
    jobs: tuple[Job, ...]
