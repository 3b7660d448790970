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


def more_by(
    name: str, unit: str, samples: dict[str, list[float]], over: str, under: str, wanted: float
) -> Result:
    """A figure that holds when `over` is at most so much more than `under`."""
    more = [a - b for a, b in zip(samples[over], samples[under], strict=True)]
    return Result(
        name=name,
        unit=unit,
        samples=samples,
        ratio=statistics.median(more),
        spread=(min(more), max(more)),
        wanted=f"at most {wanted:g} {unit} more",
        holds=statistics.median(more) <= wanted,
    )
