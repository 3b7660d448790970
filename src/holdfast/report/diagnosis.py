"""Diagnosis -> JSON for programs, and lines for people: the verdict first."""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Diagnosis, Finding, Judgement, Severity
from holdfast.model.json import Json
from holdfast.model.restart import Restart, RunForecast, SourceRange, StartError
from holdfast.model.version import VERSION
from holdfast.report import redact, rows, start_failure, words
from holdfast.report.terminal.text import Line, Part, Style, clean
from holdfast.spark import versions

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
JUDGEMENT_STYLES = {
    Judgement.SAFE: Style.GOOD,
    Judgement.UNSAFE: Style.BAD,
    Judgement.UNDEFINED: Style.CAREFUL,
    Judgement.UNKNOWN: Style.CAREFUL,
}


def to_json(diagnosis: Diagnosis) -> Json:
    """The whole diagnosis, without secrets."""
    return redact.value(
        {
            "format": FORMAT,
            "holdfast_version": VERSION,
            "location": diagnosis.location,
            "verdict": diagnosis.judgement.value,
            "restart": _restart_to_json(diagnosis.restart),
            "findings": [finding_to_json(one) for one in diagnosis.findings],
            "not_assessed": [
                {"question": one.question, "reason": one.reason} for one in diagnosis.not_assessed
            ],
            "spark_versions": [str(one) for one in diagnosis.spark_versions],
            "other_versions": [_other_to_json(one) for one in diagnosis.others],
        }
    )


def _other_to_json(shown: Diagnosis) -> Json:
    """A better outcome, with other versions of Spark."""
    return {
        "spark_versions": [str(one) for one in shown.spark_versions],
        "verdict": shown.judgement.value,
        "restart": _restart_to_json(shown.restart),
        "codes": [one.code.value for one in shown.findings],
    }


def _restart_to_json(shown: Restart) -> Json:
    other = shown.alternative
    return {
        "spark": str(shown.starting.spark),
        "spark_chosen": shown.starting.chosen_because,
        "asynchronous": shown.starting.asynchronous,
        "continuous": shown.starting.continuous,
        "batch": _number_to_json(shown.batch),
        "rerun": shown.rerun,
        "runs": shown.runs.value,
        "ranges": [_range_to_json(one) for one in shown.ranges],
        "watermark_ms": _number_to_json(shown.watermark_ms),
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
        "error": None if shown.error is None else _error_to_json(shown.error),
        "later_errors": [_error_to_json(one) for one in shown.later],
        "otherwise": None
        if other is None
        else {"condition": other.condition, "restart": _restart_to_json(other.restart)},
    }


def _error_to_json(shown: StartError) -> Json:
    return {
        "stage": shown.stage.value,
        "batch": _number_to_json(shown.batch),
        "condition": shown.condition,
        "exceptions": list(shown.exceptions),
        "reason": shown.reason,
        "unless": shown.unless,
        "read_from": list(shown.read_from),
    }


def _range_to_json(shown: SourceRange) -> Json:
    partitions: list[Json] = [
        {"partition": one.partition, "start": one.start, "end": one.end}
        for one in rows.list_range(shown)
    ]
    return {
        "source": shown.source,
        "kind": shown.kind,
        "or_kinds": list(shown.other_kinds),
        "start": shown.start,
        "end": None if isinstance(shown.end, Unknown) else shown.end,
        "end_known": not isinstance(shown.end, Unknown),
        "partitions": partitions,
    }


def finding_to_json(shown: Finding) -> dict[str, Json]:
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


def _number_to_json(shown: int | Unknown) -> int | None:
    return None if isinstance(shown, Unknown) else shown


def to_lines(diagnosis: Diagnosis) -> Iterator[Line]:
    """Every line for people, without secrets."""
    return clean(_make_lines(diagnosis))


def _make_lines(diagnosis: Diagnosis) -> Iterator[Line]:
    yield from (_format_verdict(one) for one in (diagnosis, *diagnosis.others))
    yield ()
    yield from _format_restart(diagnosis.restart)
    for finding in diagnosis.findings:
        yield ()
        yield from _format_finding(finding)
    if diagnosis.not_assessed:
        yield ()
        yield (Part("Not assessed", Style.HEAD),)
        for one in diagnosis.not_assessed:
            yield (Part(f"  {one.question}"), Part(f"  {one.reason}", Style.DIM))


def _format_verdict(shown: Diagnosis) -> Line:
    sparks = (
        f" with Spark {versions.format_versions(shown.spark_versions)}"
        if shown.spark_versions
        else ""
    )
    other = shown.restart.alternative
    unless = f", unless {other.condition}" if shown.judgement is Judgement.SAFE and other else ""
    said = f"{shown.judgement.value}{sparks}{unless}: {_format_sentence(shown)}"
    return (Part(said, JUDGEMENT_STYLES[shown.judgement]),)


