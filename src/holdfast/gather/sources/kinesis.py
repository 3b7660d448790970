"""Stage 2: a batch of Kinesis, of which the offset log knows the beginning only -> where it ended.

    offsets/7                                 {"metadata":{"streamName":"s","batchId":"7"},
                                               "shardId-0":{"iteratorType":…,"iteratorPosition":…}}
    sources/<i>/shard-commit/7/shardId-0      {"shardId":"shardId-0","iteratorType":…,…}

Every other source plans a batch with its end. The open connectors of Kinesis plan it with where it
begins, and read what there is; where they left a shard they write down then, and the next batch
begins there. A batch that is run again reads from the same place, but to another end.
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

NOT_LOGGED = Unknown(reason="Kinesis logs where a batch begins, and not where it ends")
_NOT_TOLD = Unknown(reason="no file of the source says where the batch left its shards")
_SHARD = re.compile(r"[A-Za-z0-9][\w.-]*")
_MOST_SHARDS = 500
_MOST_BYTES = 64 << 10
_ENDED = "SHARD_END"


def logs_beginnings(offset: Json) -> bool:
    """Whether this is an offset of the open connectors: an object; that of Databricks is a list."""
    shaped = isinstance(offset, Mapping) and "metadata" in offset
    return shaped and isinstance(source_offset.decode(offset), KinesisOffset)


def read_end(reader: Reader, source: SourceOffset) -> "Json | Unknown":
    """Where a batch left its shards, in the shape of an offset; the files are `files(source)`."""
    entry = json.as_mapping(source.offset)
    paths = list_files(source)
    if not paths:
        return _NOT_TOLD
    left: dict[str, Json] = dict(entry)
    for piece, data in reader.read([Piece(path=path, most=_MOST_BYTES) for path in paths]):
        said = decode_file(data, source_start.decode)
        if not isinstance(said, SourceStart):
            return _NOT_TOLD
        left[paths[piece.path]] = said.offset
    return left if logs_beginnings(left) else _NOT_TOLD


def list_files(source: SourceOffset) -> Mapping[str, str]:
    """The file of each shard that the batch of an entry read, unless they are too many."""
    entry = json.as_mapping(source.offset)
    number = str(json.as_mapping(entry.get("metadata")).get("batchId"))
    shards = [
        name
        for name, position in entry.items()
        if name != "metadata" and json.as_mapping(position).get("iteratorType") != _ENDED
    ]
    plain = number.isdecimal() and all(_SHARD.fullmatch(name) for name in shards)
    if not plain or len(shards) > _MOST_SHARDS:
        return {}
    return {f"sources/{source.source}/shard-commit/{number}/{name}": name for name in shards}


def find_consumed(start: "Json | Unknown", left: "Json | Unknown", began: Json) -> ConsumedRange:
    """What a batch read, of which an end may be unknown."""
    at = source_offset.decode(began)
    if isinstance(left, Unknown):
        whole = source_offset.compute_consumed(at, at)
        changes = tuple(
            replace(one, end="?", count=left, change=Movement.END_UNKNOWN)
            for one in whole.partitions
        )
        return replace(whole, partitions=changes, total=left)
    first = start if isinstance(start, Unknown) else source_offset.decode(start)
    return source_offset.compute_consumed(first, source_offset.decode(left))
