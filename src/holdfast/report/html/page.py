"""Evidence -> the HTML page of one checkpoint: the verdict, the nine facts, charts and tables."""

from collections.abc import Iterator, Sequence
from itertools import dropwhile

from holdfast.model.evidence import BatchStatus, Evidence, SourceEvidence, TimelineBatch
from holdfast.model.fact import Known, Unknown
from holdfast.model.state import OperatorEvidence
from holdfast.model.version import VERSION
from holdfast.report import error_line, redact, rows, verdict, words
from holdfast.report.html import charts, shell
from holdfast.report.html.charts import ChartBar

_MOST_PARTITIONS = 200
_MOST_BATCHES = 101
_MOST_LISTED = 12
_STATUS_CLASSES = {
    BatchStatus.YES: "good",
    BatchStatus.UNLOGGED: "good",
    BatchStatus.NO: "careful",
    BatchStatus.MISSING: "careful",
    BatchStatus.COMMIT_UNREADABLE: "bad",
    BatchStatus.OFFSETS_UNREADABLE: "bad",
}


def render(evidence: Evidence) -> str:
    """Return the whole page, without secrets."""
    name = evidence.location.value.rpartition("/")[2] or evidence.location.value
    return shell.render(f"{shell.escape(name)}: checkpoint", "\n".join(_render_sections(evidence)))


def _render_sections(evidence: Evidence) -> Iterator[str]:
    judged = verdict.judge(evidence)
    yield f"<header><h1>{shell.escape(evidence.location.value)}</h1>"
    yield f'<p class="verdict {judged.level.value}">{shell.mark_code(judged.text)}</p>'
    driver = rows.format_driver(evidence)
    yield f'<p class="careful">{shell.escape(driver)}</p></header>' if driver else "</header>"
    yield _render_numbers(evidence)
    yield shell.render_section("Nine facts", _render_facts(evidence))
    yield from _render_batches(evidence.timeline[-_MOST_BATCHES:])
    for source in evidence.sources:
        yield _render_source(source)
    for operator in evidence.operators:
        yield _render_operator(operator)
    yield from _render_restarts(evidence)
    yield from _render_rest(evidence)
    read_at = words.format_time(evidence.observed_ms)
    yield f"<footer>Read by holdfast {VERSION} at {read_at} UTC. Nothing was changed.</footer>"


def _render_numbers(evidence: Evidence) -> str:
    amounts = evidence.files.values()
    batches = evidence.batches
    numbers = (
        ("last planned", "-" if batches.last_planned is None else str(batches.last_planned)),
        ("last committed", "-" if batches.last_committed is None else str(batches.last_committed)),
        ("pending", f"{len(batches.pending):,}"),
        ("files", f"{sum(amount.count for amount in amounts):,}"),
        ("size", words.format_size(sum(amount.bytes for amount in amounts))),
        ("unreadable", f"{len(evidence.unreadable) + evidence.unreadable_more:,}"),
    )
    cells = "".join(
        f"<div><b>{shell.escape(value)}</b><span>{name}</span></div>" for name, value in numbers
    )
    return f'<section class="numbers">{cells}</section>'


def _render_facts(evidence: Evidence) -> str:
    lines = (
        f'<tr><th scope="row">{row.name}</th><td><span class="status {row.status}">{row.status}'
        f"</span></td><td>{shell.escape(row.value)}{shell.render_note(row.note)}"
        f"{shell.render_note(f'inferred: {row.inferred}' if row.inferred else '')}</td></tr>"
        for row in rows.list_facts(evidence)
    )
    return f'<table class="facts">{"".join(lines)}</table>'


