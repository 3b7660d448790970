"""A failed query -> one sentence, and whether a restart can cure the failure.

The text of the error decides only the sentence and the hint. The exact name of Spark's error
(`sinks/spark_failure.py`), or holdfast's own error class, decides whether the query is restarted.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from holdfast.errors import (
    HoldfastError,
    QueryFailed,
    SchemaMismatch,
    SourceUnavailable,
    StorageUnavailable,
)
from holdfast.model.definition import Job
from holdfast.report import redact
from holdfast.sinks import spark_failure


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFailure:
    """An error that is recognised by its text; `cause` continues "the job failed because …"."""

    pattern: str
    kind: type[HoldfastError]
    cause: str
    hint: str


_KNOWN = (
    KnownFailure(
        pattern=r"UnknownTopicOrPartition|does not host this topic-partition|UNKNOWN_TOPIC",
        kind=SourceUnavailable,
        cause="a Kafka topic does not exist",
        hint="create the topic, or correct its name in the job's `reads`",
    ),
    KnownFailure(
        pattern=r"Timed out waiting for a node assignment|BrokerNotAvailable|Failed to construct"
        r" kafka|TimeoutException.*(?:topic|partition|node)|DisconnectException",
        kind=SourceUnavailable,
        cause="a Kafka broker does not answer",
        hint="check that the brokers run and that the driver can reach them",
    ),
    KnownFailure(
        pattern=r"No space left on device|Disk quota exceeded",
        kind=StorageUnavailable,
        cause="a disk is full",
        hint="free some disk space, then start again: the batch was not written and will run again",
    ),
    KnownFailure(
        pattern=r"DELTA_SCHEMA_CHANGED|DELTA_METADATA_MISMATCH|DELTA_STREAMING_INCOMPATIBLE",
        kind=SchemaMismatch,
        cause="the schema of a Delta table changed while the query ran",
        hint="start again with code that fits the new schema",
    ),
    KnownFailure(
        pattern=r"CANNOT_READ_FILE_FOOTER|is not a Parquet file|FAILED_READ_FILE|MALFORMED_CSV|"
        r"MALFORMED_RECORD_IN_PARSING",
        kind=SourceUnavailable,
        cause="a file cannot be read",
        hint="put an undamaged file in its place, with the same name, then start again: the batch"
        " was not written and will run again; to skip the file, move it away and start once with"
        " `--accept SOURCE_FILES_GONE`",
    ),
    KnownFailure(
        pattern=r"KAFKA_DATA_LOSS|DELTA_LOG_FILE_NOT_FOUND|DIFFERENT_DELTA_TABLE_READ|"
        r"DELTA_MISSING_FILES|failOnDataLoss",
        kind=SourceUnavailable,
        cause="a source no longer has the data that the checkpoint refers to",
        hint="compare the source with the checkpoint before anything is deleted",
    ),
    KnownFailure(
        pattern=r"STATE_STORE_\w+_NOT_COMPATIBLE|STATEFUL_OPERATOR|sources in the checkpoint"
        r" offsets and now|INVALID_LOG_VERSION|Incomplete log file|batch \d+ doesn't exist|"
        r"STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY|CANNOT_LOAD_STATE_STORE|MISSING_METADATA_FILE|"
        r"CHECKPOINT_FILE_CHECKSUM",
        kind=QueryFailed,
        cause="the checkpoint does not fit this query",
        hint="start the code that wrote the checkpoint; do not delete anything",
    ),
    KnownFailure(
        pattern=r"ModuleNotFoundError|No module named",
        kind=QueryFailed,
        cause="the workers cannot import the job's code",
        hint="install the module on the machines of the workers, or pass it with `--py-files`",
    ),
    KnownFailure(
        pattern=r"AnalysisException|UNRESOLVED_|PARSE_SYNTAX_ERROR|UNSUPPORTED_|DATATYPE_MISMATCH",
        kind=QueryFailed,
        cause="Spark cannot run its query",
        hint="correct the job's function",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error of a query, and whether a restart can cure it."""

    error: HoldfastError
    curable: bool


def explain(job: Job, error: BaseException, inner: Exception | None) -> Failure:
    """Return the failure as an error of holdfast.

    `error` is the exception of the query. `inner` is the exception of the batch writer, if any.
    """
    for raised in (inner, error):
        if isinstance(raised, HoldfastError):
            raised.message = redact.text(raised.message)  # it may quote a database's message
            raised.args = (raised.message,)
            return Failure(error=raised, curable=raised.curable_by_restart)
    text = f"{type(error).__name__}: {error}\n{inner or ''}"
    is_lasting = any(
        spark_failure.is_lasting(raised) for raised in (inner, error) if raised is not None
    )
    reason = _find_reason(error, inner)
    for known in _KNOWN:
        if re.search(known.pattern, text):
            message = f"job `{job.name}` failed because {known.cause}: {reason}"
            return Failure(error=known.kind(message, hint=known.hint), curable=not is_lasting)
    return Failure(
        error=QueryFailed(
            f"job `{job.name}` failed: {reason}",
            hint="start again with `--debug` to see the whole error",
        ),
        curable=not is_lasting,
    )


@contextmanager
def translate_errors(job: Job) -> Iterator[None]:
    """Raise an exception of the job's code, its sources or Spark as an error of holdfast."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        raise explain(job, error, None).error from error


def _find_reason(error: BaseException, inner: Exception | None) -> str:
    """Return the line that explains most, without secrets: the innermost cause that is named."""
    raised = inner or error
    text = str(raised)
    causes = re.findall(
        r"(?:Caused by: |^)(?:[\w$]+\.)*([\w$]+(?:Exception|Error): .+)", text, re.MULTILINE
    )
    conditions = re.findall(r"^\[?[A-Z][A-Z0-9_.]{6,}\]? .+", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = ": ".join([type(raised).__name__, *lines[:1]])
    chosen = causes[-1] if causes else next(iter(conditions), named)
    # Redact before the text is cut: a part of a secret may not be recognised as one.
    return redact.for_display(chosen.strip().rstrip(";"))[:300]
