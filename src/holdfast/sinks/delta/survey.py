"""Which tables the driver may merge into: a look at the files that are in them.

delta-rs rewrites every file that has a key of the batch, with all the rows in it. Rows that are not
in the batch must come out as they went in, so the driver merges only into files that delta-rs reads
exactly as Spark does:

    paths       of plain characters: delta-rs escapes others differently than Spark, and then
                removes a file under a name that Spark does not know
    INT96       delta-rs reads these time stamps as nanoseconds, which end in 1677 and 2262
    nanoseconds Spark does not read them
    calendar    Spark moves the dates and time stamps of files that say that they are in the old
                calendar, or that were written before Spark 3; delta-rs does not
    writer      a file that names neither Spark nor a library that knows no old calendar may be in
                either one

Everything else goes to Spark's MERGE. Paths and sizes come from the table's log; the rest from the
footers of the files, each of which is read once in the life of a driver, and only where the table
has dates or time stamps.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.model import json
from holdfast.sinks.delta import parquet
from holdfast.sinks.delta import table as tables
from holdfast.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODERATE_BYTES = 512 << 20
MODERATE_FILES = 20_000
_FOOTERS = 1_000
_THREADS = 8
_FIRST_PAUSE = 20
_LONGEST_PAUSE = 1_280
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.=/-")
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK = b"org.apache.spark.version"
_FIRST_SPARK = b"3.0.0"
"""The first version of Spark that writes today's calendar."""
_WRITERS = ("parquet-cpp", "parquet-rs", "delta-rs")
"""Libraries that know no other calendar."""
_UNITS = ("milliseconds", "microseconds")
_REBASE = "spark.sql.parquet.datetimeRebaseModeInRead"


class Survey:
    """Looks at the files of one table, and remembers what does not change.

    A table that the driver may not merge into is looked at again after 20 merges, 40, 80, …: a look
    loads the names of all its files.
    """

    def __init__(self, store: Callable[[], Folder]) -> None:
        self._store = store
        self._admitted = False
        self._pause = 0
        self._waited = 0
        self._rebases = False
        self._exact: frozenset[str] = frozenset()
        self._other: frozenset[str] = frozenset()

    def admits(self, spark: "SparkSession", table: Callable[[], deltalake.DeltaTable]) -> bool:
        """Whether the driver may merge, by the last look; the merge itself has to look again."""
        self._rebases = spark.conf.get(_REBASE, None) == "LEGACY"
        if self._admitted:
            return True
        self._waited += 1
        return self._waited > self._pause and self.look(table())

    def look(self, table: deltalake.DeltaTable) -> bool:
        """Whether the driver may merge into this very version of the table."""
        self._admitted = self._suits(table)
        self._waited = 0
        longer = min(max(_FIRST_PAUSE, self._pause * 2), _LONGEST_PAUSE)
        self._pause = 0 if self._admitted else longer
        return self._admitted

    def _suits(self, table: deltalake.DeltaTable) -> bool:
        actions = pa.table(table.get_add_actions())
        paths = actions.column("path").to_pylist()
        if len(paths) > MODERATE_FILES or not all(_PLAIN.issuperset(path) for path in paths):
            return False
        if sum(actions.column("size_bytes").to_pylist()) > MODERATE_BYTES:
            return False
        times = _find_times(table)
        if not times:
            return True
        # Where the session rebases, Spark moves the dates of files without a version of Spark, too.
        return not self._rebases and self._are_exact(paths, times)

    def _are_exact(self, paths: Sequence[str], times: frozenset[str]) -> bool:
        """Whether delta-rs reads all the files as Spark does.

        A look reads a bounded number of footers: what is left over is left to the next ones.
        """
        live = frozenset(paths)
        self._exact, self._other = self._exact & live, self._other & live
        if self._other:
            return False
        unknown = sorted(live - self._exact)
        with ThreadPoolExecutor(_THREADS) as pool:
            footers = pool.map(self._read, unknown[:_FOOTERS])
            found = {
                path: footer is not None and _is_exact(footer, times)
                for path, footer in zip(unknown, footers, strict=False)
            }
        self._exact |= {path for path, exact in found.items() if exact}
        self._other |= {path for path, exact in found.items() if not exact}
        return not self._other and len(unknown) <= _FOOTERS

    def _read(self, path: str) -> pq.FileMetaData | None:
        """Return the footer; None of a file outside of the table's folder, or that is not there."""
        return None if path.startswith("/") else parquet.read_footer(self._store(), path)


def _find_times(table: deltalake.DeltaTable) -> frozenset[str]:
    """Return the kinds of dates and time stamps that the files of the table have."""
    schema = json.as_mapping(json.parse(table.schema().to_json()))
    by = table.metadata().partition_columns
    fields = json.as_sequence(schema.get("fields"))
    kept = [field for field in fields if json.as_mapping(field).get("name") not in by]
    return frozenset(tables.list_kinds({"type": "struct", "fields": kept})) & _TIMES


def _is_exact(footer: pq.FileMetaData, times: frozenset[str]) -> bool:
    said = footer.metadata or {}
    if any(mark in said for mark in _OLD_CALENDAR):
        return False
    version = said.get(_SPARK)
    if version is None and not (footer.created_by or "").startswith(_WRITERS):
        return False
    if version is not None and version < _FIRST_SPARK:
        return False
    columns = (footer.schema.column(index) for index in range(footer.num_columns))
    return all(_reads_alike(column, times) for column in columns)


def _reads_alike(column: pq.ColumnSchema, times: frozenset[str]) -> bool:
    if column.physical_type == "INT96":
        return False
    if column.logical_type.type != "TIMESTAMP":
        return True
    said = json.as_mapping(json.parse(column.logical_type.to_json()))
    kind = "timestamp" if said.get("isAdjustedToUTC") else "timestamp_ntz"
    return said.get("timeUnit") in _UNITS and kind in times
