"""Stage 3: Evidence -> Diagnosis: every rule is asked, none knows of another.

A rule is a function from what was seen to findings, and to questions that it could not answer.
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
    """Return the worst diagnosis of the Sparks that may start the query, and how others differ.

    Nothing tells which of them it will be, so a better outcome must not hide a worse one.
    """
    by_outcome: dict[Hashable, list[Diagnosis]] = {}
    for how in starts:
        seen = RuleInput(
            evidence=evidence,
            restart=restart.predict(evidence, how),
            surroundings=surroundings,
        )
        found = diagnose(seen)
        by_outcome.setdefault(_make_outcome_key(found), []).append(found)
    groups = sorted(by_outcome.values(), key=lambda group: _rank_badness(group[0]), reverse=True)
    worst, *others = (_merge_group(group) for group in groups)
    if not others:
        return replace(worst, spark_versions=())
    if worst.restart.starting.spark != starts[0].spark:
        every = versions.format_versions(sorted(one.spark for one in starts))
        how = replace(
            worst.restart.starting, chosen_because=f"the worst of {every}, which may start it"
        )
        worst = replace(worst, restart=replace(worst.restart, starting=how))
    return replace(worst, others=tuple(others))


def _merge_group(group: Sequence[Diagnosis]) -> Diagnosis:
    sparks = tuple(sorted(one.restart.starting.spark for one in group))
    return replace(group[0], spark_versions=sparks)


def _make_outcome_key(found: Diagnosis) -> Hashable:
    """What a start does; errors of one stage differ between versions only in their names."""
    shown, error = found.restart, found.restart.error
    failing = None if error is None else (error.stage, error.unless)
    told = frozenset((one.code, one.severity) for one in found.findings)
    return found.judgement, shown.batch, shown.rerun, shown.runs, failing, bool(shown.later), told


def _rank_badness(found: Diagnosis) -> tuple[int, int, int]:
    error = found.restart.error
    worst = max((-list(Severity).index(one.severity) for one in found.findings), default=-100)
    stage = -1 if error is None else list(Stage).index(error.stage)
    return _BY_BADNESS.index(found.judgement), worst, stage


def diagnose(seen: RuleInput) -> Diagnosis:
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
        judgement=_decide_judgement(seen, findings),
        restart=seen.restart,
        findings=tuple(findings),
        not_assessed=tuple(not_assessed),
    )


def _decide_judgement(seen: RuleInput, findings: list[Finding]) -> Judgement:
    severities = {one.severity for one in findings}
    restart, error = seen.restart, seen.restart.error
    if severities & _UNSAFE or (error is not None and not error.unless):
        return Judgement.UNSAFE
    if isinstance(restart.batch, Unknown) and error is None:
        return Judgement.UNKNOWN
    if Severity.UNDEFINED in severities or error is not None:
        return Judgement.UNDEFINED
    if restart.runs is RunForecast.UNKNOWN or _has_unread_ledger(seen):
        return Judgement.UNKNOWN
    return Judgement.SAFE


def _has_unread_ledger(seen: RuleInput) -> bool:
    """Whether a ledger of holdfast's own is there and could not be read: `run` asks it first."""
    ledgers = seen.evidence.ledgers
    return any(one.ranges and isinstance(one.batch, Unknown) for one in ledgers)
