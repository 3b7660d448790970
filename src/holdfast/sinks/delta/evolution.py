"""Adding columns to a table: nullable, without marks of the query, by an engine that may.

A column that older files do not have must take nulls, also inside of it: otherwise every older file
becomes unreadable.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import deltalake
from deltalake.exceptions import CommitFailedError, DeltaError

from holdfast.errors import SinkRefused
from holdfast.sinks import spark_failure
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.log import Head
from holdfast.sinks.delta.table import DeltaLocation
from holdfast.storage import urls

_BY_HAND = "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT"

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructField


def add_columns(
    place: DeltaLocation, head: Head, added: Sequence["StructField"], spark: "SparkSession"
) -> None:
    """Add the columns in a commit of their own, or none if another writer was first."""
    fields = [json.dumps(tables.make_nullable(field.jsonValue())) for field in added]
    if not head.native or not _add_by_delta_rs(place, fields):
        _add_by_spark(place, fields, spark)


def _add_by_delta_rs(place: DeltaLocation, fields: Sequence[str]) -> bool:
    """Return False where delta-rs cannot change this table, or these columns need a feature."""
    if any("timestamp_ntz" in field or "variant" in field for field in fields):
        return False
    table = place.open()
    try:
        if table is not None:
            table.alter.add_columns(
                [deltalake.Field.from_json(field) for field in fields],
                post_commithook_properties=tables.NO_HOOKS,
            )
    except OSError as error:
        raise place.unavailable(error) from error
    except CommitFailedError:
        return True  # the table has changed: what it lacks has to be looked up again
    except DeltaError:
        return False
    return True


def _add_by_spark(place: DeltaLocation, fields: Sequence[str], spark: "SparkSession") -> None:
    """Append no rows that have the columns, with Delta's own merge of schemas."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812  only where Spark runs
    from pyspark.sql.types import StructField

    tables.require_exclusive_commits(place, spark)
    url = urls.to_spark_url(place.path)
    empty = tables.make_empty_frame(spark, place)
    parsed = [StructField.fromJson(json.loads(field)) for field in fields]
    columns = [F.lit(None).cast(field.dataType).alias(field.name) for field in parsed]
    wider = empty.select("*", *columns)
    try:
        wider.write.format("delta").mode("append").option("mergeSchema", "true").save(url)
    except (PySparkException, Py4JJavaError) as error:
        if spark_failure.is_conflict(error):
            return
        refusal = next((line for line in str(error).splitlines() if "[DELTA_" in line), None)
        if refusal is None:
            raise
        names = ", ".join(f"`{field.name}`" for field in parsed)
        raise SinkRefused(
            f"Cannot add {names} to the Delta table `{place.path}`: {refusal.strip(': ')}",
            hint=_advise(place, error),
        ) from error


def _advise(place: DeltaLocation, error: Exception) -> str:
    """Return what lets the table take the columns: Spark asks for some features by name."""
    needed = spark_failure.read_parameters(error, _BY_HAND).get("unsupportedFeatures", "")
    features = [name.strip() for name in needed.split(",") if name.strip()]
    if not features:
        return "add the column to the table with Spark SQL, or drop it in the job's function"
    pairs = ", ".join(f"'delta.feature.{name}' = 'supported'" for name in features)
    return (
        f"run `ALTER TABLE delta.`{place.path}` SET TBLPROPERTIES ({pairs})` with Spark SQL, then"
        " start again"
    )
