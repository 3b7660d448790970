"""Queries with a processor of transformWithState, to be changed between two starts."""

from collections.abc import Callable, Iterator, Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from tests.spark.changing import Build

Count = Callable[[int], int]


def processing(*variables: str, plus: int = 0, mode: str = "None") -> Build:  # noqa: C901  small ones
    """Count the rows of a key in each of some variables: `value n: c long`, `list …`, `map …`."""

    # What is inside goes to Spark's workers as it is; they need not find this file.
    def a_value(handle: StatefulProcessorHandle, name: str, schema: str) -> Count:
        kept = handle.getValueState(name, schema)

        def count(came: int) -> int:
            before = kept.get()
            now = came + plus + int(before[0] if before else 0)
            kept.update((now,))
            return now

        return count

    def a_list(handle: StatefulProcessorHandle, name: str, schema: str) -> Count:
        kept = handle.getListState(name, schema)

        def count(came: int) -> int:
            kept.appendValue((came,))
            return sum(int(part[0]) for part in kept.get())

        return count

    def a_map(handle: StatefulProcessorHandle, name: str, schema: str) -> Count:
        kept = handle.getMapState(name, "i long", schema)

        def count(came: int) -> int:
            before = kept.getValue((0,))
            now = came + int(before[0] if before else 0)
            kept.updateValue((0,), (now,))
            return now

        return count

    kinds = {"value": a_value, "list": a_list, "map": a_map}

    class Counter(StatefulProcessor):
        def init(self, handle: StatefulProcessorHandle) -> None:
            self.counts: list[Count] = []
            for one in variables:
                words, _, schema = one.partition(": ")
                kind, _, name = words.partition(" ")
                self.counts.append(kinds[kind](handle, name, schema))

        def handleInputRows(  # noqa: N802  the names are Spark's
            self,
            key: tuple[str],
            rows: Iterator[Row],
            timerValues: TimerValues,  # noqa: ARG002, N803
        ) -> Iterator[Row]:
            came = sum(1 for _ in rows)
            yield Row(k=key[0], n=str([count(came) for count in self.counts]))

        def close(self) -> None:
            self.counts = []

    def build(read: Sequence[DataFrame]) -> DataFrame:
        by_key = read[0].groupBy("k")
        return by_key.transformWithState(Counter(), "k string, n string", "update", mode)

    return build
