"""What small encoders write, the decoders read as it was."""

import json

from hypothesis import given
from hypothesis import strategies as st
from tests import formats

from holdfast.decode import (
    checksum,
    commit_log,
    file_sink_log,
    file_source_log,
    fingerprint,
    metadata,
    names,
    offset_log,
    operator_metadata,
    rocksdb_zip,
    source_offset,
    state_schema,
)
from holdfast.decode import lease as lease_format
from holdfast.model.checkpoint import CheckpointFile, FileKind, HadoopChecksum, QueryMetadata
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.fingerprint import (
    NOT_IDENTIFIED,
    Fingerprint,
    KafkaIdentity,
    PlanOperator,
    PlanSink,
    PlanSource,
    PlanWatermark,
    Term,
)
from holdfast.model.ids import Epoch, JobName
from holdfast.model.lease import Holder, Lease
from holdfast.model.offsets import FileEntry, OffsetEntry, SourceOffset
from holdfast.model.source_offset import FileOffset, KafkaOffset, Movement, TopicPartition

TEXT = st.text(st.characters(codec="utf-8"))
COUNTS = st.integers(0, (1 << 63) - 1)


@given(st.uuids())
def test_metadata_decodes_to_its_query(query: object) -> None:
    found = metadata.decode(json.dumps({"id": str(query)}).encode())
    assert found == QueryMetadata(query_id=str(query))  # type: ignore[arg-type]


