"""The Delta merge sink: upsert by key, newest wins.

    matched, newer or no `newest` column    the columns of the rows are replaced
    matched, not newer                      the row stays
    not matched                             the row is added; columns that it lacks are null

A row whose `newest` is null never replaces one that has it; of two without it, the incoming one
counts. `newest.py` says which row of a batch counts, and when keys are equal.

Small batches into tables of moderate size are merged by delta-rs on the driver; otherwise by
Spark's MERGE. delta-rs was faster at every size measured (`make bench`, 100,000 to 5 million rows
in the table, 1,000 to 200,000 in the batch); what bounds it is the driver's memory, not time.
"""

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa
from deltalake.exceptions import CommitFailedError, DeltaError

from holdfast.errors import SinkRefused
from holdfast.model.batch import Batch, LastWritten, Life, Standing
from holdfast.model.definition import DeltaMerge
from holdfast.sinks import batch_size, caching, contract
from holdfast.sinks.batch_size import BatchSize, Verdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import executors, log_store, merge_by_spark, merged_rows, newest
from holdfast.sinks.delta import schema as schemas
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.ledgered import LedgeredTable
from holdfast.sinks.delta.log import Head
from holdfast.sinks.delta.merge_by_spark import Merge, Merged
from holdfast.sinks.delta.newest import KeyTwice, Rule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

