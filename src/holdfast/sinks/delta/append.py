"""The Delta append sink."""

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa

from holdfast.errors import SinkContended, SinkRefused, SinkUnavailable
from holdfast.model.batch import Batch, LastWritten, Writer
from holdfast.model.definition import DeltaAppend
from holdfast.sinks import batch_size, contract, spark_failure
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import (
    evolution,
    executors,
    ledger,
    log_store,
    parquet,
    partitions,
    requirements,
    schema,
)
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.layout import Layout, read_layout
from holdfast.sinks.delta.ledgered import LedgeredDeltaTable
from holdfast.sinks.delta.log import Head
from holdfast.sinks.delta.parquet import AddedFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_VIOLATIONS = (
    "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
    "DELTA_MISSING_NOT_NULL_COLUMN_VALUE",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
    "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
)
_CALLING = "An error occurred while calling "
_EVOLUTIONS = 20
_MOST_PARTITIONS = 1_000
_SCATTERED_BATCHES = 20
_CODEC = "spark.sql.parquet.compression.codec"


class DeltaAppendSink:
    """Appends each batch to a Delta table in one commit with its ledger."""

    def __init__(
        self,
        sink: DeltaAppend,
        app_id: str,
        options: Mapping[str, str],
        *,
        size: batch_size.BatchSize | None = None,
        overwrites: Callable[[str, "SparkSession"], bool] = log_store.overwrites,
    ) -> None:
        self._sink = sink
        self._ledgered = LedgeredDeltaTable(sink, app_id, options, overwrites=overwrites)
        self._size = size or batch_size.BatchSize(most_rows=batch_size.SMALL_ROWS)
        self._fit = schema.SchemaFit(sink.path)
        self._known: tuple[deltalake.DeltaTable, Layout] | None = None
        self._required: deltalake.DeltaTable | None = None
        self._scattered = 0

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from its transaction log."""
        return self._ledgered.last_written()

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        table = self._ledgered.place.open()
        if table is None:
            requirements.require_creatable(self._ledgered.place, schema, spark)
        else:
            requirements.require_rows(table, schema, self._sink.path, evolve=self._sink.evolve)

    def prepare(self, life: Writer, schema: "StructType", spark: "SparkSession") -> None:
        """Create the table if there is none, and fence older drivers by a commit.

        What a write would refuse about the columns is refused here, before a batch is planned.
        """
        self.require_fit(schema, spark)
        self._ledgered.prepare(life, schema, spark)
        head = self._evolve(self._ledgered.log.head(), schema, spark)
        self._require(head, schema, spark)
        self._ledgered.recheck = lambda head: self._require(head, schema, spark)

    def _require(self, head: Head, rows: "StructType", spark: "SparkSession") -> None:
        """Raise what is wrong with the table for the rows; asked again when the table changed."""
        if self._required is head.table:
            return
        requirements.require_rows(head.table, rows, self._sink.path, evolve=self._sink.evolve)
        executors.require_zone(head, spark, self._sink.path)
        self._required = head.table

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Write the files first and then name them in one commit with the ledger.

        Files before commit: a crash in between leaves files that no reader sees.
        """
        head = self._ledgered.log.head()
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:
            return Decision.SKIP
        head = self._evolve(head, rows.schema, rows.sparkSession)
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:  # it may be a newer one
            return Decision.SKIP
        self._require(head, rows.schema, rows.sparkSession)
        fitted = self._fit.select(head.table, rows)
        if not head.native:
            return self._write_by_spark(head, batch, fitted)
        return self._ledgered.append(head, batch, self._files(head, batch, fitted))

    def _files(self, head: Head, batch: Batch, rows: "DataFrame") -> list[AddedFile]:
        """Write the batch's files, and count the rows in them against the rows of the plan."""
        layout = self._layout(head.table, rows)
        collected = self._collect(head, batch, rows) if layout.plain else None
        if collected is not None:
            data, texts = collected
            folder = f"holdfast-{batch.life.generation}-{batch.id}-{secrets.token_hex(4)}"
            files = parquet.write_by_driver(self._ledgered.store, folder, data, texts, layout)
            produced = data.num_rows
        else:
            store, path = self._ledgered.store, self._sink.path
            files, produced = executors.write_files(store, path, head, rows, layout)
            stored = sum(file.size for file in files)
            self._size.saw(batch, produced, stored * batch_size.EXPANSION)
        parquet.require_rows(self._sink.path, files, produced)
        return files

    def _collect(
        self, head: Head, batch: Batch, rows: "DataFrame"
    ) -> tuple[pa.Table, pa.Table] | None:
        """Return the rows on the driver and the texts of their partitions, or None.

        The driver writes one file per partition, so that a batch with many of them goes to the
        executors, and with it the next ones.
        """
        if self._scattered > 0:
            self._scattered -= 1
            return None
        if not self._size.small(batch, rows):
            return None
        collected = self._size.collected(batch, partitions.add_texts(rows, head.partition_by))
        data, texts = partitions.take_texts(collected, head.partition_by)
        if not partitions.is_text(texts):
            return None
        if partitions.count(texts) > _MOST_PARTITIONS:
            self._scattered = _SCATTERED_BATCHES
            return None
        return data.cast(schema.make_arrow_schema(head.table, tuple(data.column_names))), texts

    def _layout(self, table: deltalake.DeltaTable, rows: "DataFrame") -> Layout:
        """What the table asks of its files; read again only when its metadata changes."""
        if self._known is None or self._known[0] is not table:
            codec = rows.sparkSession.conf.get(_CODEC, "snappy") or "snappy"
            self._known = table, read_layout(table, codec)
        return self._known[1]

    def _evolve(self, head: Head, rows: "StructType", spark: "SparkSession") -> Head:
        """The table with the columns that the rows bring, where the declaration allows it.

        Columns before data: a crash in between leaves a column of nulls, which is harmless.
        """
        if not self._sink.evolve:
            return head
        for _ in range(_EVOLUTIONS):  # another writer may change the table first
            added = schema.find_missing_columns(rows, schema.read_schema(head.table))
            if not added:
                return head
            evolution.add_columns(self._ledgered.place, head, added, spark)
            head = self._ledgered.log.head()
        raise contract.make_contended_error(self._sink.path)

    def _write_by_spark(self, head: Head, batch: Batch, rows: "DataFrame") -> Decision:
        """Let Delta's own transaction write and commit what the table asks more for."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        tables.require_exclusive_commits(self._ledgered.place, rows.sparkSession)
        try:
            begun = self._ledgered.begin(head, batch, rows.sparkSession)
            if begun is None:
                return Decision.SKIP
            opened, version = begun
            transaction = executors.AppTransaction(
                path=self._sink.path,
                app_id=self._ledgered.app_id,
                version=ledger.pack(batch.life.epoch, batch.id),
                said=ledger.format_batch(batch, self._ledgered.app_id, decided_on=version),
            )
            executors.append(self._ledgered.store, opened, head, rows, transaction)
        except (PySparkException, Py4JJavaError) as error:
            raise to_sink_error(self._sink.path, error) from error
        return self._ledgered.verify(batch)


def to_sink_error(path: str, error: Exception) -> SinkRefused | SinkContended | SinkUnavailable:
    """What Spark's Delta writer would not do, in one sentence.

    Its error may be one of the query, too, which runs while the rows are written: a function that
    failed, an executor that was lost, storage that did not answer. Those pass.
    """
    if spark_failure.is_conflict(error):
        return contract.make_contended_error(path)
    for name in spark_failure.list_conditions(error):
        if name in _VIOLATIONS:
            return _make_violation_error(path, name, spark_failure.read_parameters(error, name))
    said = _read_first_line(error)
    if spark_failure.is_lasting(error):
        return SinkRefused(
            f"expected to write to the Delta table `{path}`, found: {said}",
            hint="start with `--debug` for the whole error",
        )
    return SinkUnavailable(
        f"expected to write to the Delta table `{path}`, found: {said}",
        hint="let the batch run again; if the error comes back, start with `--debug` to see all"
        " of it",
    )


def _make_violation_error(path: str, name: str, said: Mapping[str, str]) -> SinkRefused:
    """Name the rule that a row breaks, and never the row's values."""
    column, rule = said.get("columnName", "?"), said.get("constraintName", "?")
    expression = said.get("expr", said.get("expression", "?"))
    match name:
        case "DELTA_EXCEED_CHAR_VARCHAR_LIMIT":
            found = f"a text is too long: `{expression}` does not hold"
        case "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES":
            found = f"a row breaks the rule `{rule}` of the table: `{expression}` does not hold"
        case _:
            found = f"a row has no value for the column `{column}`, which must not be null"
    return SinkRefused(
        f"Cannot write to the Delta table `{path}`: {found}",
        hint="change or drop such rows in the job's function, or change the table's rule with"
        " Spark SQL; then start again. Nothing of the batch was written",
    )


def _read_first_line(error: Exception) -> str:
    """Return what Spark said; Py4J puts the name of a method before it."""
    lines = [line.removeprefix(": ") for line in str(error).strip().splitlines()]
    said = lines[1:2] if lines[0:1] and lines[0].startswith(_CALLING) else lines[:1]
    return said[0] if said else type(error).__name__
