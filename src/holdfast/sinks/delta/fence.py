"""Shutting out the drivers of lower epochs by a commit to the table.

The fence is a commit of the app transaction with the new epoch. A driver that looked at the table
before it loses against it, because it must create the very log entry that the fence took; one
that looks later sees the higher epoch.

The older driver may be alive and commit every few milliseconds, while opening a table takes tens
of them. So the table is opened once, and from there its log is followed entry by entry, as the
older driver does: whoever creates the next entry first wins it.

Where Spark has to commit, a transaction of Delta's is started first, and the log is followed up to
the version that it started on. If another driver of the job commits after that, it is a conflict to
Delta, and the fence starts over.
"""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import deltalake

from holdfast.errors import SinkBehind, SinkContended
from holdfast.model import advice
from holdfast.model.batch import LastWritten, NothingWritten, Writer, WrittenBatch
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.sinks import contract, spark_failure
from holdfast.sinks.delta import executors, ledger, log
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.table import DeltaLocation
from holdfast.storage import Folder, Missing, exclusive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_OPENINGS = 20
_ENTRIES = 10_000
_GONE = Unknown(reason=ledger.CLEANED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fence:
    """Who shuts others out, and where."""

    place: DeltaLocation
    store: Folder
    life: Writer
    app_id: str


def fence_older_drivers(
    place: DeltaLocation,
    store: Folder,
    life: Writer,
    app_id: str,
    schema: "StructType",
    spark: "SparkSession",
) -> None:
    """Create the table if there is none, and shut out drivers of lower epochs."""
    mine = _Fence(place=place, store=store, life=life, app_id=app_id)
    for _ in range(_OPENINGS):
        table = place.open()
        if table is None:
            if place.by_spark:
                place.create_by_spark(schema, spark)
            else:
                place.create(life, app_id, schema, spark)
            continue
        last = ledger.read_last_written(table, app_id)
        _require_rows_kept(place, last, life)
        if isinstance(last, Unknown) or _has_fence(table, app_id, last, life):
            return
        if place.by_spark or not tables.allows_native_append(table):
            _commit_by_spark(mine, table, last, spark)
        elif _commit_at_end(mine, table, last):
            return
    raise contract.make_contended_error(place.path)


def _require_rows_kept(place: DeltaLocation, last: LastWritten, life: Writer) -> None:
    """Raise if somebody restored the table since its last batch, and nobody accepted that.

    The fence is a commit after the restore: later starts would take the restore for history.
    """
    if isinstance(last, WrittenBatch) and last.taken_back and life.gap_before is None:
        raise SinkBehind(
            f"Cannot start job `{life.job}`: the Delta table `{place.path}` was restored to an"
            f" earlier version after batch {last.batch} was written",
            hint=advice.BEHIND,
        )


def _has_fence(
    table: deltalake.DeltaTable, app_id: str, last: WrittenBatch | NothingWritten, life: Writer
) -> bool:
    """Whether this driver's fence is there, and carries on the last batch; raises if a newer is."""
    if _is_ours(last, life):
        return ledger.read_standing(table, app_id).batch == _get_batch(last)
    if last.epoch >= life.epoch:
        raise contract.make_fenced_error(life, last.epoch)
    return False


def _is_ours(last: WrittenBatch | NothingWritten, life: Writer) -> bool:
    """Whether this very driver has fenced the table: another base may have the same epoch."""
    return last.epoch == life.epoch and last.location in (life.location, _GONE)


def _get_batch(last: LastWritten) -> BatchId | None:
    return last.batch if isinstance(last, WrittenBatch) else None


def _commit_at_end(
    mine: _Fence, table: deltalake.DeltaTable, last: WrittenBatch | NothingWritten
) -> bool:
    """Create the first log entry that is free; False if the table must be opened again."""
    partition_by = tuple(table.metadata().partition_columns)
    version = table.version() + 1
    for _ in range(_ENTRIES):
        data = mine.store.read(log.name_entry(version))
        if isinstance(data, Missing):
            transaction = ledger.pack(mine.life.epoch, _get_batch(last))
            said = ledger.format_start(mine.life, mine.app_id, last)
            text = log.format_commit(mine.app_id, transaction, said, partition_by, ())
            if exclusive.create(mine.store, log.name_entry(version), text):
                return True
            continue
        moved = _read_moved(last, data, mine.app_id)
        if isinstance(moved, Unknown) or moved.epoch >= mine.life.epoch:
            return False
        last, version = moved, version + 1
    return False


def _read_moved(
    last: WrittenBatch | NothingWritten, data: bytes, app_id: str
) -> WrittenBatch | NothingWritten | Unknown:
    """What the table holds for the job after one more commit."""
    for line in data.splitlines():
        action = json.loads(line) if line else {}
        operation = action.get("commitInfo", {}).get("operation")
        if "metaData" in action or "protocol" in action or operation == ledger.RESTORE:
            return Unknown(reason="the commit changes more than rows")
        if action.get("txn", {}).get("appId") == app_id:
            return ledger.read_commit(data, app_id, action["txn"]["version"])
    return last


def _commit_by_spark(
    mine: _Fence,
    table: deltalake.DeltaTable,
    last: WrittenBatch | NothingWritten,
    spark: "SparkSession",
) -> None:
    """Let Spark commit the fence, or nothing where the table must be opened again."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    path = mine.place.path
    tables.require_exclusive_commits(mine.place, spark)
    try:
        opened = executors.start(spark, path, table, table.version())
        version = opened.snapshot().version()
        now = _follow(mine, last, range(table.version() + 1, version + 1))
        if isinstance(now, Unknown):
            return
        transaction = executors.AppTransaction(
            path=path,
            app_id=mine.app_id,
            version=ledger.pack(mine.life.epoch, _get_batch(now)),
            said=ledger.format_start(mine.life, mine.app_id, now, decided_on=version),
        )
        executors.move_ledger(spark, opened, transaction)
    except SinkContended:
        return
    except (PySparkException, Py4JJavaError) as error:
        if not spark_failure.is_conflict(error):
            raise


def _follow(
    mine: _Fence, last: WrittenBatch | NothingWritten, versions: range
) -> WrittenBatch | NothingWritten | Unknown:
    """What the table holds for the job after more commits, if those are none of a newer driver."""
    for version in versions:
        data = mine.store.read(log.name_entry(version))
        if isinstance(data, Missing):
            return Unknown(reason="the commit is not there")
        moved = _read_moved(last, data, mine.app_id)
        if isinstance(moved, Unknown) or moved.epoch >= mine.life.epoch:
            return Unknown(reason="the commit changes more than rows, or is of a newer driver")
        last = moved
    return last
