"""Stateful processors for transformWithState; also imported by Spark's workers, only with Spark 4.

There is one state variable of each kind, so that the state has a column family of each kind.
"""

from collections.abc import Iterator

import pandas as pd
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

_LATER_MS = 60_000
_HOUR_MS = 3_600_000


class _Variables:
    """The state variables of a key in both processors."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls this once per task."""
        self._handle = handle
        self._count = handle.getValueState("count", "n LONG")
        self._seen = handle.getListState("seen", "v LONG")
        self._by_value = handle.getMapState("byValue", "v LONG", "times INT")

    def close(self) -> None:
        """Nothing is held."""

    def _remember(self, values: list[int], watermark_ms: int) -> int:
        (before,) = self._count.get() or (0,)
        total = int(before) + len(values)
        self._count.update((total,))
        for value in values:
            self._seen.appendValue((value,))
            self._by_value.updateValue((value,), (1,))
        self._handle.registerTimer(watermark_ms + _LATER_MS)
        return total


class PandasCounter(_Variables, StatefulProcessor):
    """Counts the rows of a key, through pandas."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: tuple[str],
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Spark calls this for each key of a batch."""
        values = [int(value) for frame in rows for value in frame["v"]]
        total = self._remember(values, max(timerValues.getCurrentWatermarkInMs(), 0))
        yield pd.DataFrame({"k": [key[0]], "n": [total]})


class ForgetfulCounter(StatefulProcessor):
    """Counts the rows of a key for an hour, each state variable with a time to live."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Spark calls this once per task."""
        self._count = handle.getValueState("count", "n LONG", _HOUR_MS)
        self._seen = handle.getListState("seen", "v LONG", _HOUR_MS)
        self._by_value = handle.getMapState("byValue", "v LONG", "times INT", _HOUR_MS)

    def close(self) -> None:
        """Nothing is held."""

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[str],
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Spark calls this for each key of a batch."""
        values = [int(value) for frame in rows for value in frame["v"]]
        (before,) = self._count.get() or (0,)
        self._count.update((int(before) + len(values),))
        for value in values:
            self._seen.appendValue((value,))
            self._by_value.updateValue((value,), (1,))
        yield pd.DataFrame({"k": [key[0]], "n": [int(before) + len(values)]})


class RowCounter(_Variables, StatefulProcessor):
    """Counts the rows of a key."""

    def handleInputRows(  # noqa: N802
        self,
        key: tuple[str],
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        """Spark calls this for each key of a batch."""
        values = [int(row.v) for row in rows]
        total = self._remember(values, max(timerValues.getCurrentWatermarkInMs(), 0))
        yield Row(k=key[0], n=total)
