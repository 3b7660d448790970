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
    where there is none, the batch counts as large.
    """

    def __init__(self) -> None:
        self._rows: int | None = None
        self._bytes_a_row = _GUESSED_BYTES_A_ROW
        self._too_much = False

    def saw(self, rows: int, size: int) -> None:
        """Remember what the last batch turned out to be."""
        self._rows = rows
        self._bytes_a_row = size / rows if rows else self._bytes_a_row

    def small(self, batch: Batch) -> bool:
        """Whether the driver may collect this batch."""
        expected = batch.expected_rows
        rows = self._rows if isinstance(expected, Unknown) else expected
        if rows is None or self._too_much:
            return False
        return rows <= SMALL_ROWS and rows * self._bytes_a_row <= SMALL_BYTES

    def collected(self, rows: "DataFrame") -> pa.Table:
        """The rows on the driver; if they turn out too many for it, later batches are not tried.

        Spark refuses to collect more than the driver is set to take. The batch then fails, runs
        again, and goes through the executors.
        """
        self._too_much = True
        table = rows.toArrow()
        self._too_much = False
        self.saw(table.num_rows, table.nbytes)
        return table
