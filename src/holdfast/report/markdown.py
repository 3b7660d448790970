"""Evidence -> Markdown for an incident ticket: the verdict, the nine facts, what stands behind."""

from collections.abc import Iterator

from holdfast.model.batch import Unknown
from holdfast.model.evidence import Absent, Evidence, Known
from holdfast.report import redact, rows, verdict, words

_RECENT = 12
_MOST = 20


def of(evidence: Evidence) -> str:
    """The whole page, without secrets."""
    return "\n".join(_lines(evidence)) + "\n"


def _lines(evidence: Evidence) -> Iterator[str]:
    yield f"# Checkpoint `{cell(evidence.location.value)}`"
    yield ""
    yield f"**{cell(verdict.of(evidence).text)}**"
    yield ""
    yield "| fact | | value | read from, or why not |"
    yield "|---|---|---|---|"
    for row in rows.facts(evidence):
        note = f"{row.note}; inferred: {row.inferred}" if row.inferred else row.note
        yield f"| {row.name} | {row.status} | {cell(row.value)} | {cell(note)} |"
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
        yield from ("", f"## Source {cell(source.name)}: {cell(rows.kind(source))}", "")
        if source.described:
            yield from (cell(source.described), "")
        yield from (rows.gave(source), "")
        if not source.consumed.partitions:
            continue
        yield f"| partition | from | to | {source.consumed.unit} | |"
        yield "|---|---|---|---|---|"
        for one in source.consumed.partitions[:_MOST]:
            yield (
                f"| {cell(one.partition)} | {cell(one.start)} | {cell(one.end)} |"
                f" {words.number(one.count)} | {one.change.value} |"
            )
        if len(source.consumed.partitions) > _MOST:
            yield from ("", f"and {len(source.consumed.partitions) - _MOST} more partitions")


def _operators(evidence: Evidence) -> Iterator[str]:
    for one in evidence.operators:
        name = one.name.value if isinstance(one.name, Known) else "name unknown"
        yield from ("", f"## Operator {one.operator}: {cell(name)}", "")
        yield rows.state(one)
        if any(one.schema.values()):
            yield from ("", "| store | column family | key | value |", "|---|---|---|---|")
        for row in rows.schema(one):
            yield f"| {' | '.join(cell(part) for part in row)} |"


def _restarts(evidence: Evidence) -> Iterator[str]:
    history = evidence.restart_history
    if not isinstance(history, Known) or not history.value:
        return
    yield from ("", "## Restarts", "", "Times are in UTC.", "")
    for one in history.value[-_MOST:]:
        error = f" {cell(one.error.splitlines()[0])}" if one.error else ""
        yield f"- {words.moment(one.at_ms)} {one.sign.value}: {cell(one.note)}{error}"


def _rest(evidence: Evidence) -> Iterator[str]:
    for ledger in evidence.ledgers:
        held = ledger.batch
        batch = held.reason if isinstance(held, Absent | Unknown) else f"last batch {held}"
        yield from ("", f"Sink's ledger `{cell(ledger.table)}`: {cell(f'{batch} {ledger.note}')}")
    yield from ("", "## Files", "", "| kind | files | size |", "|---|---|---|")
    for kind, amount in evidence.files.items():
        yield f"| {kind.value} | {amount.count:,} | {words.size(amount.bytes)} |"
    if evidence.unreadable:
        yield from ("", "## Unreadable", "")
        yield from (f"- `{cell(o.path)}`: {cell(o.reason)}" for o in evidence.unreadable[:_MOST])
        left = len(evidence.unreadable) - _MOST + evidence.unreadable_more
        if left > 0:
            yield f"- and {left:,} more"


def cell(shown: str) -> str:
    """A text without secrets that cannot break out of its cell."""
    return " ".join(redact.shown(shown).split()).replace("|", "\\|").replace("<", "&lt;")
