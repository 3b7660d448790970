"""What speaks against a start, before Spark is started and before the query is.

1. the checkpoint itself     no Spark is needed: what `holdfast diagnose` finds
2. the query beside it       after the session is there: what `holdfast check` finds

A finding that blocks, loses or duplicates stops the start, unless its code was accepted.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import metadata

from holdfast.diagnose import check as checks
from holdfast.diagnose import diagnosis
from holdfast.diagnose.changes import topics
from holdfast.errors import InspectionRefused, LocationForbidden, StartUnsafe
from holdfast.gather.around import surroundings
from holdfast.gather.locate import resolve
from holdfast.model import json
from holdfast.model.batch import LastWritten, NothingWritten, WrittenBatch
from holdfast.model.definition import Job
from holdfast.model.evidence import NO_BATCH, Evidence, LedgerEvidence
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.finding import Code, Finding, QueryChange, RuleInput, Severity
from holdfast.model.fingerprint import Fingerprint
from holdfast.model.ids import OutputName
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import candidates, restart, unread_files
from holdfast.run.query import check

# The ledgers, the lease and the rules of locations refuse these themselves, knowing more.
_LEFT_TO_OTHERS = frozenset({
    Code.SINK_AHEAD, Code.SINK_BEHIND, Code.SINK_SKIPS, Code.SINK_NOT_CLEARED, Code.DRIVER_RUNNING,
    Code.TWO_DRIVERS, Code.LEASE_STALE, Code.STORAGE_EPHEMERAL,
})  # fmt: skip
_MOST_SHOWN = 3


def observe(location: str, storage: Mapping[str, str]) -> Evidence | None:
    """What is in the checkpoint of a job; None where there is none yet, or none to look at."""
    with suppress(InspectionRefused):
        return check.read_evidence(location, storage)
    return None


def require_safe_checkpoint(
    job: Job,
    looked: Evidence,
    ledgers: Mapping[OutputName, LastWritten],
    storage: Mapping[str, str],
    accepted: frozenset[str],
) -> None:
    """Raise if the checkpoint must not be started from, by what its sinks' ledgers say."""
    _require_readable(job, looked)
    place = resolve.find_checkpoint(looked.location.value, storage).place
    known = replace(
        looked, ledgers=tuple(_describe_ledger(name, last) for name, last in ledgers.items())
    )
    how = candidates.choose_start(known, _find_spark_version(), asynchronous=False)
    how = replace(how, continuous=False)  # a job runs in micro-batches, whatever ran before
    around = surroundings.collect(
        place, known, surroundings.LookupOptions(kafka="", start_settings={})
    )
    found = diagnosis.diagnose(
        RuleInput(evidence=known, restart=restart.predict(known, how), surroundings=around)
    )
    left = (one for one in found.findings if not _is_harmless(one, job))
    _refuse(job, left, accepted, shlex.join(["holdfast", "diagnose", looked.location.value]))


def _require_readable(job: Job, looked: Evidence) -> None:
    """The driver is this user: what it may not read Spark may not, and nothing can be judged."""
    hidden = unread_files.find(looked)
    if hidden:
        raise LocationForbidden(
            f"expected to read the checkpoint of job `{job.name}`, found `{hidden[0].path}`:"
            f" {hidden[0].reason}",
            hint=f"let this user read all of `{looked.location.value}`, then start again",
        )


def _is_harmless(one: Finding, job: Job) -> bool:
    """Whether something else sees to it: a ledger that knows no query id outlives `metadata`."""
    lost = one.code is Code.METADATA_MISSING and one.severity is Severity.DUPLICATES
    return one.code in _LEFT_TO_OTHERS or (lost and job.is_proven)


def require_safe_query(
    job: Job, looked: Evidence, new: Fingerprint, accepted: frozenset[str]
) -> tuple[Finding, ...]:
    """Raise if the query must not start from the checkpoint; tells what Spark leaves undefined."""
    found = checks.judge(job.name, QueryChange(evidence=looked, new=new)).findings
    _refuse(job, found, accepted, _format_check_command(job))
    return tuple(one for one in found if one.severity is Severity.UNDEFINED)


def require_safe_restart(
    job: Job, looked: Evidence, plans: tuple[Fingerprint, Fingerprint], accepted: frozenset[str]
) -> None:
    """Raise if a query that starts again within a run would read from something else of Kafka's.

    The code is the same; what servers and topics of a name are may not be.
    """
    was, new = plans
    before = replace(looked, plan=Known(value=was, read_from=("the start of this run",)))
    found = topics.evaluate(QueryChange(evidence=before, new=new))
    findings = (one for one in found if isinstance(one, Finding))
    _refuse(job, findings, accepted, _format_check_command(job))


def _format_check_command(job: Job) -> str:
    return shlex.join(["holdfast", "check", job.declared_at.file, "--job", job.name])


def _refuse(job: Job, findings: Iterable[Finding], accepted: frozenset[str], more: str) -> None:
    against = [
        one for one in findings if one.severity in checks.UNSAFE and one.code not in accepted
    ]
    if not against:
        return
    told = " ".join(f"{one.code}: {one.text}" for one in against[:_MOST_SHOWN])
    codes: Sequence[str] = list(dict.fromkeys(one.code.value for one in against))
    cure = against[0].remedies[0] if against[0].remedies else "see what cures it"
    # What is declared in a file is run by the command; the rest by `holdfast.once`.
    accept = (
        " ".join(f"--accept {code}" for code in codes)
        if job.declared_at.line
        else f"accept={json.to_canonical(codes)}"
    )
    raise StartUnsafe(
        f"expected a safe start of job `{job.name}`, found {told}",
        hint=f"{cure}; see more with `{more}`, or start it all the same with `{accept}`",
    )


def _describe_ledger(name: OutputName, last: LastWritten) -> LedgerEvidence:
    table = f"output {name}"
    match last:
        case WrittenBatch(batch=batch, taken_back=taken_back, offsets=offsets):
            note = "restored since" if taken_back else ""
            return LedgerEvidence(
                table=table, key=name, batch=batch, note=note, ranges=True, offsets=offsets
            )
        case NothingWritten():
            absent = Absent(reason=NO_BATCH)
            return LedgerEvidence(table=table, key=name, batch=absent, note="", ranges=True)
        case Unknown():
            return LedgerEvidence(table=table, key=name, batch=last, note="", ranges=True)


def _find_spark_version() -> SparkVersion | None:
    """The Spark that will start it, without loading it."""
    major, minor = metadata.version("pyspark").split(".")[:2]
    return SparkVersion(int(major), int(minor))
