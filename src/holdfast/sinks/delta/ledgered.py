"""A Delta table with a job's ledger in it: what the append and the merge sink have in common."""

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

import deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from holdfast.errors import SinkBehind, SinkRefused
from holdfast.model.batch import Batch, LastWritten, Life, Nothing, Standing, Unknown
from holdfast.model.definition import DeltaAppend, DeltaMerge
from holdfast.model.ids import Epoch
from holdfast.sinks import contract
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import ledger
from holdfast.sinks.delta import table as tables
from holdfast.storage import ObjectStorage, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

_COMMIT_ATTEMPTS = 20
_LOG_CHECKPOINT_INTERVAL = 100


class LedgeredTable:
    """One table, one app transaction, and the rule that both move together."""

    def __init__(
        self, sink: DeltaAppend | DeltaMerge, app_id: str, options: Mapping[str, str]
    ) -> None:
        self.app_id = app_id
        self.place = tables.Place(
            path=sink.path,
            options=options,
            partition_by=sink.partition_by,
            properties=sink.properties,
        )
        self._table: deltalake.DeltaTable | None = None
        self._store: ObjectStorage | None = None

    @property
    def store(self) -> ObjectStorage:
        """The table's folder."""
        if self._store is None:
            self._store = open_store(self.place.path, self.place.options)
        return self._store

    def last_written(self) -> LastWritten:
        """What the table holds for the job, from its transaction log."""
        table = self.place.open()
        if table is None:
            return Nothing(epoch=Epoch(0), location=Unknown(reason="there is no table yet"))
        return ledger.last_written(table, self.app_id)

    def prepare(self, life: Life, schema: "StructType", spark: "SparkSession") -> None:
        """Create the table if there is none, and fence older drivers by a commit."""
        tables.fence(self.place, life, self.app_id, schema, spark)

    def current(self) -> deltalake.DeltaTable:
        """The table as it is now."""
        try:
            if self._table is not None:
                known = self._table.version()
                self._table.update_incremental()
                self._not_restored(self._table, known)
                return self._table
        except (DeltaError, OSError):
            self._table = None  # the log was cleaned or the table replaced: open it anew
        self._table = self.place.open()
        if self._table is None:
            raise SinkRefused(
                f"expected the Delta table `{self.place.path}`, found none any more",
                hint=f"restore `{self.place.path}`, or take the job through a reset",
            )
        return self._table

    def _not_restored(self, table: deltalake.DeltaTable, known: int) -> None:
        """Raise if somebody took rows back since: the ledger would not tell."""
        news = table.version() - known
        if news > 1 and any(c.get("operation") == ledger.RESTORE for c in table.history(news)):
            raise SinkBehind(
                f"expected the rows of `{self.place.path}` to stay, found that the table was"
                " restored to an earlier version while the job ran",
                hint="stop the job before a table is restored, and plan a replay",
            )

    def decide(self, table: deltalake.DeltaTable, batch: Batch) -> Decision:
        """Whether the batch is to be written; raises where it must not be."""
        try:
            return contract.decide(
                batch,
                ledger.standing(table, self.app_id),
                lambda earlier: ledger.recall(table, self.app_id, earlier),
            )
        except (DeltaError, OSError) as error:
            self._table = None  # the table was replaced under this handle
            raise self.place.unavailable(error) from error

    def properties(self, batch: Batch) -> deltalake.CommitProperties:
        """What goes into the commit beside the data: the ledger and where the rows came from."""
        version = ledger.pack(batch.life.epoch, batch.id)
        return deltalake.CommitProperties(
            custom_metadata={ledger.KEY: ledger.of_batch(batch, self.app_id)},
            app_transactions=[deltalake.Transaction(self.app_id, version)],
        )

    def commit(self, table: deltalake.DeltaTable, batch: Batch, files: list[AddAction]) -> Decision:
        """Name the files in one commit with the ledger.

        A commit that lost against another writer is decided anew on the newer table: if that
        writer was a newer driver of this job, this raises; otherwise the same files go in again.
        """
        for _ in range(_COMMIT_ATTEMPTS):
            try:
                table.create_write_transaction(
                    list(files),
                    "append",
                    table.schema(),
                    list(table.metadata().partition_columns),
                    commit_properties=self.properties(batch),
                    post_commithook_properties=tables.NO_HOOKS,
                )
            except CommitFailedError:
                table = self.current()
                if self.decide(table, batch) is Decision.SKIP:
                    return Decision.SKIP
                continue
            except (DeltaError, OSError) as error:
                raise self.place.unavailable(error) from error
            self.checkpoint_log(table)
            return Decision.WRITE
        raise contract.contended(self.place.path)

    def verify(self, batch: Batch) -> Decision:
        """After a write by Spark: was it this driver's batch that the table took?

        Spark's Delta writer skips a batch of an older driver without a word, and without this
        check the older driver would then mark the batch as done in the checkpoint.
        """
        standing = ledger.standing(self.current(), self.app_id)
        if standing != Standing(epoch=batch.life.epoch, batch=batch.id):
            raise contract.fenced(batch.life, standing.epoch)
        return Decision.WRITE

    def checkpoint_log(self, table: deltalake.DeltaTable) -> None:
        """Every so many commits, make a checkpoint of the table's log beside the stream.

        A log without checkpoints only costs readers time, so a failure here stops nothing.
        """
        if (table.version() + 1) % _LOG_CHECKPOINT_INTERVAL == 0:
            threading.Thread(target=self._checkpoint_log, daemon=True).start()

    def _checkpoint_log(self) -> None:
        try:
            table = self.place.open()
            if table is not None:
                table.create_checkpoint()
                table.cleanup_metadata()
        except (DeltaError, OSError):
            return
