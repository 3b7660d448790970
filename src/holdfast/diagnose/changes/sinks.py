"""Do the same sinks get the same kind of output?

No checkpoint names its sink. A new sink lacks everything that was written before.
"""

import re
from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference
from holdfast.model.fact import Known
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import PlanSink

_FILES = frozenset({"FileSink", "parquet", "json", "csv", "orc", "text"})
_STREAMS = frozenset({"kafka"})
# How Spark names its own sinks: `FileSink[file:/data/out]`, `DeltaSink[/lake/orders]`.
_NAMED = re.compile(r"(?P<kind>Delta|File)Sink\[(?P<path>.+)\]")


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare the sinks and the output mode."""
    yield from _compare_sinks(change)
    yield from _compare_mode(change)


def _compare_sinks(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    old, new = change.old, change.new.sinks
    if not new:
        yield _make_not_assessed("the new query does not name its sink")
        return
    if old is None or not old.sinks:
        yield from _compare_by_name(change, new)
        return
    if old.sinks == new:
        return
    yield _make_change_finding(new, difference.name_record(change), _format_sinks(old.sinks))


def _make_not_assessed(reason: str) -> NotAssessed:
    return NotAssessed(question="whether the sink is the same as before", reason=reason)


def _compare_by_name(
    change: QueryChange, new: Sequence[PlanSink]
) -> Iterator[Finding | NotAssessed]:
    """Compare with the sink that Spark named when the query ran without a fingerprint."""
    sink = change.evidence.sink
    if not isinstance(sink, Known):
        yield _make_not_assessed("a checkpoint does not name its sink, and no run record does")
        return
    named = _NAMED.fullmatch(sink.value)
    was = f"the run record names the sink `{sink.value}`"
    if named is None or len(new) > 1:
        yield _make_not_assessed(f"{was}, which cannot be compared with `{_format_sinks(new)}`")
        return
    kind, path = named["kind"].lower(), _normalize_path(named["path"])
    now = "file" if new[0].kind in _FILES else new[0].kind.lower()
    if kind == now and not new[0].target:
        yield _make_not_assessed(f"{was}, and the new query does not say where it writes")
    elif (kind, path) != (now, _normalize_path(new[0].target)):
        yield _make_change_finding(new, sink.read_from[0], sink.value)


def _normalize_path(path: str) -> str:
    """Return a path in one spelling per folder."""
    return re.sub(r"^file:/*(?=/)", "", path).rstrip("/").replace("s3a://", "s3://")


def _make_change_finding(new: Sequence[PlanSink], where: str, was: str) -> Finding:
    severity, text = _explain_change(new)
    return difference.make_finding(
        Code.SINK_CHANGED,
        severity,
        "The new sink will lack everything that was written before, and get only later"
        f" batches{text}",
        where=where,
        was=was,
        now=_format_sinks(new),
        remedies=()
        if severity is Severity.NOTE
        else (
            difference.UNDO,
            "accept the change, if the new sink already has the batches that are done",
        ),
    )


def _explain_change(new: Sequence[PlanSink]) -> tuple[Severity, str]:
    """Return what Spark's documentation says about a new sink of this kind."""
    if any(sink.kind in _FILES for sink in new):
        return (
            Severity.LOSES,
            "; Spark cannot read the folder of a file sink that does not begin with batch 0.",
        )
    if all(sink.kind in _STREAMS for sink in new):
        return Severity.NOTE, ", which Spark allows for a Kafka topic."
    return Severity.UNDEFINED, "."


def _compare_mode(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    recorded = change.evidence.output_mode
    was = change.old.output_mode if change.old is not None else ""
    if not was and isinstance(recorded, Known):
        was = recorded.value
    now = change.new.output_mode
    if not was:
        yield NotAssessed(
            question="whether the output mode is unchanged",
            reason="neither the checkpoint nor a run record contains it",
        )
    elif was != now:
        stateful = bool(change.new.operators)
        yield difference.make_finding(
            Code.OUTPUT_MODE_CHANGED,
            Severity.UNDEFINED if stateful else Severity.NOTE,
            "The output mode changed: "
            + (
                "Spark does not correct rows that the old mode held back or already wrote."
                if stateful
                else "without state, both modes give the same rows."
            ),
            where=difference.name_record(change)
            if change.old is not None
            else _name_mode_file(change),
            was=was,
            now=now,
            remedies=(difference.UNDO,) if stateful else (),
        )


def _name_mode_file(change: QueryChange) -> str:
    """Return the file that records the output mode."""
    mode = change.evidence.output_mode
    return mode.read_from[0] if isinstance(mode, Known) else ""


def _format_sinks(sinks: Sequence[PlanSink]) -> str:
    return "; ".join(f"{sink.kind} {sink.target}".strip() for sink in sinks)
