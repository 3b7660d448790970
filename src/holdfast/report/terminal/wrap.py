"""Lines that are too long for the terminal -> several lines with a hanging indent."""

import re
from collections.abc import Iterable, Iterator

from holdfast.report.terminal import columns
from holdfast.report.terminal.lines import Line, Part, Style

_WORD = re.compile(r"\s*\S+|\s+$")
_NARROWEST = 40
_STEP = 2


def wrap_lines(lines: Iterable[Line], width: int) -> Iterator[Line]:
    """Yield lines that are at most `width` columns wide, unless a single word is wider."""
    for line in lines:
        if width < _NARROWEST or sum(columns.measure(part.text) for part in line) <= width:
            yield line
        else:
            yield from _break_line(line, width)


def _break_line(line: Line, width: int) -> Iterator[Line]:
    indent = _find_indent(line, width)
    current: list[Part] = []
    used, has_words = 0, False
    for part in line:
        for match in _WORD.finditer(part.text):
            word = match[0]
            if has_words and word.strip() and used + columns.measure(word.rstrip()) > width:
                yield tuple(current)
                word = word.lstrip()
                # A smaller indent is better than a word that the terminal breaks.
                used = max(0, min(indent, width - columns.measure(word.rstrip())))
                current = [Part(" " * used)]
            current.append(Part(word, part.style))
            used += columns.measure(word)
            has_words = has_words or bool(word.strip())
    yield tuple(current)


def _find_indent(line: Line, width: int) -> int:
    """Return the hanging indent: below the text after a label, or a step to the right."""
    first = line[0]
    is_label = first.style is Style.HEAD or not first.text.strip() or first.text.endswith("  ")
    text = "".join(part.text for part in line)
    step = len(text) - len(text.lstrip()) + _STEP
    below_text = len(first.text) if len(line) > 1 and is_label else step
    return next((indent for indent in (below_text, step) if indent <= width // 2), _STEP)
