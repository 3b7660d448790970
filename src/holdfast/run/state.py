"""A copy of a checkpoint -> the rows of a state store, read with Spark's State Data Source."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError, StateUnreadable, make_extras_error
from holdfast.model.fact import Known
from holdfast.model.json import as_mapping
from holdfast.model.state import OperatorEvidence
from holdfast.report import redact
from holdfast.run.session import interruptible
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

_COMMIT_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_SPARK_COLUMNS = ("batch_id", "change_type", "partition_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQuery:
    """The rows to read; `changes` are the first and the last batch of a change feed.

    With `unique_ids`, the names of state versions contain ids, which the commit log lists.
    """

    operator: int
    batch: int
    changes: tuple[int, int] | None
    limit: int
    unique_ids: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """One row of a state store after a batch; `change` is empty unless it is in a change feed."""

    part: str
    partition: int
    key: str
    value: str
    batch: int
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRows:
    """The rows of an operator; `is_cut` if a part of its state has more rows than the limit."""

    rows: tuple[StateRow, ...]
    is_cut: bool


def read_with_own_spark(
    copy: Path, operator: OperatorEvidence, query: StateQuery, *, debug: bool
) -> StateRows:
    """Return the rows from a Spark session of their own, which Ctrl-C ends.

    The output of the JVM goes to a file. It is shown only after an unexpected error.
    """
    jvm_output = copy.with_name("jvm.err")

    def read_rows() -> StateRows:
        with _open_session(jvm_output, debug=debug) as spark:
            return read(copy, operator, query, spark)

    try:
        return interruptible.run(read_rows)
    except HoldfastError:
        raise
    except Exception:
        if jvm_output.exists():
            sys.stderr.write(redact.text(jvm_output.read_text("utf-8", "replace")))
        raise


def read(
    copy: Path, operator: OperatorEvidence, query: StateQuery, spark: "SparkSession"
) -> StateRows:
    """Return the rows, at most `query.limit` per part of the operator's state."""
    # State stores report to an endpoint of the driver that only the stream manager registers.
    _ = spark.streams.active
    # Spark can read both versions of the commit log, but only if the session names the version.
    spark.conf.set(_COMMIT_VERSION, "2" if query.unique_ids else "1")
    rows: list[StateRow] = []
    is_cut = False
    for part, options in _list_parts(operator):
        with _translate_errors():
            part_rows = _collect_rows(part, _load_part(spark, copy, query, options), query)
        rows += part_rows[: query.limit]
        is_cut = is_cut or len(part_rows) > query.limit
    return StateRows(rows=tuple(rows), is_cut=is_cut)


def _list_parts(operator: OperatorEvidence) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the parts of an operator's state, with the reader options that select each part."""
    name = operator.name.value if isinstance(operator.name, Known) else ""
    if name == "symmetricHashJoin":
        yield "left", {"joinSide": "left"}
        yield "right", {"joinSide": "right"}
        return
    variables = as_mapping(operator.properties).get("stateVariables")
    if isinstance(variables, Sequence) and not isinstance(variables, str):
        for variable in variables:
            variable_name = as_mapping(variable).get("stateName")
            if isinstance(variable_name, str) and not variable_name.startswith("$"):
                yield variable_name, {"stateVarName": variable_name}
        return
    yield "", {}


def _load_part(
    spark: "SparkSession", copy: Path, query: StateQuery, options: Mapping[str, str]
) -> "DataFrame":
    reader = spark.read.format("statestore").option("operatorId", query.operator)
    for key, value in options.items():
        reader = reader.option(key, value)
    if query.changes is not None:
        reader = reader.option("readChangeFeed", "true")
        reader = reader.option("changeStartBatchId", query.changes[0])
        reader = reader.option("changeEndBatchId", query.changes[1])
    else:
        reader = reader.option("batchId", query.batch)
    return reader.load(urls.to_spark_url(str(copy)))


def _collect_rows(part: str, frame: "DataFrame", query: StateQuery) -> list[StateRow]:
    """Return up to one row more than the limit, with the columns as JSON.

    The JSON is made here, because Spark's own to_json fails on the rows of a join.
    """
    columns = [field for field in frame.schema.fields if field.name not in _SPARK_COLUMNS]
    keys = [field for field in columns if "key" in field.name] or columns[:1]
    values = [field for field in columns if field not in keys]
    return [
        StateRow(
            part=part,
            partition=row["partition_id"],
            key=_format_json(
                {field.name: _to_plain(row[field.name], field.dataType) for field in keys}
            ),
            value=_format_json(
                {field.name: _to_plain(row[field.name], field.dataType) for field in values}
            ),
            batch=row["batch_id"] if "batch_id" in frame.columns else query.batch,
            change=row["change_type"] if "change_type" in frame.columns else "",
        )
        for row in frame.limit(query.limit + 1).collect()
    ]


def _format_json(columns: Mapping[str, object]) -> str:
    """Return the value of a single column, or an object with all columns."""
    if not columns:
        return ""
    value = next(iter(columns.values())) if len(columns) == 1 else columns
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def _to_plain(value: object, kind: "DataType") -> object:
    """Return nested rows, lists and maps as JSON has them; the keys of a map become strings.

    Timestamps are converted from the time zone of this machine, in which PySpark returns them, to
    UTC, and the text says so. A timestamp without a time zone stays as it is.
    """
    from pyspark.sql import types  # a session exists, so pyspark is installed

    match value, kind:
        case tuple(), types.StructType():
            members = zip(kind.fields, value, strict=True)
            return {field.name: _to_plain(member, field.dataType) for field, member in members}
        case Mapping(), types.MapType():
            key_type, value_type = kind.keyType, kind.valueType
            return {
                str(_to_plain(key, key_type)): _to_plain(value[key], value_type) for key in value
            }
        case list() | tuple(), types.ArrayType():
            return [_to_plain(member, kind.elementType) for member in value]
        case datetime(), types.TimestampType():
            return str(value.astimezone(UTC))
        case bytes() | bytearray(), _:
            return value.hex()
        case _:
            return value


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Raise StateUnreadable, in Spark's own words, if Spark cannot read the state."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _make_unreadable_error(error) from error


def _make_unreadable_error(error: Exception) -> StateUnreadable:
    """Return an error with the innermost cause that Spark gives, in one sentence."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line for line in lines if line.startswith(("Caused by: ", ": ", "["))]
    cause = next((line for line in reversed(causes) if "[" in line), (causes or lines or [""])[0])
    return StateUnreadable(
        f"Spark cannot read the state: {cause.removeprefix('Caused by').strip(': ')}",
        hint="choose a batch whose state still exists: `holdfast inspect` shows the oldest",
    )


@contextmanager
def _open_session(jvm_output: Path, *, debug: bool) -> "Iterator[SparkSession]":
    """Yield a session that is stopped after the rows are read."""
    try:
        import pyspark  # noqa: F401  only to check that it is installed
    except ModuleNotFoundError as error:
        raise make_extras_error(["pyspark"], ["spark"]) from error
    from holdfast.run.session import build  # imports pyspark, which is installed

    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    with nullcontext() if debug else jvm_output.open("wb") as errors:
        spark = build.open_session(
            "holdfast state",
            master=None,
            given=settings,
            on_s3=False,
            debug=debug,
            jvm_errors=errors,
        )
    try:
        yield spark
    finally:
        spark.stop()
