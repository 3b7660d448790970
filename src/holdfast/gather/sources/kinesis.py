"""A Kinesis batch, whose offset entry has only the start -> where the batch ended.

    offsets/7                                 {"metadata":{"streamName":"s","batchId":"7"},
                                               "shardId-0":{"iteratorType":…,"iteratorPosition":…}}
    sources/<i>/shard-commit/7/shardId-0      {"shardId":"shardId-0","iteratorType":…,…}

Every other source plans a batch with its end. The open source connectors for Kinesis plan it with
its start and read what there is. Then they write down where they left each shard, and the next
batch starts there. A batch that runs again has the same start, but a different end.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from holdfast.decode import source_offset, source_start
from holdfast.gather.inventory.read import decode_file
from holdfast.model import json
from holdfast.model.fact import Unknown
from holdfast.model.json import Json
from holdfast.model.offsets import SourceOffset, SourceStart
from holdfast.model.source_offset import ConsumedRange, KinesisOffset, Movement
from holdfast.storage import Piece, Reader

NOT_LOGGED = Unknown(reason="Kinesis logs where a batch starts, but not where it ends")
_NO_END = Unknown(reason="no file of the source says where the batch ended in its shards")
_SHARD = re.compile(r"[A-Za-z0-9][\w.-]*")
_MOST_SHARDS = 500
_MOST_BYTES = 64 << 10
_ENDED = "SHARD_END"


def logs_beginnings(offset: Json) -> bool:
    """Return whether an open source connector wrote this offset; Databricks writes a list."""
    has_metadata = isinstance(offset, Mapping) and "metadata" in offset
    return has_metadata and isinstance(source_offset.decode(offset), KinesisOffset)


def read_end(reader: Reader, source: SourceOffset) -> "Json | Unknown":
    """Return where a batch ended in its shards, as an offset, from the files of `list_files`."""
    entry = json.as_mapping(source.offset)
    paths = list_files(source)
    if not paths:
        return _NO_END
    end: dict[str, Json] = dict(entry)
    for piece, data in reader.read([Piece(path=path, most=_MOST_BYTES) for path in paths]):
        decoded = decode_file(data, source_start.decode)
        if not isinstance(decoded, SourceStart):
            return _NO_END
        end[paths[piece.path]] = decoded.offset
    return end if logs_beginnings(end) else _NO_END


def list_files(source: SourceOffset) -> Mapping[str, str]:
    """Return the file of each shard that a batch read; empty if there are too many."""
    entry = json.as_mapping(source.offset)
    number = str(json.as_mapping(entry.get("metadata")).get("batchId"))
    shards = [
        name
        for name, position in entry.items()
        if name != "metadata" and json.as_mapping(position).get("iteratorType") != _ENDED
    ]
    is_plain = number.isdecimal() and all(_SHARD.fullmatch(name) for name in shards)
    if not is_plain or len(shards) > _MOST_SHARDS:
        return {}
    return {f"sources/{source.source}/shard-commit/{number}/{name}": name for name in shards}


def find_consumed(start: "Json | Unknown", end: "Json | Unknown", entry: Json) -> ConsumedRange:
    """Return what a batch read, whose start or end may be unknown; `entry` is its own offset."""
    at = source_offset.decode(entry)
    if isinstance(end, Unknown):
        whole = source_offset.compute_consumed(at, at)
        changes = tuple(
            replace(change, end="?", count=end, change=Movement.END_UNKNOWN)
            for change in whole.partitions
        )
        return replace(whole, partitions=changes, total=end)
    first = start if isinstance(start, Unknown) else source_offset.decode(start)
    return source_offset.compute_consumed(first, source_offset.decode(end))
