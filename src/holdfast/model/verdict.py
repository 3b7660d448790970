"""The status of a checkpoint in one sentence."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How much attention a verdict needs."""

    GOOD = "good"
    CAREFUL = "careful"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The sentence, and how much attention it needs."""

    level: Level
    text: str
