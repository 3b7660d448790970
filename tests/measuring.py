"""Sinks that begin a test with a measured batch behind them, so that the driver collects."""

import pytest

from holdfast.sinks.batch_size import BatchSize, Kind, Ratio

_BEGIN = BatchSize.__init__


def begin_measured(size: BatchSize, *, most_rows: int | None = None) -> None:
    """Begin with a batch of one narrow row behind it."""
    _BEGIN(size, most_rows=most_rows)
    _measure(size)


def _measure(size: BatchSize) -> None:
    for kind in Kind:
        size._seen[kind].append(Ratio(rows=1.0, size=100.0))  # noqa: SLF001


def measured(most_rows: int) -> BatchSize:
    """Return a measure with small batches of every kind behind it; 0 rows: all are large."""
    size = BatchSize(most_rows=most_rows)
    _measure(size)
    return size


def measure_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every sink begin with a measured batch."""
    monkeypatch.setattr(BatchSize, "__init__", begin_measured)
