"""Explanations of findings about the files of the state."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.STATE_MISSING: Explanation(
        meaning="Spark cannot load the version of the state that the next batch needs. A snapshot,"
        " or a change file after it, is missing, empty or truncated; or a file that a RocksDB"
        " snapshot names is missing or has a different size.",
        causes="Somebody or a lifecycle rule of an object store deleted files; a full disk left"
        " empty files; a copy was incomplete; or a batch was committed without its state, which"
        " happens with a `foreachBatch` function that does not read all its rows. If a whole"
        " folder was deleted, other evidence shows it: operators with higher numbers, the ids in"
        " the last commit, batches without data, run records, or an event log.",
        spark=(
            (
                "3.5",
                (
                    "fails in a task when the batch runs; while there is nothing to read, the query"
                    " looks healthy"
                ),
            ),
            (
                "4.0 and later",
                (
                    "does the same, with `CANNOT_LOAD_STATE_STORE`; a new batch has its offset"
                    " entry by then"
                ),
            ),
            (
                "4.0 and later",
                (
                    "fails when it plans a batch, with"
                    " `STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA`, if the folder of"
                    " one operator is gone and other operators have metadata. From 4.2 on, if all"
                    " of `state` is gone, the error is"
                    " `STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY`"
                ),
            ),
            ("up to 4.1", "starts from the newest snapshot, and fails if this snapshot is damaged"),
            (
                "4.2 and later",
                (
                    "skips a damaged snapshot and replays the changes since the snapshot before, at"
                    " most 500; with RocksDB only if changelog checkpointing is on"
                ),
            ),
        ),
        cures="If the state ends at the same version in every store and nothing names its"
        " operator, as in checkpoints from before 4.0, somebody may have taken the operator out of"
        " the query. These versions allow that, and then nothing is missing. Otherwise restore"
        " `state`. If you cannot, but the last planned batch is committed and the state version"
        " before it is complete, remove the commit of this batch: the batch then runs again and"
        " writes its version. This does not work if a later batch is planned but not committed:"
        " Spark then runs only that later batch.",
    ),
    Code.STATE_MISPLACED: Explanation(
        meaning="State files are one folder too deep or too high: in `state/0/0/7` or `state/7`"
        " instead of `state/0/7`, in `state/state`, or next to `state`.",
        causes="A folder was copied or uploaded into the folder of the same name, or its contents"
        " were copied instead of the folder.",
        spark=(
            (
                PREDICTED,
                (
                    "looks for state only in `state/<operator>/<partition>`, and ignores everything"
                    " else"
                ),
            ),
            (PREDICTED, "fails when it loads the state, as with STATE_MISSING"),
        ),
        cures="Move the folders to the places that the finding names. Nothing is lost as long as"
        " all files exist.",
    ),
    Code.STATE_REWRITTEN: Explanation(
        meaning="The state changes of a batch were written after the batch was committed,"
        " according to the times of the two files. Spark writes them in the opposite order.",
        causes="A task that was given up continued to run, or a second driver ran: both write"
        " files with the same names as their successors. Or somebody restored the file from a copy"
        " without its time, which is harmless. Only state of checkpoint format 1 has such names."
        " If all files of the checkpoint have the times of a copy, the order cannot be checked.",
        spark=(
            (
                PREDICTED,
                (
                    "loads the file as it is: one partition continues from the state of a different"
                    " attempt"
                ),
            ),
            (
                "4.1 and later",
                (
                    "fails with `CANNOT_LOAD_STATE_STORE`, caused by"
                    " `CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED`, if the checksum next to the"
                    " file was not replaced with it"
                ),
            ),
        ),
        cures="Compare the result of the query with its source. If the result is wrong, restore"
        " the file from a copy of the checkpoint. Or, if the state version before the last batch"
        " is complete, remove the last commit: its batch then runs again. A new query can use file"
        " names that are unique to each task: set"
        " `spark.sql.streaming.stateStore.checkpointFormatVersion=2`, with RocksDB.",
    ),
    Code.STATE_CHECKSUM_HAZARD: Explanation(
        meaning="The query may fail to start after a failed task. Spark 4.1 keeps checksums of"
        " state files also in checkpoint format 1, where two attempts of a batch write files with"
        " the same name.",
        causes="The default settings of Spark 4.1. A failed attempt, a speculative task or a lost"
        " executor can replace the checksum without the file (SPARK-56461).",
        spark=(
            (
                "4.1",
                (
                    "writes and verifies the checksums; a checksum that does not match its file"
                    " makes every start fail with `CANNOT_LOAD_STATE_STORE`, caused by"
                    " `CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED`"
                ),
            ),
            ("4.2 and later", "neither writes nor verifies them in checkpoint format 1"),
        ),
        cures="Set `spark.sql.streaming.checkpoint.fileChecksum.enabled=false`, and keep it until"
        " the query runs on 4.2. A query that already fails for this reason then starts again.",
    ),
    Code.STATE_SNAPSHOT_HAZARD: Explanation(
        meaning="A snapshot of the state may become unusable. The state is in RocksDB with"
        " changelogs, and this Spark does not check that the files which a new snapshot reuses"
        " still exist.",
        causes="Changelog checkpointing with Spark 3.5 to 4.1. A maintenance task uploads a"
        " snapshot some time after its batch. If this takes very long, a different executor may"
        " have deleted files of older snapshots that the new snapshot names (SPARK-55892).",
        spark=(
            (
                "3.5 to 4.1",
                "uploads the snapshot anyway; loading it fails because a file is missing",
            ),
            ("4.2 and later", "uploads the missing files again"),
        ),
        cures="Use Spark 4.2 or later, or turn changelog checkpointing off. You can turn it off"
        " between two starts of a query.",
    ),
    Code.STATE_SCHEMA_UNREADABLE: Explanation(
        meaning="The schema file of an operator's state cannot be read.",
        causes="An interrupted write; or somebody deleted a schema of transformWithState.",
        spark=(
            (PREDICTED, "fails when it plans a batch; a new batch has its offset entry by then"),
        ),
        cures="Put the file away: Spark writes it again, and skips the schema check once. Spark"
        " does not write a schema of transformWithState again: restore this file.",
    ),
    Code.OPERATOR_METADATA_UNREADABLE: Explanation(
        meaning="The metadata of an operator is missing or cannot be read, and Spark needs it to"
        " find the operator's schemas. This concerns operators that keep schemas under names of"
        " their own: transformWithState, and joins of format 3 or later.",
        causes="An interrupted write, a copy without the file, or somebody deleted `_metadata`.",
        spark=(
            (
                "4.0 and later",
                (
                    "fails when it plans any batch after the first, and cannot write the metadata"
                    " again"
                ),
            ),
        ),
        cures="Restore `_metadata` of the operator from a copy of the checkpoint.",
    ),
    Code.OPERATORS_UNCHECKED: Explanation(
        meaning="Spark cannot check whether the stateful operators changed, because the name of an"
        " operator is not known.",
        causes="Spark 3.5 or older wrote the checkpoint, or somebody deleted `_metadata`.",
        spark=(
            ("3.5", "never compares operators"),
            ("4.0 and later", "skips the check with a warning, and writes the names again"),
        ),
        cures="Do not change the query at the same time.",
    ),
    Code.STATE_SCHEMA_ELSEWHERE: Explanation(
        meaning="transformWithState records absolute paths of its schema files, and these paths"
        " point to a different folder than this checkpoint.",
        causes="Somebody moved or copied the checkpoint.",
        spark=(
            (
                "4.0 and later",
                (
                    "fails with a moved checkpoint, because the old files are gone; with a copied"
                    " checkpoint, reads the schemas of the original and continues to need them"
                ),
            ),
        ),
        cures="Move the checkpoint back. Checkpoints with aggregates, deduplication or joins can"
        " be moved.",
    ),
    Code.STATE_VERSION_UNKNOWN: Explanation(
        meaning="The Spark that starts cannot read the metadata of the RocksDB snapshots, because"
        " it has a different version.",
        causes="Spark 4.0 ran with `spark.sql.streaming.stateStore.checkpointFormatVersion=2`, and"
        " the first query of the process requested that format.",
        spark=(
            (
                "4.0",
                "writes and reads version 2 in such a process, and only version 1 in all others",
            ),
            (
                "4.1 and later",
                "fails in a task with `CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT`",
            ),
        ),
        cures=f"Stay on 4.0, or {advice.NEW_CHECKPOINT}.",
    ),
}
