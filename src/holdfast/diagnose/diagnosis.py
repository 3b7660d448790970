"""Evidence and Restart -> Diagnosis: evaluate every rule, order the findings, give a verdict.

A rule takes a RuleInput and returns findings, and questions that it could not answer. No rule knows
another.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

from holdfast.diagnose.rules.logs import (
    asynchronous,
    checksums,
    continuous,
    damage,
    disagreement,
    edited,
    gaps,
    identity,
    no_commits,
    pending,
)
from holdfast.diagnose.rules.sources import (
    bare_numbers,
    delta_tables,
    file_logs,
    files,
    foreign_offsets,
    landing,
    topics,
    went_back,
)
from holdfast.diagnose.rules.state import (
    batch_progress,
    descriptions,
    hazards,
    misplaced,
    rewritten,
    stores,
)
from holdfast.diagnose.rules.surroundings import (
    copies,
    drivers,
    growth,
    old_spark,
    settings,
    sinks,
    storage,
)
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Unknown
from holdfast.model.finding import Diagnosis, Finding, Judgement, NotAssessed, RuleInput, Severity
from holdfast.model.restart import RunForecast, Stage, StartOptions
from holdfast.model.surroundings import Surroundings
from holdfast.predict import restart
from holdfast.spark import versions

CheckpointRule = Callable[[RuleInput], Iterator[Finding | NotAssessed]]
RULES: tuple[CheckpointRule, ...] = (
    identity.evaluate,
    damage.evaluate,
    disagreement.evaluate,
    edited.evaluate,
    gaps.evaluate,
    pending.evaluate,
    no_commits.evaluate,
    batch_progress.evaluate,
    asynchronous.evaluate,
    continuous.evaluate,
    checksums.evaluate,
    sinks.evaluate,
    file_logs.evaluate,
    foreign_offsets.evaluate,
    bare_numbers.evaluate,
    files.evaluate,
    landing.evaluate,
    delta_tables.evaluate,
    topics.evaluate,
    went_back.evaluate,
    stores.evaluate,
    descriptions.evaluate,
    misplaced.evaluate,
    rewritten.evaluate,
    hazards.evaluate,
    settings.evaluate,
    drivers.evaluate,
    storage.evaluate,
    copies.evaluate,
    growth.evaluate,
    old_spark.evaluate,
)
_UNSAFE = frozenset({Severity.BLOCKS, Severity.LOSES, Severity.DUPLICATES})
_BY_BADNESS = (Judgement.SAFE, Judgement.UNKNOWN, Judgement.UNDEFINED, Judgement.UNSAFE)


def diagnose_worst(
    evidence: Evidence, starts: Sequence[StartOptions], surroundings: Surroundings
) -> Diagnosis:
    """Return the worst diagnosis over all Sparks that may start the query, and the better ones.

    It is unknown which Spark will start the query, so a better outcome must not hide a worse one.
    """
    by_outcome: dict[Hashable, list[Diagnosis]] = {}
    for start in starts:
        diagnosis = diagnose(
            RuleInput(
                evidence=evidence,
                restart=restart.predict(evidence, start),
                surroundings=surroundings,
            )
        )
        by_outcome.setdefault(_make_outcome_key(diagnosis), []).append(diagnosis)
    groups = sorted(by_outcome.values(), key=lambda group: _rank_badness(group[0]), reverse=True)
    worst, *others = (_merge_group(group) for group in groups)
    if not others:
        return replace(worst, spark_versions=())
    if worst.restart.starting.spark != starts[0].spark:
        candidates = versions.format_versions(sorted(start.spark for start in starts))
        chosen = f"the worst case of {candidates}, any of which may start the query"
        starting = replace(worst.restart.starting, chosen_because=chosen)
        worst = replace(worst, restart=replace(worst.restart, starting=starting))
    return replace(worst, others=tuple(others))


def _merge_group(group: Sequence[Diagnosis]) -> Diagnosis:
    sparks = tuple(sorted(diagnosis.restart.starting.spark for diagnosis in group))
    return replace(group[0], spark_versions=sparks)


def _make_outcome_key(diagnosis: Diagnosis) -> Hashable:
    """Return what distinguishes the outcome of a start.

    Between versions, errors of the same stage differ only in their names.
    """
    restart, error = diagnosis.restart, diagnosis.restart.error
    failure = None if error is None else (error.stage, error.unless)
    findings = frozenset((finding.code, finding.severity) for finding in diagnosis.findings)
    return (
        diagnosis.judgement,
        restart.batch,
        restart.rerun,
        restart.runs,
        failure,
        bool(restart.later),
        findings,
    )


def _rank_badness(diagnosis: Diagnosis) -> tuple[int, int, int]:
    error = diagnosis.restart.error
    ranks = (-list(Severity).index(finding.severity) for finding in diagnosis.findings)
    stage = -1 if error is None else list(Stage).index(error.stage)
    return _BY_BADNESS.index(diagnosis.judgement), max(ranks, default=-100), stage


def diagnose(rule_input: RuleInput) -> Diagnosis:
    """Return the findings, the worst first, and the verdict."""
    findings: list[Finding] = []
    not_assessed: list[NotAssessed] = []
    for rule in RULES:
        for answer in rule(rule_input):
            if isinstance(answer, Finding):
                findings.append(answer)
            else:
                not_assessed.append(answer)
    findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    return Diagnosis(
        location=rule_input.evidence.location.value,
        judgement=_decide_judgement(rule_input, findings),
        restart=rule_input.restart,
        findings=tuple(findings),
        not_assessed=tuple(not_assessed),
    )


def _decide_judgement(rule_input: RuleInput, findings: list[Finding]) -> Judgement:
    severities = {finding.severity for finding in findings}
    restart, error = rule_input.restart, rule_input.restart.error
    if severities & _UNSAFE or (error is not None and not error.unless):
        return Judgement.UNSAFE
    if isinstance(restart.batch, Unknown) and error is None:
        return Judgement.UNKNOWN
    if Severity.UNDEFINED in severities or error is not None:
        return Judgement.UNDEFINED
    if restart.runs is RunForecast.UNKNOWN or _has_unread_ledger(rule_input):
        return Judgement.UNKNOWN
    return Judgement.SAFE


def _has_unread_ledger(rule_input: RuleInput) -> bool:
    """Return whether a ledger of holdfast exists but could not be read: `run` reads it first."""
    ledgers = rule_input.evidence.ledgers
    return any(ledger.ranges and isinstance(ledger.batch, Unknown) for ledger in ledgers)
