"""Evidence -> lines for people: the verdict first, then the nine facts, then what stands behind.

A line is a row of parts, each with a style; the edge paints them or leaves them plain.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.model.evidence import Batches, BatchStatus, Evidence, SourceEvidence, TimelineBatch
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.source_offset import PartitionChange
from holdfast.model.state import OperatorEvidence
from holdfast.model.verdict import Level
from holdfast.report import error_line, redact, rows, verdict, words
from holdfast.report.terminal import columns

_RECENT = 12
_MOST_LINES = 8
_MOST_SCHEMA = 16
_BAR = 16
_LEFT = (1, 2)
_WIDEST = 60
_NUMBER = re.compile(r"[+-]?[\d,]*")
_LABELS = 22


class Style(StrEnum):
    """How a part of a line is meant."""

    PLAIN = "plain"
    HEAD = "head"
    GOOD = "good"
    CAREFUL = "careful"
    BAD = "bad"
    DIM = "dim"


@dataclass(frozen=True, slots=True)
class Part:
    """Some text of a line."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Part, ...]

LEVELS = {Level.GOOD: Style.GOOD, Level.CAREFUL: Style.CAREFUL, Level.BAD: Style.BAD}
STANDINGS = {
    BatchStatus.YES: Style.GOOD,
    BatchStatus.UNLOGGED: Style.GOOD,
    BatchStatus.NO: Style.CAREFUL,
    BatchStatus.MISSING: Style.CAREFUL,
    BatchStatus.COMMIT_UNREADABLE: Style.BAD,
    BatchStatus.OFFSETS_UNREADABLE: Style.BAD,
}


def to_lines(evidence: Evidence) -> Iterator[Line]:
    """Every line of the report, without secrets."""
    return clean(_make_lines(evidence))


