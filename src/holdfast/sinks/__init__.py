"""Sinks: where a job's rows go. These functions declare one; nothing is opened yet."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import OptionInvalid
from holdfast.model.definition import (
    DeltaAppend,
    DeltaMerge,
    FileSink,
    ForeachBatch,
    LedgeredSink,
    Output,
    Sink,
)
from holdfast.model.ids import OutputName
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["delta_append", "delta_merge", "files", "foreach_batch"]

Select = Callable[["DataFrame"], "DataFrame"]

_PLAIN = re.compile(r"[A-Za-z0-9:/._=-]*")
FILE_FORMATS = ("parquet", "json", "csv")


def delta_append(
    path: str,
    *,
    partition_by: Sequence[str] = (),
    evolve: bool = False,
    properties: Mapping[str, str] | None = None,
    select: Select | None = None,
    name: str | None = None,
) -> Output:
    """Append to a Delta table, exactly once.

    With `evolve`, columns that the table lacks are added to it; without, they are refused.
    `select` picks the rows of this output where a job has several.
    """
    sink = DeltaAppend(
        path=path,
        partition_by=tuple(partition_by),
        evolve=evolve,
        properties=dict(properties or {}),
    )
    return _output(sink, path, select, name)


def delta_merge(  # noqa: PLR0913  one parameter an option of the sink
    path: str,
    *,
    keys: Sequence[str],
    newest: str | None = None,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    select: Select | None = None,
    name: str | None = None,
) -> Output:
    """Upsert into a Delta table by key, exactly once.

    With `newest`, the row with the highest value of that column stays, within a batch and against
    the table. Without, a key may occur once a batch, and the incoming row replaces the old one.
    """
    if not keys:
        raise OptionInvalid(
            f"expected at least one key column to merge into `{path}`, found none",
            hint='name them: `delta_merge(path, keys=["id"])`',
        )
    sink = DeltaMerge(
        path=path,
        keys=tuple(keys),
        newest=newest,
        partition_by=tuple(partition_by),
        properties=dict(properties or {}),
    )
    return _output(sink, path, select, name)


def files(
    path: str,
    *,
    format: str = "parquet",  # noqa: A002  Spark's own word
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Output:
    """Spark's own file sink, exactly once for readers that honour its `_spark_metadata`."""
    if format not in FILE_FORMATS:
        raise OptionInvalid(
            f"expected a file format of {', '.join(FILE_FORMATS)}, found `{format}`",
            hint="use `sinks.delta_append` for tables",
        )
    sink = FileSink(
        path=path, format=format, partition_by=tuple(partition_by), options=dict(options or {})
    )
    return _output(sink, path, None, name)


def foreach_batch(
    function: Callable[["DataFrame", int], None],
    *,
    name: str = "foreach_batch",
    select: Select | None = None,
) -> Output:
    """The user's own function of a batch and its id; unproven: a retried batch calls it again."""
    return Output(name=OutputName(name), sink=ForeachBatch(function=function), select=select)


def _output(sink: Sink, path: str, select: Select | None, name: str | None) -> Output:
    if "%" in path:
        raise OptionInvalid(
            f"expected a path without `%`, which engines read in two ways, found `{path}`",
            hint="choose another path for the output",
        )
    if isinstance(sink, LedgeredSink) and urls.is_hdfs(path) and not _PLAIN.fullmatch(path):
        raise OptionInvalid(
            "expected the path of a Delta table on HDFS in plain letters, which is what delta-rs"
            f" finds again there, found `{path}`",
            hint="choose a path of a-z, A-Z, 0-9 and `-_.=/` for the output",
        )
    last = path.rstrip("/").rsplit("/", 1)[-1]
    return Output(name=OutputName(name or last), sink=sink, select=select)
