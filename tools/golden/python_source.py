"""Two Python data sources that count; also imported by Spark's workers, only with Spark 4."""

import time
from collections.abc import Iterator

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

_ROWS = 3
_EPOCH_S = 1_767_225_600


class _Range(InputPartition):
    def __init__(self, start: int, end: int) -> None:
        super().__init__(start)
        self.start = start
        self.end = end


class _CounterReader(DataSourceStreamReader):
    """One row per second, because Spark does not pass the start of a restart to this reader."""

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        return {"counted": 0, "shard": {"left": 0, "right": 1}}

    def latestOffset(self, *_limits: object) -> dict[str, object]:  # noqa: N802
        now = int(time.time()) - _EPOCH_S
        return {"counted": now, "shard": {"left": now, "right": 1}}

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        first, last = start["counted"], end["counted"]
        if not isinstance(first, int) or not isinstance(last, int):
            raise TypeError(f"`counted` is not a number in {start} or {end}")
        # Without a limit, the first batch would have the rows of years.
        return [_Range(max(first, last - _ROWS), last)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        if isinstance(partition, _Range):
            for number in range(partition.start, partition.end):
                yield (number,)


class _SimpleCounterReader(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"counted": 0}

    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        first = start["counted"]
        return iter([(first + step,) for step in range(_ROWS)]), {"counted": first + _ROWS}

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, int], end: dict[str, int]
    ) -> Iterator[tuple[int]]:
        return iter([(number,) for number in range(start["counted"], end["counted"])])


class CounterSource(DataSource):
    """A source with nested offsets."""

    @classmethod
    def name(cls) -> str:
        """The format to ask for."""
        return "counter"

    def schema(self) -> str:
        """One column."""
        return "number INT"

    def streamReader(self, schema: object) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """A reader for a query."""
        return _CounterReader()


class SimpleCounterSource(DataSource):
    """A source that reads its rows on the driver."""

    @classmethod
    def name(cls) -> str:
        """The format to ask for."""
        return "simple-counter"

    def schema(self) -> str:
        """One column."""
        return "number INT"

    def simpleStreamReader(  # noqa: N802
        self,
        schema: object,  # noqa: ARG002
    ) -> SimpleDataSourceStreamReader:
        """A reader for a query."""
        return _SimpleCounterReader()
