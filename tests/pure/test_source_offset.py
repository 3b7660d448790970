"""Source offsets by kind, and what lies between two of them."""

import pytest
from tests import formats

from holdfast.decode import source_offset
from holdfast.model.fact import Unknown
from holdfast.model.json import Json
from holdfast.model.source_offset import (
    AutoLoaderOffset,
    Basis,
    DeltaOffset,
    EventHubsOffset,
    FileOffset,
    IcebergOffset,
    KafkaOffset,
    KinesisOffset,
    Movement,
    NoOffset,
    NumberOffset,
    OpaqueOffset,
    PartitionChange,
    PartitionNumbersOffset,
    PubSubOffset,
    RateMicroBatchOffset,
    RatePartitionsOffset,
    Recognition,
    SequentialUnionOffset,
    ShardPosition,
    TopicPartition,
)

TABLE = formats.QUERY
DELTA: Json = {
    "sourceVersion": 1,
    "reservoirId": TABLE,
    "reservoirVersion": 5,
    "index": -1,
    "isStartingVersion": True,
}


def test_every_example_is_of_its_kind() -> None:
    kinds = [type(source_offset.decode(offset)) for offset in formats.OFFSETS]  # type: ignore[arg-type]
    assert kinds == [
        KafkaOffset, FileOffset, DeltaOffset, NumberOffset, RateMicroBatchOffset,
        RatePartitionsOffset, PartitionNumbersOffset, PartitionNumbersOffset, KinesisOffset,
        KinesisOffset, PubSubOffset, AutoLoaderOffset, IcebergOffset, SequentialUnionOffset,
        OpaqueOffset, KafkaOffset,
    ]  # fmt: skip


def test_kafka_partitions_by_topic() -> None:
    found = source_offset.decode({"orders": {"10": 23, "9": 7}, "a-b.c": {"0": -1}})
    assert found == KafkaOffset(
        recognition=Recognition(source="Kafka", basis=Basis.SHARED_SHAPE, others=("Event Hubs",)),
        partitions={
            TopicPartition("orders", 10): 23,
            TopicPartition("orders", 9): 7,
            TopicPartition("a-b.c", 0): -1,
        },
    )


@pytest.mark.parametrize(
    ("value", "described", "kind", "source"),
    [
        ({"o": {"0": 1}}, "KafkaV2[Subscribe[o]]", KafkaOffset, "Kafka"),
        ({"o": {"0": 1}}, "…eventhubs.EventHubsSource@7", EventHubsOffset, "Event Hubs"),
        (7, "TextSocketV2[host: localhost, port: 9]", NumberOffset, "socket"),
        (7, "RateStreamV2[rowsPerSecond=1, …]", NumberOffset, "rate"),
        (
            {"offset": 5, "timestamp": 1},
            "RatePerMicroBatchStream[…]", RateMicroBatchOffset, "rate-micro-batch",
        ),
        (7, "MemoryStream[value#1]", NumberOffset, "memory"),
        ({"logOffset": 1}, "FileStreamSource[file:/in]", FileOffset, "files"),
        (DELTA, "DeltaSource[file:/table]", DeltaOffset, "Delta"),
    ],
)  # fmt: skip
def test_a_description_names_the_source(
    value: Json, described: str, kind: type, source: str
) -> None:
    found = source_offset.decode(value, described=described)
    assert isinstance(found, kind)
    assert not isinstance(found, NoOffset | OpaqueOffset)
    assert found.recognition == Recognition(source=source, basis=Basis.DESCRIPTION)


def test_a_description_of_another_source_is_not_believed() -> None:
    found = source_offset.decode({"logOffset": 1}, described="KafkaV2[Subscribe[logOffset]]")
    assert isinstance(found, FileOffset)
    assert found.recognition.basis is Basis.SHAPE


@pytest.mark.parametrize(
    "value",
    ["text", True, 1.5, [], [True], ["a"], {"a": 1}, {"a": {"x": 1}}, {"a": {"0": "1"}},
     {"logOffset": "3"}, {"logOffset": True}, {"0": 1, "x": 2}, {"seqNum": 5},
     {"offset": 1, "timestamp": 2, "more": 3}, {"metadata": {"streamName": "s"}, "shard": 1}],
)  # fmt: skip
def test_any_other_json_is_opaque(value: Json) -> None:
    assert source_offset.decode(value) == OpaqueOffset(value=value)


@pytest.mark.parametrize(
    "value", [{"page": 3}, {"events": {"0": 6}}, {"offset": 1, "timestamp": 2}]
)
def test_a_python_data_source_is_one_by_its_description_whatever_it_writes(value: Json) -> None:
    described = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1d6e2c"
    found = source_offset.decode(value, described=described)
    assert found == OpaqueOffset(value=value, source="a Python data source")
    consumed = source_offset.compute_consumed(NoOffset(), found)
    assert (consumed.source, consumed.unit) == ("a Python data source", "")


def test_no_offset() -> None:
    assert source_offset.decode(None) == NoOffset()


def test_shards_of_both_kinds_of_connector() -> None:
    open_, closed = (source_offset.decode(formats.OFFSETS[at]) for at in (8, 9))  # type: ignore[arg-type]
    assert isinstance(open_, KinesisOffset)
    assert isinstance(closed, KinesisOffset)
    shard = "s/shardId-000000000000"
    assert open_.shards == {
        shard: ShardPosition("AFTER_SEQUENCE_NUMBER", "49652022592149344892", closed=False)
    }
    assert closed.shards == {shard: ShardPosition("", "49652022592149344892", closed=False)}


