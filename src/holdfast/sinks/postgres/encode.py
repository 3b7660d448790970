r"""Arrow rows -> the bytes of PostgreSQL's binary COPY, exactly or not at all.

    file    "PGCOPY\n\xff\r\n\0"  int32 flags=0  int32 extension=0  row*  int16 -1
    row     int16 count of fields, then the fields
    field   int32 size, or -1 for null, then the value; every number is big-endian
    array   int32 dimensions (0 if empty)  int32 has nulls  int32 element's type
            int32 size  int32 first index=1, then the elements as fields

Each column becomes Arrow arrays of bytes, and Arrow's own element-wise join makes the rows of
them, so that no value passes through a Python object. Times count from 2000-01-01.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.sinks.postgres import numeric

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
_MOST_BYTES = 256 << 20
_EPOCH_DAYS = 10_957
_EPOCH_US = _EPOCH_DAYS * 86_400_000_000
# What PostgreSQL takes: 4713-11-24 BC to 294276-12-31, and for dates to 5874897-12-31.
_TIMES_US = (-211_813_488_000_000_000 + _EPOCH_US, 2**63 - 1)
_DATES = (-2_451_545 + _EPOCH_DAYS, 2_145_031_948 + _EPOCH_DAYS)
_UUID = r"^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$"
_ESCAPED_NUL = r"(^|[^\\])(\\\\)*\\u0000"

Ints = npt.NDArray[np.int64]


class Oid(IntEnum):
    """PostgreSQL's own numbers of the types that rows can be written as."""

    BOOL = 16
    BYTEA = 17
    INT8 = 20
    INT2 = 21
    INT4 = 23
    TEXT = 25
    JSON = 114
    FLOAT4 = 700
    FLOAT8 = 701
    VARCHAR = 1043
    DATE = 1082
    TIMESTAMP = 1114
    TIMESTAMPTZ = 1184
    INTERVAL = 1186
    NUMERIC = 1700
    UUID = 2950
    JSONB = 3802


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyColumn:
    """One column of the table that rows are written to; of an array, `oid` is the element's.

    `most` is the length of a `varchar`, or 0; `required` columns take no null; what is not
    `stored` is for the sink and not for the table.
    """

    name: str
    sql: str
    oid: Oid
    array: bool
    most: int
    required: bool
    stored: bool = True


