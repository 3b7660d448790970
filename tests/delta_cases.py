"""Schemas, rows and names that differ from case to case, for tests that compare two Delta writers.

A case comes from one `random.Random`, so its seed repeats it. The values are the awkward ones of
each type as well as ordinary ones: bounds, both zeros, NaN, empty text, instants of an hour that a
clock change repeats.
"""

import datetime as dt
import math
import string
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from random import Random

from pyspark.sql import types as T  # noqa: N812  Spark's own abbreviation

QUICK = {
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
"""Settings of Spark for tables of a few rows."""
ZONES = ("UTC", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Europe/Berlin")
PLAIN_NAMES = ("a", "b", "Mixed", "_day", ".x", "snake_case", "long_" + "n" * 40, "1st", "a.b", "é")
ODD_NAMES = (
    "k=v",
    "two words",
    "50%",
    "tab\there",
    "comma,",
    "(brackets)",
    "semi;colon",
    "日本 🚀",
)
"""`ODD_NAMES` need column mapping; `PLAIN_NAMES` do not."""

_TEXTS = (
    "", "plain", "two words", "a/b", "a%2Fb", "100%", "k=v", "a#b?c", "é", "日本 🚀", "it's",
    'say "x"', "back\\slash", "[x]{y}^z*", "a:b", ".", "..", "tab\tnew\nline", "~", "+", "__x__",
    "x.parquet",
    "_hidden", ".dot", "null", "__HIVE_DEFAULT_PARTITION__ ", " spaces ", "n" * 60, "true", "1.0",
    "é" * 33, "😀" * 33, "\U0010ffff" * 33,
)  # fmt: skip
_INSTANTS = tuple(
    dt.datetime.fromisoformat(text)
    for text in (
        "2026-01-01T00:00:00Z",
        "2026-01-01T12:00:00Z",
        "2026-11-01T05:30:00Z",  # 01:30 in New York, the first time
        "2026-11-01T06:30:00Z",  # 01:30 in New York, the second time
        "2026-03-08T07:30:00Z",  # just after the hour that New York leaves out
        "2026-01-01T00:00:00.000001Z",
        "2026-01-01T00:00:00.123000Z",
        "2026-01-01T00:00:00.999999Z",
        "1969-07-20T20:17:40.123456Z",
        "1883-11-18T17:03:58Z",
        "1500-02-28T01:02:03Z",
        "9998-12-31T23:59:59Z",
    )
)
_DATES = (
    dt.date(2026, 1, 1), dt.date(1969, 12, 31), dt.date(1, 1, 1), dt.date(1582, 10, 15),
    dt.date(1500, 2, 28), dt.date(9999, 12, 31),
)  # fmt: skip
_DOUBLES = (
    0.0, -0.0, 1.0, -1.5, 1e10, 1e-9, 1e7, 0.001, 123456789.123, math.nan, math.inf, -math.inf,
    1.7976931348623157e308, 5e-324,
)  # fmt: skip
_EXACT = Context(prec=40)
_FLOATS = (0.0, -0.0, 1.0, -1.5, 1e10, 0.001, 16777216.0, math.nan, math.inf, -math.inf)

ATOMIC: dict[str, Callable[[Random], T.DataType]] = {
    "boolean": lambda _: T.BooleanType(),
    "byte": lambda _: T.ByteType(),
    "short": lambda _: T.ShortType(),
    "int": lambda _: T.IntegerType(),
    "long": lambda _: T.LongType(),
    "float": lambda _: T.FloatType(),
    "double": lambda _: T.DoubleType(),
    "decimal": lambda draw: T.DecimalType(
        *draw.choice([(1, 0), (5, 5), (9, 2), (18, 6), (38, 10)])
    ),
    "string": lambda _: T.StringType(),
    "binary": lambda _: T.BinaryType(),
    "date": lambda _: T.DateType(),
    "timestamp": lambda _: T.TimestampType(),
    "timestamp_ntz": lambda _: T.TimestampNTZType(),
}


def draw_type(draw: Random, depth: int = 2) -> T.DataType:
    """Return any type that a Delta table takes without a feature for it alone."""
    if depth and draw.random() < 0.25:
        inner = draw_type(draw, depth - 1)
        match draw.randrange(3):
            case 0:
                return T.ArrayType(inner, containsNull=draw.random() < 0.8)
            case 1:
                key = draw.choice([T.StringType(), T.IntegerType(), T.DateType()])
                return T.MapType(key, inner, valueContainsNull=draw.random() < 0.8)
            case _:
                return draw_schema(draw, (1, 3), depth=depth - 1)
    return draw.choice(list(ATOMIC.values()))(draw)


def draw_schema(
    draw: Random,
    columns: tuple[int, int] = (1, 5),
    *,
    depth: int = 2,
    names: Sequence[str] = PLAIN_NAMES,
    not_null: float = 0.0,
) -> T.StructType:
    """Return a schema with distinct names; `not_null` is the share of columns without nulls."""
    count = draw.randint(*columns)
    fields = []
    for name in draw.sample(list(names), count):
        nullable = draw.random() >= not_null
        fields.append(T.StructField(name, draw_type(draw, depth), nullable=nullable))
    return T.StructType(fields)


def draw_partitioning(
    draw: Random, schema: T.StructType, most: int = 2, *, binary: bool = False
) -> tuple[str, ...]:
    """Return partition columns: atomic ones, and never all columns."""
    nested = (T.ArrayType, T.MapType, T.StructType)
    kinds = nested if binary else (*nested, T.BinaryType)
    able = [f.name for f in schema.fields if not isinstance(f.dataType, kinds)]
    most = min(most, len(able), len(schema.fields) - 1)
    return tuple(draw.sample(able, draw.randint(0, most)))


def draw_rows(draw: Random, schema: T.StructType, count: int) -> list[tuple[object, ...]]:
    """Return rows for `spark.createDataFrame(rows, schema)`."""
    return [_draw_struct(draw, schema) for _ in range(count)]


def _draw_struct(draw: Random, schema: T.StructType) -> tuple[object, ...]:
    return tuple(
        None if field.nullable and draw.random() < 0.15 else draw_value(draw, field.dataType)
        for field in schema.fields
    )


def draw_value(draw: Random, kind: T.DataType) -> object:  # noqa: C901, PLR0911, PLR0912  a type a case
    """Return a value of the type, as Python passes it to Spark; never None at the top."""
    match kind:
        case T.BooleanType():
            return draw.random() < 0.5
        case T.ByteType():
            return _integer(draw, 8)
        case T.ShortType():
            return _integer(draw, 16)
        case T.IntegerType():
            return _integer(draw, 32)
        case T.LongType():
            return _integer(draw, 64)
        case T.FloatType():
            return draw.choice(_FLOATS)
        case T.DoubleType():
            return draw.choice(_DOUBLES)
        case T.DecimalType():
            most = 10**kind.precision - 1
            whole = draw.choice([0, 1, -1, most, -most, draw.randint(-most, most)])
            return Decimal(whole).scaleb(-kind.scale, _EXACT)
        case T.CharType() | T.VarcharType():
            most = kind.length + draw.choice([0] * 30 + [1])  # now and then too long by one
            return "".join(draw.choices(string.ascii_letters, k=draw.randint(0, most)))
        case T.StringType():
            return draw.choice(_TEXTS)
        case T.BinaryType():
            return bytearray(draw.choice([b"", b"ab", b"\x00\xff", b"\xc3\x28", "é".encode()]))
        case T.DateType():
            return draw.choice(_DATES)
        case T.TimestampType():
            return draw.choice(_INSTANTS)
        case T.TimestampNTZType():
            return draw.choice(_INSTANTS).replace(tzinfo=None)
        case T.ArrayType():
            return [
                _item(draw, kind.elementType, kind.containsNull) for _ in range(draw.randrange(3))
            ]
        case T.MapType():
            keys = {str(key): key for key in (draw_value(draw, kind.keyType) for _ in range(2))}
            size = draw.randrange(len(keys) + 1)
            return {
                key: _item(draw, kind.valueType, kind.valueContainsNull)
                for key in list(keys.values())[:size]
            }
        case T.StructType():
            return _draw_struct(draw, kind)
        case _:
            raise AssertionError(f"no value is drawn for {kind.simpleString()}")


def _item(draw: Random, kind: T.DataType, nullable: bool) -> object:  # noqa: FBT001
    return None if nullable and draw.random() < 0.2 else draw_value(draw, kind)


def _integer(draw: Random, bits: int) -> int:
    most = (1 << (bits - 1)) - 1
    return draw.choice([0, 1, -1, most, -most - 1, draw.randint(-9, 9)])


def create_table_sql(
    path: str,
    schema: T.StructType,
    partition_by: Sequence[str] = (),
    properties: dict[str, str] | None = None,
) -> str:
    """Return Spark SQL that creates the table at a path."""
    columns = ", ".join(
        f"{quote(f.name)} {_sql_type(f.dataType)}{'' if f.nullable else ' NOT NULL'}"
        for f in schema.fields
    )
    by = f" PARTITIONED BY ({', '.join(map(quote, partition_by))})" if partition_by else ""
    pairs = ", ".join(f"'{key}' = '{value}'" for key, value in (properties or {}).items())
    extra = f" TBLPROPERTIES ({pairs})" if pairs else ""
    return f"CREATE TABLE delta.`{path}` ({columns}) USING delta{by}{extra}"


def quote(name: str) -> str:
    """Return the name as SQL wants it."""
    return "`" + name.replace("`", "``") + "`"


def _sql_type(kind: T.DataType) -> str:
    match kind:
        case T.StructType():
            inner = ", ".join(
                f"{quote(f.name)}: {_sql_type(f.dataType)}{'' if f.nullable else ' NOT NULL'}"
                for f in kind.fields
            )
            return f"STRUCT<{inner}>"
        case T.ArrayType():
            return f"ARRAY<{_sql_type(kind.elementType)}>"
        case T.MapType():
            return f"MAP<{_sql_type(kind.keyType)}, {_sql_type(kind.valueType)}>"
        case _:
            return kind.simpleString()
