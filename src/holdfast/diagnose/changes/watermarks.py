"""Are the watermarks the same?

A checkpoint has one watermark, without the name of its column. A start uses the later one of this
watermark and the new one.
"""

from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import NOT_RECORDED, PlanWatermark


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare columns and delays."""
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
        f"The watermark changed: {text}",
        where=difference.name_record(change),
        was=_format_watermarks(old),
        now=_format_watermarks(new),
        remedies=(difference.UNDO,) if stateful else (),
    )


def _explain_change(
    old: Sequence[PlanWatermark], new: Sequence[PlanWatermark]
) -> tuple[Severity, str]:
    if not old:
        return Severity.UNDEFINED, "the rows in the state were never checked against a watermark."
    if not new:
        return Severity.UNDEFINED, "Spark no longer clears state, and no longer drops late rows."
    if [watermark.column for watermark in old] != [watermark.column for watermark in new]:
        return (
            Severity.LOSES,
            (
                "Spark keeps the time that the old column reached, and drops rows whose new column"
                " is earlier as late."
            ),
        )
    return (
        Severity.UNDEFINED,
        "Spark keeps the time that it reached. A longer delay admits no rows before that time.",
    )


def _compare_commits(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Without a record of the old query, compare with the watermark of the last commit."""
    commits = change.evidence.commit_entries
    last = commits[max(commits)].next_watermark_ms if commits else 0
    if not isinstance(last, Unknown) and last > 0 and not change.new.watermarks:
        yield difference.make_finding(
            Code.WATERMARK_CHANGED,
            Severity.UNDEFINED,
            "Spark will no longer clear state: the query had a watermark and no longer has one.",
            where=f"commits/{max(commits)}",
            was=f"a watermark of {last} ms",
            now="",
            remedies=(difference.UNDO,),
        )
    elif change.new.watermarks:
        yield NotAssessed(
            question="whether the columns and delays of the watermarks are unchanged",
            reason=NOT_RECORDED.reason,
        )


def _format_watermarks(watermarks: Sequence[PlanWatermark]) -> str:
    return ", ".join(f"{watermark.column} {watermark.delay}" for watermark in watermarks)
