"""Sinks: where a job's rows go. These functions declare a sink; nothing is opened yet.

contract.py        what every sink promises, and the decision that makes a batch exactly once
open.py            a declared sink -> the sink that writes
delta/             Delta tables: rows and ledger in one commit
postgres/          PostgreSQL tables: rows and ledger in one transaction, by COPY
jdbc/              MariaDB and PostgreSQL tables through JDBC
batch_size.py      which batches the driver collects, and which the executors write
caching.py         keep the rows of a batch on the executors, so that their plan runs once
observed_count.py  how many rows a plan produced, as Spark reports it
spark_failure.py   Spark's error conditions, and which of them are permanent
pg_catalog.py      queries of PostgreSQL's catalog that both PostgreSQL clients use
secret.py          where a password is found
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import OptionInvalid
from holdfast.model.definition import (
    DeclaredSink,
    DeltaAppend,
    DeltaMerge,
    DeltaSink,
    FileSink,
    ForeachBatch,
    JdbcAppend,
    JdbcUpsert,
    Output,
    PostgresAppend,
    PostgresUpsert,
)
from holdfast.model.ids import OutputName
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = [
    "delta_append",
    "delta_merge",
    "files",
    "foreach_batch",
    "jdbc_append",
    "jdbc_upsert",
    "postgres_append",
    "postgres_upsert",
]

Select = Callable[["DataFrame"], "DataFrame"]

_PLAIN = re.compile(r"[A-Za-z0-9:/._=-]*")
_TELLING_NAME = (
    r"\w*(?:password|passwd|passphrase|passcode|pwd|secret|token|(?:pvt|private|access|account|api|"
    r"client|server|signing|shared).?key)"
)
_PASSWORD = re.compile(rf"(?i)\b{_TELLING_NAME}\s*=|^postgres(ql)?://[^/@]*:[^/@]*@")
_JDBC_PASSWORD = re.compile(
    rf"(?i)[?&;:,(/]{_TELLING_NAME}\s*=|//[^/@:]*:[^/@]*@|^jdbc:oracle:\w+:[^/@]+/[^@]*@"
)
_SECRET_OPTION = re.compile(rf"(?i)(?:[\w.\-]*\.)?{_TELLING_NAME}")
_SECRET_PATH = re.compile(
    rf"(?i)://[^/@\s]*:[^/@\s]*@|[?&;](?:{_TELLING_NAME}|sig|signature|x-amz-\w+)="
)
_JDBC_KINDS = ("jdbc:postgresql:", "jdbc:mariadb:")
_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+")
FILE_FORMATS = ("parquet", "json", "csv")


def delta_append(
    path: str,
    *,
    partition_by: Sequence[str] = (),
    evolve: bool = False,
    properties: Mapping[str, str] | None = None,
    select: Select | None = None,
    name: str | None = None,
) -> Output:
    """Append to a Delta table, exactly once.

    With `evolve`, columns that the table lacks are added to it; without, they are refused.
    `select` picks the rows of this output where a job has several.
    """
    sink = DeltaAppend(
        path=path,
        partition_by=tuple(partition_by),
        evolve=evolve,
        properties=dict(properties or {}),
    )
    return _make_output(sink, path, select, name)


def delta_merge(  # noqa: PLR0913  one parameter an option of the sink
    path: str,
    *,
    keys: Sequence[str],
    newest: str | None = None,
    partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    select: Select | None = None,
    name: str | None = None,
) -> Output:
    """Upsert into a Delta table by key, exactly once.

    With `newest`, the row with the highest value of that column stays, within a batch and against
    the table. Without, a key may occur once a batch, and the incoming row replaces the old one.
    """
    if not keys:
        raise OptionInvalid(
            f"a merge into `{path}` needs at least one key column",
            hint='name them: `delta_merge(path, keys=["id"])`',
        )
    sink = DeltaMerge(
        path=path,
        keys=tuple(keys),
        newest=newest,
        partition_by=tuple(partition_by),
        properties=dict(properties or {}),
    )
    return _make_output(sink, path, select, name)


def files(
    path: str,
    *,
    format: str = "parquet",  # noqa: A002  Spark's own word
    partition_by: Sequence[str] = (),
    options: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Output:
    """Spark's own file sink, exactly once for readers that honour its `_spark_metadata`."""
    if format not in FILE_FORMATS:
        raise OptionInvalid(
            f"`{format}` is not a supported file format: use {', '.join(FILE_FORMATS)}",
            hint="use `sinks.delta_append` for tables",
        )
    sink = FileSink(
        path=path, format=format, partition_by=tuple(partition_by), options=dict(options or {})
    )
    return _make_output(sink, path, None, name)


def foreach_batch(
    function: Callable[["DataFrame", int], None],
    *,
    name: str = "foreach_batch",
    select: Select | None = None,
) -> Output:
    """The user's own function of a batch and its id; unproven: a retried batch calls it again."""
    return Output(name=OutputName(name), sink=ForeachBatch(function=function), select=select)


def postgres_append(
    connection: str,
    table: str,
    *,
    schema: str = "public",
    password: str | None = None,
    select: Select | None = None,
    name: str | None = None,
) -> Output:
    """Append to a PostgreSQL table, exactly once.

    `connection` is what libpq takes, as in `"host=db dbname=serving user=stream"`, without a
    password. That comes from libpq's own places (PGPASSFILE, `~/.pgpass`, PGPASSWORD, a service)
    or from where `password` says: `"env:NAME"` or `"file:PATH"`.
    """
    _check_server(connection, password)
    sink = PostgresAppend(connection=connection, password=password, schema=schema, table=table)
    return Output(name=OutputName(name or table), sink=sink, select=select)


