"""Stage 3: Evidence -> Diagnosis: every rule is asked, none knows of another.

A rule is a function from what was seen to findings, and to questions that it could not answer.
"""

from collections.abc import Callable, Iterator

from holdfast.diagnose.rules import (
    asynchronous,
    checksums,
    continuity,
    continuous,
    copies,
    damage,
    disagreement,
    drivers,
    earlier,
    edited,
    growth,
    identity,
    landing,
    pending,
    rewritten,
    settings,
    sinks,
    source_files,
    source_logs,
    source_numbers,
    source_tables,
    source_topics,
    state,
    storage,
)
from holdfast.model.batch import Unknown
from holdfast.model.finding import (
    Diagnosis,
    Finding,
    Judgement,
    NotAssessed,
    Seen,
    Severity,
)
from holdfast.model.restart import Runs

Rule = Callable[[Seen], Iterator[Finding | NotAssessed]]
RULES: tuple[Rule, ...] = (
    identity.asked,
    damage.asked,
    disagreement.asked,
    edited.asked,
    continuity.asked,
    pending.asked,
    asynchronous.asked,
    continuous.asked,
    checksums.asked,
    sinks.asked,
    source_logs.asked,
    source_numbers.asked,
    source_files.asked,
    landing.asked,
    source_tables.asked,
    source_topics.asked,
    state.asked,
    rewritten.asked,
    settings.asked,
    drivers.asked,
    storage.asked,
    copies.asked,
    growth.asked,
    earlier.asked,
)
_UNSAFE = frozenset({Severity.BLOCKS, Severity.LOSES, Severity.DUPLICATES})


def diagnosed(seen: Seen) -> Diagnosis:
    """The findings, the worst first, and the verdict that they add up to."""
    findings: list[Finding] = []
    not_assessed: list[NotAssessed] = []
    for rule in RULES:
        for answer in rule(seen):
            if isinstance(answer, Finding):
                findings.append(answer)
            else:
                not_assessed.append(answer)
    findings.sort(key=lambda one: list(Severity).index(one.severity))
    return Diagnosis(
        location=seen.evidence.location.value,
        judgement=_judgement(seen, findings),
        restart=seen.restart,
        findings=tuple(findings),
        not_assessed=tuple(not_assessed),
    )


def _judgement(seen: Seen, findings: list[Finding]) -> Judgement:
    severities = {one.severity for one in findings}
    restart, error = seen.restart, seen.restart.error
    if severities & _UNSAFE or (error is not None and not error.unless):
        return Judgement.UNSAFE
    if isinstance(restart.batch, Unknown) and error is None:
        return Judgement.UNKNOWN
    if Severity.UNDEFINED in severities or error is not None:
        return Judgement.UNDEFINED
    if restart.runs is Runs.UNKNOWN or _has_unread_ledger(seen):
        return Judgement.UNKNOWN
    return Judgement.SAFE


def _has_unread_ledger(seen: Seen) -> bool:
    """Whether a ledger of holdfast's own is there and could not be read: `run` asks it first."""
    ledgers = seen.evidence.ledgers
    return any(one.ranges and isinstance(one.batch, Unknown) for one in ledgers)
