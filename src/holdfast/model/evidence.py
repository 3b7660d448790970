"""Everything that was read from a checkpoint: the nine facts, and the details behind them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

from holdfast.model.checkpoint import CommitEntry, FileKind
from holdfast.model.fact import Absent, Fact, Known, Unknown, UnreadableFile
from holdfast.model.fingerprint import NOT_RECORDED, Fingerprint
from holdfast.model.ids import BatchId, QueryId, RunId, Span
from holdfast.model.json import Json
from holdfast.model.lease import Lease
from holdfast.model.offsets import OffsetEntry
from holdfast.model.source_offset import ConsumedRange, Offset
from holdfast.model.spark_version import Runtime, VersionRange
from holdfast.model.state import MisplacedPartition, OperatorEvidence
from holdfast.model.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches:
    """The batches in the two logs; None if a log is empty or cannot be listed.

    `pending` are the batches after the last committed one that are planned and not committed. Spark
    re-runs only the last of them. `unlisted` are the logs that cannot be listed: nothing is known
    about their batches. Spark 2.1 has `no_commit_log`: a batch is done when the next batch is
    planned, and only the last one is pending. In `continuous` mode the batches are epochs: their
    entries have their end offsets, and Spark starts again at the last committed epoch.
    """

    first: BatchId | None
    last_planned: BatchId | None
    last_committed: BatchId | None
    pending: tuple[BatchId, ...]
    offset_spans: tuple[Span, ...]
    commit_spans: tuple[Span, ...]
    unlisted: tuple[UnreadableFile, ...] = ()
    no_commit_log: bool = False
    continuous: bool = False

    def unlisted_log(self, name: str) -> UnreadableFile | None:
        """Return the log with this name if it cannot be listed."""
        return next((log for log in self.unlisted if log.path == name), None)

    @property
    def lacks_commits(self) -> bool:
        """Return whether the commit log is empty although batches are done.

        Spark plans a batch only after it has committed the previous one, except in continuous mode
        and in Spark 2.1.
        """
        later = self.last_planned is not None and self.last_planned > 0
        known = not (self.unlisted or self.no_commit_log or self.continuous)
        return known and later and self.last_committed is None

    @property
    def missing_offsets(self) -> tuple[Span, ...]:
        """Return the batches that are missing inside the offset log."""
        return tuple(_find_gaps(self.offset_spans))

    @property
    def missing_commits(self) -> tuple[Span, ...]:
        """Return the batches that are missing inside the commit log or at its beginning.

        Spark purges an offset entry no later than its commit. So a commit log that begins after the
        offset log lacks commits.
        """
        gaps = list(_find_gaps(self.commit_spans))
        if self.offset_spans and self.commit_spans:
            planned, committed = self.offset_spans[0].first, self.commit_spans[0].first
            if planned < committed:
                last = min(committed - 1, self.offset_spans[-1].last)
                gaps.insert(0, Span(first=planned, last=last))
        return tuple(gaps)


def _find_gaps(spans: tuple[Span, ...]) -> Iterator[Span]:
    for before, after in pairwise(spans):
        yield Span(first=before.last + 1, last=after.first - 1)


class BatchStatus(StrEnum):
    """The status of a planned batch.

    Spark never re-runs a batch without a commit if a later batch is committed.
    """

    YES = "committed"
    NO = "pending"
    MISSING = "no commit"
    UNLOGGED = "done"
    COMMIT_UNREADABLE = "commit unreadable"
    OFFSETS_UNREADABLE = "offsets unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBatch:
    """One batch of the timeline, with its times and rows as far as they are known.

    `rows` is Spark's own count. `records` is the distance between the offsets of the sources, in
    `unit`: for most sources an upper bound of the rows, for some a different quantity.
    """

    batch: BatchId
    planned_ms: int | Unknown
    committed_ms: int | Unknown
    rows: int | Unknown
    records: int | Unknown
    unit: str
    watermark_ms: int | Unknown
    standing: BatchStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceEvidence:
    """One source: its offset, and what was consumed between the ends of two batches.

    `batch` is the last batch of the range, `after` the batch before the range. `other_kinds` are
    kinds of sources that write offsets of the same shape, if nothing decides between them. For an
    `open_ended` source, `offset` and `raw` are the start of the batch, and `left_at` is its end, if
    that is known. `files_more` is the number of known files of the range that are not in `files`;
    `log_offsets_unread` is the number of log offsets whose files are not all known.

    A plan may read the same source in several places, with an offset for each: `same_as` is then
    the first of them. `folder` is the source's own folder below `sources`, and `number` is its
    position in Spark's progress reports.
    """

    name: str
    batch: BatchId
    after: BatchId | None
    kind: str
    other_kinds: tuple[str, ...]
    described: str
    offset: Offset
    raw: Json
    began: Json
    consumed: ConsumedRange
    files: tuple[str, ...]
    read_from: tuple[str, ...]
    files_more: int = 0
    log_offsets_unread: int = 0
    open_ended: bool = False
    left_at: "Json | Unknown" = None
    folder: str | Unknown
    number: int | Unknown
    same_as: "SameSource | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SameSource:
    """The first offset of a source that has several, and what this was inferred from.

    `by_folders`: inferred because there is no second folder, although that may have been deleted.
    """

    name: str
    inferred: str
    by_folders: bool


class SourceFolderKind(StrEnum):
    """The kind of source that wrote a folder below `sources`, by the folder's contents."""

    FILES = "files"
    KAFKA = "Kafka"
    RATE = "rate"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLog:
    """The folder of one source as a log of files; `damaged` are files that cannot be read.

    Only the entries that a start reads are read: the last compacted entry and those after it.
    `partly_read` are files that were read only at their end. `folder_kind` comes from the contents
    of the folder, not from the offsets of the source.
    """

    is_file_log: bool
    entries: tuple[Span, ...]
    compacts: tuple[Span, ...]
    damaged: tuple[UnreadableFile, ...]
    partly_read: tuple[str, ...] = ()
    folder_kind: SourceFolderKind = SourceFolderKind.UNKNOWN


