"""The JSON of a source's offset -> an Offset, one function per known shape.

    {"topic":{"0":23}}                                       Kafka, Event Hubs
    {"logOffset":3}                                          files
    {"sourceVersion":1,"reservoirId":"…","reservoirVersion":5,"index":-1,"isStartingVersion":false}
    41                                                       socket, memory, rate; files of 2.1
    {"offset":20,"timestamp":1000}                           rate-micro-batch
    {"0":{"value":5,"runTimeMs":1}}                          rate, continuous mode
    {"0":5,"1":8}   [5,8]                                    Pub/Sub Lite, memory; socket
    {"metadata":{"streamName":"s","batchId":"3"},"shardId-0":{"iteratorType":"…",
     "iteratorPosition":"…"}}                                Kinesis
    [{"shard":{"stream":"s","shardId":"shardId-0"},"lastSeqNum":"…","closed":false}]
    {"seqNum":5,"sourceVersion":1,"fetchEpoch":2}            Pub/Sub of Databricks
    {"seqNum":5,"sourceVersion":1,"lastBackfillStartTimeMs":1,…}      Auto Loader
    {"version":1,"snapshot_id":7,"position":2,"scan_all_files":true}  Iceberg
    {"activeSourceName":"a","allSourceNames":["a"],"completedSourceNames":[]}

Each function returns an offset, or None if the JSON has a different shape.
"""

from collections.abc import Mapping, Sequence

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.json import Json, as_sequence
from holdfast.model.source_offset import (
    AutoLoaderOffset,
    Basis,
    DeltaOffset,
    FileOffset,
    IcebergOffset,
    KafkaOffset,
    KinesisOffset,
    NumberOffset,
    PartitionNumbersOffset,
    PubSubOffset,
    RateMicroBatchOffset,
    RatePartitionsOffset,
    Recognition,
    SequentialUnionOffset,
    ShardPosition,
    TopicPartition,
)

_MOST_DIGITS = 19


def match_files(value: Json) -> FileOffset | None:
    """Match Spark's file source."""
    offset = log.as_integer(json.as_mapping(value).get("logOffset"))
    return (
        None
        if offset is None
        else FileOffset(recognition=_make_sure_recognition("files"), log_offset=offset)
    )


def match_delta(value: Json) -> DeltaOffset | None:
    """Match a Delta table."""
    fields = json.as_mapping(value)
    table = fields.get("reservoirId")
    version, index = (
        log.as_integer(fields.get("reservoirVersion")),
        log.as_integer(fields.get("index")),
    )
    if not isinstance(table, str) or version is None or index is None:
        return None
    return DeltaOffset(
        recognition=_make_sure_recognition("Delta"),
        table_id=table,
        version=version,
        index=index,
        in_starting_snapshot=fields.get("isStartingVersion") is True,
        source_version=log.as_integer(fields.get("sourceVersion")) or 0,
    )


def match_iceberg(value: Json) -> IcebergOffset | None:
    """Match an Iceberg table."""
    fields = json.as_mapping(value)
    snapshot, position = (
        log.as_integer(fields.get("snapshot_id")),
        log.as_integer(fields.get("position")),
    )
    if snapshot is None or position is None:
        return None
    return IcebergOffset(
        recognition=_make_sure_recognition("Iceberg"),
        snapshot_id=snapshot,
        position=position,
        scans_all_files=fields.get("scan_all_files") is True,
    )


def match_kafka(value: Json) -> KafkaOffset | None:
    """Match Kafka or Event Hubs; an empty object is an offset without partitions."""
    if not isinstance(value, Mapping):
        return None
    partitions: dict[TopicPartition, int] = {}
    for topic, offsets in value.items():
        numbers = _parse_numbers(offsets)
        if numbers is None:
            return None
        partitions |= {TopicPartition(topic, part): offset for part, offset in numbers.items()}
    others = ("Event Hubs",) if value else ("Event Hubs", "any source that has read nothing")
    return KafkaOffset(
        recognition=_make_shared_recognition("Kafka", *others), partitions=partitions
    )


def match_rate_micro_batch(value: Json) -> RateMicroBatchOffset | None:
    """Match the rate-micro-batch source."""
    fields = json.as_mapping(value)
    rows, timestamp = log.as_integer(fields.get("offset")), log.as_integer(fields.get("timestamp"))
    if rows is None or timestamp is None or len(fields) != 2:  # noqa: PLR2004
        return None
    return RateMicroBatchOffset(
        recognition=_make_shared_recognition("rate-micro-batch", "a Python data source"),
        rows=rows,
        timestamp_ms=timestamp,
    )


def match_rate_partitions(value: Json) -> RatePartitionsOffset | None:
    """Match the rate source in continuous mode."""
    values: dict[int, int] = {}
    for key, pair in json.as_mapping(value).items():
        number = log.as_integer(json.as_mapping(pair).get("value"))
        if number is None or not _is_number(key) or "runTimeMs" not in json.as_mapping(pair):
            return None
        values[int(key)] = number
    return (
        RatePartitionsOffset(recognition=_make_sure_recognition("rate"), values=values)
        if values
        else None
    )


