"""The contract of a sink, and the one decision that makes it exactly once.

A sink's data and its ledger change in one atomic step. What the step may do is decided here, by
comparing the batch at hand with what the sink last wrote:

    the ledger has a higher epoch          a newer driver took over    DriverFenced
    the ledger has a lower epoch           the table was replaced      SinkBehind
    the ledger has no batch                first batch                 write
    batch is the next one                  the ordinary case           write
    batch is beyond the next one           the table was taken back    SinkBehind, or write if
                                                                       that was accepted
    same id, same digest                   a re-run                    skip
    same id, other digest                  the range changed           BatchChanged
    same id, digest not to be found        cannot be told              BatchUnverifiable
"""

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import BatchChanged, BatchUnverifiable, DriverFenced, SinkBehind, SinkContended
from holdfast.model import advice
from holdfast.model.batch import Batch, LastWritten, Life, Standing, Unknown
from holdfast.model.ids import BatchId, Digest, Epoch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Decision(StrEnum):
    """What to do with a batch that arrives at a sink."""

    WRITE = "write"
    SKIP = "skip"


class LedgeredSink(Protocol):
    """A sink that writes each batch once, whatever is killed when."""

    def last_written(self) -> LastWritten:
        """What the sink holds for the job; reads only, and needs no Spark."""
        ...

    def require_fit(self, schema: "StructType", spark: "SparkSession") -> None:
        """Raise SchemaMismatch if rows of a schema would not fit the table; reads only."""
        ...

    def prepare(self, life: Life, schema: "StructType", spark: "SparkSession") -> None:
        """Create what is missing and fence older drivers.

        After it returns no driver with a lower epoch can write any more, however late it wakes.
        """
        ...

    def write(self, batch: Batch, rows: "DataFrame") -> Decision:
        """Write the rows with the ledger in one atomic step, or skip what is already there.

        The trap: a skipped batch still has to run its plan, or a stateful query's checkpoint is
        poisoned. That is the caller's part, because only the caller sees every output.
        """
        ...


def decide(
    batch: Batch, standing: Standing, recall: Callable[[BatchId], Digest | Unknown]
) -> Decision:
    """What may be done with the batch; raises where the answer is nothing.

    `recall` is asked for the digest that a batch was written with, only where it is needed.
    """
    if standing.epoch > batch.life.epoch:
        raise fenced(batch.life, standing.epoch)
    if standing.epoch < batch.life.epoch:
        raise SinkBehind(
            f"expected the ledger that this driver left in the sink of job `{batch.life.job}`,"
            f" found {'none' if standing.epoch == 0 else f'one of epoch {standing.epoch}'}: the"
            " table was replaced while the job ran",
            hint="put the table back, then start again",
        )
    if standing.batch is None or batch.id == standing.batch + 1:
        return Decision.WRITE
    if batch.id > standing.batch:
        if batch.life.accepts_gap:
            return Decision.WRITE
        raise SinkBehind(
            f"expected batch {standing.batch + 1} of job `{batch.life.job}` next, found batch"
            f" {batch.id}: the sink has lost batches that the checkpoint counts as done",
            hint=advice.BEHIND,
        )
    digest = recall(batch.id)
    if isinstance(digest, Unknown):
        raise BatchUnverifiable(
            f"batch {batch.id} of job `{batch.life.job}` was written before, and from which"
            f" offsets cannot be told: {digest.reason}",
            hint="compare the table with the source before the checkpoint is touched",
        )
    if digest != batch.digest:
        raise BatchChanged(
            f"expected batch {batch.id} of job `{batch.life.job}` with the digest"
            f" `{digest[:12]}` that it was written with, found `{batch.digest[:12]}`: the same"
            " id now means other rows",
            hint="put back the checkpoint that wrote it; "
            + advice.start_over(batch.life.job, batch.life.location),
        )
    return Decision.SKIP


def contended(path: str) -> SinkContended:
    """The error of a writer that lost against others again and again."""
    return SinkContended(
        f"expected to commit to `{path}`, found other writers committing in between every time",
        hint="let fewer writers work on the table at a time",
    )


def fenced(life: Life, epoch: Epoch) -> DriverFenced:
    """The error of a driver that learns of a newer one."""
    return DriverFenced(
        f"expected to be the newest driver of job `{life.job}` with epoch {life.epoch}, found"
        f" epoch {epoch}: another driver took over, and this one has written nothing since",
        hint="let this process end; the job runs elsewhere",
    )
