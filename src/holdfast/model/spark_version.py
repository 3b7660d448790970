"""Versions of Spark, ranges of versions, and vendors' own builds."""

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

    `or_later`: the highest version is the newest known, and a later one may write the same.
    `reasons` has one sentence for each observation that narrowed the range.
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
    """A vendor's own Spark, which matches no range of Apache versions.

    `reasons` has one sentence for each observation that shows the vendor.
    """

    name: str
    reasons: tuple[str, ...]
