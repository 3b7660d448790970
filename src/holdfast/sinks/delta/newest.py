"""One row per key out of a batch: the same on the driver and on the executors.

With a `newest` column the newest row of a key counts. A row whose `newest` is null is older than
every row that has one, and NaN is newer than every number, as Spark orders them. Of rows that are
equally new, the greatest counts, column by column from the left; columns that contain arrays or
maps do not count. Without a `newest` column a key may occur once per batch.

Keys are equal as Spark's `<=>` says: null equals null, NaN equals NaN, 0.0 equals -0.0. An empty
text in a partition column is null, because that is how a Delta table keeps it: otherwise its key
would match no row of the table, and every batch would add the key again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import SchemaMismatch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

KEY_TWICE = "HOLDFAST_KEY_TWICE"
_POSITION = "position"
_ROW = "__holdfast_row"
_PARTITIONS = frozenset({"boolean", "byte", "short", "integer", "long", "string", "date"})
_ORDERED = _PARTITIONS | {"float", "double", "binary", "timestamp", "timestamp_ntz"}
_FLOATING = frozenset({"float", "double"})


class KeyTwice(Exception):
    """A key occurs more than once in a batch, and nothing says which row is newer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRule:
    """Which columns decide, in the spelling of the rows.

    `ties` are the columns that decide between rows that are equally new, `texts` the partition
    columns that may hold an empty text. `by_driver` says whether Arrow and delta-rs treat these
    columns as Spark does.
    """

    keys: tuple[str, ...]
    newest: str | None
    ties: tuple[str, ...]
    texts: tuple[str, ...]
    by_driver: bool


def decide_rule(
    rows: "StructType",
    keys: tuple[str, ...],
    newest: str | None,
    partition_by: tuple[str, ...],
    path: str,
) -> MergeRule:
    """Find the columns among the rows; raises SchemaMismatch where they cannot decide.

    Case does not count in names, as everywhere in Delta.
    """
    names = _fields_by_name(rows, path)
    deciding = [
        _find_deciding(names, column, path) for column in (*keys, *(c for c in [newest] if c))
    ]
    partitions = [names[c.lower()] for c in partition_by if c.lower() in names]
    for name in partition_by:
        if "." in name:
            raise SchemaMismatch(
                "expected partition columns without dots in their names for a merge into"
                f" `{path}`, found `{name}`: Spark's MERGE cannot write to them",
                hint="partition the table by a column with another name",
            )
    return MergeRule(
        keys=tuple(field.name for field in deciding[: len(keys)]),
        newest=deciding[-1].name if newest else None,
        ties=tuple(field.name for field in rows.fields if _breaks_ties(field.dataType)),
        texts=tuple(field.name for field in partitions if field.dataType.typeName() == "string"),
        # delta-rs compares floating keys by their bits: it has several NaNs, and Spark has one.
        by_driver=all(_is_atomic(field.dataType) for field in deciding)
        and all(field.dataType.typeName() not in _FLOATING for field in deciding[: len(keys)])
        and all(field.dataType.typeName() in _PARTITIONS for field in partitions),
    )


def _fields_by_name(rows: "StructType", path: str) -> Mapping[str, "StructField"]:
    names = {field.name.lower(): field for field in rows.fields}
    if len(names) < len(rows.fields):
        raise SchemaMismatch(
            f"expected columns for `{path}` whose names differ in more than case, found"
            f" {_format_names([field.name for field in rows.fields])}",
            hint="rename one of the columns in the job's function",
        )
    for field in rows.fields:
        if "`" in field.name:
            raise SchemaMismatch(
                f"expected column names without backticks for a merge into `{path}`, found"
                f" {field.name!r}",
                hint="rename the column in the job's function",
            )
    return names


def _find_deciding(names: Mapping[str, "StructField"], column: str, path: str) -> "StructField":
    """Find a key or `newest`; raises SchemaMismatch where it cannot decide."""
    found = names.get(column.lower())
    if found is None:
        raise SchemaMismatch(
            f"expected the merge column `{column}` among the rows for"
            f" `{path}`, found {_format_names(sorted(field.name for field in names.values()))}",
            hint="name columns of the job's result as `keys` and `newest`",
        )
    if not _is_orderable(found.dataType):
        raise SchemaMismatch(
            f"expected values that can be compared in the merge column `{column}` for"
            f" `{path}`, found {found.dataType.simpleString()}",
            hint="use a column of a type that Spark can compare",
        )
    return found


