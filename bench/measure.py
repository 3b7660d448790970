"""Samples, medians and the one shape that every result has."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One figure: what was asked for, what was measured, and whether it holds."""

    name: str
    unit: str
    samples: dict[str, list[float]]
    ratio: float
    spread: tuple[float, float]
    wanted: str
    holds: bool


def ratio_of(over: Sequence[float], under: Sequence[float]) -> tuple[float, tuple[float, float]]:
    """The median of the rounds' ratios, with the smallest and the largest."""
    ratios = [a / b for a, b in zip(over, under, strict=True)]
    return statistics.median(ratios), (min(ratios), max(ratios))


def at_least(
    name: str, unit: str, samples: dict[str, list[float]], over: str, under: str, wanted: float
) -> Result:
    """A figure that holds when `over` is at least so many times `under`."""
    ratio, spread = ratio_of(samples[over], samples[under])
    return Result(
        name=name,
        unit=unit,
        samples=samples,
        ratio=ratio,
        spread=spread,
        wanted=f"{over} / {under} >= {wanted:g}",
        holds=ratio >= wanted,
    )


def at_most(
    name: str, unit: str, samples: dict[str, list[float]], over: str, under: str, wanted: float
) -> Result:
    """A figure that holds when `over` is at most so many times `under`."""
    ratio, spread = ratio_of(samples[over], samples[under])
    return Result(
        name=name,
        unit=unit,
        samples=samples,
        ratio=ratio,
        spread=spread,
        wanted=f"{over} / {under} <= {wanted:g}",
        holds=ratio <= wanted,
    )
