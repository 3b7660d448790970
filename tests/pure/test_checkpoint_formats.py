"""Metadata, commits, source starts, file sinks, operators, checksums: as Spark writes them."""

import json

import pytest
from tests import formats

from holdfast.decode import (
    checksum,
    commit_log,
    file_sink_log,
    metadata,
    operator_metadata,
    source_start,
)
from holdfast.model.checkpoint import (
    CommitEntry,
    CommittedSink,
    HadoopChecksum,
    OperatorMetadata,
    QueryMetadata,
    SinkFile,
    SparkChecksum,
    StateStoreInfo,
)
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.ids import QueryId
from holdfast.model.offsets import SourceStart

NO_WATERMARK = Unknown(reason="the commit has none")


def test_metadata_names_the_query() -> None:
    data = f'{{"id":"{formats.QUERY}"}}'.encode()
    assert metadata.decode(data) == QueryMetadata(query_id=QueryId(formats.QUERY))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"\n", "empty"),
        (b"{}", "no `id`"),
        (b'{"id":7}', "no `id`"),
        (b'{"id":"me"}', "that is a UUID"),
        (b'{"id":"0d4f3b0e-6c4b-4f6e', "is not JSON"),
        (b'["id"]', "is not a JSON object"),
        (b"\xff", "not UTF-8 at byte 0"),
    ],
)
def test_metadata_that_names_none(data: bytes, reason: str) -> None:
    found = metadata.decode(data)
    assert isinstance(found, Unreadable)
    assert reason in found.reason


def test_an_id_in_capitals_is_the_same_query() -> None:
    found = metadata.decode(b'{"id":"0D4F3B0E-6C4B-4F6E-9A53-0D6A3C0F1B11"}')
    assert found == QueryMetadata(query_id=QueryId("0d4f3b0e-6c4b-4f6e-9a53-0d6a3c0f1b11"))


SINK = {
    "sinkName": "out",
    "commitOffset": "-",
    "providerName": "parquet",
    "apiVersion": "V1",
    "isActive": True,
}
COMMITS = {
    "of Spark 2.3": (
        b"v1\n{}",
        CommitEntry(version=1, next_watermark_ms=NO_WATERMARK, state_ids={}, sinks=()),
    ),
    "a version line alone, which Spark takes too": (
        b"v1",
        CommitEntry(version=1, next_watermark_ms=NO_WATERMARK, state_ids={}, sinks=()),
    ),
    "an ordinary one": (
        b'v1\n{"nextBatchWatermarkMs":7}',
        CommitEntry(version=1, next_watermark_ms=7, state_ids={}, sinks=()),
    ),
    "with state ids": (
        b'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{"0":[["a","b"],["c","d"]],"1":[]}}',
        CommitEntry(
            version=2,
            next_watermark_ms=0,
            state_ids={0: (("a", "b"), ("c", "d")), 1: ()},
            sinks=(),
        ),
    ),
    "with sinks": (
        formats.logged(3, {"nextBatchWatermarkMs": 0, "sinkMetadataMap": {"out": SINK}}),
        CommitEntry(
            version=3,
            next_watermark_ms=0,
            state_ids={},
            sinks=(
                CommittedSink(
                    name="out", offset=None, provider="parquet", api_version="V1", active=True
                ),
            ),
        ),
    ),
}


def test_a_sink_is_active_unless_it_says_otherwise() -> None:
    silent = {key: value for key, value in SINK.items() if key != "isActive"}
    data = formats.logged(3, {"nextBatchWatermarkMs": 0, "sinkMetadataMap": {"out": silent}})
    assert commit_log.decode(data) == COMMITS["with sinks"][1]