def _format_names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _is_atomic(kind: "DataType") -> bool:
    return kind.typeName() in _ORDERED or kind.typeName().startswith("decimal")


def _breaks_ties(kind: "DataType") -> bool:
    from pyspark.sql.types import StructType

    if isinstance(kind, StructType):
        return all(_breaks_ties(field.dataType) for field in kind.fields)
    return _is_atomic(kind)


def _is_orderable(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, StructType

    match kind:
        case StructType():
            return all(_is_orderable(field.dataType) for field in kind.fields)
        case ArrayType():
            return _is_orderable(kind.elementType)
        case _:
            return _is_atomic(kind)


def choose_by_driver(rows: pa.Table, rule: MergeRule) -> pa.Table:
    """One row per key; raises KeyTwice where a key occurs twice and nothing decides."""
    for name in rule.texts:
        rows = rows.set_column(rows.column_names.index(name), name, _null_if_empty(rows[name]))
    keys = [_make_comparable(rows.column(key)) for key in rule.keys]
    if _group(keys).num_rows == rows.num_rows:
        return rows
    if rule.newest is None:
        raise KeyTwice(rows.num_rows - _group(keys).num_rows)
    deciding = [rows.column(rule.newest)]
    if _group([*keys, _make_comparable(deciding[0])]).num_rows < rows.num_rows:
        deciding += [rows.column(name) for name in rule.ties]
    order = _sort_positions(deciding)
    last = _group([key.take(order) for key in keys]).column(f"{_POSITION}_max")
    return rows.take(order.take(last))


def _null_if_empty(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(column, ""), pa.scalar(None, column.type), column)


def _group(columns: list[pa.ChunkedArray]) -> pa.Table:
    """The last position of each combination of values."""
    names = [str(number) for number in range(len(columns))]
    position = pa.array(range(len(columns[0])), pa.int64())
    table = pa.table([*columns, position], [*names, _POSITION])
    return table.group_by(names).aggregate([(_POSITION, "max")])


def _make_comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floating numbers with one zero and one NaN; Arrow groups them by their bits."""
    if pa.types.is_floating(column.type):
        zeros = pc.add(column, pa.scalar(0.0, column.type))
        return pc.if_else(pc.is_nan(zeros), pa.scalar(float("nan"), column.type), zeros)
    return column


def _sort_positions(columns: list[pa.ChunkedArray]) -> pa.Array:
    """The positions in ascending order, null before all values and NaN after them."""
    flat = list(_flatten(columns))
    names = [str(number) for number in range(len(flat))]
    return pc.sort_indices(pa.table(flat, names), [(name, "ascending") for name in names])


def _flatten(columns: list[pa.ChunkedArray]) -> Iterator[pa.ChunkedArray]:
    for column in columns:
        yield pc.is_valid(column)
        if pa.types.is_struct(column.type):
            fields = range(column.type.num_fields)
            yield from _flatten([pc.struct_field(column, index) for index in fields])
        else:
            yield _make_comparable(column)


def choose_by_executors(rows: "DataFrame", rule: MergeRule) -> "DataFrame":
    """The same by Spark; a key that occurs twice without a rule fails the job with KEY_TWICE."""
    from pyspark.sql import functions as F  # noqa: N812  only where Spark runs

    columns = [_quote(name) for name in rows.columns]
    rows = rows.select(
        [
            F.nullif(column, F.lit("")).alias(name) if name in rule.texts else column
            for column, name in zip(columns, rows.columns, strict=True)
        ]
    )
    whole = F.struct(*columns)
    if rule.newest is None:
        only = F.when(F.count(F.lit(1)) > 1, F.raise_error(F.lit(KEY_TWICE))).otherwise(
            F.first(whole)
        )
        chosen: Column = only
    else:
        order = [_quote(name) for name in (rule.newest, *rule.ties)]
        named = [one.alias(f"_{number}") for number, one in enumerate(order)]
        chosen = F.max_by(whole, F.struct(*named))
    grouped = rows.groupBy(*(_quote(key) for key in rule.keys)).agg(chosen.alias(_ROW))
    return grouped.select(f"{_ROW}.*")


def _quote(name: str) -> "Column":
    """The column of this very name, whatever is in it."""
    from pyspark.sql import functions as F  # noqa: N812  only where Spark runs

    return F.col(f"`{name}`")