def match_partition_numbers(value: Json) -> PartitionNumbersOffset | None:
    """Match Pub/Sub Lite, or memory or socket in continuous mode."""
    if isinstance(value, Mapping):
        numbers = _parse_numbers(value)
        recognition = _make_shared_recognition(
            "Pub/Sub Lite", "memory in continuous or real-time mode"
        )
    elif isinstance(value, Sequence) and not isinstance(value, str):
        numbers = _parse_numbers({str(index): number for index, number in enumerate(value)})
        recognition = _make_shared_recognition("socket in continuous mode", "a Python data source")
    else:
        return None
    return PartitionNumbersOffset(recognition=recognition, values=numbers) if numbers else None


def match_number(value: Json) -> NumberOffset | None:
    """Match a bare number."""
    number = log.as_integer(value)
    if number is None:
        return None
    others = ("memory", "rate", "files of Spark 2.1")
    return NumberOffset(recognition=_make_shared_recognition("socket", *others), value=number)


def match_kinesis(value: Json) -> KinesisOffset | None:
    """Match Kinesis, of an open-source connector or of Databricks."""
    shards = (
        _parse_open_shards(value)
        if isinstance(value, Mapping)
        else _parse_databricks_shards(value)
        if isinstance(value, Sequence) and not isinstance(value, str)
        else None
    )
    return (
        None
        if shards is None
        else KinesisOffset(recognition=_make_sure_recognition("Kinesis"), shards=shards)
    )


def _parse_open_shards(value: Mapping[str, Json]) -> dict[str, ShardPosition] | None:
    stream = json.as_mapping(value.get("metadata")).get("streamName")
    if not isinstance(stream, str):
        return None
    shards: dict[str, ShardPosition] = {}
    for shard, fields in value.items():
        if shard == "metadata":
            continue
        position = json.as_mapping(fields)
        iterator, number = position.get("iteratorType"), position.get("iteratorPosition")
        if not isinstance(iterator, str) or not isinstance(number, str):
            return None
        inside = str(position.get("subSequenceNumber", ""))
        shards[f"{stream}/{shard}"] = ShardPosition(
            iterator,
            number,
            closed=iterator == "SHARD_END",
            inside=int(inside) if _is_number(inside) else 0,
            last=str(position.get("isLast")).lower() == "true",
        )
    return shards


def _parse_databricks_shards(value: Sequence[Json]) -> dict[str, ShardPosition] | None:
    shards: dict[str, ShardPosition] = {}
    for entry in value:
        fields = json.as_mapping(entry)
        shard = json.as_mapping(fields.get("shard"))
        stream, name, last = shard.get("stream"), shard.get("shardId"), fields.get("lastSeqNum")
        if not isinstance(stream, str) or not isinstance(name, str):
            return None
        number = last if isinstance(last, str) else ""
        shards[f"{stream}/{name}"] = ShardPosition("", number, fields.get("closed") is True)
    return shards or None


def match_auto_loader(value: Json) -> AutoLoaderOffset | None:
    """Match Auto Loader: likely if only `seqNum` and a version match, sure with more fields."""
    fields = json.as_mapping(value)
    sequence = log.as_integer(fields.get("seqNum"))
    if sequence is None or "sourceVersion" not in fields:
        return None
    path = fields.get("lastInputPath")
    specific = {"lastBackfillStartTimeMs", "lastBackfillFinishTimeMs", "lastInputPath"} & set(
        fields
    )
    return AutoLoaderOffset(
        recognition=_make_sure_recognition("Auto Loader")
        if specific
        else _make_shared_recognition("Auto Loader", "Pub/Sub"),
        sequence=sequence,
        source_version=log.as_integer(fields.get("sourceVersion")) or 0,
        input_path=path if isinstance(path, str) else "",
    )


def match_pub_sub(value: Json) -> PubSubOffset | None:
    """Match Pub/Sub of Databricks."""
    fields = json.as_mapping(value)
    sequence, epoch = log.as_integer(fields.get("seqNum")), log.as_integer(fields.get("fetchEpoch"))
    if sequence is None or epoch is None:
        return None
    return PubSubOffset(
        recognition=_make_sure_recognition("Pub/Sub"),
        sequence=sequence,
        fetch_epoch=epoch,
        source_version=log.as_integer(fields.get("sourceVersion")) or 0,
    )


def match_sequential_union(value: Json) -> SequentialUnionOffset | None:
    """Match Spark's sequential union."""
    fields = json.as_mapping(value)
    active, sources = fields.get("activeSourceName"), _list_texts(fields.get("allSourceNames"))
    if not isinstance(active, str) or not sources:
        return None
    return SequentialUnionOffset(
        recognition=_make_sure_recognition("sequential union"),
        active=active,
        all=sources,
        completed=_list_texts(fields.get("completedSourceNames")),
    )


def _list_texts(value: Json) -> tuple[str, ...]:
    return tuple(text for text in as_sequence(value) if isinstance(text, str))


def _parse_numbers(value: Json) -> dict[int, int] | None:
    """Return an object of partition numbers and numbers, or None if a key or value is not one."""
    if not isinstance(value, Mapping):
        return None
    numbers: dict[int, int] = {}
    for key, member in value.items():
        number = log.as_integer(member)
        if number is None or not _is_number(key):
            return None
        numbers[int(key)] = number
    return numbers


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS


def _make_sure_recognition(source: str) -> Recognition:
    return Recognition(source=source, basis=Basis.SHAPE)


def _make_shared_recognition(source: str, *others: str) -> Recognition:
    return Recognition(source=source, basis=Basis.SHARED_SHAPE, others=others)
