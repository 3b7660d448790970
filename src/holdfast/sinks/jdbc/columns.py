"""Do the rows fit the table? Spark's types and the table's columns -> how each is staged and moved.

Spark's JDBC writer hands dates and times to the database in the time zone of the JVM, and the
database takes them in that of its session: an hour a year is lost in between, and the rest may be
shifted. Therefore they are staged as texts in UTC, whole numbers as the widest, and texts without a
limit. The move, in the driver's own strict session, is the only place where a value is fitted to
its column, and a value that does not fit fails the batch there.

    Kind       Spark                     MariaDB, made    and found is taken
    WHOLE      byte, short, int, long    by size          any whole number, decimal
    FLOAT      float                     float            double
    DOUBLE     double                    double
    DECIMAL    decimal(p,s)              decimal(p,s)     with a scale of s or more
    TEXT       string                    longtext         varchar(n), other texts, in utf8mb4
    BYTES      binary                    longblob         varbinary(n), other blobs
    BOOLEAN    boolean                   bit(1)           tinyint
    DATE       date                      date
    MOMENT     timestamp                 timestamp(6)
    LOCAL      timestamp_ntz             datetime(6)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from holdfast.errors import SchemaMismatch

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_DIGITS = 6
_DAY = 86_400_000_000


class ValueKind(StrEnum):
    """What a column holds, as far as databases tell it apart."""

    WHOLE = "whole"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    TEXT = "text"
    BYTES = "bytes"
    BOOLEAN = "boolean"
    DATE = "date"
    MOMENT = "moment"
    LOCAL = "local"


_KINDS = {
    "byte": ValueKind.WHOLE,
    "short": ValueKind.WHOLE,
    "integer": ValueKind.WHOLE,
    "long": ValueKind.WHOLE,
    "float": ValueKind.FLOAT,
    "double": ValueKind.DOUBLE,
    "decimal": ValueKind.DECIMAL,
    "string": ValueKind.TEXT,
    "char": ValueKind.TEXT,
    "varchar": ValueKind.TEXT,
    "binary": ValueKind.BYTES,
    "boolean": ValueKind.BOOLEAN,
    "date": ValueKind.DATE,
    "timestamp": ValueKind.MOMENT,
    "timestamp_ntz": ValueKind.LOCAL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Types:
    """The types of one database: what is made, taken and staged for each kind.

    `made` goes by Spark's name of a type where kinds are made by size. `unicode` is the character
    set that a text must have, where texts have one, and `limited` are types with a length.
    """

    made: Mapping[str, str]
    taken: Mapping[ValueKind, frozenset[str]]
    staged: Mapping[ValueKind, str]
    unicode: str | None
    limited: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """A column of a table, as the database describes it."""

    name: str
    type: str
    scale: int | None
    length: int | None
    octets: int | None
    """The most bytes that a text or a binary value may have, where the database may cut it."""
    digits: int | None
    charset: str | None
    collation: str | None
    nullable: bool
    has_default: bool
    computed: bool
    counts: bool
    """Whether the database gives the next number where a row has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedColumn:
    """A column of the rows: where it goes, and how it gets there."""

    found: TableColumn
    kind: ValueKind
    staged: str
    expression: str
    most: int | None
    """The longest text that the table takes."""


def fit(
    schema: "StructType", found: Sequence[TableColumn], table: str, types: Types
) -> tuple[StagedColumn, ...]:
    """Return how the rows are written to the columns found; raises SchemaMismatch."""
    by_name = {column.name: column for column in found}
    for name in schema.names:
        if name not in by_name:
            raise SchemaMismatch(
                f"expected columns of `{table}`, which are"
                f" {', '.join(f'`{n}`' for n in by_name)}, found `{name}`",
                hint="rename or drop the column in the job's function, or add it to the table",
            )
    given = set(schema.names)
    for column in found:
        needed = not (column.nullable or column.has_default or column.counts or column.computed)
        if needed and column.name not in given:
            raise SchemaMismatch(
                f"expected column `{column.name}` of `{table}`, which takes no null and has no"
                " default, found no such column among the rows",
                hint=f"add `{column.name}` in the job's function",
            )
    return tuple(_fit_column(f.dataType, by_name[f.name], table, types) for f in schema.fields)


def define(schema: "StructType", table: str, types: Types) -> list[tuple[str, str]]:
    """Return the columns of a table that is made for rows of this schema, with their types."""
    return [
        (f.name, _format_type(f.dataType, _find_kind(f.dataType, f.name, table), types))
        for f in schema
    ]


