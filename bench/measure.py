"""Samples -> results: a ratio or a difference with its spread, and whether it meets its target."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A measured figure, the target that is wanted, and whether the figure meets it."""

    name: str
    unit: str
    samples: dict[str, list[float]]
    ratio: float
    spread: tuple[float, float]
    wanted: str
    holds: bool


def compute_ratio(
    over: Sequence[float], under: Sequence[float]
) -> tuple[float, tuple[float, float]]:
    """Return the median of the rounds' ratios, with the smallest and the largest."""
    ratios = [a / b for a, b in zip(over, under, strict=True)]
    return statistics.median(ratios), (min(ratios), max(ratios))


def at_least(
    name: str, unit: str, samples: dict[str, list[float]], over: str, under: str, wanted: float
) -> Result:
    """Return a result that holds if `over` is at least `wanted` times `under`."""
    ratio, spread = compute_ratio(samples[over], samples[under])
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
    """Return a result that holds if `over` is at most `wanted` times `under`."""
    ratio, spread = compute_ratio(samples[over], samples[under])
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
    """Return a result that holds if `over` exceeds `under` by at most `wanted`."""
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