def _format_sentence(diagnosis: Diagnosis) -> str:
    restart = diagnosis.restart
    if restart.error is not None:
        return start_failure.format_sentence("a start", restart, restart.error)
    worst = next((one for one in diagnosis.findings if one.severity is not Severity.NOTE), None)
    told = diagnosis.judgement in (Judgement.UNSAFE, Judgement.UNDEFINED)
    if worst is not None and told:
        return worst.text[:1].lower() + worst.text[1:].removesuffix(".")
    return f"a start {_describe_start(restart)}"


def _describe_start(restart: Restart) -> str:
    if isinstance(restart.batch, Unknown):
        return f"cannot be told: {restart.batch.reason}"
    if restart.starting.continuous:
        return _describe_epoch(restart, restart.batch)
    if restart.rerun and any(isinstance(one.end, Unknown) for one in restart.ranges):
        return f"runs batch {restart.batch} again, from where it began to what there is then"
    if restart.rerun:
        return f"runs batch {restart.batch} again, over the same range"
    return _describe_new_batch(restart, restart.batch)


def _describe_new_batch(restart: Restart, batch: int) -> str:
    if restart.runs is RunForecast.SURELY:
        return f"runs batch {batch}, a new one"
    if restart.runs is RunForecast.NOT and restart.error is None:
        return f"never runs batch {batch}, whatever its source sends"
    return f"runs batch {batch} as soon as there is data"


def _describe_epoch(restart: Restart, epoch: int) -> str:
    if epoch == 0:
        return "begins anew in continuous mode, at epoch 0, where the source begins"
    again = " again" if restart.rerun else ""
    return f"runs epoch {epoch} of continuous mode{again}, from the end of the last committed one"


def _format_restart(shown: Restart) -> Iterator[Line]:
    mode = ", in continuous mode" if shown.starting.continuous else ""
    version = f"Spark {shown.starting.spark}, {shown.starting.chosen_because}{mode}"
    yield (Part("Restart", Style.HEAD), Part(f"  {version}", Style.DIM))
    yield (Part(f"  {_describe_start(shown)}"),)
    for one in shown.ranges:
        yield from _format_range(one)
    if not isinstance(shown.watermark_ms, Unknown) and shown.watermark_ms > 0:
        yield (Part(f"  watermark {words.format_time(shown.watermark_ms)} UTC"),)
    for load in shown.state:
        missing = (
            f", missing in {words.pluralize(len(load.missing), 'store')}" if load.missing else ""
        )
        yield (
            Part(f"  operator {load.operator} loads state version {load.version}"),
            Part(missing, Style.BAD),
        )
    for sink in shown.sinks:
        act = Part(f": {sink.act.value}")
        yield (Part(f"  {sink.table}"), act, Part(f"  {sink.reason}", Style.DIM))
    if not shown.sinks:
        yield (Part("  sink: unknown", Style.CAREFUL),)
    yield from (_format_error(error) for error in _list_errors(shown))
    if shown.alternative is not None:
        yield (Part(f"  or, if {shown.alternative.condition},", Style.CAREFUL),)
        yield from (
            (Part("  "), *_format_error(error)) for error in _list_errors(shown.alternative.restart)
        )


def _list_errors(shown: Restart) -> list[StartError]:
    return ([shown.error] if shown.error else []) + list(shown.later[:_MOST_LINES])


def _format_error(shown: StartError) -> Line:
    name = shown.condition or (shown.exceptions[0] if len(shown.exceptions) == 1 else "an error")
    batch = "" if isinstance(shown.batch, Unknown) else f" at batch {shown.batch}"
    return (
        Part(f"  fails{batch} with {name}", Style.BAD),
        Part(f", {start_failure.describe(shown)}", Style.DIM),
    )


def _format_range(shown: SourceRange) -> Iterator[Line]:
    partitions = rows.list_range(shown)
    if not partitions:
        yield (Part(f"  source {shown.source} ({rows.format_kind(shown)}) from the beginning"),)
    for one in rows.pick_partitions(partitions, _MOST_LINES):
        name = f" {one.partition}" if one.partition else ""
        open_ended = isinstance(shown.consumed, Unknown)
        span = f" from {one.start}" if open_ended else f": {one.start or '-'} → {one.end or '-'}"
        # Apart, for a topic may be called as a secret is, and its offsets are none.
        yield (Part(f"  source {shown.source} ({rows.format_kind(shown)}){name}"), Part(span))
    if len(partitions) > _MOST_LINES:
        more = words.pluralize(len(partitions) - _MOST_LINES, "more partition")
        yield (Part(f"  {more}", Style.DIM),)


def _format_finding(shown: Finding) -> Iterator[Line]:
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
