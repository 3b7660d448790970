"""Sources: where a job's rows come from. These functions declare one; nothing is opened yet."""

from collections.abc import Mapping, Sequence

from holdfast.errors import OptionInvalid
from holdfast.model.definition import DeltaTable, Files, Kafka

__all__ = ["delta", "files", "kafka"]

FILE_FORMATS = ("json", "csv", "parquet", "text")


def files(
    path: str,
    *,
    format: str,  # noqa: A002  Spark's own word
    schema: str | None = None,
    options: Mapping[str, str] | None = None,
) -> Files:
    """Files of a landing directory. `schema` is Spark's DDL, needed for all formats but text."""
    if format not in FILE_FORMATS:
        raise OptionInvalid(
            f"expected a file format of {', '.join(FILE_FORMATS)}, found `{format}`",
            hint='for anything else read it as text: `sources.files(path, format="text")`',
        )
    if schema is None and format != "text":
        raise OptionInvalid(
            f"expected a schema for the {format} files of `{path}`, found none",
            hint='give it as DDL: `sources.files(path, format="json", schema="id INT, at STRING")`',
        )
    return Files(path=path, format=format, schema=schema, options=dict(options or {}))


def kafka(
    servers: str,
    topics: str | Sequence[str],
    *,
    starting: str = "earliest",
    options: Mapping[str, str] | None = None,
) -> Kafka:
    """Topics of a Kafka cluster; `starting` counts only while there is no checkpoint."""
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names or not all(names):
        raise OptionInvalid(
            "expected the name of a Kafka topic, found none",
            hint='name it: `sources.kafka(servers, "topic")`',
        )
    return Kafka(servers=servers, topics=names, starting=starting, options=dict(options or {}))


def delta(path: str, *, options: Mapping[str, str] | None = None) -> DeltaTable:
    """A Delta table, read as a stream of its commits."""
    return DeltaTable(path=path, options=dict(options or {}))
