"""What the events of a query say, in one place; empty without run records and event logs.

`events.py` fills it. It has its own file so that code for events is loaded only if there are any.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from holdfast.model.evidence import Start
from holdfast.model.fact import Known, Unknown
from holdfast.model.fingerprint import NOT_RECORDED, Fingerprint
from holdfast.model.ids import BatchId, QueryId, RunId
from holdfast.model.json import Json

NO_END = Unknown(reason="no end is recorded")


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
    """What is known about the runs of one query."""

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
    """The stateful operators in the newest progress report, in no defined order."""
    state_rows: dict[str, int] = field(default_factory=dict)
    state_batches: tuple[BatchId, ...] = ()
    """The batch that `state_rows` belong to; if there are two, it is the committed one."""
    starts: dict[RunId, Start] = field(default_factory=dict)
    plans: dict[RunId, Known[Fingerprint]] = field(default_factory=dict)
    ends: dict[BatchId, Known[tuple[Json, ...]]] = field(default_factory=dict)
    """The end offset of each batch with rows, one per source."""
    log_silent: str = ""
    """Why the given event log says nothing about the query; empty if it does."""
    log_left_out: str = ""
    """Which part of the given event log was not read; empty if all was."""

    def add(self, later: "History") -> None:
        """Add what a later run says, or what a better source says about the same run."""
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
            self.note_rows(batch, rows)
        if later.state_batches:
            self.state_rows, self.state_batches = later.state_rows, later.state_batches
        for run, start in later.starts.items():
            self.note_start(run, start)
        self.plans |= later.plans
        self.ends |= later.ends

    def note_rows(self, batch: BatchId, rows: int) -> None:
        """Note the rows of a batch.

        A batch without data reports under the id of the next batch, which reports again later.
        After a rewind a batch runs again with different rows, and the later run counts.
        """
        if rows > 0 or batch not in self.rows:
            self.rows[batch] = rows

    def note_start(self, run: RunId, start: Start) -> None:
        """Note the start of a run, together with what other events say about the same run."""
        self.starts[run] = _merge_starts(self.starts[run], start) if run in self.starts else start

    def find_rows_after(self, batch: BatchId | None) -> Mapping[str, int]:
        """Return the rows of the state after a batch, by operator; empty if not reported."""
        return self.state_rows if batch in self.state_batches else {}

    @property
    def plan(self) -> Known[Fingerprint] | Unknown:
        """The query of the newest run that ran a batch, or may have run one.

        A run that ended without a batch changed nothing.
        """
        for run in reversed(self.plans):
            start = self.starts[run]
            if start.first_batch is not None or isinstance(start.ended_ms, Unknown):
                return self.plans[run]
        return NOT_RECORDED


def _merge_starts(start: Start, later: Start) -> Start:
    """Return what two sources say about the start and the end of one run."""
    has_no_end = isinstance(later.ended_ms, Unknown) and not later.error
    return replace(
        start if isinstance(later.at_ms, Unknown) else later,
        first_batch=later.first_batch if start.first_batch is None else start.first_batch,
        ended_ms=start.ended_ms if has_no_end else later.ended_ms,
        error=later.error or start.error,
        spark_version=later.spark_version or start.spark_version,
    )
