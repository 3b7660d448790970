"""Opening and creating a Delta table, and which engine may commit to it.

delta-rs commits in milliseconds and needs no Spark job, but it must not commit to a table whose
features put duties on the writer that a plain add action does not meet. Those tables are
committed to by Spark's Delta writer, with the same app transaction.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import deltalake
from deltalake.exceptions import (
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)

from holdfast.errors import SinkRefused, StorageUnavailable
from holdfast.model.batch import NothingWritten, Writer
from holdfast.model.fact import Unknown
from holdfast.model.ids import Epoch
from holdfast.sinks.delta import ledger, log_store
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NO_HOOKS = deltalake.PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""Checkpoints of the log are made beside the batch, not inside it."""

# delta-rs has no names for what storage said: a time-out is a plain DeltaError, or an OSError.
_LASTING = (
    DeltaProtocolError,
    SchemaMismatchError,
    PermissionError,
    NotADirectoryError,
    IsADirectoryError,
    ValueError,
)
_PAUSES = (0.02, 0.05, 0.1, 0.2)
_LAST_LEGACY_VERSION = 4
_HARMLESS_FEATURES = frozenset(
    {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "generatedColumns",
        "changeDataFeed",
        "deletionVectors",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
_HARMLESS_MARKS = frozenset({"comment", "spark.watermarkDelayMs"})
_HARMLESS_PROPERTIES = frozenset(
    f"delta.{name}"
    for name in (
        "appendOnly",
        "autoOptimize",
        "autoOptimize.autoCompact",
        "autoOptimize.optimizeWrite",
        "checkpoint.writeStatsAsJson",
        "checkpoint.writeStatsAsStruct",
        "checkpointInterval",
        "checkpointPolicy",
        "checkpointRetentionDuration",
        "dataSkippingNumIndexedCols",
        "dataSkippingStatsColumns",
        "dataSkippingStringPrefixLength",
        "deletedFileRetentionDuration",
        "dropFeatureTruncateHistory.retentionDuration",
        "enableChangeDataFeed",
        "enableDeletionVectors",
        "enableExpiredLogCleanup",
        "enableFullRetentionRollback",
        "ignoreProtocolDefaults",
        "isolationLevel",
        "logRetentionDuration",
        "minReaderVersion",
        "minWriterVersion",
        "parquet.compression.codec",
        "parquet.format.version",
        "randomPrefixLength",
        "randomizeFilePrefixes",
        "sampleRetentionDuration",
        "setTransactionRetentionDuration",
        "targetFileSize",
        "tuneFileSizesForRewrites",
        "writePartitionColumnsToParquet",
    )
)
_UNUSED = ("false", "none", "0", "")
_KINDS = frozenset(
    {
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLocation:
    """A Delta table by its address, with the options of its storage."""

    path: str
    options: Mapping[str, str]
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    by_spark: bool = False
    """Whether every commit has to go through Spark's Delta writer, for its log store."""
    overwrites: Callable[[str, "SparkSession"], bool] = log_store.overwrites
    """Whether Spark's Delta writer may overwrite a commit of another writer at an address."""

    def open(self) -> deltalake.DeltaTable | None:
        """The table as it is now, or None where there is none.

        A folder that is listed while others commit can seem to lack a commit; then look again.
        """
        for pause in (*_PAUSES, None):
            try:
                return deltalake.DeltaTable(
                    urls.to_rust_url(self.path), storage_options=dict(self.options) or None
                )
            except TableNotFoundError:
                return None
            except (DeltaError, OSError, ValueError) as error:
                if pause is None or "found gap" not in str(error):
                    raise self.unavailable(error) from error
                time.sleep(pause)
        return None

    def create(
        self, life: Writer, app_id: str, schema: "StructType", spark: "SparkSession"
    ) -> None:
        """Create the table with the ledger in its first commit.

        delta-rs does not know all properties. What it refuses is left to Spark.
        """
        try:
            deltalake.DeltaTable.create(
                urls.to_rust_url(self.path),
                deltalake.Schema.from_json(json.dumps(make_nullable(schema.jsonValue()))),
                partition_by=list(self._spell_partitions(schema)),
                configuration=dict(self.properties),
                storage_options=dict(self.options) or None,
                commit_properties=deltalake.CommitProperties(
                    custom_metadata={ledger.KEY: ledger.format_start(life, app_id, _NOTHING)},
                    app_transactions=[ledger.transaction(app_id, ledger.pack(life.epoch, None))],
                ),
            )
        except (DeltaError, OSError, ValueError) as error:
            if self.open() is not None:
                return
            if isinstance(error, OSError) or not self.properties:
                raise self.unavailable(error) from error
            self.create_by_spark(schema, spark)

    def _spell_partitions(self, schema: "StructType") -> tuple[str, ...]:
        """The partition columns as the rows spell them: letter case does not tell columns apart."""
        names = {name.lower(): name for name in schema.names}
        return tuple(names.get(name.lower(), name) for name in self.partition_by)

    def create_by_spark(self, schema: "StructType", spark: "SparkSession") -> None:
        """Create the table through Spark's Delta writer; the ledger comes with the next commit."""
        from delta.tables import DeltaTable
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException
        from pyspark.sql.types import StructType

        require_exclusive_commits(self, spark)
        nullable = json.loads(json.dumps(make_nullable(schema.jsonValue())))
        builder = (
            DeltaTable.createIfNotExists(spark)
            .location(urls.to_spark_url(self.path).replace("file:///", "file:/"))
            .addColumns(StructType.fromJson(nullable))
            .partitionedBy(*self._spell_partitions(schema))
        )
        for key, value in self.properties.items():
            builder = builder.property(key, value)
        try:
            builder.execute()
        except (PySparkException, Py4JJavaError) as error:
            raise self.refused(error) from error

    def refused(self, error: Exception) -> SinkRefused:
        """The error of a table that Spark's Delta writer does not create as it is declared."""
        lines = [line.removeprefix(": ") for line in str(error).strip().splitlines()]
        said = next((line for line in lines if "Exception" in line or "[" in line), lines[0])
        return SinkRefused(
            f"Cannot create the Delta table `{self.path}` as it is declared: {said}",
            hint="change `properties` of the sink; nothing was created",
        )

    def unavailable(self, error: Exception) -> SinkRefused | StorageUnavailable:
        """The error of a table that cannot be used, in one sentence."""
        reason = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
        if isinstance(error, _LASTING):
            return SinkRefused(
                f"expected to use the Delta table `{self.path}`, found: {reason}",
                hint=f"check that this user may read and write `{self.path}`",
            )
        return StorageUnavailable(
            f"expected to use the Delta table `{self.path}`, found: {reason}",
            hint=f"check the disk or bucket of `{self.path}`, then start again",
        )


_NOTHING = NothingWritten(epoch=Epoch(0), location=Unknown(reason="the table is new"))


def make_nullable(kind: object) -> object:
    """A type that takes nulls everywhere and has no marks of the query, such as its watermark.

    What Spark knows of one query binds no later one that reads or writes the table.
    """
    if isinstance(kind, list):
        return [make_nullable(one) for one in kind]
    if not isinstance(kind, dict):
        return kind
    marks = ("nullable", "containsNull", "valueContainsNull")
    return {
        key: True if key in marks else {} if key == "metadata" else make_nullable(value)
        for key, value in kind.items()
    }


def has_exclusive_commits(place: DeltaLocation, spark: "SparkSession") -> bool:
    """Whether of two commits of one version by Spark's Delta writer the second fails."""
    return not place.overwrites(place.path, spark)


def require_exclusive_commits(place: DeltaLocation, spark: "SparkSession") -> None:
    """Raise where Spark's Delta writer would not notice that another writer was first.

    On S3 its default log store overwrites: two drivers could both commit one version, and the
    fence would not hold. holdfast's own commits and delta-rs's are conditional there.
    """
    if not has_exclusive_commits(place, spark):
        raise SinkRefused(
            f"expected commits to `{place.path}` that only one writer can make, found that this one"
            " must go through Spark's Delta writer, whose default log store on S3 overwrites",
            hint="set `spark.delta.logStore.s3a.impl` to a log store that is safe with several"
            " writers",
        )


def require_mergeable(
    place: DeltaLocation, table: deltalake.DeltaTable, spark: "SparkSession"
) -> None:
    """Raise where the table takes no updates, or only from a writer that is not safe on S3."""
    if table.metadata().configuration.get("delta.appendOnly") == "true":
        raise SinkRefused(
            "expected a Delta table that takes updates, found `delta.appendOnly` set for"
            f" `{place.path}`",
            hint="unset the property, or declare the sink with `delta_append`",
        )
    if place.by_spark or not allows_native_merge(table):
        require_exclusive_commits(place, spark)
        _require_lasting_ledger(place, table)


def lets_ledger_expire(table: deltalake.DeltaTable) -> bool:
    """Whether Spark's Delta writer may forget which batches are in the table."""
    return ledger.EXPIRY in table.metadata().configuration


def _require_lasting_ledger(place: DeltaLocation, table: deltalake.DeltaTable) -> None:
    """Raise where Spark has to commit merges itself, and would forget the ledger after a while.

    Spark's MERGE cannot be told on which version of the table it is to start: only its memory of
    the ledger keeps it from merging a batch of an older driver after those of a newer one.
    """
    if lets_ledger_expire(table):
        raise SinkRefused(
            f"Cannot merge into the Delta table `{place.path}`: with `{ledger.EXPIRY}`, Spark's"
            " Delta writer forgets which batches were merged, and a driver that was presumed dead"
            " could merge an old batch again",
            hint=f"run `ALTER TABLE delta.`{place.path}` UNSET TBLPROPERTIES ('{ledger.EXPIRY}')`"
            " with Spark SQL, then start again",
        )


def make_empty_frame(spark: "SparkSession", place: DeltaLocation) -> "DataFrame":
    """Return no rows with the columns that a writer may give; the table makes the others itself."""
    table = place.open()
    fields = json.loads(table.schema().to_json())["fields"] if table is not None else []
    given = [
        f"`{field['name'].replace('`', '``')}`"
        for field in fields
        if not any(key.startswith("delta.identity.") for key in field["metadata"])
    ]
    return spark.read.format("delta").load(urls.to_spark_url(place.path)).select(*given).limit(0)


def allows_native_append(table: deltalake.DeltaTable) -> bool:
    """Whether an add action by holdfast meets all that the table asks of a writer.

    Whatever is not known to ask nothing (a feature, a property, a mark of a column, a type) counts
    as asking something: Spark's Delta writer then writes the batches.
    """
    protocol = table.protocol()
    features = set(protocol.writer_features or [])
    if not features and protocol.min_writer_version > _LAST_LEGACY_VERSION:
        return False
    if features - _HARMLESS_FEATURES:
        return False
    if any(_is_duty(key, value) for key, value in table.metadata().configuration.items()):
        return False
    return not _has_duties(json.loads(table.schema().to_json()))


def _is_duty(key: str, value: str) -> bool:
    """Whether a table property may ask something of a writer that this one does not do."""
    ours = not key.startswith("delta.") or key in _HARMLESS_PROPERTIES
    return not ours and value.lower() not in _UNUSED


def allows_native_merge(table: deltalake.DeltaTable) -> bool:
    """Whether delta-rs may rewrite files of the table."""
    features = set(table.protocol().writer_features or [])
    configuration = table.metadata().configuration
    marked = features & {"deletionVectors", "changeDataFeed"} or any(
        configuration.get(key) == "true"
        for key in ("delta.enableDeletionVectors", "delta.enableChangeDataFeed")
    )
    return allows_native_append(table) and not marked


def _walk_fields(kind: object) -> Iterator[dict[str, object]]:
    """Every field of a type, also inside structs, lists and maps."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        yield field
        yield from _walk_fields(field.get("type"))
    for part in ("elementType", "keyType", "valueType"):
        yield from _walk_fields(kind.get(part))


def list_kinds(kind: object) -> Iterator[str]:
    """Every plain type in a type, also inside structs, lists and maps."""
    if isinstance(kind, str):
        yield kind
    if isinstance(kind, dict):
        for field in kind.get("fields", ()):
            yield from list_kinds(field.get("type"))
        for part in ("elementType", "keyType", "valueType"):
            yield from list_kinds(kind.get(part))


def _has_duties(schema: Mapping[str, list[dict[str, object]]]) -> bool:
    for field in _walk_fields(schema):
        metadata = field.get("metadata")
        marks = set(metadata) if isinstance(metadata, dict) else set()
        if field.get("nullable") is False or marks - _HARMLESS_MARKS:
            return True
        if not _is_known(field.get("type")):
            return True
    return False


def _is_known(kind: object) -> bool:
    """Whether the driver's Parquet writer writes the type as Spark's writer does."""
    if isinstance(kind, str):
        return kind in _KINDS or kind.startswith("decimal(")
    if not isinstance(kind, dict):
        return False
    parts = [kind[part] for part in ("elementType", "keyType", "valueType") if part in kind]
    return kind.get("type") in ("struct", "array", "map") and all(map(_is_known, parts))
