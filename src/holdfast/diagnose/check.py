"""A new query and an old checkpoint -> Check.

Every change rule is evaluated; no rule knows another. If a query has several changes, all of them
are reported, and the worst one decides the verdict.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from holdfast.diagnose.changes import (
    aggregates,
    arbitrary,
    functions,
    joins,
    keys,
    operators,
    options,
    settings,
    sinks,
    sources,
    steps,
    topics,
    variables,
    versions,
    watermarks,
)
from holdfast.model.fact import UnreadableFile
from holdfast.model.finding import (
    Check,
    Clue,
    Code,
    Finding,
    Judgement,
    NotAssessed,
    QueryChange,
    Severity,
)
from holdfast.predict import unread_files

ChangeRule = Callable[[QueryChange], Iterator[Finding | NotAssessed]]
RULES: tuple[ChangeRule, ...] = (
    sources.evaluate,
    topics.evaluate,
    options.evaluate,
    operators.evaluate,
    keys.evaluate,
    aggregates.evaluate,
    joins.evaluate,
    arbitrary.evaluate,
    variables.evaluate,
    watermarks.evaluate,
    steps.evaluate,
    functions.evaluate,
    sinks.evaluate,
    settings.evaluate,
    versions.evaluate,
)
_COMPARED_AS_TEXT = frozenset({Code.KEYS_CHANGED, Code.AGGREGATES_CHANGED, Code.JOIN_CHANGED})
UNSAFE = frozenset({Severity.BLOCKS, Severity.LOSES, Severity.DUPLICATES})


def judge(job: str, change: QueryChange) -> Check:
    """Return the changes, the worst first, and the verdict."""
    location = change.evidence.location.value
    unread = unread_files.find(change.evidence)
    if unread:
        return _make_unknown(job, location, unread)
    if change.evidence.batches.last_planned is None:
        return make_first_start(job, location)
    findings: list[Finding] = []
    not_assessed: list[NotAssessed] = []
    for rule in RULES:
        for answer in rule(change):
            if isinstance(answer, Finding):
                findings.append(_soften(change, answer))
            else:
                not_assessed.append(answer)
    findings.sort(key=lambda finding: list(Severity).index(finding.severity))
    return Check(
        job=job,
        location=location,
        judgement=_decide_judgement(change, findings),
        first_start=False,
        findings=tuple(findings),
        not_assessed=tuple(not_assessed),
    )


def add_answers(check: Check, answers: Iterable[Finding | NotAssessed]) -> Check:
    """Return the check with the answers of the sinks; without an answer it is not safe."""
    findings: list[Finding] = []
    unanswered: list[NotAssessed] = []
    for answer in answers:
        if isinstance(answer, Finding):
            findings.append(answer)
        else:
            unanswered.append(answer)
    judgement = check.judgement
    if unanswered and judgement is Judgement.SAFE:
        judgement = Judgement.UNKNOWN
    if findings:
        judgement = Judgement.UNSAFE
    return replace(
        check,
        judgement=judgement,
        findings=(*findings, *check.findings),
        not_assessed=(*check.not_assessed, *unanswered),
    )


def make_rows_finding(output: str, reason: str, remedy: str) -> Finding:
    """Return the finding that a sink will refuse the rows of the first batch."""
    return Finding(
        code=Code.ROWS_DO_NOT_FIT,
        severity=Severity.BLOCKS,
        text=f"The first batch will fail with `SCHEMA_MISMATCH`: {reason}.",
        clues=(Clue(file=f"output {output}", expected="rows that fit the table", found=reason),),
        remedies=(remedy,),
    )


def _make_unknown(job: str, location: str, unread: tuple[UnreadableFile, ...]) -> Check:
    """Return a check without a verdict: half of a checkpoint is not enough to compare with."""
    return Check(
        job=job,
        location=location,
        judgement=Judgement.UNKNOWN,
        first_start=False,
        findings=(),
        not_assessed=(
            NotAssessed(
                question="whether the query may start from this checkpoint",
                reason=unread[0].description,
            ),
        ),
    )


def make_first_start(job: str, location: str) -> Check:
    """Return the check of a job without a checkpoint: any query may start."""
    return Check(
        job=job,
        location=location,
        judgement=Judgement.SAFE,
        first_start=True,
        findings=(),
        not_assessed=(),
    )


def _soften(change: QueryChange, finding: Finding) -> Finding:
    """Return the finding as undefined if its texts come from two versions of Spark.

    Two versions may write the same expression differently, so different texts prove nothing.
    """
    old = change.old
    if (
        finding.code not in _COMPARED_AS_TEXT
        or finding.severity is not Severity.LOSES
        or old is None
    ):
        return finding
    was, now = (text.split(".")[:2] for text in (old.spark_version, change.new.spark_version))
    return finding if was == now else replace(finding, severity=Severity.UNDEFINED)


def _decide_judgement(change: QueryChange, findings: list[Finding]) -> Judgement:
    severities = {finding.severity for finding in findings}
    if severities & UNSAFE:
        return Judgement.UNSAFE
    if Severity.UNDEFINED in severities:
        return Judgement.UNDEFINED
    return Judgement.UNKNOWN if change.old is None else Judgement.SAFE