def _render_batches(batches: Sequence[TimelineBatch]) -> Iterator[str]:
    durations = [(batch, rows.measure_ms(batch)) for batch in batches]
    if any(ms is not None for _, ms in durations):
        bars = [
            ChartBar(
                value=ms or 0,
                label=str(batch.batch),
                title=f"batch {batch.batch}: "
                + (batch.standing.value if ms is None else words.format_duration(ms)),
                style="bar" if _STATUS_CLASSES[batch.standing] == "good" else "bar careful",
            )
            for batch, ms in durations
        ]
        highest = words.format_duration(max(ms or 0 for _, ms in durations))
        chart = charts.draw_bars(bars, highest, "time from plan to commit, by batch")
        yield shell.render_section("Time from plan to commit", chart)
    yield from _render_consumed(batches)
    if batches:
        yield shell.render_section("Batches", _render_batch_table(batches[-_MOST_LISTED:]))


def _render_consumed(batches: Sequence[TimelineBatch]) -> Iterator[str]:
    """Chart the rows if Spark counted any, otherwise the newest unit that offsets count in."""
    amounts = [(batch.batch, *rows.count_consumed(batch)) for batch in batches]
    counted = list(dropwhile(lambda amount: isinstance(amount[1], Unknown), amounts))
    units = [unit for _, count, unit in counted if isinstance(count, int) and count]
    if not units:
        return
    chosen = "rows" if "rows" in units else units[-1]
    values = [
        count if unit == chosen and isinstance(count, int) else 0 for _, count, unit in counted
    ]
    bars = [
        ChartBar(
            value=value,
            label=str(batch),
            title=f"batch {batch}: {rows.format_amount(count, unit)}",
            style="bar rows",
        )
        for value, (batch, count, unit) in zip(values, counted, strict=True)
    ]
    chart = charts.draw_bars(bars, words.format_number(max(values)), f"{chosen} by batch")
    yield shell.render_section(f"{chosen.capitalize()} by batch", chart)


def _render_batch_table(batches: Sequence[TimelineBatch]) -> str:
    """Return a table of the batches, the newest first."""
    names = ("batch", "planned (UTC)", "status", "consumed", "duration")
    head = "".join(f"<th>{name}</th>" for name in names)
    lines = (
        f"<tr><td>{batch.batch}</td><td>{words.format_time(batch.planned_ms)}</td>"
        f'<td class="{_STATUS_CLASSES[batch.standing]}">{batch.standing.value}</td>'
        f"<td>{rows.format_amount(*rows.count_consumed(batch))}</td>"
        f"<td>{rows.format_duration(batch)}</td></tr>"
        for batch in reversed(batches)
    )
    return f'<table class="batches"><tr>{head}</tr>{"".join(lines)}</table>'


def _render_source(source: SourceEvidence) -> str:
    lines = "".join(
        f"<tr><td>{shell.escape(change.partition)}</td><td>{shell.escape(change.start or '-')}</td>"
        f"<td>{shell.escape(change.end or '-')}</td><td>{words.format_number(change.count)}</td>"
        f'<td class="{"bad" if change.change in rows.LOST_GROUND else ""}">{change.change.value}'
        "</td></tr>"
        for change in rows.pick_partitions(source.consumed.partitions, _MOST_PARTITIONS)
    )
    names = ("partition", "from", "to", source.consumed.unit, "")
    head = f"<tr>{''.join(f'<th>{shell.escape(name)}</th>' for name in names)}</tr>"
    more = len(source.consumed.partitions) - _MOST_PARTITIONS
    cut = f"<p>and {words.pluralize(more, 'more partition')}</p>" if more > 0 else ""
    left_out = rows.format_files_left_out(source, len(source.files))
    files = "".join(
        f"<li>{shell.escape(path)}</li>" for path in (*source.files, *filter(None, [left_out]))
    )
    listed = f'<ul class="files">{files}</ul>' if files else ""
    notes = filter(None, (source.described, rows.format_same_source(source)))
    about = "".join(f"<p>{shell.escape(note)}</p>" for note in notes)
    table = f"<table>{head}{lines}</table>" if lines else ""
    return shell.render_section(
        f"Source {shell.escape(source.name)}: {shell.escape(rows.format_kind(source))}",
        f"{about}<p>{rows.format_consumed(source)}</p>{table}{cut}{listed}",
    )


