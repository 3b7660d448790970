"""Sinks without Spark: they can only write what the driver collects."""

import pytest
from tests.measuring import measure_before


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    measure_before(monkeypatch)