JSON = st.recursive(
    st.none() | st.booleans() | COUNTS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
OFFSETS = st.dictionaries(TEXT, JSON, max_size=3) | COUNTS
NAMES = st.from_regex(r"[A-Za-z0-9_]{1,8}", fullmatch=True)


SOURCES = st.dictionaries(NAMES, st.none() | OFFSETS, min_size=1)


@given(COUNTS, COUNTS, st.dictionaries(TEXT, TEXT), SOURCES, st.sampled_from(["", " ", "  "]))
def test_an_offset_entry_decodes_to_itself(
    watermark: int, timestamp: int, settings: dict[str, str], sources: dict[str, object], space: str
) -> None:
    head = {"batchWatermarkMs": watermark, "batchTimestampMs": timestamp, "conf": settings}
    body = (
        "-" if offset is None else json.dumps(offset, separators=(f",{space}", f":{space}"))
        for offset in sources.values()
    )
    named = (f"{name}:{offset}" for name, offset in zip(sources, body, strict=True))
    found = offset_log.decode(formats.logged(2, head, *named))
    assert found == OffsetEntry(
        version=2,
        watermark_ms=watermark,
        timestamp_ms=timestamp,
        settings=settings,
        sources=tuple(
            SourceOffset(
                source=name,
                offset=offset,  # type: ignore[arg-type]
                respelled=bool(space and isinstance(offset, dict | list) and offset),
            )
            for name, offset in sources.items()
        ),
    )


@given(st.lists(st.tuples(TEXT, COUNTS, COUNTS)), st.booleans())
def test_file_logs_decode_to_their_files(files: list[tuple[str, int, int]], crlf: bool) -> None:  # noqa: FBT001
    source = [{"path": path, "timestamp": a, "batchId": b} for path, a, b in files]
    sink = [
        {"path": path, "size": a, "modificationTime": b, "action": "add"} for path, a, b in files
    ]
    ends = b"\r\n" if crlf else b"\n"
    taken = file_source_log.decode(formats.logged(1, *source).replace(b"\n", ends))
    added = file_sink_log.decode(formats.logged(1, *sink).replace(b"\n", ends))
    assert not isinstance(added, Unreadable)
    assert taken == tuple(FileEntry(path=p, timestamp_ms=a, log_offset=b) for p, a, b in files)
    assert [(one.path, one.bytes, one.modified_ms) for one in added] == files


@given(COUNTS, st.dictionaries(COUNTS, st.lists(st.lists(TEXT))))
def test_a_commit_decodes_to_its_state(watermark: int, ids: dict[int, list[list[str]]]) -> None:
    data = formats.logged(2, {"nextBatchWatermarkMs": watermark, "stateUniqueIds": ids})
    found = commit_log.decode(data)
    assert not isinstance(found, Unreadable)
    assert found.next_watermark_ms == watermark
    assert {key: [list(one) for one in parts] for key, parts in found.state_ids.items()} == ids


@given(COUNTS, TEXT, st.lists(st.tuples(TEXT, COUNTS)), st.booleans(), st.dictionaries(TEXT, JSON))
def test_operator_metadata_decodes_to_its_stores(
    number: int,
    name: str,
    stores: list[tuple[str, int]],
    early: bool,  # noqa: FBT001
    properties: dict[str, object],
) -> None:
    path: dict[str, object] = (
        {"stateSchemaFilePath": "a"} if early else {"stateSchemaFilePaths": ["a"]}
    )
    data = formats.logged(
        2,
        {
            "operatorInfo": {"operatorId": number, "operatorName": name},
            "stateStoreInfo": [
                {"storeName": store, "numColsPrefixKey": 0, "numPartitions": partitions} | path
                for store, partitions in stores
            ],
            "operatorPropertiesJson": json.dumps(properties),
        },
    )
    found = operator_metadata.decode(data)
    assert not isinstance(found, Unreadable)
    assert (found.operator_id, found.name, found.properties) == (number, name, properties)
    assert [(one.name, one.partitions) for one in found.stores] == stores
    assert all(one.schema_paths == ("a",) for one in found.stores)


COLUMNS = st.lists(st.tuples(TEXT, st.just("long"), st.booleans()), max_size=4)


@given(st.integers(1, 3), TEXT, COLUMNS, COLUMNS, st.integers(1, 50))
def test_a_state_schema_decodes_to_its_columns(
    version: int,
    family: str,
    key: list[tuple[str, str, bool]],
    value: list[tuple[str, str, bool]],
    size: int,
) -> None:
    texts_ = formats.struct_type(*key), formats.struct_type(*value)
    raw = tuple(json.dumps(json.loads(one), ensure_ascii=False) for one in texts_)
    if version == 1:
        data = formats.utf("v1") + b"".join(formats.utf(one) for one in raw)
    elif version == 2:
        data = formats.utf("v2") + b"".join(formats.chunks(one, size) for one in raw)
    else:
        data = formats.schema_3((family, raw[0], raw[1], "{    }"))
    found = state_schema.decode(data)
    assert not isinstance(found, Unreadable)
    (only,) = found.families
    assert [(one.name, one.nullable) for one in only.key] == [(n, null) for n, _, null in key]
    assert [(one.name, one.nullable) for one in only.value] == [(n, null) for n, _, null in value]
    assert only.name == (family if version == 3 else "default")
    assert all(one.type == "bigint" for one in (*only.key, *only.value))


@given(COUNTS, st.lists(st.tuples(TEXT, COUNTS)), st.dictionaries(TEXT, st.integers(0, 9)))
def test_a_snapshot_decodes_out_of_its_zip(
    keys: int, files: list[tuple[str, int]], families: dict[str, int]
) -> None:
    listed = [{"localFileName": "x", "dfsSstFileName": name, "sizeBytes": n} for name, n in files]
    inner = {"sstFiles": listed, "numKeys": keys, "columnFamilyMapping": families}
    data = formats.zipped({"OPTIONS": b"o" * 99, "metadata": formats.logged(1, inner)})
    found = rocksdb_zip.decode(data)
    assert not isinstance(found, Unreadable)
    assert (found.keys, found.column_families) == (keys, families)
    assert [(one.stored_name, one.bytes) for one in found.sst_files] == files


@given(st.binary(max_size=3000), st.integers(1, 700), st.data())
def test_a_hadoop_checksum_agrees_with_its_file_alone(
    data: bytes, width: int, draw: st.DataObject
) -> None:
    found = checksum.decode_hadoop(formats.hadoop_crc(data, width))
    assert isinstance(found, HadoopChecksum)
    assert checksum.matches(found, data)
    assert not checksum.matches(found, data + b"x" * width)
    if data:
        at = draw.draw(st.integers(0, len(data) - 1))
        other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert not checksum.matches(found, other)


@given(COUNTS, COUNTS, COUNTS, NAMES, st.uuids(), st.sampled_from(["delta", "snapshot", "zip"]))
def test_a_state_file_is_named_by_its_version(
    operator: int, partition: int, version: int, store: str, unique: object, ending: str
) -> None:
    folder = f"state/{operator}/{partition}/{store}"
    plain = names.classify(f"{folder}/{version}.{ending}")
    assert plain == CheckpointFile(
        plain.kind, version, operator=operator, partition=partition, store=store
    )
    named = names.classify(f"{folder}/{version}_{unique}.{ending}")
    assert named == plain._replace(unique_id=str(unique))
    hadoop = names.classify(f"{folder}/.{version}.{ending}.crc")
    covers = f"{folder}/{version}.{ending}"
    assert hadoop == plain._replace(kind=FileKind.HADOOP_CHECKSUM, covers=covers)


PARTITIONS = st.dictionaries(
    st.sampled_from(["a", "b.c"]), st.dictionaries(st.sampled_from(["0", "7"]), COUNTS, min_size=1),
    min_size=1,
)  # fmt: skip


@given(PARTITIONS, PARTITIONS)
def test_between_two_kafka_offsets_every_partition_is_told(
    start: dict[str, dict[str, int]], end: dict[str, dict[str, int]]
) -> None:
    old, new = source_offset.decode(start), source_offset.decode(end)
    assert isinstance(old, KafkaOffset)
    assert isinstance(new, KafkaOffset)
    found = {one.partition: one for one in source_offset.compute_consumed(old, new).partitions}
    for topic, partition in old.partitions.keys() | new.partitions.keys():
        at = TopicPartition(topic, partition)
        change = found.pop(f"{topic}-{partition}")
        before, after = old.partitions.get(at), new.partitions.get(at)
        if before is None or after is None:
            assert change.change is (Movement.APPEARED if before is None else Movement.VANISHED)
        elif before <= after:
            assert change.count == after - before
        else:
            assert change.change is Movement.WENT_BACK
    assert not found


@given(COUNTS)
def test_the_first_batch_of_a_file_source_begins_before_its_log(log_offset: int) -> None:
    nothing, end = source_offset.decode(None), source_offset.decode({"logOffset": log_offset})
    assert isinstance(end, FileOffset)
    assert source_offset.compute_consumed(nothing, end).total == log_offset + 1


LEASES = st.builds(
    Lease,
    job=TEXT.map(JobName),
    epoch=st.integers(1).map(Epoch),
    holder=st.builds(Holder, host=TEXT, pid=st.integers(), process=TEXT),
    since_ms=st.integers(),
    heartbeat_ms=st.integers(),
    ttl_ms=st.integers(),
    released=st.booleans(),
)


@given(LEASES)
def test_a_lease_decodes_to_itself(lease: Lease) -> None:
    assert lease_format.decode(lease_format.encode(lease)) == lease


@given(LEASES, st.data())
def test_a_lease_that_is_cut_is_unreadable(lease: Lease, data: st.DataObject) -> None:
    whole = lease_format.encode(lease)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert isinstance(lease_format.decode(whole[:cut]), Unreadable)


TEXTS = st.dictionaries(TEXT, TEXT, max_size=3)
TERMS = st.lists(st.builds(Term, name=TEXT, type=TEXT, text=TEXT), max_size=2).map(tuple)
IDENTITIES = st.builds(KafkaIdentity, cluster=st.text(min_size=1), topics=TEXTS) | st.builds(
    Unknown, reason=TEXT
)
FINGERPRINTS = st.builds(
    Fingerprint,
    spark_version=TEXT,
    sources=st.lists(
        st.builds(
            PlanSource,
            name=TEXT,
            kind=TEXT,
            target=TEXT,
            options=TEXTS,
            columns=TERMS,
            identity=IDENTITIES | st.just(NOT_IDENTIFIED),
        ),
        max_size=2,
    ).map(tuple),
    watermarks=st.lists(st.builds(PlanWatermark, column=TEXT, delay=TEXT), max_size=2).map(tuple),
    operators=st.lists(
        st.builds(
            PlanOperator,
            kind=TEXT,
            keys=TERMS,
            values=TERMS,
            stored=TERMS,
            details=TEXTS,
            steps=st.lists(TEXT, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    steps=st.lists(TEXT, max_size=2).map(tuple),
    columns=TERMS,
    functions=TEXTS,
    sinks=st.lists(st.builds(PlanSink, name=TEXT, kind=TEXT, target=TEXT), max_size=2).map(tuple),
    output_mode=TEXT,
    settings=TEXTS,
)


@given(FINGERPRINTS)
def test_a_fingerprint_decodes_to_itself(shown: Fingerprint) -> None:
    assert fingerprint.decode(json.loads(json.dumps(fingerprint.encode(shown)))) == shown