class ValueUnfit(ValueError):
    """A value that the table's column cannot hold, and why."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


def encode_rows(columns: Sequence[CopyColumn], rows: pa.RecordBatch) -> Iterator[memoryview]:
    """The rows as COPY bytes, without header and trailer; raises ValueUnfit."""
    if rows.num_rows > 1 and rows.nbytes > _MOST_BYTES:
        half = rows.num_rows // 2
        yield from encode_rows(columns, rows.slice(0, half))
        yield from encode_rows(columns, rows.slice(half))
        return
    if rows.num_rows:
        count = len(columns).to_bytes(2, "big")
        parts = [pa.scalar(count, pa.binary())]
        for column, values in zip(columns, rows.columns, strict=True):
            if column.required and values.null_count:
                raise ValueUnfit(column.name, "a null, and the column takes none")
            parts += _encode_field(column, values)
        yield _to_bytes(_join(parts))


def _join(parts: list[pa.Array]) -> pa.BinaryArray:
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.binary()))


def _to_bytes(joined: pa.BinaryArray) -> memoryview:
    offsets = _read_offsets(joined)
    return memoryview(joined.buffers()[2])[offsets[0] : offsets[-1]]


def _read_offsets(array: pa.Array) -> npt.NDArray[np.int32]:
    whole = np.frombuffer(array.buffers()[1], np.int32)
    return whole[array.offset : array.offset + len(array) + 1]


def _encode_field(column: CopyColumn, values: pa.Array) -> list[pa.Array]:
    """The parts of a field: its size, and its value."""
    if column.array:
        return _add_sizes(_encode_array(column, values), values)
    match column.oid:
        case Oid.TEXT | Oid.VARCHAR | Oid.JSON | Oid.BYTEA:
            return _add_sizes(_encode_text(column, values), values)
        case Oid.JSONB:
            version = pa.scalar(b"\1", pa.binary())
            return _add_sizes(_join([version, _encode_text(column, values)]), values)
        case _:
            return _encode_fixed(_encode_records(column, values), values)


def _encode_fixed(records: npt.NDArray[np.void], values: pa.Array) -> list[pa.Array]:
    """Values of one size: with no null among them, size and value are one part."""
    size = records.dtype.itemsize
    if not values.null_count:
        kind = np.dtype([("size", ">i4"), ("value", records.dtype)])
        whole = np.empty(len(values), kind)
        whole["size"] = size
        whole["value"] = records
        return [_to_binary(whole)]
    return _add_sizes(_to_binary(records), values)


def _to_binary(records: npt.NDArray[np.void]) -> pa.BinaryArray:
    kind = pa.binary(records.dtype.itemsize)
    data = pa.py_buffer(np.ascontiguousarray(records))
    return pa.Array.from_buffers(kind, len(records), [None, data]).cast(pa.binary())


def _add_sizes(content: pa.BinaryArray, values: pa.Array) -> list[pa.Array]:
    sizes = np.diff(_read_offsets(content)).astype(">i4")
    if values.null_count:
        valid = values.is_valid()
        sizes[~_to_bools(valid)] = -1
        content = pc.if_else(valid, content, pa.scalar(b"", pa.binary()))
    return [_to_binary(sizes), content]


def _to_bools(values: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values.to_numpy(zero_copy_only=False)
    return found


def _has_any(values: pa.Array) -> bool:
    return bool(pc.any(values).as_py())


def _encode_text(column: CopyColumn, values: pa.Array) -> pa.BinaryArray:
    """Text and bytes, as they are; nulls become empty."""
    empty = pa.scalar(b"", pa.binary())
    content = values.cast(pa.binary()).fill_null(empty)
    if column.oid is Oid.BYTEA:
        return content
    offsets = _read_offsets(content)
    data = content.buffers()[2]
    if data is not None and 0 in np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]:
        raise ValueUnfit(column.name, "a NUL character, which PostgreSQL cannot hold in text")
    if column.most and (pc.max(pc.utf8_length(values)).as_py() or 0) > column.most:
        raise ValueUnfit(column.name, f"a text longer than {column.most} characters")
    if column.oid is Oid.JSONB and _has_any(pc.match_substring_regex(values, _ESCAPED_NUL)):
        raise ValueUnfit(column.name, "a NUL character, which PostgreSQL cannot hold in jsonb")
    return content


def _encode_records(column: CopyColumn, values: pa.Array) -> npt.NDArray[np.void]:
    """Values of one size each, as PostgreSQL sends them; what stands for a null does not matter."""
    if column.oid is Oid.NUMERIC:
        return numeric.encode(values if numeric.is_decimal(values) else _to_ints(values))
    return _OF_ONE_SIZE[column.oid](column, values)


def _encode_integers(column: CopyColumn, values: pa.Array) -> npt.NDArray[np.void]:
    width = {Oid.INT2: 2, Oid.INT4: 4}.get(column.oid, 8)
    most = 2 ** (width * 8 - 1)
    return _require_range(column, _to_ints(values), -most, most - 1).astype(f">i{width}")


def _encode_floats(column: CopyColumn, values: pa.Array) -> npt.NDArray[np.void]:
    found: npt.NDArray[np.float64] = values.fill_null(0).to_numpy(zero_copy_only=False)
    return found.astype(">f4" if column.oid is Oid.FLOAT4 else ">f8")


def _encode_booleans(_: CopyColumn, values: pa.Array) -> npt.NDArray[np.void]:
    return _to_bools(pc.fill_null(values, fill_value=False)).astype(">i1")


def _encode_days(column: CopyColumn, values: pa.Array) -> npt.NDArray[np.void]:
    days = _require_range(column, _to_ints(values.cast(pa.int32())), *_DATES)
    return (days - _EPOCH_DAYS).astype(">i4")


def _encode_times(column: CopyColumn, values: pa.Array) -> npt.NDArray[np.void]:
    return (_require_range(column, _to_ints(values), *_TIMES_US) - _EPOCH_US).astype(">i8")


def _encode_intervals(_: CopyColumn, values: pa.Array) -> npt.NDArray[np.void]:
    parts = np.zeros(len(values), np.dtype([("us", ">i8"), ("days", ">i4"), ("months", ">i4")]))
    parts["us"] = _to_ints(values)
    return parts


def _to_ints(values: pa.Array) -> Ints:
    found: Ints = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return found


def _require_range(column: CopyColumn, values: Ints, least: int, most: int) -> Ints:
    if len(values) and (int(values.min()) < least or int(values.max()) > most):
        raise ValueUnfit(column.name, f"a value out of the range of `{column.sql}`")
    return values


def _encode_uuids(column: CopyColumn, values: pa.Array) -> npt.NDArray[np.void]:
    if not pc.all(pc.match_substring_regex(values, _UUID), min_count=0).as_py():
        raise ValueUnfit(column.name, "a text that is no UUID")
    filled = values.fill_null("0" * 32)
    digits = "".join(pc.replace_substring(filled, "-", "").to_pylist())
    return np.frombuffer(bytes.fromhex(digits), np.dtype("V16"))


def _encode_array(column: CopyColumn, values: pa.Array) -> pa.BinaryArray:
    """Lists: the elements are fields, joined by moving the borders between them."""
    element = replace(column, sql=column.sql.removesuffix("[]"), array=False, required=False)
    values = values.fill_null([])
    borders = np.frombuffer(values.buffers()[1], np.int32)[
        values.offset : values.offset + len(values) + 1
    ]
    inner = values.values.slice(borders[0], borders[-1] - borders[0])
    sizes = np.diff(borders)
    if len(inner):
        fields = _join(_encode_field(element, inner))
        ends = _read_offsets(fields)[borders - borders[0]]
        content = fields.buffers()[2]
    else:
        ends, content = np.zeros(len(values) + 1, np.int32), pa.py_buffer(b"")
    body = pa.Array.from_buffers(
        pa.binary(), len(values), [None, pa.py_buffer(np.ascontiguousarray(ends)), content]
    )
    return _join([*_encode_array_head(column.oid, sizes, inner, borders), body])


def _encode_array_head(
    oid: Oid, sizes: npt.NDArray[np.int32], inner: pa.Array, borders: npt.NDArray[np.int32]
) -> list[pa.Array]:
    nulls = np.concatenate([[0], np.cumsum(~_to_bools(inner.is_valid()))]).astype(np.int64)
    within = np.diff(nulls[borders - borders[0]]) if len(sizes) else nulls[:0]
    head = np.empty(
        len(sizes), np.dtype([("dimensions", ">i4"), ("nulls", ">i4"), ("element", ">i4")])
    )
    head["dimensions"], head["nulls"], head["element"] = sizes > 0, within > 0, oid
    spans = np.empty(len(sizes), np.dtype([("size", ">i4"), ("first", ">i4")]))
    spans["size"], spans["first"] = sizes, 1
    span = pc.if_else(pa.array(sizes > 0), _to_binary(spans), pa.scalar(b"", pa.binary()))
    return [_to_binary(head), span]


_OF_ONE_SIZE: Mapping[Oid, Callable[[CopyColumn, pa.Array], npt.NDArray[np.void]]] = {
    Oid.INT2: _encode_integers,
    Oid.INT4: _encode_integers,
    Oid.INT8: _encode_integers,
    Oid.FLOAT4: _encode_floats,
    Oid.FLOAT8: _encode_floats,
    Oid.BOOL: _encode_booleans,
    Oid.DATE: _encode_days,
    Oid.TIMESTAMP: _encode_times,
    Oid.TIMESTAMPTZ: _encode_times,
    Oid.INTERVAL: _encode_intervals,
    Oid.UUID: _encode_uuids,
}
