"""Evidence -> Markdown for an incident ticket: the verdict, the nine facts, the details."""

import re
from collections.abc import Iterator, Sequence

from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.fact import Known
from holdfast.report import error_line, redact, rows, verdict, words

_RECENT = 12
_MOST = 20
_TICKS = re.compile("`+")
# A code span ends with as many backticks as it starts with.
_CODE = re.compile(r"(?<!`)(`++)(.*?[^`])\1(?!`)")
# Markup outside code: emphasis, a link, an entity; a backslash before punctuation.
_MARKUP = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|$)|[*<`~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=\()|&(?=#?\w+;)"
)
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def render(evidence: Evidence) -> str:
    """Return the whole page, without secrets."""
    return "\n".join(_make_lines(evidence)) + "\n"


def _make_lines(evidence: Evidence) -> Iterator[str]:
    yield f"# Checkpoint {format_code(evidence.location.value)}"
    yield ""
    yield f"**{format_prose(verdict.judge(evidence).text)}**"
    yield ""
    if driver := rows.format_driver(evidence):
        yield from (format_literal(driver), "")
    yield "| fact | | value | read from, or reason |"
    yield "|---|---|---|---|"
    for row in rows.list_facts(evidence):
        note = f"{row.note}; inferred: {row.inferred}" if row.inferred else row.note
        cells = (row.name, row.status, format_cell(row.value), escape_cell(format_prose(note)))
        yield f"| {' | '.join(cells)} |"
    yield from _format_batches(evidence)
    yield from _format_sources(evidence)
    yield from _format_operators(evidence)
    yield from _format_restarts(evidence)
    yield from _format_rest(evidence)
    yield ""
    yield f"Read at {words.format_time(evidence.observed_ms)} UTC with `holdfast inspect`."


def _format_batches(evidence: Evidence) -> Iterator[str]:
    if not evidence.timeline:
        return
    yield from ("", "## Batches", "", "| batch | planned (UTC) | status | consumed | duration |")
    yield "|---|---|---|---|---|"
    for batch in evidence.timeline[-_RECENT:]:
        yield (
            f"| {batch.batch} | {words.format_time(batch.planned_ms)} | {batch.standing.value} |"
            f" {rows.format_amount(*rows.count_consumed(batch))} | {rows.format_duration(batch)} |"
        )


def _format_sources(evidence: Evidence) -> Iterator[str]:
    for source in evidence.sources:
        yield from (
            "",
            f"## Source {format_literal(source.name)}: {format_literal(rows.format_kind(source))}",
            "",
        )
        if source.described:
            yield from (format_literal(source.described), "")
        if source.same_as is not None:
            yield from (rows.format_same_source(source), "")
        yield from (rows.format_consumed(source), "")
        yield from _format_partitions(source)
        yield from _format_files(source)


def _format_partitions(source: SourceEvidence) -> Iterator[str]:
    if not source.consumed.partitions:
        return
    yield f"| partition | from | to | {source.consumed.unit} | |"
    yield "|---|---|---|---|---|"
    for change in rows.pick_partitions(source.consumed.partitions, _MOST):
        positions = " | ".join(map(format_cell, (change.partition, change.start, change.end)))
        yield f"| {positions} | {words.format_number(change.count)} | {change.change.value} |"
    if len(source.consumed.partitions) > _MOST:
        yield from ("", f"and {len(source.consumed.partitions) - _MOST} more partitions")


def _format_files(source: SourceEvidence) -> Iterator[str]:
    listed = [f"- {format_code(path)}" for path in source.files[:_MOST]]
    left_out = rows.format_files_left_out(source, _MOST)
    if listed or left_out:
        yield from ("", *listed, *([f"- {left_out}"] if left_out else []))


def _format_operators(evidence: Evidence) -> Iterator[str]:
    for operator in evidence.operators:
        name = operator.name.value if isinstance(operator.name, Known) else "name unknown"
        yield from ("", f"## Operator {operator.operator}: {format_literal(name)}", "")
        yield rows.format_state(operator)
        if behind := rows.format_stores_behind(operator):
            yield from ("", format_literal(behind))
        if any(operator.schema.values()):
            yield from ("", "| store | column family | key | value |", "|---|---|---|---|")
        for row in rows.list_schema(operator):
            yield f"| {' | '.join(format_cell(part) for part in row)} |"


def _format_restarts(evidence: Evidence) -> Iterator[str]:
    history = evidence.restart_history
    if not isinstance(history, Known) or not history.value:
        return
    yield from ("", "## Restarts", "", "Times are in UTC.", "")
    if len(history.value) > _MOST:
        yield f"- {len(history.value) - _MOST:,} earlier"
    for start in history.value[-_MOST:]:
        first = "" if start.first_batch is None else f", from batch {start.first_batch}"
        spark = f", Spark {format_literal(start.spark_version)}" if start.spark_version else ""
        error = f" {format_prose(error_line.extract(start.error))}" if start.error else ""
        sign = f"{start.sign.value}{first}{spark}"
        yield f"- {words.format_time(start.at_ms)} {sign}: {format_prose(start.note)}{error}"


def _format_rest(evidence: Evidence) -> Iterator[str]:
    for ledger in evidence.ledgers:
        entry = format_prose(rows.format_ledger(ledger))
        yield from ("", f"Sink ledger {format_code(ledger.table)}: {entry}")
    yield from ("", "## Files", "", "| kind | files | size |", "|---|---|---|")
    for kind, amount in evidence.files.items():
        yield f"| {kind.value} | {amount.count:,} | {words.format_size(amount.bytes)} |"
    yield from _format_list("Nested checkpoints", [format_code(path) for path in evidence.nested])
    unread = [f"{format_code(f.path)}: {format_prose(f.reason)}" for f in evidence.unreadable]
    yield from _format_list("Unreadable", unread, evidence.unreadable_more)
    foreign = [format_code(path) for path in evidence.foreign]
    more = rows.count_unnamed_foreign(evidence)
    yield from _format_list("Not part of this checkpoint", foreign, more)


def _format_list(title: str, lines: Sequence[str], more: int = 0) -> Iterator[str]:
    if not lines:
        return
    yield from ("", f"## {title}", "")
    yield from (f"- {line}" for line in lines[:_MOST])
    left = max(0, len(lines) - _MOST) + more
    if left:
        yield f"- and {left:,} more"


def format_prose(text: str) -> str:
    """Return sentences without secrets; backticks stay code, everything else is literal."""
    return "".join(_escape_around_code(_to_one_line(text)))


def format_literal(text: str) -> str:
    """Return a value without secrets, with all its markup escaped."""
    return _escape(_to_one_line(text))


def format_code(text: str) -> str:
    """Return a text without secrets as code, fenced with more backticks than it contains."""
    text = _to_one_line(text)
    fence = "`" * (1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    space = " " if not text or text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{space}{text}{space}{fence}"


def escape_cell(markdown: str) -> str:
    """Return Markdown that stays in its table cell; this escape works inside code too."""
    return markdown.replace("|", "\\|")


def format_cell(text: str) -> str:
    """Return a value without secrets for a table cell."""
    return escape_cell(format_literal(text))


def _to_one_line(text: str) -> str:
    return " ".join(redact.for_display(text).split())


def _escape_around_code(text: str) -> Iterator[str]:
    """Yield prose and code in turn; only prose is escaped, code is literal anyway."""
    copied = 0
    for code in _CODE.finditer(text):
        yield _escape(text[copied : code.start()])
        yield code[0]
        copied = code.end()
    yield _escape(text[copied:])


def _escape(text: str) -> str:
    return _MARKUP.sub(lambda mark: _ENTITIES.get(mark[0], f"\\{mark[0]}"), text)
