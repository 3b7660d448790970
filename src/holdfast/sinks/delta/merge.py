"""The Delta merge sink: upsert by key, newest wins.

    matched, newer or no `newest` column    the row is replaced
    matched, not newer                      the row stays
    not matched                             the row is added

Keys match as `IS NOT DISTINCT FROM`, so that a null key is a key like any other. Small batches
into tables of moderate size are merged by delta-rs on the driver; otherwise by Spark's MERGE.
delta-rs was faster at every size measured (`make bench`, 100,000 to 5 million rows in the table,
1,000 to 200,000 in the batch); what bounds it is the driver's memory, not time.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import CommitFailedError, DeltaError

from holdfast.errors import SchemaMismatch, SinkRefused
from holdfast.model.batch import Batch, LastWritten, Life, Standing
from holdfast.model.definition import DeltaMerge
from holdfast.sinks import batch_size, contract
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import ledger, schema
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.append import refused
from holdfast.sinks.delta.ledgered import LedgeredTable
from holdfast.sinks.delta.log import Head
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MODERATE_BYTES = 512 << 20
_ATTEMPTS = 20
_SIZE_INTERVAL = 20
_ORDER = "__holdfast_order"
_TXN_SETTINGS = (
    "spark.databricks.delta.write.txnAppId",
    "spark.databricks.delta.write.txnVersion",
    "spark.databricks.delta.commitInfo.userMetadata",
)


class DeltaMergeSink:
    """Merges each batch into a Delta table in one commit with its ledger."""

    def __init__(self, sink: DeltaMerge, app_id: str, options: Mapping[str, str]) -> None:
        self._sink = sink
        self._ledgered = LedgeredTable(sink, app_id, options)
        self._size = batch_size.BatchSize(most_rows=batch_size.SMALL_ROWS)
        self._fit = schema.Fit(sink.path)
        self._merges = 0
        self._table_bytes = 0

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from its transaction log."""
        return self._ledgered.last_written()

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:  # noqa: ARG002  JDBC needs it
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        self._require_columns(schema)
        self._ledgered.require_fit(schema, evolve=False)

    def prepare(self, life: Life, schema: "StructType", spark: "SparkSession") -> None:
        """Create the table if there is none, and fence older drivers by a commit."""
        self._require_columns(schema)
        self._ledgered.prepare(life, schema, spark)

    def _require_columns(self, schema: "StructType") -> None:
        names = {field.name for field in schema.fields}
        for column in (*self._sink.keys, *(c for c in [self._sink.newest] if c)):
            if column not in names:
                raise SchemaMismatch(
                    f"expected the merge column `{column}` among the rows for"
                    f" `{self._sink.path}`, found {', '.join(f'`{n}`' for n in sorted(names))}",
                    hint="name columns of the job's result as `keys` and `newest`",
                )

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Merge the rows with the ledger in one commit."""
        head = self._ledgered.log.head()
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:
            return Decision.SKIP
        fitted = self._fit.select(head.table, rows)
        if self._by_driver(head.table, batch):
            return self._merge_by_driver(head, batch, fitted)
        return self._merge_by_spark(batch, fitted)

    def _by_driver(self, table: deltalake.DeltaTable, batch: Batch) -> bool:
        if not tables.native_merge(table) or not self._size.small(batch):
            return False
        if self._merges % _SIZE_INTERVAL == 0:
            sizes = pa.table(self._ledgered.current().get_add_actions()).column("size_bytes")
            self._table_bytes = int(sum(sizes.to_pylist()))
        self._merges += 1
        return self._table_bytes <= MODERATE_BYTES

    def _merge_by_driver(self, head: Head, batch: Batch, rows: "DataFrame") -> Decision:
        collected = self._size.collected(batch, rows)
        newest = self._newest(
            collected.cast(schema.arrow_schema(head.table, tuple(collected.column_names)))
        )
        if newest.num_rows == 0:
            return self._ledgered.append(head, batch, [])
        for _ in range(_ATTEMPTS):
            # Opened before the look at the ledger: what comes later is a conflict to delta-rs.
            table = self._ledgered.current()
            if self._ledgered.decide(self._ledgered.log.head().standing, batch) is Decision.SKIP:
                return Decision.SKIP
            try:
                self._execute(table, batch, newest)
            except CommitFailedError:
                continue
            except (DeltaError, OSError) as error:
                raise self._ledgered.place.unavailable(error) from error
            return self._recorded(table, batch)
        raise contract.contended(self._sink.path)

    def _recorded(self, table: deltalake.DeltaTable, batch: Batch) -> Decision:
        """delta-rs makes no commit of a merge that changes nothing; then the ledger goes alone."""
        head = self._ledgered.log.head()
        if head.standing == Standing(epoch=batch.life.epoch, batch=batch.id):
            self._ledgered.checkpoint_log(table.version())
            return Decision.WRITE
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:
            return Decision.SKIP
        return self._ledgered.append(head, batch, [])

    def _execute(self, table: deltalake.DeltaTable, batch: Batch, rows: pa.Table) -> None:
        keys = [f'(s."{key}" IS NOT DISTINCT FROM t."{key}")' for key in self._sink.keys]
        version = self._sink.newest
        newer = f't."{version}" IS NULL OR s."{version}" > t."{version}"' if version else None
        (
            table.merge(
                rows,
                predicate=" AND ".join(keys),
                source_alias="s",
                target_alias="t",
                commit_properties=self._ledgered.properties(batch),
                post_commithook_properties=tables.NO_HOOKS,
            )
            .when_matched_update_all(predicate=newer)
            .when_not_matched_insert_all()
            .execute()
        )

    def _newest(self, rows: pa.Table) -> pa.Table:
        """One row a key: the newest, or the only one where nothing says which is newer."""
        ordered = self._oldest_first(rows) if self._sink.newest else rows
        order = pa.array(range(rows.num_rows), pa.int64())
        last = (
            ordered.select(list(self._sink.keys))
            .append_column(_ORDER, order)
            .group_by(list(self._sink.keys))
            .aggregate([(_ORDER, "max")])
        )
        if not self._sink.newest and last.num_rows < rows.num_rows:
            raise self._ambiguous(rows.num_rows - last.num_rows)
        return ordered.take(last.column(f"{_ORDER}_max"))

    def _oldest_first(self, rows: pa.Table) -> pa.Table:
        """A row that does not say how new it is counts as the oldest, as in Spark's max_by."""
        version = rows.column(self._sink.newest)
        keys = pa.table({"said": pc.is_valid(version), "version": version})
        return rows.take(pc.sort_indices(keys, [("said", "ascending"), ("version", "ascending")]))

    def _merge_by_spark(self, batch: Batch, rows: "DataFrame") -> Decision:
        from delta.tables import DeltaTable  # noqa: PLC0415  only where Spark runs
        from pyspark.errors import PySparkException  # noqa: PLC0415

        spark = rows.sparkSession
        tables.require_exclusive_commits(self._ledgered.place, spark)
        values = (
            self._ledgered.app_id,
            str(ledger.pack(batch.life.epoch, batch.id)),
            ledger.of_batch(batch, self._ledgered.app_id),
        )
        condition = " AND ".join(f"s.`{key}` <=> t.`{key}`" for key in self._sink.keys)
        version = self._sink.newest
        newer = f"t.`{version}` IS NULL OR s.`{version}` > t.`{version}`" if version else None
        for setting, value in zip(_TXN_SETTINGS, values, strict=True):
            spark.conf.set(setting, value)
        try:
            (
                DeltaTable.forPath(spark, urls.for_spark(self._sink.path))
                .alias("t")
                .merge(self._newest_by_spark(rows).alias("s"), condition)
                .whenMatchedUpdateAll(newer)
                .whenNotMatchedInsertAll()
                .execute()
            )
        except PySparkException as error:
            raise refused(self._sink.path, error) from error
        finally:
            # Unset, or the next write would pass for the same transaction.
            for setting in _TXN_SETTINGS:
                spark.conf.unset(setting)
        decision = self._ledgered.verify(batch)
        self._size.saw(batch, _source_rows(self._ledgered.current()), 0)
        return decision

    def _newest_by_spark(self, rows: "DataFrame") -> "DataFrame":
        from pyspark.sql import functions as F  # noqa: N812, PLC0415  only where Spark runs

        if not self._sink.newest:
            return rows
        newest = F.max_by(F.struct(*rows.columns), F.col(self._sink.newest))
        grouped = rows.groupBy(*self._sink.keys).agg(newest.alias("newest"))
        return grouped.select("newest.*")

    def _ambiguous(self, surplus: int) -> SinkRefused:
        return SinkRefused(
            f"expected each key once a batch for `{self._sink.path}`, found {surplus} rows more"
            " than keys, and no column says which is newer",
            hint='declare it: `delta_merge(path, keys=[…], newest="event_time")`',
        )


def _source_rows(table: deltalake.DeltaTable) -> int:
    """How many rows the last merge was given, by the metrics in its commit."""
    metrics = table.history(1)[0].get("operationMetrics")
    rows = metrics.get("numSourceRows") if isinstance(metrics, dict) else None
    return int(rows) if rows is not None else batch_size.SMALL_ROWS + 1
