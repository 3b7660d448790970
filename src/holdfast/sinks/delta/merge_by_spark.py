"""Merging a batch into a Delta table by Spark's MERGE, in one commit with the ledger.

On S3 the default log store of Spark's Delta writer overwrites the commits of others. There Spark
merges into a shallow clone, which only this driver knows, in a folder of the table:

    table/holdfast-1-7-ab12/_delta_log/…0.json    the clone: the table's files by their full address
    table/holdfast-1-7-ab12/_delta_log/…1.json    the merge: files to add and to remove
    table/holdfast-1-7-ab12/part-….parquet        the merged files
    table/_delta_log/…42.json                     the same files, committed by holdfast if nobody
                                                  else has committed since the clone was made
"""

import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from holdfast.errors import SinkRefused
from holdfast.model.batch import Batch
from holdfast.sinks import batch_size, contract
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import ledger, log, merged_rows, newest, parquet
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.append import refused
from holdfast.sinks.delta.ledgered import LedgeredTable
from holdfast.sinks.delta.log import Head
from holdfast.sinks.delta.newest import KEY_TWICE, KeyTwice, Rule
from holdfast.storage import Missing, urls

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_ATTEMPTS = 20
_PLACEHOLDER = "_holdfast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What became of a batch, with how many rows it had and how many bytes they may take."""

    decision: Decision
    rows: int
    size: int


def merge(ledgered: LedgeredTable, batch: Batch, rows: "DataFrame", rule: Rule) -> Merged:
    """Merge the rows; raises KeyTwice, SinkRefused or SinkContended."""
    if tables.has_exclusive_commits(ledgered.place, rows.sparkSession):
        return _merge_in_place(ledgered, batch, rows, rule)
    return _merge_aside(ledgered, batch, rows, rule)


def _merge_in_place(ledgered: LedgeredTable, batch: Batch, rows: "DataFrame", rule: Rule) -> Merged:
    spark = rows.sparkSession
    settings = {
        _TXN_APP: ledgered.app_id,
        _TXN_VERSION: str(ledger.pack(batch.life.epoch, batch.id)),
        _USER_METADATA: ledger.of_batch(batch, ledgered.app_id),
    }
    before = ledgered.log.head().version
    with _set(spark, settings):
        changed = _execute(spark, ledgered.place.path, rows, rule)
    decision = ledgered.verify(batch)
    lines = _find_commit(ledgered, batch, before)
    reason = merged_rows.find_loss(ledgered, "", lines, changed, rule)
    if reason:
        raise merged_rows.refuse_committed(ledgered.place.path, batch, reason)
    return _merged(decision, merged_rows.read_metrics(lines))


def _find_commit(
    ledgered: LedgeredTable, batch: Batch, before: int
) -> Sequence[Mapping[str, Mapping[str, object]]]:
    """Return the actions of the batch's own commit: other writers may have committed since."""
    wanted = ledgered.app_id, ledger.pack(batch.life.epoch, batch.id)
    for version in range(ledgered.log.head().version, before, -1):
        data = ledgered.store.read(log.path(version))
        lines = [] if isinstance(data, Missing) else [json.loads(one) for one in data.splitlines()]
        said = [line["txn"] for line in lines if "txn" in line]
        if any((one["appId"], one["version"]) == wanted for one in said):
            return lines
    return []


def _merge_aside(ledgered: LedgeredTable, batch: Batch, rows: "DataFrame", rule: Rule) -> Merged:
    """Merge into a shallow clone, and commit what the clone's log says to the table."""
    for _ in range(_ATTEMPTS):
        head = ledgered.log.head()
        if ledgered.decide(head.standing, batch) is Decision.SKIP:
            return Merged(decision=Decision.SKIP, rows=0, size=0)
        folder = f"holdfast-{batch.life.generation}-{batch.id}-{secrets.token_hex(4)}"
        _clone(ledgered, folder, head, rows.sparkSession)
        clone = f"{ledgered.place.path.rstrip('/')}/{folder}"
        changed = _execute(rows.sparkSession, clone, rows, rule)
        data = ledgered.store.read(f"{folder}/{log.path(1)}")
        lines = [] if isinstance(data, Missing) else [json.loads(one) for one in data.splitlines()]
        if ledgered.log.head().version > head.version:
            continue  # others may have removed files that the merge has removed, too
        reason = merged_rows.find_loss(ledgered, f"{folder}/", lines, changed, rule)
        if reason:
            raise parquet.miscounted(ledgered.place.path, reason)
        actions = list(_translate(ledgered, folder, lines, rows.sparkSession))
        if ledgered.log.commit_merge(head, batch, actions):
            ledgered.checkpoint_log(head.version + 1, head.table)
            return _merged(Decision.WRITE, merged_rows.read_metrics(lines))
    raise contract.contended(ledgered.place.path)


