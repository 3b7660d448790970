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
import re
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
from holdfast.sinks.delta import executors, ledger, log, merged_rows, newest, parquet
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.append import refused
from holdfast.sinks.delta.layout import Layout
from holdfast.sinks.delta.ledgered import LedgeredTable
from holdfast.sinks.delta.log import Head
from holdfast.sinks.delta.newest import KEY_TWICE, KeyTwice, Rule
from holdfast.sinks.delta.parquet import WrittenFile
from holdfast.storage import Missing, urls

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_ATTEMPTS = 20
_PLACEHOLDER = "_holdfast"
_KNOWN_ACTIONS = frozenset({"commitInfo", "add", "remove"})
_ABSOLUTE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]*:")
_ROWS_WRITTEN = ("numTargetRowsCopied", "numTargetRowsUpdated", "numTargetRowsInserted")

Line = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What became of a batch, with how many rows it had and how many bytes they may take."""

    decision: Decision
    rows: int
    size: int


def merge(ledgered: LedgeredTable, batch: Batch, rows: "DataFrame", rule: Rule) -> Merged:
    """Merge the rows; raises KeyTwice, SinkRefused or SinkContended."""
    with executors.spell_instants_in_utc(ledgered.log.head(), rows) as held:
        if tables.has_exclusive_commits(ledgered.place, rows.sparkSession):
            return _merge_in_place(ledgered, batch, held, rule)
        return _merge_aside(ledgered, batch, held, rule)


def _merge_in_place(ledgered: LedgeredTable, batch: Batch, rows: "DataFrame", rule: Rule) -> Merged:
    spark = rows.sparkSession
    head = ledgered.log.head()
    if ledgered.decide(head.standing, batch) is Decision.SKIP:
        return Merged(decision=Decision.SKIP, rows=0, size=0)
    settings = {
        _TXN_APP: ledgered.app_id,
        _TXN_VERSION: str(ledger.pack(batch.life.epoch, batch.id)),
        _USER_METADATA: ledger.of_batch(batch, ledgered.app_id, decided_on=head.version),
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
        # Somebody may have changed the table since the start, or since the last attempt.
        tables.require_mergeable(ledgered.place, head.table, rows.sparkSession)
        folder = f"holdfast-{batch.life.generation}-{batch.id}-{secrets.token_hex(4)}"
        _clone(ledgered, folder, head, rows.sparkSession)
        clone = f"{ledgered.place.path.rstrip('/')}/{folder}"
        changed = _execute(rows.sparkSession, clone, rows, rule)
        data = ledgered.store.read(f"{folder}/{log.path(1)}")
        lines = [] if isinstance(data, Missing) else [json.loads(one) for one in data.splitlines()]
        if ledgered.log.head().version > head.version:
            continue  # others may have removed files that the merge has removed, too
        require_plain_files(ledgered.place.path, lines)
        reason = merged_rows.find_loss(ledgered, f"{folder}/", lines, changed, rule)
        if reason:
            raise parquet.miscounted(ledgered.place.path, reason)
        actions = list(_translate(ledgered, folder, lines, rows.sparkSession))
        _require_stored(ledgered, actions, merged_rows.read_metrics(lines))
        if ledgered.log.commit_merge(head, batch, actions):
            ledgered.checkpoint_log(head.version + 1, head.table)
            return _merged(Decision.WRITE, merged_rows.read_metrics(lines))
    raise contract.contended(ledgered.place.path)


def _clone(ledgered: LedgeredTable, folder: str, head: Head, spark: "SparkSession") -> None:
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
        raise refused(ledgered.place.path, error) from error


def require_plain_files(path: str, lines: Sequence[Line]) -> None:
    """Raise unless the clone's commit only adds whole files of its own and removes others.

    The table's log has a name for such files only. A deletion vector changes a file of the table
    in place; a change of the metadata, or change data, would be missing from the table.
    """
    for line in lines:
        added, removed = line.get("add", {}), line.get("remove", {})
        strange = sorted(set(line) - _KNOWN_ACTIONS)
        if strange:
            raise _not_plain(path, f"the action `{strange[0]}`")
        if added.get("deletionVector") or removed.get("deletionVector"):
            raise _not_plain(path, "a deletion vector")
        if added and _ABSOLUTE.match(str(added["path"])):
            raise _not_plain(path, f"the file `{added['path']}` from outside of its folder")


def _not_plain(path: str, found: str) -> SinkRefused:
    return SinkRefused(
        f"Cannot merge the batch into the Delta table `{path}`: Spark's merge wrote {found}, which"
        " holdfast cannot commit to S3 for it. Nothing of the batch was written",
        hint="set `spark.delta.logStore.s3a.impl` to a log store that is safe with several"
        " writers, so that Spark commits its merges itself",
    )


def _require_stored(ledgered: LedgeredTable, actions: Sequence[Line], metrics: object) -> None:
    """Raise unless storage has the added files, with the bytes and rows that the merge says."""
    written = [
        WrittenFile(
            path=unquote(str(added["path"])), size=int(str(added["size"])), partition_values={}
        )
        for added in (action["add"] for action in actions if "add" in action)
    ]
    path = ledgered.place.path
    files = parquet.read_back(ledgered.store, path, written, Layout())
    if isinstance(metrics, dict) and all(name in metrics for name in _ROWS_WRITTEN):
        parquet.require_rows(path, files, sum(int(metrics[name]) for name in _ROWS_WRITTEN))


def _translate(
    ledgered: LedgeredTable, folder: str, lines: Sequence[Line], spark: "SparkSession"
) -> Iterator[Line]:
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
    from delta.tables import DeltaTable
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    # Named one by one: with `*` Spark wants every column of the table.
    columns: dict[str, str | Column] = {f"`{name}`": f"s.`{name}`" for name in rows.columns}
    column = rule.newest
    newer = f"t.`{column}` IS NULL OR s.`{column}` > t.`{column}`" if column else None
    condition = " AND ".join(f"s.`{key}` <=> t.`{key}`" for key in rule.keys)
    try:
        chosen = newest.choose_by_executors(rows, rule).alias("s")
        target = DeltaTable.forPath(spark, urls.to_spark_url(path)).alias("t")
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
