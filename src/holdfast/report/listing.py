"""The checkpoints below a folder -> one row each, as text, JSON and Markdown."""

from collections.abc import Iterator

from holdfast.model.evidence import CheckpointRow, Checkpoints
from holdfast.model.fact import Known
from holdfast.model.json import Json
from holdfast.report import document, redact, words
from holdfast.report.markdown import escape_cell, format_code, format_prose
from holdfast.report.terminal import columns
from holdfast.report.terminal.lines import LEVELS, Line, Part, Style

_MOST = 20
_MORE = "Not searched; may contain more checkpoints"


def to_lines(checkpoints: Checkpoints, base: str) -> Iterator[Line]:
    """Yield one line per checkpoint: its path, query id, last change and verdict."""
    rows = checkpoints.rows
    yield (
        Part(words.pluralize(len(rows), "checkpoint"), Style.HEAD),
        Part(f" below {redact.for_display(base)}"),
    )
    names = [redact.for_display(_shorten_location(row, base)) for row in rows]
    width = max(columns.measure(name) for name in ("checkpoint", *names))
    head = f"  {'checkpoint':<{width}}  {'query id':<36}  {'changed (UTC)':<19}  status"
    yield (Part(head, Style.DIM),)
    for row, name in zip(rows, names, strict=True):
        yield (
            Part(f"  {columns.align_left(name, width)}  {_format_query_id(row):<36}  "),
            Part(f"{words.format_time(row.changed_ms):<19}  ", Style.DIM),
            Part(redact.for_display(row.verdict.text), LEVELS[row.verdict.level]),
        )
    if checkpoints.unreadable:
        yield (Part(_MORE, Style.HEAD),)
        for folder in checkpoints.unreadable[:_MOST]:
            yield (Part(redact.for_display(f"  {folder.path}: {folder.reason}"), Style.CAREFUL),)
        if len(checkpoints.unreadable) > _MOST:
            yield (Part(f"  and {len(checkpoints.unreadable) - _MOST:,} more", Style.DIM),)


def to_json(checkpoints: Checkpoints, base: str) -> Json:
    """Return the list for programs, without secrets."""
    return redact.value(
        {
            "format": document.FORMAT,
            "location": base,
            "checkpoints": [_row_to_json(row) for row in checkpoints.rows],
            "unreadable": [
                document.unreadable_to_json(folder) for folder in checkpoints.unreadable
            ],
        }
    )


def to_markdown(checkpoints: Checkpoints, base: str) -> str:
    """Return the list as a Markdown table for a ticket, without secrets."""
    rows = checkpoints.rows
    lines = [
        f"# {words.pluralize(len(rows), 'checkpoint')} below {format_code(base)}",
        "",
        "| checkpoint | query id | changed (UTC) | status |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {escape_cell(format_code(_shorten_location(row, base)))} | `{_format_query_id(row)}`"
        f" | {words.format_time(row.changed_ms)} |"
        f" {escape_cell(format_prose(row.verdict.text))} |"
        for row in rows
    ]
    if checkpoints.unreadable:
        lines += ["", _MORE, ""]
        lines += [
            f"- {format_code(folder.path)}: {format_prose(folder.reason)}"
            for folder in checkpoints.unreadable[:_MOST]
        ]
        left = len(checkpoints.unreadable) - _MOST
        lines += [f"- and {left:,} more"] if left > 0 else []
    return "\n".join(lines)


def _row_to_json(row: CheckpointRow) -> Json:
    return {
        "location": row.location,
        "query_id": document.fact_to_json(row.query_id, str),
        "batches": {
            "first": row.batches.first,
            "last_planned": row.batches.last_planned,
            "last_committed": row.batches.last_committed,
            "pending": list(row.batches.pending),
            "unlisted": [document.unreadable_to_json(log) for log in row.batches.unlisted],
        },
        "changed_at": words.format_iso_time(row.changed_ms),
        "verdict": {"level": row.verdict.level.value, "text": row.verdict.text},
    }


def _shorten_location(row: CheckpointRow, base: str) -> str:
    return row.location.removeprefix(base).lstrip("/") or row.location


def _format_query_id(row: CheckpointRow) -> str:
    return row.query_id.value if isinstance(row.query_id, Known) else "-"
