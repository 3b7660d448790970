"""What Spark's API says of a query: its progress, how it ended, and the settings it had."""

import json
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

Json = dict[str, object]
# What a checkpoint pins, or what changes its format; asked of the session that started the query.
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


def progress_of(query: StreamingQuery) -> list[Json]:
    """Every progress of a run as the JVM prints it, which is the same in every version."""
    return [json.loads(progress.json()) for progress in query._jsq.recentProgress()]  # noqa: SLF001


def run_of(query: StreamingQuery, error: str) -> Json:
    """A run that is over, with the error that ended it, or none."""
    run: Json = {
        "run_id": str(query.runId),
        "ended": "failed" if error else "stopped",
        "progress": progress_of(query),
    }
    if error:
        run["error"] = error
    return run


def said_of(runs: list[Json], *, asynchronous: bool = False) -> Json:
    """What the runs reported, and the batches they committed.

    Spark reports a progress after the batch's commit was written, except with asynchronous
    progress tracking. In continuous mode it reports none. Then nothing is said about commits.
    """
    reported = [
        said for run in runs if isinstance(run["progress"], list) for said in run["progress"]
    ]
    if not reported or asynchronous:
        return {"runs": runs}
    committed = {said["batchId"] for said in reported if "addBatch" in said["durationMs"]}
    return {"committed": sorted(committed), "runs": runs}


def conf_of(get: Callable[[str], str | None], own: Mapping[str, str]) -> dict[str, str]:
    """The settings of a session that matter for a checkpoint, also those at their default."""
    found: dict[str, str] = {}
    for key in dict.fromkeys((*_CONF, *own)):
        try:
            found[key] = str(get(key))
        except (PySparkException, Py4JJavaError):
            # This version does not know the setting.
            continue
    return found


def first_lines(error: BaseException) -> str:
    """What a failure says, in short."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:600]
