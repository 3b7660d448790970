"""Which batches a query has run: its progress reports, without those of an idle trigger.

A query that finds no data reports progress as well, every ten seconds, with the number of the next
batch and no rows. Only a batch that ran has spent time in `addBatch`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_RUNS = "addBatch"


def has_run(duration_ms: object) -> bool:
    """Whether these durations of a progress report are those of a batch that ran."""
    return isinstance(duration_ms, dict) and _RUNS in duration_ms


def find_newest(query: "StreamingQuery", known: int) -> "tuple[StreamingQueryProgress | None, int]":
    """The report of the newest batch that ran after `known`, and the number that is known now."""
    last = query.lastProgress
    if last is None or last["batchId"] <= known:
        return None, known
    if has_run(last["durationMs"]):
        return last, last["batchId"]
    before = last["batchId"] - 1  # the newest batch that can have run
    if before <= known:
        return None, known
    # Asked for once per batch: Spark keeps a hundred reports, and all of them are handed over.
    ran = [one for one in query.recentProgress if has_run(one["durationMs"])]
    return (ran[-1] if ran and ran[-1]["batchId"] > known else None), before
