"""Rows -> files of the table, by Delta's own writer on the executors.

Delta's transaction writes the files and returns what a commit says of them: names, sizes and
partition values come from the tasks that wrote, not from a look into a folder. The commit is
holdfast's own, since it must be conditional and carry the ledger. Where the table asks more of a
writer than holdfast does, the same transaction makes the commit, after the same count.

Rows are counted by the plan itself while it runs, and by the footers of the files afterwards.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import deltalake

from holdfast.errors import SinkContended, SinkRefused, SinkUnavailable
from holdfast.sinks import caching
from holdfast.sinks.delta import parquet
from holdfast.sinks.delta.layout import Layout
from holdfast.sinks.delta.log import Head
from holdfast.sinks.delta.parquet import AddedFile, WrittenFile
from holdfast.storage import Folder, urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COUNT_SECONDS = 120
_ZONE = "spark.sql.session.timeZone"
_UTC = frozenset({"UTC", "Etc/UTC"})
# The footers have the statistics already; Delta's writer would compute them once more, which took
# half of the time again.
_STATISTICS = "spark.databricks.delta.stats.collect"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppTransaction:
    """What a commit says of the job's ledger: in which table, whose, how far, and the ledger."""

    path: str
    app_id: str
    version: int
    said: str


def write_files(
    store: Folder, path: str, head: Head, rows: "DataFrame", layout: Layout
) -> tuple[list[AddedFile], int]:
    """Write the rows; return the files as storage holds them, and how many rows the plan had."""
    transaction = start(rows.sparkSession, path, head.table, head.version)
    with override_settings(rows.sparkSession, {_STATISTICS: "false"}):
        actions, frame, count = _write(transaction, head, rows)
    produced = frame.queryExecution().observedMetrics().apply(count.name()).getLong(0)
    return parquet.read_back(store, path, _read_actions(actions), layout), int(produced)


def append(  # type: ignore[no-untyped-def]
    store: Folder,
    opened,  # noqa: ANN001  a Java object
    head: Head,
    rows: "DataFrame",
    transaction: AppTransaction,
) -> None:
    """Write the rows, count them, and let Delta's transaction commit them with the ledger.

    Writes nothing where the table has this batch or a newer one of the job already.
    """
    path = transaction.path
    if not _watch_ledger(opened, transaction):
        return
    actions, _, count = _write(opened, head, rows)
    files = parquet.read_back(store, path, _read_actions(actions), Layout())
    parquet.require_rows(path, files, _await_count(path, count))
    _commit(rows.sparkSession, opened, actions, transaction)


def move_ledger(  # type: ignore[no-untyped-def]
    spark: "SparkSession",
    opened,  # noqa: ANN001  a Java object
    transaction: AppTransaction,
) -> None:
    """Let Delta's transaction commit the ledger alone, unless the table has a newer one."""
    if _watch_ledger(opened, transaction):
        classes = spark._jvm  # noqa: SLF001  PySpark does not pass Delta's writer on
        nothing = classes.org.apache.spark.api.python.PythonUtils.toSeq([])  # type: ignore[union-attr]
        _commit(spark, opened, nothing, transaction)


def _watch_ledger(opened, transaction: AppTransaction) -> bool:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Return whether the ledger is older; a commit that moves it from now on is a conflict.

    The answer alone proves nothing: Delta forgets transactions that the table lets expire.
    """
    return bool(opened.txnVersion(transaction.app_id) < transaction.version)


def _commit(  # type: ignore[no-untyped-def]
    spark: "SparkSession",
    opened,  # noqa: ANN001  a Java object
    actions,  # noqa: ANN001  a Java object
    transaction: AppTransaction,
) -> None:
    classes = spark._jvm  # noqa: SLF001  PySpark does not pass Delta's writer on
    assert classes is not None  # noqa: S101  a session that runs has one
    nothing = classes.scala.Option.empty()
    # Without a time, a table that lets transactions expire would forget this one at once.
    now = classes.java.lang.System.currentTimeMillis()
    ledger = classes.org.apache.spark.sql.delta.actions.SetTransaction(
        transaction.app_id, transaction.version, classes.scala.Option.apply(now)
    )
    by = opened.metadata().partitionColumns()
    known = [
        classes.org.apache.spark.sql.SaveMode.Append,
        classes.scala.Option.apply(by),
        nothing,
        classes.scala.Option.apply(transaction.said),
    ]
    kind = getattr(classes.org.apache.spark.sql.delta, "DeltaOperations$Write")
    taken = _count_parameters(opened, kind)
    operation = kind(*known, *([nothing] * (taken - len(known))))
    opened.commit(actions.appended(ledger), operation)


def _count_parameters(transaction, kind) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Return how many values this version of Delta makes the class of; newer ones take more."""
    loader = transaction.getClass().getClassLoader()
    constructor = loader.loadClass(kind._fqn).getConstructors()[0]  # noqa: SLF001
    return int(constructor.getParameterCount())


def start(  # type: ignore[no-untyped-def]  # noqa: ANN201
    spark: "SparkSession", path: str, table: deltalake.DeltaTable, version: int
):
    """Start a transaction of Delta's on the table as it is now, a Java object.

    Raises SinkContended where that is not the given table, or an older version of it.
    """
    log = open_log(spark, path)
    transaction = log.startTransaction()
    _require_same_table(spark, path, (table, version), log, transaction.snapshot())
    return transaction


