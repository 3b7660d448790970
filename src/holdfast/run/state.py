"""The rows of a state store, through Spark's State Data Source, from a copy of the checkpoint.

A copy, because the source writes: up to Spark 4.1 it makes folders that are not there, and up to
4.2 it opens a store for writing. The copy holds what the source needs and no more:

    metadata   offsets/   commits/   state/<operator>/

A transformWithState operator names its schema files by absolute paths. In the copy they are made
to name the copy's own, so that a checkpoint that was moved can be read, too.
"""

import json
import re
import sys
import tempfile
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
from holdfast.storage import Children, Missing, Piece, Portion, Reader, Refused, urls
from holdfast.storage.reader import join_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

_EVERYTHING = 1 << 62
_AT_ONCE = 64
_COMMIT_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"
_OPERATOR_METADATA = re.compile(r"state/\d+/_metadata/v2/\d+")
_CHECKSUM_OF_IT = re.compile(r"state/\d+/_metadata/v2/\.\d+\.crc")
_SCHEMA_PATH = re.compile(rb'"[^"]*/(state/\d+/_stateSchema/[^"]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class StateQuery:
    """Which rows to show; `changes` are the first and last batch of a change feed.

    `unique_ids` says that versions of state have ids in their names, and the commits name them.
    """

    operator: int
    batch: int
    changes: tuple[int, int] | None
    limit: int
    unique_ids: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRow:
    """One row of a state store after a batch; `change` is empty unless changes were asked for."""

    part: str
    partition: int
    key: str
    value: str
    batch: int
    change: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRows:
    """Rows of an operator; `cut` where a part of its state has more than were wanted."""

    shown: tuple[StateRow, ...]
    cut: bool


def read_with_own_spark(
    copy: Path, operator: OperatorEvidence, wanted: StateQuery, *, debug: bool
) -> StateRows:
    """The rows, through a Spark of their own, which Ctrl-C ends.

    What its JVM writes by itself is kept in a file, and shown where something unforeseen fails.
    """
    said = copy.with_name("jvm.err")

    def through_spark() -> StateRows:
        with _open_session(said, debug=debug) as spark:
            return read(copy, operator, wanted, spark)

    try:
        return interruptible.run(through_spark)
    except HoldfastError:
        raise
    except Exception:
        if said.exists():
            sys.stderr.write(redact.text(said.read_text("utf-8", "replace")))
        raise


def read(
    copy: Path, operator: OperatorEvidence, wanted: StateQuery, spark: "SparkSession"
) -> StateRows:
    """The rows, at most so many of each part of the operator's state."""
    # State stores report to an endpoint of the driver that only the stream manager registers.
    _ = spark.streams.active
    # Spark reads commits of either version only where the session says which it is.
    spark.conf.set(_COMMIT_VERSION, "2" if wanted.unique_ids else "1")
    found: list[StateRow] = []
    cut = False
    for part, options in _list_parts(operator):
        with _translate_errors():
            own = _collect_rows(part, _load_part(spark, copy, wanted, options), wanted)
        found += own[: wanted.limit]
        cut = cut or len(own) > wanted.limit
    return StateRows(shown=tuple(found), cut=cut)


def _list_parts(operator: OperatorEvidence) -> Iterator[tuple[str, Mapping[str, str]]]:
    """What an operator's state is made of, with the options that name each part."""
    name = operator.name.value if isinstance(operator.name, Known) else ""
    if name == "symmetricHashJoin":
        yield "left", {"joinSide": "left"}
        yield "right", {"joinSide": "right"}
        return
    variables = as_mapping(operator.properties).get("stateVariables")
    if isinstance(variables, Sequence) and not isinstance(variables, str):
        for variable in variables:
            told = as_mapping(variable).get("stateName")
            if isinstance(told, str) and not told.startswith("$"):
                yield told, {"stateVarName": told}
        return
    yield "", {}


def _load_part(
    spark: "SparkSession", copy: Path, wanted: StateQuery, options: Mapping[str, str]
) -> "DataFrame":
    reader = spark.read.format("statestore").option("operatorId", wanted.operator)
    for key, value in options.items():
        reader = reader.option(key, value)
    if wanted.changes is not None:
        reader = reader.option("readChangeFeed", "true")
        reader = reader.option("changeStartBatchId", wanted.changes[0])
        reader = reader.option("changeEndBatchId", wanted.changes[1])
    else:
        reader = reader.option("batchId", wanted.batch)
    return reader.load(urls.to_spark_url(str(copy)))


def _collect_rows(part: str, frame: "DataFrame", wanted: StateQuery) -> list[StateRow]:
    """One row more than is wanted, where there is one, with its columns as JSON.

    The JSON is made here, because Spark's own to_json fails on the rows of a join.
    """
    known = [name for name in ("batch_id", "change_type", "partition_id") if name in frame.columns]
    shown = [field for field in frame.schema.fields if field.name not in known]
    keys = [field for field in shown if "key" in field.name] or shown[:1]
    values = [field for field in shown if field not in keys]
    return [
        StateRow(
            part=part,
            partition=row["partition_id"],
            key=_format_json({one.name: _to_plain(row[one.name], one.dataType) for one in keys}),
            value=_format_json(
                {one.name: _to_plain(row[one.name], one.dataType) for one in values}
            ),
            batch=row["batch_id"] if "batch_id" in known else wanted.batch,
            change=row["change_type"] if "change_type" in known else "",
        )
        for row in frame.limit(wanted.limit + 1).collect()
    ]


def _format_json(columns: Mapping[str, object]) -> str:
    """A single column alone; of several, an object with all of them."""
    if not columns:
        return ""
    shown = next(iter(columns.values())) if len(columns) == 1 else columns
    return json.dumps(shown, ensure_ascii=False, separators=(",", ":"), default=str)


def _to_plain(value: object, kind: "DataType") -> object:
    """Rows inside of rows, lists and maps as JSON has them; keys of a map become texts.

    A timestamp is in UTC, and says so: Spark gives it in the time zone of this machine. One without
    a time zone is left as it is.
    """
    from pyspark.sql import types  # a session is there

    match value, kind:
        case tuple(), types.StructType():
            each = zip(kind.fields, value, strict=True)
            return {field.name: _to_plain(one, field.dataType) for field, one in each}
        case Mapping(), types.MapType():
            key, held = kind.keyType, kind.valueType
            return {str(_to_plain(one, key)): _to_plain(value[one], held) for one in value}
        case list() | tuple(), types.ArrayType():
            return [_to_plain(one, kind.elementType) for one in value]
        case datetime(), types.TimestampType():
            return str(value.astimezone(UTC))
        case bytes() | bytearray(), _:
            return value.hex()
        case _:
            return value


@contextmanager
def _translate_errors() -> Iterator[None]:
    """What Spark cannot read is said in its own words."""
    from py4j.protocol import (
        Py4JError,
    )
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _make_unreadable_error(error) from error


def _make_unreadable_error(error: Exception) -> StateUnreadable:
    """What Spark said, in one sentence: the innermost cause that has one."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line for line in lines if line.startswith(("Caused by: ", ": ", "["))]
    said = next((line for line in reversed(causes) if "[" in line), (causes or lines or [""])[0])
    return StateUnreadable(
        f"expected Spark to read the state, found: {said.removeprefix('Caused by').strip(': ')}",
        hint="ask for a batch whose state is still there: `holdfast inspect` names the oldest",
    )


@contextmanager
def copy_checkpoint(reader: Reader, top: Children, operator: int) -> Iterator[Path]:
    """A copy of what the source needs, in a temporary folder."""
    with tempfile.TemporaryDirectory(
        prefix="holdfast-state-", ignore_cleanup_errors=True
    ) as folder:
        copy = Path(folder) / "checkpoint"
        wanted = [name for name in ("offsets", "commits") if name in top.folders]
        paths = [file.name for file in top.files if file.name in ("metadata", ".metadata.crc")]
        for found in reader.walk([*wanted, f"state/{operator}"]):
            if isinstance(found, Portion):
                paths += [join_path(found.folder, file.name) for file in found.files]
            elif found.forbidden:
                raise _make_refused_error(found.path, found)
        # What is changed on the way must not be held against a checksum of what it was.
        paths = [path for path in paths if not _CHECKSUM_OF_IT.fullmatch(path)]
        for start in range(0, len(paths), _AT_ONCE):
            _copy_files(reader, copy, paths[start : start + _AT_ONCE])
        yield copy


def _copy_files(reader: Reader, copy: Path, paths: Sequence[str]) -> None:
    for piece, data in reader.read([Piece(path=path, most=_EVERYTHING) for path in paths]):
        if isinstance(data, Missing):
            continue  # a running query has removed it
        if isinstance(data, Refused):
            raise _make_refused_error(piece.path, data)
        target = copy / piece.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_relocate_schema_files(piece.path, data, copy))


def _make_refused_error(path: str, refused: Refused) -> StateUnreadable:
    return StateUnreadable(
        f"expected to read `{path}`, found: {refused.reason}",
        hint="run as a user who may read the checkpoint",
    )


def _relocate_schema_files(path: str, data: bytes, copy: Path) -> bytes:
    """The file, with the schema files that it names taken from the copy."""
    if not _OPERATOR_METADATA.fullmatch(path):
        return data
    return _SCHEMA_PATH.sub(rb'"%b/\1"' % urls.to_spark_url(str(copy)).encode(), data)


@contextmanager
def _open_session(said: Path, *, debug: bool) -> "Iterator[SparkSession]":
    """A session of its own, for as long as rows are read."""
    try:
        import pyspark  # noqa: F401  only to see whether it is there
    except ModuleNotFoundError as error:
        raise make_extras_error(["pyspark"], ["spark"]) from error
    from holdfast.run.session import build as sessions  # pyspark is known to be there

    given = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    with nullcontext() if debug else said.open("wb") as errors:
        spark = sessions.open_session(
            "holdfast state",
            master=None,
            given=given,
            on_s3=False,
            debug=debug,
            jvm_errors=errors,
        )
    try:
        yield spark
    finally:
        spark.stop()
