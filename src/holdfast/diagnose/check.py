"""Stage 3: a query to come and an old checkpoint -> Check: every rule is asked, none knows another.

Several changes are judged together: each is told, and the verdict is that of the worst.
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
_BY_TEXT = frozenset({Code.KEYS_CHANGED, Code.AGGREGATES_CHANGED, Code.JOIN_CHANGED})
UNSAFE = frozenset({Severity.BLOCKS, Severity.LOSES, Severity.DUPLICATES})


def judge(job: str, change: QueryChange) -> Check:
    """The changes, the worst first, and the verdict that they add up to."""
    location = change.evidence.location.value
    hidden = unread_files.find(change.evidence)
    if hidden:
        return _make_unknown(job, location, hidden)
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
    findings.sort(key=lambda one: list(Severity).index(one.severity))
    return Check(
        job=job,
        location=location,
        judgement=_decide_judgement(change, findings),
        first_start=False,
        findings=tuple(findings),
        not_assessed=tuple(not_assessed),
    )


def add_answers(found: Check, answers: Iterable[Finding | NotAssessed]) -> Check:
    """Return the check with what the sinks answered; one that does not answer is not safe."""
    told = list(answers)
    against = tuple(one for one in told if isinstance(one, Finding))
    unanswered = tuple(one for one in told if isinstance(one, NotAssessed))
    judgement = found.judgement
    if unanswered and judgement is Judgement.SAFE:
        judgement = Judgement.UNKNOWN
    if against:
        judgement = Judgement.UNSAFE
    return replace(
        found,
        judgement=judgement,
        findings=(*against, *found.findings),
        not_assessed=(*found.not_assessed, *unanswered),
    )


def make_rows_finding(output: str, reason: str, remedy: str) -> Finding:
    """Return the finding of rows that a sink refuses at the first batch."""
    return Finding(
        code=Code.ROWS_DO_NOT_FIT,
        severity=Severity.BLOCKS,
        text=f"The first batch will fail with `SCHEMA_MISMATCH`: {reason}.",
        clues=(Clue(file=f"output {output}", expected="rows that fit the table", found=reason),),
        remedies=(remedy,),
    )


def _make_unknown(job: str, location: str, hidden: tuple[UnreadableFile, ...]) -> Check:
    """Nothing is compared with half of a checkpoint."""
    return Check(
        job=job,
        location=location,
        judgement=Judgement.UNKNOWN,
        first_start=False,
        findings=(),
        not_assessed=(
            NotAssessed(question="whether it may start from here", reason=hidden[0].description),
        ),
    )


def make_first_start(job: str, location: str) -> Check:
    """There is no checkpoint yet: whatever the query is, it may start."""
    return Check(
        job=job,
        location=location,
        judgement=Judgement.SAFE,
        first_start=True,
        findings=(),
        not_assessed=(),
    )


def _soften(change: QueryChange, one: Finding) -> Finding:
    """Two versions of Spark may write one expression in two ways: then a text is no proof."""
    old = change.old
    if one.code not in _BY_TEXT or one.severity is not Severity.LOSES or old is None:
        return one
    was, now = (text.split(".")[:2] for text in (old.spark_version, change.new.spark_version))
    return one if was == now else replace(one, severity=Severity.UNDEFINED)


def _decide_judgement(change: QueryChange, findings: list[Finding]) -> Judgement:
    severities = {one.severity for one in findings}
    if severities & UNSAFE:
        return Judgement.UNSAFE
    if Severity.UNDEFINED in severities:
        return Judgement.UNDEFINED
    return Judgement.UNKNOWN if change.old is None else Judgement.SAFE
