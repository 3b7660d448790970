"""Queries with a processor of transformWithState, to be changed between two starts.

Spark 3.5 has none, and imports this all the same: what is of Spark 4 is imported when it is built.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Row

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import (
        StatefulProcessor,
        StatefulProcessorHandle,
        TimerValues,
    )
    from tests.spark.changing import Build

Count = Callable[[int], int]


def processing(
    *variables: str, plus: int = 0, mode: str = "None", ttl_ms: int | None = None
) -> "Build":
    """Count the rows of a key in each of some variables: `value n: c long`, `list …`, `map …`."""

    def build(read: Sequence[DataFrame]) -> DataFrame:
        by_key = read[0].groupBy("k")
        counter = _counter(variables, plus, ttl_ms)
        return by_key.transformWithState(counter, "k string, n string", "update", mode)

    return build


def _counter(  # noqa: C901  small ones
    variables: Sequence[str], plus: int, ttl_ms: int | None
) -> "StatefulProcessor":
    from pyspark.sql.streaming import stateful_processor

    # What is inside goes to Spark's workers as it is; they need not find this file.
    def a_value(handle: "StatefulProcessorHandle", name: str, schema: str) -> Count:
        kept = handle.getValueState(name, schema, ttl_ms)

        def count(came: int) -> int:
            before = kept.get()
            now = came + plus + int(before[0] if before else 0)
            kept.update((now,))
            return now

        return count

    def a_list(handle: "StatefulProcessorHandle", name: str, schema: str) -> Count:
        kept = handle.getListState(name, schema)

        def count(came: int) -> int:
            kept.appendValue((came,))
            return sum(int(part[0]) for part in kept.get())

        return count

    def a_map(handle: "StatefulProcessorHandle", name: str, schema: str) -> Count:
        kept = handle.getMapState(name, "i long", schema)

        def count(came: int) -> int:
            before = kept.getValue((0,))
            now = came + int(before[0] if before else 0)
            kept.updateValue((0,), (now,))
            return now

        return count

    kinds = {"value": a_value, "list": a_list, "map": a_map}

    class Counter(stateful_processor.StatefulProcessor):
        def init(self, handle: "StatefulProcessorHandle") -> None:
            self.counts: list[Count] = []
            for one in variables:
                words, _, schema = one.partition(": ")
                kind, _, name = words.partition(" ")
                self.counts.append(kinds[kind](handle, name, schema))

        def handleInputRows(  # noqa: N802  the names are Spark's
            self,
            key: tuple[str],
            rows: Iterator[Row],
            timerValues: "TimerValues",  # noqa: ARG002, N803
        ) -> Iterator[Row]:
            came = sum(1 for _ in rows)
            yield Row(k=key[0], n=str([count(came) for count in self.counts]))

        def close(self) -> None:
            self.counts = []

    return Counter()
