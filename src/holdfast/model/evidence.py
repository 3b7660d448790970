"""What was seen of a checkpoint: the nine facts, and what they stand on."""

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
    """Which batches the two logs name; None where a log is empty, or is one of `unlisted`.

    `pending` are the batches that are planned and not committed, above the last committed one.
    Spark re-runs only the last of them. `unlisted` are the logs whose names cannot be had: of these
    batches nothing is known. Where Spark 2.1 wrote, there is `no_commit_log`: a batch is done when
    the one after it is planned, and only the last is pending. Of `continuous` mode the batches are
    epochs: their entries say where they ended, and Spark begins again at the last committed one.
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
        """The log of a name, if it cannot be listed."""
        return next((one for one in self.unlisted if one.path == name), None)

    @property
    def lacks_commits(self) -> bool:
        """Whether no commit is there although batches were done.

        Spark plans a batch only after it has committed the one before. In continuous mode, and in
        Spark 2.1, this is not so.
        """
        later = self.last_planned is not None and self.last_planned > 0
        known = not (self.unlisted or self.no_commit_log or self.continuous)
        return known and later and self.last_committed is None

    @property
    def missing_offsets(self) -> tuple[Span, ...]:
        """What is missing inside the offset log."""
        return tuple(_find_gaps(self.offset_spans))

    @property
    def missing_commits(self) -> tuple[Span, ...]:
        """What is missing inside the commit log, or before it: Spark purges it no sooner."""
        found = list(_find_gaps(self.commit_spans))
        if self.offset_spans and self.commit_spans:
            planned, committed = self.offset_spans[0].first, self.commit_spans[0].first
            if planned < committed:
                last = min(committed - 1, self.offset_spans[-1].last)
                found.insert(0, Span(first=planned, last=last))
        return tuple(found)


def _find_gaps(spans: tuple[Span, ...]) -> Iterator[Span]:
    for before, after in pairwise(spans):
        yield Span(first=before.last + 1, last=after.first - 1)


class BatchStatus(StrEnum):
    """How a planned batch stands; one without a commit below a committed one is never run again."""

    YES = "committed"
    NO = "pending"
    MISSING = "no commit"
    UNLOGGED = "done"
    COMMIT_UNREADABLE = "commit unreadable"
    OFFSETS_UNREADABLE = "offsets unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBatch:
    """One batch of the timeline; times and rows only where something tells them.

    `rows` are what Spark counted. `records` are what the offsets of the sources number, in `unit`:
    no more than a bound of the rows, and for some sources something else.
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
    """One source: where it stands, and what it gave between the ends of two batches.

    `batch` is the last of the range, `after` the one before it. `or_kinds` are other sources that
    write offsets of the same shape, where nothing tells which. Of an `open_ended` source `offset`
    and `raw` are where the batch began, and `left_at` is where it ended, if that is known.
    `files_more` are files of the range that are known and not in `files`; `log_offsets_unread` is
    of how many log offsets of the range not all files are known.

    One source may be read at several places of a plan, and have an offset for each: `same_as` is
    then the first of them. `folder` is the one below `sources` that is its own, `number` its place
    in what Spark reports of a batch.
    """

    name: str
    batch: BatchId
    after: BatchId | None
    kind: str
    or_kinds: tuple[str, ...]
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
    """The first offset of a source that has several, and what that was inferred from.

    `by_folders`: from there being no other folder, and one may be lost.
    """

    name: str
    inferred: str
    by_folders: bool


class SourceFolderKind(StrEnum):
    """What the folder of a source holds, which shows what kind of source made it."""

    FILES = "files"
    KAFKA = "Kafka"
    RATE = "rate"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLog:
    """The folder of one source as a log of files, by its names; `damaged` could not be read.

    Only what a start reads is read: the last compacted entry and those after it. `partly` are the
    files of which only the end was read. `keeps` is what the contents show, whatever the offsets
    of the source look like.
    """

    of_files: bool
    entries: tuple[Span, ...]
    compacts: tuple[Span, ...]
    damaged: tuple[UnreadableFile, ...]
    partly_read: tuple[str, ...] = ()
    folder_kind: SourceFolderKind = SourceFolderKind.UNKNOWN


class RestartSign(StrEnum):
    """What tells of a start of the query."""

    RECORDED = "run record"
    EVENT_LOG = "event log"
    SETTINGS_CHANGED = "settings changed"
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A start of the query, or a sign of one; `note` says what was seen."""

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
    """How many files, and how many bytes in all."""

    count: int
    bytes: int


NO_BATCH = "the table holds no batch of this query"
"""Why a ledger is absent where its table is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEvidence:
    """What a sink remembers of the query: the last batch that it was given.

    `ranges`: and from which offsets, as holdfast's own do. A batch of an old number is skipped only
    if it is the same, and refused else. `offsets` are those ranges, of the last batch.
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
    """The nine facts of a checkpoint, and everything that was seen on the way to them."""

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
    """When the newest of its files was written."""
    offset_entries: Mapping[BatchId, OffsetEntry]
    """The newest entries of the offset log, as they were read."""
    commit_entries: Mapping[BatchId, CommitEntry]
    source_logs: Mapping[str, SourceLog]
    nonempty_folders: frozenset[str]
    """Which of `offsets`, `commits` and `state` hold anything, a stray file too."""
    leftover_checksums: tuple[str, ...]
    """Files that are gone and have left their hidden checksum: Spark cannot write them again."""
    plan: Known[Fingerprint] | Unknown = NOT_RECORDED
    """The query that last ran a batch, as its run record tells."""
    recorded_ends: Mapping[BatchId, Known[tuple[Json, ...]]] = field(default_factory=dict)
    """Where batches ended, a source each, as those told it who saw them run."""
    driver_died: bool = False
    """Whether the process that holds the lease is known to have ended; only its own host knows."""
    stateless: bool = False
    """Whether a run record or an event log shows that the query keeps no state."""
    misplaced: tuple[MisplacedPartition, ...] = ()
    """Folders with state files at a level where Spark does not look."""
    empty_state: bool = False
    """Whether there is a folder `state` with nothing in it: Spark makes it only for state."""

    @property
    def driver_runs(self) -> bool:
        """Whether the lease is held by a process that may still run."""
        held = self.lease is not None and not self.lease.expired(self.observed_ms)
        return held and not self.driver_died


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDetail:
    """What one batch consumed, or what lies between two: `after` is the batch before the range."""

    after: BatchId | None
    batch: BatchId
    sources: tuple[SourceEvidence, ...]
    settings_changed: Mapping[str, tuple[str, str]]
    standing: BatchStatus
    unreadable: tuple[UnreadableFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """One checkpoint below a folder, in one line."""

    location: str
    query_id: Fact[QueryId]
    batches: Batches
    changed_ms: int
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """The checkpoints below a folder; in what is `unreadable` there may be more of them."""

    rows: tuple[CheckpointRow, ...]
    unreadable: tuple[UnreadableFile, ...]
