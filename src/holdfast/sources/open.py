"""A declared source -> a streaming DataFrame."""

import shlex
import socket
from typing import TYPE_CHECKING

from holdfast.errors import SourceUnavailable
from holdfast.model.definition import DeclaredSource, DeltaTable, Files, Kafka
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CONNECT_SECONDS = 5.0
_DEFAULT_KAFKA_PORT = 9092

MAX_POLL_RECORDS = "5000"
"""Records per poll. Kafka's default is 500. After each poll Spark seeks to both ends of the
partition and back, and the consumer drops the records that it had fetched in advance. A larger
number means fewer seeks; `max.partition.fetch.bytes` still limits the size of a poll."""


def open_stream(source: DeclaredSource, spark: "SparkSession") -> "DataFrame":
    """Return the source as a streaming DataFrame; raise SourceUnavailable if it does not answer."""
    match source:
        case Files():
            return _open_files(source, spark)
        case Kafka():
            return _open_kafka(source, spark)
        case DeltaTable():
            return _open_delta(source, spark)


def _open_files(source: Files, spark: "SparkSession") -> "DataFrame":
    if urls.is_local(source.path) and not any(mark in source.path for mark in "*?[{"):
        folder = urls.to_local_path(source.path)
        if not folder.is_dir():
            raise SourceUnavailable(
                f"the landing directory `{source.path}` does not exist",
                hint=f"create it: `mkdir -p {shlex.quote(str(folder))}`",
            )
    reader = spark.readStream.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load(urls.to_spark_url(source.path))


def _open_kafka(source: Kafka, spark: "SparkSession") -> "DataFrame":
    _require_reachable(source)
    return (
        spark.readStream.format("kafka")
        .options(**{"kafka.max.poll.records": MAX_POLL_RECORDS, **source.options})
        .option("kafka.bootstrap.servers", source.servers)
        .option("subscribe", ",".join(source.topics))
        .option("startingOffsets", source.starting)
        .load()
    )


def _require_reachable(source: Kafka) -> None:
    """Raise SourceUnavailable if no bootstrap server answers: Spark would retry for minutes."""
    for server in source.servers.split(","):
        host, _, port = server.strip().rpartition(":")
        address = (host or server.strip(), int(port) if port.isdecimal() else _DEFAULT_KAFKA_PORT)
        try:
            socket.create_connection(address, timeout=_CONNECT_SECONDS).close()
        except OSError:
            continue
        return
    raise SourceUnavailable(
        f"no Kafka broker answers at `{source.servers}`",
        hint=f"check that the brokers run and that this machine can reach `{source.servers}`",
    )


def _open_delta(source: DeltaTable, spark: "SparkSession") -> "DataFrame":
    from pyspark.errors import AnalysisException

    try:
        return (
            spark.readStream.format("delta")
            .options(**source.options)
            .load(urls.to_spark_url(source.path))
        )
    except AnalysisException as error:
        raise SourceUnavailable(
            f"cannot read the Delta table `{source.path}`: {str(error).splitlines()[0]}",
            hint="start the job that writes the table first, or in the same `holdfast run`",
        ) from error
