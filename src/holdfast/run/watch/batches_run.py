"""Progress reports of a query -> the batches that it ran, without the reports of idle triggers.

A query without new data also reports progress, every ten seconds, with the id of the next batch and
no rows. Only a batch that ran has spent time in `addBatch`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

_ADD_BATCH = "addBatch"


def has_run(duration_ms: object) -> bool:
    """Return whether the durations in a progress report are those of a batch that ran."""
    return isinstance(duration_ms, dict) and _ADD_BATCH in duration_ms


def find_newest(query: "StreamingQuery", known: int) -> "tuple[StreamingQueryProgress | None, int]":
    """Return the report of the newest batch after `known`, and the newest id known now."""
    last = query.lastProgress
    if last is None or last["batchId"] <= known:
        return None, known
    if has_run(last["durationMs"]):
        return last, last["batchId"]
    before = last["batchId"] - 1  # the newest batch that can have run
    if before <= known:
        return None, known
    # At most once per batch: Spark keeps a hundred reports, and each call transfers all of them.
    reports = [report for report in query.recentProgress if has_run(report["durationMs"])]
    return (reports[-1] if reports and reports[-1]["batchId"] > known else None), before
