"""Rows -> Parquet files in the table's folder -> files that a commit can name.

Two ways, one outcome: files that no reader sees until the commit names them. Small batches are
collected as Arrow and written by the driver, because a Spark write job costs more than the rows;
larger ones are written by the executors with Spark's own Parquet writer, and the driver reads
only their footers. Files of a run that was killed before its commit are never named in the log;
the table's VACUUM removes them as it does for every writer.
"""

import datetime as dt
import io
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.sinks.delta import stats
from holdfast.storage import Folder, Missing, urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
_FOOTER_THREADS = 8
_FOOTER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedFile:
    """A Parquet file in the table's folder that the next commit is to name."""

    path: str
    size: int
    rows: int
    partition_values: Mapping[str, str | None]
    modified_ms: int
    stats: str


def by_driver(
    store: Folder, folder: str, rows: pa.Table, partition_by: tuple[str, ...]
) -> list[AddedFile]:
    """Write the collected rows, one file a partition of the table."""
    actions = []
    for index, (values, part) in enumerate(_partitions(rows, partition_by)):
        buffer = io.BytesIO()
        footers: list[pq.FileMetaData] = []
        pq.write_table(part, buffer, compression="snappy", metadata_collector=footers)
        data = buffer.getvalue()
        path = f"{folder}/part-{index:05d}.parquet"
        store.write(path, data)
        actions.append(_action(path, len(data), values, footers[0]))
    return actions


def by_executors(
    store: Folder, table: str, folder: str, rows: "DataFrame", partition_by: tuple[str, ...]
) -> list[AddedFile]:
    """Have the executors write the rows with Spark's Parquet writer, then read the footers."""
    writer = (
        rows.write.mode("errorifexists")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        .option("mapreduce.fileoutputcommitter.algorithm.version", "1")
        .option("compression", "snappy")
    )
    if partition_by:
        writer = writer.partitionBy(*partition_by)
    writer.parquet(urls.for_spark(f"{table.rstrip('/')}/{folder}"))
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        return list(pool.map(lambda path: _of_file(store, path), _parquet_files(store, folder)))


def _parquet_files(store: Folder, folder: str) -> Iterator[str]:
    for name in store.names(folder):
        path = f"{folder}/{name}"
        if name.startswith(("_", ".")):
            continue
        if name.endswith(".parquet"):
            yield path
        else:
            yield from _parquet_files(store, path)


def _of_file(store: Folder, path: str) -> AddedFile:
    size = store.size(path)
    tail = _tail(store, path, _FOOTER_BYTES)
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed > len(tail):
        tail = _tail(store, path, needed)
    return _action(path, size, _values_in(path), pq.read_metadata(pa.BufferReader(tail)))


def _tail(store: Folder, path: str, size: int) -> bytes:
    found = store.read(path, last=size)
    return b"" if isinstance(found, Missing) else found


def _values_in(path: str) -> dict[str, str | None]:
    """The partition values in Spark's `column=value` folders."""
    values: dict[str, str | None] = {}
    for part in path.split("/")[1:-1]:
        column, _, value = part.partition("=")
        values[unquote(column)] = None if value == _NULL_PARTITION else unquote(value)
    return values


def _partitions(
    rows: pa.Table, partition_by: tuple[str, ...]
) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """The rows of each partition of the table, without the partition columns."""
    if not partition_by:
        if rows.num_rows:
            yield {}, rows
        return
    ordered = rows.sort_by([(column, "ascending") for column in partition_by])
    keys = list(zip(*(ordered.column(c).to_pylist() for c in partition_by), strict=True))
    data = ordered.drop_columns(list(partition_by))
    start = 0
    for end in range(1, len(keys) + 1):
        if end == len(keys) or keys[end] != keys[start]:
            named = zip(partition_by, keys[start], strict=True)
            values = {column: _partition_text(value) for column, value in named}
            yield values, data.slice(start, end - start)
            start = end


def _partition_text(value: object) -> str | None:
    match value:
        case None | "":
            return None
        case bool():
            return str(value).lower()
        case bytes():
            return value.decode("utf-8", "surrogateescape")
        case dt.datetime() if value.tzinfo is not None:
            return value.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        case _:
            return str(value)


def _action(
    path: str, size: int, values: dict[str, str | None], footer: pq.FileMetaData
) -> AddedFile:
    return AddedFile(
        path=path,
        size=size,
        rows=footer.num_rows,
        partition_values=values,
        modified_ms=time.time_ns() // 1_000_000,
        stats=stats.of_file(footer),
    )
