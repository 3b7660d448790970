"""A Delta table with a job's ledger in it: what the append and the merge sink have in common."""

import dataclasses
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import deltalake

from holdfast.errors import SinkContended, SinkRefused
from holdfast.model.batch import Batch, LastWritten, NothingWritten, SinkPosition, Writer
from holdfast.model.definition import DeltaAppend, DeltaMerge
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch
from holdfast.sinks import contract
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import executors, layout, ledger, log_store
from holdfast.sinks.delta import table as tables
from holdfast.sinks.delta.fence import fence_older_drivers
from holdfast.sinks.delta.log import Head, LogTail
from holdfast.sinks.delta.parquet import AddedFile
from holdfast.storage import Folder, exclusive, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_COMMIT_ATTEMPTS = 20


class LedgeredDeltaTable:
    """One table, one app transaction, and the rule that both move together."""

    def __init__(
        self,
        sink: DeltaAppend | DeltaMerge,
        app_id: str,
        options: Mapping[str, str],
        *,
        overwrites: Callable[[str, "SparkSession"], bool] = log_store.overwrites,
    ) -> None:
        self.app_id = app_id
        self.place = tables.DeltaLocation(
            path=sink.path,
            options=options,
            partition_by=sink.partition_by,
            properties=sink.properties,
            overwrites=overwrites,
        )
        self.recheck: Callable[[Head], None] = _accept
        """Raises what the sink refuses about the table; set when the sink is prepared."""
        self._spark: SparkSession | None = None
        self._checkpointing: threading.Thread | None = None

    @functools.cached_property
    def store(self) -> Folder:
        """The table's folder."""
        return open_store(self.place.path, self.place.options)

    @functools.cached_property
    def log(self) -> LogTail:
        """The end of the table's log."""
        return LogTail(self.place, self.store, self.app_id)

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from its transaction log."""
        table = self.place.open()
        if table is None:
            return NothingWritten(epoch=Epoch(0), location=Unknown(reason="there is no table yet"))
        return ledger.read_last_written(table, self.app_id)

    def prepare(self, life: Writer, rows: "StructType", spark: "SparkSession") -> None:
        """Create the table if there is none, and fence older drivers by a commit."""
        by_spark = log_store.commits_elsewhere(self.place.path, spark)
        self.place = dataclasses.replace(self.place, by_spark=by_spark)
        self._spark = spark
        if not by_spark:
            exclusive.require(self.place.path, self.place.options, self.store)
        fence_older_drivers(self.place, self.store, life, self.app_id, rows, spark)

    def current(self) -> deltalake.DeltaTable:
        """The table as it is now, with its files: for merges, which read them."""
        table = self.place.open()
        if table is None:
            raise SinkRefused(
                f"expected the Delta table `{self.place.path}`, found none any more",
                hint=f"restore `{self.place.path}`, then start again",
            )
        return table

    def decide(self, standing: SinkPosition, batch: Batch) -> Decision:
        """Whether the batch is to be written; raises where it must not be."""
        return contract.decide(batch, standing, self._recall)

    def _recall(self, earlier: BatchId) -> Digest | Unknown:
        return ledger.recall(self.current(), self.app_id, earlier)

    def properties(self, batch: Batch, decided_on: int) -> deltalake.CommitProperties:
        """What goes into a commit by delta-rs beside the data: the ledger and the offsets."""
        said = ledger.format_batch(batch, self.app_id, decided_on=decided_on)
        version = ledger.pack(batch.life.epoch, batch.id)
        return deltalake.CommitProperties(
            custom_metadata={ledger.KEY: said},
            app_transactions=[ledger.transaction(self.app_id, version)],
        )

    def append(self, head: Head, batch: Batch, files: Sequence[AddedFile]) -> Decision:
        """Name the files in one commit with the ledger.

        A commit that lost against another writer is decided anew on the newer table: if that
        writer was a newer driver of this job, or changed what the table asks of its files, this
        raises; otherwise the same files go in again.
        """
        for _ in range(_COMMIT_ATTEMPTS):
            if self.log.commit(head, batch, files):
                self.checkpoint_log(head.version + 1, head.table)
                return Decision.WRITE
            known, head = head, self.log.head()
            if self.decide(head.standing, batch) is Decision.SKIP:
                return Decision.SKIP
            self.require_fit_still(known, head, batch)
        raise contract.make_contended_error(self.place.path)

    def require_fit_still(self, fits: Head, now: Head, batch: Batch) -> None:
        """Raise SinkContended where rows that fit the table as it was may not fit it any more.

        And raise what the sink refuses about a table: its properties may have changed, too.
        """
        if not now.has_same_layout(fits):
            raise SinkContended(
                f"expected the table `{self.place.path}` to stay as it was while batch"
                f" {batch.id} was written, found that another writer changed its columns,"
                " partitions or constraints",
                hint="let the batch run again; nothing of it was written",
            )
        self.recheck(now)

    def begin(self, fits: Head, batch: Batch, spark: "SparkSession"):  # type: ignore[no-untyped-def]  # noqa: ANN201
        """Start a transaction of Delta's on the very version that the batch is decided on.

        Return the transaction, a Java object, and its version; or None where the table has the
        batch. What Delta's snapshot says of the ledger is not enough: a table may let transactions
        expire. So the log itself is read after the transaction has started. A commit that comes
        later is a conflict to Delta if it moves the ledger or changes the table.
        """
        for _ in range(_COMMIT_ATTEMPTS):
            opened = executors.start(spark, self.place.path, fits.table, fits.version)
            head = self.log.head()
            if self.decide(head.standing, batch) is Decision.SKIP:
                return None
            self.require_fit_still(fits, head, batch)
            if opened.snapshot().version() == head.version:
                return opened, head.version
        raise contract.make_contended_error(self.place.path)

    def verify(self, batch: Batch) -> Decision:
        """After a write by Spark: was it this driver's batch that the table took?

        Spark's Delta writer skips a batch of an older driver without a word, and without this
        check the older driver would then mark the batch as done in the checkpoint.
        """
        standing = self.log.head().standing
        if standing != SinkPosition(epoch=batch.life.epoch, batch=batch.id):
            raise contract.make_fenced_error(batch.life, standing.epoch)
        return Decision.WRITE

    def checkpoint_log(self, version: int, table: deltalake.DeltaTable) -> None:
        """Every so many commits, make a checkpoint of the table's log beside the stream.

        A log without checkpoints only costs readers time, so a failure here stops nothing.
        """
        spark = self._spark
        if spark is None or version % layout.read_checkpoint_interval(table):
            return
        if self._checkpointing is None or not self._checkpointing.is_alive():
            self._checkpointing = threading.Thread(
                target=write_checkpoint, args=(spark, self.place.path), daemon=True
            )
            self._checkpointing.start()


def _accept(_: Head) -> None:
    """Refuse nothing, until the sink says what it refuses."""


def write_checkpoint(spark: "SparkSession", path: str) -> None:
    """Let Spark write a checkpoint of the table's log, and clean the log as the table asks.

    Its executors read and write the table's state, so that the driver's memory does not grow with
    the table.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        # Delta asks for the session of the thread; without one it only writes a warning.
        session = spark._jvm.org.apache.spark.sql.classic.SparkSession  # type: ignore[union-attr]  # noqa: SLF001
        session.setActiveSession(spark._jsparkSession)  # noqa: SLF001
        log = executors.open_log(spark, path)
        log.startTransaction()  # looks at the newest commit
        log.checkpoint()
    except (PySparkException, Py4JError, OSError):
        return