def clean(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without secrets, and with nothing in them that a terminal would obey."""
    for line in lines:
        yield tuple(Part(redact.for_display(part.text), part.style) for part in line)


def strip_styles(lines: Iterator[Line]) -> str:
    """The lines without their styles."""
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


def _make_lines(evidence: Evidence) -> Iterator[Line]:
    found = verdict.judge(evidence)
    yield (Part(found.text, LEVELS[found.level]),)
    if driver := rows.format_driver(evidence):
        yield (Part(driver, Style.CAREFUL),)
    yield ()
    yield from format_facts(evidence)
    yield from _format_batches(evidence)
    for source in evidence.sources:
        yield ()
        yield from format_source(source)
    for operator in evidence.operators:
        yield ()
        yield from _format_operator(operator)
    yield from _format_restarts(evidence)
    yield from _format_rest(evidence)


def format_facts(evidence: Evidence) -> Iterator[Line]:
    """The nine facts, aligned."""
    for row in rows.list_facts(evidence):
        label = Part(f"  {row.name:<{_LABELS}}", Style.HEAD)
        if row.status == "known":
            where = f"  ({row.note})" if row.note else ""
            yield (label, Part(row.value), Part(where, Style.DIM))
        else:
            style = Style.BAD if row.status == "unreadable" else Style.CAREFUL
            yield (label, Part(row.status, style), Part(f"  {row.note}", Style.DIM))
        if row.inferred:
            yield (Part(" " * (_LABELS + 2)), Part(f"inferred: {row.inferred}", Style.DIM))


def _format_batches(evidence: Evidence) -> Iterator[Line]:
    shown = evidence.timeline[-_RECENT:]
    if not shown:
        return
    yield ()
    batches = evidence.batches
    yield (
        Part("Batches", Style.HEAD),
        Part(
            f"  {words.format_spans(batches.offset_spans)} planned, {_format_commits(batches)}",
            Style.DIM,
        ),
    )
    yield from _format_timeline(shown)


def _format_commits(batches: Batches) -> str:
    if batches.no_commit_log:
        return "no commit log"
    hidden = batches.unlisted_log("commits") is not None
    return f"{'not known which' if hidden else words.format_spans(batches.commit_spans)} committed"


def _format_timeline(shown: Sequence[TimelineBatch]) -> Iterator[Line]:
    heads = ("batch", "planned (UTC)", "standing", "consumed", "took")
    cells = [
        (
            str(one.batch),
            words.format_time(one.planned_ms),
            one.standing.value,
            rows.format_amount(*rows.count_consumed(one)),
            rows.format_duration(one),
        )
        for one in shown
    ]
    widths = [max(len(row[column]) for row in (heads, *cells)) for column in range(len(heads))]
    longest = max(rows.measure_ms(one) or 0 for one in shown)
    for row, one in zip((heads, *cells), (None, *shown), strict=True):
        batch, planned, standing, consumed, took = (
            f"{cell:<{width}}" if column in _LEFT else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        style = Style.DIM if one is None else Style.PLAIN
        yield (
            Part(f"  {batch}  {planned}  ", style),
            Part(standing, style if one is None else STANDINGS[one.standing]),
            Part(f"  {consumed}  {took}  ", style),
            Part("" if one is None else _draw_bar(rows.measure_ms(one), longest), Style.DIM),
        )


def _draw_bar(took: int | None, longest: int) -> str:
    return "" if took is None else "█" * max(1, round(_BAR * took / longest) if longest else 1)


def format_source(shown: SourceEvidence, *, every: bool = False) -> Iterator[Line]:
    """One source, with what lies between the batch before and the one at hand."""
    most = len(shown.consumed.partitions) + len(shown.files) if every else _MOST_LINES
    about = f"  {shown.described}" if shown.described else ""
    yield (Part(f"Source {shown.name}", Style.HEAD), Part(f"  {rows.format_kind(shown)}{about}"))
    if shown.same_as is not None:
        yield (Part(f"  {rows.format_same_source(shown)}", Style.DIM),)
    yield (Part(f"  {rows.format_consumed(shown)}", Style.DIM),)
    partitions = shown.consumed.partitions
    yield from _format_partitions(rows.pick_partitions(partitions, most))
    if len(partitions) > most:
        more = words.pluralize(len(partitions) - most, "more partition")
        yield (Part(f"  {more}", Style.DIM),)
    for path in shown.files[:most]:
        yield (Part(f"  {path}"),)
    left_out = rows.format_files_left_out(shown, most)
    if left_out:
        yield (Part(f"  {left_out}", Style.DIM),)


def _format_partitions(shown: Sequence[PartitionChange]) -> Iterator[Line]:
    # Escapes make a text longer: they have to be there before it is aligned.
    names = _align([redact.for_display(one.partition) for one in shown])
    starts = _align([redact.for_display(one.start) or "-" for one in shown])
    ends = _align([redact.for_display(one.end) or "-" for one in shown])
    counts = _align([f"{one.count:+,}" if isinstance(one.count, int) else "" for one in shown])
    for one, name, *cells in zip(shown, names, starts, ends, counts, strict=True):
        start, end, count = cells
        went = [part for part in (name, f"{start} → {end}", count) if part]
        style = Style.BAD if one.change in rows.LOST_GROUND else Style.DIM
        yield (Part(f"  {'  '.join(went)}"), Part(f"  {one.change.value}", style))


def _align(cells: Sequence[str]) -> list[str]:
    """Cells of one width, numbers to the right and texts to the left, unless one is long."""
    width = max((columns.measure(cell) for cell in cells), default=0)
    if width > _WIDEST:
        return list(cells)
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        return [columns.align_right(cell, width) for cell in cells]
    return [columns.align_left(cell, width) for cell in cells]


def _format_operator(shown: OperatorEvidence) -> Iterator[Line]:
    name = shown.name.value if isinstance(shown.name, Known) else "name unknown"
    yield (Part(f"Operator {shown.operator}", Style.HEAD), Part(f"  {name}"))
    yield (Part(f"  {rows.format_state(shown)}"),)
    if behind := rows.format_stores_behind(shown):
        yield (Part(f"  {behind}", Style.CAREFUL),)
    schema = list(rows.list_schema(shown))
    for store, family, key, value in schema[:_MOST_SCHEMA]:
        label = store if family == "default" else f"{store}/{family}"
        yield (Part(f"  {label}: ", Style.DIM), Part(f"({key}) → ({value})"))
    if len(schema) > _MOST_SCHEMA:
        more = words.pluralize(
            len(schema) - _MOST_SCHEMA, "more column family", "more column families"
        )
        yield (Part(f"  {more}", Style.DIM),)


def _format_restarts(evidence: Evidence) -> Iterator[Line]:
    history = evidence.restart_history
    if not isinstance(history, Known) or not history.value:
        return
    yield ()
    yield (Part("Restarts", Style.HEAD), Part("  times in UTC", Style.DIM))
    if len(history.value) > _MOST_LINES:
        yield (Part(f"  {len(history.value) - _MOST_LINES:,} before these", Style.DIM),)
    for start in history.value[-_MOST_LINES:]:
        first = "" if start.first_batch is None else f"  from batch {start.first_batch}"
        version = f"  Spark {start.spark_version}" if start.spark_version else ""
        yield (
            Part(f"  {words.format_time(start.at_ms):<19}  {start.sign.value}{first}{version}"),
            Part(f"  {start.note}", Style.DIM),
        )
        if start.error:
            yield (Part(f"    {error_line.extract(start.error)}", Style.BAD),)


def _format_rest(evidence: Evidence) -> Iterator[Line]:
    for ledger in evidence.ledgers:
        batch = (
            ledger.batch.reason
            if isinstance(ledger.batch, Absent | Unknown)
            else f"last batch {ledger.batch}"
        )
        yield ()
        yield (Part("Sink's ledger", Style.HEAD), Part(f"  {ledger.table}: {batch} {ledger.note}"))
    yield ()
    count = sum(amount.count for amount in evidence.files.values())
    total = sum(amount.bytes for amount in evidence.files.values())
    yield (
        Part("Files", Style.HEAD),
        Part(
            f"  {words.pluralize(count, 'file')}, {words.format_size(total)}:"
            f" {_format_kinds(evidence)}"
        ),
    )
    yield from _format_list("Nested checkpoints", evidence.nested, Style.CAREFUL)
    foreign, more = evidence.foreign, rows.count_unnamed_foreign(evidence)
    yield from _format_list("Not of this checkpoint", foreign, Style.DIM, more=more)
    unread = [f"{one.path}: {one.reason}" for one in evidence.unreadable]
    yield from _format_list("Unreadable", unread, Style.BAD, more=evidence.unreadable_more)


def _format_kinds(evidence: Evidence) -> str:
    return ", ".join(f"{amount.count:,} {kind.value}" for kind, amount in evidence.files.items())


def _format_list(name: str, shown: Sequence[str], style: Style, *, more: int = 0) -> Iterator[Line]:
    if not shown:
        return
    yield (Part(name, Style.HEAD),)
    for one in shown[:_MOST_LINES]:
        yield (Part(f"  {one}", style),)
    left = len(shown) - _MOST_LINES + more
    if left > 0:
        yield (Part(f"  and {left:,} more", Style.DIM),)


def format_settings_changed(shown: Mapping[str, tuple[str, str]]) -> Iterator[Line]:
    """Settings that differ between two batches; only that they do, where they are secret."""
    for key, (old, new) in shown.items():
        if redact.is_secret(key):
            yield (Part(f"  {key}: ", Style.DIM), Part(redact.REDACTED, Style.CAREFUL))
            continue
        yield (Part(f"  {key}: ", Style.DIM), Part(f"{old or '-'} → {new or '-'}", Style.CAREFUL))