def between(start: Json, end: Json) -> tuple[tuple[str, Movement, object], ...]:
    found = source_offset.compute_consumed(source_offset.decode(start), source_offset.decode(end))
    return tuple(
        (one.partition, one.change, one.count if isinstance(one.count, int) else "?")
        for one in found.partitions
    )


KAFKA_START: Json = {"t": {"0": 5, "1": 5, "2": 5, "3": 5}}
KAFKA_END: Json = {"t": {"0": 9, "1": 5, "2": 4, "4": 1}, "u": {"0": 0}}


def test_what_a_batch_took_from_kafka() -> None:
    assert between(KAFKA_START, KAFKA_END) == (
        ("t-0", Movement.ADVANCED, 4),
        ("t-1", Movement.UNCHANGED, 0),
        ("t-2", Movement.WENT_BACK, "?"),
        ("t-3", Movement.VANISHED, 0),
        ("t-4", Movement.APPEARED, "?"),
        ("u-0", Movement.APPEARED, 0),
    )


def test_a_total_is_known_when_all_is() -> None:
    start, end = source_offset.decode({"t": {"0": 5}}), source_offset.decode({"t": {"0": 9}})
    found = source_offset.compute_consumed(start, end)
    assert (found.source, found.unit, found.total) == ("Kafka", "offsets", 4)
    assert found.partitions == (
        PartitionChange(partition="t-0", start="5", end="9", count=4, change=Movement.ADVANCED),
    )
    open_end = source_offset.compute_consumed(NoOffset(), end)
    assert isinstance(open_end.total, Unknown)


def delta(version: int, index: int, *, starting: bool = False, source: int = 1) -> Json:
    return {
        "sourceVersion": source,
        "reservoirId": TABLE,
        "reservoirVersion": version,
        "index": index,
        "isStartingVersion": starting,
    }


def shard(position: str, inside: int, *, last: bool = False) -> Json:
    return {
        "metadata": {"streamName": "s", "batchId": "3"},
        "0": {
            "iteratorType": "AFTER_SEQUENCE_NUMBER",
            "iteratorPosition": position,
            "subSequenceNumber": str(inside),
            "isLast": str(last).lower(),
        },
    }


def test_a_shard_is_closed_where_it_ends_and_not_with_every_plain_record() -> None:
    plain = source_offset.decode(shard("7", -1, last=True))
    ended = source_offset.decode(
        {"metadata": {"streamName": "s", "batchId": "3"},
         "0": {"iteratorType": "SHARD_END", "iteratorPosition": ""}}
    )  # fmt: skip
    assert isinstance(plain, KinesisOffset)
    assert isinstance(ended, KinesisOffset)
    assert plain.shards["s/0"] == ShardPosition(
        "AFTER_SEQUENCE_NUMBER", "7", closed=False, last=True
    )
    assert ended.shards["s/0"] == ShardPosition("SHARD_END", "", closed=True)


def iceberg(snapshot: int, position: int) -> Json:
    return {"version": 1, "snapshot_id": snapshot, "position": position, "scan_all_files": False}


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ({"logOffset": 2}, {"logOffset": 5}, (("", Movement.ADVANCED, 3),)),
        (None, {"logOffset": 0}, (("", Movement.ADVANCED, 1),)),
        ({"logOffset": 2}, None, (("", Movement.VANISHED, 0),)),
        (None, None, ()),
        (delta(5, -1), delta(8, -1), ((TABLE, Movement.ADVANCED, 3),)),
        (delta(5, -1), delta(5, 40), ((TABLE, Movement.ADVANCED, "?"),)),
        (delta(5, 9, starting=True), delta(6, -1), ((TABLE, Movement.ADVANCED, 1),)),
        (delta(6, 0), delta(5, 0), ((TABLE, Movement.WENT_BACK, "?"),)),
        (delta(5, -1), delta(5, -20, source=3), ((TABLE, Movement.ADVANCED, "?"),)),
        (delta(5, -20, source=3), delta(5, -19, source=3), ((TABLE, Movement.ADVANCED, "?"),)),
        (delta(5, -19, source=3), delta(5, 0, source=3), ((TABLE, Movement.ADVANCED, "?"),)),
        (shard("7", 3), shard("7", 12), (("s/0", Movement.ADVANCED, "?"),)),
        (shard("7", 3), shard("7", 3, last=True), (("s/0", Movement.ADVANCED, "?"),)),
        (shard("7", 3), shard("7", 3), (("s/0", Movement.UNCHANGED, 0),)),
        (shard("8", 0), shard("7", 3), (("s/0", Movement.WENT_BACK, "?"),)),
        (3, 9, (("", Movement.ADVANCED, 6),)),
        (
            {"offset": 5, "timestamp": 1},
            {"offset": 9, "timestamp": 2},
            (("", Movement.ADVANCED, 4),),
        ),
        ([1, 2], [1, 5], (("0", Movement.UNCHANGED, 0), ("1", Movement.ADVANCED, 3))),
        ({"a": "x"}, {"a": "y"}, (("", Movement.CHANGED, "?"),)),
        ({"a": "x"}, {"a": "x"}, (("", Movement.UNCHANGED, 0),)),
        (iceberg(1, 2), iceberg(2, 0), (("", Movement.CHANGED, "?"),)),
        (
            {"t": {"0": 5}},
            {"logOffset": 1},
            (("", Movement.APPEARED, "?"), ("t-0", Movement.VANISHED, 0)),
        ),
    ],
)  # fmt: skip
def test_what_lies_between(
    start: Json, end: Json, expected: tuple[tuple[str, Movement, object], ...]
) -> None:
    assert between(start, end) == expected
