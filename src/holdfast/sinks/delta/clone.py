"""A shallow clone of a table, in which Spark merges what holdfast then commits to the table.

table/holdfast-1-7-ab12/_delta_log/…0.json    the clone: the table's files by their full address
table/holdfast-1-7-ab12/_delta_log/…1.json    the merge: files to add and to remove
table/holdfast-1-7-ab12/part-….parquet        the merged files
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from holdfast.errors import SinkRefused, StorageUnavailable
from holdfast.sinks.delta import log
from holdfast.sinks.delta.append import to_sink_error
from holdfast.sinks.delta.ledgered import LedgeredDeltaTable
from holdfast.sinks.delta.log import Head
from holdfast.storage import Missing, urls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PLACEHOLDER = "_holdfast"
_KNOWN_ACTIONS = frozenset({"commitInfo", "add", "remove"})
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")

CommitLine = Mapping[str, Mapping[str, object]]


def make(ledgered: LedgeredDeltaTable, folder: str, head: Head, spark: "SparkSession") -> None:
    """Make a shallow clone in a folder of the table, so that its new files are the table's."""
    from pyspark.errors import PySparkException

    # Without a log of its own Delta takes the folder for a partition of the table.
    ledgered.store.write(f"{folder}/_delta_log/{_PLACEHOLDER}", b"holdfast\n")
    table = urls.to_spark_url(ledgered.place.path).rstrip("/")
    try:
        spark.sql(
            f"CREATE TABLE delta.`{table}/{folder}` SHALLOW CLONE delta.`{table}`"
            f" VERSION AS OF {head.version}"
        )
    except PySparkException as error:
        raise to_sink_error(ledgered.place.path, error) from error


def read_merge(ledgered: LedgeredDeltaTable, folder: str) -> Sequence[CommitLine]:
    """Return the actions of the merge into the clone; none if it made no commit."""
    data = ledgered.store.read(f"{folder}/{log.name_entry(1)}")
    return [] if isinstance(data, Missing) else [json.loads(one) for one in data.splitlines()]


def discard_log(ledgered: LedgeredDeltaTable, folder: str) -> None:
    """Delete the clone's log, which nobody reads again; its files are the table's, or VACUUM's.

    A log that stays costs a few kilobytes, so a failure here stops nothing.
    """
    with contextlib.suppress(StorageUnavailable):
        _delete(ledgered, f"{folder}/_delta_log")


def _delete(ledgered: LedgeredDeltaTable, path: str) -> None:
    for name in ledgered.store.names(path):
        _delete(ledgered, f"{path}/{name}")
        ledgered.store.delete(f"{path}/{name}")


def require_plain_files(path: str, lines: Sequence[CommitLine]) -> None:
    """Raise unless the clone's commit only adds whole files of its own and removes others.

    The table's log has a name for such files only. A deletion vector changes a file of the table
    in place; a change of the metadata, or change data, would be missing from the table.
    """
    for line in lines:
        added, removed = line.get("add", {}), line.get("remove", {})
        strange = sorted(set(line) - _KNOWN_ACTIONS)
        if strange:
            raise _make_not_plain_error(path, f"the action `{strange[0]}`")
        if added.get("deletionVector") or removed.get("deletionVector"):
            raise _make_not_plain_error(path, "a deletion vector")
        if added and _ABSOLUTE.match(str(added["path"])):
            raise _make_not_plain_error(
                path, f"the file `{added['path']}` from outside of its folder"
            )


def _make_not_plain_error(path: str, found: str) -> SinkRefused:
    return SinkRefused(
        f"Cannot merge the batch into the Delta table `{path}`: Spark's merge wrote {found}, which"
        " holdfast cannot commit to S3 for it. Nothing of the batch was written",
        hint="set `spark.delta.logStore.s3a.impl` to a log store that is safe with several"
        " writers, so that Spark commits its merges itself",
    )


def translate(
    ledgered: LedgeredDeltaTable, folder: str, lines: Sequence[CommitLine], spark: "SparkSession"
) -> Iterator[CommitLine]:
    """What the clone's commit adds and removes, with paths as the table's log has them."""
    removed = [str(line["remove"]["path"]) for line in lines if "remove" in line]
    paths = _find_paths_in_table(ledgered, removed, spark)
    for line in lines:
        if "add" in line:
            yield {"add": {**line["add"], "path": f"{folder}/{line['add']['path']}"}}
        elif "remove" in line:
            yield {"remove": {**line["remove"], "path": paths[str(line["remove"]["path"])]}}


def _find_paths_in_table(
    ledgered: LedgeredDeltaTable, removed: Sequence[str], spark: "SparkSession"
) -> Mapping[str, str]:
    """How the table's log writes the paths of files that the clone names by their full address.

    Readers compare the texts of paths, and writers escape them differently.
    """
    if not removed:
        return {}
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as F  # noqa: N812

    jvm = spark._jvm  # noqa: SLF001  the only way to the table as its log has it
    assert jvm is not None  # noqa: S101  a session that runs has one
    delta = jvm.org.apache.spark.sql.delta.DeltaLog
    own = delta.forTable(spark._jsparkSession, urls.to_spark_url(ledgered.place.path))  # noqa: SLF001
    root = unquote(own.dataPath().toUri().toString()).rstrip("/")
    files = DataFrame(own.unsafeVolatileSnapshot().allFiles().toDF(), spark)
    last = F.element_at(F.split(F.col("path"), "/"), -1)
    names = {path.rpartition("/")[2] for path in removed}
    written = [row[0] for row in files.where(last.isin(*names)).select("path").collect()]
    known = {f"{root}/{unquote(path)}": path for path in written}
    lost = [path for path in removed if unquote(path) not in known]
    if lost:
        raise SinkRefused(
            f"expected the file `{lost[0]}` in the log of `{ledgered.place.path}`, found it under"
            " no name",
            hint="set `spark.delta.logStore.s3a.impl` to a log store that is safe with several"
            " writers",
        )
    return {path: known[unquote(path)] for path in removed}
