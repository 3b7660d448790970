"""Do the rows fit the table? Spark's types and the table's columns -> how each is written.

Spark                        PostgreSQL, made     and found is taken
byte, short                  smallint             integer, bigint, numeric
int                          integer              bigint, numeric; smallint if the value fits
long                         bigint               numeric; integer, smallint if the value fits
float                        real                 double precision
double                       double precision
decimal(p,s)                 numeric(p,s)         numeric, numeric with a scale of s or more
string                       text                 varchar(n), uuid, json, jsonb
binary                       bytea
boolean                      boolean
date                         date
timestamp                    timestamptz
timestamp_ntz                timestamp
interval day to second       interval
array of those               the type's array     jsonb, json
struct, map, variant,        jsonb                json
other arrays
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from holdfast.errors import SchemaMismatch
from holdfast.sinks.postgres.encode import CopyColumn, Oid

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

_VARHDRSZ = 4
_JSON_OPTIONS = {
    "ignoreNullFields": "false",
    # An offset of the session's zone may have seconds, which the format would lose.
    "timeZone": "UTC",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_NAMES = {
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
    "interval": "interval",
}
# Modifiers of types that keep every microsecond: none, and 6 digits.
_MICROSECONDS = {
    Oid.TIMESTAMP: (-1, 6),
    Oid.TIMESTAMPTZ: (-1, 6),
    Oid.INTERVAL: (-1, 0x7FFF0006),
}
_WHOLE = frozenset({Oid.INT2, Oid.INT4, Oid.INT8, Oid.NUMERIC})
_JSONS = frozenset({Oid.JSON, Oid.JSONB})
_TAKEN = {
    "byte": _WHOLE,
    "short": _WHOLE,
    "integer": _WHOLE,
    "long": _WHOLE,
    "float": frozenset({Oid.FLOAT4, Oid.FLOAT8}),
    "double": frozenset({Oid.FLOAT8}),
    "string": frozenset({Oid.TEXT, Oid.VARCHAR, Oid.UUID}) | _JSONS,
    "binary": frozenset({Oid.BYTEA}),
    "boolean": frozenset({Oid.BOOL}),
    "date": frozenset({Oid.DATE}),
    "timestamp": frozenset({Oid.TIMESTAMPTZ}),
    "timestamp_ntz": frozenset({Oid.TIMESTAMP}),
    "interval": frozenset({Oid.INTERVAL}),
    "decimal": frozenset({Oid.NUMERIC}),
}
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, a.atttypmod),
       CASE WHEN e.oid IS NULL THEN b.oid ELSE e.oid END::bigint,
       e.oid IS NOT NULL, CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE a.atttypmod END,
       a.attnotnull OR t.typnotnull,
       a.atthasdef OR a.attidentity <> '', a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
LEFT JOIN pg_type e ON e.oid = b.typelem AND b.typcategory = 'A'
WHERE a.attrelid = to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogColumn:
    """A column of a table, as its catalog has it; of an array, `oid` is the element's."""

    name: str
    sql: str
    oid: int
    array: bool
    modifier: int
    not_null: bool
    has_default: bool
    computed: bool

    @property
    def numeric_scale(self) -> int | None:
        """The scale of a numeric that has one."""
        if self.modifier < _VARHDRSZ:
            return None
        scale = (self.modifier - _VARHDRSZ) & 0x7FF
        return scale - 0x800 if scale & 0x400 else scale


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnMapping:
    """How the rows of a job are written to a table: columns in order, and Spark's for each."""

    columns: tuple[CopyColumn, ...]
    sources: tuple[str, ...]
    as_json: tuple[bool, ...]

    def select(self, rows: "DataFrame") -> "DataFrame":
        """The rows with exactly these columns, in this order."""
        if self.sources == tuple(c.name for c in self.columns) and not any(self.as_json):
            return rows
        from pyspark.sql import functions as F  # noqa: N812  only where Spark runs

        def one(source: str, name: str, *, as_json: bool) -> "SparkColumn":
            column = rows[f"`{source.replace('`', '``')}`"]
            return (F.to_json(column, _JSON_OPTIONS) if as_json else column).alias(name)

        return rows.select(
            [
                one(source, column.name, as_json=as_json)
                for source, column, as_json in zip(
                    self.sources, self.columns, self.as_json, strict=True
                )
            ]
        )


def read_columns(connection: psycopg.Connection, table: str) -> tuple[CatalogColumn, ...]:
    """The columns of a table by its quoted name; none where there is no such table."""
    found = connection.execute(_COLUMNS, (table,)).fetchall()
    return tuple(
        CatalogColumn(
            name=row[0],
            sql=row[1],
            oid=row[2],
            array=row[3],
            modifier=row[4],
            not_null=row[5],
            has_default=row[6],
            computed=row[7],
        )
        for row in found
    )


