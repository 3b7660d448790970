"""Stage 3: are the watermarks the same?

A checkpoint holds one watermark, of no column, and a start takes the later one of it and the new.
"""

from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import PlanWatermark


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Columns and delays."""
    new = change.new.watermarks
    if change.old is None:
        yield from _compare_commits(change)
        return
    old = change.old.watermarks
    if set(old) == set(new):
        return
    stateful = bool(change.new.operators)
    severity, text = (
        _explain_change(old, new) if stateful else (Severity.NOTE, "no state depends on it.")
    )
    yield difference.make_finding(
        Code.WATERMARK_CHANGED,
        severity,
        f"The watermark is another one: {text}",
        where=difference.name_record(change),
        was=_format_watermarks(old),
        now=_format_watermarks(new),
        remedies=(difference.TAKE_BACK,) if stateful else (),
    )


def _explain_change(
    old: Sequence[PlanWatermark], new: Sequence[PlanWatermark]
) -> tuple[Severity, str]:
    if not old:
        return Severity.UNDEFINED, "what is in the state already was never held against one."
    if not new:
        return Severity.UNDEFINED, "state is not cleared any more, and late rows are not dropped."
    if [one.column for one in old] != [one.column for one in new]:
        return (
            Severity.LOSES,
            (
                "the time that was reached stays, and rows that are earlier by the new column are"
                " dropped as late."
            ),
        )
    return (
        Severity.UNDEFINED,
        "the time that was reached stays; a longer delay lets no row in that it has passed.",
    )


def _compare_commits(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    commits = change.evidence.commit_entries
    reached = [one.next_watermark_ms for one in commits.values()]
    known = [one for one in reached if not isinstance(one, Unknown)]
    last = commits[max(commits)].next_watermark_ms if commits else 0
    if known and not isinstance(last, Unknown) and last > 0 and not change.new.watermarks:
        yield difference.make_finding(
            Code.WATERMARK_CHANGED,
            Severity.UNDEFINED,
            "The query had a watermark and has none any more: state is not cleared.",
            where=f"commits/{max(commits)}",
            was=f"a watermark of {last} ms",
            now="",
            remedies=(difference.TAKE_BACK,),
        )
    elif change.new.watermarks:
        yield NotAssessed(
            question="whether columns and delays of the watermarks are the old ones",
            reason="no run record holds the plan of the query",
        )


def _format_watermarks(watermarks: Sequence[PlanWatermark]) -> str:
    return ", ".join(f"{one.column} {one.delay}" for one in watermarks)
