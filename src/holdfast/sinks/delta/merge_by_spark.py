"""Merging a batch into a Delta table by Spark's MERGE, in one commit with the ledger."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.model.batch import Batch
from holdfast.sinks import batch_size
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import ledger, newest
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.append import refused
from holdfast.sinks.delta.ledgered import LedgeredTable
from holdfast.sinks.delta.newest import KEY_TWICE, KeyTwice, Rule
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_BYTES_PER_STORED_BYTE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What became of a batch, with how many rows it had and how many bytes they may take."""

    decision: Decision
    rows: int
    size: int


def merge(ledgered: LedgeredTable, batch: Batch, rows: "DataFrame", rule: Rule) -> Merged:
    """Merge the rows; raises KeyTwice, SinkRefused or SinkContended."""
    spark = rows.sparkSession
    tables.require_exclusive_commits(ledgered.place, spark)
    settings = {
        _TXN_APP: ledgered.app_id,
        _TXN_VERSION: str(ledger.pack(batch.life.epoch, batch.id)),
        _USER_METADATA: ledger.of_batch(batch, ledgered.app_id),
    }
    with _set(spark, settings):
        _execute(spark, ledgered.place.path, rows, rule)
    decision = ledgered.verify(batch)
    metrics = ledgered.current().history(1)[0].get("operationMetrics")
    return _merged(decision, metrics)


@contextmanager
def _set(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        yield
    finally:
        # Unset, or the next write would pass for the same transaction.
        for setting in settings:
            spark.conf.unset(setting)


def _execute(spark: "SparkSession", path: str, rows: "DataFrame", rule: Rule) -> None:
    from delta.tables import DeltaTable  # noqa: PLC0415  only where Spark runs
    from pyspark.errors import PySparkException  # noqa: PLC0415

    # Named one by one: with `*` Spark wants every column of the table.
    columns: dict[str, str | Column] = {f"`{name}`": f"s.`{name}`" for name in rows.columns}
    column = rule.newest
    newer = f"t.`{column}` IS NULL OR s.`{column}` > t.`{column}`" if column else None
    condition = " AND ".join(f"s.`{key}` <=> t.`{key}`" for key in rule.keys)
    try:
        chosen = newest.choose_by_executors(rows, rule).alias("s")
        target = DeltaTable.forPath(spark, urls.for_spark(path)).alias("t")
        merging = target.merge(chosen, condition)
        updating = (
            merging.whenMatchedUpdate(newer, columns)
            if newer
            else merging.whenMatchedUpdate(set=columns)
        )
        updating.whenNotMatchedInsert(values=columns).execute()
    except PySparkException as error:
        if KEY_TWICE in str(error):
            raise KeyTwice from None
        raise refused(path, error) from error


def _merged(decision: Decision, metrics: object) -> Merged:
    """What the commit says of the rows.

    A merge does not say how many bytes its rows take in memory: that is guessed from their number
    and from what was written, and never too low.
    """
    said = metrics if isinstance(metrics, dict) else {}
    rows = int(said.get("numSourceRows", batch_size.SMALL_ROWS + 1))
    stored = int(said.get("numTargetBytesAdded", 0))
    size = max(rows * batch_size.GUESSED_BYTES_PER_ROW, stored * _BYTES_PER_STORED_BYTE)
    return Merged(decision=decision, rows=rows, size=size)