def _write(transaction, head: Head, rows: "DataFrame"):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
    """Write the files; return Delta's actions for them, the plan and its count, Java objects."""
    from pyspark.sql import functions as F  # noqa: N812  only where Spark runs

    classes = rows.sparkSession._jvm  # noqa: SLF001  PySpark does not pass Delta's writer on
    count = classes.org.apache.spark.sql.Observation()  # type: ignore[union-attr]
    none = classes.org.apache.spark.api.python.PythonUtils.toSeq([])  # type: ignore[union-attr]
    with spell_instants_in_utc(head, rows) as held:
        every = F.count(F.lit(1)).alias("rows")._jc  # noqa: SLF001
        frame = held._jdf.observe(count, every, none)  # noqa: SLF001
        actions = transaction.writeFiles(frame)
    return actions, frame, count


def _await_count(path: str, count) -> int:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Return how many rows the plan had, which Spark reports a moment after the write.

    The plan itself does not know where Delta has computed columns of the table into it.
    """
    ends = time.monotonic() + _COUNT_SECONDS
    while (found := count.getRowOrEmpty()).isEmpty():
        if time.monotonic() > ends:
            raise SinkUnavailable(
                f"Cannot commit the batch to the Delta table `{path}`: Spark did not report within"
                f" {_COUNT_SECONDS} seconds how many rows the batch has",
                hint="let the batch run again; nothing of it was written",
            )
    return int(found.get().getLong(0))


def _require_same_table(  # type: ignore[no-untyped-def]
    spark: "SparkSession",
    path: str,
    wanted: tuple[deltalake.DeltaTable, int],
    log,  # noqa: ANN001  a Java object
    snapshot,  # noqa: ANN001  a Java object
) -> None:
    """Raise where Spark remembers another table at this place, or an older version of it."""
    table, version = wanted
    known = snapshot.metadata().id() == str(table.metadata().id)
    if known and snapshot.version() >= version:
        return
    classes = spark._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
    classes.DeltaLog.invalidateCache(spark._jsparkSession, log.dataPath())  # noqa: SLF001
    raise SinkContended(
        f"Spark reads version {snapshot.version()} of the Delta table `{path}`, which is already"
        f" at {version}" + ("" if known else " and was created again"),
        hint="let the batch run again; nothing of it was written",
    )


def open_log(spark: "SparkSession", path: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """Return Delta's own handle of the table, a Java object."""
    classes = spark._jvm.org.apache.spark.sql.delta  # type: ignore[union-attr]  # noqa: SLF001
    return classes.DeltaLog.forTable(spark._jsparkSession, urls.to_spark_url(path))  # noqa: SLF001


@contextmanager
def spell_instants_in_utc(head: Head, rows: "DataFrame") -> Iterator["DataFrame"]:
    """Let Spark spell partition values in UTC while the block writes the rows.

    Spark spells an instant in local time and reads it back: in the hour that a change of the clock
    repeats, two instants have one text. The rows are computed before, in the zone of the session:
    a pandas function of the job sees time stamps in the zone that is set while it runs.

    Generated columns and constraints of the table are computed while it is written, so that such a
    table is written in the zone of the session: `require_zone` has refused one that cannot be.
    """
    spark = rows.sparkSession
    if spark.conf.get(_ZONE) in _UTC or not _has_instants(head) or not head.native:
        yield rows
        return
    with caching.cache(rows) as held:
        held.count()
        with override_settings(spark, {_ZONE: "UTC"}):
            yield held


def require_zone(head: Head, spark: "SparkSession", path: str) -> None:
    """Raise where the session's zone repeats an hour, in which two instants would become one."""
    zone = spark.conf.get(_ZONE) or ""
    if zone in _UTC or head.native or not _has_instants(head):
        return
    raise SinkRefused(
        f"Cannot write to the Delta table `{path}` in the time zone `{zone}`: the table is"
        " partitioned by time stamps and has generated columns, constraints or features that only"
        " Spark's Delta writer fills, which confuses the two instants of an hour that a change of"
        " the clock repeats",
        hint=f'declare the job with `settings={{"{_ZONE}": "UTC"}}`',
    )


def _has_instants(head: Head) -> bool:
    """Return whether the table is partitioned by time stamps."""
    kinds = {one.name: one.type for one in head.table.schema().fields}
    return any(getattr(kinds.get(name), "type", None) == "timestamp" for name in head.partition_by)


@contextmanager
def override_settings(spark: "SparkSession", chosen: Mapping[str, str]) -> Iterator[None]:
    """Let the session have these settings for a while."""
    before = {key: value for key in chosen if (value := spark.conf.get(key, None)) is not None}
    for key, value in chosen.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key in chosen:
            spark.conf.unset(key)
        for key, value in before.items():
            spark.conf.set(key, value)


def _read_actions(actions) -> list[WrittenFile]:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Return the files that Delta's actions name."""
    added = [json.loads(actions.apply(index).json())["add"] for index in range(actions.size())]
    return [
        WrittenFile(
            path=unquote(one["path"]), size=one["size"], partition_values=one["partitionValues"]
        )
        for one in added
    ]
