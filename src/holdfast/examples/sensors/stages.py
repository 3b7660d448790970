"""What the sensor jobs do with their rows: plain DataFrame functions, for streams and for batches.

    wire -> raw          `parse_files`, `parse_kafka`            the bytes and their origin
    raw -> typed         `decode_readings`                       a reading, or a reason per row
    typed -> distinct    `drop_duplicates`                       each reading once
                         `select_readings`, `select_quarantine`  the two outputs
    readings -> minutes  `aggregate_minutes`                     a row per sensor, metric and minute
                         `select_minutes`, `select_latest`       the two outputs

The raw schema is `key binary, payload binary, origin string, position bigint, received_at
timestamp`. Origin and position identify a message: a file and a line number, or a topic partition
and an offset. A batch that runs again produces the same rows, because no function here uses a clock
or a random number.
"""

import math
from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.avro.functions import from_avro

from holdfast.examples.sensors.simulator import (
    AVRO_SCHEMA,
    EARLIEST_MS,
    LATEST_MS,
    METRICS,
    Encoding,
)

WATERMARK = "30 minutes"
"""Six times the greatest delay of the simulated sensors, so that no reading is too late."""

_READING = "sensor string, metric string, event_time bigint, value double, sequence bigint"
_FIELDS = ("sensor", "metric", "event_time", "value", "sequence")
_AGGREGATES = ("count", "min", "max", "mean")
_NEWEST = ("event_time", "value", "sequence")
_CAME_FROM = ("origin", "position", "received_at")


class Reason(StrEnum):
    """The reason why a payload is in the quarantine: the first of these that applies."""

    PAYLOAD_EMPTY = "PAYLOAD_EMPTY"
    PAYLOAD_NOT_UTF8 = "PAYLOAD_NOT_UTF8"
    PAYLOAD_UNDECODABLE = "PAYLOAD_UNDECODABLE"
    SENSOR_MISSING = "SENSOR_MISSING"
    METRIC_UNKNOWN = "METRIC_UNKNOWN"
    EVENT_TIME_IMPOSSIBLE = "EVENT_TIME_IMPOSSIBLE"
    VALUE_NOT_FINITE = "VALUE_NOT_FINITE"
    SEQUENCE_MISSING = "SEQUENCE_MISSING"


def parse_files(files: DataFrame) -> DataFrame:
    """Return raw rows of landing files, given one row per whole file.

    A line has a number only if its file is read whole, and only the number distinguishes two equal
    lines. A line of any other file becomes a payload unchanged, and so ends up in the quarantine.
    """
    lines = files.select(
        F.posexplode(F.split(F.regexp_replace("value", "\n$", ""), "\n")).alias("position", "line"),
        F.col("_metadata.file_path").alias("origin"),
        F.col("_metadata.file_modification_time").alias("received_at"),
    )
    return lines.select(
        _decode_base64_field(0).alias("key"),
        F.coalesce(_decode_base64_field(1), F.col("line").cast("binary")).alias("payload"),
        "origin",
        F.col("position").cast("long").alias("position"),
        "received_at",
    )


def parse_kafka(records: DataFrame) -> DataFrame:
    """Return raw rows of Spark's Kafka source."""
    return records.select(
        "key",
        F.col("value").alias("payload"),
        F.concat_ws("/", "topic", F.col("partition").cast("string")).alias("origin"),
        F.col("offset").alias("position"),
        F.col("timestamp").alias("received_at"),
    )


def decode_readings(raw: DataFrame, encoding: Encoding) -> DataFrame:
    """Return every raw row with either a reading or the `reason` why it is invalid.

    An invalid row gets no event time: one in the year 2199 would move the watermark there.
    """
    decoded = raw.withColumn("decoded", _decode_payload(encoding))
    checked = decoded.withColumn("reason", _find_reason(encoding))
    reading = {name: F.when(F.col("reason").isNull(), F.col(f"decoded.{name}")) for name in _FIELDS}
    reading["event_time"] = F.timestamp_millis(reading["event_time"])
    return checked.withColumns(reading).drop("decoded")


