"""Rows -> Parquet files in the table's folder -> files that a commit can name.

Two ways, one outcome: files that no reader sees until the commit names them. Small batches are
collected as Arrow and written by the driver, because a Spark write job costs more than the rows;
larger ones are written by the executors (executors.py), and the driver reads only their footers.
Files of a run that was killed before its commit are never named in the log; the table's VACUUM
removes them as it does for every writer.
"""

import io
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.errors import RowsMiscounted
from holdfast.sinks.delta import stats
from holdfast.sinks.delta.layout import Layout
from holdfast.storage import Folder, Missing

_FOOTER_THREADS = 8
_WRITE_THREADS = 8
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A file as its writer says that it wrote it."""

    path: str
    size: int
    partition_values: Mapping[str, str | None]


def write_by_driver(
    store: Folder, folder: str, rows: pa.Table, texts: pa.Table, layout: Layout
) -> list[AddedFile]:
    """Write the collected rows, one file per partition of the table.

    `texts` has the partition values of the rows as text, one column per partition column.
    """

    def write(index: int, values: Mapping[str, str | None], part: pa.Table) -> AddedFile:
        buffer = io.BytesIO()
        footers: list[pq.FileMetaData] = []
        pq.write_table(part, buffer, compression=layout.compression, metadata_collector=footers)
        data = buffer.getvalue()
        path = f"{folder}/part-{index:05d}.parquet"
        store.write(path, data)
        return _make_added_file(path, len(data), values, footers[0], layout)

    with ThreadPoolExecutor(_WRITE_THREADS) as pool:
        numbered = ((index, *one) for index, one in enumerate(_split_partitions(rows, texts)))
        return list(pool.map(lambda one: write(*one), numbered))


class FileDiffers(Exception):
    """Storage does not have a file as its writer says that it wrote it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read_back(
    store: Folder, table: str, written: Sequence[WrittenFile], layout: Layout
) -> list[AddedFile]:
    """Return the files with rows, as storage has them before a commit names them."""
    try:
        return read_files(store, written, layout)
    except FileDiffers as error:
        raise make_miscounted_error(table, error.reason) from error


def read_files(store: Folder, written: Sequence[WrittenFile], layout: Layout) -> list[AddedFile]:
    """Return the files with rows, as storage has them now; raises FileDiffers."""
    with ThreadPoolExecutor(_FOOTER_THREADS) as pool:
        found = list(pool.map(lambda file: _read_file(store, file, layout), written))
    return [file for file in found if file.rows]


def require_rows(table: str, files: Sequence[AddedFile], produced: int) -> None:
    """Raise where the files to be committed hold fewer or more rows than the plan produced."""
    found = sum(file.rows for file in files)
    if found != produced:
        raise make_miscounted_error(
            table, f"the plan produced {produced} rows, its files hold {found}"
        )


def read_footer(store: Folder, path: str) -> pq.FileMetaData | None:
    """Return the footer of a Parquet file, or None where there is none that can be read."""
    tail = _read_tail(store, path, _FOOTER_BYTES)
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    if needed > len(tail):
        tail = _read_tail(store, path, needed)
    try:
        return pq.read_metadata(pa.BufferReader(tail))
    except (pa.ArrowException, OSError):
        return None


def _read_file(store: Folder, file: WrittenFile, layout: Layout) -> AddedFile:
    footer = read_footer(store, file.path)
    if footer is None:
        reason = f"`{file.path}` was written with {file.size} bytes and cannot be read"
        raise FileDiffers(reason)
    if (size := store.size(file.path)) != file.size:
        reason = f"`{file.path}` was written with {file.size} bytes and has {size}"
        raise FileDiffers(reason)
    return _make_added_file(file.path, file.size, file.partition_values, footer, layout)


def make_miscounted_error(table: str, reason: str) -> RowsMiscounted:
    """Return the error of a batch that is not committed because its rows are not all there."""
    return RowsMiscounted(
        f"Cannot commit the batch to the Delta table `{table}`: {reason}",
        hint="let the batch run again; nothing of it was written",
    )


def _read_tail(store: Folder, path: str, size: int) -> bytes:
    found = store.read(path, last=size)
    return b"" if isinstance(found, Missing) else found


def _split_partitions(
    rows: pa.Table, texts: pa.Table
) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """The rows of each partition of the table, without the partition columns."""
    names = texts.column_names
    if not names:
        if rows.num_rows:
            yield {}, rows
        return
    # By number: pyarrow reads a name that begins with a dot or a bracket as a path.
    numbered = texts.rename_columns([str(index) for index in range(len(names))])
    order = pc.sort_indices(numbered, [(name, "ascending") for name in numbered.column_names])
    keys = list(zip(*(texts.column(name).take(order).to_pylist() for name in names), strict=True))
    data = rows.drop_columns(names).take(order)
    start = 0
    for end in range(1, len(keys) + 1):
        if end == len(keys) or keys[end] != keys[start]:
            yield dict(zip(names, keys[start], strict=True)), data.slice(start, end - start)
            start = end


def _make_added_file(
    path: str,
    size: int,
    values: Mapping[str, str | None],
    footer: pq.FileMetaData,
    layout: Layout,
) -> AddedFile:
    return AddedFile(
        path=path,
        size=size,
        rows=footer.num_rows,
        partition_values=values,
        modified_ms=time.time_ns() // 1_000_000,
        stats=stats.to_json(footer, layout),
    )
