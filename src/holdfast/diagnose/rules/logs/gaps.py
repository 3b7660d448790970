"""Are entries missing inside a log?

A restart reads only the latest entry and the one before it. Gaps further back stop nothing: they
show that somebody removed entries, or that progress was tracked asynchronously.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import Span, spans_contain
from holdfast.predict import start_errors

_MOST_LISTED = 8


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield the gaps in either log."""
    batches = given.evidence.batches
    planned = batches.last_planned
    before = None if planned is None else planned - 1
    start = given.restart.starting
    needed = before is not None and before >= 0 and not start.asynchronous and not start.continuous
    if needed and before is not None and not spans_contain(batches.offset_spans, before):
        old = start.spark < start_errors.NEEDS_ENTRY_BEFORE_SINCE
        yield _make_beginning_finding(before) if old else _make_missing_finding(before)
    # This entry has a finding of its own, because a restart does read it.
    reported = batches.last_committed if start.continuous else before if needed else None
    yield from _find_gaps(Code.OFFSET_GAP, "offsets", batches.missing_offsets, reported)
    yield from _find_gaps(Code.COMMIT_GAP, "commits", batches.missing_commits, None)


def _make_missing_finding(before: int) -> Finding:
    path = f"offsets/{before}"
    return Finding(
        code=Code.OFFSET_BEFORE_MISSING,
        severity=Severity.BLOCKS,
        text=f"A restart will fail: `{path}` is missing, and Spark needs it together with the"
        " latest entry.",
        clues=(Clue(file=path, expected="the end of the batch before", found="no such file"),),
        remedies=(
            f"restore `{path}` from a copy of the checkpoint",
            "or start once with asynchronous progress tracking, if the query ran that way",
        ),
    )


def _make_beginning_finding(before: int) -> Finding:
    """Return the finding for Spark 2.1, which starts without the entry.

    It has no asynchronous progress tracking, so that remedy does not apply.
    """
    finding = _make_missing_finding(before)
    return replace(
        finding,
        severity=Severity.DUPLICATES,
        text="A restart with Spark 2.1 will read every source from its beginning, in one batch:"
        f" `offsets/{before}` is missing.",
        remedies=finding.remedies[:1],
    )


def _find_gaps(
    code: Code, log: str, gaps: Sequence[Span], reported: int | None
) -> Iterator[Finding]:
    """Yield one finding for all gaps of a log.

    Asynchronous tracking leaves a gap before nearly every entry.
    """
    gaps = [replace(gap, last=gap.last - (gap.last == reported)) for gap in gaps]
    gaps = [gap for gap in gaps if gap.first <= gap.last]
    if not gaps:
        return
    first, last = gaps[0].first, gaps[0].last
    single = first == last
    entries = f"`{log}/{first}`" if single else f"`{log}/{first}` to `{log}/{last}`"
    more = " and others" if len(gaps) > 1 else ""
    total = f" ({len(gaps):,} gaps in all)" if more else ""
    missing = "is missing" if single and not more else "are missing"
    yield Finding(
        code=code,
        severity=Severity.NOTE,
        text=f"{entries}{more} {missing}{total}, although later entries exist. A restart does not"
        f" read {'it' if single and not more else 'them'}.",
        clues=tuple(
            Clue(file=f"{log}/{gap.first}", expected="an entry", found="no such file")
            for gap in gaps[:_MOST_LISTED]
        ),
        remedies=(),
    )
