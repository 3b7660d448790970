"""Evidence -> one HTML file that needs nothing else: style and charts are inside, no script."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import dropwhile

from holdfast.model.evidence import BatchStatus, Evidence, SourceEvidence, TimelineBatch
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.state import OperatorEvidence
from holdfast.model.version import VERSION
from holdfast.report import error_line, redact, rows, verdict, words
from holdfast.report.html import charts, style
from holdfast.report.html.charts import ChartBar

_CODE = re.compile("`([^`]+)`")
_MOST_PARTITIONS = 200
_MOST_BATCHES = 101
_MOST_LISTED = 12
_STANDINGS = {
    BatchStatus.YES: "good",
    BatchStatus.UNLOGGED: "good",
    BatchStatus.NO: "careful",
    BatchStatus.MISSING: "careful",
    BatchStatus.COMMIT_UNREADABLE: "bad",
    BatchStatus.OFFSETS_UNREADABLE: "bad",
}


def render(evidence: Evidence) -> str:
    """The whole page, without secrets."""
    name = _escape(evidence.location.value.rpartition("/")[2] or evidence.location.value)
    body = "\n".join(_render_sections(evidence))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: checkpoint</title>\n<style>\n{style.PAGE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _render_sections(evidence: Evidence) -> Iterator[str]:
    found = verdict.judge(evidence)
    yield f"<header><h1>{_escape(evidence.location.value)}</h1>"
    yield f'<p class="verdict {found.level.value}">{_mark_code(found.text)}</p>'
    driver = rows.format_driver(evidence)
    yield f'<p class="careful">{_escape(driver)}</p></header>' if driver else "</header>"
    yield _render_numbers(evidence)
    yield _render_section("Nine facts", _render_facts(evidence))
    yield from _render_batches(evidence.timeline[-_MOST_BATCHES:])
    for source in evidence.sources:
        yield _render_source(source)
    for operator in evidence.operators:
        yield _render_operator(operator)
    yield from _render_restarts(evidence)
    yield from _render_rest(evidence)
    looked = words.format_time(evidence.observed_ms)
    yield f"<footer>holdfast {VERSION}, looked at {looked} UTC. Nothing was changed.</footer>"


def _render_numbers(evidence: Evidence) -> str:
    amounts = evidence.files.values()
    batches = evidence.batches
    told = (
        ("last planned", "-" if batches.last_planned is None else str(batches.last_planned)),
        ("last committed", "-" if batches.last_committed is None else str(batches.last_committed)),
        ("pending", f"{len(batches.pending):,}"),
        ("files", f"{sum(one.count for one in amounts):,}"),
        ("size", words.format_size(sum(one.bytes for one in amounts))),
        ("unreadable", f"{len(evidence.unreadable) + evidence.unreadable_more:,}"),
    )
    cells = "".join(
        f"<div><b>{_escape(value)}</b><span>{name}</span></div>" for name, value in told
    )
    return f'<section class="numbers">{cells}</section>'


def _render_facts(evidence: Evidence) -> str:
    lines = (
        f'<tr><th scope="row">{row.name}</th><td><span class="status {row.status}">{row.status}'
        f"</span></td><td>{_escape(row.value)}{_render_note(row.note)}"
        f"{_render_note(f'inferred: {row.inferred}' if row.inferred else '')}</td></tr>"
        for row in rows.list_facts(evidence)
    )
    return f'<table class="facts">{"".join(lines)}</table>'


def _render_note(note: str) -> str:
    return f"<small>{_mark_code(note)}</small>" if note else ""


def _render_batches(shown: Sequence[TimelineBatch]) -> Iterator[str]:
    took = [(one, rows.measure_ms(one)) for one in shown]
    if any(ms is not None for _, ms in took):
        drawn = [
            ChartBar(
                value=ms or 0,
                label=str(one.batch),
                title=f"batch {one.batch}: "
                + (one.standing.value if ms is None else words.format_duration(ms)),
                style="bar" if _STANDINGS[one.standing] == "good" else "bar careful",
            )
            for one, ms in took
        ]
        highest = words.format_duration(max(ms or 0 for _, ms in took))
        chart = charts.draw_bars(drawn, highest, "time from plan to commit, by batch")
        yield _render_section("Time from plan to commit", chart)
    yield from _render_consumed(shown)
    if shown:
        yield _render_section("Batches", _render_batch_table(shown[-_MOST_LISTED:]))


def _render_consumed(shown: Sequence[TimelineBatch]) -> Iterator[str]:
    """A chart of rows where Spark has counted any, or else of what the newest offsets number."""
    told = [(one.batch, *rows.count_consumed(one)) for one in shown]
    counted = list(dropwhile(lambda one: isinstance(one[1], Unknown), told))
    units = [unit for _, count, unit in counted if isinstance(count, int) and count]
    if not units:
        return
    chosen = "rows" if "rows" in units else units[-1]
    values = [
        count if unit == chosen and isinstance(count, int) else 0 for _, count, unit in counted
    ]
    drawn = [
        ChartBar(
            value=value,
            label=str(batch),
            title=f"batch {batch}: {rows.format_amount(count, unit)}",
            style="bar rows",
        )
        for value, (batch, count, unit) in zip(values, counted, strict=True)
    ]
    chart = charts.draw_bars(drawn, words.format_number(max(values)), f"{chosen} by batch")
    yield _render_section(f"{chosen.capitalize()} by batch", chart)


def _render_batch_table(shown: Sequence[TimelineBatch]) -> str:
    """The newest batches, the newest first."""
    names = ("batch", "planned (UTC)", "standing", "consumed", "took")
    head = "".join(f"<th>{name}</th>" for name in names)
    lines = (
        f"<tr><td>{one.batch}</td><td>{words.format_time(one.planned_ms)}</td>"
        f'<td class="{_STANDINGS[one.standing]}">{one.standing.value}</td>'
        f"<td>{rows.format_amount(*rows.count_consumed(one))}</td><td>{rows.format_duration(one)}</td></tr>"
        for one in reversed(shown)
    )
    return f'<table class="batches"><tr>{head}</tr>{"".join(lines)}</table>'


def _render_source(shown: SourceEvidence) -> str:
    lines = "".join(
        f"<tr><td>{_escape(one.partition)}</td><td>{_escape(one.start or '-')}</td>"
        f"<td>{_escape(one.end or '-')}</td><td>{words.format_number(one.count)}</td>"
        f'<td class="{"bad" if one.change in rows.LOST_GROUND else ""}">{one.change.value}'
        "</td></tr>"
        for one in rows.pick_partitions(shown.consumed.partitions, _MOST_PARTITIONS)
    )
    names = ("partition", "from", "to", shown.consumed.unit, "")
    head = f"<tr>{''.join(f'<th>{_escape(name)}</th>' for name in names)}</tr>"
    more = len(shown.consumed.partitions) - _MOST_PARTITIONS
    cut = f"<p>and {words.pluralize(more, 'more partition')}</p>" if more > 0 else ""
    left_out = rows.format_files_left_out(shown, len(shown.files))
    files = "".join(
        f"<li>{_escape(path)}</li>" for path in (*shown.files, *filter(None, [left_out]))
    )
    listed = f'<ul class="files">{files}</ul>' if files else ""
    notes = filter(None, (shown.described, rows.format_same_source(shown)))
    about = "".join(f"<p>{_escape(note)}</p>" for note in notes)
    table = f"<table>{head}{lines}</table>" if lines else ""
    return _render_section(
        f"Source {_escape(shown.name)}: {_escape(rows.format_kind(shown))}",
        f"{about}<p>{rows.format_consumed(shown)}</p>{table}{cut}{listed}",
    )


def _render_operator(shown: OperatorEvidence) -> str:
    name = shown.name.value if isinstance(shown.name, Known) else "name unknown"
    drawn = [
        ChartBar(
            value=store.bytes,
            label=str(store.partition),
            title=f"partition {store.partition}, {store.store}: {words.format_size(store.bytes)},"
            f" version {store.latest_version}",
        )
        for store in shown.stores[:_MOST_PARTITIONS]
    ]
    highest = words.format_size(max((store.bytes for store in shown.stores), default=0))
    about = "".join(
        f"<p>{_escape(one)}</p>"
        for one in (rows.format_state(shown), rows.format_stores_behind(shown))
        if one
    )
    several = any(store.store != "default" for store in shown.stores)
    title = "Bytes by partition and store" if several else "Bytes by partition"
    if len(shown.stores) > _MOST_PARTITIONS:
        title += f", the first {_MOST_PARTITIONS} of {len(shown.stores):,}"
    chart = _add_title(title, charts.draw_bars(drawn, highest, title.lower()))
    return _render_section(
        f"Operator {shown.operator}: {_escape(name)}",
        f"{about}{chart}{_render_schema(shown)}",
    )


def _render_schema(shown: OperatorEvidence) -> str:
    lines = "".join(
        f"<tr>{''.join(f'<td>{_escape(cell)}</td>' for cell in row)}</tr>"
        for row in rows.list_schema(shown)
    )
    head = "<tr><th>store</th><th>column family</th><th>key</th><th>value</th></tr>"
    return _add_title("State schema", f"<table>{head}{lines}</table>" if lines else "")


def _render_restarts(evidence: Evidence) -> Iterator[str]:
    history = evidence.restart_history
    if not isinstance(history, Known) or not history.value:
        return
    lines = "".join(
        f"<tr><td>{words.format_time(one.at_ms)}</td><td>{one.sign.value}</td>"
        f"<td>{'' if one.first_batch is None else one.first_batch}</td>"
        f"<td>{_escape(one.spark_version)}</td><td>{_escape(one.note)}"
        f"{_render_note(error_line.extract(one.error))}</td></tr>"
        for one in history.value
    )
    head = "<tr><th>when (UTC)</th><th>told by</th><th>first batch</th><th>Spark</th><th></th></tr>"
    yield _render_section("Restarts", f"<table>{head}{lines}</table>")


def _render_rest(evidence: Evidence) -> Iterator[str]:
    if evidence.ledgers:
        lines = (
            f"{one.table}: "
            + (
                one.batch.reason
                if isinstance(one.batch, Absent | Unknown)
                else f"last batch {one.batch}"
            )
            + f" {one.note}"
            for one in evidence.ledgers
        )
        yield _render_section("What the sink remembers", _render_list(lines))
    drawn = [
        ChartBar(
            value=amount.bytes,
            label=f"{kind.value}: {amount.count:,}, {words.format_size(amount.bytes)}",
            title=f"{kind.value}: {words.format_size(amount.bytes)}",
        )
        for kind, amount in evidence.files.items()
    ]
    yield _render_section("Files", charts.draw_shares(drawn, "bytes by kind of file"))
    if evidence.nested:
        yield _render_section("Nested checkpoints", _render_list(evidence.nested))
    if evidence.foreign:
        left = rows.count_unnamed_foreign(evidence)
        more = [f"and {left:,} more"] if left else []
        foreign = _render_list([*evidence.foreign, *more])
        yield _render_section("Files that are not of this checkpoint", foreign)
    if evidence.unreadable:
        unread = [f"{one.path}: {one.reason}" for one in evidence.unreadable]
        more = [f"and {evidence.unreadable_more:,} more"] if evidence.unreadable_more else []
        yield _render_section("Unreadable", _render_list([*unread, *more]))
    if evidence.settings:
        lines = (f"{key} = {value}" for key, value in redact.settings(evidence.settings).items())
        yield _render_section("Settings pinned by the newest batch", _render_list(lines))


def _render_list(shown: Iterable[str]) -> str:
    return f'<ul class="files">{"".join(f"<li>{_mark_code(one)}</li>" for one in shown)}</ul>'


def _add_title(title: str, body: str) -> str:
    return f"<h3>{title}</h3>{body}" if body else ""


def _render_section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>"


def _mark_code(shown: str) -> str:
    """A text; what is in backticks is code."""
    return _CODE.sub(r"<code>\1</code>", _escape(shown))


def _escape(shown: str) -> str:
    return escape(redact.for_display(shown))
