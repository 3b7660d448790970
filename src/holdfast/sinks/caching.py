"""Holding the rows of a batch on the executors, so that their plan runs once."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MORE_PARTITIONS_THAN_ANY = 1_000_000


@contextlib.contextmanager
def cache(rows: "DataFrame") -> Iterator["DataFrame"]:
    """The rows, held in the executors' memory and on their disks while the block runs.

    Coalesced into more partitions than there are, which changes nothing but this: Spark cannot
    cache rows whose sort order names columns that the batch no longer has.
    """
    held = rows.coalesce(_MORE_PARTITIONS_THAN_ANY).persist()
    try:
        yield held
    finally:
        held.unpersist()


def estimate_bytes(rows: "DataFrame") -> int:
    """How many bytes Spark expects of a plan; a number beyond all measure where it cannot say.

    For cached rows that were counted this is their measured size.
    """
    return int(rows._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())  # noqa: SLF001
