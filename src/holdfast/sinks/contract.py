"""The contract of a sink, and the one decision that makes it exactly once.

A sink's data and its ledger change in one atomic step. What the step may do is decided here, by
comparing the batch at hand with what the sink last wrote:

    the ledger has a higher epoch          a newer driver took over    DriverFenced
    the ledger has a lower epoch           the table was replaced      SinkBehind
    the ledger has no batch                batch 0                     write
    the ledger has no batch                a later batch: the table    SinkBehind, or write if
                                             was lost, or is new         that was accepted
    batch is the next one, and begins      the ordinary case           write
      where the last one ended
    batch is the next one, and begins      rows would be lost or       BatchNotContinuous
      elsewhere                              written twice
    batch is the next one, and the         a ledger whose log was      write
      ledger has lost where the last one     cleaned, of an idle
      ended, and its digest                  stream
    batch is beyond the next one           the table was taken back    SinkBehind, or write if
                                                                       that was accepted
    same id, same digest                   a re-run                    skip
    same id, other digest                  the range changed           BatchChanged
    same id, digest not to be found        cannot be told              BatchUnverifiable
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from holdfast.errors import (
    BatchChanged,
    BatchNotContinuous,
    BatchUnverifiable,
    DriverFenced,
    SinkBehind,
    SinkContended,
    SinkRefused,
    SinkUnavailable,
)
from holdfast.model import advice, ends
from holdfast.model.batch import Batch, LastWritten, SinkPosition, Writer
from holdfast.model.fact import Unknown
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

    def prepare(self, life: Writer, schema: "StructType", spark: "SparkSession") -> None:
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
    batch: Batch, standing: SinkPosition, recall: Callable[[BatchId], Digest | Unknown]
) -> Decision:
    """Decide what to do with the batch; raise if it may be neither written nor skipped.

    `recall` returns the digest that a batch was written with; it is called only if needed.
    """
    if standing.epoch > batch.life.epoch:
        raise make_fenced_error(batch.life, standing.epoch)
    if standing.epoch < batch.life.epoch:
        raise SinkBehind(
            f"the table of job `{batch.life.job}` was replaced while the job ran: its ledger has"
            f" {'no epoch' if standing.epoch == 0 else f'epoch {standing.epoch}'}, and this driver"
            f" has epoch {batch.life.epoch}",
            hint="put the table back, then start again",
        )
    following = BatchId(0 if standing.batch is None else standing.batch + 1)
    if batch.id == following:
        if standing.batch is not None:
            _require_continuous(batch, standing, recall)
        return Decision.WRITE
    if batch.id > following:
        if batch.life.gap_before == batch.id:
            return Decision.WRITE
        raise SinkBehind(
            f"the sink of job `{batch.life.job}` has lost batches that the checkpoint counts as"
            f" done: it needs batch {following} next, but batch {batch.id} comes",
            hint=advice.BEHIND,
        )
    _require_same(batch, recall(batch.id))
    return Decision.SKIP


def _require_same(batch: Batch, digest: Digest | Unknown) -> None:
    """Raise unless the re-run batch is the batch that was written."""
    if isinstance(digest, Unknown):
        raise BatchUnverifiable(
            f"batch {batch.id} of job `{batch.life.job}` was written before, but the ledger no"
            f" longer says from which offsets: {digest.reason}",
            hint="compare the table with the source before you touch the checkpoint",
        )
    if digest != batch.digest:
        raise make_changed_error(batch.life, batch.id, digest, batch.digest)


def make_changed_error(
    life: Writer, batch: BatchId, expected: Digest, found: Digest
) -> BatchChanged:
    """Return the error of a batch whose id now stands for a different range."""
    return BatchChanged(
        f"batch {batch} of job `{life.job}` was written from a different range: the same id now"
        f" stands for different rows (digest `{expected[:12]}` in the ledger, `{found[:12]}` now)",
        hint="put back the checkpoint that wrote it; " + advice.start_over(life.job, life.location),
    )


def _require_continuous(
    batch: Batch, standing: SinkPosition, recall: Callable[[BatchId], Digest | Unknown]
) -> None:
    """Raise unless the batch begins where the ledger says that the last one ended.

    Ledgers of earlier versions, and those whose log was cleaned, have only the digest of the last
    batch. One that has neither cannot be compared: to refuse would stop streams that are healthy.
    """
    before = BatchId(batch.id - 1)
    if not isinstance(standing.ended, Unknown) and not isinstance(batch.begins, Unknown):
        moved = ends.find_mismatch(standing.ended, batch.begins)
        if moved is not None:
            raise make_not_continuous_error(batch.life, before, moved)
    elif not isinstance(batch.before, Unknown):
        digest = recall(before)
        if not isinstance(digest, Unknown) and digest != batch.before:
            raise make_range_error(batch.life, before, digest, batch.before)


def make_not_continuous_error(
    life: Writer, last: BatchId, moved: ends.OffsetMismatch
) -> BatchNotContinuous:
    """Return the error of a batch that does not begin where the last one ended."""
    return BatchNotContinuous(
        f"batch {last + 1} of job `{life.job}` does not begin where batch {last} ended in the sink,"
        f" because `offsets/{last}` changed: {moved}. Nothing was written",
        hint=ends.describe_repair(f"{life.location}/offsets", last, moved),
    )


def make_range_error(
    life: Writer, last: BatchId, expected: Digest, found: Digest
) -> BatchNotContinuous:
    """Return the error of a batch before this one that no longer is what the sink has of it."""
    return BatchNotContinuous(
        f"the offsets or the files of batch {last} of job `{life.job}` changed in the checkpoint"
        f" since the sink wrote it (digest `{expected[:12]}` in the ledger, `{found[:12]}` now)."
        " Nothing was written",
        hint=f"put back `{life.location}/offsets/{last}`, and the files below"
        f" `{life.location}/sources`, from a copy of the checkpoint",
    )


def make_contended_error(path: str) -> SinkContended:
    """Return the error of a writer that lost against other writers every time."""
    return SinkContended(
        f"cannot commit to `{path}`: other writers commit first every time",
        hint="let fewer writers work on the table at the same time",
    )


def make_blocked_error(table: str, said: str, holders: Sequence[str], cure: str) -> SinkUnavailable:
    """Return the error of a driver that waits for a lock of another session."""
    who = "; ".join(holders) or "a session that this role may not see"
    return SinkUnavailable(
        f"cannot lock `{table}` or its ledger: {said}. Another session holds it: {who}", hint=cure
    )


def unfit_offsets(batch: Batch, said: str) -> SinkRefused:
    """Return the error of offsets that the ledger's database cannot keep as JSON."""
    return SinkRefused(
        f"cannot note the offsets of batch {batch.id} of job `{batch.life.job}` in the ledger:"
        f" {said}",
        hint="rename the file, topic or path with a NUL character that the source reads; nothing of"
        " the batch was written",
    )


def make_altered_error(batch: Batch, table: str) -> SinkUnavailable:
    """Return the error of a batch whose table was altered while its plan ran."""
    return SinkUnavailable(
        f"cannot write batch {batch.id} to `{table}`: another session altered the table while the"
        " batch ran",
        hint="let the batch run again; nothing of it was written",
    )


def make_fenced_error(life: Writer, epoch: Epoch) -> DriverFenced:
    """Return the error of a driver that finds a newer driver in the ledger."""
    newer = "the same epoch" if epoch == life.epoch else f"epoch {epoch}"
    return DriverFenced(
        f"another driver of job `{life.job}` took over: this driver has epoch {life.epoch}, and the"
        f" ledger has {newer}. This driver has written nothing since",
        hint="let this process end; the job runs elsewhere",
    )
