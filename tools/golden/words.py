"""What Spark's API reports about a query: its progress, its end, and its settings."""

import json
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

Json = dict[str, object]
# Settings that a checkpoint pins, or that change its format; read from the session of the query.
_CONF = (
    "spark.sql.shuffle.partitions",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.sql.streaming.stateStore.compression.codec",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    "spark.sql.streaming.stateStore.rocksdb.formatVersion",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
    "spark.sql.streaming.stateStore.encodingFormat",
    "spark.sql.streaming.stateStore.minDeltasForSnapshot",
    "spark.sql.streaming.multipleWatermarkPolicy",
    "spark.sql.streaming.aggregation.stateFormatVersion",
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion",
    "spark.sql.streaming.join.stateFormatVersion",
    "spark.sql.streaming.minBatchesToRetain",
    "spark.sql.streaming.offsetLog.formatVersion",
    "spark.sql.streaming.fileSource.log.compactInterval",
)


def list_progress(query: StreamingQuery) -> list[Json]:
    """Return every progress of a run as the JVM prints it, which is the same in every version."""
    return [json.loads(progress.json()) for progress in query._jsq.recentProgress()]  # noqa: SLF001


def describe_run(query: StreamingQuery, error: str) -> Json:
    """Return a finished run, with the error that ended it, if any."""
    run: Json = {
        "run_id": str(query.runId),
        "ended": "failed" if error else "stopped",
        "progress": list_progress(query),
    }
    if error:
        run["error"] = error
    return run


def summarize_runs(runs: list[Json], *, asynchronous: bool = False) -> Json:
    """Return what the runs reported, and the batches that they committed.

    Spark reports progress after it has written the batch's commit, except with asynchronous
    progress tracking. In continuous mode it reports no progress. In both cases the committed
    batches are left out.
    """
    reported = [
        progress
        for run in runs
        if isinstance(run["progress"], list)
        for progress in run["progress"]
    ]
    if not reported or asynchronous:
        return {"runs": runs}
    committed = {
        progress["batchId"] for progress in reported if "addBatch" in progress["durationMs"]
    }
    return {"committed": sorted(committed), "runs": runs}


def read_conf(get: Callable[[str], str | None], own: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session that matter for a checkpoint, including defaults."""
    found: dict[str, str] = {}
    for key in dict.fromkeys((*_CONF, *own)):
        try:
            found[key] = str(get(key))
        except (PySparkException, Py4JJavaError):
            # This version does not know the setting.
            continue
    return found


def first_lines(error: BaseException) -> str:
    """Return the first lines of an error's message."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:600]
