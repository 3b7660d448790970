"""Explanations of findings about the logs of file sources, and the data that sources still have."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.SOURCE_LOG_DAMAGED: Explanation(
        meaning="The log of a file source is damaged. When Spark creates the source, it reads the"
        " last compacted entry of this log and every entry after it. One of these entries is"
        " missing or cannot be read.",
        causes="Somebody deleted an entry, a copy was interrupted, or a disk was full.",
        spark=((PREDICTED, "fails with `IllegalStateException` before it runs any batch"),),
        cures="Restore `sources/<i>` from a copy of the same checkpoint.",
    ),
    Code.SOURCE_LOG_AHEAD: Explanation(
        meaning="The log of a file source lists files that are not in any offset entry yet.",
        causes="The query crashed after it had listed files and before it planned the batch. Or"
        " somebody rewound the checkpoint but not `sources`.",
        spark=(
            (
                PREDICTED,
                (
                    "takes all listed files and any new files as one batch, and ignores the limits"
                    " per batch"
                ),
            ),
        ),
        cures="No action is needed, unless the sink recognizes batches by their number.",
    ),
    Code.SOURCE_LOG_BEHIND: Explanation(
        meaning="The offset log names a position that does not exist in the log of the file"
        " source.",
        causes="Somebody deleted `sources`, or restored it from an older copy than the two logs.",
        spark=(
            (
                PREDICTED,
                (
                    "fails with `batch N doesn't exist`. If the last batch had no data, it fails"
                    " with a bare `AssertionError` after it has written one more offset entry"
                ),
            ),
        ),
        cures="Restore `sources/<i>`. If the log is emptied instead, the source lists every file"
        " again.",
    ),
    Code.SOURCE_LOG_INTERVAL: Explanation(
        meaning="The log of a file source has plain entries where Spark's default setting would"
        " have compacted them.",
        causes="The query ran with `spark.sql.streaming.fileSource.log.compactInterval` above 10."
        " No file records this setting.",
        spark=(
            (
                PREDICTED,
                (
                    "computes from the session's setting where a compacted entry must be, unless"
                    " the log has two compacted entries. It fails before any batch if that entry"
                    " does not exist"
                ),
            ),
        ),
        cures="Start the query with the setting that it ran with.",
    ),
    Code.SOURCE_WENT_BACK: Explanation(
        meaning="A batch ends before it begins. This concerns a file source, or a Kafka partition"
        " in a committed batch.",
        causes="Somebody edited an offset entry or took it from a different checkpoint, or the"
        " topic was deleted and created again.",
        spark=(
            (PREDICTED, "with files, fails with a bare `AssertionError`"),
            (
                PREDICTED,
                (
                    "with Kafka, continues from the lower offset after the committed batch, and"
                    " reads the records from there again"
                ),
            ),
        ),
        cures="Restore the offset entries. If the topic was created again, its records are new.",
    ),
    Code.OFFSET_OF_OTHER_SOURCE: Explanation(
        meaning="The offset log has a line that its source cannot read: a source of a different"
        " kind created the folder of this source in `sources`. The finding is undefined if this"
        " folder may be left over from an earlier query.",
        causes="Somebody edited an entry, or `offsets` and `sources` come from different"
        " checkpoints. Or the query got a new source, and only `offsets` and `commits` were"
        " deleted.",
        spark=(
            (
                PREDICTED,
                (
                    "does not check the kind of a source. Before any row is read, a file source"
                    " fails with `MappingException`, Kafka with `IllegalArgumentException: Expected"
                    " e.g. …`, and rate with `NumberFormatException`"
                ),
            ),
        ),
        cures="Restore the entry from a copy of the same checkpoint. If the query now reads a"
        " different source and only the folder is old, move the folder away.",
    ),
    Code.SOURCE_NOT_REPLAYABLE: Explanation(
        meaning="The query reads from a socket, or from the memory source that tests use. Such a"
        " source counts from 0 in each process and keeps no data, so the numbers in the checkpoint"
        " mean nothing to the next process. No file names the source. If there is no run record"
        " and no event log, it is recognized by its bare numbers and by its missing folder in"
        " `sources`; a connector that counts in the same way looks the same.",
        causes="Somebody gave a checkpoint to a query that was meant for experiments.",
        spark=(
            (
                PREDICTED,
                (
                    "connects when a batch runs. If the query is idle at -1, no batch is due and it"
                    " never connects. A pending batch that ends at -1 runs without rows, and Spark"
                    " then reads on. At any other number, Spark first runs the pending batch, if"
                    " there is one, without its rows, then immediately one more batch without rows."
                    " When the next line arrives, it fails with `IllegalStateException: Offsets"
                    " committed out of order`"
                ),
            ),
        ),
        cures="Read from a source that keeps its data. To continue with this source,"
        f" {advice.NEW_CHECKPOINT}.",
    ),
    Code.SOURCE_FILES_GONE: Explanation(
        meaning="The batch that runs again reads files that no longer exist.",
        causes="Somebody cleaned up the landing folder, or `cleanSource` moved the files.",
        spark=(
            (PREDICTED, "leaves the files out with a warning, and commits the batch without them"),
        ),
        cures="Put the files back under the same names before you start the query.",
    ),
    Code.SOURCE_FILES_REWRITTEN: Explanation(
        meaning="A file in the landing folder has a different modification time than when it was"
        " read. The log keeps the name and the modification time of each file, but no size and no"
        " digest, so it is unknown whether the rows changed. The finding is therefore undefined"
        " and stops no start. Files that were copied back without their times look the same and"
        " are harmless.",
        causes="A producer appended to a file or replaced it, a correction arrived under the same"
        " name, or the landing folder was restored.",
        spark=(
            (
                PREDICTED,
                (
                    "does not read a file again whose name it knows, and never compares its time."
                    " It forgets the name once the newest file in the log is `maxFileAge` newer"
                    " than the recorded time of this file. If the file still exists then and is not"
                    " too old itself, Spark reads the whole file once more"
                ),
            ),
        ),
        cures="Put the new rows into a file with a different name. To have Spark read the whole"
        " file again, rename it.",
    ),
    Code.SOURCE_FILES_TOO_OLD: Explanation(
        meaning="Spark will never read a file in the landing folder: no log entry names the file,"
        " and it is older than the newest file in the log by more than `maxFileAge`, 7 days by"
        " default. The finding is undefined if no run record has the options of the source.",
        causes="Files were moved or copied with their old times, as `mv`, `cp -p`, `rsync -t` and"
        " archives do. Or one file has a time in the future, which makes all other files too old.",
        spark=(
            (
                PREDICTED,
                (
                    "skips the file without a message. The first batch takes files of any age."
                    " `maxFileAge` has no effect if `latestFirst` is set together with"
                    " `maxFilesPerTrigger` or `maxBytesPerTrigger`"
                ),
            ),
        ),
        cures="`touch` the files: Spark reads them once they have a new time. A larger"
        " `maxFileAge` does the same at the next start. If the files need not be read, move them"
        " away, or start with `--accept SOURCE_FILES_TOO_OLD`.",
    ),
    Code.DELTA_VERSIONS_GONE: Explanation(
        meaning="The log of the Delta table no longer has the version at which the query"
        " continues.",
        causes="The query was stopped for longer than `delta.logRetentionDuration`.",
        spark=(
            (
                PREDICTED,
                (
                    "fails with `DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE` or"
                    " `DELTA_MISSING_FILES_UNEXPECTED_VERSION`; with `failOnDataLoss=false` it"
                    " continues without those versions"
                ),
            ),
        ),
        cures=f"Restore the log of the table, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.DELTA_TABLE_REPLACED: Explanation(
        meaning="The Delta table at this path is not the table that the query has read.",
        causes="The table was dropped and created again, or overwritten with a new id.",
        spark=((PREDICTED, "fails with `DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE`"),),
        cures=f"Restore the table, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.KAFKA_OFFSETS_EXPIRED: Explanation(
        meaning="Kafka has deleted records that the query has not read yet.",
        causes="The query was stopped for longer than the retention time of the topic.",
        spark=(
            (
                PREDICTED,
                (
                    "stops if `failOnDataLoss` is `true`; if it is `false`, continues at the first"
                    " record that still exists"
                ),
            ),
        ),
        cures="Kafka no longer has the records. Fill the gap from elsewhere, then decide how to"
        " continue.",
    ),
    Code.KAFKA_CLUSTER_CHANGED: Explanation(
        meaning="The query reads from a different Kafka cluster than before, according to the"
        " cluster id. The offsets in the checkpoint count records of the old cluster.",
        causes="`kafka.bootstrap.servers` names a different cluster, or its host names now lead to"
        " one: a migration, a copy for a test, a cluster that was set up again. With `diagnose`,"
        " the server given with `--kafka` may also be the wrong one.",
        spark=(
            (
                PREDICTED,
                (
                    "does not record the cluster id. If the topic in the new cluster is long"
                    " enough, Spark reads on from the old offset without an error"
                ),
            ),
        ),
        cures=f"Point the query at the old cluster, or {advice.NEW_CHECKPOINT}. Accept the change"
        " if the topics were copied with their offsets.",
    ),
    Code.KAFKA_TOPIC_RECREATED: Explanation(
        meaning="The topic is not the topic that the query has read: it has a different id, or it"
        " ends before the last offset that was read.",
        causes="The topic was deleted and created again. If no run record has the old id, the"
        " servers may also belong to a different cluster. If the id is the same, the cluster has"
        " lost the last records of the topic.",
        spark=(
            (
                PREDICTED,
                (
                    "notices only while the new topic is shorter than the old offset. Once it is"
                    " longer, Spark reads on from the old offset without an error"
                ),
            ),
        ),
        cures=f"To read the new topic, {advice.NEW_NAME}. Accept the change if you do not need the"
        " records before the old offset.",
    ),
    Code.KAFKA_PARTITION_GONE: Explanation(
        meaning="A partition that has an offset does not exist in the cluster, or did not exist"
        " when the batch that runs again was planned.",
        causes="The same as for KAFKA_TOPIC_RECREATED, or the topic has a new name.",
        spark=(
            (
                PREDICTED,
                (
                    "stops at every start if `failOnDataLoss` is `true`, which is the default; from"
                    " 4.0 on the error is `KAFKA_DATA_LOSS`. If it is `false`, Spark leaves the"
                    " partition out"
                ),
            ),
        ),
        cures="If the batch was planned with the wrong topic or against the wrong cluster, and the"
        " sink has none of its rows: move its entry in `offsets` away, together with the hidden"
        " `.crc`, and start the query with the right topic or cluster. If the partition is gone"
        " for good: start the query with `failOnDataLoss` set to `false`.",
    ),
}
