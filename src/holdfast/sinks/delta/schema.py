"""Do the rows fit the table, and in which order and spelling of columns?"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa

from holdfast.errors import SchemaMismatch
from holdfast.sinks.delta.partitions import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

_EXPLICIT = "delta.identity.allowExplicitInsert"
_FILLED = ("delta.generationExpression", "delta.identity", "CURRENT_DEFAULT", "EXISTS_DEFAULT")


class SchemaFit:
    """How the rows of one job fit one table; worked out again only when either changes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._known = ""
        self._columns: Mapping[str, str] = {}

    def select(self, table: deltalake.DeltaTable, rows: "DataFrame") -> "DataFrame":
        """The rows with the table's columns, or SchemaMismatch."""
        seen = f"{table.schema().to_json()} {rows.schema.json()}"
        if seen != self._known:
            self._columns = fit_columns(rows.schema, read_schema(table), self._path)
            self._known = seen
        if all(own == name for own, name in self._columns.items()) and len(rows.columns) == len(
            self._columns
        ):
            return rows
        from pyspark.sql import functions as F  # noqa: N812  only where Spark runs

        pairs = self._columns.items()
        return rows.select([F.col(quote(own)).alias(name) for own, name in pairs])


def read_schema(table: deltalake.DeltaTable) -> "StructType":
    """The table's schema in Spark's words."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(table.schema().to_json()))


def find_missing_columns(rows: "StructType", table: "StructType") -> tuple["StructField", ...]:
    """The columns of the rows that the table does not have."""
    known = {field.name.lower() for field in table.fields}
    return tuple(field for field in rows.fields if field.name.lower() not in known)


def fit_columns(rows: "StructType", table: "StructType", path: str) -> Mapping[str, str]:
    """The rows' columns in the table's order, each with the table's spelling of its name.

    Raises SchemaMismatch, naming the column, where the rows do not fit.
    """
    require_distinct(rows, path)
    by_name = {field.name.lower(): field for field in rows.fields}
    extra = find_missing_columns(rows, table)
    if extra:
        raise SchemaMismatch(
            f"expected only columns of the Delta table `{path}`, found `{extra[0].name}`"
            f" {extra[0].dataType.simpleString()}",
            hint="add the column to the table, or declare the sink with `evolve=True`",
        )
    columns = {}
    for field in table.fields:
        own = by_name.get(field.name.lower())
        if own is None:
            continue
        if _strip_nullability(own.dataType.jsonValue()) != _strip_nullability(
            field.dataType.jsonValue()
        ):
            raise SchemaMismatch(
                f"expected column `{field.name}` of the Delta table `{path}` as"
                f" {field.dataType.simpleString()}, found {own.dataType.simpleString()}",
                hint=f"cast `{own.name}` in the job's function",
            )
        if not _takes_nulls_of(field.dataType, own.dataType):
            raise SchemaMismatch(
                f"Cannot write column `{own.name}` to the Delta table `{path}`: the table takes no"
                " nulls inside the column, and Spark does not know that the rows have none",
                hint=f"use `array_compact` on the arrays in `{own.name}`, or create the table with"
                " elements that may be null",
            )
        if (field.metadata or {}).get(_EXPLICIT) is False:
            raise SchemaMismatch(
                f"expected rows without the column `{field.name}` of the Delta table `{path}`,"
                " which numbers its rows itself, found it among them",
                hint=f"drop `{own.name}` in the job's function",
            )
        columns[own.name] = field.name
    return columns


def require_distinct(rows: "StructType", path: str) -> None:
    """Raise SchemaMismatch where two columns have one name, also inside of structs."""
    names = [field.name for field in rows.fields]
    lower = [name.lower() for name in names]
    twice = next((name for name in names if lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise SchemaMismatch(
            f"expected each column once for the Delta table `{path}`, found `{twice}` twice"
            " (letter case does not tell columns apart)",
            hint=f"rename or drop one `{twice}` in the job's function",
        )
    for field in rows.fields:
        for inner in _list_structs(field.dataType):
            require_distinct(inner, path)


def _list_structs(kind: "DataType") -> list["StructType"]:
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case StructType():
            return [kind]
        case ArrayType():
            return _list_structs(kind.elementType)
        case MapType():
            return _list_structs(kind.keyType) + _list_structs(kind.valueType)
        case _:
            return []


def require_partitions(
    rows: "StructType", table: "StructType", partition_by: Sequence[str], path: str
) -> None:
    """Raise SchemaMismatch where the rows lack a partition column that the table does not fill."""
    for field in _find_lacking(rows, table):
        if field.name in partition_by and not _is_filled(field):
            raise _make_lacking_error(field, path, "which the table is partitioned by")


def is_same_type(one: "DataType", other: "DataType") -> bool:
    """Whether values of one type are values of the other, nulls aside."""
    return _strip_nullability(one.jsonValue()) == _strip_nullability(other.jsonValue()) and (
        one.simpleString() == other.simpleString()
    )


def _takes_nulls_of(table: "DataType", rows: "DataType") -> bool:
    """Whether the table's type takes nulls wherever the rows may have them inside of a value.

    Spark's Delta writer does not look: it stores a null element of such an array as a zero.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    match table, rows:
        case ArrayType(), ArrayType():
            narrow = rows.containsNull and not table.containsNull
            return not narrow and _takes_nulls_of(table.elementType, rows.elementType)
        case MapType(), MapType():
            narrow = rows.valueContainsNull and not table.valueContainsNull
            return not narrow and _takes_nulls_of(table.valueType, rows.valueType)
        case StructType(), StructType():
            pairs = zip(table.fields, rows.fields, strict=False)
            return all(_takes_nulls_of(one.dataType, other.dataType) for one, other in pairs)
        case _:
            return True