def define_columns(schema: "StructType", table: str) -> list[sql.Composable]:
    """The columns of a table that is made for rows of this schema."""
    return [
        sql.SQL("{} {}").format(
            sql.Identifier(field.name), sql.SQL(_format_type(field.dataType, field.name, table))
        )
        for field in schema.fields
    ]


def map_columns(
    schema: "StructType",
    found: Sequence[CatalogColumn],
    table: str,
    beside: Mapping[str, CopyColumn],
) -> ColumnMapping:
    """How the rows are written to the columns found; raises SchemaMismatch, naming the column.

    `beside` are columns of the rows that are for the sink and not for the table.
    """
    by_name = {column.name: column for column in found}
    by_lower = {column.name.lower(): column for column in found}
    columns: list[CopyColumn] = []
    as_json: list[bool] = []
    for field in schema.fields:
        column = by_name.get(field.name) or by_lower.get(field.name.lower())
        if column is None and field.name in beside:
            columns.append(beside[field.name])
            as_json.append(False)
            continue
        if column is None:
            raise SchemaMismatch(
                f"expected only columns of `{table}`, found `{field.name}`"
                f" {field.dataType.simpleString()}",
                hint="add the column to the table, or drop it in the job's function",
            )
        columns.append(_map_column(field.dataType, column, table))
        as_json.append(_is_complex(field.dataType) and not column.array)
    _require_complete(columns, found, table)
    return ColumnMapping(
        columns=tuple(columns), sources=tuple(schema.names), as_json=tuple(as_json)
    )


def _require_complete(
    columns: Sequence[CopyColumn], found: Sequence[CatalogColumn], table: str
) -> None:
    given = [column.name for column in columns]
    twice = next((name for name in given if given.count(name) > 1), None)
    if twice is not None:
        raise SchemaMismatch(
            f"expected each column of `{table}` once, found `{twice}` twice among the rows",
            hint="drop one of them in the job's function",
        )
    for column in found:
        if column.not_null and not column.has_default and column.name not in given:
            raise SchemaMismatch(
                f"expected column `{column.name}` of `{table}`, which takes no null and has no"
                " default, found no such column among the rows",
                hint=f"add `{column.name}` in the job's function",
            )


def _map_column(kind: "DataType", found: CatalogColumn, table: str) -> CopyColumn:
    if found.computed or not _takes(found, kind):
        raise SchemaMismatch(
            f"expected column `{found.name}` of `{table}` as"
            f" {'computed by the server' if found.computed else found.sql}, found"
            f" {kind.simpleString()}",
            hint=f"cast or drop `{found.name}` in the job's function",
        )
    limited = found.oid == Oid.VARCHAR and found.modifier > _VARHDRSZ
    return CopyColumn(
        name=found.name,
        sql=found.sql,
        oid=Oid(found.oid),
        array=found.array,
        most=found.modifier - _VARHDRSZ if limited else 0,
        required=found.not_null,
    )


def _takes(found: CatalogColumn, kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, DecimalType

    if found.oid in _MICROSECONDS and found.modifier not in _MICROSECONDS[Oid(found.oid)]:
        return False
    if found.array:
        return isinstance(kind, ArrayType) and _takes_one(found, kind.elementType)
    if _is_complex(kind):
        return found.oid in _JSONS
    if isinstance(kind, DecimalType):
        scale = found.numeric_scale
        return found.oid == Oid.NUMERIC and (scale is None or scale >= kind.scale)
    return _takes_one(found, kind)


def _takes_one(found: CatalogColumn, kind: "DataType") -> bool:
    scale = found.numeric_scale if found.oid == Oid.NUMERIC else None
    wanted = getattr(kind, "scale", 0)
    return found.oid in _TAKEN.get(_find_type_name(kind), frozenset()) and (
        scale is None or scale >= wanted
    )


def _is_complex(kind: "DataType") -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType
    from pyspark.sql.types import VariantType as Variant

    return isinstance(kind, ArrayType | MapType | StructType | Variant)


def _find_type_name(kind: "DataType") -> str:
    from pyspark.sql.types import CharType, DayTimeIntervalType, VarcharType

    match kind:
        case CharType() | VarcharType():
            return "string"
        case DayTimeIntervalType():
            return "interval"
        case _:
            return kind.typeName()


def _format_type(kind: "DataType", name: str, table: str) -> str:
    from pyspark.sql.types import ArrayType, DecimalType

    if isinstance(kind, DecimalType):
        return f"numeric({kind.precision},{kind.scale})"
    if isinstance(kind, ArrayType) and not _is_complex(kind.elementType):
        return f"{_format_type(kind.elementType, name, table)}[]"
    if _is_complex(kind):
        return "jsonb"
    made = _NAMES.get(_find_type_name(kind))
    if made is None:
        raise SchemaMismatch(
            f"expected types that PostgreSQL can hold for `{table}`, found column `{name}`"
            f" {kind.simpleString()}",
            hint=f"cast `{name}` in the job's function",
        )
    return made
