"""Which batches the driver may collect, and which the executors write."""

from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.model.batch import Batch, Unknown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_ROWS = 200_000
SMALL_BYTES = 64 << 20
_GUESSED_BYTES_A_ROW = 1_000.0


class BatchSize:
    """Which batches are small enough for the driver's memory.

    Rows that the offsets promise decide; where they promise nothing, the batch before does; and
    where there is none, the batch counts as large. `most_rows` is for sinks where the executors
    are the faster way from so many rows on; for the others only memory decides.
    """

    def __init__(self, *, most_rows: int | None = None) -> None:
        self._most_rows = most_rows
        self._rows: int | None = None
        self._bytes_a_row = _GUESSED_BYTES_A_ROW
        self._too_much = False

    def saw(self, batch: Batch, rows: int, size: int) -> None:
        """Remember what the last batch turned out to be."""
        self._rows = rows
        # Of the rows that were promised or those that came, the fewer: a job that makes many rows
        # of one makes many of the next, too; one that drops most of them may drop none next time.
        promised = rows if isinstance(batch.expected_rows, Unknown) else batch.expected_rows
        fewer = min(rows, promised)
        self._bytes_a_row = size / fewer if fewer else self._bytes_a_row

    def small(self, batch: Batch) -> bool:
        """Whether the driver may collect this batch."""
        expected = batch.expected_rows
        rows = self._rows if isinstance(expected, Unknown) else expected
        if rows is None or self._too_much:
            return False
        few = self._most_rows is None or rows <= self._most_rows
        return few and rows * self._bytes_a_row <= SMALL_BYTES

    def collected(self, batch: Batch, rows: "DataFrame") -> pa.Table:
        """The rows on the driver; if they turn out too many for it, later batches are not tried.

        Spark refuses to collect more than the driver is set to take. The batch then fails, runs
        again, and goes through the executors.
        """
        self._too_much = True
        table = rows.toArrow()
        self._too_much = False
        self.saw(batch, table.num_rows, table.nbytes)
        return table
