"""Explanations of findings about sinks, drivers, storage, copies and growth."""

from collections.abc import Mapping

from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import NEWEST, PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.SINK_AHEAD: Explanation(
        meaning="The sink has a later batch than the checkpoint: new data may be skipped as"
        " already written.",
        causes="The checkpoint was rewound, deleted or restored from a copy, but the table was"
        " not.",
        spark=(
            (
                PREDICTED,
                (
                    "runs the batches. A sink that recognizes batches only by their number skips"
                    " them silently, whatever they contain, and the checkpoint moves on: the rows"
                    " are lost. A holdfast sink also knows the range of each batch, and stops with"
                    " `BATCH_CHANGED` if the range differs"
                ),
            ),
        ),
        cures="Restore the checkpoint that belongs to the table, or put back a copy of the table"
        " from before the batch that runs next.",
    ),
    Code.SINK_BEHIND: Explanation(
        meaning="The checkpoint counts batches as done that the sink does not have.",
        causes="The table was restored or created again, or it is a different table.",
        spark=((PREDICTED, "continues with the next batch; the missing rows stay missing"),),
        cures="Restore the table and its ledger. If you do not need the missing rows, start once"
        " with `--accept SINK_BEHIND`.",
    ),
    Code.SINK_SKIPS: Explanation(
        meaning="The next batch has new data, but the sink already has a batch with its number.",
        causes="The same as for SINK_AHEAD, by one batch.",
        spark=(
            (
                PREDICTED,
                (
                    "runs the batch, the sink skips it, and the checkpoint moves on. A holdfast"
                    " sink skips only a batch with the same range, and stops with `BATCH_CHANGED`"
                    " if the range differs"
                ),
            ),
        ),
        cures="Put back a copy of the table from before that batch. `RESTORE` is not enough: it"
        " keeps the batch numbers in the table.",
    ),
    Code.SINK_NOT_CLEARED: Explanation(
        meaning="The checkpoint starts at the first batch, but the table already exists and has no"
        " trace of this query.",
        causes="Somebody deleted the checkpoint to start over, but not the table. Or the query"
        " appends to a table that other writers use too, which is fine.",
        spark=(
            (
                PREDICTED,
                (
                    "reads everything again under a new query id. The sink treats it as new, so the"
                    " table has every row twice"
                ),
            ),
        ),
        cures="Delete the table if only this query writes to it, or restore the checkpoint.",
    ),
    Code.DRIVER_RUNNING: Explanation(
        meaning="A driver holds the lease of this query and renewed it recently.",
        causes="The query is running.",
        spark=(
            (
                PREDICTED,
                (
                    "notices a second driver only when both write the same log entry. It then fails"
                    " with `CONCURRENT_STREAM_LOG_UPDATE`, often after the sink has written"
                ),
            ),
        ),
        cures="Stop one of the drivers. `holdfast run` does not start a second one.",
    ),
    Code.TWO_DRIVERS: Explanation(
        meaning="Two drivers ran this query at the same time, according to its run records.",
        causes="A scheduler started the query twice, or somebody thought that the old driver was"
        " dead.",
        spark=((PREDICTED, "behaves as described in DRIVER_RUNNING"),),
        cures="Find out which drivers are alive, and stop all but one. Then compare the sink with"
        " the checkpoint.",
    ),
    Code.LEASE_STALE: Explanation(
        meaning="The last driver did not release its lease and no longer renews it.",
        causes="The driver was killed, or its machine failed.",
        spark=((PREDICTED, "has no leases"),),
        cures="No action is needed: the next driver takes the lease once it has expired.",
    ),
    Code.STORAGE_EPHEMERAL: Explanation(
        meaning="The checkpoint may disappear: it is in a temporary folder, or on a file system"
        " that is deleted with its container.",
        causes="A path such as `/tmp/checkpoints`, or a container without a volume.",
        spark=(
            (
                PREDICTED,
                "does not notice; if the folder is gone, the query starts from the beginning",
            ),
        ),
        cures="Stop the query, move the folder to storage that lasts, and start it there; a"
        " holdfast job needs `--accept LOCATION_MOVED` once. A query with transformWithState"
        " cannot be moved, because its state names files by their paths.",
    ),
    Code.CHECKPOINT_COPIED: Explanation(
        meaning="Two checkpoints have the same query id. The second one is next to this one,"
        " inside it, above it, or up to three levels below the same parent folder. holdfast does"
        " not search further away, nor in other folders of remote storage.",
        causes="Somebody copied the checkpoint, for an experiment or as a backup.",
        spark=(
            (
                PREDICTED,
                (
                    "within one application, stops the first query when the second one starts;"
                    " across two applications, does not notice. Spark's own Delta sink treats both"
                    " as the same writer"
                ),
            ),
        ),
        cures="Start only one of them, or give the copy a sink of its own.",
    ),
    Code.CHECKPOINT_NESTED: Explanation(
        meaning="There is a second checkpoint inside this one.",
        causes="Two queries have checkpoint locations of which one is inside the other.",
        spark=((PREDICTED, "does not notice"),),
        cures="Stop the inner query, move its folder out, and start it there. A query with"
        " transformWithState cannot be moved.",
    ),
    Code.ASYNC_TURNED_OFF: Explanation(
        meaning="The logs have gaps from asynchronous progress tracking, but the query now starts"
        " without it.",
        causes="Somebody removed the option.",
        spark=(
            (
                "3.4 and later",
                (
                    "without the option, needs two consecutive offset entries, and fails with"
                    " `batch N doesn't exist`"
                ),
            ),
        ),
        cures="Start the query with the option and an interval of 0, and let it run two batches."
        " Then start it without the option.",
    ),
    Code.CONTINUOUS_MODE: Explanation(
        meaning="Continuous mode wrote the offset log: its entries have no settings and no"
        " timestamp, and say where an epoch ended. The prediction is for a start in continuous"
        " mode.",
        causes="The query runs with `trigger(continuous=...)`. The checkpoint does not record the"
        " trigger: the next start may use a different one.",
        spark=(
            (
                f"2.3 to {NEWEST}, continuous again",
                (
                    "starts at the end of the last committed epoch, even if later epochs are in the"
                    " offset log"
                ),
            ),
            (
                "2.3 with a different trigger",
                (
                    "starts at the latest offset entry. If this entry is not committed, Spark runs"
                    " it again over its range, and counts all entries before it as done"
                ),
            ),
            (
                "2.4 and later with a different trigger",
                "fails because the latest offset entry has no settings; see ENTRY_WITHOUT_SETTINGS",
            ),
            (
                "any, from rate with a different trigger",
                (
                    "fails with `NumberFormatException`, because rate has different offsets in"
                    " continuous mode; Kafka does not"
                ),
            ),
        ),
        cures="Keep the trigger. To change it, put away the offset entries after the last commit."
        " Then give the last remaining entry a second line, such as"
        ' `{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}`, and remove its hidden `.crc`.'
        " Spark then reads everything since that entry again, and skips nothing.",
    ),
    Code.STATE_CHAIN_LONG: Explanation(
        meaning="Every start is slow, because it replays many state changes since the last"
        " snapshot.",
        causes="A maintenance task writes snapshots once per minute. A query that runs for less"
        " than a minute never writes one.",
        spark=(
            (PREDICTED, "replays the changes"),
            (
                "4.1 and later",
                "runs the maintenance task with every batch if `stateStore.unloadOnCommit` is set",
            ),
        ),
        cures="Let the query run longer, or set a shorter"
        " `spark.sql.streaming.stateStore.maintenanceInterval`.",
    ),
    Code.SOURCE_LOG_LARGE: Explanation(
        meaning="Every start is slow, because it reads the whole log of a file source, which names"
        " every file that was ever read.",
        causes="Many small files over a long time.",
        spark=((PREDICTED, "never removes files from the log"),),
        cures="Once every file is read, give the job a new name and a new, empty landing folder.",
    ),
    Code.LOG_NOT_PURGED: Explanation(
        meaning="A log has far more entries than Spark keeps by default.",
        causes="`spark.sql.streaming.minBatchesToRetain` is high, or Spark cannot delete old"
        " entries.",
        spark=((PREDICTED, "keeps `minBatchesToRetain` + 1 entries, 101 by default"),),
        cures="Check the setting, and the driver's right to delete files.",
    ),
}
