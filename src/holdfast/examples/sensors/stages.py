"""What the sensor jobs do with their rows: plain DataFrame functions, for streams and for batches.

    wire -> raw          `from_files`, `from_kafka`   bytes as they came, and where they came from
    raw  -> typed        `typed`                      readings, or the reason why it is none
    typed -> distinct    `distinct`                   without what the devices sent twice
                         `readings`, `quarantine`     the two outputs of that
    readings -> minutes  `by_minute`                  one row a sensor, metric and minute
                         `minutely`, `latest`         the two outputs of that

The raw schema is `key binary, payload binary, origin string, position bigint, received_at
timestamp`. Origin and position name one message for ever: a file and the line in it, or a topic's
partition and the offset in it. A batch that runs again gives the same rows again, because nothing
here asks a clock or a random number.
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
"""Six times as long as the simulated sensors are ever late, so that no reading is too late."""

_READING = "sensor string, metric string, event_time bigint, value double, sequence bigint"
_FIELDS = ("sensor", "metric", "event_time", "value", "sequence")
_AGGREGATES = ("count", "min", "max", "mean")
_NEWEST = ("event_time", "value", "sequence")
_CAME_FROM = ("origin", "position", "received_at")


class Reason(StrEnum):
    """Why a payload is in the quarantine: the first of these that is true of it."""

    PAYLOAD_EMPTY = "PAYLOAD_EMPTY"
    PAYLOAD_NOT_UTF8 = "PAYLOAD_NOT_UTF8"
    PAYLOAD_UNDECODABLE = "PAYLOAD_UNDECODABLE"
    SENSOR_MISSING = "SENSOR_MISSING"
    METRIC_UNKNOWN = "METRIC_UNKNOWN"
    EVENT_TIME_IMPOSSIBLE = "EVENT_TIME_IMPOSSIBLE"
    VALUE_NOT_FINITE = "VALUE_NOT_FINITE"
    SEQUENCE_MISSING = "SEQUENCE_MISSING"


def parse_files(files: DataFrame) -> DataFrame:
    """Raw rows of landing files that were read whole, one a row.

    Whole, because only then a line has a number, and only with it two equal lines are told apart.
    A line that is not of a landing file becomes a payload as it stands, so that it is quarantined.
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
    """Raw rows of Spark's Kafka source."""
    return records.select(
        "key",
        F.col("value").alias("payload"),
        F.concat_ws("/", "topic", F.col("partition").cast("string")).alias("origin"),
        F.col("offset").alias("position"),
        F.col("timestamp").alias("received_at"),
    )


def decode_readings(raw: DataFrame, encoding: Encoding) -> DataFrame:
    """Every raw row with either a reading or a `reason` why it is none.

    What is wrong has no event time at all, or one in the year 2199 would move the watermark there.
    """
    decoded = raw.withColumn("decoded", _decode_payload(encoding))
    judged = decoded.withColumn("reason", _find_reason(encoding))
    reading = {name: F.when(F.col("reason").isNull(), F.col(f"decoded.{name}")) for name in _FIELDS}
    reading["event_time"] = F.timestamp_millis(reading["event_time"])
    return judged.withColumns(reading).drop("decoded")


def drop_duplicates(typed: DataFrame) -> DataFrame:
    """The typed rows of a stream, each reading once; of what is wrong, every single row.

    A row without an event time is never too late for Spark and does not move the watermark. Its
    coordinates are its identity, so that two empty payloads are two rows of the quarantine.
    """
    wrong_at = F.when(F.col("reason").isNotNull(), F.struct("origin", "position"))
    return (
        typed.withColumn("wrong_at", wrong_at)
        .withWatermark("event_time", WATERMARK)
        .dropDuplicatesWithinWatermark(["sensor", "metric", "sequence", "wrong_at"])
        .drop("wrong_at")
    )


def select_readings(rows: DataFrame) -> DataFrame:
    """The readings among typed rows."""
    return rows.where(F.col("reason").isNull()).select(*_FIELDS, *_CAME_FROM)


def select_quarantine(rows: DataFrame) -> DataFrame:
    """What is wrong among typed rows: why, the bytes as they came, and where they came from."""
    return rows.where(F.col("reason").isNotNull()).select("reason", "key", "payload", *_CAME_FROM)


def aggregate_minutes(readings: DataFrame) -> DataFrame:
    """One row a sensor, metric and minute: its aggregates, and the newest reading in it."""
    grouped = readings.withWatermark("event_time", WATERMARK).groupBy(
        "sensor", "metric", F.window("event_time", "1 minute")
    )
    aggregated = grouped.agg(
        F.count("value").alias("count"),
        F.min("value").alias("min"),
        F.max("value").alias("max"),
        F.avg("value").alias("mean"),
        # Column by column, because Spark must sort to aggregate a struct, and need not for numbers.
        F.max("event_time").alias("event_time"),
        F.max_by("value", "event_time").alias("value"),
        F.max_by("sequence", "event_time").alias("sequence"),
    )
    minute = F.col("window.start").alias("minute")
    return aggregated.select("sensor", "metric", minute, *_AGGREGATES, *_NEWEST)


def select_minutes(minutes: DataFrame) -> DataFrame:
    """The aggregates of the minutes that a batch has changed, each once."""
    return minutes.select("sensor", "metric", "minute", *_AGGREGATES)


def select_latest(minutes: DataFrame) -> DataFrame:
    """The newest reading of each of these minutes: several a sensor and metric."""
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
    # A condition on a missing field is neither true nor false, which is as good as false here.
    return F.coalesce(
        *(
            F.when(~F.coalesce(holds, F.lit(False)), F.lit(reason.value))  # noqa: FBT003
            for reason, holds in required.items()
        )
    )
