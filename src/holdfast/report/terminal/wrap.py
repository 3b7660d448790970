"""Lines that are longer than a terminal is wide -> lines that go on below where they began."""

import re
from collections.abc import Iterable, Iterator

from holdfast.report.terminal import columns
from holdfast.report.terminal.text import Line, Part, Style

_WORD = re.compile(r"\s*\S+|\s+$")
_NARROWEST = 40
_STEP = 2


def wrap_lines(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """The lines, none of them wider than `width`, unless a single word is."""
    for line in lines:
        if width < _NARROWEST or sum(columns.measure(part.text) for part in line) <= width:
            yield line
        else:
            yield from _break_line(line, width)


def _break_line(line: Line, width: int) -> Iterator[Line]:
    below = _find_indent(line, width)
    current: list[Part] = []
    used, begun = 0, False
    for part in line:
        for found in _WORD.finditer(part.text):
            word = found[0]
            if begun and word.strip() and used + columns.measure(word.rstrip()) > width:
                yield tuple(current)
                word = word.lstrip()
                # Further to the left is better than broken by the terminal.
                used = max(0, min(below, width - columns.measure(word.rstrip())))
                current = [Part(" " * used)]
            current.append(Part(word, part.style))
            used += columns.measure(word)
            begun = begun or bool(word.strip())
    yield tuple(current)


def _find_indent(line: Line, width: int) -> int:
    """Where a line goes on: below what follows its label, or a step further in than it began."""
    first = line[0]
    label = first.style is Style.HEAD or not first.text.strip() or first.text.endswith("  ")
    text = "".join(part.text for part in line)
    further = len(text) - len(text.lstrip()) + _STEP
    below = len(first.text) if len(line) > 1 and label else further
    return next((one for one in (below, further) if one <= width // 2), _STEP)
