"""Merging a batch into a Delta table by Spark's MERGE, in one commit with the ledger.

On S3 the default log store of Spark's Delta writer overwrites the commits of others, and Delta
forgets the ledger of a table that lets its transactions expire. In both cases Spark
merges into a shallow clone (clone.py), which only this driver knows, and holdfast commits the same
files to the table if nobody else has changed its files or columns since the clone was made.

Either way a merge starts over when another writer was first: Delta's rule is that a merge sees
every row that was committed before it. After `_ATTEMPTS` merges in vain the batch fails with
SINK_CONTENDED, so that a table that is never quiet for as long as a merge takes stops the stream
with a reason.
"""

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.errors import SinkContended
from holdfast.model.batch import Batch
from holdfast.sinks import batch_size
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import clone, executors, ledger, log, merged_rows, newest, parquet
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.append import to_sink_error
from holdfast.sinks.delta.clone import CommitLine
from holdfast.sinks.delta.executors import override_settings
from holdfast.sinks.delta.ledgered import LedgeredDeltaTable
from holdfast.sinks.delta.log import Head
from holdfast.sinks.delta.newest import KEY_TWICE, KeyTwice, MergeRule
from holdfast.storage import Missing, urls

if TYPE_CHECKING:
    from delta.tables import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

_TXN_APP = "spark.databricks.delta.write.txnAppId"
_TXN_VERSION = "spark.databricks.delta.write.txnVersion"
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
# Without them the commit does not say how many rows the merge has written.
_METRICS = "spark.databricks.delta.history.metricsEnabled"
_ATTEMPTS = 5
_COMMITS = 20
_FILELESS = frozenset({"commitInfo", "txn"})


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeResult:
    """What became of a batch, with how many rows it had and how many bytes they may take."""

    decision: Decision
    rows: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """A batch whose rows were made to fit a table, and the table that they fit."""

    batch: Batch
    rows: "DataFrame"
    rule: MergeRule
    fits: Head


_SKIPPED = MergeResult(decision=Decision.SKIP, rows=0, size=0)


def merge(ledgered: LedgeredDeltaTable, given: Merge) -> MergeResult:
    """Merge the rows; raises KeyTwice, SinkRefused, SinkUnavailable or SinkContended."""
    spark = given.rows.sparkSession
    in_place = _may_commit(ledgered, given.fits, spark)
    attempt = _merge_in_place if in_place else _merge_aside
    began = time.monotonic()
    with (
        executors.spell_instants_in_utc(given.fits, given.rows) as held,
        override_settings(spark, {_METRICS: "true"}),
    ):
        for _ in range(_ATTEMPTS):
            merged = attempt(ledgered, given, held)
            if merged is not None:
                return merged
    raise _outpaced(ledgered.place.path, given.batch, time.monotonic() - began)


def _may_commit(ledgered: LedgeredDeltaTable, head: Head, spark: "SparkSession") -> bool:
    """Whether Spark may commit its merge itself.

    Where the table lets its transactions expire, it would merge a batch of an older driver again.
    """
    exclusive = tables.has_exclusive_commits(ledgered.place, spark)
    return exclusive and not tables.lets_ledger_expire(head.table)


def _outpaced(path: str, batch: Batch, seconds: float) -> SinkContended:
    return SinkContended(
        f"Cannot merge batch {batch.id} into the Delta table `{path}`: other writers committed to"
        f" the table during each of {_ATTEMPTS} merges, which took {seconds / _ATTEMPTS:.0f} s"
        " each. Nothing of the batch was written",
        hint="let the other writers commit less often than a merge takes, or pause them until the"
        " batch is written; it runs again",
    )


def _decide(ledgered: LedgeredDeltaTable, given: Merge) -> Head | None:
    """Return the table as it is now, or None where it has the batch; raises where it changed."""
    head = ledgered.log.head()
    if ledgered.decide(head.standing, given.batch) is Decision.SKIP:
        return None
    tables.require_mergeable(ledgered.place, head.table, given.rows.sparkSession)
    ledgered.require_fit_still(given.fits, head, given.batch)
    return head


