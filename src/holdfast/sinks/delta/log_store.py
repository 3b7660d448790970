"""Which log store Spark's Delta writer uses for a table, and whether holdfast may commit beside it.

holdfast and delta-rs commit by creating the next log entry on condition that its name is free. A
log store that decides elsewhere who is first, such as DynamoDB's, does not see such a commit, and
holdfast does not see its commits. Where the session has such a log store, Spark makes all commits.
"""

from typing import TYPE_CHECKING

from holdfast.errors import SinkRefused
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELEGATING = "org.apache.spark.sql.delta.storage.DelegatingLogStore"
_SINGLE_DRIVER = frozenset(
    f"{package}.S3SingleDriverLogStore"
    for package in ("io.delta.storage", "org.apache.spark.sql.delta.storage")
)
_CREATING = frozenset(
    f"{package}.{name}"
    for package in ("io.delta.storage", "org.apache.spark.sql.delta.storage")
    for name in ("HDFSLogStore", "AzureLogStore", "GCSLogStore", "LocalLogStore")
)
"""Log stores that create the entry under its own name, and fail where it is taken."""


def commits_elsewhere(path: str, spark: "SparkSession") -> bool:
    """Return whether other writers may commit to the table in a way that holdfast cannot see.

    Raises where Spark's own writer would not see them either.
    """
    scheme = urls.get_scheme(urls.to_spark_url(path))
    chosen = _find_setting(spark, "class") or _find_setting(spark, f"{scheme}.impl")
    if chosen is not None:
        return not _is_visible(chosen, scheme)
    if not urls.is_s3(path):
        return False
    for other in ("s3", "s3n"):
        named = _find_setting(spark, f"{other}.impl")
        if named is not None and not _is_visible(named, other):
            raise SinkRefused(
                f"Cannot write to `{path}`: the log store `{named}` is set for `{other}:`"
                f" addresses, but Spark reaches the table as `{scheme}:` and would not use it",
                hint=f"set `spark.delta.logStore.{scheme}.impl` to `{named}`, too",
            )
    return False


def overwrites(path: str, spark: "SparkSession") -> bool:
    """Return whether Spark's Delta writer may overwrite a commit that another writer made first."""
    if not urls.is_s3(path):
        return False
    chosen = _find_setting(spark, "class") or _find_setting(spark, "s3a.impl")
    return chosen is None or chosen in _SINGLE_DRIVER or chosen == _DELEGATING


def _is_visible(name: str, scheme: str) -> bool:
    if name in _SINGLE_DRIVER or name == _DELEGATING:
        return urls.is_s3(f"{scheme}://b") or name == _DELEGATING
    return name in _CREATING and not urls.is_s3(f"{scheme}://b")


def _find_setting(spark: "SparkSession", key: str) -> str | None:
    """Return a setting of the context: Delta does not ask the session for it."""
    conf = spark.sparkContext.getConf()
    return conf.get(f"spark.delta.logStore.{key}") or conf.get(f"delta.logStore.{key}")
