"""The settings that every entry of the offset log pins, and the version that first pins each.

These settings must not change during the life of a query. A release pins every setting that it
knows, whatever the query is. So a pinned setting means "this version or later", and a missing
setting means "an earlier version".
"""

from collections.abc import Mapping

from holdfast.model.spark_version import SparkVersion

SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
STATE_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
PRUNE = "optimizer.pruneFiltersCanPruneStreamingSubplan"
OF_3_5_4, LOST_IN = f"spark.databricks.sql.{PRUNE}", SparkVersion(4, 1)
"""3.5.4 pinned `PRUNE` under this name; releases from `LOST_IN` on no longer read it."""
_STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"

# Verified with the source of every release from 2.1.0 to 4.2.0, and with checkpoints that the last
# release of each minor version wrote.
PINNED_SINCE: Mapping[str, SparkVersion] = {
    SHUFFLE_PARTITIONS: SparkVersion(2, 2),
    STATE_PROVIDER: SparkVersion(2, 3),
    "spark.sql.streaming.multipleWatermarkPolicy": SparkVersion(2, 4),
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": SparkVersion(2, 4),
    "spark.sql.streaming.aggregation.stateFormatVersion": SparkVersion(2, 4),
    "spark.sql.streaming.join.stateFormatVersion": SparkVersion(3, 0),
    "spark.sql.streaming.stateStore.compression.codec": SparkVersion(3, 1),
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": SparkVersion(3, 2),
    _STRICT: SparkVersion(3, 2),
    "spark.sql.streaming.stateStore.encodingFormat": SparkVersion(4, 0),
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion": SparkVersion(4, 2),
    "spark.sql.streaming.stateStore.rowChecksum.enabled": SparkVersion(4, 2),
    "spark.sql.function.protobufExtensions.enabled": SparkVersion(4, 2),
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": SparkVersion(4, 2),
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": SparkVersion(4, 3),
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": SparkVersion(4, 3),
}

# Settings that the first patch release of their minor version does not pin yet, with the release
# that does.
FROM_RELEASE = {_STRICT: "3.2.2"}

# Settings that only some releases of a minor version pin: their presence narrows the range, their
# absence does not.
PINNED_WITHIN: Mapping[str, tuple[SparkVersion, str]] = {
    OF_3_5_4: (SparkVersion(3, 5), "as by Apache Spark 3.5.4 only"),
    f"spark.sql.{PRUNE}": (SparkVersion(3, 5), "as by Spark 3.5.5 and later"),
}
