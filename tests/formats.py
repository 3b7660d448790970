"""Bytes of every on-disk format, small encoders that make them, and every decoder by name."""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from holdfast.decode import (
    checksum,
    commit_log,
    event_log,
    file_sink_log,
    file_source_log,
    fingerprint,
    log,
    metadata,
    names,
    offset_log,
    operator_metadata,
    rocksdb_zip,
    run_record,
    source_offset,
    source_start,
    state_schema,
)
from holdfast.decode import lease as lease_format
from holdfast.model.events import QueryStarted
from holdfast.model.fact import Unreadable
from holdfast.model.ids import RunId
from holdfast.model.json import Json

QUERY = "0d4f3b0e-6c4b-4f6e-9a53-0d6a3c0f1b11"
RUN = "6a1f7f2e-2f6b-4a94-8b1d-94b1de3a2c55"


def logged(version: int, *lines: object) -> bytes:
    """A log of Spark: a version line, then JSON, or text as it is."""
    texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    return "\n".join([f"v{version}", *texts]).encode()


def utf(text: str) -> bytes:
    """Java's writeUTF: two bytes of length, then modified UTF-8."""
    units = text.encode("utf-16-be", "surrogatepass")
    split = (
        units[at : at + 2].decode("utf-16-be", "surrogatepass") for at in range(0, len(units), 2)
    )
    raw = "".join(split).encode("utf-8", "surrogatepass").replace(b"\0", b"\xc0\x80")
    return struct.pack(">H", len(raw)) + raw


def chunks(text: str, size: int = 65_535) -> bytes:
    """How Spark writes a long text: the number of chunks, then each with writeUTF."""
    units = text.encode("utf-16-be", "surrogatepass")
    parts = [units[at : at + 2 * size] for at in range(0, len(units), 2 * size)] or [b""]
    written = (utf(part.decode("utf-16-be", "surrogatepass")) for part in parts)
    return struct.pack(">i", len(parts)) + b"".join(written)


def struct_type(*columns: tuple[str, object, bool]) -> str:
    """Spark's JSON of a struct type."""
    fields = [
        {"name": name, "type": kind, "nullable": nullable, "metadata": {}}
        for name, kind, nullable in columns
    ]
    return json.dumps({"type": "struct", "fields": fields})


KEY = struct_type(("k", "string", True))
VALUE = struct_type(("n", "long", False))
ENCODER = json.dumps({"keyStateEncoderType": "NoPrefixKeyStateEncoderSpec"})


def schema_3(*families: tuple[str, str, str, str], with_ids: bool = True) -> bytes:
    """A state schema of version 3: name, key, value and user key of each column family."""
    identity = struct.pack(">h", 0) if with_ids else b""
    return (
        utf("v3")
        + struct.pack(">i", len(families))
        + b"".join(
            utf(name) + identity + chunks(key) + identity + chunks(value) + chunks(ENCODER)
            + chunks(user_key)
            for name, key, value, user_key in families
        )
    )  # fmt: skip


SNAPSHOT = {
    "sstFiles": [
        {"localFileName": "00007.sst", "dfsSstFileName": f"00007-{RUN}.sst", "sizeBytes": 912}
    ],
    "numKeys": 5,
    "numInternalKeys": 1,
    "columnFamilyMapping": {"default": 0, "counts": 1},
    "columnFamilyTypeMap": {"default": False, "counts": False},
    "maxColumnFamilyId": 1,
}