def _clone(ledgered: LedgeredTable, folder: str, head: Head, spark: "SparkSession") -> None:
    """Make a shallow clone in a folder of the table, so that its new files are the table's."""
    from pyspark.errors import PySparkException  # noqa: PLC0415  only where Spark runs

    # Without a log of its own Delta takes the folder for a partition of the table.
    ledgered.store.write(f"{folder}/_delta_log/{_PLACEHOLDER}", b"holdfast\n")
    table = urls.for_spark(ledgered.place.path).rstrip("/")
    try:
        spark.sql(
            f"CREATE TABLE delta.`{table}/{folder}` SHALLOW CLONE delta.`{table}`"
            f" VERSION AS OF {head.version}"
        )
    except PySparkException as error:
        raise refused(ledgered.place.path, error) from error


def _translate(
    ledgered: LedgeredTable,
    folder: str,
    lines: Sequence[Mapping[str, Mapping[str, object]]],
    spark: "SparkSession",
) -> Iterator[Mapping[str, object]]:
    """What the clone's commit adds and removes, with paths as the table's log has them."""
    removed = [str(line["remove"]["path"]) for line in lines if "remove" in line]
    paths = _paths_in_table(ledgered, removed, spark)
    for line in lines:
        if "add" in line:
            yield {"add": {**line["add"], "path": f"{folder}/{line['add']['path']}"}}
        elif "remove" in line:
            yield {"remove": {**line["remove"], "path": paths[str(line["remove"]["path"])]}}


def _paths_in_table(
    ledgered: LedgeredTable, removed: Sequence[str], spark: "SparkSession"
) -> Mapping[str, str]:
    """How the table's log writes the paths of files that the clone names by their full address.

    Readers compare the texts of paths, and writers escape them differently.
    """
    if not removed:
        return {}
    from pyspark.sql import DataFrame  # noqa: PLC0415  only where Spark runs
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    jvm = spark._jvm  # noqa: SLF001  the only way to the table as its log has it
    assert jvm is not None  # noqa: S101  a session that runs has one
    delta = jvm.org.apache.spark.sql.delta.DeltaLog
    own = delta.forTable(spark._jsparkSession, urls.for_spark(ledgered.place.path))  # noqa: SLF001
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


@contextmanager
def _set(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        yield
    finally:
        # Unset, or the next write would pass for the same transaction.
        for setting in settings:
            spark.conf.unset(setting)


def _execute(spark: "SparkSession", path: str, rows: "DataFrame", rule: Rule) -> int:
    """Merge, and return how many rows the merge says that it has added or replaced."""
    from delta.tables import DeltaTable  # noqa: PLC0415  only where Spark runs
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    # Named one by one: with `*` Spark wants every column of the table.
    columns: dict[str, str | Column] = {f"`{name}`": f"s.`{name}`" for name in rows.columns}
    column = rule.newest
    newer = f"t.`{column}` IS NULL OR s.`{column}` > t.`{column}`" if column else None
    condition = " AND ".join(f"s.`{key}` <=> t.`{key}`" for key in rule.keys)
    try:
        chosen = newest.choose_by_executors(rows, rule).alias("s")
        target = DeltaTable.forPath(spark, urls.for_spark(path)).alias("t")
        merging = target.merge(chosen, condition)
        updating = (
            merging.whenMatchedUpdate(newer, columns)
            if newer
            else merging.whenMatchedUpdate(set=columns)
        )
        said = updating.whenNotMatchedInsert(values=columns).execute().collect()
        return int(said[0]["num_affected_rows"])
    except (PySparkException, Py4JJavaError) as error:
        if KEY_TWICE in str(error):
            raise KeyTwice from None
        raise refused(path, error) from error


def _merged(decision: Decision, metrics: Mapping[str, int]) -> Merged:
    """What the commit says of the rows.

    A merge does not say how many bytes its rows take in memory: that is guessed from their number
    and from what was written, and never too low.
    """
    rows = metrics.get("numSourceRows", batch_size.SMALL_ROWS + 1)
    stored = metrics.get("numTargetBytesAdded", 0)
    size = max(rows * batch_size.GUESSED_BYTES_PER_ROW, stored * batch_size.EXPANSION)
    return Merged(decision=decision, rows=rows, size=size)
