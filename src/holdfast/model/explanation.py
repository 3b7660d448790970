"""What a code means, for people who meet it: the one place where that is written."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A kind of finding: what it means, how it comes about, what Spark does, what cures it.

    `spark` pairs versions with what those do.
    """

    meaning: str
    causes: str
    spark: tuple[tuple[str, str], ...]
    cures: str
