"""Steps 2 and 3 of a start: may this driver run this job? Needs no Spark.

`run/order.py` has all five steps and the reasons for their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.diagnose import locations as rules
from holdfast.errors import SinkBehind, SinkUnavailable
from holdfast.model.batch import LastWritten, NothingWritten, Writer, WrittenBatch
from holdfast.model.definition import Declaration, Job
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Epoch, Generation, OutputName
from holdfast.model.lease import Lease
from holdfast.run.query import stream
from holdfast.run.start import continuity, lease, locations, preflight


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a run is to behave."""

    dev: bool = False
    once: bool = False
    grace: float = 60.0
    restarts: int = 5
    lease_ms: int = lease.TTL_MS
    accepted: frozenset[str] = frozenset()
    adopt: bool = False
    """Take a sink that knows none of the batches that the checkpoint has from before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedJob:
    """A job that may start: who writes for it now, and where it writes to."""

    job: Job
    life: Writer
    lease: Lease
    outputs: tuple[stream.OpenOutput, ...]
    evidence: Evidence | None
    """What was in the checkpoint before the start; None where there was none."""
    gaps: Mapping[OutputName, BatchId | None] = field(default_factory=dict)
    """The last batch of each sink that lacks batches, and was accepted so at this start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A job that may take its lease: what its ledgers and records say, and what it may start over.

    `done` is the last batch that the checkpoint counts as done. `adopts`: this is the first start
    with sinks that know none of these batches, and the user wants that.
    """

    job: Job
    location: str
    recorded: locations.Identity | None
    outputs: tuple[stream.OpenOutput, ...]
    ledgers: Mapping[OutputName, LastWritten]
    highest: Epoch
    done: BatchId | None
    adopts: bool
    accepted: frozenset[str]

    @property
    def generation(self) -> Generation:
        """The generation that the job writes."""
        return self.recorded.generation if self.recorded else Generation(1)


def keep_leases(base: locations.Base, jobs: Sequence[AdmittedJob]) -> lease.Keeper:
    """Keep the leases of jobs that are not started yet."""
    keeper = lease.Keeper(base.store, lambda _: None)
    for job in jobs:
        keeper.keep(job.lease)
    return keeper


def read_ledgers(
    pipeline: Declaration, base: locations.Base, job: Job, options: RunOptions
) -> Claim:
    """Step 2: return what the ledgers say; raise if the job must not start over what they say."""
    location = base.location(job.name)
    recorded = locations.read_identity(base.store, job.name)
    generation = recorded.generation if recorded else Generation(1)
    outputs = stream.open_outputs(job, generation, pipeline.storage)
    ledgers = _read_ledgers(outputs)
    known = {} if recorded is None else {"its records": recorded.location}
    if recorded is None or recorded.location != location:
        # Once a move was accepted, records in the old base no longer count; the ledgers do.
        known |= locations.find_records_beside(base, job.name, pipeline.storage)
    highest = _require_same_location(job, location, known, ledgers, options.accepted)
    done = locations.find_last_committed(base.store, job.name)
    adopts = options.adopt and _is_first_start(ledgers, recorded, done)
    accepted = options.accepted | {SinkBehind.code} if adopts else options.accepted
    _require_complete(base, job, ledgers, accepted)
    return Claim(
        job=job,
        location=location,
        recorded=recorded,
        outputs=outputs,
        ledgers=ledgers,
        highest=highest,
        done=done,
        adopts=adopts,
        accepted=accepted,
    )


def take_lease(
    claim: Claim, pipeline: Declaration, base: locations.Base, options: RunOptions
) -> AdmittedJob:
    """Step 3: take the lease, then judge the checkpoint, which nobody else moves from here on."""
    job, accepted = claim.job, claim.accepted
    held = lease.acquire(base.store, job.name, above=claim.highest, ttl_ms=options.lease_ms)
    life = Writer(
        job=job.name,
        generation=claim.generation,
        epoch=held.epoch,
        location=claim.location,
        gap_before=locations.find_next_batch(base.store, job.name)
        if SinkBehind.code in accepted
        else None,
    )
    admitted = AdmittedJob(job=job, life=life, lease=held, outputs=claim.outputs, evidence=None)
    try:
        _record_identity(claim, base)
        _require_continuous(base, life, claim.ledgers)
        evidence = preflight.observe(claim.location, pipeline.storage)
        if evidence is not None:
            preflight.require_safe_checkpoint(
                job, evidence, claim.ledgers, pipeline.storage, accepted
            )
    except BaseException:  # whatever it is, the next start must not wait for this lease
        keep_leases(base, [admitted]).close()
        raise
    return replace(admitted, evidence=evidence)


def _record_identity(claim: Claim, base: locations.Base) -> None:
    recorded = claim.recorded
    before = claim.done if claim.adopts else recorded.adopted if recorded else None
    identity = locations.Identity(
        location=claim.location, generation=claim.generation, adopted=before
    )
    locations.record_identity(base.store, claim.job.name, identity)


def _require_same_location(
    job: Job,
    location: str,
    known: Mapping[str, str],
    ledgers: Mapping[OutputName, LastWritten],
    accepted: frozenset[str],
) -> Epoch:
    """Raise if the job was recorded at another location; return the ledgers' highest epoch."""
    read = {name: last for name, last in ledgers.items() if not isinstance(last, Unknown)}
    said = {
        f"the ledger in output `{name}`": last.location
        for name, last in read.items()
        if isinstance(last.location, str)
    }
    moved = rules.refuse_move(job.name, location, {**known, **said})
    if moved is not None and moved.code not in accepted:
        raise moved
    return max((last.epoch for last in read.values()), default=Epoch(0))


