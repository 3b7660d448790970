"""Which version of Spark may have written something."""

from dataclasses import dataclass
from typing import NamedTuple


class SparkVersion(NamedTuple):
    """A minor version of Spark, `4.1`."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """The versions that may have written a checkpoint's newest batch, both ends included.

    `or_later`: the highest is the newest version known here, and a later one may write the same.
    `reasons` has one sentence for each thing that narrowed the range.
    """

    lowest: SparkVersion
    highest: SparkVersion
    or_later: bool
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        low, high = self.lowest, self.highest
        if self.or_later:
            return f"{low} or later"
        return f"{low}" if low == high else f"{low} to {high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """A vendor's own Spark, which pins and writes what no range of Apache's versions tells.

    `name` is what it is called; `reasons` has one sentence for each thing that shows it.
    """

    name: str
    reasons: tuple[str, ...]
