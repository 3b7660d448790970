"""What is refused about a table and the rows for it, before a batch is planned.

The same is asked again when another writer has changed the table since: a batch must not be written
to a table that `prepare` would have refused.
"""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import deltalake
from deltalake.exceptions import DeltaError

from holdfast.errors import SchemaMismatch
from holdfast.sinks.delta import schema as schemas
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.table import DeltaLocation

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

_FEED = "delta.enableChangeDataFeed"
_FEED_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})


def require_creatable(place: DeltaLocation, rows: "StructType", spark: "SparkSession") -> None:
    """Raise where no table can be made of the rows as the sink is declared."""
    path = place.path
    if not rows.fields:
        raise SchemaMismatch(
            f"Cannot create the Delta table `{path}`: the rows have no columns",
            hint="return at least one column from the job's function",
        )
    schemas.require_distinct(rows, path)
    require_storable(rows.fields, path)
    _require_partitions(place, rows)
    _require_properties(place, spark)
    _require_no_feed_columns(rows, place.properties, path)


def require_rows(
    table: deltalake.DeltaTable, rows: "StructType", path: str, *, evolve: bool
) -> None:
    """Raise where the rows do not fit the table, or a batch of them could not be appended."""
    there = schemas.read_schema(table)
    added = schemas.find_missing_columns(rows, there) if evolve else ()
    names = {field.name for field in added}
    known = type(rows)([field for field in rows.fields if field.name not in names])
    schemas.require_distinct(rows, path)
    schemas.fit_columns(known, there, path)
    schemas.require_not_null(rows, there, path)
    schemas.require_partitions(rows, there, table.metadata().partition_columns, path)
    require_storable(added, path)
    require_no_feed_columns(table, rows, path)


def require_no_feed_columns(table: deltalake.DeltaTable, rows: "StructType", path: str) -> None:
    """Raise where the rows have columns that a change data feed uses itself."""
    _require_no_feed_columns(rows, table.metadata().configuration, path)


def _require_no_feed_columns(rows: "StructType", properties: Mapping[str, str], path: str) -> None:
    if properties.get(_FEED, "").lower() != "true":
        return
    taken = [field.name for field in rows.fields if field.name.lower() in _FEED_COLUMNS]
    if taken:
        raise SchemaMismatch(
            f"Cannot write the column `{taken[0]}` to the Delta table `{path}`: its change data"
            " feed has a column of that name",
            hint=f"rename `{taken[0]}` in the job's function, or set `{_FEED}` to `false`",
        )


def require_storable(fields: Sequence["StructField"], path: str) -> None:
    """Raise where a Delta table cannot keep a column of this type as it is."""
    for field in fields:
        if not _is_storable(field.dataType):
            raise SchemaMismatch(
                f"Cannot keep the column `{field.name}` in the Delta table `{path}`: Delta has no"
                f" type for {field.dataType.simpleString()}",
                hint=f"cast `{field.name}` to a type that Delta has, in the job's function",
            )


def _is_storable(kind: "DataType") -> bool:
    """Whether the table's schema says the same type as the rows, and Spark writes it."""
    from pyspark.sql.types import StructType

    if any(name == "interval" or name.startswith("interval ") for name in _names(kind)):
        return False
    if _has_void_inside(kind):
        return False
    text = json.dumps(tables.make_nullable(StructType().add("c", kind).jsonValue()))
    try:
        kept = json.loads(deltalake.Schema.from_json(text).to_json())
    except (DeltaError, ValueError):
        return False
    stored = StructType.fromJson(kept).fields[0].dataType
    return schemas.is_same_type(stored, kind)


def _names(kind: "DataType") -> set[str]:
    return set(tables.list_kinds(kind.jsonValue()))


def _has_void_inside(kind: "DataType") -> bool:
    """Whether an array or a map has elements without a type, as `array()` has."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match kind:
        case ArrayType():
            parts = [kind.elementType]
        case MapType():
            parts = [kind.keyType, kind.valueType]
        case StructType():
            return any(_has_void_inside(field.dataType) for field in kind.fields)
        case _:
            return False
    return any("void" in _names(part) for part in parts)


def _require_partitions(place: DeltaLocation, rows: "StructType") -> None:
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        MapType,
        NullType,
        StructType,
        VariantType,
    )

    by_name = {field.name.lower(): field for field in rows.fields}
    kept = ArrayType | BinaryType | MapType | NullType | StructType | VariantType
    for name in place.partition_by:
        field = by_name.get(name.lower())
        if field is None:
            raise SchemaMismatch(
                f"Cannot partition the Delta table `{place.path}` by `{name}`: the rows have no"
                " such column",
                hint=f"add `{name}` to the job's result, or change `partition_by` of the sink",
            )
        if isinstance(field.dataType, kept):
            raise SchemaMismatch(
                f"Cannot partition the Delta table `{place.path}` by `{name}`: values of type"
                f" {field.dataType.simpleString()} have no text to name a partition by",
                hint="partition by a column of numbers, text, dates or time stamps",
            )
    if len({name.lower() for name in place.partition_by}) == len(by_name):
        raise SchemaMismatch(
            f"Cannot partition the Delta table `{place.path}` by all its columns: its files would"
            " have none",
            hint="leave at least one column out of `partition_by`",
        )


def _require_properties(place: DeltaLocation, spark: "SparkSession") -> None:
    """Raise where Delta knows a declared property and does not take its value, or not at all."""
    if not place.properties:
        return
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    classes = spark._jvm  # noqa: SLF001  PySpark does not pass Delta's checks on
    assert classes is not None  # noqa: S101  a session that runs has one
    given = classes.org.apache.spark.api.python.PythonUtils.toScalaMap(dict(place.properties))
    try:
        classes.org.apache.spark.sql.delta.DeltaConfigs.validateConfigurations(given)
    except (PySparkException, Py4JJavaError) as error:
        raise place.refused(error) from error
