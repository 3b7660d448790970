"""Steps 1 to 3 of a start: may these jobs run, and by this driver? No Spark is needed to tell.

1. locations are checked          a wrong declaration must not touch anything
2. the ledgers are read           they know the epoch and the location of earlier drivers
3. the lease is taken             from here on other drivers are told to stay away
   the ledgers are compared       with the offset log: it must go on where the last batch ended
   and the checkpoint is judged   by what `holdfast diagnose` finds: only now does nobody move it
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.diagnose import locations as rules
from holdfast.errors import SinkBehind
from holdfast.model.batch import LastWritten, Life, Nothing, Unknown, Written
from holdfast.model.definition import DatabaseSink, Declaration, DeltaTable, Job
from holdfast.model.evidence import Evidence
from holdfast.model.ids import BatchId, Epoch, Generation, OutputName
from holdfast.model.lease import Lease
from holdfast.run import continuity, judging, lease, locations, query
from holdfast.storage import urls


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
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
    life: Life
    lease: Lease
    outputs: tuple[query.OpenOutput, ...]
    evidence: Evidence | None
    """What was in the checkpoint before the start; None where there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """Jobs that may start: checked, with their leases taken. No Spark is needed to get here."""

    pipeline: Declaration
    base: locations.Base
    jobs: tuple[AdmittedJob, ...]


def admitted(pipeline: Declaration, jobs: Sequence[Job], wishes: Wishes) -> Admitted:
    """The jobs with their leases; raises at the first that may not start, with no lease kept."""
    base = locations.checked(
        pipeline.checkpoints, pipeline.name, pipeline.jobs, pipeline.storage, dev=wishes.dev
    )
    taken: list[AdmittedJob] = []
    try:
        for job in _in_order(jobs):
            taken.append(_admitted(pipeline, base, job, wishes))  # noqa: PERF401  taken one by one, to give back those taken
    except BaseException:  # whatever it is, the next start must not wait for a lease
        kept(base, taken).close()
        raise
    return Admitted(pipeline=pipeline, base=base, jobs=tuple(taken))


def kept(base: locations.Base, jobs: Sequence[AdmittedJob]) -> lease.Keeper:
    """Keep the leases of jobs that are not started yet."""
    keeper = lease.Keeper(base.store, lambda _: None)
    for job in jobs:
        keeper.keep(job.lease)
    return keeper


def _admitted(pipeline: Declaration, base: locations.Base, job: Job, wishes: Wishes) -> AdmittedJob:
    location = base.location(job.name)
    recorded = locations.identity(base.store, job.name)
    generation = recorded.generation if recorded else Generation(1)
    outputs = query.opened_outputs(job, generation, pipeline.storage)
    ledgers = _ledgers(outputs)
    known = {} if recorded is None else {"its records": recorded.location}
    if recorded is None or recorded.location != location:
        # Once a move was accepted, what stayed in the old base counts no more; the ledgers do.
        known |= locations.recorded_beside(base, job.name, pipeline.storage)
    highest = _require_here(job, location, known, ledgers, wishes.accepted)
    done = locations.last_committed(base.store, job.name)
    adopts = wishes.adopt and _is_first(ledgers, recorded, done)
    accepted = wishes.accepted | {SinkBehind.code} if adopts else wishes.accepted
    _require_done(base, job, ledgers, accepted)
    held = lease.acquire(base.store, job.name, above=highest, ttl_ms=wishes.lease_ms)
    life = Life(
        job=job.name,
        generation=generation,
        epoch=held.epoch,
        location=location,
        gap_before=locations.next_batch(base.store, job.name)
        if SinkBehind.code in accepted
        else None,
    )
    mine = AdmittedJob(job=job, life=life, lease=held, outputs=outputs, evidence=None)
    try:
        before = done if adopts else recorded.adopted if recorded else None
        identity = locations.Identity(location=location, generation=generation, adopted=before)
        locations.record_identity(base.store, job.name, identity)
        _require_continuous(base, life, ledgers)
        looked = judging.seen(location, pipeline.storage)
        if looked is not None:
            judging.of_checkpoint(job, looked, ledgers, pipeline.storage, accepted)
    except BaseException:  # whatever it is, the next start must not wait for this lease
        kept(base, [mine]).close()
        raise
    return replace(mine, evidence=looked)


def _require_here(
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
    moved = rules.of_record(job.name, location, {**known, **said})
    if moved is not None and moved.code not in accepted:
        raise moved
    return max((last.epoch for last in read.values()), default=Epoch(0))


def _is_first(
    ledgers: Mapping[OutputName, LastWritten],
    recorded: locations.Identity | None,
    done: BatchId | None,
) -> bool:
    """Return whether no driver of holdfast has written a batch of the job yet.

    A sink without batches may also be one that lost them. So an earlier start must have found the
    same last batch in the checkpoint: then none was written since.
    """
    empty = all(isinstance(last, Nothing) for last in ledgers.values())
    return empty and (recorded is None or recorded.adopted == done)


def require_done(base: locations.Base, mine: AdmittedJob, accepted: frozenset[str]) -> None:
    """Raise if a sink has lost batches by now: before it is prepared, which would hide that.

    Between admission and the start of a query others may run for hours, and between two starts of
    it within a run there is a pause. And some ledgers cannot be read before Spark runs.
    """
    ledgers = _ledgers(mine.outputs)
    _require_done(base, mine.job, ledgers, accepted)
    _require_continuous(base, mine.life, ledgers)


def _require_continuous(
    base: locations.Base, life: Life, ledgers: Mapping[OutputName, LastWritten]
) -> None:
    """Raise if the checkpoint does not go on where a sink's last batch ended.

    No code accepts that: the sink refuses the next batch whatever was accepted.
    """
    done = locations.last_committed(base.store, life.job)
    for last in ledgers.values():
        if isinstance(last, Written):
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
    highest = _require_here(mine.job, mine.life.location, {}, _ledgers(mine.outputs), accepted)
    if highest < mine.life.epoch or (again and highest == mine.life.epoch):
        return mine
    raised = keeper.raise_epoch(mine.job.name, above=highest)
    return replace(mine, lease=raised, life=replace(mine.life, epoch=raised.epoch))


def _ledgers(outputs: tuple[query.OpenOutput, ...]) -> dict[OutputName, LastWritten]:
    return {o.output.name: o.ledgered.last_written() for o in outputs if o.ledgered is not None}


def _require_done(
    base: locations.Base,
    job: Job,
    ledgers: Mapping[OutputName, LastWritten],
    accepted: frozenset[str],
) -> None:
    """Raise if a sink does not hold what the checkpoint counts as done."""
    done = locations.last_committed(base.store, job.name)
    for name, last in ledgers.items():
        refusal = rules.of_ledger(job.name, name, last, done)
        if refusal is not None and refusal.code not in accepted:
            raise refusal


def _in_order(jobs: Sequence[Job]) -> list[Job]:
    """Writers of a table before its readers; otherwise as declared."""
    ordered: list[Job] = []
    waiting = list(jobs)
    while waiting:
        tables = {p for other in waiting for p in _written(other)}
        free = [job for job in waiting if not (_read(job) & (tables - _written(job)))]
        ordered += free or waiting
        waiting = [job for job in waiting if job not in ordered]
    return ordered


def _read(job: Job) -> set[str]:
    return {urls.canonical(s.path) for s in job.reads if isinstance(s, DeltaTable)}


def _written(job: Job) -> set[str]:
    paths = (locations.path_of(o.sink) for o in job.writes if not isinstance(o.sink, DatabaseSink))
    return {urls.canonical(path) for path in paths if path}
