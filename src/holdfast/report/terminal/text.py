"""Evidence -> lines for people: the verdict first, then the nine facts, then what stands behind.

A line is a row of parts, each with a style; the edge paints them or leaves them plain.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.model.evidence import Batches, BatchSeen, Committed, Evidence, SourceSeen
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.source_offset import PartitionChange
from holdfast.model.state import OperatorSeen
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
    Committed.YES: Style.GOOD,
    Committed.UNLOGGED: Style.GOOD,
    Committed.NO: Style.CAREFUL,
    Committed.MISSING: Style.CAREFUL,
    Committed.COMMIT_UNREADABLE: Style.BAD,
    Committed.OFFSETS_UNREADABLE: Style.BAD,
}


def of(evidence: Evidence) -> Iterator[Line]:
    """Every line of the report, without secrets."""
    return clean(_lines(evidence))


def clean(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without secrets, and with nothing in them that a terminal would obey."""
    for line in lines:
        yield tuple(Part(redact.shown(part.text), part.style) for part in line)


def plain(lines: Iterator[Line]) -> str:
    """The lines without their styles."""
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)


def _lines(evidence: Evidence) -> Iterator[Line]:
    found = verdict.of(evidence)
    yield (Part(found.text, LEVELS[found.level]),)
    if driver := rows.driver(evidence):
        yield (Part(driver, Style.CAREFUL),)
    yield ()
    yield from facts(evidence)
    yield from _batches(evidence)
    for source in evidence.sources:
        yield ()
        yield from of_source(source)
    for operator in evidence.operators:
        yield ()
        yield from _operator(operator)
    yield from _restarts(evidence)
    yield from _rest(evidence)


def facts(evidence: Evidence) -> Iterator[Line]:
    """The nine facts, aligned."""
    for row in rows.facts(evidence):
        label = Part(f"  {row.name:<{_LABELS}}", Style.HEAD)
        if row.status == "known":
            where = f"  ({row.note})" if row.note else ""
            yield (label, Part(row.value), Part(where, Style.DIM))
        else:
            style = Style.BAD if row.status == "unreadable" else Style.CAREFUL
            yield (label, Part(row.status, style), Part(f"  {row.note}", Style.DIM))
        if row.inferred:
            yield (Part(" " * (_LABELS + 2)), Part(f"inferred: {row.inferred}", Style.DIM))


def _batches(evidence: Evidence) -> Iterator[Line]:
    shown = evidence.timeline[-_RECENT:]
    if not shown:
        return
    yield ()
    batches = evidence.batches
    yield (
        Part("Batches", Style.HEAD),
        Part(
            f"  {words.spans(batches.offset_spans)} planned, {_commits(batches)}",
            Style.DIM,
        ),
    )
    yield from _timeline(shown)


def _commits(batches: Batches) -> str:
    if batches.no_commit_log:
        return "no commit log"
    hidden = batches.unlisted_log("commits") is not None
    return f"{'not known which' if hidden else words.spans(batches.commit_spans)} committed"


def _timeline(shown: Sequence[BatchSeen]) -> Iterator[Line]:
    heads = ("batch", "planned (UTC)", "standing", "consumed", "took")
    cells = [
        (
            str(one.batch),
            words.moment(one.planned_ms),
            one.standing.value,
            rows.amount(*rows.consumed(one)),
            rows.took(one),
        )
        for one in shown
    ]
    widths = [max(len(row[column]) for row in (heads, *cells)) for column in range(len(heads))]
    longest = max(rows.took_ms(one) or 0 for one in shown)
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
            Part("" if one is None else _bar(rows.took_ms(one), longest), Style.DIM),
        )


def _bar(took: int | None, longest: int) -> str:
    return "" if took is None else "█" * max(1, round(_BAR * took / longest) if longest else 1)


def of_source(shown: SourceSeen, *, every: bool = False) -> Iterator[Line]:
    """One source, with what lies between the batch before and the one at hand."""
    most = len(shown.consumed.partitions) + len(shown.files) if every else _MOST_LINES
    about = f"  {shown.described}" if shown.described else ""
    yield (Part(f"Source {shown.name}", Style.HEAD), Part(f"  {rows.kind(shown)}{about}"))
    if shown.same_as is not None:
        yield (Part(f"  {rows.same_as(shown)}", Style.DIM),)
    yield (Part(f"  {rows.gave(shown)}", Style.DIM),)
    partitions = shown.consumed.partitions
    yield from _partitions(rows.partitions(partitions, most))
    if len(partitions) > most:
        more = words.plural(len(partitions) - most, "more partition")
        yield (Part(f"  {more}", Style.DIM),)
    for path in shown.files[:most]:
        yield (Part(f"  {path}"),)
    left_out = rows.files_left_out(shown, most)
    if left_out:
        yield (Part(f"  {left_out}", Style.DIM),)


