"""The Delta append sink."""

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

import deltalake
from deltalake.exceptions import DeltaError

from holdfast.errors import SinkContended, SinkRefused
from holdfast.model.batch import Batch, LastWritten, Life
from holdfast.model.definition import DeltaAppend
from holdfast.sinks import batch_size, contract
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import ledger, parquet, schema
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.ledgered import LedgeredTable
from holdfast.sinks.delta.log import Head
from holdfast.sinks.delta.parquet import AddedFile
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class DeltaAppendSink:
    """Appends each batch to a Delta table in one commit with its ledger."""

    def __init__(self, sink: DeltaAppend, app_id: str, options: Mapping[str, str]) -> None:
        self._sink = sink
        self._ledgered = LedgeredTable(sink, app_id, options)
        self._size = batch_size.BatchSize(most_rows=batch_size.SMALL_ROWS)
        self._fit = schema.Fit(sink.path)

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from its transaction log."""
        return self._ledgered.last_written()

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:  # noqa: ARG002  JDBC needs it
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        self._ledgered.require_fit(schema, evolve=self._sink.evolve)

    def prepare(self, life: Life, schema: "StructType", spark: "SparkSession") -> None:
        """Create the table if there is none, and fence older drivers by a commit."""
        self._ledgered.prepare(life, schema, spark)
        self._evolve(self._ledgered.log.head(), schema)

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Write the files first and then name them in one commit with the ledger.

        Files before commit: a crash in between leaves files that no reader sees.
        """
        head = self._ledgered.log.head()
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:
            return Decision.SKIP
        head = self._evolve(head, rows.schema)
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:  # it may be a newer one
            return Decision.SKIP
        fitted = self._fit.select(head.table, rows)
        if not head.native:
            return self._write_by_spark(batch, fitted)
        return self._ledgered.append(head, batch, self._files(head, batch, fitted))

    def _files(self, head: Head, batch: Batch, rows: "DataFrame") -> list[AddedFile]:
        folder = f"holdfast-{batch.life.generation}-{batch.id}-{secrets.token_hex(4)}"
        store = self._ledgered.store
        if self._size.small(batch):
            collected = self._size.collected(batch, rows)
            data = collected.cast(schema.arrow_schema(head.table, tuple(collected.column_names)))
            return parquet.by_driver(store, folder, data, head.partition_by)
        files = parquet.by_executors(store, self._sink.path, folder, rows, head.partition_by)
        self._size.saw(batch, sum(file.rows for file in files), sum(file.size for file in files))
        return files

    def _evolve(self, head: Head, rows: "StructType") -> Head:
        """The table with the columns that the rows bring, where the declaration allows it.

        Columns before data: a crash in between leaves a column of nulls, which is harmless.
        """
        if not self._sink.evolve:
            return head
        added = schema.missing_columns(rows, schema.of_table(head.table))
        if not added:
            return head
        fields = [deltalake.Field.from_json(field.json()) for field in added]
        try:
            self._ledgered.current().alter.add_columns(fields)
        except (DeltaError, OSError) as error:
            raise self._ledgered.place.unavailable(error) from error
        return self._ledgered.log.head()

    def _write_by_spark(self, batch: Batch, rows: "DataFrame") -> Decision:
        from pyspark.errors import PySparkException  # noqa: PLC0415  only where Spark runs

        tables.require_exclusive_commits(self._ledgered.place, rows.sparkSession)
        try:
            (
                rows.write.format("delta")
                .mode("append")
                .option("txnAppId", self._ledgered.app_id)
                .option("txnVersion", ledger.pack(batch.life.epoch, batch.id))
                .option("userMetadata", ledger.of_batch(batch, self._ledgered.app_id))
                .save(urls.for_spark(self._sink.path))
            )
        except PySparkException as error:
            raise refused(self._sink.path, error) from error
        return self._ledgered.verify(batch)


def refused(path: str, error: Exception) -> SinkRefused | SinkContended:
    """What Spark's Delta writer would not do, in one sentence."""
    if "DELTA_CONCURRENT" in str(error):
        return contract.contended(path)
    reason = str(error).strip().splitlines()[0]
    return SinkRefused(
        f"expected to write to the Delta table `{path}`, found: {reason}",
        hint="start with `--debug` for the whole error",
    )
