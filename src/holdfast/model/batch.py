"""A batch, its writer, and what a sink remembers of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.model.json import Json

EndOffsets: TypeAlias = Mapping[str, Json]
"""The end offset of each source of a batch, without sources that have no offset yet."""

_NO_OFFSETS = Unknown(reason="the ledger does not say which offsets the batch was written from")
_NOT_GIVEN = Unknown(reason="the end offsets of the previous batch are not known")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The writer of a batch: the job, the generation of its output, and the driver's epoch.

    `gap_before`: the user accepts that the sink lacks batches before this one.
    """

    job: JobName
    generation: Generation
    epoch: Epoch
    location: str
    gap_before: BatchId | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch id with its offset range: the unit that a sink writes once.

    `begins` are the end offsets of the previous batch, from the running query or the offset log;
    `before` is the digest of that batch. Neither is part of the identity of this batch.
    """

    life: Writer
    id: BatchId
    digest: Digest
    offsets: Json
    expected_rows: int | Unknown
    begins: EndOffsets | Unknown = field(default=_NOT_GIVEN, compare=False)
    before: Digest | Unknown = field(default=_NOT_GIVEN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPosition:
    """The position of a sink for a job: the epoch that may write, and the last batch written.

    `ended` are the end offsets of that batch; they are not part of the position.
    """

    epoch: Epoch
    batch: BatchId | None
    ended: EndOffsets | Unknown = field(default=_NOT_GIVEN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """The last batch that a sink received for a job, as evidence.

    `taken_back`: the table was restored later, so it may no longer contain the batch.
    `offsets` are the ranges that the batch was written from, like `Batch.offsets`.
    """

    epoch: Epoch
    batch: BatchId
    digest: Digest | Unknown
    location: str | Unknown
    taken_back: bool
    offsets: "Json | Unknown" = field(default=_NO_OFFSETS, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingWritten:
    """The sink has no batch of this job; drivers up to this epoch have opened it."""

    epoch: Epoch
    location: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerKey:
    """The key of a ledger. It has no query id, because that is lost with the `metadata` file."""

    job: JobName
    generation: Generation
    output: OutputName

    def __str__(self) -> str:
        return f"holdfast/{self.job}/{self.generation}/{self.output}"


LastWritten = WrittenBatch | NothingWritten | Unknown
