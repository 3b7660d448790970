"""Evidence -> lines: the verdict first, then the nine facts, then the details behind them."""

import re
from collections.abc import Iterator, Sequence

from holdfast.model.evidence import Batches, Evidence, SourceEvidence, TimelineBatch
from holdfast.model.fact import Known
from holdfast.model.source_offset import PartitionChange
from holdfast.model.state import OperatorEvidence
from holdfast.report import error_line, redact, rows, verdict, words
from holdfast.report.terminal import columns
from holdfast.report.terminal.lines import LEVELS, STATUSES, Line, Part, Style, clean

_RECENT = 12
_MOST_LINES = 8
_MOST_SCHEMA = 16
_BAR = 16
_LEFT = (1, 2)
_WIDEST = 60
_NUMBER = re.compile(r"[+-]?[\d,]*")
_LABELS = 22


def to_lines(evidence: Evidence) -> Iterator[Line]:
    """Yield every line of the report, without secrets."""
    return clean(_make_lines(evidence))


def _make_lines(evidence: Evidence) -> Iterator[Line]:
    judged = verdict.judge(evidence)
    yield (Part(judged.text, LEVELS[judged.level]),)
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
    """Yield the nine facts, aligned."""
    for row in rows.list_facts(evidence):
        label = Part(f"  {row.name:<{_LABELS}}", Style.HEAD)
        if row.status == "known":
            files = f"  ({row.note})" if row.note else ""
            yield (label, Part(row.value), Part(files, Style.DIM))
        else:
            style = Style.BAD if row.status == "unreadable" else Style.CAREFUL
            yield (label, Part(row.status, style), Part(f"  {row.note}", Style.DIM))
        if row.inferred:
            yield (Part(" " * (_LABELS + 2)), Part(f"inferred: {row.inferred}", Style.DIM))


def _format_batches(evidence: Evidence) -> Iterator[Line]:
    recent = evidence.timeline[-_RECENT:]
    if not recent:
        return
    yield ()
    batches = evidence.batches
    planned = words.format_spans(batches.offset_spans)
    yield (
        Part("Batches", Style.HEAD),
        Part(f"  {planned} planned, {_format_commits(batches)}", Style.DIM),
    )
    yield from _format_timeline(recent)


def _format_commits(batches: Batches) -> str:
    if batches.no_commit_log:
        return "no commit log"
    if batches.unlisted_log("commits") is not None:
        return "commits unknown"
    return f"{words.format_spans(batches.commit_spans)} committed"