def _strip_nullability(kind: object) -> object:
    """A type without nullability and metadata, which do not decide whether values fit."""
    if not isinstance(kind, dict):
        return kind
    ignored = ("nullable", "metadata", "containsNull", "valueContainsNull")
    shape = {key: _strip_nullability(value) for key, value in kind.items() if key not in ignored}
    if isinstance(kind.get("fields"), list):
        shape["fields"] = [_strip_nullability(field) for field in kind["fields"]]
    return shape


def require_optional(rows: "StructType", table: "StructType", path: str) -> None:
    """Raise SchemaMismatch where the rows lack a column that a merge cannot leave empty."""
    require_not_null(rows, table, path)
    for field in _find_lacking(rows, table):
        if _is_filled(field):
            raise _make_lacking_error(field, path, "which the table fills by a rule")


def require_not_null(rows: "StructType", table: "StructType", path: str) -> None:
    """Raise SchemaMismatch where the rows lack a column that must not be null."""
    for field in _find_lacking(rows, table):
        if not field.nullable and not _is_filled(field):
            raise _make_lacking_error(field, path, "which must not be null")


def _find_lacking(rows: "StructType", table: "StructType") -> tuple["StructField", ...]:
    given = {field.name.lower() for field in rows.fields}
    return tuple(field for field in table.fields if field.name.lower() not in given)


def _is_filled(field: "StructField") -> bool:
    return any(key.startswith(_FILLED) for key in field.metadata or {})


def _make_lacking_error(field: "StructField", path: str, why: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"expected column `{field.name}` of the Delta table `{path}`, {why}, among the"
        " rows, found it missing",
        hint=f"add `{field.name}` to the job's result",
    )


def make_arrow_schema(table: deltalake.DeltaTable, columns: tuple[str, ...]) -> pa.Schema:
    """The Arrow types that the given columns have in the table's files."""
    whole = pa.schema(table.schema().to_arrow())
    return pa.schema([whole.field(name) for name in columns])
