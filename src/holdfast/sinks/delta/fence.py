"""Shutting out the drivers of lower epochs by a commit to the table.

The fence is a commit of the app transaction with the new epoch. A driver that looked at the table
before it loses against it, because it must create the very log entry that the fence took; one
that looks later sees the higher epoch.

The older driver may be alive and commit every few milliseconds, while opening a table takes tens
of them. So the table is opened once, and from there its log is followed entry by entry, as the
older driver does: whoever creates the next entry first wins it.

Spark's writer cannot be told after which entry its commit is to stand. If the older driver commits
a batch just before it, the fence carries the batch before on; so one more commit of Spark's puts
that right, now that no older driver can commit any more.
"""

import json
from typing import TYPE_CHECKING

import deltalake

from holdfast.errors import SinkBehind
from holdfast.model import advice
from holdfast.model.batch import LastWritten, Life, Nothing, Unknown, Written
from holdfast.model.ids import BatchId
from holdfast.sinks import contract, spark_failure
from holdfast.sinks.delta import ledger, log
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.table import Place
from holdfast.storage import Folder, Missing, exclusive, urls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_OPENINGS = 20
_ENTRIES = 10_000
_GONE = Unknown(reason=ledger.CLEANED)


def fence(
    place: Place,
    store: Folder,
    life: Life,
    app_id: str,
    schema: "StructType",
    spark: "SparkSession",
) -> None:
    """Create the table if there is none, and shut out drivers of lower epochs."""
    for _ in range(_OPENINGS):
        table = place.open()
        if table is None:
            if place.by_spark:
                place.create_by_spark(schema, spark)
            else:
                place.create(life, app_id, schema)
            continue
        last = ledger.last_written(table, app_id)
        _require_rows_kept(place, last, life)
        if isinstance(last, Unknown) or _stands(table, app_id, last, life):
            return
        if place.by_spark or not tables.native_append(table):
            said = ledger.of_start(life, app_id, last, decided_on=table.version())
            _commit_by_spark(place, life, app_id, last, said, spark)
        elif _commit_at_end(store, table, life, app_id, last):
            return
    raise contract.contended(place.path)


def _require_rows_kept(place: Place, last: LastWritten, life: Life) -> None:
    """Raise if somebody restored the table since its last batch, and nobody accepted that.

    The fence is a commit after the restore: later starts would take the restore for history.
    """
    if isinstance(last, Written) and last.taken_back and life.gap_before is None:
        raise SinkBehind(
            f"Cannot start job `{life.job}`: the Delta table `{place.path}` was restored to an"
            f" earlier version after batch {last.batch} was written",
            hint=advice.BEHIND,
        )


def _stands(table: deltalake.DeltaTable, app_id: str, last: Written | Nothing, life: Life) -> bool:
    """Whether this driver's fence is there, and carries on the last batch; raises if a newer is."""
    if _is_ours(last, life):
        return ledger.standing(table, app_id).batch == _batch(last)
    if last.epoch >= life.epoch:
        raise contract.fenced(life, last.epoch)
    return False


def _is_ours(last: Written | Nothing, life: Life) -> bool:
    """Whether this very driver has fenced the table: another base may have the same epoch."""
    return last.epoch == life.epoch and last.location in (life.location, _GONE)


def _batch(last: LastWritten) -> BatchId | None:
    return last.batch if isinstance(last, Written) else None


def _commit_at_end(
    store: Folder, table: deltalake.DeltaTable, life: Life, app_id: str, last: Written | Nothing
) -> bool:
    """Create the first log entry that is free; False if the table has to be opened anew."""
    partition_by = tuple(table.metadata().partition_columns)
    version = table.version() + 1
    for _ in range(_ENTRIES):
        data = store.read(log.path(version))
        if isinstance(data, Missing):
            transaction = ledger.pack(life.epoch, _batch(last))
            said = ledger.of_start(life, app_id, last)
            text = log.commit_text(app_id, transaction, said, partition_by, ())
            if exclusive.create(store, log.path(version), text):
                return True
            continue
        moved = _moved(last, data, app_id)
        if isinstance(moved, Unknown) or moved.epoch >= life.epoch:
            return False
        last, version = moved, version + 1
    return False


def _moved(last: Written | Nothing, data: bytes, app_id: str) -> Written | Nothing | Unknown:
    """What the table holds for the job after one more commit."""
    for line in data.splitlines():
        action = json.loads(line) if line else {}
        operation = action.get("commitInfo", {}).get("operation")
        if "metaData" in action or "protocol" in action or operation == ledger.RESTORE:
            return Unknown(reason="the commit changes more than rows")
        if action.get("txn", {}).get("appId") == app_id:
            return ledger.last_in_commit(data, app_id, action["txn"]["version"])
    return last


def _commit_by_spark(
    place: Place, life: Life, app_id: str, last: LastWritten, said: str, spark: "SparkSession"
) -> None:
    from pyspark.errors import PySparkException  # noqa: PLC0415  only where Spark runs

    tables.require_exclusive_commits(place, spark)
    empty = tables.no_rows(spark, place)
    try:
        (
            empty.write.format("delta")
            .mode("append")
            .option("txnAppId", app_id)
            .option("txnVersion", ledger.pack(life.epoch, _batch(last)))
            .option("userMetadata", said)
            .save(urls.for_spark(place.path))
        )
    except PySparkException as error:
        if not spark_failure.is_conflict(error):
            raise
