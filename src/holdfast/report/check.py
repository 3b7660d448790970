"""Checks -> JSON for programs, and lines for people: the verdict, then every change."""

from collections.abc import Iterator, Sequence

from holdfast.model.finding import Check, Finding, Judgement, Severity
from holdfast.model.json import Json
from holdfast.model.version import VERSION
from holdfast.report import redact, words
from holdfast.report.diagnosis import JUDGEMENT_STYLES, finding_to_json
from holdfast.report.terminal.lines import Line, Part, Style, clean

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
    Judgement.SAFE: "can start from its checkpoint",
    Judgement.UNSAFE: "must not start from its checkpoint",
    Judgement.UNDEFINED: "starts, but only you can tell whether its results will be right",
    Judgement.UNKNOWN: "could not be checked completely; see 'Not assessed'",
}
_LONGEST = 300
_INDENT = " " * 11


def find_worst(checks: Sequence[Check]) -> Judgement:
    """Return the verdict over several jobs."""
    judgements = {check.judgement for check in checks}
    return next((worst for worst in _WORST if worst in judgements), Judgement.SAFE)


def to_json(checks: Sequence[Check]) -> Json:
    """Return all checks, without secrets."""
    return redact.value(
        {
            "format": FORMAT,
            "holdfast_version": VERSION,
            "verdict": find_worst(checks).value,
            "jobs": [_job_to_json(check) for check in checks],
        }
    )


def _job_to_json(check: Check) -> Json:
    return {
        "job": check.job,
        "location": check.location,
        "verdict": check.judgement.value,
        "first_start": check.first_start,
        "changes": [
            {**finding_to_json(finding), "verdict": _VERDICTS[finding.severity].value}
            for finding in check.findings
        ],
        "not_assessed": [
            {"question": gap.question, "reason": gap.reason} for gap in check.not_assessed
        ],
    }


def to_lines(checks: Sequence[Check]) -> Iterator[Line]:
    """Yield every line for people, without secrets."""
    for index, check in enumerate(checks):
        if index:
            yield ()
        yield from clean(_make_lines(check))


def _make_lines(check: Check) -> Iterator[Line]:
    judgement = check.judgement
    says = "has no checkpoint yet: first start" if check.first_start else _SENTENCES[judgement]
    count = f"; {words.pluralize(len(check.findings), 'change')}" if check.findings else ""
    sentence = f"{judgement.value}: {check.job} {says}{count}"
    yield (Part(sentence, JUDGEMENT_STYLES[judgement]),)
    yield (Part(f"  {check.location}", Style.DIM),)
    for finding in check.findings:
        yield ()
        yield from _format_change(finding)
    if check.not_assessed:
        yield ()
        yield (Part("Not assessed", Style.HEAD),)
        for gap in check.not_assessed:
            yield (Part(f"  {gap.question}"), Part(f"  {gap.reason}", Style.DIM))


def _format_change(finding: Finding) -> Iterator[Line]:
    verdict = _VERDICTS[finding.severity]
    yield (
        Part(f"{verdict.value:<{len(_INDENT)}}", JUDGEMENT_STYLES[verdict]),
        Part(finding.code.value, Style.HEAD),
        Part(f"  {finding.text}"),
    )
    for clue in finding.clues:
        yield (Part(f"{_INDENT}- {_shorten(clue.expected)}"), Part(f"  {clue.file}", Style.DIM))
        yield (Part(f"{_INDENT}+ {_shorten(clue.found)}"),)
    for remedy in finding.remedies:
        yield (Part(f"{_INDENT}→ {remedy}"),)


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
