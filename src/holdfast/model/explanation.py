"""The explanation of a finding's code, for users who meet it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What a finding means, what causes it, what Spark does, and what to do about it.

    `spark` has pairs: versions of Spark, and what these versions do.
    """

    meaning: str
    causes: str
    spark: tuple[tuple[str, str], ...]
    cures: str
