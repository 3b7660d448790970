"""What a table's properties ask of its files.

Which columns have statistics, how the files are compressed, how often the log has a checkpoint.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import deltalake

ColumnPath = tuple[str, ...]

_COLUMNS = 32
_TEXT_LENGTH = 32
_CHECKPOINT_INTERVAL = 100
_CODECS = {
    "none": "NONE",
    "uncompressed": "NONE",
    "snappy": "SNAPPY",
    "gzip": "GZIP",
    "zstd": "ZSTD",
    "brotli": "BROTLI",
    "lz4_raw": "LZ4",
}
_FILE_PROPERTIES = (
    "parquet.",
    "delta.parquet.format.version",
    "delta.randomizeFilePrefixes",
    "delta.writePartitionColumnsToParquet",
    "delta.autoOptimize",
)
_QUOTED = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How files of the table are to be written.

    `indexed` maps the dotted path of a column to its parts; a dotted path that two columns of the
    table share is left out, because a Parquet footer does not say which of the two it means.
    `plain` says that the driver's own Parquet writer can do all that is asked.
    """

    indexed: Mapping[str, ColumnPath] = field(default_factory=dict)
    text_length: int = _TEXT_LENGTH
    compression: str = "SNAPPY"
    plain: bool = True


def read_layout(table: deltalake.DeltaTable, session_codec: str) -> Layout:
    """Return what the table asks; `session_codec` holds where the table names no codec."""
    metadata = table.metadata()
    properties = metadata.configuration
    schema = json.loads(table.schema().to_json())
    by = tuple(metadata.partition_columns)
    fields = [one for one in schema["fields"] if one["name"] not in by]
    codec = properties.get("delta.parquet.compression.codec", session_codec).lower()
    kinds = {one["name"]: one["type"] for one in schema["fields"]}
    special = any(
        key.startswith(_FILE_PROPERTIES) and value != "false" for key, value in properties.items()
    )
    return Layout(
        indexed=_index_by_dotted_path(
            _list_indexed(fields, properties), list(_list_leaves(schema["fields"]))
        ),
        text_length=_parse_number(
            properties.get("delta.dataSkippingStringPrefixLength"), _TEXT_LENGTH
        ),
        compression=_CODECS.get(codec, "SNAPPY"),
        # Spark may turn bytes that are not UTF-8 into another text than pyarrow.
        plain=not special and codec in _CODECS and all(kinds[name] != "binary" for name in by),
    )


def read_checkpoint_interval(table: deltalake.DeltaTable) -> int:
    """Return how many commits the table's log may have between two checkpoints."""
    said = table.metadata().configuration.get("delta.checkpointInterval")
    return max(1, _parse_number(said, _CHECKPOINT_INTERVAL))


def _list_indexed(
    fields: Sequence[Mapping[str, object]], properties: Mapping[str, str]
) -> list[ColumnPath]:
    """Return the columns with statistics, as Delta counts them."""
    paths = list(_list_leaves(fields))
    named = properties.get("delta.dataSkippingStatsColumns")
    if named is not None:
        wanted = [_parse_path(one) for one in _split(named)]
        return [path for path in paths if any(path[: len(one)] == one for one in wanted)]
    count = _parse_number(properties.get("delta.dataSkippingNumIndexedCols"), _COLUMNS)
    return paths if count < 0 else paths[:count]


def _list_leaves(fields: object, above: ColumnPath = ()) -> Iterator[ColumnPath]:
    for one in fields if isinstance(fields, list) else ():
        path, kind = (*above, one["name"]), one["type"]
        if isinstance(kind, dict) and kind.get("type") == "struct":
            yield from _list_leaves(kind["fields"], path)
        else:
            yield path


def _index_by_dotted_path(
    indexed: Sequence[ColumnPath], every: Sequence[ColumnPath]
) -> dict[str, ColumnPath]:
    counts = Counter(".".join(path) for path in every)
    dotted = {".".join(path): path for path in indexed}
    return {name: path for name, path in dotted.items() if counts[name] == 1}


def _split(text: str) -> list[str]:
    """Split at commas outside of backticks."""
    pieces = re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text)
    return [piece.strip() for piece in pieces if piece.strip()]


def _parse_path(name: str) -> ColumnPath:
    return tuple(
        quoted.replace("``", "`") if quoted else plain for quoted, plain in _QUOTED.findall(name)
    )


def _parse_number(text: str | None, otherwise: int) -> int:
    try:
        return otherwise if text is None else int(text)
    except ValueError:
        return otherwise
