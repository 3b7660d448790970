"""A failed query -> one sentence, and whether a restart can cure it.

The sentence and its hint are chosen by the text of the error. Whether it is tried again is not:
that decides the exact name of Spark's error (`sinks/spark_failure.py`) or holdfast's own code.
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
    """An error that is recognised by its text."""

    pattern: str
    kind: type[HoldfastError]
    found: str
    hint: str


_KNOWN = (
    KnownFailure(
        pattern=r"UnknownTopicOrPartition|does not host this topic-partition|UNKNOWN_TOPIC",
        kind=SourceUnavailable,
        found="a Kafka topic that does not exist",
        hint="create the topic, or correct its name in the job's `reads`",
    ),
    KnownFailure(
        pattern=r"Timed out waiting for a node assignment|BrokerNotAvailable|Failed to construct"
        r" kafka|TimeoutException.*(?:topic|partition|node)|DisconnectException",
        kind=SourceUnavailable,
        found="a Kafka broker that does not answer",
        hint="check that the brokers run and can be reached from the driver",
    ),
    KnownFailure(
        pattern=r"No space left on device|Disk quota exceeded",
        kind=StorageUnavailable,
        found="a disk without space left",
        hint="make room, then start again: the batch was not written and runs again",
    ),
    KnownFailure(
        pattern=r"DELTA_SCHEMA_CHANGED|DELTA_METADATA_MISMATCH|DELTA_STREAMING_INCOMPATIBLE",
        kind=SchemaMismatch,
        found="a Delta table whose schema changed under the stream",
        hint="start again with code that fits the new schema",
    ),
    KnownFailure(
        pattern=r"CANNOT_READ_FILE_FOOTER|is not a Parquet file|FAILED_READ_FILE|MALFORMED_CSV|"
        r"MALFORMED_RECORD_IN_PARSING",
        kind=SourceUnavailable,
        found="a file that cannot be read",
        hint="put an undamaged file under the same name, then start again: the batch was not"
        " written and runs again; to do without the file, move it away and start once with"
        " `--accept SOURCE_FILES_GONE`",
    ),
    KnownFailure(
        pattern=r"KAFKA_DATA_LOSS|DELTA_LOG_FILE_NOT_FOUND|DIFFERENT_DELTA_TABLE_READ|"
        r"DELTA_MISSING_FILES|failOnDataLoss",
        kind=SourceUnavailable,
        found="a source that no longer has what the checkpoint asks for",
        hint="compare the source with the checkpoint before anything is deleted",
    ),
    KnownFailure(
        pattern=r"STATE_STORE_\w+_NOT_COMPATIBLE|STATEFUL_OPERATOR|sources in the checkpoint"
        r" offsets and now|INVALID_LOG_VERSION|Incomplete log file|batch \d+ doesn't exist|"
        r"STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY|CANNOT_LOAD_STATE_STORE|MISSING_METADATA_FILE|"
        r"CHECKPOINT_FILE_CHECKSUM",
        kind=QueryFailed,
        found="a checkpoint that does not fit this query",
        hint="start the code that wrote the checkpoint; do not delete anything",
    ),
    KnownFailure(
        pattern=r"ModuleNotFoundError|No module named",
        kind=QueryFailed,
        found="workers that cannot import the job's code",
        hint="install the module where the workers run, or pass it with `--py-files`",
    ),
    KnownFailure(
        pattern=r"AnalysisException|UNRESOLVED_|PARSE_SYNTAX_ERROR|UNSUPPORTED_|DATATYPE_MISMATCH",
        kind=QueryFailed,
        found="a query that Spark cannot run",
        hint="correct the job's function",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What went wrong with a query, and whether to try again."""

    error: HoldfastError
    curable: bool


def explain(job: Job, error: BaseException, inner: Exception | None) -> Failure:
    """The error in holdfast's words: `inner` is what the batch writer raised, if it was that."""
    for own in (inner, error):
        if isinstance(own, HoldfastError):
            own.message = redact.text(own.message)  # it may quote what a database said
            own.args = (own.message,)
            return Failure(error=own, curable=own.curable_by_restart)
    text = f"{type(error).__name__}: {error}\n{inner or ''}"
    curable = not any(spark_failure.is_lasting(one) for one in (inner, error) if one is not None)
    for known in _KNOWN:
        if re.search(known.pattern, text):
            reason = _find_reason(error, inner)
            sentence = f"expected job `{job.name}` to run, found {known.found}: {reason}"
            return Failure(error=known.kind(sentence, hint=known.hint), curable=curable)
    return Failure(
        error=QueryFailed(
            f"expected job `{job.name}` to run, found: {_find_reason(error, inner)}",
            hint="start again with `--debug` for the whole error",
        ),
        curable=curable,
    )


@contextmanager
def translate_errors(job: Job) -> Iterator[None]:
    """What goes wrong with the job in here is raised in holdfast's words."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        raise explain(job, error, None).error from error


def _find_reason(error: BaseException, inner: Exception | None) -> str:
    """The one line that says most: the innermost cause that Spark or Python names; no secrets."""
    raised = inner or error
    text = str(raised)
    causes = re.findall(
        r"(?:Caused by: |^)(?:[\w$]+\.)*([\w$]+(?:Exception|Error): .+)", text, re.MULTILINE
    )
    conditions = re.findall(r"^\[?[A-Z][A-Z0-9_.]{6,}\]? .+", text, re.MULTILINE)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = ": ".join([type(raised).__name__, *lines[:1]])
    chosen = causes[-1] if causes else next(iter(conditions), named)
    # A secret that is cut cannot always be told from other text.
    return redact.for_display(chosen.strip().rstrip(";"))[:300]
