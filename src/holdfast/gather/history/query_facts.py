"""What events say of a query, put together. Without a record or an event log it stays empty.

Apart from `history.py`, which puts it together, so that nothing of events is loaded where there
are none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.model.evidence import Start
from holdfast.model.fact import Known, Unknown
from holdfast.model.fingerprint import NOT_RECORDED, Fingerprint
from holdfast.model.ids import BatchId, QueryId, RunId
from holdfast.model.json import Json

NO_END = Unknown(reason="no end was told")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOutput:
    """An output that a record names."""

    kind: str
    name: str
    path: str
    server: str = ""
    schema: str = ""


@dataclass(slots=True)
class History:
    """What is known of the runs of one query."""

    query_id: Known[QueryId] | None = None
    spark_version: Known[str] | None = None
    sink: Known[str] | None = None
    output_mode: Known[str] | None = None
    job: str = ""
    generation: int = 1
    writes: tuple[RecordedOutput, ...] = ()
    sources: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    rows: dict[BatchId, int] = field(default_factory=dict)
    progress_operators: Known[tuple[str, ...]] | None = None
    """The stateful operators that the newest progress names, in an order of its own."""
    state_rows: dict[str, int] = field(default_factory=dict)
    state_batches: tuple[BatchId, ...] = ()
    """The batch that `state_rows` are of; two where it is the one of them that is committed."""
    starts: dict[RunId, Start] = field(default_factory=dict)
    plans: dict[RunId, Known[Fingerprint]] = field(default_factory=dict)
    ends: dict[BatchId, Known[tuple[Json, ...]]] = field(default_factory=dict)
    """Where each batch with rows ended, a source each."""
    log_silent: str = ""
    """Why the event log that was given tells nothing of the query; empty where it does."""
    log_left_out: str = ""
    """What of the event log that was given was not read; empty where all was."""

    def add(self, later: "History") -> None:
        """Lay what a later run tells over it, or what is better told of the same run."""
        self.query_id = later.query_id or self.query_id
        self.spark_version = later.spark_version or self.spark_version
        self.sink = later.sink or self.sink
        self.output_mode = later.output_mode or self.output_mode
        if later.job or later.writes:
            self.job, self.generation, self.writes = later.job, later.generation, later.writes
        self.sources = later.sources or self.sources
        self.operators = later.operators or self.operators
        self.progress_operators = later.progress_operators or self.progress_operators
        for batch, rows in later.rows.items():
            self.counted(batch, rows)
        if later.state_batches:
            self.state_rows, self.state_batches = later.state_rows, later.state_batches
        for run, start in later.starts.items():
            self.note_start(run, start)
        self.plans |= later.plans
        self.ends |= later.ends

    def counted(self, batch: BatchId, rows: int) -> None:
        """Note the rows of a batch.

        A batch without data reports again under the id of the one that comes next. After a rewind a
        batch runs again with other rows, and the later run counts.
        """
        if rows > 0 or batch not in self.rows:
            self.rows[batch] = rows

    def note_start(self, run: RunId, start: Start) -> None:
        """Note the start of a run, together with what another record says of the same run."""
        self.starts[run] = _merge_starts(self.starts[run], start) if run in self.starts else start

    def rows_after(self, batch: BatchId | None) -> Mapping[str, int]:
        """The rows of the state after a batch, by operator; none where it is not told of."""
        return self.state_rows if batch in self.state_batches else {}

    @property
    def plan(self) -> Known[Fingerprint] | Unknown:
        """The query of the newest run that ran a batch, or may have.

        One that ended without a batch has changed nothing.
        """
        for run in reversed(self.plans):
            start = self.starts[run]
            if start.first_batch is not None or isinstance(start.ended_ms, Unknown):
                return self.plans[run]
        return NOT_RECORDED


def _merge_starts(start: Start, later: Start) -> Start:
    """What two tell of the start and the end of one run."""
    unended = isinstance(later.ended_ms, Unknown) and not later.error
    return replace(
        start if isinstance(later.at_ms, Unknown) else later,
        first_batch=later.first_batch if start.first_batch is None else start.first_batch,
        ended_ms=start.ended_ms if unended else later.ended_ms,
        error=later.error or start.error,
        spark_version=later.spark_version or start.spark_version,
    )
