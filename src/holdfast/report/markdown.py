"""Evidence -> Markdown for an incident ticket: the verdict, the nine facts, what stands behind."""

import re
from collections.abc import Iterator, Sequence

from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.report import error_line, redact, rows, verdict, words

_RECENT = 12
_MOST = 20
_TICKS = re.compile("`+")
# A span of code ends at as many backticks as it began with.
_CODE = re.compile(r"(?<!`)(`++)(.*?[^`])\1(?!`)")
# What means something between words: emphasis, a link, an entity; a backslash before a mark.
_MEANS = re.compile(
    r"\\(?=[!-/:-@\[-`{-~]|$)|[*<`~]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=\()|&(?=#?\w+;)"
)
_ENTITIES = {"<": "&lt;", "&": "&amp;"}


def render(evidence: Evidence) -> str:
    """The whole page, without secrets."""
    return "\n".join(_make_lines(evidence)) + "\n"


def _make_lines(evidence: Evidence) -> Iterator[str]:
    yield f"# Checkpoint {format_code(evidence.location.value)}"
    yield ""
    yield f"**{format_prose(verdict.judge(evidence).text)}**"
    yield ""
    if driver := rows.format_driver(evidence):
        yield from (format_literal(driver), "")
    yield "| fact | | value | read from, or why not |"
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
    yield f"Looked at {words.format_time(evidence.observed_ms)} UTC with `holdfast inspect`."


def _format_batches(evidence: Evidence) -> Iterator[str]:
    if not evidence.timeline:
        return
    yield from ("", "## Batches", "", "| batch | planned (UTC) | standing | consumed | took |")
    yield "|---|---|---|---|---|"
    for one in evidence.timeline[-_RECENT:]:
        yield (
            f"| {one.batch} | {words.format_time(one.planned_ms)} | {one.standing.value} |"
            f" {rows.format_amount(*rows.count_consumed(one))} | {rows.format_duration(one)} |"
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
    for one in rows.pick_partitions(source.consumed.partitions, _MOST):
        yield (
            f"| {format_cell(one.partition)} | {format_cell(one.start)} | {format_cell(one.end)} |"
            f" {words.format_number(one.count)} | {one.change.value} |"
        )
    if len(source.consumed.partitions) > _MOST:
        yield from ("", f"and {len(source.consumed.partitions) - _MOST} more partitions")


def _format_files(source: SourceEvidence) -> Iterator[str]:
    listed = [f"- {format_code(path)}" for path in source.files[:_MOST]]
    left_out = rows.format_files_left_out(source, _MOST)
    if listed or left_out:
        yield from ("", *listed, *([f"- {left_out}"] if left_out else []))


def _format_operators(evidence: Evidence) -> Iterator[str]:
    for one in evidence.operators:
        name = one.name.value if isinstance(one.name, Known) else "name unknown"
        yield from ("", f"## Operator {one.operator}: {format_literal(name)}", "")
        yield rows.format_state(one)
        if behind := rows.format_stores_behind(one):
            yield from ("", format_literal(behind))
        if any(one.schema.values()):
            yield from ("", "| store | column family | key | value |", "|---|---|---|---|")
        for row in rows.list_schema(one):
            yield f"| {' | '.join(format_cell(part) for part in row)} |"


def _format_restarts(evidence: Evidence) -> Iterator[str]:
    history = evidence.restart_history
    if not isinstance(history, Known) or not history.value:
        return
    yield from ("", "## Restarts", "", "Times are in UTC.", "")
    if len(history.value) > _MOST:
        yield f"- {len(history.value) - _MOST:,} before these"
    for one in history.value[-_MOST:]:
        first = "" if one.first_batch is None else f", from batch {one.first_batch}"
        spark = f", Spark {format_literal(one.spark_version)}" if one.spark_version else ""
        error = f" {format_prose(error_line.extract(one.error))}" if one.error else ""
        told = f"{one.sign.value}{first}{spark}"
        yield f"- {words.format_time(one.at_ms)} {told}: {format_prose(one.note)}{error}"


def _format_rest(evidence: Evidence) -> Iterator[str]:
    for ledger in evidence.ledgers:
        held = ledger.batch
        batch = held.reason if isinstance(held, Absent | Unknown) else f"last batch {held}"
        yield from (
            "",
            f"Sink's ledger {format_code(ledger.table)}: {format_prose(f'{batch} {ledger.note}')}",
        )
    yield from ("", "## Files", "", "| kind | files | size |", "|---|---|---|")
    for kind, amount in evidence.files.items():
        yield f"| {kind.value} | {amount.count:,} | {words.format_size(amount.bytes)} |"
    yield from _format_list("Nested checkpoints", [format_code(one) for one in evidence.nested])
    unread = [f"{format_code(one.path)}: {format_prose(one.reason)}" for one in evidence.unreadable]
    yield from _format_list("Unreadable", unread, evidence.unreadable_more)
    foreign = [format_code(one) for one in evidence.foreign]
    yield from _format_list("Not of this checkpoint", foreign, rows.count_unnamed_foreign(evidence))


def _format_list(title: str, lines: Sequence[str], more: int = 0) -> Iterator[str]:
    if not lines:
        return
    yield from ("", f"## {title}", "")
    yield from (f"- {one}" for one in lines[:_MOST])
    left = max(0, len(lines) - _MOST) + more
    if left:
        yield f"- and {left:,} more"


def format_prose(shown: str) -> str:
    """Sentences without secrets, in which backticks mean code and nothing means HTML."""
    return "".join(_escape_around_code(_to_one_line(shown)))


def format_literal(shown: str) -> str:
    """A value without secrets that is shown as it is, and means nothing."""
    return _escape(_to_one_line(shown))


def format_code(shown: str) -> str:
    """A text without secrets as code, between more backticks than it has in a row itself."""
    text = _to_one_line(shown)
    fence = "`" * (1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    apart = " " if not text or text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{apart}{text}{apart}{fence}"


def escape_cell(markdown: str) -> str:
    """The same where it cannot break out of its cell, in which code knows this escape, too."""
    return markdown.replace("|", "\\|")


def format_cell(shown: str) -> str:
    """A value without secrets in a cell of a table."""
    return escape_cell(format_literal(shown))


def _to_one_line(shown: str) -> str:
    return " ".join(redact.for_display(shown).split())


def _escape_around_code(text: str) -> Iterator[str]:
    """Words and code by turns: code shows its letters as they are, escapes too."""
    done = 0
    for found in _CODE.finditer(text):
        yield _escape(text[done : found.start()])
        yield found[0]
        done = found.end()
    yield _escape(text[done:])


def _escape(text: str) -> str:
    return _MEANS.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), text)
