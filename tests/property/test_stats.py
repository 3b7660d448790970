"""The statistics' bounds hold for every value, in the order that Delta readers compare by."""

# ruff: noqa: E501  a table of data is read by its columns

import datetime as dt
import io
import json
import math
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.sinks.delta import stats
from holdfast.sinks.delta.layout import Layout

HIGHEST = "\U0010ffff"
TEXTS = st.text(st.characters(codec="utf-8"), max_size=70) | st.lists(
    st.sampled_from(["a", "é", "\ud7ff", "\ue000", "😀", HIGHEST]), min_size=28, max_size=40
).map("".join)
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf])
MICROS = st.integers(-(1 << 62), 1 << 62) | st.integers(-(10**16), 10**16)

COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    "byte": (pa.int8(), st.integers(-(1 << 7), (1 << 7) - 1)),
    "int": (pa.int32(), st.integers(-(1 << 31), (1 << 31) - 1)),
    "long": (pa.int64(), st.integers(-(1 << 63), (1 << 63) - 1)),
    "double": (pa.float64(), FLOATS),
    "float": (pa.float32(), st.floats(width=32)),
    "text": (pa.string(), TEXTS),
    "date": (pa.date32(), st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-40_000, 40_000)),
    "instant": (pa.timestamp("us", "UTC"), MICROS),
    "local": (pa.timestamp("us"), MICROS),
    "decimal": (pa.decimal128(20, 4), st.decimals(-9999, 9999, places=4)),
    "flag": (pa.bool_(), st.booleans()),
    "raw": (pa.binary(), st.binary(max_size=40)),
    "struct": (
        pa.struct([("n", pa.int64()), ("in", pa.struct([("t", pa.string())]))]),
        st.fixed_dictionaries(
            {
                "n": st.none() | st.integers(-9, 9),
                "in": st.none() | st.fixed_dictionaries({"t": st.none() | TEXTS}),
            }
        ),
    ),
    "list": (pa.list_(pa.int32()), st.lists(st.integers(-9, 9), max_size=3)),
    "map": (pa.map_(pa.string(), pa.int32()), st.just([("k", 1)])),
}


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS)), unique=True, min_size=1, max_size=4))
    rows = draw(st.integers(1, 8))
    columns = {}
    for name in names:
        kind, values = COLUMNS[name]
        drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns[name] = pa.array(drawn, kind)
    return pa.table(columns)


def indexed(
    fields: pa.Schema | pa.StructType, above: tuple[str, ...] = ()
) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for one in fields:
        path = (*above, one.name)
        if pa.types.is_struct(one.type):
            found |= indexed(one.type, path)
        else:
            found[".".join(path)] = path
    return found


def described(table: pa.Table, group: int) -> dict[str, dict[str, object]]:
    footers: list[pq.FileMetaData] = []
    pq.write_table(table, io.BytesIO(), metadata_collector=footers, row_group_size=group)
    text = stats.to_json(footers[0], Layout(indexed=indexed(table.schema)))
    said: dict[str, dict[str, object]] = json.loads(text, parse_constant=pytest.fail)
    return said


def leaves(
    column: pa.ChunkedArray, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], list[object]]]:
    """The values of every column that is no struct, with nulls where a struct above is null."""
    if pa.types.is_struct(column.type):
        whole = column.combine_chunks()
        for field, below in zip(column.type, whole.flatten(), strict=True):
            yield from leaves(pa.chunked_array([below]), (*path, field.name))
        return
    if pa.types.is_temporal(column.type):
        raw = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
        yield path, raw.to_pylist()
        return
    yield path, column.to_pylist()


def at(tree: object, path: tuple[str, ...]) -> object:
    for name in path:
        tree = tree.get(name) if isinstance(tree, dict) else None
    return tree


def order(value: object, kind: pa.DataType) -> tuple[int, object]:
    """A key that sorts as Delta compares: texts by their UTF-8 bytes, NaN above all numbers."""
    match value:
        case float() if math.isnan(value):
            return (1, 0)
        case str() if pa.types.is_timestamp(kind):
            assert value.endswith("Z") == (kind.tz is not None)
            moment = dt.datetime.fromisoformat(value.removesuffix("Z"))
            return (0, (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1))  # noqa: DTZ001
        case str() if pa.types.is_date32(kind):
            return (0, dt.date.fromisoformat(value).toordinal() - dt.date(1970, 1, 1).toordinal())
        case str():
            return (0, value.encode())
        case _:
            return (0, value)


@settings(deadline=None, max_examples=150)
@given(tables(), st.sampled_from([1, 3, 1000]))
def test_bounds_hold_and_nulls_are_counted(table: pa.Table, group: int) -> None:
    said = described(table, group)
    assert said["numRecords"] == table.num_rows
    for name in table.column_names:
        for path, values in leaves(table.column(name), (name,)):
            kind = table.schema.field(name).type
            there = [value for value in values if value is not None]
            nulls = at(said["nullCount"], path)
            assert nulls in (None, len(values) - len(there)), path
            low, high = at(said["minValues"], path), at(said["maxValues"], path)
            for value in there:
                if low is not None:
                    assert order(low, kind) <= order(value, kind), path
                if high is not None:
                    assert order(value, kind) <= order(high, kind), path


def only(kind: pa.DataType, *values: object) -> tuple[object, object, object]:
    said = described(pa.table({"x": pa.array(values, kind)}), 1000)
    return tuple(said[part].get("x") for part in ("minValues", "maxValues", "nullCount"))  # type: ignore[return-value]


