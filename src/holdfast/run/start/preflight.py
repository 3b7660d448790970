"""Findings that stop a start.

1. before Spark starts         the findings of `holdfast diagnose` about the checkpoint
2. before the query starts     the findings of `holdfast check` about the query

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

# The checks of ledgers, leases and locations refuse these themselves, with more detail.
_LEFT_TO_OTHERS = frozenset({
    Code.SINK_AHEAD, Code.SINK_BEHIND, Code.SINK_SKIPS, Code.SINK_NOT_CLEARED, Code.DRIVER_RUNNING,
    Code.TWO_DRIVERS, Code.LEASE_STALE, Code.STORAGE_EPHEMERAL,
})  # fmt: skip
_MOST_SHOWN = 3


def observe(location: str, storage: Mapping[str, str]) -> Evidence | None:
    """Return the evidence of a job's checkpoint; None if it cannot be inspected, or is new."""
    with suppress(InspectionRefused):
        return check.read_evidence(location, storage)
    return None


def require_safe_checkpoint(
    job: Job,
    evidence: Evidence,
    ledgers: Mapping[OutputName, LastWritten],
    storage: Mapping[str, str],
    accepted: frozenset[str],
) -> None:
    """Raise if a start from the checkpoint is not safe, given the ledgers of the job's sinks."""
    _require_readable(job, evidence)
    location = evidence.location.value
    place = resolve.find_checkpoint(location, storage).place
    evidence = replace(
        evidence, ledgers=tuple(_describe_ledger(name, last) for name, last in ledgers.items())
    )
    start = candidates.choose_start(evidence, _find_spark_version(), asynchronous=False)
    start = replace(start, continuous=False)  # a job runs in micro-batches, whatever ran before
    around = surroundings.collect(
        place, evidence, surroundings.LookupOptions(kafka="", start_settings={})
    )
    diagnosed = diagnosis.diagnose(
        RuleInput(evidence=evidence, restart=restart.predict(evidence, start), surroundings=around)
    )
    harmful = (finding for finding in diagnosed.findings if not _is_harmless(finding, job))
    _refuse(job, harmful, accepted, shlex.join(["holdfast", "diagnose", location]))


def _require_readable(job: Job, evidence: Evidence) -> None:
    """Raise if this user may not read a file of the checkpoint.

    Spark runs as the same user. It could not read the file either, and nothing could be predicted.
    """
    unread = unread_files.find(evidence)
    if unread:
        raise LocationForbidden(
            f"cannot read `{unread[0].path}` in the checkpoint of job `{job.name}`:"
            f" {unread[0].reason}",
            hint=f"give this user the right to read all of `{evidence.location.value}`, then start"
            " again",
        )


def _is_harmless(finding: Finding, job: Job) -> bool:
    """Return whether a different check covers the finding, or a ledger makes it harmless.

    A ledger contains no query id, so it still works after `metadata` is lost.
    """
    is_new_id = finding.code is Code.METADATA_MISSING and finding.severity is Severity.DUPLICATES
    return finding.code in _LEFT_TO_OTHERS or (is_new_id and job.is_proven)


def require_safe_query(
    job: Job, evidence: Evidence, new: Fingerprint, accepted: frozenset[str]
) -> tuple[Finding, ...]:
    """Raise if it is not safe to start the query from the checkpoint.

    Return the findings whose outcome Spark does not define; they do not stop a start.
    """
    findings = checks.judge(job.name, QueryChange(evidence=evidence, new=new)).findings
    _refuse(job, findings, accepted, _format_check_command(job))
    return tuple(finding for finding in findings if finding.severity is Severity.UNDEFINED)


def require_safe_restart(
    job: Job, evidence: Evidence, plans: tuple[Fingerprint, Fingerprint], accepted: frozenset[str]
) -> None:
    """Raise if a query that restarts within a run would read other Kafka clusters or topics.

    `plans` are the fingerprints before and after. The code is the same, but the names of servers
    and topics may stand for different clusters and topics by now.
    """
    old, new = plans
    before = replace(evidence, plan=Known(value=old, read_from=("the start of this run",)))
    answers = topics.evaluate(QueryChange(evidence=before, new=new))
    findings = (answer for answer in answers if isinstance(answer, Finding))
    _refuse(job, findings, accepted, _format_check_command(job))


def _format_check_command(job: Job) -> str:
    return shlex.join(["holdfast", "check", job.declared_at.file, "--job", job.name])


def _refuse(job: Job, findings: Iterable[Finding], accepted: frozenset[str], command: str) -> None:
    """Raise if a finding is unsafe and not accepted; `command` shows all findings."""
    unsafe = [
        finding
        for finding in findings
        if finding.severity in checks.UNSAFE and finding.code not in accepted
    ]
    if not unsafe:
        return
    texts = " ".join(f"{finding.code}: {finding.text}" for finding in unsafe[:_MOST_SHOWN])
    codes: Sequence[str] = list(dict.fromkeys(finding.code.value for finding in unsafe))
    remedies = unsafe[0].remedies[:1]
    # `holdfast run` starts a job that is declared in a file; `holdfast.once` has no command line.
    accept = (
        " ".join(f"--accept {code}" for code in codes)
        if job.declared_at.line
        else f"accept={json.to_canonical(codes)}"
    )
    details = f"run `{command}` for details, or start anyway with `{accept}`"
    raise StartUnsafe(
        f"job `{job.name}` cannot start safely: {texts.removesuffix('.')}",
        hint="; ".join([*remedies, details]),
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
    """Return the version of Spark that will run the job, without importing Spark."""
    major, minor = metadata.version("pyspark").split(".")[:2]
    return SparkVersion(int(major), int(minor))
