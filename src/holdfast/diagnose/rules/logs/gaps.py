"""Stage 3: are entries missing inside a log?

Only the entry before the latest one is read by a start; gaps further back are a sign that somebody
has been there, or of asynchronous progress tracking, and stop nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import Span, spans_contain
from holdfast.predict import start_errors

_MOST_TOLD = 8


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Gaps in either log."""
    batches = seen.evidence.batches
    planned = batches.last_planned
    before = None if planned is None else planned - 1
    how = seen.restart.starting
    needed = before is not None and before >= 0 and not how.asynchronous and not how.continuous
    if needed and before is not None and not spans_contain(batches.offset_spans, before):
        old = how.spark < start_errors.ENTRY_BEFORE_NEEDED
        yield _make_beginning_finding(before) if old else _make_missing_finding(before)
    told = batches.last_committed if how.continuous else before if needed else None
    yield from _find_gaps(Code.OFFSET_GAP, "offsets", batches.missing_offsets, told)
    yield from _find_gaps(Code.COMMIT_GAP, "commits", batches.missing_commits, None)


def _make_missing_finding(before: int) -> Finding:
    path = f"offsets/{before}"
    return Finding(
        code=Code.OFFSET_BEFORE_MISSING,
        severity=Severity.BLOCKS,
        text=f"`{path}` is missing, and a start needs it beside the latest entry.",
        clues=(Clue(file=path, expected="the end of the batch before", found="no such file"),),
        remedies=(
            f"restore `{path}` from a copy of the checkpoint",
            "or start once with asynchronous progress tracking, if that is how it ran",
        ),
    )


def _make_beginning_finding(before: int) -> Finding:
    """Spark 2.1 knows no asynchronous tracking, and does not ask for the entry."""
    needed = _make_missing_finding(before)
    return replace(
        needed,
        severity=Severity.DUPLICATES,
        text=f"`offsets/{before}` is missing: Spark 2.1 then reads every source from its beginning,"
        " in one batch.",
        remedies=needed.remedies[:1],
    )


def _find_gaps(code: Code, log: str, seen: Sequence[Span], told: int | None) -> Iterator[Finding]:
    """The gaps of a log, together: asynchronous tracking leaves one before nearly every entry."""
    # The entry before the latest has a finding of its own, for a start does look there.
    gaps = [replace(gap, last=gap.last - (gap.last == told)) for gap in seen]
    gaps = [gap for gap in gaps if gap.first <= gap.last]
    if not gaps:
        return
    first, last = gaps[0].first, gaps[0].last
    one = first == last
    entries = f"`{log}/{first}`" if one else f"`{log}/{first}` to `{log}/{last}`"
    more = f" and others, with {len(gaps):,} gaps in all," if len(gaps) > 1 else ""
    are = "is" if one and not more else "are"
    yield Finding(
        code=code,
        severity=Severity.NOTE,
        text=f"{entries}{more} {are} missing, and later ones are there; a start does not look"
        " there.",
        clues=tuple(
            Clue(file=f"{log}/{gap.first}", expected="an entry", found="no such file")
            for gap in gaps[:_MOST_TOLD]
        ),
        remedies=(),
    )