def _format_timeline(batches: Sequence[TimelineBatch]) -> Iterator[Line]:
    heads = ("batch", "planned (UTC)", "status", "consumed", "duration")
    cells = [
        (
            str(batch.batch),
            words.format_time(batch.planned_ms),
            batch.standing.value,
            rows.format_amount(*rows.count_consumed(batch)),
            rows.format_duration(batch),
        )
        for batch in batches
    ]
    widths = [max(len(row[column]) for row in (heads, *cells)) for column in range(len(heads))]
    longest = max(rows.measure_ms(batch) or 0 for batch in batches)
    for row, batch in zip((heads, *cells), (None, *batches), strict=True):
        number, planned, status, consumed, duration = (
            f"{cell:<{width}}" if column in _LEFT else f"{cell:>{width}}"
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        style = Style.DIM if batch is None else Style.PLAIN
        yield (
            Part(f"  {number}  {planned}  ", style),
            Part(status, style if batch is None else STATUSES[batch.standing]),
            Part(f"  {consumed}  {duration}  ", style),
            Part("" if batch is None else _draw_bar(rows.measure_ms(batch), longest), Style.DIM),
        )


def _draw_bar(ms: int | None, longest: int) -> str:
    return "" if ms is None else "█" * max(1, round(_BAR * ms / longest) if longest else 1)


def format_source(source: SourceEvidence, *, every: bool = False) -> Iterator[Line]:
    """Yield one source and what its range contains; `every`: all partitions and files of it."""
    most = len(source.consumed.partitions) + len(source.files) if every else _MOST_LINES
    about = f"  {source.described}" if source.described else ""
    yield (Part(f"Source {source.name}", Style.HEAD), Part(f"  {rows.format_kind(source)}{about}"))
    if source.same_as is not None:
        yield (Part(f"  {rows.format_same_source(source)}", Style.DIM),)
    yield (Part(f"  {rows.format_consumed(source)}", Style.DIM),)
    partitions = source.consumed.partitions
    yield from _format_partitions(rows.pick_partitions(partitions, most))
    if len(partitions) > most:
        more = words.pluralize(len(partitions) - most, "more partition")
        yield (Part(f"  {more}", Style.DIM),)
    for path in source.files[:most]:
        yield (Part(f"  {path}"),)
    left_out = rows.format_files_left_out(source, most)
    if left_out:
        yield (Part(f"  {left_out}", Style.DIM),)


def _format_partitions(changes: Sequence[PartitionChange]) -> Iterator[Line]:
    # Escaping makes a text longer, so it happens before the alignment.
    names = _align([redact.for_display(change.partition) for change in changes])
    starts = _align([redact.for_display(change.start) or "-" for change in changes])
    ends = _align([redact.for_display(change.end) or "-" for change in changes])
    counts = _align([f"{c.count:+,}" if isinstance(c.count, int) else "" for c in changes])
    for change, name, *cells in zip(changes, names, starts, ends, counts, strict=True):
        start, end, count = cells
        parts = [part for part in (name, f"{start} → {end}", count) if part]
        style = Style.BAD if change.change in rows.LOST_GROUND else Style.DIM
        yield (Part(f"  {'  '.join(parts)}"), Part(f"  {change.change.value}", style))


def _align(cells: Sequence[str]) -> list[str]:
    """Return cells of the same width: numbers to the right, texts to the left, long ones as is."""
    width = max((columns.measure(cell) for cell in cells), default=0)
    if width > _WIDEST:
        return list(cells)
    if all(_NUMBER.fullmatch(cell) for cell in cells):
        return [columns.align_right(cell, width) for cell in cells]
    return [columns.align_left(cell, width) for cell in cells]


def _format_operator(operator: OperatorEvidence) -> Iterator[Line]:
    name = operator.name.value if isinstance(operator.name, Known) else "name unknown"
    yield (Part(f"Operator {operator.operator}", Style.HEAD), Part(f"  {name}"))
    yield (Part(f"  {rows.format_state(operator)}"),)
    if behind := rows.format_stores_behind(operator):
        yield (Part(f"  {behind}", Style.CAREFUL),)
    schema = list(rows.list_schema(operator))
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
        yield (Part(f"  {len(history.value) - _MOST_LINES:,} earlier", Style.DIM),)
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
        yield ()
        entry = f"  {ledger.table}: {rows.format_ledger(ledger)}"
        yield (Part("Sink ledger", Style.HEAD), Part(entry))
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
    yield from _format_list("Not part of this checkpoint", foreign, Style.DIM, more=more)
    unread = [f"{file.path}: {file.reason}" for file in evidence.unreadable]
    yield from _format_list("Unreadable", unread, Style.BAD, more=evidence.unreadable_more)


def _format_kinds(evidence: Evidence) -> str:
    return ", ".join(f"{amount.count:,} {kind.value}" for kind, amount in evidence.files.items())


def _format_list(name: str, texts: Sequence[str], style: Style, *, more: int = 0) -> Iterator[Line]:
    if not texts:
        return
    yield (Part(name, Style.HEAD),)
    for text in texts[:_MOST_LINES]:
        yield (Part(f"  {text}", style),)
    left = len(texts) - _MOST_LINES + more
    if left > 0:
        yield (Part(f"  and {left:,} more", Style.DIM),)