def drop_duplicates(typed: DataFrame) -> DataFrame:
    """Return the typed rows of a stream with each reading once, and every invalid row.

    For Spark, a row without an event time is never too late and does not move the watermark. Origin
    and position identify an invalid row, so that two empty payloads stay two rows.
    """
    wrong_at = F.when(F.col("reason").isNotNull(), F.struct("origin", "position"))
    return (
        typed.withColumn("wrong_at", wrong_at)
        .withWatermark("event_time", WATERMARK)
        .dropDuplicatesWithinWatermark(["sensor", "metric", "sequence", "wrong_at"])
        .drop("wrong_at")
    )


def select_readings(rows: DataFrame) -> DataFrame:
    """Return the readings among typed rows."""
    return rows.where(F.col("reason").isNull()).select(*_FIELDS, *_CAME_FROM)


def select_quarantine(rows: DataFrame) -> DataFrame:
    """Return the invalid rows: the reason, the original bytes, and where they came from."""
    return rows.where(F.col("reason").isNotNull()).select("reason", "key", "payload", *_CAME_FROM)


def aggregate_minutes(readings: DataFrame) -> DataFrame:
    """Return one row per sensor, metric and minute: its aggregates and its newest reading."""
    grouped = readings.withWatermark("event_time", WATERMARK).groupBy(
        "sensor", "metric", F.window("event_time", "1 minute")
    )
    aggregated = grouped.agg(
        F.count("value").alias("count"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
        F.avg("value").alias("mean"),
        # Column by column, because Spark sorts to aggregate a struct, but not for numbers.
        F.max("event_time").alias("event_time"),
        F.max_by("value", "event_time").alias("value"),
        F.max_by("sequence", "event_time").alias("sequence"),
    )
    minute = F.col("window.start").alias("minute")
    return aggregated.select("sensor", "metric", minute, *_AGGREGATES, *_NEWEST)


def select_minutes(minutes: DataFrame) -> DataFrame:
    """Return the aggregates of the minutes that a batch changed, each once."""
    return minutes.select("sensor", "metric", "minute", *_AGGREGATES)


def select_latest(minutes: DataFrame) -> DataFrame:
    """Return the newest reading of each minute: several rows per sensor and metric."""
    return minutes.select("sensor", "metric", *_NEWEST)


def _decode_base64_field(number: int) -> Column:
    return F.try_to_binary(F.get(F.split("line", "\t"), F.lit(number)), F.lit("base64"))


def _decode_payload(encoding: Encoding) -> Column:
    match encoding:
        case Encoding.JSON:
            return F.from_json(F.col("payload").cast("string"), _READING)
        case Encoding.AVRO:
            return from_avro("payload", AVRO_SCHEMA, {"mode": "PERMISSIVE"})


def _find_reason(encoding: Encoding) -> Column:
    field = {name: F.col(f"decoded.{name}") for name in _FIELDS}
    text = F.col("payload").cast("string")
    required = {
        Reason.PAYLOAD_EMPTY: F.length("payload") > 0,
        Reason.PAYLOAD_NOT_UTF8: F.lit(encoding is Encoding.AVRO) | F.is_valid_utf8(text),
        Reason.PAYLOAD_UNDECODABLE: F.coalesce(
            *(f.cast("string") for f in field.values())
        ).isNotNull(),
        Reason.SENSOR_MISSING: F.length(field["sensor"]) > 0,
        Reason.METRIC_UNKNOWN: field["metric"].isin(*METRICS),
        Reason.EVENT_TIME_IMPOSSIBLE: field["event_time"].between(EARLIEST_MS, LATEST_MS),
        Reason.VALUE_NOT_FINITE: F.abs(field["value"]) < F.lit(math.inf),  # NaN is the greatest
        Reason.SEQUENCE_MISSING: field["sequence"] >= 0,
    }
    # A condition on a missing field is null, which counts as false here.
    return F.coalesce(
        *(
            F.when(~F.coalesce(condition, F.lit(False)), F.lit(reason.value))  # noqa: FBT003
            for reason, condition in required.items()
        )
    )