def zipped(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """A zip as Spark writes one of RocksDB's files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def hadoop_crc(data: bytes, width: int = 512) -> bytes:
    """Hadoop's checksum file of some data."""
    sums = (zlib.crc32(data[at : at + width]) for at in range(0, len(data), width))
    return b"crc\0" + struct.pack(">I", width) + b"".join(struct.pack(">I", one) for one in sums)


SETTINGS = {"spark.sql.shuffle.partitions": "200"}
OFFSETS_HEAD = {"batchWatermarkMs": 0, "batchTimestampMs": 1767225600000, "conf": SETTINGS}
OFFSETS: tuple[object, ...] = (
    {"orders": {"0": 23, "1": 7}, "returns": {"0": 0}},
    {"logOffset": 3},
    {"sourceVersion": 1, "reservoirId": QUERY, "reservoirVersion": 5, "index": -1,
     "isStartingVersion": False},
    41,
    {"offset": 20, "timestamp": 1000},
    {"0": {"value": 5, "runTimeMs": 1}},
    {"0": 5, "1": 8},
    [5, 8],
    {"metadata": {"streamName": "s", "batchId": "3"}, "shardId-000000000000": {
        "iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "49652022592149344892"}},
    [{"shard": {"stream": "s", "shardId": "shardId-000000000000"}, "firstSeqNum": "1",
      "lastSeqNum": "49652022592149344892", "closed": False}],
    {"seqNum": 9, "sourceVersion": 1, "fetchEpoch": 2},
    {"seqNum": 9, "sourceVersion": 3, "lastBackfillStartTimeMs": 1, "lastInputPath": "s3://in"},
    {"version": 1, "snapshot_id": 8270633197658268308, "position": 2, "scan_all_files": True},
    {"activeSourceName": "a", "allSourceNames": ["a", "b"], "completedSourceNames": []},
    {"page": "any", "token": None},
    {},
)  # fmt: skip

LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
PROGRESS = {
    "id": QUERY, "runId": RUN, "name": "counts", "timestamp": "2026-01-01T00:00:01.500Z",
    "batchId": 4, "durationMs": {"addBatch": 69, "triggerExecution": 103}, "eventTime": {},
    "stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 2,
                        "customMetrics": {"loadedMapCacheHitCount": 0}}],
    "sources": [{"description": "FileStreamSource[file:/in]", "startOffset": None,
                 "endOffset": '{"logOffset":0}', "numInputRows": 2}],
    "sink": {"description": "FileSink[file:/out]", "numOutputRows": -1},
}  # fmt: skip
PLAN = {
    "nodeName": "WriteToDataSourceV2",
    "simpleString": "WriteToDataSourceV2 MicroBatchWrite[epoch: 4, writer: ConsoleWriter]",
    "children": [{
        "nodeName": "StateStoreSave",
        "simpleString": "StateStoreSave [k#7], state info [ checkpoint = file:/ck/counts/state, "
        f"runId = {RUN}, opId = 0, ver = 4, numPartitions = 2] stateStoreCkptIds = None, "
        "Complete, 0, 0, 2",
        "children": [],
    }],
}  # fmt: skip
EVENT_LOG: list[dict[str, object]] = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.1.1"},
    {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": {"spark.app.name": "a"}},
    {"Event": "SparkListenerJobStart", "Job ID": 0},
    {"Event": f"{LISTENER}QueryStartedEvent", "id": QUERY, "runId": RUN, "name": "counts",
     "timestamp": "2026-01-01T00:00:00.907Z", "jobTags": []},
    {"Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
     "executionId": 3, "rootExecutionId": 3, "time": 1767225601000,
     "description": f"counts\nid = {QUERY}\nrunId = {RUN}\nbatch = 4",
     "physicalPlanDescription": "…, Append, …", "sparkPlanInfo": PLAN},
    {"Event": f"{LISTENER}QueryProgressEvent", "progress": PROGRESS},
    {"Event": f"{LISTENER}QueryTerminatedEvent", "id": QUERY, "runId": RUN, "exception": None},
]  # fmt: skip
FINGERPRINT = {
    "format": 1, "spark_version": "4.1.1", "steps": ["Filter"], "columns": [["k", "string", "k"]],
    "sources": [{"name": "in", "kind": "kafka", "target": "orders", "options": {"topic": "orders"},
                 "columns": [["k", "string", "k"]],
                 "identity": {"cluster": "c", "topics": {"orders": "t"}}}],
    "watermarks": [{"column": "t", "delay": "10 minutes"}],
    "operators": [{"kind": "stateStoreSave", "keys": [["k", "string", "k"]], "values": [],
                   "stored": [["count", "bigint", "count(1)"]], "details": {"mode": "append"},
                   "steps": ["Project"]}],
    "functions": {"f": "00"}, "sinks": [{"name": "out", "kind": "delta", "target": "/out"}],
    "output_mode": "append", "settings": {"spark.sql.shuffle.partitions": "2"},
}  # fmt: skip
RECORDS: list[dict[str, object]] = [
    {"event": "started", "at_ms": 1, "query_id": QUERY, "run_id": RUN, "name": "counts",
     "spark_version": "4.1.1", "location": "/ck/counts", "sink": "ForeachBatchSink",
     "output_mode": "append", "sources": ["FileStreamSource[file:/in]"],
     "configuration": {"spark.master": "local[2]"}, "job": "counts", "plan": FINGERPRINT},
    {"event": "progress", "at_ms": 2, "batch": 4, "rows": 2, "duration_ms": {"addBatch": 69},
     "watermark": None, "sources": [{"description": "FileStreamSource[file:/in]",
     "startOffset": None, "endOffset": {"logOffset": 0}, "numInputRows": 2}],
     "state": [{"operatorName": "dedupe", "numRowsTotal": 2}]},
    {"event": "terminated", "at_ms": 3, "error": None},
]  # fmt: skip
OPERATOR = {
    "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
    "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 3}],
}
SINK_FILE = {
    "path": "file:///out/part-0.parquet", "size": 9, "isDir": False, "modificationTime": 7,
    "blockReplication": 1, "blockSize": 33554432, "action": "add",
}  # fmt: skip
SPARK_CRC = {
    "algorithm": "CRC32C", "value": -1391582, "mainFileSize": 46, "timestampMs": 7,
    "creator": {"executorId": "driver", "taskInfo": "Task= 0.0, Stage= 3.0"},
}  # fmt: skip


def lines(values: Sequence[object]) -> bytes:
    """One JSON object a line."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


class Format(NamedTuple):
    """A decoder, and bytes that it reads."""

    decode: Callable[[bytes], object]
    examples: tuple[bytes, ...]


def _offset(data: bytes) -> object:
    """Both ends of a range: the JSON by kind, and what lies between it and half of the bytes."""
    found = [source_offset.decode(_json(part)) for part in (data[: len(data) // 2], data)]
    return source_offset.compute_consumed(*found), source_offset.compute_consumed(
        found[1], found[1]
    )


def _json(data: bytes) -> Json:
    text = log.decode_text(data)
    found = text if isinstance(text, Unreadable) else log.parse_json(text)
    return None if isinstance(found, Unreadable) else found


def _crc(data: bytes) -> object:
    found = checksum.decode_hadoop(data)
    return found if isinstance(found, Unreadable) else checksum.matches(found, data)


def _records(data: bytes) -> object:
    """The events, and what the plans in them are made of."""
    found = run_record.decode(data, RunId(RUN))
    started = (one for one in found if isinstance(one, QueryStarted))
    return [*found, *(fingerprint.decode(one.record.get("plan")) for one in started)]


FORMATS: Mapping[str, Format] = {
    "metadata": Format(metadata.decode, (json.dumps({"id": QUERY}).encode(),)),
    "offset log": Format(
        offset_log.decode,
        (
            logged(1, OFFSETS_HEAD, *OFFSETS, "-"),
            logged(2, OFFSETS_HEAD, 'landing:{"logOffset":3}', "1:-"),
        ),
    ),
    "commit log": Format(
        commit_log.decode,
        (
            logged(1, {}),
            logged(1, {"nextBatchWatermarkMs": 7}),
            logged(2, {"nextBatchWatermarkMs": 0, "stateUniqueIds": {"0": [["a", "b"], ["c"]]}}),
            logged(3, {"sinkMetadataMap": {"out": {"sinkName": "out", "isActive": True}}}),
        ),
    ),
    "file source log": Format(
        file_source_log.decode, (logged(1, {"path": "file:///a", "timestamp": 1, "batchId": 0}),)
    ),
    "tail of a file source log": Format(
        lambda data: file_source_log.decode(data, whole=False),
        (logged(1, {"path": "file:///a", "timestamp": 1, "batchId": 0}),),
    ),
    "source start": Format(
        source_start.decode,
        (b"\0" + logged(1, {"orders": {"0": 17}}), logged(1, 1767225600000), b'{"version":1}'),
    ),
    "file sink log": Format(file_sink_log.decode, (logged(1), logged(1, SINK_FILE, SINK_FILE))),
    "operator metadata": Format(
        operator_metadata.decode,
        (logged(1, OPERATOR), logged(2, OPERATOR | {"operatorPropertiesJson": '{"a":1}'})),
    ),
    "state schema": Format(
        state_schema.decode,
        (
            utf("v1") + utf(KEY) + utf(VALUE),
            utf("v2") + chunks(KEY) + chunks(VALUE),
            schema_3(("counts", KEY, VALUE, KEY), ("more", KEY, VALUE, "{    }")),
            schema_3(("counts", KEY, VALUE, "{    }"), with_ids=False),
        ),
    ),
    "RocksDB zip": Format(
        rocksdb_zip.decode,
        (
            zipped({"CURRENT": b"MANIFEST-000004\n", "metadata": logged(1, SNAPSHOT)}),
            zipped({"metadata": logged(1, SNAPSHOT)}, zipfile.ZIP_STORED),
        ),
    ),
    "Spark checksum": Format(checksum.decode_spark, (json.dumps(SPARK_CRC).encode(),)),
    "Hadoop checksum": Format(_crc, (hadoop_crc(b"x" * 1000),)),
    "names": Format(
        lambda data: names.classify(data.decode("utf-8", "surrogateescape")),
        (
            b"metadata", b"offsets/7", b"sources/0/9.compact", b"state/0/_metadata/v2/7",
            b"state/0/3/left-keyToNumValues/8_a.changelog", b"state/0/3/SSTs/.000007-a.sst.crc",
        ),
    ),
    "source offset": Format(_offset, tuple(json.dumps(one).encode() for one in OFFSETS)),
    "event log": Format(
        lambda data: list(event_log.decode(data.splitlines(keepends=True))), (lines(EVENT_LOG),)
    ),
    "run records": Format(_records, (lines(RECORDS),)),
    "lease": Format(
        lease_format.decode,
        (
            b'{"epoch":3,"heartbeat_ms":1,"host":"h","job":"j","pid":1,"process":"p","since_ms":1,"ttl_ms":9}',
        ),
    ),
}  # fmt: skip