def _partitions(shown: Sequence[PartitionChange]) -> Iterator[Line]:
    # Escapes make a text longer: they have to be there before it is aligned.
    names = _aligned([redact.shown(one.partition) for one in shown])
    starts = _aligned([redact.shown(one.start) or "-" for one in shown])
    ends = _aligned([redact.shown(one.end) or "-" for one in shown])
    counts = _aligned([f"{one.count:+,}" if isinstance(one.count, int) else "" for one in shown])
    for one, name, *cells in zip(shown, names, starts, ends, counts, strict=True):
        start, end, count = cells
        went = [part for part in (name, f"{start} → {end}", count) if part]
        style = Style.BAD if one.change in rows.LOST_GROUND else Style.DIM
        yield (Part(f"  {'  '.join(went)}"), Part(f"  {one.change.value}", style))


def _aligned(cells: Sequence[str]) -> list[str]:
    """Cells of one width, numbers to the right and texts to the left, unless one is long."""
    width = max((columns.width(cell) for cell in cells), default=0)
    if width > _WIDEST:
        return list(cells)
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        return [columns.right(cell, width) for cell in cells]
    return [columns.left(cell, width) for cell in cells]


def _operator(shown: OperatorSeen) -> Iterator[Line]:
    name = shown.name.value if isinstance(shown.name, Known) else "name unknown"
    yield (Part(f"Operator {shown.operator}", Style.HEAD), Part(f"  {name}"))
    yield (Part(f"  {rows.state(shown)}"),)
    if behind := rows.behind(shown):
        yield (Part(f"  {behind}", Style.CAREFUL),)
    schema = list(rows.schema(shown))
    for store, family, key, value in schema[:_MOST_SCHEMA]:
        label = store if family == "default" else f"{store}/{family}"
        yield (Part(f"  {label}: ", Style.DIM), Part(f"({key}) → ({value})"))
    if len(schema) > _MOST_SCHEMA:
        more = words.plural(
            len(schema) - _MOST_SCHEMA, "more column family", "more column families"
        )
        yield (Part(f"  {more}", Style.DIM),)


def _restarts(evidence: Evidence) -> Iterator[Line]:
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
            Part(f"  {words.moment(start.at_ms):<19}  {start.sign.value}{first}{version}"),
            Part(f"  {start.note}", Style.DIM),
        )
        if start.error:
            yield (Part(f"    {error_line.line(start.error)}", Style.BAD),)


def _rest(evidence: Evidence) -> Iterator[Line]:
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
        Part(f"  {words.plural(count, 'file')}, {words.size(total)}: {_kinds(evidence)}"),
    )
    yield from _listed("Nested checkpoints", evidence.nested, Style.CAREFUL)
    foreign, more = evidence.foreign, rows.foreign_more(evidence)
    yield from _listed("Not of this checkpoint", foreign, Style.DIM, more=more)
    unread = [f"{one.path}: {one.reason}" for one in evidence.unreadable]
    yield from _listed("Unreadable", unread, Style.BAD, more=evidence.unreadable_more)


def _kinds(evidence: Evidence) -> str:
    return ", ".join(f"{amount.count:,} {kind.value}" for kind, amount in evidence.files.items())


def _listed(name: str, shown: Sequence[str], style: Style, *, more: int = 0) -> Iterator[Line]:
    if not shown:
        return
    yield (Part(name, Style.HEAD),)
    for one in shown[:_MOST_LINES]:
        yield (Part(f"  {one}", style),)
    left = len(shown) - _MOST_LINES + more
    if left > 0:
        yield (Part(f"  and {left:,} more", Style.DIM),)


def settings_changed(shown: Mapping[str, tuple[str, str]]) -> Iterator[Line]:
    """Settings that differ between two batches; only that they do, where they are secret."""
    for key, (old, new) in shown.items():
        if redact.is_secret(key):
            yield (Part(f"  {key}: ", Style.DIM), Part(redact.REDACTED, Style.CAREFUL))
            continue
        yield (Part(f"  {key}: ", Style.DIM), Part(f"{old or '-'} → {new or '-'}", Style.CAREFUL))
