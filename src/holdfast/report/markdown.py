"""Evidence -> Markdown for an incident ticket: the verdict, the nine facts, what stands behind."""

import re
from collections.abc import Iterator, Sequence

from holdfast.model.evidence import Evidence, SourceSeen
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


def of(evidence: Evidence) -> str:
    """The whole page, without secrets."""
    return "\n".join(_lines(evidence)) + "\n"


def _lines(evidence: Evidence) -> Iterator[str]:
    yield f"# Checkpoint {code(evidence.location.value)}"
    yield ""
    yield f"**{prose(verdict.of(evidence).text)}**"
    yield ""
    if driver := rows.driver(evidence):
        yield from (literal(driver), "")
    yield "| fact | | value | read from, or why not |"
    yield "|---|---|---|---|"
    for row in rows.facts(evidence):
        note = f"{row.note}; inferred: {row.inferred}" if row.inferred else row.note
        yield f"| {row.name} | {row.status} | {cell(row.value)} | {in_table(prose(note))} |"
    yield from _batches(evidence)
    yield from _sources(evidence)
    yield from _operators(evidence)
    yield from _restarts(evidence)
    yield from _rest(evidence)
    yield ""
    yield f"Looked at {words.moment(evidence.looked_ms)} UTC with `holdfast inspect`."


def _batches(evidence: Evidence) -> Iterator[str]:
    if not evidence.timeline:
        return
    yield from ("", "## Batches", "", "| batch | planned (UTC) | standing | consumed | took |")
    yield "|---|---|---|---|---|"
    for one in evidence.timeline[-_RECENT:]:
        yield (
            f"| {one.batch} | {words.moment(one.planned_ms)} | {one.standing.value} |"
            f" {rows.amount(*rows.consumed(one))} | {rows.took(one)} |"
        )


def _sources(evidence: Evidence) -> Iterator[str]:
    for source in evidence.sources:
        yield from ("", f"## Source {literal(source.name)}: {literal(rows.kind(source))}", "")
        if source.described:
            yield from (literal(source.described), "")
        if source.same_as is not None:
            yield from (rows.same_as(source), "")
        yield from (rows.gave(source), "")
        yield from _partitions(source)
        yield from _files(source)


def _partitions(source: SourceSeen) -> Iterator[str]:
    if not source.consumed.partitions:
        return
    yield f"| partition | from | to | {source.consumed.unit} | |"
    yield "|---|---|---|---|---|"
    for one in rows.partitions(source.consumed.partitions, _MOST):
        yield (
            f"| {cell(one.partition)} | {cell(one.start)} | {cell(one.end)} |"
            f" {words.number(one.count)} | {one.change.value} |"
        )
    if len(source.consumed.partitions) > _MOST:
        yield from ("", f"and {len(source.consumed.partitions) - _MOST} more partitions")


def _files(source: SourceSeen) -> Iterator[str]:
    listed = [f"- {code(path)}" for path in source.files[:_MOST]]
    left_out = rows.files_left_out(source, _MOST)
    if listed or left_out:
        yield from ("", *listed, *([f"- {left_out}"] if left_out else []))


def _operators(evidence: Evidence) -> Iterator[str]:
    for one in evidence.operators:
        name = one.name.value if isinstance(one.name, Known) else "name unknown"
        yield from ("", f"## Operator {one.operator}: {literal(name)}", "")
        yield rows.state(one)
        if behind := rows.behind(one):
            yield from ("", literal(behind))
        if any(one.schema.values()):
            yield from ("", "| store | column family | key | value |", "|---|---|---|---|")
        for row in rows.schema(one):
            yield f"| {' | '.join(cell(part) for part in row)} |"


def _restarts(evidence: Evidence) -> Iterator[str]:
    history = evidence.restart_history
    if not isinstance(history, Known) or not history.value:
        return
    yield from ("", "## Restarts", "", "Times are in UTC.", "")
    if len(history.value) > _MOST:
        yield f"- {len(history.value) - _MOST:,} before these"
    for one in history.value[-_MOST:]:
        first = "" if one.first_batch is None else f", from batch {one.first_batch}"
        spark = f", Spark {literal(one.spark_version)}" if one.spark_version else ""
        error = f" {prose(error_line.line(one.error))}" if one.error else ""
        told = f"{one.sign.value}{first}{spark}"
        yield f"- {words.moment(one.at_ms)} {told}: {prose(one.note)}{error}"


def _rest(evidence: Evidence) -> Iterator[str]:
    for ledger in evidence.ledgers:
        held = ledger.batch
        batch = held.reason if isinstance(held, Absent | Unknown) else f"last batch {held}"
        yield from ("", f"Sink's ledger {code(ledger.table)}: {prose(f'{batch} {ledger.note}')}")
    yield from ("", "## Files", "", "| kind | files | size |", "|---|---|---|")
    for kind, amount in evidence.files.items():
        yield f"| {kind.value} | {amount.count:,} | {words.size(amount.bytes)} |"
    yield from _listed("Nested checkpoints", [code(one) for one in evidence.nested])
    unread = [f"{code(one.path)}: {prose(one.reason)}" for one in evidence.unreadable]
    yield from _listed("Unreadable", unread, evidence.unreadable_more)
    foreign = [code(one) for one in evidence.foreign]
    yield from _listed("Not of this checkpoint", foreign, rows.foreign_more(evidence))


def _listed(title: str, lines: Sequence[str], more: int = 0) -> Iterator[str]:
    if not lines:
        return
    yield from ("", f"## {title}", "")
    yield from (f"- {one}" for one in lines[:_MOST])
    left = max(0, len(lines) - _MOST) + more
    if left:
        yield f"- and {left:,} more"


def prose(shown: str) -> str:
    """Sentences without secrets, in which backticks mean code and nothing means HTML."""
    return "".join(_spans(_one_line(shown)))


def literal(shown: str) -> str:
    """A value without secrets that is shown as it is, and means nothing."""
    return _words(_one_line(shown))


def code(shown: str) -> str:
    """A text without secrets as code, between more backticks than it has in a row itself."""
    text = _one_line(shown)
    fence = "`" * (1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    apart = " " if not text or text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{apart}{text}{apart}{fence}"


def in_table(markdown: str) -> str:
    """The same where it cannot break out of its cell, in which code knows this escape, too."""
    return markdown.replace("|", "\\|")


def cell(shown: str) -> str:
    """A value without secrets in a cell of a table."""
    return in_table(literal(shown))


def _one_line(shown: str) -> str:
    return " ".join(redact.shown(shown).split())


def _spans(text: str) -> Iterator[str]:
    """Words and code by turns: code shows its letters as they are, escapes too."""
    done = 0
    for found in _CODE.finditer(text):
        yield _words(text[done : found.start()])
        yield found[0]
        done = found.end()
    yield _words(text[done:])


def _words(text: str) -> str:
    return _MEANS.sub(lambda found: _ENTITIES.get(found[0], f"\\{found[0]}"), text)
