"""Parquet footers -> the statistics that Delta readers skip files by.

Bounds must hold, not be exact: a long text's maximum is cut and raised, a time stamp's maximum
is rounded up to the millisecond, and a column whose bounds are not safe to say has none. Such are
dates and time stamps that Spark wrote in the old calendar: the footer has their old numbers.
"""

import datetime as dt
import json
import math
from collections.abc import Iterator

import pyarrow.parquet as pq

from holdfast.model.json import Json
from holdfast.sinks.delta.layout import Layout

_HIGHEST = "\U0010ffff"
_MILLISECOND = dt.timedelta(milliseconds=1)
_LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 998_999)  # noqa: DTZ001  compared without a zone

_OLD_CALENDAR = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")

StatsTree = dict[str, "Json | StatsTree"]


def to_json(footer: pq.FileMetaData, layout: Layout) -> str:
    """Delta's statistics JSON for one Parquet file, with the columns that the table asks for."""
    low: StatsTree = {}
    high: StatsTree = {}
    nulls: StatsTree = {}
    old_calendar = any(key in (footer.metadata or {}) for key in _OLD_CALENDAR)
    for index, path in _list_columns(footer, layout):
        bounds = _find_bounds(footer, index, layout.text_length, old_calendar=old_calendar)
        if bounds is None:
            continue
        minimum, maximum, null_count = bounds
        _put(nulls, path, null_count)
        if minimum is not None:
            _put(low, path, minimum)
        if maximum is not None:
            _put(high, path, maximum)
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": low,
            "maxValues": high,
            "nullCount": nulls,
        },
        separators=(",", ":"),
    )


def _list_columns(footer: pq.FileMetaData, layout: Layout) -> Iterator[tuple[int, tuple[str, ...]]]:
    for index in range(footer.num_columns):
        column = footer.schema.column(index)
        if column.max_repetition_level == 0 and column.path in layout.indexed:
            yield index, layout.indexed[column.path]


def _find_bounds(
    footer: pq.FileMetaData, index: int, length: int, *, old_calendar: bool
) -> tuple[Json, Json, int] | None:
    lows: list[object] = []
    highs: list[object] = []
    nulls = 0
    bounded = True
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(index)
        statistics = column.statistics
        if statistics is None or not statistics.has_null_count:
            return None
        nulls += statistics.null_count
        if statistics.has_min_max:
            try:
                lows.append(statistics.min)
                highs.append(statistics.max)
            except (OverflowError, ValueError):
                bounded = False  # a time outside of Python's years, a text that is not UTF-8
        elif statistics.null_count != column.num_values:
            bounded = False
    if old_calendar and any(isinstance(value, dt.date) for value in lows):
        bounded = False
    if not bounded or not lows:
        return None, None, nulls
    return _find_lowest(lows, length), _find_highest(highs, length), nulls


def _find_lowest(values: list[object], length: int) -> Json:
    bounds = [_format_bound(value, length, raised=False) for value in values]
    return _find_extreme(bounds, highest=False)


def _find_highest(values: list[object], length: int) -> Json:
    bounds = [_format_bound(value, length, raised=True) for value in values]
    return _find_extreme(bounds, highest=True)


def _find_extreme(bounds: list[str | int | float | None], *, highest: bool) -> Json:
    texts = [bound for bound in bounds if isinstance(bound, str)]
    numbers = [bound for bound in bounds if isinstance(bound, int | float)]
    choose = max if highest else min
    if len(texts) == len(bounds):
        return choose(texts)
    if len(numbers) == len(bounds):
        return choose(numbers)
    return None


def _format_bound(value: object, length: int, *, raised: bool) -> str | int | float | None:  # noqa: PLR0911
    match value:
        case bool():
            return None
        case int():
            return value
        case float():
            # pyarrow leaves NaN out of the footer, and Spark holds it above every number.
            return value if math.isfinite(value) and not raised else None
        case str():
            return _cut_text(value, length, raised=raised)
        case dt.datetime():
            return _format_instant(value, raised=raised)
        case dt.date():
            return value.isoformat()
        case _:
            return None


def _cut_text(value: str, length: int, *, raised: bool) -> str | None:
    if len(value) <= length:
        return value
    if raised and value[length] == _HIGHEST:
        return None
    return value[:length] + (_HIGHEST if raised else "")


def _format_instant(value: dt.datetime, *, raised: bool) -> str | None:
    cut = value.replace(microsecond=value.microsecond // 1000 * 1000)
    if raised and cut != value:
        if cut.replace(tzinfo=None) > _LAST:
            return None
        cut += _MILLISECOND
    zone = "" if value.tzinfo is None else "Z"
    moment = cut if value.tzinfo is None else cut.astimezone(dt.UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds") + zone


def _put(tree: StatsTree, path: tuple[str, ...], value: Json) -> None:
    for name in path[:-1]:
        branch = tree.setdefault(name, {})
        if not isinstance(branch, dict):
            return
        tree = branch
    tree[path[-1]] = value
