"""Diagnosis -> JSON for programs, and lines for people: the verdict first."""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Diagnosis, Finding, Judgement, Severity
from holdfast.model.json import Json
from holdfast.model.restart import Restart, Runs, SourceRange, StartError
from holdfast.model.version import VERSION
from holdfast.report import redact, rows, start_failure, words
from holdfast.report.terminal.text import Line, Part, Style, clean
from holdfast.spark import version

FORMAT = 1
_MOST_LINES = 8
_MOST_STORES = 20
_BESIDE = " " * 12
_STYLES = {
    Severity.BLOCKS: Style.BAD,
    Severity.LOSES: Style.BAD,
    Severity.DUPLICATES: Style.BAD,
    Severity.UNDEFINED: Style.CAREFUL,
    Severity.SLOW: Style.CAREFUL,
    Severity.NOTE: Style.DIM,
}
JUDGED = {
    Judgement.SAFE: Style.GOOD,
    Judgement.UNSAFE: Style.BAD,
    Judgement.UNDEFINED: Style.CAREFUL,
    Judgement.UNKNOWN: Style.CAREFUL,
}


def of(diagnosis: Diagnosis) -> Json:
    """The whole diagnosis, without secrets."""
    return redact.value(
        {
            "format": FORMAT,
            "holdfast_version": VERSION,
            "location": diagnosis.location,
            "verdict": diagnosis.judgement.value,
            "restart": _restart(diagnosis.restart),
            "findings": [finding(one) for one in diagnosis.findings],
            "not_assessed": [
                {"question": one.question, "reason": one.reason} for one in diagnosis.not_assessed
            ],
            "spark_versions": [str(one) for one in diagnosis.sparks],
            "other_versions": [_other(one) for one in diagnosis.others],
        }
    )


def _other(shown: Diagnosis) -> Json:
    """A better outcome, with other versions of Spark."""
    return {
        "spark_versions": [str(one) for one in shown.sparks],
        "verdict": shown.judgement.value,
        "restart": _restart(shown.restart),
        "codes": [one.code.value for one in shown.findings],
    }


def _restart(shown: Restart) -> Json:
    other = shown.otherwise
    return {
        "spark": str(shown.starting.spark),
        "spark_chosen": shown.starting.chosen,
        "asynchronous": shown.starting.asynchronous,
        "continuous": shown.starting.continuous,
        "batch": _known(shown.batch),
        "rerun": shown.rerun,
        "runs": shown.runs.value,
        "ranges": [_range(one) for one in shown.ranges],
        "watermark_ms": _known(shown.watermark_ms),
        "state": [
            {
                "operator": one.operator,
                "version": one.version,
                "missing": list(one.missing[:_MOST_STORES]),
                "missing_more": max(0, len(one.missing) - _MOST_STORES),
            }
            for one in shown.state
        ],
        "sink": [
            {"table": one.table, "act": one.act.value, "reason": one.reason} for one in shown.sinks
        ],
        "error": None if shown.error is None else _error(shown.error),
        "later_errors": [_error(one) for one in shown.later],
        "otherwise": None
        if other is None
        else {"condition": other.condition, "restart": _restart(other.restart)},
    }


def _error(shown: StartError) -> Json:
    return {
        "stage": shown.stage.value,
        "batch": _known(shown.batch),
        "condition": shown.condition,
        "exceptions": list(shown.exceptions),
        "reason": shown.reason,
        "unless": shown.unless,
        "read_from": list(shown.read_from),
    }


def _range(shown: SourceRange) -> Json:
    partitions: list[Json] = [
        {"partition": one.partition, "start": one.start, "end": one.end}
        for one in rows.list_range(shown)
    ]
    return {
        "source": shown.source,
        "kind": shown.kind,
        "or_kinds": list(shown.or_kinds),
        "start": shown.start,
        "end": None if isinstance(shown.end, Unknown) else shown.end,
        "end_known": not isinstance(shown.end, Unknown),
        "partitions": partitions,
    }


def finding(shown: Finding) -> dict[str, Json]:
    """One finding for programs."""
    return {
        "code": shown.code.value,
        "severity": shown.severity.value,
        "text": shown.text,
        "evidence": [
            {"file": one.file, "expected": one.expected, "found": one.found} for one in shown.clues
        ],
        "remedies": list(shown.remedies),
    }


def _known(shown: int | Unknown) -> int | None:
    return None if isinstance(shown, Unknown) else shown


def lines(diagnosis: Diagnosis) -> Iterator[Line]:
    """Every line for people, without secrets."""
    return clean(_lines(diagnosis))


def _lines(diagnosis: Diagnosis) -> Iterator[Line]:
    yield from (_verdict_line(one) for one in (diagnosis, *diagnosis.others))
    yield ()
    yield from _restart_lines(diagnosis.restart)
    for finding in diagnosis.findings:
        yield ()
        yield from _finding_lines(finding)
    if diagnosis.not_assessed:
        yield ()
        yield (Part("Not assessed", Style.HEAD),)
        for one in diagnosis.not_assessed:
            yield (Part(f"  {one.question}"), Part(f"  {one.reason}", Style.DIM))


