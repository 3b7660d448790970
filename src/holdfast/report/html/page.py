"""Evidence -> one HTML file that needs nothing else: style and charts are inside, no script."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import dropwhile

from holdfast.model.evidence import BatchSeen, Committed, Evidence, SourceSeen
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.state import OperatorSeen
from holdfast.model.version import VERSION
from holdfast.report import error_line, redact, rows, verdict, words
from holdfast.report.html import charts, style
from holdfast.report.html.charts import Bar

_CODE = re.compile("`([^`]+)`")
_MOST_PARTITIONS = 200
_MOST_BATCHES = 101
_MOST_LISTED = 12
_STANDINGS = {
    Committed.YES: "good",
    Committed.UNLOGGED: "good",
    Committed.NO: "careful",
    Committed.MISSING: "careful",
    Committed.COMMIT_UNREADABLE: "bad",
    Committed.OFFSETS_UNREADABLE: "bad",
}


def of(evidence: Evidence) -> str:
    """The whole page, without secrets."""
    name = _text(evidence.location.value.rpartition("/")[2] or evidence.location.value)
    body = "\n".join(_sections(evidence))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{name}: checkpoint</title>\n<style>\n{style.PAGE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _sections(evidence: Evidence) -> Iterator[str]:
    found = verdict.of(evidence)
    yield f"<header><h1>{_text(evidence.location.value)}</h1>"
    yield f'<p class="verdict {found.level.value}">{_marked(found.text)}</p>'
    driver = rows.driver(evidence)
    yield f'<p class="careful">{_text(driver)}</p></header>' if driver else "</header>"
    yield _numbers(evidence)
    yield _section("Nine facts", _facts(evidence))
    yield from _batches(evidence.timeline[-_MOST_BATCHES:])
    for source in evidence.sources:
        yield _source(source)
    for operator in evidence.operators:
        yield _operator(operator)
    yield from _restarts(evidence)
    yield from _rest(evidence)
    looked = words.moment(evidence.looked_ms)
    yield f"<footer>holdfast {VERSION}, looked at {looked} UTC. Nothing was changed.</footer>"


def _numbers(evidence: Evidence) -> str:
    amounts = evidence.files.values()
    batches = evidence.batches
    told = (
        ("last planned", "-" if batches.last_planned is None else str(batches.last_planned)),
        ("last committed", "-" if batches.last_committed is None else str(batches.last_committed)),
        ("pending", f"{len(batches.pending):,}"),
        ("files", f"{sum(one.count for one in amounts):,}"),
        ("size", words.size(sum(one.bytes for one in amounts))),
        ("unreadable", f"{len(evidence.unreadable) + evidence.unreadable_more:,}"),
    )
    cells = "".join(f"<div><b>{_text(value)}</b><span>{name}</span></div>" for name, value in told)
    return f'<section class="numbers">{cells}</section>'


def _facts(evidence: Evidence) -> str:
    lines = (
        f'<tr><th scope="row">{row.name}</th><td><span class="status {row.status}">{row.status}'
        f"</span></td><td>{_text(row.value)}{_note(row.note)}"
        f"{_note(f'inferred: {row.inferred}' if row.inferred else '')}</td></tr>"
        for row in rows.facts(evidence)
    )
    return f'<table class="facts">{"".join(lines)}</table>'


def _note(note: str) -> str:
    return f"<small>{_marked(note)}</small>" if note else ""


def _batches(shown: Sequence[BatchSeen]) -> Iterator[str]:
    took = [(one, rows.took_ms(one)) for one in shown]
    if any(ms is not None for _, ms in took):
        drawn = [
            Bar(
                value=ms or 0,
                label=str(one.batch),
                title=f"batch {one.batch}: "
                + (one.standing.value if ms is None else words.duration(ms)),
                style="bar" if _STANDINGS[one.standing] == "good" else "bar careful",
            )
            for one, ms in took
        ]
        highest = words.duration(max(ms or 0 for _, ms in took))
        chart = charts.bars(drawn, highest, "time from plan to commit, by batch")
        yield _section("Time from plan to commit", chart)
    yield from _consumed(shown)
    if shown:
        yield _section("Batches", _listed(shown[-_MOST_LISTED:]))


def _consumed(shown: Sequence[BatchSeen]) -> Iterator[str]:
    """A chart of rows where Spark has counted any, or else of what the newest offsets number."""
    told = [(one.batch, *rows.consumed(one)) for one in shown]
    counted = list(dropwhile(lambda one: isinstance(one[1], Unknown), told))
    units = [unit for _, count, unit in counted if isinstance(count, int) and count]
    if not units:
        return
    chosen = "rows" if "rows" in units else units[-1]
    values = [
        count if unit == chosen and isinstance(count, int) else 0 for _, count, unit in counted
    ]
    drawn = [
        Bar(
            value=value,
            label=str(batch),
            title=f"batch {batch}: {rows.amount(count, unit)}",
            style="bar rows",
        )
        for value, (batch, count, unit) in zip(values, counted, strict=True)
    ]
    chart = charts.bars(drawn, words.number(max(values)), f"{chosen} by batch")
    yield _section(f"{chosen.capitalize()} by batch", chart)


def _listed(shown: Sequence[BatchSeen]) -> str:
    """The newest batches, the newest first."""
    names = ("batch", "planned (UTC)", "standing", "consumed", "took")
    head = "".join(f"<th>{name}</th>" for name in names)
    lines = (
        f"<tr><td>{one.batch}</td><td>{words.moment(one.planned_ms)}</td>"
        f'<td class="{_STANDINGS[one.standing]}">{one.standing.value}</td>'
        f"<td>{rows.amount(*rows.consumed(one))}</td><td>{rows.took(one)}</td></tr>"
        for one in reversed(shown)
    )
    return f'<table class="batches"><tr>{head}</tr>{"".join(lines)}</table>'


def _source(shown: SourceSeen) -> str:
    lines = "".join(
        f"<tr><td>{_text(one.partition)}</td><td>{_text(one.start or '-')}</td>"
        f"<td>{_text(one.end or '-')}</td><td>{words.number(one.count)}</td>"
        f'<td class="{"bad" if one.change in rows.LOST_GROUND else ""}">{one.change.value}'
        "</td></tr>"
        for one in rows.partitions(shown.consumed.partitions, _MOST_PARTITIONS)
    )
    names = ("partition", "from", "to", shown.consumed.unit, "")
    head = f"<tr>{''.join(f'<th>{_text(name)}</th>' for name in names)}</tr>"
    more = len(shown.consumed.partitions) - _MOST_PARTITIONS
    cut = f"<p>and {words.plural(more, 'more partition')}</p>" if more > 0 else ""
    left_out = rows.files_left_out(shown, len(shown.files))
    files = "".join(f"<li>{_text(path)}</li>" for path in (*shown.files, *filter(None, [left_out])))
    listed = f'<ul class="files">{files}</ul>' if files else ""
    notes = filter(None, (shown.described, rows.same_as(shown)))
    about = "".join(f"<p>{_text(note)}</p>" for note in notes)
    table = f"<table>{head}{lines}</table>" if lines else ""
    return _section(
        f"Source {_text(shown.name)}: {_text(rows.kind(shown))}",
        f"{about}<p>{rows.gave(shown)}</p>{table}{cut}{listed}",
    )


def _operator(shown: OperatorSeen) -> str:
    name = shown.name.value if isinstance(shown.name, Known) else "name unknown"
    drawn = [
        Bar(
            value=store.bytes,
            label=str(store.partition),
            title=f"partition {store.partition}, {store.store}: {words.size(store.bytes)},"
            f" version {store.latest_version}",
        )
        for store in shown.stores[:_MOST_PARTITIONS]
    ]
    highest = words.size(max((store.bytes for store in shown.stores), default=0))
    about = "".join(
        f"<p>{_text(one)}</p>" for one in (rows.state(shown), rows.behind(shown)) if one
    )
    several = any(store.store != "default" for store in shown.stores)
    title = "Bytes by partition and store" if several else "Bytes by partition"
    if len(shown.stores) > _MOST_PARTITIONS:
        title += f", the first {_MOST_PARTITIONS} of {len(shown.stores):,}"
    chart = _titled(title, charts.bars(drawn, highest, title.lower()))
    return _section(
        f"Operator {shown.operator}: {_text(name)}",
        f"{about}{chart}{_schema(shown)}",
    )


def _schema(shown: OperatorSeen) -> str:
    lines = "".join(
        f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>"
        for row in rows.schema(shown)
    )
    head = "<tr><th>store</th><th>column family</th><th>key</th><th>value</th></tr>"
    return _titled("State schema", f"<table>{head}{lines}</table>" if lines else "")


def _restarts(evidence: Evidence) -> Iterator[str]:
    history = evidence.restart_history
    if not isinstance(history, Known) or not history.value:
        return
    lines = "".join(
        f"<tr><td>{words.moment(one.at_ms)}</td><td>{one.sign.value}</td>"
        f"<td>{'' if one.first_batch is None else one.first_batch}</td>"
        f"<td>{_text(one.spark_version)}</td><td>{_text(one.note)}"
        f"{_note(error_line.line(one.error))}</td></tr>"
        for one in history.value
    )
    head = "<tr><th>when (UTC)</th><th>told by</th><th>first batch</th><th>Spark</th><th></th></tr>"
    yield _section("Restarts", f"<table>{head}{lines}</table>")


def _rest(evidence: Evidence) -> Iterator[str]:
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
        yield _section("What the sink remembers", _list(lines))
    drawn = [
        Bar(
            value=amount.bytes,
            label=f"{kind.value}: {amount.count:,}, {words.size(amount.bytes)}",
            title=f"{kind.value}: {words.size(amount.bytes)}",
        )
        for kind, amount in evidence.files.items()
    ]
    yield _section("Files", charts.share(drawn, "bytes by kind of file"))
    if evidence.nested:
        yield _section("Nested checkpoints", _list(evidence.nested))
    if evidence.foreign:
        left = rows.foreign_more(evidence)
        more = [f"and {left:,} more"] if left else []
        foreign = _list([*evidence.foreign, *more])
        yield _section("Files that are not of this checkpoint", foreign)
    if evidence.unreadable:
        unread = [f"{one.path}: {one.reason}" for one in evidence.unreadable]
        more = [f"and {evidence.unreadable_more:,} more"] if evidence.unreadable_more else []
        yield _section("Unreadable", _list([*unread, *more]))
    if evidence.settings:
        lines = (f"{key} = {value}" for key, value in redact.settings(evidence.settings).items())
        yield _section("Settings pinned by the newest batch", _list(lines))


def _list(shown: Iterable[str]) -> str:
    return f'<ul class="files">{"".join(f"<li>{_marked(one)}</li>" for one in shown)}</ul>'


def _titled(title: str, body: str) -> str:
    return f"<h3>{title}</h3>{body}" if body else ""


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>"


def _marked(shown: str) -> str:
    """A text; what is in backticks is code."""
    return _CODE.sub(r"<code>\1</code>", _text(shown))


def _text(shown: str) -> str:
    return escape(redact.shown(shown))
