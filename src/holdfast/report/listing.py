"""The checkpoints below a folder -> one row each, as text, JSON and Markdown."""

from collections.abc import Iterator

from holdfast.model.evidence import CheckpointRow, Checkpoints
from holdfast.model.fact import Known
from holdfast.model.json import Json
from holdfast.report import document, redact, words
from holdfast.report.markdown import code, in_table, prose
from holdfast.report.terminal import columns
from holdfast.report.terminal.text import LEVELS, Line, Part, Style

_MOST = 20
_MORE = "Not searched, and may hold more"


def lines(found: Checkpoints, base: str) -> Iterator[Line]:
    """One line a checkpoint: where, which query, how far, how it stands."""
    rows = found.rows
    yield (
        Part(words.plural(len(rows), "checkpoint"), Style.HEAD),
        Part(f" below {redact.shown(base)}"),
    )
    names = [redact.shown(_name(row, base)) for row in rows]
    width = max(columns.width(name) for name in ("checkpoint", *names))
    head = f"  {'checkpoint':<{width}}  {'query id':<36}  {'changed (UTC)':<19}  standing"
    yield (Part(head, Style.DIM),)
    for row, name in zip(rows, names, strict=True):
        yield (
            Part(f"  {columns.left(name, width)}  {_query(row):<36}  "),
            Part(f"{words.moment(row.changed_ms):<19}  ", Style.DIM),
            Part(redact.shown(row.verdict.text), LEVELS[row.verdict.level]),
        )
    if found.unreadable:
        yield (Part(_MORE, Style.HEAD),)
        for one in found.unreadable[:_MOST]:
            yield (Part(redact.shown(f"  {one.path}: {one.reason}"), Style.CAREFUL),)
        if len(found.unreadable) > _MOST:
            yield (Part(f"  and {len(found.unreadable) - _MOST:,} more", Style.DIM),)


def of(found: Checkpoints, base: str) -> Json:
    """The same for programs."""
    return redact.value(
        {
            "format": document.FORMAT,
            "location": base,
            "checkpoints": [_row(row) for row in found.rows],
            "unreadable": [document.unreadable(one) for one in found.unreadable],
        }
    )


def markdown(found: Checkpoints, base: str) -> str:
    """The same as a table for a ticket."""
    rows = found.rows
    lines = [
        f"# {words.plural(len(rows), 'checkpoint')} below {code(base)}",
        "",
        "| checkpoint | query id | changed (UTC) | standing |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {in_table(code(_name(row, base)))} | `{_query(row)}` | {words.moment(row.changed_ms)} |"
        f" {in_table(prose(row.verdict.text))} |"
        for row in rows
    ]
    if found.unreadable:
        lines += ["", _MORE, ""]
        lines += [f"- {code(one.path)}: {prose(one.reason)}" for one in found.unreadable[:_MOST]]
        left = len(found.unreadable) - _MOST
        lines += [f"- and {left:,} more"] if left > 0 else []
    return "\n".join(lines)


def _row(row: CheckpointRow) -> Json:
    return {
        "location": row.location,
        "query_id": document.fact(row.query_id, str),
        "batches": {
            "first": row.batches.first,
            "last_planned": row.batches.last_planned,
            "last_committed": row.batches.last_committed,
            "pending": list(row.batches.pending),
            "unlisted": [document.unreadable(one) for one in row.batches.unlisted],
        },
        "changed_at": words.instant(row.changed_ms),
        "verdict": {"level": row.verdict.level.value, "text": row.verdict.text},
    }


def _name(row: CheckpointRow, base: str) -> str:
    return row.location.removeprefix(base).lstrip("/") or row.location


def _query(row: CheckpointRow) -> str:
    return row.query_id.value if isinstance(row.query_id, Known) else "-"