def _verdict_line(shown: Diagnosis) -> Line:
    sparks = f" with Spark {version.spelled(shown.sparks)}" if shown.sparks else ""
    other = shown.restart.otherwise
    unless = f", unless {other.condition}" if shown.judgement is Judgement.SAFE and other else ""
    said = f"{shown.judgement.value}{sparks}{unless}: {_sentence(shown)}"
    return (Part(said, JUDGED[shown.judgement]),)


def _sentence(diagnosis: Diagnosis) -> str:
    restart = diagnosis.restart
    if restart.error is not None:
        return start_failure.sentence("a start", restart, restart.error)
    worst = next((one for one in diagnosis.findings if one.severity is not Severity.NOTE), None)
    told = diagnosis.judgement in (Judgement.UNSAFE, Judgement.UNDEFINED)
    if worst is not None and told:
        return worst.text[:1].lower() + worst.text[1:].removesuffix(".")
    return f"a start {_what(restart)}"


def _what(restart: Restart) -> str:
    if isinstance(restart.batch, Unknown):
        return f"cannot be told: {restart.batch.reason}"
    if restart.starting.continuous:
        return _epoch(restart, restart.batch)
    if restart.rerun and any(isinstance(one.end, Unknown) for one in restart.ranges):
        return f"runs batch {restart.batch} again, from where it began to what there is then"
    if restart.rerun:
        return f"runs batch {restart.batch} again, over the same range"
    return _new_batch(restart, restart.batch)


def _new_batch(restart: Restart, batch: int) -> str:
    if restart.runs is Runs.SURELY:
        return f"runs batch {batch}, a new one"
    if restart.runs is Runs.NOT and restart.error is None:
        return f"never runs batch {batch}, whatever its source sends"
    return f"runs batch {batch} as soon as there is data"


def _epoch(restart: Restart, epoch: int) -> str:
    if epoch == 0:
        return "begins anew in continuous mode, at epoch 0, where the source begins"
    again = " again" if restart.rerun else ""
    return f"runs epoch {epoch} of continuous mode{again}, from the end of the last committed one"


def _restart_lines(shown: Restart) -> Iterator[Line]:
    mode = ", in continuous mode" if shown.starting.continuous else ""
    version = f"Spark {shown.starting.spark}, {shown.starting.chosen}{mode}"
    yield (Part("Restart", Style.HEAD), Part(f"  {version}", Style.DIM))
    yield (Part(f"  {_what(shown)}"),)
    for one in shown.ranges:
        yield from _range_lines(one)
    if not isinstance(shown.watermark_ms, Unknown) and shown.watermark_ms > 0:
        yield (Part(f"  watermark {words.moment(shown.watermark_ms)} UTC"),)
    for load in shown.state:
        missing = f", missing in {words.plural(len(load.missing), 'store')}" if load.missing else ""
        yield (
            Part(f"  operator {load.operator} loads state version {load.version}"),
            Part(missing, Style.BAD),
        )
    for sink in shown.sinks:
        act = Part(f": {sink.act.value}")
        yield (Part(f"  {sink.table}"), act, Part(f"  {sink.reason}", Style.DIM))
    if not shown.sinks:
        yield (Part("  sink: unknown", Style.CAREFUL),)
    yield from (_error_line(error) for error in _errors(shown))
    if shown.otherwise is not None:
        yield (Part(f"  or, if {shown.otherwise.condition},", Style.CAREFUL),)
        yield from ((Part("  "), *_error_line(error)) for error in _errors(shown.otherwise.restart))


def _errors(shown: Restart) -> list[StartError]:
    return ([shown.error] if shown.error else []) + list(shown.later[:_MOST_LINES])


def _error_line(shown: StartError) -> Line:
    name = shown.condition or (shown.exceptions[0] if len(shown.exceptions) == 1 else "an error")
    batch = "" if isinstance(shown.batch, Unknown) else f" at batch {shown.batch}"
    return (
        Part(f"  fails{batch} with {name}", Style.BAD),
        Part(f", {start_failure.told(shown)}", Style.DIM),
    )


def _range_lines(shown: SourceRange) -> Iterator[Line]:
    partitions = rows.list_range(shown)
    if not partitions:
        yield (Part(f"  source {shown.source} ({rows.kind(shown)}) from the beginning"),)
    for one in rows.partitions(partitions, _MOST_LINES):
        name = f" {one.partition}" if one.partition else ""
        open_ended = isinstance(shown.consumed, Unknown)
        span = f" from {one.start}" if open_ended else f": {one.start or '-'} → {one.end or '-'}"
        # Apart, for a topic may be called as a secret is, and its offsets are none.
        yield (Part(f"  source {shown.source} ({rows.kind(shown)}){name}"), Part(span))
    if len(partitions) > _MOST_LINES:
        more = words.plural(len(partitions) - _MOST_LINES, "more partition")
        yield (Part(f"  {more}", Style.DIM),)


def _finding_lines(shown: Finding) -> Iterator[Line]:
    yield (
        Part(f"{shown.severity.value:<{len(_BESIDE)}}", _STYLES[shown.severity]),
        Part(shown.code.value, Style.HEAD),
        Part(f"  {shown.text}"),
    )
    for clue in shown.clues:
        seen = f": expected {clue.expected}, found {clue.found}"
        yield (Part(f"{_BESIDE}{clue.file}", Style.DIM), Part(seen, Style.DIM))
    for remedy in shown.remedies:
        yield (Part(f"{_BESIDE}→ {remedy}"),)
