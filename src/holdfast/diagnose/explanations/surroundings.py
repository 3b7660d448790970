"""Sinks, drivers, storage, copies, growth."""

from collections.abc import Mapping

from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import NEWEST, PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.SINK_AHEAD: Explanation(
        meaning="The sink remembers a later batch than the checkpoint knows of.",
        causes="The checkpoint was taken back, reset or restored from a copy, and the table was"
        " not.",
        spark=(
            (
                PREDICTED,
                (
                    "runs the batches; a sink that knows them by their number skips them in"
                    " silence,"
                    " whatever they hold, and the checkpoint goes on: the rows are lost. A sink of"
                    " holdfast knows their ranges, too, and stops with `BATCH_CHANGED` at another"
                ),
            ),
        ),
        cures="Restore the checkpoint that belongs to the table, or put back a copy of the table"
        " from before the batch that comes.",
    ),
    Code.SINK_BEHIND: Explanation(
        meaning="The checkpoint counts batches as done that the sink does not hold.",
        causes="The table was restored or made anew, or is another one.",
        spark=((PREDICTED, "goes on with the next batch; what is missing stays missing"),),
        cures="Restore the table and its ledger. If the missing rows may stay missing, start once"
        " with `--accept SINK_BEHIND`.",
    ),
    Code.SINK_SKIPS: Explanation(
        meaning="A new batch comes under a number that the sink holds already.",
        causes="As for SINK_AHEAD, by one batch.",
        spark=(
            (
                PREDICTED,
                (
                    "the sink skips the batch, and the checkpoint goes on; a sink of holdfast skips"
                    " only the same range, and stops with `BATCH_CHANGED` at another"
                ),
            ),
        ),
        cures="Put back a copy of the table from before that batch. `RESTORE` is not enough: the"
        " table keeps the numbers of its batches.",
    ),
    Code.SINK_NOT_CLEARED: Explanation(
        meaning="The checkpoint begins at the first batch, and the table is there already, without"
        " a trace of this query.",
        causes="The checkpoint was deleted to start over, and the table was not cleared; or the"
        " query appends to a table that others write, which is as it should be.",
        spark=(
            (
                PREDICTED,
                (
                    "reads everything again under a new query id, and the sink takes it for new:"
                    " every"
                    " row is there twice"
                ),
            ),
        ),
        cures="Delete the table if only this query writes to it, or restore the checkpoint.",
    ),
    Code.DRIVER_RUNNING: Explanation(
        meaning="A driver holds the lease of this query and was heard of lately.",
        causes="It runs.",
        spark=(
            (
                PREDICTED,
                (
                    "notices a second driver only when both write the same entry of a log:"
                    " `CONCURRENT_STREAM_LOG_UPDATE`, often after the sink has written"
                ),
            ),
        ),
        cures="Stop one. `holdfast run` does not start a second one.",
    ),
    Code.TWO_DRIVERS: Explanation(
        meaning="Run records of this query overlap in time.",
        causes="A scheduler started it twice, or an old driver was believed dead.",
        spark=((PREDICTED, "as for DRIVER_RUNNING"),),
        cures="Find out which one lives, and stop the other. Compare sink and checkpoint after.",
    ),
    Code.LEASE_STALE: Explanation(
        meaning="The last driver did not give up its lease, and is not heard of any more.",
        causes="It was killed, or its machine was.",
        spark=((PREDICTED, "knows of no lease"),),
        cures="Nothing has to be done: the next driver takes the lease when it has run out.",
    ),
    Code.STORAGE_EPHEMERAL: Explanation(
        meaning="The checkpoint lies in a temporary folder, or on a file system that ends with its"
        " container.",
        causes="A path such as `/tmp/checkpoints`, or a container without a volume.",
        spark=((PREDICTED, "takes no notice; when the folder is gone, the query begins anew"),),
        cures="Stop the query, move the folder to storage that lasts, and start it there; a job of"
        " holdfast needs `--accept LOCATION_MOVED` once. A query with transformWithState cannot be"
        " moved, as its state names files by their paths.",
    ),
    Code.CHECKPOINT_COPIED: Explanation(
        meaning="Two checkpoints have the same query id: one beside the other, inside it, above it,"
        " or up to three levels below the same folder. Nothing is looked for further away, nor in"
        " other folders of remote storage.",
        causes="One was copied, to try something or to keep it.",
        spark=(
            (
                PREDICTED,
                (
                    "in one application stops the first when the second starts; in two it does not"
                    " notice. A Delta sink of Spark's own takes both for one writer"
                ),
            ),
        ),
        cures="Start only one, or give the copy a sink of its own.",
    ),
    Code.CHECKPOINT_NESTED: Explanation(
        meaning="A checkpoint lies inside of this one.",
        causes="Two queries were given locations one inside the other.",
        spark=((PREDICTED, "takes no notice"),),
        cures="Stop the inner query, move its folder out, and start it there. A query with"
        " transformWithState cannot be moved.",
    ),
    Code.ASYNC_TURNED_OFF: Explanation(
        meaning="The logs have the gaps of asynchronous progress tracking, and the start does"
        " without it.",
        causes="The option was removed.",
        spark=(
            (
                "3.4 and later",
                (
                    "without the option needs two offset entries that follow one another:"
                    " `batch N doesn't exist`"
                ),
            ),
        ),
        cures="Start it with the option, with an interval of 0, for two batches; then without.",
    ),
    Code.CONTINUOUS_MODE: Explanation(
        meaning="The offset log is that of continuous mode: its entries have no settings and no"
        " time, and say where an epoch ended. What is predicted is a start in that mode.",
        causes="The query runs with `trigger(continuous=...)`. The checkpoint does not keep it to"
        " that: the trigger may be another one at the next start.",
        spark=(
            (
                f"2.3 to {NEWEST}, continuous again",
                "begins at the end of the last committed epoch, whatever is logged after it",
            ),
            (
                "2.3 with another trigger",
                (
                    "begins at the latest offset entry: if it is not committed, that one runs again"
                    " over its range, and those before it count as done"
                ),
            ),
            (
                "2.4 and later with another trigger",
                "fails for want of settings in the latest offset entry: ENTRY_WITHOUT_SETTINGS",
            ),
            (
                "any, from rate with another trigger",
                "fails with `NumberFormatException`: its offsets differ; those of Kafka do not",
            ),
        ),
        cures="Keep the trigger. To change it, put away the offset entries after the last commit,"
        " and give the last one that is left a second line, as"
        ' `{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}`, without its hidden `.crc`: what'
        " was read since is then read again, and nothing is passed over.",
    ),
    Code.STATE_CHAIN_LONG: Explanation(
        meaning="Many changes of the state lie after the last snapshot, and all are replayed at"
        " every start.",
        causes="Snapshots are written by a task that runs every minute: a run that is shorter never"
        " writes one.",
        spark=(
            (PREDICTED, "replays them"),
            ("4.1 and later", "`stateStore.unloadOnCommit` runs the task with every batch"),
        ),
        cures="Longer runs, or a shorter `spark.sql.streaming.stateStore.maintenanceInterval`.",
    ),
    Code.SOURCE_LOG_LARGE: Explanation(
        meaning="The log of a file source names every file ever read, and a start reads it whole.",
        causes="Many small files over a long time.",
        spark=((PREDICTED, "never removes files from the log"),),
        cures="When every file is read, give the job a new name and a new, empty landing folder.",
    ),
    Code.LOG_NOT_PURGED: Explanation(
        meaning="A log has far more entries than Spark keeps by default.",
        causes="`spark.sql.streaming.minBatchesToRetain` is high, or purging fails.",
        spark=((PREDICTED, "keeps `minBatchesToRetain` + 1 entries, 101 by default"),),
        cures="Look at the setting, and at the driver's right to delete.",
    ),
}
