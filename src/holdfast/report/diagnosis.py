"""Diagnosis -> JSON for programs, and lines for people that start with the verdict."""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Diagnosis, Finding, Judgement, Severity
from holdfast.model.json import Json
from holdfast.model.restart import Restart, RunForecast, SourceRange, StartError
from holdfast.model.version import VERSION
from holdfast.report import redact, rows, start_failure, words
from holdfast.report.terminal.lines import Line, Part, Style, clean
from holdfast.spark import versions

FORMAT = 1
_MOST_LINES = 8
_MOST_STORES = 20
_INDENT = " " * 12
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
    """Return the whole diagnosis, without secrets."""
    return redact.value(
        {
            "format": FORMAT,
            "holdfast_version": VERSION,
            "location": diagnosis.location,
            "verdict": diagnosis.judgement.value,
            "restart": _restart_to_json(diagnosis.restart),
            "findings": [finding_to_json(finding) for finding in diagnosis.findings],
            "not_assessed": [
                {"question": gap.question, "reason": gap.reason} for gap in diagnosis.not_assessed
            ],
            "spark_versions": [str(version) for version in diagnosis.spark_versions],
            "other_versions": [_other_to_json(other) for other in diagnosis.others],
        }
    )


def _other_to_json(diagnosis: Diagnosis) -> Json:
    """Return a better outcome, which other versions of Spark have."""
    return {
        "spark_versions": [str(version) for version in diagnosis.spark_versions],
        "verdict": diagnosis.judgement.value,
        "restart": _restart_to_json(diagnosis.restart),
        "codes": [finding.code.value for finding in diagnosis.findings],
    }


def _restart_to_json(restart: Restart) -> Json:
    other = restart.alternative
    return {
        "spark": str(restart.starting.spark),
        "spark_chosen": restart.starting.chosen_because,
        "asynchronous": restart.starting.asynchronous,
        "continuous": restart.starting.continuous,
        "batch": _number_to_json(restart.batch),
        "rerun": restart.rerun,
        "runs": restart.runs.value,
        "ranges": [_range_to_json(source_range) for source_range in restart.ranges],
        "watermark_ms": _number_to_json(restart.watermark_ms),
        "state": [
            {
                "operator": load.operator,
                "version": load.version,
                "missing": list(load.missing[:_MOST_STORES]),
                "missing_more": max(0, len(load.missing) - _MOST_STORES),
            }
            for load in restart.state
        ],
        "sink": [
            {"table": sink.table, "act": sink.act.value, "reason": sink.reason}
            for sink in restart.sinks
        ],
        "error": None if restart.error is None else _error_to_json(restart.error),
        "later_errors": [_error_to_json(error) for error in restart.later],
        "otherwise": None
        if other is None
        else {"condition": other.condition, "restart": _restart_to_json(other.restart)},
    }


def _error_to_json(error: StartError) -> Json:
    return {
        "stage": error.stage.value,
        "batch": _number_to_json(error.batch),
        "condition": error.condition,
        "exceptions": list(error.exceptions),
        "reason": error.reason,
        "unless": error.unless,
        "read_from": list(error.read_from),
    }


def _range_to_json(source_range: SourceRange) -> Json:
    partitions: list[Json] = [
        {"partition": change.partition, "start": change.start, "end": change.end}
        for change in rows.list_range(source_range)
    ]
    end = source_range.end
    return {
        "source": source_range.source,
        "kind": source_range.kind,
        "or_kinds": list(source_range.other_kinds),
        "start": source_range.start,
        "end": None if isinstance(end, Unknown) else end,
        "end_known": not isinstance(end, Unknown),
        "partitions": partitions,
    }


def finding_to_json(finding: Finding) -> dict[str, Json]:
    """Return one finding for programs."""
    return {
        "code": finding.code.value,
        "severity": finding.severity.value,
        "text": finding.text,
        "evidence": [
            {"file": clue.file, "expected": clue.expected, "found": clue.found}
            for clue in finding.clues
        ],
        "remedies": list(finding.remedies),
    }


def _number_to_json(number: int | Unknown) -> int | None:
    return None if isinstance(number, Unknown) else number


def to_lines(diagnosis: Diagnosis) -> Iterator[Line]:
    """Yield every line for people, without secrets."""
    return clean(_make_lines(diagnosis))


def _make_lines(diagnosis: Diagnosis) -> Iterator[Line]:
    yield from (_format_verdict(outcome) for outcome in (diagnosis, *diagnosis.others))
    yield ()
    yield from _format_restart(diagnosis.restart)
    for finding in diagnosis.findings:
        yield ()
        yield from _format_finding(finding)
    if diagnosis.not_assessed:
        yield ()
        yield (Part("Not assessed", Style.HEAD),)
        for gap in diagnosis.not_assessed:
            yield (Part(f"  {gap.question}"), Part(f"  {gap.reason}", Style.DIM))


def _format_verdict(diagnosis: Diagnosis) -> Line:
    judgement = diagnosis.judgement
    with_spark = (
        f" with Spark {versions.format_versions(diagnosis.spark_versions)}"
        if diagnosis.spark_versions
        else ""
    )
    other = diagnosis.restart.alternative
    unless = f", unless {other.condition}" if judgement is Judgement.SAFE and other else ""
    text = f"{judgement.value}{with_spark}{unless}: {_format_sentence(diagnosis)}"
    return (Part(text, JUDGEMENT_STYLES[judgement]),)


