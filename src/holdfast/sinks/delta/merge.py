"""The Delta merge sink: upsert by key, newest wins.

    matched, newer or no `newest` column    the columns of the rows are replaced
    matched, not newer                      the row stays
    not matched                             the row is added; columns that it lacks are null

A row whose `newest` is null never replaces one that has it; of two without it, the incoming one
counts. `newest.py` says which row of a batch counts, and when keys are equal.

Small batches into tables of moderate size are merged by delta-rs on the driver, if it reads the
table's files as Spark does (survey.py); otherwise by Spark's MERGE. delta-rs was faster at every
size measured (`make bench`, 100,000 to 5 million rows in the table, 1,000 to 200,000 in the batch);
what bounds it is the driver's memory, not time.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from holdfast.errors import SinkRefused
from holdfast.model.batch import Batch, LastWritten, SinkPosition, Writer
from holdfast.model.definition import DeltaMerge
from holdfast.sinks import batch_size, caching, contract
from holdfast.sinks.batch_size import BatchSize, SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import (
    executors,
    log_store,
    merge_by_spark,
    merged_rows,
    newest,
    partitions,
    requirements,
)
from holdfast.sinks.delta import schema as schemas
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.ledgered import LedgeredDeltaTable
from holdfast.sinks.delta.log import Head
from holdfast.sinks.delta.merge_by_spark import Merge, MergeResult
from holdfast.sinks.delta.newest import KeyTwice, MergeRule
from holdfast.sinks.delta.survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ATTEMPTS = 20


class DeltaMergeSink:
    """Merges each batch into a Delta table in one commit with its ledger."""

    def __init__(
        self,
        sink: DeltaMerge,
        app_id: str,
        options: Mapping[str, str],
        *,
        size: BatchSize | None = None,
        overwrites: Callable[[str, "SparkSession"], bool] = log_store.overwrites,
    ) -> None:
        self._sink = sink
        self._ledgered = LedgeredDeltaTable(sink, app_id, options, overwrites=overwrites)
        self._size = size or BatchSize(most_rows=batch_size.SMALL_ROWS)
        self._fit = schemas.SchemaFit(sink.path)
        self._required: deltalake.DeltaTable | None = None
        self._survey = Survey(lambda: self._ledgered.store)

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from its transaction log."""
        return self._ledgered.last_written()

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        table = self._ledgered.place.open()
        if table is None:
            requirements.require_creatable(self._ledgered.place, schema, spark)
            self._rule(schema, self._sink.partition_by)
        else:
            self._require_rows(schema, table)

    def prepare(self, life: Writer, schema: "StructType", spark: "SparkSession") -> None:
        """Create the table if there is none, and fence older drivers by a commit.

        What a write would refuse about the columns is refused here, before a batch is planned.
        """
        self.require_fit(schema, spark)
        self._ledgered.prepare(life, schema, spark)
        self._require(self._ledgered.log.head(), schema, spark)
        self._ledgered.recheck = lambda head: self._require(head, schema, spark)

    def _require(self, head: Head, rows: "StructType", spark: "SparkSession") -> None:
        """Raise what is wrong with the table for the rows; asked again when the table changed."""
        if self._required is head.table:
            return
        tables.require_mergeable(self._ledgered.place, head.table, spark)
        self._require_rows(rows, head.table)
        executors.require_zone(head, spark, self._sink.path)
        self._required = head.table

    def _require_rows(self, rows: "StructType", table: deltalake.DeltaTable) -> None:
        self._rule(rows, tuple(table.metadata().partition_columns))
        known = schemas.read_schema(table)
        schemas.fit_columns(rows, known, self._sink.path)
        schemas.require_optional(rows, known, self._sink.path)
        requirements.require_no_feed_columns(table, rows, self._sink.path)

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Merge the rows with the ledger in one commit."""
        head = self._ledgered.log.head()
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:
            return Decision.SKIP
        self._require(head, rows.schema, rows.sparkSession)
        fitted = self._fit.select(head.table, rows)
        rule = self._rule(fitted.schema, head.partition_by)
        try:
            return self._merge(head, batch, fitted, rule)
        except KeyTwice:
            raise self._ambiguous() from None

    def _rule(self, rows: "StructType", partition_by: tuple[str, ...]) -> MergeRule:
        sink = self._sink
        return newest.decide_rule(rows, sink.keys, sink.newest, partition_by, sink.path)

    def _merge(self, head: Head, batch: Batch, rows: "DataFrame", rule: MergeRule) -> Decision:
        """Merge by the driver what was measured as small, and by Spark the rest.

        A batch whose input is small but whose rows were not measured yet is counted first. That
        costs less than Spark's MERGE, and keeps its rows off the driver.
        """
        able = head.native and rule.by_driver and tables.allows_native_merge(head.table)
        if not (able and self._survey.admits(rows.sparkSession, self._ledgered.current)):
            return self._merge_by_spark(head, batch, rows, rule).decision
        match self._size.judge(batch, rows):
            case SizeVerdict.SMALL:
                return self._merge_by_driver(head, batch, rows, rule)
            case SizeVerdict.LARGE:
                merged = self._merge_by_spark(head, batch, rows, rule)
                self._size.saw(batch, merged.rows, merged.size)
                return merged.decision
            case SizeVerdict.UNMEASURED:
                with caching.cache(rows) as held:
                    if self._size.measure(batch, held) is SizeVerdict.SMALL:
                        return self._merge_by_driver(head, batch, held, rule)
                    return self._merge_by_spark(head, batch, held, rule).decision

    def _merge_by_driver(
        self, head: Head, batch: Batch, rows: "DataFrame", rule: MergeRule
    ) -> Decision:
        collected = self._size.collected(batch, rows)
        typed = collected.cast(schemas.make_arrow_schema(head.table, tuple(collected.column_names)))
        if not partitions.is_text(typed):
            return self._merge_by_spark(head, batch, rows, rule).decision
        chosen = newest.choose_by_driver(typed, rule)
        if chosen.num_rows == 0:
            return self._ledgered.append(head, batch, [])
        decision = self._merge_chosen(head, batch, chosen, rule)
        if decision is None:
            return self._merge_by_spark(head, batch, rows, rule).decision
        return decision

    def _merge_chosen(
        self, head: Head, batch: Batch, chosen: pa.Table, rule: MergeRule
    ) -> Decision | None:
        """Merge by delta-rs; None where the merge has to be left to Spark."""
        for _ in range(_ATTEMPTS):
            # Opened before the look at the ledger: what comes later is a conflict to delta-rs.
            table = self._ledgered.current()
            now = self._ledgered.log.head()
            if self._ledgered.decide(now.standing, batch) is Decision.SKIP:
                return Decision.SKIP
            self._ledgered.require_fit_still(head, now, batch)
            if not (self._survey.look(table) and tables.allows_native_merge(now.table)):
                return None
            try:
                self._execute(table, batch, chosen, rule)
            except CommitFailedError:
                continue
            except DeltaError:
                # delta-rs escapes partition values in the names of files, which can then be too
                # long.
                return None
            except OSError as error:
                raise self._ledgered.place.unavailable(error) from error
            return self._recorded(table, batch)
        raise contract.make_contended_error(self._sink.path)

    def _merge_by_spark(
        self, head: Head, batch: Batch, rows: "DataFrame", rule: MergeRule
    ) -> MergeResult:
        given = Merge(batch=batch, rows=rows, rule=rule, fits=head)
        return merge_by_spark.merge(self._ledgered, given)

    def _recorded(self, table: deltalake.DeltaTable, batch: Batch) -> Decision:
        """delta-rs makes no commit of a merge that changes nothing; then the ledger goes alone."""
        head = self._ledgered.log.head()
        if head.standing == SinkPosition(epoch=batch.life.epoch, batch=batch.id):
            self._ledgered.checkpoint_log(table.version(), head.table)
            return Decision.WRITE
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:
            return Decision.SKIP
        return self._ledgered.append(head, batch, [])

    def _execute(
        self, table: deltalake.DeltaTable, batch: Batch, rows: pa.Table, rule: MergeRule
    ) -> None:
        keys = [
            f"({_quote_column('s', k)} IS NOT DISTINCT FROM {_quote_column('t', k)})"
            for k in rule.keys
        ]
        said = (
            table.merge(
                rows,
                predicate=" AND ".join(keys),
                source_alias="s",
                target_alias="t",
                commit_properties=self._ledgered.properties(batch, table.version()),
                post_commithook_properties=tables.NO_HOOKS,
            )
            .when_matched_update_all(predicate=_format_newer(rows, rule.newest))
            .when_not_matched_insert_all()
            .execute()
        )
        reason = _find_loss(said, rows.num_rows, rule)
        if reason:
            raise merged_rows.refuse_committed(self._sink.path, batch, reason)

    def _ambiguous(self) -> SinkRefused:
        return SinkRefused(
            f"expected each key once per batch for `{self._sink.path}`, found a key more than"
            " once, and no column says which row is newer",
            hint='declare it: `delta_merge(path, keys=[…], newest="event_time")`',
        )


def _find_loss(said: Mapping[str, int], given: int, rule: MergeRule) -> str:
    """Return how what delta-rs says of the rows of a merge does not add up, or nothing."""
    if said["num_source_rows"] != given:
        return f"the batch had {given} rows, the merge read {said['num_source_rows']}"
    changed = said["num_target_rows_inserted"] + said["num_target_rows_updated"]
    if said["num_output_rows"] != changed + said["num_target_rows_copied"]:
        return f"the merge wrote {said['num_output_rows']} rows, of which it changed {changed}"
    return merged_rows.find_gap(given, changed, rule)


def _quote_column(table: str, name: str) -> str:
    """A column in the words of delta-rs."""
    escaped = name.replace('"', '""')
    return f'{table}."{escaped}"'


def _format_newer(rows: pa.Table, column: str | None) -> str | None:
    """When an incoming row replaces the table's.

    delta-rs orders floating numbers by their bits: it has two zeros, and NaNs above and below all
    numbers. Spark has one of each.
    """
    if column is None:
        return None
    ours, theirs = _quote_column("s", column), _quote_column("t", column)
    newer = f"{ours} > {theirs}"
    if pa.types.is_floating(rows.schema.field(column).type):
        newer = f"NOT isnan({theirs}) AND (isnan({ours}) OR ({ours} + 0.0) > ({theirs} + 0.0))"
    return f"{theirs} IS NULL OR ({newer})"
