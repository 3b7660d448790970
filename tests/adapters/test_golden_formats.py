"""Every file of every checkpoint that real Spark wrote: named, decoded, and damaged."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.golden import GOLDEN, Golden, each

from holdfast.decode import (
    checksum,
    commit_log,
    file_source_log,
    metadata,
    names,
    offset_log,
    operator_metadata,
    rocksdb_zip,
    source_offset,
    source_start,
    state_schema,
)
from holdfast.model import json
from holdfast.model.checkpoint import CheckpointFile, CommitEntry, FileKind, SparkChecksum
from holdfast.model.fact import Unreadable
from holdfast.model.json import Json
from holdfast.model.offsets import OffsetEntry
from holdfast.model.source_offset import KafkaOffset, OpaqueOffset, RateMicroBatchOffset
from holdfast.model.spark_version import SparkVersion
from holdfast.spark.formats import Format
from holdfast.spark.infer import infer_version_range


def _source_file(data: bytes) -> object:
    """A source's own file: a file source keeps a log there, the others where they began."""
    found = file_source_log.decode(data)
    return source_start.decode(data) if isinstance(found, Unreadable) else found


DECODERS: Mapping[FileKind, Callable[[bytes], object]] = {
    FileKind.METADATA: metadata.decode,
    FileKind.OFFSETS: offset_log.decode,
    FileKind.COMMITS: commit_log.decode,
    FileKind.SOURCE_LOG: _source_file,
    FileKind.SOURCE_COMPACT: file_source_log.decode,
    FileKind.OPERATOR_METADATA: operator_metadata.decode,
    FileKind.STATE_SCHEMA: state_schema.decode,
    FileKind.STATE_ZIP: rocksdb_zip.decode,
    FileKind.SPARK_CHECKSUM: checksum.decode_spark,
    FileKind.HADOOP_CHECKSUM: checksum.decode_hadoop,
}


def files(golden: Golden) -> Iterator[tuple[Path, CheckpointFile]]:
    for path in sorted(golden.checkpoint.rglob("*")):
        if path.is_file():
            yield path, names.classify(path.relative_to(golden.checkpoint).as_posix())


def offsets(golden: Golden) -> dict[int, OffsetEntry]:
    found: dict[int, OffsetEntry] = {}
    for path, file in files(golden):
        if file.kind is FileKind.OFFSETS and file.number is not None:
            entry = offset_log.decode(path.read_bytes())
            assert isinstance(entry, OffsetEntry)
            found[file.number] = entry
    return found


def test_there_are_checkpoints() -> None:
    assert GOLDEN


@each
def test_every_file_is_known_and_read(golden: Golden) -> None:
    seen = 0
    for path, file in files(golden):
        # Iceberg keeps where it began in a folder of its own, Kinesis where it was left.
        private = file.kind is FileKind.SOURCE_PRIVATE
        own = private and golden.scenario in {"iceberg", "kinesis"}
        assert own or file.kind not in {FileKind.FOREIGN, FileKind.SOURCE_PRIVATE}, path
        decode = source_start.decode if own else DECODERS.get(file.kind)
        found = decode(path.read_bytes()) if decode else None
        assert not isinstance(found, Unreadable), (path, found)
        seen += 1
    assert seen


@each
def test_every_checksum_agrees_with_its_file(golden: Golden) -> None:
    for path, file in files(golden):
        covered = golden.checkpoint / file.covers
        if file.kind is FileKind.HADOOP_CHECKSUM and covered.exists():
            hadoop = checksum.decode_hadoop(path.read_bytes())
            assert not isinstance(hadoop, Unreadable)
            assert checksum.matches(hadoop, covered.read_bytes()), path
        if file.kind is FileKind.SPARK_CHECKSUM:
            spark = checksum.decode_spark(path.read_bytes())
            assert isinstance(spark, SparkChecksum)
            assert spark.file_bytes == covered.stat().st_size, path


def formats(golden: Golden) -> Iterator[Format]:
    """What is in the checkpoint that tells versions apart, by the names and by the commits."""
    by_kind = {
        FileKind.OPERATOR_METADATA: Format.OPERATOR_METADATA,
        FileKind.STATE_SCHEMA: Format.STATE_SCHEMA,
        FileKind.STATE_ZIP: Format.ROCKSDB_ZIP,
        FileKind.STATE_CHANGELOG: Format.CHANGELOG,
        FileKind.SPARK_CHECKSUM: Format.SPARK_CHECKSUM,
    }
    for path, file in files(golden):
        if file.kind in by_kind:
            yield by_kind[file.kind]
        if file.kind is FileKind.COMMITS:
            commit = commit_log.decode(path.read_bytes())
            assert isinstance(commit, CommitEntry)
            watermark = isinstance(commit.next_watermark_ms, int)
            yield Format.COMMIT_WITH_WATERMARK if watermark else Format.COMMIT_WITHOUT_WATERMARK


@each
def test_the_range_of_versions_holds_the_one_that_wrote(golden: Golden) -> None:
    entries = offsets(golden)
    newest = entries[max(entries)]
    version = golden.version.split(".")
    true = SparkVersion(int(version[0]), int(version[1]))
    found = infer_version_range(
        newest.settings, set(formats(golden)), timestamp_ms=newest.timestamp_ms
    )
    assert found.lowest <= true
    assert true <= found.highest


@each
def test_what_lies_between_offsets_is_what_spark_counted(golden: Golden) -> None:
    """Kafka without transactions and rate-micro-batch count rows by their offsets."""
    compared = 0
    for progress in golden.progress:
        sources = progress["sources"]
        assert isinstance(sources, list)
        for source in sources:
            start, end = (
                source_offset.decode(_parsed(source[side]), described=source["description"])
                for side in ("startOffset", "endOffset")
            )
            assert isinstance(end, OpaqueOffset) == golden.scenario.startswith("python")
            if isinstance(end, KafkaOffset | RateMicroBatchOffset):
                total = source_offset.compute_consumed(start, end).total
                if isinstance(total, int):
                    assert total == source["numInputRows"]
                    compared += 1
    assert compared or golden.scenario not in {"kafka", "rate-micro-batch"}


def damages(data: bytes) -> Iterator[bytes]:
    yield from (b"", data[: len(data) // 2], data[len(data) // 2 :], data + data)
    for at in range(0, len(data), max(1, len(data) // 40)):
        yield data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]


@each
def test_no_damage_to_a_file_is_more_than_unreadable(golden: Golden) -> None:
    for path, file in files(golden):
        decode = DECODERS.get(file.kind)
        if decode is not None and file.kind is not FileKind.HADOOP_CHECKSUM:
            for damaged in damages(path.read_bytes()):
                decode(damaged)


def _parsed(told: Json) -> Json:
    """An offset as Spark told it: some of its events hold the JSON as a text."""
    return json.parse(told) if isinstance(told, str) and told.startswith("{") else told