def postgres_upsert(  # noqa: PLR0913  one parameter an option of the sink
    connection: str,
    table: str,
    *,
    keys: Sequence[str],
    newest: str | None = None,
    deleted: str | None = None,
    schema: str = "public",
    password: str | None = None,
    select: Select | None = None,
    name: str | None = None,
) -> Output:
    """Upsert into a PostgreSQL table by key, exactly once; connect as `postgres_append` does.

    With `newest`, the row with the highest value of that column stays, within a batch and against
    the table. Without, a key may occur once a batch, and the incoming row replaces the old one.
    Rows whose boolean column `deleted` is true take their key out of the table.
    """
    if not keys:
        raise OptionInvalid(
            f"an upsert into `{table}` needs at least one key column",
            hint='name them: `postgres_upsert(connection, table, keys=["id"])`',
        )
    _check_server(connection, password)
    sink = PostgresUpsert(
        connection=connection,
        password=password,
        schema=schema,
        table=table,
        keys=tuple(keys),
        newest=newest,
        deleted=deleted,
    )
    return Output(name=OutputName(name or table), sink=sink, select=select)


def jdbc_append(  # noqa: PLR0913  one parameter an option of the sink
    url: str,
    table: str,
    *,
    schema: str | None = None,
    user: str | None = None,
    password: str | None = None,
    options: Mapping[str, str] | None = None,
    select: Select | None = None,
    name: str | None = None,
) -> Output:
    """Append to a table of PostgreSQL or MariaDB through JDBC, exactly once.

    The driver's jar is yours: `--set spark.jars=…`. `password` says where the password is found,
    as `"env:NAME"` or `"file:PATH"`; `options` are those of Spark's JDBC writer.
    """
    _check_jdbc(url, password, options or {})
    sink = JdbcAppend(
        url=url,
        user=user,
        password=password,
        schema=schema,
        table=table,
        options=dict(options or {}),
    )
    return Output(name=_check_jdbc_name(name or table), sink=sink, select=select)


def jdbc_upsert(  # noqa: PLR0913  one parameter an option of the sink
    url: str,
    table: str,
    *,
    keys: Sequence[str],
    newest: str | None = None,
    schema: str | None = None,
    user: str | None = None,
    password: str | None = None,
    options: Mapping[str, str] | None = None,
    select: Select | None = None,
    name: str | None = None,
) -> Output:
    """Upsert into such a table by key, exactly once; connect as `jdbc_append` does.

    The table must be there, with a primary key or a unique index on the keys. With `newest`, the
    row with the highest value of that column stays, within a batch and against the table.
    """
    if not keys:
        raise OptionInvalid(
            f"an upsert into `{table}` needs at least one key column",
            hint='name them: `jdbc_upsert(url, table, keys=["id"])`',
        )
    _check_jdbc(url, password, options or {})
    sink = JdbcUpsert(
        url=url,
        user=user,
        password=password,
        schema=schema,
        table=table,
        options=dict(options or {}),
        keys=tuple(keys),
        newest=newest,
    )
    return Output(name=_check_jdbc_name(name or table), sink=sink, select=select)


def _check_jdbc_name(name: str) -> OutputName:
    """Refuse blanks at the end, which MariaDB's ledger does not tell apart."""
    if name != name.rstrip():
        raise OptionInvalid(
            f"the output name `{name}` ends with a blank",
            hint='give it a name: `jdbc_append(url, table, name="rows")`',
        )
    return OutputName(name)


def _check_jdbc(url: str, password: str | None, options: Mapping[str, str]) -> None:
    """Refuse a password in the declaration; what was given is not repeated."""
    if not url.startswith(_JDBC_KINDS):
        raise OptionInvalid(
            f"`{':'.join(url.split(':')[:2])}` is not a supported database: use PostgreSQL or"
            " MariaDB",
            hint='write the address as the driver takes it: `"jdbc:mariadb://host:3306/database"`',
        )
    if _JDBC_PASSWORD.search(url) or any(_SECRET_OPTION.fullmatch(key) for key in options):
        raise OptionInvalid(
            "the connection contains a password",
            hint='say where the password is instead: `password="env:NAME"`',
        )
    _check_reference(password)


def _check_server(connection: str, password: str | None) -> None:
    """Refuse a password in the declaration; what was given is not repeated."""
    if _PASSWORD.search(connection):
        raise OptionInvalid(
            "the connection contains a password",
            hint='put it into ~/.pgpass, or say where it is: `password="env:NAME"`',
        )
    _check_reference(password)


def _check_reference(password: str | None) -> None:
    if password is not None and not _REFERENCE.fullmatch(password):
        raise OptionInvalid(
            "`password` must say where the password is, as `env:NAME` or `file:PATH`",
            hint="name the place, not the password",
        )


def _make_output(sink: DeclaredSink, path: str, select: Select | None, name: str | None) -> Output:
    if _SECRET_PATH.search(path):
        raise OptionInvalid(
            "the path contains a key or a password",
            hint="pass keys with `Pipeline(storage=…)` or in the environment: paths are recorded",
        )
    if "%" in path:
        raise OptionInvalid(
            f"the path `{path}` contains `%`, which engines read in two ways",
            hint="choose a path without `%` for the output",
        )
    if isinstance(sink, DeltaSink) and urls.is_hdfs(path) and not _PLAIN.fullmatch(path):
        raise OptionInvalid(
            f"the path `{path}` of a Delta table on HDFS contains characters that delta-rs does not"
            " find again there",
            hint="choose a path of a-z, A-Z, 0-9 and `-_.=/` for the output",
        )
    last = path.rstrip("/").rsplit("/", 1)[-1]
    return Output(name=OutputName(name or last), sink=sink, select=select)