def _render_operator(operator: OperatorEvidence) -> str:
    name = operator.name.value if isinstance(operator.name, Known) else "name unknown"
    bars = [
        ChartBar(
            value=store.bytes,
            label=str(store.partition),
            title=f"partition {store.partition}, {store.store}: {words.format_size(store.bytes)},"
            f" version {store.latest_version}",
        )
        for store in operator.stores[:_MOST_PARTITIONS]
    ]
    highest = words.format_size(max((store.bytes for store in operator.stores), default=0))
    about = "".join(
        f"<p>{shell.escape(line)}</p>"
        for line in (rows.format_state(operator), rows.format_stores_behind(operator))
        if line
    )
    has_several_stores = any(store.store != "default" for store in operator.stores)
    title = "Bytes by partition and store" if has_several_stores else "Bytes by partition"
    if len(operator.stores) > _MOST_PARTITIONS:
        title += f", the first {_MOST_PARTITIONS} of {len(operator.stores):,}"
    chart = shell.add_title(title, charts.draw_bars(bars, highest, title.lower()))
    return shell.render_section(
        f"Operator {operator.operator}: {shell.escape(name)}",
        f"{about}{chart}{_render_schema(operator)}",
    )


def _render_schema(operator: OperatorEvidence) -> str:
    lines = "".join(
        f"<tr>{''.join(f'<td>{shell.escape(cell)}</td>' for cell in row)}</tr>"
        for row in rows.list_schema(operator)
    )
    head = "<tr><th>store</th><th>column family</th><th>key</th><th>value</th></tr>"
    return shell.add_title("State schema", f"<table>{head}{lines}</table>" if lines else "")


def _render_restarts(evidence: Evidence) -> Iterator[str]:
    history = evidence.restart_history
    if not isinstance(history, Known) or not history.value:
        return
    lines = "".join(
        f"<tr><td>{words.format_time(start.at_ms)}</td><td>{start.sign.value}</td>"
        f"<td>{'' if start.first_batch is None else start.first_batch}</td>"
        f"<td>{shell.escape(start.spark_version)}</td><td>{shell.escape(start.note)}"
        f"{shell.render_note(error_line.extract(start.error))}</td></tr>"
        for start in history.value
    )
    names = ("time (UTC)", "evidence", "first batch", "Spark", "")
    head = f"<tr>{''.join(f'<th>{name}</th>' for name in names)}</tr>"
    yield shell.render_section("Restarts", f"<table>{head}{lines}</table>")


def _render_rest(evidence: Evidence) -> Iterator[str]:
    if evidence.ledgers:
        lines = (f"{ledger.table}: {rows.format_ledger(ledger)}" for ledger in evidence.ledgers)
        yield shell.render_section("Sink ledger", shell.render_list(lines))
    bars = [
        ChartBar(
            value=amount.bytes,
            label=f"{kind.value}: {amount.count:,}, {words.format_size(amount.bytes)}",
            title=f"{kind.value}: {words.format_size(amount.bytes)}",
        )
        for kind, amount in evidence.files.items()
    ]
    yield shell.render_section("Files", charts.draw_shares(bars, "bytes by kind of file"))
    if evidence.nested:
        yield shell.render_section("Nested checkpoints", shell.render_list(evidence.nested))
    if evidence.foreign:
        foreign = _list_with_more(evidence.foreign, rows.count_unnamed_foreign(evidence))
        yield shell.render_section("Files that are not part of this checkpoint", foreign)
    if evidence.unreadable:
        unread = [f"{file.path}: {file.reason}" for file in evidence.unreadable]
        yield shell.render_section("Unreadable", _list_with_more(unread, evidence.unreadable_more))
    if evidence.settings:
        lines = (f"{key} = {value}" for key, value in redact.settings(evidence.settings).items())
        yield shell.render_section("Settings pinned by the newest batch", shell.render_list(lines))


def _list_with_more(texts: Sequence[str], more: int) -> str:
    return shell.render_list([*texts, *([f"and {more:,} more"] if more else [])])
