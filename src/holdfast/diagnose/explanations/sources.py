"""The logs of file sources, and what the sources themselves still have."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.SOURCE_LOG_DAMAGED: Explanation(
        meaning="A file source reads its own log when it is made: the last compacted entry and all"
        " after it. One of these is missing or cannot be read.",
        causes="Deletion, a copy that was cut off, a disk that filled up.",
        spark=((PREDICTED, "fails with `IllegalStateException` before any batch"),),
        cures="Restore `sources/<i>` from a copy of the same checkpoint.",
    ),
    Code.SOURCE_LOG_AHEAD: Explanation(
        meaning="The log of a file source lists files that no offset entry names yet.",
        causes="A crash between listing files and planning the batch; or the checkpoint was taken"
        " back and `sources` was not.",
        spark=(
            (
                PREDICTED,
                (
                    "takes everything that is listed as one batch, and new files with it: the"
                    " limits"
                    " per batch are not kept"
                ),
            ),
        ),
        cures="Nothing has to be done, unless the sink knows the batch by its number.",
    ),
    Code.SOURCE_LOG_BEHIND: Explanation(
        meaning="The offset log names a position that the log of the file source does not have.",
        causes="`sources` was deleted, or comes from an older copy than the two logs.",
        spark=(
            (
                PREDICTED,
                (
                    "fails with `batch N doesn't exist`, or with a bare `AssertionError` after it"
                    " has written one more offset entry, where the last batch had no data"
                ),
            ),
        ),
        cures="Restore `sources/<i>`. An emptied log makes the source list every file again.",
    ),
    Code.SOURCE_LOG_INTERVAL: Explanation(
        meaning="The log of a file source has plain entries where the default setting would have"
        " compacted them.",
        causes="The query ran with `spark.sql.streaming.fileSource.log.compactInterval` above 10."
        " No file keeps that setting.",
        spark=(
            (
                PREDICTED,
                (
                    "looks for a compacted entry by the setting of the session, unless there are"
                    " two of them, and fails before any batch where it is not there"
                ),
            ),
        ),
        cures="Start the query with the setting that it ran with.",
    ),
    Code.SOURCE_WENT_BACK: Explanation(
        meaning="A batch ends before it begins: the offset of a file source, or of a Kafka"
        " partition in a batch that is committed.",
        causes="An offset entry was edited, or comes from another checkpoint; or the topic was"
        " deleted and created again.",
        spark=(
            (PREDICTED, "fails with a bare `AssertionError` at files"),
            (
                PREDICTED,
                (
                    "goes on from the lower offset of Kafka after the batch is committed, and reads"
                    " the records from there again"
                ),
            ),
        ),
        cures="Restore the offset entries. If the topic was created again, its records are new.",
    ),
    Code.OFFSET_OF_OTHER_SOURCE: Explanation(
        meaning="The offset log has a line that the source cannot read: the folder of the source"
        " below `sources` was made by a source of another kind. If that folder can be left over"
        " from an earlier query, this is undefined.",
        causes="An entry was edited, or `offsets` and `sources` come from different checkpoints; or"
        " the query changed its source and only `offsets` and `commits` were deleted.",
        spark=(
            (
                PREDICTED,
                (
                    "a file source fails with `MappingException`, Kafka with"
                    " `IllegalArgumentException: Expected e.g. …`, rate with"
                    " `NumberFormatException`, before any row is read. Spark does not check the"
                    " kind of a source"
                ),
            ),
        ),
        cures="Restore the entry from a copy of the same checkpoint. If the query reads another"
        " source now, and only the folder is old, move the folder away.",
    ),
    Code.SOURCE_NOT_REPLAYABLE: Explanation(
        meaning="A socket, or a memory source of a test, counts from 0 in each process and keeps"
        " nothing: the numbers of the checkpoint mean nothing to the next one. No file names it:"
        " without a run record or an event log it is told by its bare numbers, and by having no"
        " folder below `sources`; a connector that counts so, too, may be meant.",
        causes="A query for trying things out was given a checkpoint.",
        spark=(
            (
                PREDICTED,
                (
                    "connects when a batch runs. At rest at -1 no batch is due: it never"
                    " connects. A pending batch that ends at -1 runs without rows, and Spark reads"
                    " on. At any other number it runs a batch without rows at once, and a pending"
                    " one without its rows before that; when the next line arrives it fails with"
                    " `IllegalStateException: Offsets committed out of order`"
                ),
            ),
        ),
        cures="Read from a source that keeps its data. To go on with this one,"
        f" {advice.NEW_CHECKPOINT}.",
    ),
    Code.SOURCE_FILES_GONE: Explanation(
        meaning="The batch that runs again reads files that are no longer there.",
        causes="The landing folder was cleaned, or `cleanSource` has moved them.",
        spark=((PREDICTED, "leaves them out with a warning, and commits the batch without them"),),
        cures="Put the files back under the same names before the start.",
    ),
    Code.SOURCE_FILES_REWRITTEN: Explanation(
        meaning="A landing file has another time of modification than it had when it was read. The"
        " log keeps its name and that time, no size and no digest: whether its rows have changed is"
        " not known, which is why this is undefined and stops no start. Files that were copied back"
        " without their times look the same, and are harmless.",
        causes="A producer that appends to a file or replaces it; a late correction under the same"
        " name; a restored landing folder.",
        spark=(
            (
                PREDICTED,
                (
                    "never compares the time of a file whose name it knows, and reads nothing of"
                    " it. It forgets the name once the newest file in the log is `maxFileAge`"
                    " newer than this one was: if the file is there then, and not too old itself,"
                    " it is read once more, whole"
                ),
            ),
        ),
        cures="Put what is new into a file of another name. To have the whole file read again,"
        " rename it.",
    ),
    Code.SOURCE_FILES_TOO_OLD: Explanation(
        meaning="A file lies in the landing folder, no entry of the log names it, and it is older"
        " than the newest file in the log by more than `maxFileAge`, 7 days by default. Without a"
        " run record that tells the options of the source this is undefined.",
        causes="Files that were moved or copied with their old times, as `mv`, `cp -p`, `rsync -t`"
        " and archives do; one file with a time in the future, which makes all others old.",
        spark=(
            (
                PREDICTED,
                (
                    "passes over it without a word. The first batch takes files of any age, and"
                    " `maxFileAge` is without effect where `latestFirst` is set together with"
                    " `maxFilesPerTrigger` or `maxBytesPerTrigger`"
                ),
            ),
        ),
        cures="`touch` the files: with a new time they are read. A larger `maxFileAge` has the same"
        " effect at the next start. Files that need not be read: move them away, or start with"
        " `--accept SOURCE_FILES_TOO_OLD`.",
    ),
    Code.DELTA_VERSIONS_GONE: Explanation(
        meaning="The log of the Delta table no longer reaches back to where the query stands.",
        causes="The query was stopped for longer than `delta.logRetentionDuration`.",
        spark=(
            (
                PREDICTED,
                (
                    "fails with `DELTA_LOG_FILE_NOT_FOUND_FOR_STREAMING_SOURCE` or"
                    " `DELTA_MISSING_FILES_UNEXPECTED_VERSION`; with `failOnDataLoss=false` it"
                    " goes on"
                    " without those versions"
                ),
            ),
        ),
        cures=f"Restore the log of the table, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.DELTA_TABLE_REPLACED: Explanation(
        meaning="The table at the path is another one than the query has read.",
        causes="It was dropped and made anew, or overwritten with another id.",
        spark=((PREDICTED, "fails with `DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE`"),),
        cures=f"Restore the table, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.KAFKA_OFFSETS_EXPIRED: Explanation(
        meaning="Records that the query has yet to read are deleted.",
        causes="The query was stopped for longer than the topic keeps records.",
        spark=(
            (
                PREDICTED,
                (
                    "with `failOnDataLoss=true` stops; with `false` it goes on at the first"
                    " record that"
                    " is there"
                ),
            ),
        ),
        cures="The records cannot be had from Kafka. Fill the gap from elsewhere, then decide.",
    ),
    Code.KAFKA_CLUSTER_CHANGED: Explanation(
        meaning=(
            "The query reads from another Kafka cluster than before, by its id: the offsets count"
            " records that are not there."
        ),
        causes=(
            "`kafka.bootstrap.servers` names another cluster, or its names lead to another one now:"
            " a move, a copy for a test, a cluster that was set up anew. With `diagnose` also: the"
            " `--kafka` that was asked is not the one that the query reads."
        ),
        spark=(
            (
                PREDICTED,
                (
                    "keeps no cluster id: where the other topic is long enough it reads on from the"
                    " old offset, without a word"
                ),
            ),
        ),
        cures=(
            f"Point it at the old cluster, or {advice.NEW_CHECKPOINT}. Accept it where the"
            " topics were copied with their offsets."
        ),
    ),
    Code.KAFKA_TOPIC_RECREATED: Explanation(
        meaning=(
            "The topic is not the one that was read: it has another id, or it ends before the"
            " offset that was read last."
        ),
        causes=(
            "It was deleted and made anew. Where no run record tells the old id, the servers may"
            " also be another cluster's; where the id is the same, the cluster has lost the last"
            " records of the topic."
        ),
        spark=(
            (
                PREDICTED,
                (
                    "notices only while the new topic is shorter than the old offset; later it"
                    " reads"
                    " on from there, without a word"
                ),
            ),
        ),
        cures=(
            f"To read the new topic, {advice.NEW_NAME}. Accept it"
            " where the records before the old offset are not wanted."
        ),
    ),
    Code.KAFKA_PARTITION_GONE: Explanation(
        meaning="A partition in the offsets is not in the cluster, or was not when the batch that"
        " runs again was planned.",
        causes="As for KAFKA_TOPIC_RECREATED, or the topic's name has changed.",
        spark=(
            (
                PREDICTED,
                (
                    "with `failOnDataLoss=true`, the default, stops at every start, from 4.0 on"
                    " with `KAFKA_DATA_LOSS`; with `false` leaves it out"
                ),
            ),
        ),
        cures="If the batch was planned with the wrong topic, or against the wrong cluster, and the"
        " sink has none of its rows: move its entry in `offsets` away, with the hidden `.crc`, and"
        " start the query with the right one. If the partition is gone for good: start the query"
        " with `failOnDataLoss` set to `false`.",
    ),
}