MODERATE_BYTES = 512 << 20
_ATTEMPTS = 20
_SIZE_INTERVAL = 20
_PLAIN = re.compile(r"[A-Za-z0-9_.=/-]*")


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
        self._ledgered = LedgeredTable(sink, app_id, options, overwrites=overwrites)
        self._size = size or BatchSize(most_rows=batch_size.SMALL_ROWS)
        self._fit = schemas.Fit(sink.path)
        self._merges = 0
        self._table_bytes = 0
        self._paths_are_plain = True

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from its transaction log."""
        return self._ledgered.last_written()

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:  # noqa: ARG002  JDBC needs it
        """Raise SchemaMismatch if the rows would not fit the table as it is now."""
        self._require_rows(schema, self._ledgered.place.open())

    def prepare(self, life: Life, schema: "StructType", spark: "SparkSession") -> None:
        """Create the table if there is none, and fence older drivers by a commit.

        What a write would refuse about the columns is refused here, before a batch is planned.
        """
        self._require_rows(schema, self._ledgered.place.open())
        self._ledgered.prepare(life, schema, spark)
        head = self._ledgered.log.head()
        tables.require_mergeable(self._ledgered.place, head.table, spark)
        executors.require_zone(head, spark, self._sink.path)

    def _require_rows(self, rows: "StructType", table: deltalake.DeltaTable | None) -> None:
        if table is None:
            self._rule(rows, self._sink.partition_by)
            return
        self._rule(rows, tuple(table.metadata().partition_columns))
        known = schemas.of_table(table)
        schemas.fitting(rows, known, self._sink.path)
        schemas.require_optional(rows, known, self._sink.path)

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Merge the rows with the ledger in one commit."""
        head = self._ledgered.log.head()
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:
            return Decision.SKIP
        tables.require_mergeable(self._ledgered.place, head.table, rows.sparkSession)
        schemas.require_optional(rows.schema, schemas.of_table(head.table), self._sink.path)
        fitted = self._fit.select(head.table, rows)
        rule = self._rule(fitted.schema, head.partition_by)
        try:
            return self._merge(head, batch, fitted, rule)
        except KeyTwice:
            raise self._ambiguous() from None

    def _rule(self, rows: "StructType", partition_by: tuple[str, ...]) -> Rule:
        sink = self._sink
        return newest.decide_rule(rows, sink.keys, sink.newest, partition_by, sink.path)

    def _merge(self, head: Head, batch: Batch, rows: "DataFrame", rule: Rule) -> Decision:
        """Merge by the driver what was measured as small, and by Spark the rest.

        A batch whose input is small but whose rows were not measured yet is counted first. That
        costs less than Spark's MERGE, and keeps its rows off the driver.
        """
        if not (head.native and self._by_driver(head.table, rule)):
            return self._merge_by_spark(head, batch, rows, rule).decision
        match self._size.judge(batch, rows):
            case Verdict.SMALL:
                return self._merge_by_driver(head, batch, rows, rule)
            case Verdict.LARGE:
                merged = self._merge_by_spark(head, batch, rows, rule)
                self._size.saw(batch, merged.rows, merged.size)
                return merged.decision
            case Verdict.UNMEASURED:
                with caching.cached(rows) as held:
                    if self._size.measure(batch, held) is Verdict.SMALL:
                        return self._merge_by_driver(head, batch, held, rule)
                    return self._merge_by_spark(head, batch, held, rule).decision

    def _by_driver(self, table: deltalake.DeltaTable, rule: Rule) -> bool:
        if not (rule.by_driver and self._paths_are_plain and tables.native_merge(table)):
            return False
        if self._merges % _SIZE_INTERVAL == 0:
            sizes = pa.table(self._ledgered.current().get_add_actions()).column("size_bytes")
            self._table_bytes = int(sum(sizes.to_pylist()))
        self._merges += 1
        return self._table_bytes <= MODERATE_BYTES

    def _merge_by_driver(self, head: Head, batch: Batch, rows: "DataFrame", rule: Rule) -> Decision:
        collected = self._size.collected(batch, rows)
        typed = collected.cast(schemas.arrow_schema(head.table, tuple(collected.column_names)))
        chosen = newest.choose_by_driver(typed, rule)
        if chosen.num_rows == 0:
            return self._ledgered.append(head, batch, [])
        for _ in range(_ATTEMPTS):
            # Opened before the look at the ledger: what comes later is a conflict to delta-rs.
            table = self._ledgered.current()
            now = self._ledgered.log.head()
            if self._ledgered.decide(now.standing, batch) is Decision.SKIP:
                return Decision.SKIP
            self._paths_are_plain = _has_plain_paths(table)
            self._ledgered.require_fit_still(head, now, batch)
            if not (self._paths_are_plain and tables.native_merge(now.table)):
                return self._merge_by_spark(head, batch, rows, rule).decision
            try:
                self._execute(table, batch, chosen, rule)
            except CommitFailedError:
                continue
            except DeltaError:
                # delta-rs escapes partition values in the names of files, which can then be too
                # long.
                return self._merge_by_spark(head, batch, rows, rule).decision
            except OSError as error:
                raise self._ledgered.place.unavailable(error) from error
            return self._recorded(table, batch)
        raise contract.contended(self._sink.path)

    def _merge_by_spark(self, head: Head, batch: Batch, rows: "DataFrame", rule: Rule) -> Merged:
        given = Merge(batch=batch, rows=rows, rule=rule, fits=head)
        return merge_by_spark.merge(self._ledgered, given)

    def _recorded(self, table: deltalake.DeltaTable, batch: Batch) -> Decision:
        """delta-rs makes no commit of a merge that changes nothing; then the ledger goes alone."""
        head = self._ledgered.log.head()
        if head.standing == Standing(epoch=batch.life.epoch, batch=batch.id):
            self._ledgered.checkpoint_log(table.version(), head.table)
            return Decision.WRITE
        if self._ledgered.decide(head.standing, batch) is Decision.SKIP:
            return Decision.SKIP
        return self._ledgered.append(head, batch, [])

    def _execute(
        self, table: deltalake.DeltaTable, batch: Batch, rows: pa.Table, rule: Rule
    ) -> None:
        keys = [f"({_sql('s', k)} IS NOT DISTINCT FROM {_sql('t', k)})" for k in rule.keys]
        said = (
            table.merge(
                rows,
                predicate=" AND ".join(keys),
                source_alias="s",
                target_alias="t",
                commit_properties=self._ledgered.properties(batch, table.version()),
                post_commithook_properties=tables.NO_HOOKS,
            )
            .when_matched_update_all(predicate=_newer(rows, rule.newest))
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


def _find_loss(said: Mapping[str, int], given: int, rule: Rule) -> str:
    """Return how what delta-rs says of the rows of a merge does not add up, or nothing."""
    if said["num_source_rows"] != given:
        return f"the batch had {given} rows, the merge read {said['num_source_rows']}"
    changed = said["num_target_rows_inserted"] + said["num_target_rows_updated"]
    if said["num_output_rows"] != changed + said["num_target_rows_copied"]:
        return f"the merge wrote {said['num_output_rows']} rows, of which it changed {changed}"
    return merged_rows.find_gap(given, changed, rule)


def _has_plain_paths(table: deltalake.DeltaTable) -> bool:
    """Whether every writer writes the paths of the table's files in the same way.

    delta-rs escapes paths differently than Spark. If it removes a file that Spark has added under
    a path with other characters, Spark keeps the file, and with it the rows that were replaced.
    """
    paths = pa.table(table.get_add_actions()).column("path").to_pylist()
    return all(_PLAIN.fullmatch(path) for path in paths)


def _sql(table: str, name: str) -> str:
    """A column in the words of delta-rs."""
    escaped = name.replace('"', '""')
    return f'{table}."{escaped}"'


def _newer(rows: pa.Table, column: str | None) -> str | None:
    """When an incoming row replaces the table's.

    Zero is added to floating numbers because delta-rs takes 0.0 for newer than -0.0.
    """
    if column is None:
        return None
    zero = " + 0.0" if pa.types.is_floating(rows.schema.field(column).type) else ""
    ours, theirs = _sql("s", column), _sql("t", column)
    return f"{theirs} IS NULL OR ({ours}{zero}) > ({theirs}{zero})"