AWARE = dt.datetime(2026, 1, 1, 0, 0, 0, 1_500, tzinfo=dt.UTC)
EXACT = {
    "numbers": (pa.int64(), (3, 1, None), (1, 3, 1)),
    "texts": (pa.string(), ("b", "é", "a"), ("a", "é", 0)),
    "a text of the length that is kept": (pa.string(), ("a" * 32,), ("a" * 32, "a" * 32, 0)),
    "a longer text is cut, and raised": (pa.string(), ("a" * 33,), ("a" * 32, "a" * 32 + HIGHEST, 0)),
    "dates": (pa.date32(), (dt.date(1, 1, 1), dt.date(9999, 12, 31)), ("0001-01-01", "9999-12-31", 0)),
    "an instant": (
        pa.timestamp("us", "UTC"), (AWARE,), ("2026-01-01T00:00:00.001Z", "2026-01-01T00:00:00.002Z", 0)
    ),
    "a local time": (
        pa.timestamp("us"), (AWARE.replace(tzinfo=None),), ("2026-01-01T00:00:00.001", "2026-01-01T00:00:00.002", 0)
    ),
    "only nulls": (pa.int64(), (None, None), (None, None, 2)),
    "numbers that are not whole": (pa.float64(), (2.5, 1.0), (1.0, None, 0)),
    "infinity": (pa.float64(), (math.inf, 1.0), (1.0, None, 0)),
    "minus infinity": (pa.float64(), (-math.inf, 1.0), (None, None, 0)),
    "a text that cannot be raised": (pa.string(), ("b" * 32 + HIGHEST, "a"), ("a", None, 0)),
    "a time that cannot be rounded up": (
        pa.timestamp("us"), (AWARE.max,), ("9999-12-31T23:59:59.999", None, 0)
    ),
    "flags": (pa.bool_(), (True, None), (None, None, 1)),
}  # fmt: skip


@pytest.mark.parametrize(("kind", "values", "said"), EXACT.values(), ids=EXACT)
def test_what_is_said(
    kind: pa.DataType, values: tuple[object, ...], said: tuple[object, ...]
) -> None:
    assert only(kind, *values) == said


def test_a_text_that_goes_on_with_the_highest_character() -> None:
    text = "a" * 32 + HIGHEST + "b"
    _, high, _ = only(pa.string(), text)
    assert high is None or (isinstance(high, str) and high.encode() >= text.encode())


def test_not_a_number_is_above_every_bound() -> None:
    """Spark holds NaN above all numbers; a file with one must not be skipped for `x > 1`."""
    _, high, nulls = only(pa.float64(), 1.0, math.nan)
    assert (high, nulls) == (None, 0)


FAR = {
    "an instant after 9999": (pa.timestamp("us", "UTC"), 253_402_300_800_000_000),
    "a local time before 1": (pa.timestamp("us"), -63_000_000_000_000_000),
    "a date after 9999": (pa.date32(), 2_932_897),
}


@pytest.mark.parametrize(("kind", "value"), FAR.values(), ids=FAR)
def test_what_python_cannot_hold_has_no_bounds(kind: pa.DataType, value: int) -> None:
    """Seconds taken for milliseconds are common in real data, and must not stop a stream."""
    said = described(pa.table({"x": pa.array([value, None], kind)}), 1000)
    assert said == {"numRecords": 2, "minValues": {}, "maxValues": {}, "nullCount": {"x": 1}}


def test_a_text_that_is_not_utf_8_has_no_bounds() -> None:
    """Spark's cast of bytes to text checks nothing, and Kafka's values are bytes."""
    raw = pa.array([b"\xff\xfe"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 1, raw.buffers())
    said = described(pa.table({"x": text}), 1000)
    assert said == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {"x": 0}}


def test_a_dot_in_a_columns_name_is_no_struct() -> None:
    said = described(pa.table({"a.b": pa.array([99]), "a": pa.array([{"b": 1}])}), 1000)
    assert said["maxValues"].get("a") in (None, {"b": 1})
    assert said["maxValues"].get("a.b") in (None, 99)
    reverse = described(pa.table({"a": pa.array([{"b": 1}]), "a.b": pa.array([99])}), 1000)
    assert reverse["maxValues"].get("a") in (None, {"b": 1})


@pytest.mark.parametrize("mark", ["legacyDateTime", "legacyINT96"])
def test_dates_and_time_stamps_of_the_old_calendar_have_no_bounds(mark: str) -> None:
    """Spark marks files whose days it counted by the Julian calendar; the footer has those days."""
    table = pa.table(
        {
            "day": pa.array([dt.date(1500, 2, 20), None]),
            "at": pa.array([dt.datetime(1500, 2, 20), None], pa.timestamp("us")),  # noqa: DTZ001
            "instant": pa.array(
                [dt.datetime(1500, 2, 20, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")
            ),
            "n": pa.array([1, 2]),
        }
    ).replace_schema_metadata({f"org.apache.spark.{mark}": ""})
    footers: list[pq.FileMetaData] = []
    pq.write_table(table, io.BytesIO(), metadata_collector=footers)
    found = json.loads(stats.to_json(footers[0], Layout(indexed=indexed(table.schema))))
    assert (found["minValues"], found["maxValues"]) == ({"n": 1}, {"n": 2})
    assert found["nullCount"] == {"day": 1, "at": 1, "instant": 1, "n": 0}
