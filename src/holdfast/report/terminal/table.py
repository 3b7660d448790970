"""Rows of text -> aligned lines without secrets and without empty columns."""

from collections.abc import Iterator, Sequence

from holdfast.report import redact
from holdfast.report.terminal import columns
from holdfast.report.terminal.lines import Line, Part, Style


def to_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    """Yield the head and one line per row."""
    if not rows:
        yield (Part("no rows", Style.DIM),)
        return
    used = [index for index in range(len(heads)) if any(row[index] for row in rows)]
    shown = [[redact.for_display(row[index]) for index in used] for row in rows]
    names = [heads[index] for index in used]
    widths = [max(columns.measure(row[i]) for row in [names, *shown]) for i in range(len(used))]
    yield (Part(_format_line(names, widths), Style.HEAD),)
    for row in shown:
        yield (Part(_format_line(row, widths)),)


def _format_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    filled = (columns.align_left(cell, width) for cell, width in zip(cells, widths, strict=True))
    return "  ".join(filled).rstrip()