def _format_sentence(diagnosis: Diagnosis) -> str:
    restart = diagnosis.restart
    if restart.error is not None:
        return start_failure.format_sentence("a restart", restart, restart.error)
    worst = next((one for one in diagnosis.findings if one.severity is not Severity.NOTE), None)
    needs_reason = diagnosis.judgement in (Judgement.UNSAFE, Judgement.UNDEFINED)
    if worst is not None and needs_reason:
        return worst.text[:1].lower() + worst.text[1:].removesuffix(".")
    return f"a restart {_describe_restart(restart)}"


def _describe_restart(restart: Restart) -> str:
    if isinstance(restart.batch, Unknown):
        return f"cannot be predicted: {restart.batch.reason}"
    if restart.starting.continuous:
        return _describe_epoch(restart, restart.batch)
    if restart.rerun and any(isinstance(read.end, Unknown) for read in restart.ranges):
        return f"runs batch {restart.batch} again from the same start, up to the newest data"
    if restart.rerun:
        return f"runs batch {restart.batch} again over the same range"
    return _describe_new_batch(restart, restart.batch)


def _describe_new_batch(restart: Restart, batch: int) -> str:
    if restart.runs is RunForecast.SURELY:
        return f"runs the new batch {batch}"
    if restart.runs is RunForecast.NOT and restart.error is None:
        return f"never runs batch {batch}, whatever its source sends"
    return f"runs batch {batch} as soon as there is data"


def _describe_epoch(restart: Restart, epoch: int) -> str:
    if epoch == 0:
        return "starts over in continuous mode, at epoch 0, where the source starts"
    again = " again" if restart.rerun else ""
    return f"runs epoch {epoch} of continuous mode{again}, from the end of the last committed epoch"


def _format_restart(restart: Restart) -> Iterator[Line]:
    mode = ", in continuous mode" if restart.starting.continuous else ""
    version = f"Spark {restart.starting.spark}, {restart.starting.chosen_because}{mode}"
    yield (Part("Restart", Style.HEAD), Part(f"  {version}", Style.DIM))
    yield (Part(f"  {_describe_restart(restart)}"),)
    for source_range in restart.ranges:
        yield from _format_range(source_range)
    if not isinstance(restart.watermark_ms, Unknown) and restart.watermark_ms > 0:
        yield (Part(f"  watermark {words.format_time(restart.watermark_ms)} UTC"),)
    for load in restart.state:
        missing = (
            f", missing in {words.pluralize(len(load.missing), 'store')}" if load.missing else ""
        )
        yield (
            Part(f"  operator {load.operator} loads state version {load.version}"),
            Part(missing, Style.BAD),
        )
    for sink in restart.sinks:
        action = Part(f": {sink.act.value}")
        yield (Part(f"  {sink.table}"), action, Part(f"  {sink.reason}", Style.DIM))
    if not restart.sinks:
        yield (Part("  sink: unknown", Style.CAREFUL),)
    yield from (_format_error(error) for error in _list_errors(restart))
    if restart.alternative is not None:
        yield (Part(f"  or, if {restart.alternative.condition}:", Style.CAREFUL),)
        errors = _list_errors(restart.alternative.restart)
        yield from ((Part("  "), *_format_error(error)) for error in errors)


def _list_errors(restart: Restart) -> list[StartError]:
    return ([restart.error] if restart.error else []) + list(restart.later[:_MOST_LINES])


def _format_error(error: StartError) -> Line:
    name = error.condition or (error.exceptions[0] if len(error.exceptions) == 1 else "an error")
    batch = "" if isinstance(error.batch, Unknown) else f" at batch {error.batch}"
    return (
        Part(f"  fails{batch} with {name}", Style.BAD),
        Part(f", {start_failure.describe(error)}", Style.DIM),
    )


def _format_range(source_range: SourceRange) -> Iterator[Line]:
    label = f"  source {source_range.source} ({rows.format_kind(source_range)})"
    partitions = rows.list_range(source_range)
    if not partitions:
        yield (Part(f"{label} from the beginning"),)
    for change in rows.pick_partitions(partitions, _MOST_LINES):
        name = f" {change.partition}" if change.partition else ""
        open_ended = isinstance(source_range.consumed, Unknown)
        start, end = change.start or "-", change.end or "-"
        span = f" from {change.start}" if open_ended else f": {start} → {end}"
        # Two parts: offsets after a topic that is named like a secret would be redacted.
        yield (Part(f"{label}{name}"), Part(span))
    if len(partitions) > _MOST_LINES:
        more = words.pluralize(len(partitions) - _MOST_LINES, "more partition")
        yield (Part(f"  {more}", Style.DIM),)


def _format_finding(finding: Finding) -> Iterator[Line]:
    yield (
        Part(f"{finding.severity.value:<{len(_INDENT)}}", _STYLES[finding.severity]),
        Part(finding.code.value, Style.HEAD),
        Part(f"  {finding.text}"),
    )
    for clue in finding.clues:
        pair = f": expected {clue.expected}, found {clue.found}"
        yield (Part(f"{_INDENT}{clue.file}", Style.DIM), Part(pair, Style.DIM))
    for remedy in finding.remedies:
        yield (Part(f"{_INDENT}→ {remedy}"),)
