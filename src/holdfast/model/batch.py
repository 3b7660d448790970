"""A batch, and what a sink remembers of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.model.json import Json

EndOffsets: TypeAlias = Mapping[str, Json]
"""Where a batch ended: the offset of each source that has one."""

_NO_OFFSETS = Unknown(reason="the ledger does not say which offsets the batch was written from")
_NOT_GIVEN = Unknown(reason="nothing says where the batch before ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who writes: the job, the generation of its output, and the driver's epoch.

    `gap_before`: the batch before which the user has accepted that the sink lacks batches.
    """

    job: JobName
    generation: Generation
    epoch: Epoch
    location: str
    gap_before: BatchId | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch id with its offset range: the unit that a sink writes once.

    `begins` is where the batch before ended, by the query that runs or by the offset log, and
    `before` the digest of that batch. Neither is part of what the batch is.
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
    """Where a sink stands with a job: the epoch that may write, and the last batch written.

    `ended` is where that batch ended, which says nothing about where the sink stands.
    """

    epoch: Epoch
    batch: BatchId | None
    ended: EndOffsets | Unknown = field(default=_NOT_GIVEN, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenBatch:
    """The last batch that a sink was given for a job, as evidence.

    `taken_back`: the table was restored since, so that it may no longer hold the batch.
    `offsets` are the ranges that the batch was written from, as `Batch.offsets`.
    """

    epoch: Epoch
    batch: BatchId
    digest: Digest | Unknown
    location: str | Unknown
    taken_back: bool
    offsets: "Json | Unknown" = field(default=_NO_OFFSETS, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingWritten:
    """The sink holds no batch of this job; drivers up to this epoch have been there."""

    epoch: Epoch
    location: str | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerKey:
    """What a ledger is kept under. The query id is not in it: it dies with a metadata file."""

    job: JobName
    generation: Generation
    output: OutputName


LastWritten = WrittenBatch | NothingWritten | Unknown


def make_ledger_key(job: JobName, generation: Generation, output: OutputName) -> str:
    """The ledger's key: job, generation and output. The query id dies with a metadata file."""
    return f"holdfast/{job}/{generation}/{output}"