class RestartSign(StrEnum):
    """The evidence for a start of the query."""

    RECORDED = "run record"
    EVENT_LOG = "event log"
    SETTINGS_CHANGED = "settings changed"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start of the query, or a sign of a start; `note` describes the sign."""

    sign: RestartSign
    at_ms: int | Unknown
    run_id: RunId | None
    first_batch: BatchId | None
    ended_ms: int | Unknown
    error: str
    spark_version: str
    note: str
    read_from: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """A number of files and their total size in bytes."""

    count: int
    bytes: int


NO_BATCH = "the table has no batch of this query"
"""Why a table that exists has no ledger of the query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEvidence:
    """What a sink remembers of the query: the last batch that it received.

    `ranges`: the sink also remembers the offsets, as the sinks of holdfast do. Such a sink skips a
    batch id that it already has only if the offsets are the same, and otherwise refuses the batch.
    `offsets` are the ranges of the last batch.
    """

    table: str
    key: str
    batch: BatchId | Absent | Unknown
    note: str
    ranges: bool = False
    offsets: "Json | Unknown" = field(
        default=Unknown(reason="the sink has no offsets"), compare=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The nine facts of a checkpoint, and everything that was read to find them."""

    location: Known[str]
    query_id: Fact[QueryId]
    source_offsets: Fact[Mapping[str, Offset]]
    sink: Fact[str]
    output_mode: Fact[str]
    stateful_operators: Fact[tuple[str, ...]]
    state_store_provider: Fact[str]
    spark_version: Fact[str]
    restart_history: Fact[tuple[Start, ...]]
    batches: Batches
    timeline: tuple[TimelineBatch, ...]
    settings: Mapping[str, str]
    spark_versions: VersionRange | Runtime | Unknown
    sources: tuple[SourceEvidence, ...]
    operators: tuple[OperatorEvidence, ...]
    ledgers: tuple[LedgerEvidence, ...]
    lease: Lease | None
    files: Mapping[FileKind, Amount]
    foreign: tuple[str, ...]
    nested: tuple[str, ...]
    unreadable: tuple[UnreadableFile, ...]
    unreadable_more: int
    observed_ms: int
    changed_ms: int
    """When the newest file of the checkpoint was written."""
    offset_entries: Mapping[BatchId, OffsetEntry]
    """The newest entries of the offset log."""
    commit_entries: Mapping[BatchId, CommitEntry]
    source_logs: Mapping[str, SourceLog]
    nonempty_folders: frozenset[str]
    """Those of `offsets`, `commits` and `state` that contain anything, even a stray file."""
    leftover_checksums: tuple[str, ...]
    """Missing files whose hidden checksum still exists: Spark cannot write them again."""
    plan: Known[Fingerprint] | Unknown = NOT_RECORDED
    """The query that last ran a batch, from its run record."""
    recorded_ends: Mapping[BatchId, Known[tuple[Json, ...]]] = field(default_factory=dict)
    """The end offsets of batches, one per source, from run records and event logs."""
    driver_died: bool = False
    """Whether the process with the lease is known to have ended; only its own host knows."""
    stateless: bool = False
    """Whether a run record or an event log shows that the query has no state."""
    misplaced: tuple[MisplacedPartition, ...] = ()
    """Folders with state files at a level where Spark does not look for them."""
    empty_state: bool = False
    """Whether the folder `state` exists and is empty: Spark creates it only for state."""

    @property
    def driver_runs(self) -> bool:
        """Return whether the driver that has the lease may still run."""
        leased = self.lease is not None and not self.lease.is_expired(self.observed_ms)
        return leased and not self.driver_died


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDetail:
    """What one batch or a range of batches consumed; `after` is the batch before the range."""

    after: BatchId | None
    batch: BatchId
    sources: tuple[SourceEvidence, ...]
    settings_changed: Mapping[str, tuple[str, str]]
    standing: BatchStatus
    unreadable: tuple[UnreadableFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """The summary of one checkpoint in a folder."""

    location: str
    query_id: Fact[QueryId]
    batches: Batches
    changed_ms: int
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The checkpoints in a folder; an `unreadable` subfolder may contain more of them."""

    rows: tuple[CheckpointRow, ...]
    unreadable: tuple[UnreadableFile, ...]
