"""Spark's names of an error: the conditions of an exception and of its causes, and which last.

A restart cures what it can cure: a lost executor, a time-out of S3, a function that failed once.
So an error counts as lasting only by the exact name that Spark or Delta gives it, never by words
in its text, which quote the user's data, code and columns. Everything else is tried again, up to
the limit of restarts.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_DEEPEST = 32
_NAMED = re.compile(r"(?:[\w.$]+: )?\[([A-Z][A-Z0-9_.]+)\]")

_CODE = (
    "AMBIGUOUS_REFERENCE",
    "DATATYPE_MISMATCH",
    "GROUP_BY_AGGREGATE",
    "MISSING_AGGREGATION",
    "MISSING_ATTRIBUTES",
    "MISSING_GROUP_BY",
    "PARSE_EMPTY_STATEMENT",
    "PARSE_SYNTAX_ERROR",
    "STREAMING_OUTPUT_MODE",
    "UNRESOLVED_COLUMN",
    "UNRESOLVED_FIELD",
    "UNRESOLVED_MAP_KEY",
    "UNRESOLVED_ROUTINE",
    "UNRESOLVED_USING_COLUMN_FOR_JOIN",
    "UNSUPPORTED_DATATYPE",
    "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
    "UNSUPPORTED_EXPR_FOR_OPERATOR",
    "UNSUPPORTED_FEATURE",
    "UNSUPPORTED_GENERATOR",
    "UNSUPPORTED_JOIN_TYPE",
    "UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK",
)
_CHECKPOINT = (
    "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS",
    "CANNOT_LOAD_STATE_STORE.CANNOT_READ_MISSING_SNAPSHOT_FILE",
    "INVALID_LOG_VERSION",
    "MALFORMED_LOG_FILE",
    "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY",
    "STATE_STORE_COLUMN_FAMILY_SCHEMA_INCOMPATIBLE",
    "STATE_STORE_INVALID_CONFIG_AFTER_RESTART",
    "STATE_STORE_INVALID_VALUE_SCHEMA_EVOLUTION",
    "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
    "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE",
    "STATE_STORE_STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED",
    "STATE_STORE_VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED",
    "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
    "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
)
# Delta itself asks for a restart after DELTA_SCHEMA_CHANGED, so that one is not among them.
_SOURCE = (
    "DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE",
    "DELTA_MISSING_FILES_UNEXPECTED_VERSION",
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE",
    "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE_USE_SCHEMA_LOG",
    "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE",
    "KAFKA_DATA_LOSS",
    "MALFORMED_RECORD_IN_PARSING",
)
_SINK = (
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    "DELTA_FAILED_TO_MERGE_FIELDS",
    "DELTA_INVALID_PROTOCOL_VERSION",
    "DELTA_METADATA_MISMATCH",
    "DELTA_MISSING_NOT_NULL_COLUMN_VALUE",
    "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_UNSUPPORTED_FEATURES_FOR_READ",
    "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    "INVALID_UTF8_STRING",
)
_CONFLICTS = frozenset(
    {
        "DELTA_METADATA_CHANGED",
        "DELTA_PROTOCOL_CHANGED",
        "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
    }
)
LASTING = frozenset((*_CODE, *_CHECKPOINT, *_SOURCE, *_SINK))
"""Conditions, or main parts of them, that come back at every start from the same checkpoint."""


def is_lasting(error: BaseException) -> bool:
    """Whether the same error comes back at every start, by the names that Spark gives it."""
    return any(
        name in LASTING or name.partition(".")[0] in LASTING for name in list_conditions(error)
    )


def is_conflict(error: BaseException) -> bool:
    """Whether Delta refused a commit because another writer changed the table first."""
    names = list_conditions(error)
    return any(name in _CONFLICTS or name.startswith("DELTA_CONCURRENT_") for name in names)


def list_conditions(error: BaseException) -> tuple[str, ...]:
    """The conditions of an exception and of its causes, the outermost first."""
    from py4j.protocol import Py4JError

    try:
        return tuple(dict.fromkeys(_find_conditions(error)))
    except (Py4JError, OSError):  # the JVM is gone
        return ()


def read_parameters(error: BaseException, name: str) -> Mapping[str, str]:
    """Return what Spark says about a condition of an exception or its causes, by its own names."""
    from py4j.protocol import Py4JError

    try:
        java = _find_java_exception(error)
        for _ in range(_DEEPEST):
            if java is None:
                break
            if _read_condition(java) == name:
                said = java.getMessageParameters()
                return {str(key): str(said[key]) for key in said}
            java = java.getCause()
    except (Py4JError, OSError):  # the JVM is gone
        pass
    return {}


def _find_conditions(error: BaseException | None) -> Iterator[str]:
    for _ in range(_DEEPEST):
        if error is None:
            return
        java = _find_java_exception(error)
        if java is not None:
            yield from _find_java_conditions(java)
            return
        # pyspark keeps only the text of an exception that it has no class for, and its cause.
        said = _NAMED.match(getattr(error, "_desc", "") or _read_text(error))
        if said:
            yield said[1]
        cause = getattr(error, "_cause", None) or error.__cause__
        error = cause if isinstance(cause, BaseException) else None


def _read_text(error: BaseException) -> str:
    """What an exception of pyspark says; words of other code are no names of Spark's."""
    return str(error) if type(error).__module__.startswith("pyspark.") else ""


def _find_java_exception(error: BaseException) -> "JavaObject | None":
    from py4j.protocol import Py4JJavaError

    found = error.java_exception if isinstance(error, Py4JJavaError) else None
    return found or getattr(error, "_origin", None)


def _find_java_conditions(java: "JavaObject | None") -> Iterator[str]:
    for _ in range(_DEEPEST):
        if java is None:
            return
        name = _read_condition(java)
        if name:
            yield name
        java = java.getCause()


def _read_condition(java: "JavaObject") -> str:
    """Empty where the exception has none: it is not one of Spark's."""
    from py4j.protocol import Py4JError

    for method in ("getCondition", "getErrorClass"):
        try:
            return str(getattr(java, method)() or "")
        except Py4JError:  # Spark before 4.0 has only the second, Java's exceptions have neither
            continue
    return ""
