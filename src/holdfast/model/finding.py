"""The meaning of the evidence: findings with stable codes, open questions, and a judgement."""

from dataclasses import dataclass
from enum import StrEnum

from holdfast.model.evidence import Evidence
from holdfast.model.fact import Known
from holdfast.model.fingerprint import Fingerprint
from holdfast.model.restart import Restart
from holdfast.model.spark_version import SparkVersion
from holdfast.model.surroundings import Surroundings


class Severity(StrEnum):
    """The effect of a finding on the next start, the worst first."""

    BLOCKS = "blocks"
    LOSES = "loses"
    DUPLICATES = "duplicates"
    UNDEFINED = "undefined"
    SLOW = "slow"
    NOTE = "note"


class Code(StrEnum):
    """The stable name of a kind of finding; never reused."""

    PENDING_BATCH = "PENDING_BATCH"
    BATCHES_SKIPPED = "BATCHES_SKIPPED"
    REPARTITION_UNFINISHED = "REPARTITION_UNFINISHED"
    OFFSET_BEFORE_MISSING = "OFFSET_BEFORE_MISSING"
    OFFSET_GAP = "OFFSET_GAP"
    COMMIT_GAP = "COMMIT_GAP"
    COMMIT_AHEAD = "COMMIT_AHEAD"
    COMMITS_GONE = "COMMITS_GONE"
    BATCH_PROGRESS = "BATCH_PROGRESS"
    OFFSETS_GONE = "OFFSETS_GONE"
    OFFSETS_EDITED = "OFFSETS_EDITED"
    LOGS_GONE = "LOGS_GONE"
    LOCATION_NOT_EMPTY = "LOCATION_NOT_EMPTY"
    ENTRY_UNREADABLE = "ENTRY_UNREADABLE"
    ENTRY_WITHOUT_SETTINGS = "ENTRY_WITHOUT_SETTINGS"
    FILE_UNREADABLE = "FILE_UNREADABLE"
    LOG_VERSION_UNKNOWN = "LOG_VERSION_UNKNOWN"
    SOURCES_CHANGED = "SOURCES_CHANGED"
    METADATA_MISSING = "METADATA_MISSING"
    METADATA_UNREADABLE = "METADATA_UNREADABLE"
    CHECKSUM_LEFT = "CHECKSUM_LEFT"
    SINK_AHEAD = "SINK_AHEAD"
    SINK_BEHIND = "SINK_BEHIND"
    SINK_SKIPS = "SINK_SKIPS"
    SINK_NOT_CLEARED = "SINK_NOT_CLEARED"
    SOURCE_LOG_DAMAGED = "SOURCE_LOG_DAMAGED"
    SOURCE_LOG_AHEAD = "SOURCE_LOG_AHEAD"
    SOURCE_LOG_BEHIND = "SOURCE_LOG_BEHIND"
    SOURCE_LOG_INTERVAL = "SOURCE_LOG_INTERVAL"
    SOURCE_WENT_BACK = "SOURCE_WENT_BACK"
    OFFSET_OF_OTHER_SOURCE = "OFFSET_OF_OTHER_SOURCE"
    SOURCE_NOT_REPLAYABLE = "SOURCE_NOT_REPLAYABLE"
    SOURCE_FILES_GONE = "SOURCE_FILES_GONE"
    SOURCE_FILES_REWRITTEN = "SOURCE_FILES_REWRITTEN"
    SOURCE_FILES_TOO_OLD = "SOURCE_FILES_TOO_OLD"
    DELTA_VERSIONS_GONE = "DELTA_VERSIONS_GONE"
    DELTA_TABLE_REPLACED = "DELTA_TABLE_REPLACED"
    KAFKA_OFFSETS_EXPIRED = "KAFKA_OFFSETS_EXPIRED"
    KAFKA_CLUSTER_CHANGED = "KAFKA_CLUSTER_CHANGED"
    KAFKA_TOPIC_RECREATED = "KAFKA_TOPIC_RECREATED"
    KAFKA_PARTITION_GONE = "KAFKA_PARTITION_GONE"
    DRIVER_RUNNING = "DRIVER_RUNNING"
    TWO_DRIVERS = "TWO_DRIVERS"
    LEASE_STALE = "LEASE_STALE"
    STORAGE_EPHEMERAL = "STORAGE_EPHEMERAL"
    STATE_MISSING = "STATE_MISSING"
    STATE_MISPLACED = "STATE_MISPLACED"
    STATE_REWRITTEN = "STATE_REWRITTEN"
    STATE_CHECKSUM_HAZARD = "STATE_CHECKSUM_HAZARD"
    STATE_SNAPSHOT_HAZARD = "STATE_SNAPSHOT_HAZARD"
    STATE_SCHEMA_UNREADABLE = "STATE_SCHEMA_UNREADABLE"
    OPERATOR_METADATA_UNREADABLE = "OPERATOR_METADATA_UNREADABLE"
    OPERATORS_UNCHECKED = "OPERATORS_UNCHECKED"
    STATE_SCHEMA_ELSEWHERE = "STATE_SCHEMA_ELSEWHERE"
    SETTING_PINNED = "SETTING_PINNED"
    PROVIDER_PINNED = "PROVIDER_PINNED"
    SETTING_LOST = "SETTING_LOST"
    PARTITIONS_UNPINNED = "PARTITIONS_UNPINNED"
    STATE_VERSION_UNKNOWN = "STATE_VERSION_UNKNOWN"
    CHECKPOINT_COPIED = "CHECKPOINT_COPIED"
    CHECKPOINT_NESTED = "CHECKPOINT_NESTED"
    ASYNC_TURNED_OFF = "ASYNC_TURNED_OFF"
    CONTINUOUS_MODE = "CONTINUOUS_MODE"
    STATE_CHAIN_LONG = "STATE_CHAIN_LONG"
    SOURCE_LOG_LARGE = "SOURCE_LOG_LARGE"
    LOG_NOT_PURGED = "LOG_NOT_PURGED"
    SOURCE_COUNT_CHANGED = "SOURCE_COUNT_CHANGED"
    SOURCE_KIND_CHANGED = "SOURCE_KIND_CHANGED"
    SOURCES_SWAPPED = "SOURCES_SWAPPED"
    SOURCE_TARGET_CHANGED = "SOURCE_TARGET_CHANGED"
    SOURCE_OPTION_CHANGED = "SOURCE_OPTION_CHANGED"
    SOURCE_SCHEMA_CHANGED = "SOURCE_SCHEMA_CHANGED"
    SOURCE_RENAMED = "SOURCE_RENAMED"
    WATERMARK_CHANGED = "WATERMARK_CHANGED"
    OPERATORS_CHANGED = "OPERATORS_CHANGED"
    OPERATORS_SWAPPED = "OPERATORS_SWAPPED"
    STATE_SCHEMA_CHANGED = "STATE_SCHEMA_CHANGED"
    KEYS_CHANGED = "KEYS_CHANGED"
    AGGREGATES_CHANGED = "AGGREGATES_CHANGED"
    JOIN_TYPE_CHANGED = "JOIN_TYPE_CHANGED"
    JOIN_CHANGED = "JOIN_CHANGED"
    STATE_FIELDS_RENAMED = "STATE_FIELDS_RENAMED"
    STATE_VARIABLES_CHANGED = "STATE_VARIABLES_CHANGED"
    TIMEOUT_CHANGED = "TIMEOUT_CHANGED"
    FUNCTION_CHANGED = "FUNCTION_CHANGED"
    INPUT_CHANGED = "INPUT_CHANGED"
    RESULT_CHANGED = "RESULT_CHANGED"
    SINK_CHANGED = "SINK_CHANGED"
    ROWS_DO_NOT_FIT = "ROWS_DO_NOT_FIT"
    OUTPUT_MODE_CHANGED = "OUTPUT_MODE_CHANGED"
    SETTING_CHANGED = "SETTING_CHANGED"
    SPARK_UPGRADED = "SPARK_UPGRADED"
    SPARK_DOWNGRADED = "SPARK_DOWNGRADED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clue:
    """One piece of evidence: a file, what it should contain, and what it contains."""

    file: str
    expected: str
    found: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A consequence for the next start, with its evidence and its remedies.

    `remedies` are commands, or file operations in plain words.
    """

    code: Code
    severity: Severity
    text: str
    clues: tuple[Clue, ...]
    remedies: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotAssessed:
    """A question that could not be answered, with the reason."""

    question: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleInput:
    """Everything that a rule may use."""

    evidence: Evidence
    restart: Restart
    surroundings: Surroundings


class Judgement(StrEnum):
    """Whether the query may start as it is."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    UNDEFINED = "undefined"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryChange:
    """Everything that a rule about a change may use: the checkpoint, and the new query."""

    evidence: Evidence
    new: Fingerprint

    @property
    def old(self) -> Fingerprint | None:
        """Return the query that last ran, if a run record has it."""
        return self.evidence.plan.value if isinstance(self.evidence.plan, Known) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether a query may start from a checkpoint; `findings` are the changes, the worst first."""

    job: str
    location: str
    judgement: Judgement
    first_start: bool
    findings: tuple[Finding, ...]
    not_assessed: tuple[NotAssessed, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """The whole answer of `holdfast diagnose`.

    If the version of Spark is unknown and the outcome depends on it, `spark_versions` are the
    versions with this outcome, and `others` are the better outcomes, each with its own versions.
    """

    location: str
    judgement: Judgement
    restart: Restart
    findings: tuple[Finding, ...]
    not_assessed: tuple[NotAssessed, ...]
    spark_versions: tuple[SparkVersion, ...] = ()
    others: tuple["Diagnosis", ...] = ()