@pytest.mark.parametrize(("data", "expected"), COMMITS.values(), ids=COMMITS)
def test_a_commit(data: bytes, expected: CommitEntry) -> None:
    assert commit_log.decode(data) == expected


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"v9\n{}", "commit log version 9, expected 1 or 2 or 3"),
        (b"v1\n{", "is not JSON"),
        (b"v1\n\n", "an empty line for its JSON"),
        (b"v1\n \n{}", "an empty line for its JSON"),
        (b"v2\r\n\r\n", "an empty line for its JSON, in version 2"),
        (b'v2\n{"stateUniqueIds":{"0":[[1]]}}', "state ids of operator `0`"),
        (b'v2\n{"stateUniqueIds":{"0":["a"]}}', "state ids of operator `0`"),
        (b'v2\n{"stateUniqueIds":{"x":[]}}', "state ids of operator `x`"),
        (b'v1\n{"nextBatchWatermarkMs":"7"}', "`nextBatchWatermarkMs` is no number"),
        (b'v2\n{"nextBatchWatermarkMs":true}', "is no number, in version 2"),
        (b"v3\n{}", "names no active sink, or several, in version 3"),
    ],
)
def test_a_damaged_commit(data: bytes, reason: str) -> None:
    found = commit_log.decode(data)
    assert isinstance(found, Unreadable)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'\0v1\n{"t":{"0":17}}', SourceStart(offset={"t": {"0": 17}})),
        (b'\0{"t":{"0":17}}', SourceStart(offset={"t": {"0": 17}})),
        (b'\x11{"t":{"0":17}}', SourceStart(offset={"t": {"0": 17}})),
        (b'\x91{"t":{"0":17}}', SourceStart(offset={"t": {"0": 17}})),
        (b"v1\n1767225600000", SourceStart(offset=1767225600000)),
        (b'{"version":1,"snapshot_id":7}', SourceStart(offset={"version": 1, "snapshot_id": 7})),
        (b"\0", Unreadable(reason="empty")),
        (b"v1\n", Unreadable(reason="ends before its offset")),
        (b"v2\n1", Unreadable(reason="source start version 2, expected 1")),
        (
            b'v1\n{"path":"file:///a","timestamp":1,"batchId":0}',
            Unreadable(reason="an entry of a file source's log"),
        ),
    ],
)
def test_where_a_source_began(data: bytes, expected: SourceStart | Unreadable) -> None:
    assert source_start.decode(data) == expected


def test_the_files_of_a_file_sink() -> None:
    one = SinkFile(path="file:///out/part-0.parquet", bytes=9, modified_ms=7, action="add")
    assert file_sink_log.decode(formats.logged(1, formats.SINK_FILE, formats.SINK_FILE)) == (
        one,
        one,
    )
    assert file_sink_log.decode(b"v1") == ()
    assert isinstance(file_sink_log.decode(b'v1\n{"path":"a"}'), Unreadable)


STORE = StateStoreInfo(name="default", prefix_key_columns=0, partitions=3, schema_paths=())
PROPERTIES = '{"timeMode":"NoTime","outputMode":"Update"}'


def test_an_operator() -> None:
    assert operator_metadata.decode(formats.logged(1, formats.OPERATOR)) == OperatorMetadata(
        version=1, operator_id=0, name="stateStoreSave", stores=(STORE,), properties={}
    )


@pytest.mark.parametrize(
    "spelled", [{"stateSchemaFilePaths": ["file:/a"]}, {"stateSchemaFilePath": "file:/a"}]
)
def test_an_operator_of_the_second_version(spelled: dict[str, object]) -> None:
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 3} | spelled
    found = operator_metadata.decode(
        formats.logged(
            2,
            formats.OPERATOR | {"stateStoreInfo": [store], "operatorPropertiesJson": PROPERTIES},
        )
    )
    assert isinstance(found, OperatorMetadata)
    assert found.stores[0].schema_paths == ("file:/a",)
    assert found.properties == {"timeMode": "NoTime", "outputMode": "Update"}


@pytest.mark.parametrize("data", [b"", b"v3\n{}", b"v1\n", b"v1\n{}", b'v1\n{"operatorInfo":{}}'])
def test_a_damaged_operator(data: bytes) -> None:
    assert isinstance(operator_metadata.decode(data), Unreadable)


def test_checksums() -> None:
    whole = json.dumps(formats.SPARK_CRC).encode()
    assert checksum.decode_spark(whole) == SparkChecksum(
        algorithm="CRC32C",
        value=-1391582,
        file_bytes=46,
        timestamp_ms=7,
        creator="driver, Task= 0.0, Stage= 3.0",
    )
    assert checksum.decode_hadoop(b"crc\0\0\0\2\0") == HadoopChecksum(
        bytes_per_checksum=512, checksums=()
    )
    # What Hadoop wrote beside `commits/0` of an ordinary query, byte for byte.
    hadoop = checksum.decode_hadoop(bytes.fromhex("6372630000000200f32abfdd"))
    assert isinstance(hadoop, HadoopChecksum)
    assert checksum.matches(hadoop, b'v1\n{"nextBatchWatermarkMs":0}')


@pytest.mark.parametrize(
    "data", [b"", b"crc", b"crd\0\0\0\2\0", b"crc\0\0\0\0\0", b"crc\0\0\0\2\0x"]
)
def test_damaged_checksums(data: bytes) -> None:
    assert isinstance(checksum.decode_hadoop(data), Unreadable)
    assert isinstance(checksum.decode_spark(data), Unreadable)
