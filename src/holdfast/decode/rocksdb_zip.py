"""The bytes of `V.zip` or `V_<uuid>.zip` -> RocksDbSnapshot.

The zip contains RocksDB's small files and a file named `metadata`:

    v1
    {"sstFiles":[{"localFileName":"00007.sst","dfsSstFileName":"00007-<uuid>.sst","sizeBytes":9}],
     "logFiles":[{"localFileName":…,"dfsLogFileName":…,"sizeBytes":…}],"numKeys":5,
     "numInternalKeys":0,"columnFamilyMapping":{"default":0},"maxColumnFamilyId":0}

Spark 4.0 writes `v2`, with the same fields, if the first query of its process had state checkpoint
format 2. Every other version writes `v1` in both formats, and reads nothing else.

A zip is read from its end, where its list of members is.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from holdfast.decode import log
from holdfast.model import json
from holdfast.model.checkpoint import RocksDbFile, RocksDbSnapshot
from holdfast.model.fact import Unreadable
from holdfast.model.json import Json

_END, _MEMBER, _LOCAL = b"PK\5\6", b"PK\1\2", b"PK\3\4"
_END_SIZE, _MEMBER_SIZE, _LOCAL_SIZE = 22, 46, 30
_LONGEST_COMMENT = 65_535
_STORED, _DEFLATED = 0, 8
_MOST_BYTES = 8 << 20


class _Member(NamedTuple):
    name: bytes
    method: int
    crc: int
    compressed: int
    offset: int


def decode(data: bytes) -> RocksDbSnapshot | Unreadable:
    """Return the contents of the snapshot, or why it cannot be read."""
    members = _list_members(data)
    if isinstance(members, Unreadable):
        return members
    member = next((candidate for candidate in members if candidate.name == b"metadata"), None)
    if member is None:
        return Unreadable(reason="the zip holds no `metadata`")
    content = _read_member(data, member)
    return content if isinstance(content, Unreadable) else decode_metadata(content)


def decode_metadata(data: bytes) -> RocksDbSnapshot | Unreadable:
    """Return the contents of a `metadata` file that was taken out of its zip."""
    head = log.split_version(data, "RocksDB metadata", (1, 2))
    if isinstance(head, Unreadable):
        return head
    fields = log.parse_object(head[1])
    if isinstance(fields, Unreadable):
        return fields
    keys = log.as_integer(fields.get("numKeys"))
    if keys is None:
        return Unreadable(reason="has no number of keys")
    return RocksDbSnapshot(
        version=head[0],
        keys=keys,
        internal_keys=log.as_integer(fields.get("numInternalKeys")) or 0,
        sst_files=_decode_files(fields.get("sstFiles"), "dfsSstFileName"),
        log_files=_decode_files(fields.get("logFiles"), "dfsLogFileName"),
        column_families={
            name: log.as_integer(number) or 0
            for name, number in json.as_mapping(fields.get("columnFamilyMapping")).items()
        },
    )


def _decode_files(value: Json, stored: str) -> tuple[RocksDbFile, ...]:
    return tuple(_decode_file(json.as_mapping(file), stored) for file in json.as_sequence(value))


def _decode_file(value: Mapping[str, Json], stored: str) -> RocksDbFile:
    return RocksDbFile(
        local_name=str(value.get("localFileName") or ""),
        stored_name=str(value.get(stored) or ""),
        bytes=log.as_integer(value.get("sizeBytes")) or 0,
    )


def _list_members(data: bytes) -> Iterator[_Member] | Unreadable:
    end = data.rfind(_END, max(0, len(data) - _END_SIZE - _LONGEST_COMMENT))
    if end < 0 or end + _END_SIZE > len(data):
        return Unreadable(reason="no zip, or one that is cut short: its list of members is missing")
    size, offset = struct.unpack_from("<II", data, end + 12)
    if offset + size > end:
        return Unreadable(reason="the zip's list of members lies outside of it")
    return _walk_directory(data[offset : offset + size])


def _walk_directory(directory: bytes) -> Iterator[_Member]:
    at = 0
    while directory[at : at + 4] == _MEMBER and at + _MEMBER_SIZE <= len(directory):
        method, crc, compressed = struct.unpack_from("<10xH4xII", directory, at)
        name, extra, comment = struct.unpack_from("<HHH", directory, at + 28)
        (offset,) = struct.unpack_from("<I", directory, at + 42)
        start = at + _MEMBER_SIZE
        yield _Member(directory[start : start + name], method, crc, compressed, offset)
        at = start + name + extra + comment


def _read_member(data: bytes, member: _Member) -> bytes | Unreadable:
    head = data[member.offset : member.offset + _LOCAL_SIZE]
    if head[:4] != _LOCAL or len(head) < _LOCAL_SIZE:
        return Unreadable(reason="the zip's `metadata` is not where its list says")
    name, extra = struct.unpack_from("<HH", head, 26)
    start = member.offset + _LOCAL_SIZE + name + extra
    content = _inflate(data[start : start + member.compressed], member.method)
    if not isinstance(content, Unreadable) and zlib.crc32(content) != member.crc:
        return Unreadable(reason="the zip's `metadata` does not agree with its checksum")
    return content


def _inflate(raw: bytes, method: int) -> bytes | Unreadable:
    if method == _STORED:
        return raw
    if method != _DEFLATED:
        return Unreadable(reason=f"the zip's `metadata` is compressed by method {method}")
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = inflating.decompress(raw, _MOST_BYTES)
    except zlib.error:
        return Unreadable(reason="the zip's `metadata` cannot be inflated")
    if inflating.unconsumed_tail:
        return Unreadable(reason="the zip's `metadata` is larger than any real one")
    return content