def _merge_in_place(
    ledgered: LedgeredDeltaTable, given: Merge, rows: "DataFrame"
) -> MergeResult | None:
    """Let Spark merge and commit; None if another writer was first."""
    spark, batch = rows.sparkSession, given.batch
    head = _decide(ledgered, given)
    if head is None:
        return _SKIPPED
    transaction = {
        _TXN_APP: ledgered.app_id,
        _TXN_VERSION: str(ledger.pack(batch.life.epoch, batch.id)),
        _USER_METADATA: ledger.format_batch(batch, ledgered.app_id, decided_on=head.version),
    }
    target = _open(spark, ledgered.place.path)
    # Spark may have opened a newer table than the one that was decided on. What changes from here
    # on is a conflict to Delta.
    ledgered.require_fit_still(given.fits, ledgered.log.head(), batch)
    try:
        with _set_temporarily(spark, transaction):
            changed = _execute(target, ledgered.place.path, rows, given.rule)
    except SinkContended:
        return None
    decision = ledgered.verify(batch)
    lines = _find_commit(ledgered, batch, head.version)
    reason = _find_rival(ledgered, batch, head.version) or merged_rows.find_loss(
        ledgered.store, "", lines, changed, given.rule
    )
    if reason:
        raise merged_rows.refuse_committed(ledgered.place.path, batch, reason)
    return _make_result(decision, merged_rows.read_metrics(lines))


def _find_commit(ledgered: LedgeredDeltaTable, batch: Batch, before: int) -> Sequence[CommitLine]:
    """Return the actions of the batch's own commit: other writers may have committed since."""
    own = ledger.pack(batch.life.epoch, batch.id)
    for version in range(ledgered.log.head().version, before, -1):
        lines = _read_commit(ledgered, version)
        if own in _list_moves(ledgered, lines):
            return lines
    return []


def _find_rival(ledgered: LedgeredDeltaTable, batch: Batch, decided_on: int) -> str:
    """Return which commit moved the ledger between the decision and the merge, or nothing.

    Delta refuses a merge after such a commit, unless the table let its transactions expire since
    the decision.
    """
    own = ledger.pack(batch.life.epoch, batch.id)
    for version in range(decided_on + 1, ledgered.log.head().version + 1):
        moves = _list_moves(ledgered, _read_commit(ledgered, version))
        if own in moves:
            break
        if moves:
            return f"version {version} of the table is a batch of another driver, merged before it"
    return ""


def _list_moves(ledgered: LedgeredDeltaTable, lines: Sequence[CommitLine]) -> list[object]:
    """Return the versions of the job's ledger that a commit has."""
    said = [line["txn"] for line in lines if "txn" in line]
    return [one["version"] for one in said if one["appId"] == ledgered.app_id]


def _read_commit(ledgered: LedgeredDeltaTable, version: int) -> Sequence[CommitLine]:
    data = ledgered.store.read(log.name_entry(version))
    lines = [] if isinstance(data, Missing) else data.splitlines()
    return [json.loads(line) for line in lines if line]


def _merge_aside(
    ledgered: LedgeredDeltaTable, given: Merge, rows: "DataFrame"
) -> MergeResult | None:
    """Merge into a shallow clone, and commit what its log says; None if another was first."""
    batch = given.batch
    head = _decide(ledgered, given)
    if head is None:
        return _SKIPPED
    folder = f"holdfast-{batch.life.generation}-{batch.id}-{secrets.token_hex(4)}"
    try:
        return _merge_into_clone(ledgered, given, rows, (head, folder))
    finally:
        clone.discard_log(ledgered, folder)


