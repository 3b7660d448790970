r"""`<file>.crc` -> SparkChecksum, `.<file>.crc` -> HadoopChecksum.

Spark writes its checksums beside state files since 4.1, Hadoop beside every file on a local disk:

    {"algorithm":"CRC32C","value":-5,"mainFileSize":9,"timestampMs":1,
     "creator":{"executorId":"driver","taskInfo":"Task= 0.0, Stage= 3.0"}}

    "crc\0"  bytes per checksum (4 bytes)  a CRC-32 (4 bytes) for each such stretch of the file
"""

import struct
import zlib

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.checkpoint import HadoopChecksum, SparkChecksum
from holdfast.model.fact import Unreadable

_MAGIC = b"crc\0"
_HEAD = 8


def decode_spark(data: bytes) -> SparkChecksum | Unreadable:
    """Return Spark's checksum of a state file, or why it cannot be read."""
    whole = log.decode_text(data)
    if isinstance(whole, Unreadable):
        return whole
    fields = log.parse_object(whole) if whole else Unreadable(reason="empty")
    if isinstance(fields, Unreadable):
        return fields
    algorithm = fields.get("algorithm")
    value, size = log.as_integer(fields.get("value")), log.as_integer(fields.get("mainFileSize"))
    if not isinstance(algorithm, str) or value is None or size is None:
        return Unreadable(reason="has no algorithm, value or size of the file")
    creator = json.as_mapping(fields.get("creator"))
    parts = (creator.get("executorId"), creator.get("taskInfo"))
    return SparkChecksum(
        algorithm=algorithm,
        value=value,
        file_bytes=size,
        timestamp_ms=log.as_integer(fields.get("timestampMs")) or 0,
        creator=", ".join(part for part in parts if isinstance(part, str) and part),
    )


def decode_hadoop(data: bytes) -> HadoopChecksum | Unreadable:
    """Return Hadoop's checksum of a local file, or why it cannot be read."""
    if not data:
        return Unreadable(reason="empty")
    if data[:4] != _MAGIC or len(data) < _HEAD:
        return Unreadable(reason="does not begin as a checksum of Hadoop")
    (width,) = struct.unpack_from(">I", data, 4)
    if width == 0 or (len(data) - _HEAD) % 4:
        return Unreadable(reason="is cut short, or covers 0 bytes a checksum")
    count = (len(data) - _HEAD) // 4
    return HadoopChecksum(
        bytes_per_checksum=width, checksums=struct.unpack_from(f">{count}I", data, _HEAD)
    )


def matches(checksum: HadoopChecksum, data: bytes) -> bool:
    """Return whether a checksum belongs to the contents of a file."""
    width = checksum.bytes_per_checksum
    if -(-len(data) // width) != len(checksum.checksums):
        return False
    view = memoryview(data)
    return all(
        zlib.crc32(view[at * width : (at + 1) * width]) == expected
        for at, expected in enumerate(checksum.checksums)
    )
