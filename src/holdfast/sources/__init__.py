"""Sources that a job reads rows from. These functions declare a source and do not open it."""

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
    """Declare the files of a landing directory as a source.

    `schema` is Spark's DDL; every format except text needs it.
    """
    if format not in FILE_FORMATS:
        raise OptionInvalid(
            f"`{format}` is not a supported file format: use {', '.join(FILE_FORMATS)}",
            hint='read files of a different format as text: `sources.files(path, format="text")`',
        )
    if schema is None and format != "text":
        raise OptionInvalid(
            f"the {format} files of `{path}` have no schema",
            hint="add a schema in DDL:"
            ' `sources.files(path, format="json", schema="id INT, at STRING")`',
        )
    return Files(path=path, format=format, schema=schema, options=dict(options or {}))


def kafka(
    servers: str,
    topics: str | Sequence[str],
    *,
    starting: str = "earliest",
    options: Mapping[str, str] | None = None,
) -> Kafka:
    """Declare topics of a Kafka cluster as a source.

    `starting` has an effect only as long as there is no checkpoint.
    """
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names or not all(names):
        raise OptionInvalid(
            "the Kafka source names no topic, or an empty one",
            hint='name the topic: `sources.kafka(servers, "topic")`',
        )
    return Kafka(servers=servers, topics=names, starting=starting, options=dict(options or {}))


def delta(path: str, *, options: Mapping[str, str] | None = None) -> DeltaTable:
    """Declare a Delta table as a source, read as a stream of its commits."""
    return DeltaTable(path=path, options=dict(options or {}))
