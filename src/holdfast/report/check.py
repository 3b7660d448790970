"""Checks -> JSON for programs, and lines for people: the verdict first, then every change."""

from collections.abc import Iterator, Sequence

from holdfast.model.finding import Check, Finding, Judgement, Severity
from holdfast.model.json import Json
from holdfast.model.version import VERSION
from holdfast.report import redact, words
from holdfast.report.diagnosis import JUDGEMENT_STYLES, finding_to_json
from holdfast.report.terminal.text import Line, Part, Style, clean

FORMAT = 1
_WORST = (Judgement.UNSAFE, Judgement.UNDEFINED, Judgement.UNKNOWN, Judgement.SAFE)
_VERDICTS = {
    Severity.BLOCKS: Judgement.UNSAFE,
    Severity.LOSES: Judgement.UNSAFE,
    Severity.DUPLICATES: Judgement.UNSAFE,
    Severity.UNDEFINED: Judgement.UNDEFINED,
    Severity.SLOW: Judgement.SAFE,
    Severity.NOTE: Judgement.SAFE,
}
_SENTENCES = {
    Judgement.SAFE: "may start from its checkpoint",
    Judgement.UNSAFE: "must not start from its checkpoint as it is",
    Judgement.UNDEFINED: "starts, and whether its results are right is for you to say",
    Judgement.UNKNOWN: "cannot be checked in full; see what was not assessed",
}
_LONGEST = 300


def find_worst(checks: Sequence[Check]) -> Judgement:
    """The verdict over several jobs."""
    found = {one.judgement for one in checks}
    return next((one for one in _WORST if one in found), Judgement.SAFE)


def to_json(checks: Sequence[Check]) -> Json:
    """All checks, without secrets."""
    return redact.value(
        {
            "format": FORMAT,
            "holdfast_version": VERSION,
            "verdict": find_worst(checks).value,
            "jobs": [_job_to_json(one) for one in checks],
        }
    )


def _job_to_json(shown: Check) -> Json:
    return {
        "job": shown.job,
        "location": shown.location,
        "verdict": shown.judgement.value,
        "first_start": shown.first_start,
        "changes": [
            {**finding_to_json(one), "verdict": _VERDICTS[one.severity].value}
            for one in shown.findings
        ],
        "not_assessed": [
            {"question": one.question, "reason": one.reason} for one in shown.not_assessed
        ],
    }


def to_lines(checks: Sequence[Check]) -> Iterator[Line]:
    """Every line for people, without secrets."""
    for index, check in enumerate(checks):
        if index:
            yield ()
        yield from clean(_make_lines(check))


def _make_lines(check: Check) -> Iterator[Line]:
    judged = check.judgement
    told = "has no checkpoint yet: first start" if check.first_start else _SENTENCES[judged]
    count = f"; {words.pluralize(len(check.findings), 'change')}" if check.findings else ""
    yield (Part(f"{judged.value}: {check.job} {told}{count}", JUDGEMENT_STYLES[judged]),)
    yield (Part(f"  {check.location}", Style.DIM),)
    for one in check.findings:
        yield ()
        yield from _format_change(one)
    if check.not_assessed:
        yield ()
        yield (Part("Not assessed", Style.HEAD),)
        for question in check.not_assessed:
            yield (Part(f"  {question.question}"), Part(f"  {question.reason}", Style.DIM))


def _format_change(shown: Finding) -> Iterator[Line]:
    verdict = _VERDICTS[shown.severity]
    yield (
        Part(f"{verdict.value:<11}", JUDGEMENT_STYLES[verdict]),
        Part(shown.code.value, Style.HEAD),
        Part(f"  {shown.text}"),
    )
    for clue in shown.clues:
        yield (Part(f"           - {_shorten(clue.expected)}"), Part(f"  {clue.file}", Style.DIM))
        yield (Part(f"           + {_shorten(clue.found)}"),)
    for remedy in shown.remedies:
        yield (Part(f"           → {remedy}"),)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