def _fit_column(kind: "DataType", found: TableColumn, table: str, types: Types) -> StagedColumn:
    mine = _find_kind(kind, found.name, table)
    reason = _find_misfit(kind, mine, found, types)
    if reason is not None:
        raise SchemaMismatch(
            f"expected column `{found.name}` of `{table}` to keep {kind.simpleString()} as it is,"
            f" but {reason}",
            hint=f"cast `{found.name}` in the job's function, or change the column to"
            f" {_format_type(kind, mine, types)}",
        )
    staged = types.staged[mine].format(
        precision=getattr(kind, "precision", 0),
        scale=getattr(kind, "scale", 0),
        collation=found.collation or types.unicode,
    )
    limited = found.type in types.limited and mine is ValueKind.TEXT
    return StagedColumn(
        found=found,
        kind=mine,
        staged=staged,
        expression=_format_expression(mine, found.name, staged),
        most=found.length if limited else None,
    )


def _find_misfit(kind: "DataType", mine: ValueKind, found: TableColumn, types: Types) -> str | None:
    """Return why values of the type would change in the column; None if they would not."""
    if found.computed or found.type not in types.taken[mine]:
        return "the database computes it" if found.computed else f"it is `{found.type}`"
    least = int(getattr(kind, "scale", 0))
    match mine:
        case ValueKind.WHOLE | ValueKind.DECIMAL | ValueKind.FLOAT | ValueKind.DOUBLE if _rounds(
            mine, found, least
        ):
            return f"it rounds to {found.scale} digits after the point"
        case ValueKind.MOMENT | ValueKind.LOCAL if found.digits != _DIGITS:
            return f"it keeps {found.digits or 0} digits of a second and not {_DIGITS}"
        case ValueKind.TEXT if types.unicode is not None and found.charset != types.unicode:
            return f"its character set is `{found.charset}` and not `{types.unicode}`"
        case _:
            return None


def _rounds(mine: ValueKind, found: TableColumn, least: int) -> bool:
    """Whether a number loses digits; the scale of a floating point number is MariaDB's only."""
    if found.scale is None:
        return False
    return mine in (ValueKind.FLOAT, ValueKind.DOUBLE) or found.scale < least


def _find_kind(kind: "DataType", name: str, table: str) -> ValueKind:
    found = _KINDS.get(kind.typeName())
    if found is None:
        raise SchemaMismatch(
            f"expected types that a JDBC sink can write to `{table}`, found column `{name}`"
            f" {kind.simpleString()}",
            hint=f"cast `{name}` in the job's function, by `to_json` for example",
        )
    return found


def _format_type(kind: "DataType", mine: ValueKind, types: Types) -> str:
    if mine is ValueKind.DECIMAL:
        made = types.made["decimal"]
        return made.format(precision=getattr(kind, "precision", 0), scale=getattr(kind, "scale", 0))
    return types.made["string" if mine is ValueKind.TEXT else kind.typeName()]


def _format_expression(kind: ValueKind, name: str, staged: str) -> str:
    """Return Spark's expression of a column as it is staged."""
    column = quote(name)
    micros = f"unix_micros({column})"
    match kind:
        case ValueKind.WHOLE:
            value = f"CAST({column} AS LONG)"
        case ValueKind.FLOAT:
            value = f"CAST({column} AS DOUBLE)"
        case ValueKind.TEXT:
            value = f"validate_utf8(CAST({column} AS STRING))"
        case ValueKind.BOOLEAN:
            value = column if staged == "boolean" else f"CAST(CAST({column} AS INT) AS LONG)"
        case ValueKind.DATE | ValueKind.LOCAL:
            value = f"CAST({column} AS STRING)"
        case ValueKind.MOMENT:  # in UTC, whatever the session's time zone is
            value = (
                "CAST(TIMESTAMP_NTZ'1970-01-01 00:00:00' + make_dt_interval("
                f"CAST({micros} DIV {_DAY} AS INT), 0, 0,"
                f" CAST({micros} % {_DAY} AS DECIMAL(18, 6)) / 1000000) AS STRING)"
            )
        case ValueKind.DOUBLE | ValueKind.DECIMAL | ValueKind.BYTES:
            value = column
        case _:
            assert_never(kind)
    return f"{value} AS {column}"


def quote(name: str) -> str:
    """Return a column's name as Spark takes it, whatever characters are in it."""
    return f"`{name.replace('`', '``')}`"
