"""Only a batch that ran counts: an idle trigger reports the next batch with no rows."""

# ruff: noqa: D102  a fake says what it does by what it stands for

from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.run.watch import batches_run


def ran(batch: int) -> dict[str, Any]:
    return {"batchId": batch, "durationMs": {"addBatch": 5, "triggerExecution": 9}}


def idle(batch: int) -> dict[str, Any]:
    return {"batchId": batch, "durationMs": {"latestOffset": 2, "triggerExecution": 3}}


@dataclass
class Query:
    """A query by what it reported."""

    recentProgress: list[dict[str, Any]] = field(default_factory=list)  # noqa: N815  Spark's name

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802  Spark's name
        return self.recentProgress[-1] if self.recentProgress else None


@pytest.mark.parametrize(
    ("reported", "known", "newest", "then"),
    [
        ([], -1, None, -1),
        ([ran(0)], -1, 0, 0),
        ([ran(0)], 0, None, 0),
        ([ran(0), ran(1), idle(2)], -1, 1, 1),
        ([ran(0), ran(1), idle(2)], 1, None, 1),
        ([ran(0), idle(1), ran(1)], 0, 1, 1),
        ([idle(24)], -1, None, 23),
        ([idle(24), idle(24)], 23, None, 23),
        ([idle(24), ran(24)], 23, 24, 24),
    ],
)
def test_the_newest_batch_that_ran(
    reported: list[dict[str, Any]], known: int, newest: int | None, then: int
) -> None:
    found, now = batches_run.find_newest(Query(reported), known)  # type: ignore[arg-type]
    assert (found and found["batchId"], now) == (newest, then)
