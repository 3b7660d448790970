"""What a file of a checkpoint is, by its path alone."""

import pytest

from holdfast.decode import names
from holdfast.model.checkpoint import CheckpointFile, FileKind

ID = "2f3a6c1e-0a52-4d1c-9d0f-2f7a3b1c9e00"
STORE = "left-keyWithIndexToValue"
KNOWN = {
    "metadata": CheckpointFile(FileKind.METADATA),
    "offsets/0": CheckpointFile(FileKind.OFFSETS, 0),
    "offsets/9223372036854775807": CheckpointFile(FileKind.OFFSETS, (1 << 63) - 1),
    "commits/12": CheckpointFile(FileKind.COMMITS, 12),
    "sources/0/7": CheckpointFile(FileKind.SOURCE_LOG, 7, source="0"),
    "sources/landing/9.compact": CheckpointFile(FileKind.SOURCE_COMPACT, 9, source="landing"),
    "sources/0/offsets/0": CheckpointFile(FileKind.SOURCE_PRIVATE, source="0"),
    "sources/0/rocksdb/1.zip": CheckpointFile(FileKind.SOURCE_PRIVATE, source="0"),
    "state/0/_metadata/metadata": CheckpointFile(FileKind.OPERATOR_METADATA, operator=0),
    "state/2/_metadata/v2/5": CheckpointFile(FileKind.OPERATOR_METADATA, 5, operator=2),
    f"state/0/_stateSchema/default/5_{ID}": CheckpointFile(
        FileKind.STATE_SCHEMA, 5, ID, operator=0, store="default"
    ),
    "state/0/0/_metadata/schema": CheckpointFile(
        FileKind.STATE_SCHEMA, operator=0, partition=0, store="default"
    ),
    f"state/0/0/{STORE}/_metadata/schema": CheckpointFile(
        FileKind.STATE_SCHEMA, operator=0, partition=0, store=STORE
    ),
    "state/0/199/8.delta": CheckpointFile(
        FileKind.STATE_DELTA, 8, operator=0, partition=199, store="default"
    ),
    "state/0/199/8.snapshot": CheckpointFile(
        FileKind.STATE_SNAPSHOT, 8, operator=0, partition=199, store="default"
    ),
    f"state/0/1/{STORE}/8.delta": CheckpointFile(
        FileKind.STATE_DELTA, 8, operator=0, partition=1, store=STORE
    ),
    "state/0/1/8.zip": CheckpointFile(
        FileKind.STATE_ZIP, 8, operator=0, partition=1, store="default"
    ),
    f"state/0/1/8_{ID}.zip": CheckpointFile(
        FileKind.STATE_ZIP, 8, ID, operator=0, partition=1, store="default"
    ),
    f"state/0/1/8_{ID}.changelog": CheckpointFile(
        FileKind.STATE_CHANGELOG, 8, ID, operator=0, partition=1, store="default"
    ),
    f"state/0/1/SSTs/000007-{ID}.sst": CheckpointFile(
        FileKind.STATE_SST, 7, ID, operator=0, partition=1, store="default"
    ),
    f"state/0/1/{STORE}/logs/000009-{ID}.log": CheckpointFile(
        FileKind.STATE_LOG, 9, ID, operator=0, partition=1, store=STORE
    ),
}
BESIDE = {
    "state/0/1/8.delta.crc": CheckpointFile(
        FileKind.SPARK_CHECKSUM, 8, operator=0, partition=1, store="default",
        covers="state/0/1/8.delta",
    ),
    "state/0/1/.8.delta.crc": CheckpointFile(
        FileKind.HADOOP_CHECKSUM, 8, operator=0, partition=1, store="default",
        covers="state/0/1/8.delta",
    ),
    "state/0/1/.8.delta.crc.crc": CheckpointFile(
        FileKind.HADOOP_CHECKSUM, operator=0, partition=1, store="default",
        covers="state/0/1/8.delta.crc",
    ),
    ".metadata.crc": CheckpointFile(FileKind.HADOOP_CHECKSUM, covers="metadata"),
    "offsets/.7.crc": CheckpointFile(FileKind.HADOOP_CHECKSUM, 7, covers="offsets/7"),
    f"offsets/..7.{ID}.tmp.crc": CheckpointFile(
        FileKind.HADOOP_CHECKSUM, covers=f"offsets/.7.{ID}.tmp"
    ),
    f"offsets/.7.{ID}.tmp": CheckpointFile(FileKind.TEMPORARY),
    f".metadata.{ID}.tmp": CheckpointFile(FileKind.TEMPORARY),
    f"state/0/1/.8.delta.{ID}.TID42.tmp": CheckpointFile(
        FileKind.TEMPORARY, operator=0, partition=1, store="default"
    ),
    "state/0/1/8.snapshot.temp-638512": CheckpointFile(
        FileKind.TEMPORARY, operator=0, partition=1, store="default"
    ),
    "state/0/1/temp--6385129837426154031": CheckpointFile(
        FileKind.TEMPORARY, operator=0, partition=1, store="default"
    ),
}  # fmt: skip
FOREIGN = (
    "", "/", "//", ".", ".crc", ".DS_Store", "offsets", "offsets/", "offsets/x", "offsets/-1",
    "offsets/+1", "offsets/007", "offsets/7.", "offsets/9223372036854775808",
    "offsets/" + "9" * 5000, "offsets/٣", "offsets/²", "offsets/7/8", "commits/7.crc",
    "part-00000.parquet", "_delta_log/00000000000000000000.json", "state/x", "state/-1/0/1.delta",
    "state/0/x", "state/0/x/1.delta", "state/0/1/x.delta", "state/0/1/1.delta.bak",
    "state/0/1/1.DELTA", f"state/0/_stateSchema/default/{ID}", "state/0/1/2/3/4.delta",
    "state/0/1/SSTs/7.txt", "%2E%2E/offsets/7", "offsets/7 ", "offsets\\7", "ofﬀsets/7",
)  # fmt: skip


@pytest.mark.parametrize(("path", "expected"), (KNOWN | BESIDE).items(), ids=str)
def test_a_file_of_a_checkpoint(path: str, expected: CheckpointFile) -> None:
    assert names.classify(path) == expected


@pytest.mark.parametrize("path", FOREIGN)
def test_a_file_that_spark_would_not_read(path: str) -> None:
    assert names.classify(path).kind is FileKind.FOREIGN


def test_every_kind_is_named_by_some_path() -> None:
    kinds = {names.classify(path).kind for path in (*KNOWN, *BESIDE, *FOREIGN)}
    assert kinds == set(FileKind)
