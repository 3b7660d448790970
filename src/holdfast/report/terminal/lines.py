"""Styled lines, which every report for people is made of.

A line is a sequence of parts, each with a style. The command paints the parts or leaves them plain.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from holdfast.model.evidence import BatchStatus
from holdfast.model.verdict import Level
from holdfast.report import redact


class Style(StrEnum):
    """The role of a part; the terminal decides how it looks."""

    PLAIN = "plain"
    HEAD = "head"
    GOOD = "good"
    CAREFUL = "careful"
    BAD = "bad"
    DIM = "dim"


@dataclass(frozen=True, slots=True)
class Part:
    """Text in one style."""

    text: str
    style: Style = Style.PLAIN


Line = tuple[Part, ...]

LEVELS = {Level.GOOD: Style.GOOD, Level.CAREFUL: Style.CAREFUL, Level.BAD: Style.BAD}
STATUSES = {
    BatchStatus.YES: Style.GOOD,
    BatchStatus.UNLOGGED: Style.GOOD,
    BatchStatus.NO: Style.CAREFUL,
    BatchStatus.MISSING: Style.CAREFUL,
    BatchStatus.COMMIT_UNREADABLE: Style.BAD,
    BatchStatus.OFFSETS_UNREADABLE: Style.BAD,
}


def clean(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines without secrets, and without characters that control a terminal."""
    for line in lines:
        yield tuple(Part(redact.for_display(part.text), part.style) for part in line)


def strip_styles(lines: Iterable[Line]) -> str:
    """Return the text of the lines."""
    return "\n".join("".join(part.text for part in line).rstrip() for line in lines)
