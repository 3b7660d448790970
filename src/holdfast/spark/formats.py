"""The on-disk formats that only some versions of Spark write, by version."""

from collections.abc import Mapping
from enum import StrEnum

from holdfast.model.spark_version import SparkVersion


class Format(StrEnum):
    """A format in a checkpoint that only some versions of Spark write."""

    OFFSET_LOG_2 = "offset log version 2"
    COMMIT_LOG_2 = "commit log version 2"
    COMMIT_LOG_3 = "commit log version 3"
    COMMIT_WITHOUT_WATERMARK = "a commit without a watermark"
    COMMIT_WITH_WATERMARK = "a commit with a watermark"
    OPERATOR_METADATA = "operator metadata"
    STATE_SCHEMA = "a state schema"
    STATE_SCHEMA_3 = "state schema version 3"
    ROCKSDB_ZIP = "a RocksDB zip"
    CHANGELOG = "a state changelog"
    VERSIONED_STATE = "a state file with a unique id"
    SPARK_CHECKSUM = "a Spark checksum of a state file"
    ROCKSDB_METADATA_2 = "RocksDB's metadata of version 2"


WRITTEN_SINCE: Mapping[Format, SparkVersion] = {
    Format.COMMIT_WITHOUT_WATERMARK: SparkVersion(2, 2),
    Format.COMMIT_WITH_WATERMARK: SparkVersion(2, 4),
    Format.STATE_SCHEMA: SparkVersion(3, 1),
    Format.ROCKSDB_ZIP: SparkVersion(3, 2),
    Format.CHANGELOG: SparkVersion(3, 5),
    Format.OPERATOR_METADATA: SparkVersion(4, 0),
    Format.STATE_SCHEMA_3: SparkVersion(4, 0),
    Format.COMMIT_LOG_2: SparkVersion(4, 0),
    Format.VERSIONED_STATE: SparkVersion(4, 0),
    Format.ROCKSDB_METADATA_2: SparkVersion(4, 0),
    Format.SPARK_CHECKSUM: SparkVersion(4, 1),
    Format.OFFSET_LOG_2: SparkVersion(4, 2),
    Format.COMMIT_LOG_3: SparkVersion(4, 2),
}


# No other version reads these, so no earlier or later version can have run from the checkpoint.
ONLY_BY: Mapping[Format, SparkVersion] = {Format.ROCKSDB_METADATA_2: SparkVersion(4, 0)}
