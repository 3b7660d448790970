"""The errors that Spark raises, as values with Spark's own conditions and classes.

Between versions, the classes differ only in their wrappers. Most conditions are new in 4.0.
"""

from dataclasses import replace

from holdfast.model.evidence import Evidence
from holdfast.model.fact import Unknown, UnreadableFile
from holdfast.model.ids import BatchId
from holdfast.model.restart import Stage, StartError
from holdfast.model.spark_version import SparkVersion

NO_BATCH = Unknown(reason="the query fails before it knows the batch")
STATE_ERROR = ("IllegalStateException",)
NULL = ("NullPointerException",)
JSON_ERRORS = (
    "JsonParseException",
    "JsonEOFException",
    "MismatchedInputException",
    "MappingException",
    "NumberFormatException",
)
REPARTITION = "STREAMING_UNFINISHED_REPARTITION_DETECTED"
_NOT_IN_VERSION_2 = ("the second line is empty", "the line `")
_SINCE_4_0 = frozenset({"MALFORMED_LOG_FILE", "INVALID_LOG_VERSION", "KAFKA_DATA_LOSS"})
_V4_0 = SparkVersion(4, 0)
_CONCURRENT = "SparkConcurrentModificationException"


def adapt_condition(error: StartError, spark: SparkVersion) -> StartError:
    """Return the error with its condition in a version of Spark; most have none before 4.0."""
    name = error.condition.partition(".")[0]
    return replace(error, condition="") if name in _SINCE_4_0 and spark < _V4_0 else error


def is_late(file: UnreadableFile) -> bool:
    """Return whether Spark can read the entry, and fails only when it uses the offsets."""
    return file.reason.startswith(("the offset of source", "names no source"))


def find_unreadable(evidence: Evidence, path: str) -> UnreadableFile | None:
    """Return the file with this path if it cannot be read."""
    return next((file for file in evidence.unreadable if file.path == path), None)


def make_damage_error(
    file: UnreadableFile, *, exact: bool, stage: Stage = Stage.START
) -> StartError:
    """Return the error for a damaged entry; `exact`: Spark accepts only the version it writes."""
    reason = f"`{file.path}` cannot be read: {file.reason}"
    if file.reason == "empty" or file.reason.startswith(_NOT_IN_VERSION_2):
        return make_error("", STATE_ERROR, reason, file.path, stage=stage)
    if file.reason.startswith("first line is"):
        return make_error("MALFORMED_LOG_FILE", STATE_ERROR, reason, file.path, stage=stage)
    if " version " in file.reason and "expected" in file.reason:
        condition = "EXACT_MATCH_VERSION" if exact else "MAX_SUPPORTED_VERSION"
        return make_error(
            f"INVALID_LOG_VERSION.{condition}", STATE_ERROR, reason, file.path, stage=stage
        )
    if is_late(file):
        # A different source of the batch may fail before the source whose offset is cut short.
        classes: tuple[str, ...] = ("AssertionError", *STATE_ERROR)
    else:
        classes = ("NoSuchElementException", "MalformedInputException", "IllegalArgumentException")
    return make_error("", (*classes, *JSON_ERRORS), reason, file.path, stage=stage)


def make_epoch_commit_error(file: UnreadableFile, epoch: BatchId) -> StartError:
    """Return the error for a damaged entry that continuous mode reads to commit an epoch."""
    error = make_damage_error(file, exact=False, stage=Stage.COMMITTING)
    return replace(error, batch=epoch)


def make_version_error(path: str, version: int, condition: str, spark: SparkVersion) -> StartError:
    """Return the error for an entry in a version that this Spark does not read."""
    reason = f"`{path}` has version {version}, which Spark {spark} does not read"
    return make_error(f"INVALID_LOG_VERSION.{condition}", STATE_ERROR, reason, path)


def make_checksum_error(path: str, batch: BatchId | Unknown, stage: Stage) -> StartError:
    """Return the error for a file that cannot be written because its old checksum still exists."""
    folder, _, name = path.rpartition("/")
    hidden = f"{folder}/.{name}.crc" if folder else f".{name}.crc"
    reason = f"`{hidden}` remained when `{path}` was removed, so Spark cannot write `{path}` again"
    return make_error("", (_CONCURRENT,), reason, hidden, stage=stage, batch=batch)


def make_error(
    condition: str,
    exceptions: tuple[str, ...],
    reason: str,
    path: str,
    *,
    stage: Stage = Stage.START,
    batch: BatchId | Unknown = NO_BATCH,
) -> StartError:
    """Return an error; by default one that occurs before the query knows the batch."""
    return StartError(
        stage=stage,
        batch=batch,
        condition=condition,
        exceptions=exceptions,
        reason=reason,
        read_from=(path,),
    )