def _is_first_start(
    ledgers: Mapping[OutputName, LastWritten],
    recorded: locations.Identity | None,
    done: BatchId | None,
) -> bool:
    """Return whether no driver of holdfast has written a batch of the job yet.

    A sink without batches may also be one that lost them. So an earlier start must have found the
    same last batch in the checkpoint: then none was written since.
    """
    empty = all(isinstance(last, NothingWritten) for last in ledgers.values())
    return empty and (recorded is None or recorded.adopted == done)


def require_sinks_complete(
    base: locations.Base, mine: AdmittedJob, accepted: frozenset[str], *, again: bool
) -> AdmittedJob:
    """Return the job with the gaps that were accepted; raise if a sink has lost other batches.

    Asked before a sink is prepared, which would hide that. Between admission and the start of a
    query others may run for hours, and between two starts of it within a run there is a pause. And
    some ledgers cannot be read before Spark runs. `again`: the query was started before in this
    run. What was accepted then counts as long as nothing was committed and nothing else is missing.
    """
    ledgers = _read_ledgers(mine.outputs)
    _require_read(mine.job, ledgers)
    done = locations.find_last_committed(base.store, mine.job.name)
    if again and mine.life.gap_before != locations.find_next_batch(base.store, mine.job.name):
        mine = replace(mine, life=replace(mine.life, gap_before=None), gaps={})
    gaps: dict[OutputName, BatchId | None] = {}
    for name, last in ledgers.items():
        refusal = rules.refuse_sink_behind(mine.job.name, name, last, done)
        if refusal is None:
            continue
        batch = last.batch if isinstance(last, WrittenBatch) else None
        same = name in mine.gaps and mine.gaps[name] == batch
        if not (same if again else refusal.code in accepted):
            raise refusal
        gaps[name] = batch
    _require_continuous(base, mine.life, ledgers)
    return replace(mine, gaps=gaps)


def _require_continuous(
    base: locations.Base, life: Writer, ledgers: Mapping[OutputName, LastWritten]
) -> None:
    """Raise if the checkpoint does not go on where a sink's last batch ended.

    No code accepts that: the sink refuses the next batch whatever was accepted.
    """
    done = locations.find_last_committed(base.store, life.job)
    for last in ledgers.values():
        if isinstance(last, WrittenBatch):
            refusal = continuity.find_break(base.store, life, last, done)
            if refusal is not None:
                raise refusal


def catch_up(
    mine: AdmittedJob, keeper: lease.Keeper, accepted: frozenset[str], *, again: bool
) -> AdmittedJob:
    """Return the job with an epoch that no ledger has passed; asked before the sinks are prepared.

    Where the records were lost, the lease counts from 1 again, while the ledgers know higher
    epochs. Those that could be read at admission were counted in there. A ledger behind JDBC is
    read here for the first time, once Spark runs. A newer driver has a newer lease: that is found
    by `Keeper.raise_epoch`. `again`: this driver has prepared the sinks before, and may find its
    own epoch there; otherwise an equal epoch is that of an older driver, which may still live.
    """
    ledgers = _read_ledgers(mine.outputs)
    _require_read(mine.job, ledgers)
    highest = _require_same_location(mine.job, mine.life.location, {}, ledgers, accepted)
    if highest < mine.life.epoch or (again and highest == mine.life.epoch):
        return mine
    raised = keeper.raise_epoch(mine.job.name, above=highest)
    return replace(mine, lease=raised, life=replace(mine.life, epoch=raised.epoch))


def _read_ledgers(outputs: tuple[stream.OpenOutput, ...]) -> dict[OutputName, LastWritten]:
    return {o.output.name: o.ledgered.last_written() for o in outputs if o.ledgered is not None}


def _require_read(job: Job, ledgers: Mapping[OutputName, LastWritten]) -> None:
    """Raise if a ledger was not read although Spark runs: its sink may have lost anything."""
    for name, last in ledgers.items():
        if isinstance(last, Unknown):
            raise SinkUnavailable(
                f"cannot start job `{job.name}`: the ledger of output `{name}` was not read:"
                f" {last.reason}",
                hint="start again, in the process that runs the Spark session",
            )


def _require_complete(
    base: locations.Base,
    job: Job,
    ledgers: Mapping[OutputName, LastWritten],
    accepted: frozenset[str],
) -> None:
    """Raise if a sink does not hold what the checkpoint counts as done."""
    done = locations.find_last_committed(base.store, job.name)
    for name, last in ledgers.items():
        refusal = rules.refuse_sink_behind(job.name, name, last, done)
        if refusal is not None and refusal.code not in accepted:
            raise refusal