def _merge_into_clone(
    ledgered: LedgeredDeltaTable, given: Merge, rows: "DataFrame", at: tuple[Head, str]
) -> MergeResult | None:
    spark, (head, folder) = rows.sparkSession, at
    clone.make(ledgered, folder, head, spark)
    path = f"{ledgered.place.path.rstrip('/')}/{folder}"
    changed = _execute(_open(spark, path), path, rows, given.rule)
    lines = clone.read_merge(ledgered, folder)
    now = _follow(ledgered, head)
    if now is None:
        return None
    clone.require_plain_files(ledgered.place.path, lines)
    reason = merged_rows.find_loss(ledgered.store, f"{folder}/", lines, changed, given.rule)
    if reason:
        raise parquet.make_miscounted_error(ledgered.place.path, reason)
    actions = list(clone.translate(ledgered, folder, lines, spark))
    if not _commit(ledgered, given.batch, now, actions):
        return None
    return _make_result(Decision.WRITE, merged_rows.read_metrics(lines))


def _commit(
    ledgered: LedgeredDeltaTable, batch: Batch, head: Head, actions: Sequence[CommitLine]
) -> bool:
    """Commit the actions; False if another writer changed the table first."""
    now: Head | None = head
    for _ in range(_COMMITS):
        if now is None:
            break
        if ledgered.log.commit_merge(now, batch, actions):
            ledgered.checkpoint_log(now.version + 1, now.table)
            return True
        now = _follow(ledgered, now)
    return False


def _follow(ledgered: LedgeredDeltaTable, known: Head) -> Head | None:
    """Return the newest head if only commits without files came since, else None.

    Such commits (of a batch without rows, or of the start of a driver) change nothing that a merge
    has read. A commit of this job's ledger does: whose it is has to be decided again.
    """
    now = ledgered.log.head()
    for version in range(known.version + 1, now.version + 1):
        lines = _read_commit(ledgered, version)
        ours = any(line.get("txn", {}).get("appId") == ledgered.app_id for line in lines)
        if not lines or ours or any(set(line) - _FILELESS for line in lines):
            return None
    return now


@contextmanager
def _set_temporarily(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        yield
    finally:
        # Unset, or the next write would pass for the same transaction.
        for setting in settings:
            spark.conf.unset(setting)


@contextmanager
def _explained(path: str) -> Iterator[None]:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        if KEY_TWICE in str(error):
            raise KeyTwice from None
        raise to_sink_error(path, error) from error


def _open(spark: "SparkSession", path: str) -> "DeltaTable":
    from delta.tables import DeltaTable

    with _explained(path):
        return DeltaTable.forPath(spark, urls.to_spark_url(path))


def _execute(target: "DeltaTable", path: str, rows: "DataFrame", rule: MergeRule) -> int:
    """Merge, and return how many rows the merge says that it has added or replaced."""
    # Named one by one: with `*` Spark wants every column of the table.
    columns: dict[str, str | Column] = {f"`{name}`": f"s.`{name}`" for name in rows.columns}
    column = rule.newest
    newer = f"t.`{column}` IS NULL OR s.`{column}` > t.`{column}`" if column else None
    condition = " AND ".join(f"s.`{key}` <=> t.`{key}`" for key in rule.keys)
    with _explained(path):
        chosen = newest.choose_by_executors(rows, rule).alias("s")
        merging = target.alias("t").merge(chosen, condition)
        updating = (
            merging.whenMatchedUpdate(newer, columns)
            if newer
            else merging.whenMatchedUpdate(set=columns)
        )
        said = updating.whenNotMatchedInsert(values=columns).execute().collect()
        # Spark says nothing of a merge that it skips: the table has the batch, or a newer driver's.
        return int(said[0]["num_affected_rows"]) if said else 0


def _make_result(decision: Decision, metrics: Mapping[str, int]) -> MergeResult:
    """What the commit says of the rows.

    A merge does not say how many bytes its rows take in memory: that is guessed from their number
    and from what was written, and never too low.
    """
    rows = metrics.get("numSourceRows", batch_size.SMALL_ROWS + 1)
    stored = metrics.get("numTargetBytesAdded", 0)
    size = max(rows * batch_size.GUESSED_BYTES_PER_ROW, stored * batch_size.EXPANSION)
    return MergeResult(decision=decision, rows=rows, size=size)
