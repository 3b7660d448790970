"""State and settings."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.STATE_MISSING: Explanation(
        meaning="The version of the state that the next batch loads cannot be put together: a"
        " snapshot, or a change after it, is missing, empty or cut short; or a file that a snapshot"
        " of RocksDB names is not there with the size that it names.",
        causes="Files were deleted, by a lifecycle rule of an object store say, or a whole folder,"
        " by somebody, of which later operators tell, the ids in the last commit, batches without"
        " data, run records, or an event log; a full disk left empty ones; a copy missed some; or"
        " a batch was committed without its state, as with a `foreachBatch` function that does not"
        " read all its rows.",
        spark=(
            ("3.5", "fails in a task when the batch runs; with nothing to read it looks healthy"),
            (
                "4.0 and later",
                "the same, with `CANNOT_LOAD_STATE_STORE`; a new batch has an offset entry by then",
            ),
            (
                "4.0 and later",
                (
                    "refuse a batch when it is planned, with"
                    " `STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA`, where the folder"
                    " of one operator is gone and others have metadata; from 4.2 on, where all of"
                    " `state` is gone, with `STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY`"
                ),
            ),
            ("up to 4.1", "begins at the newest snapshot, and fails if that is damaged"),
            (
                "4.2 and later",
                (
                    "pass over a damaged snapshot and replay the changes since the one before, at"
                    " most 500; of RocksDB only with changelog checkpointing"
                ),
            ),
        ),
        cures="Where the state ends at one version in every store and nothing names the operator,"
        " as before 4.0: if the operator was taken out of the query, which these versions let"
        " pass, nothing is missing. Else restore `state`. If the last planned batch is"
        " committed, and the version before it is whole, remove its commit: the batch then runs"
        " again and writes the version. Below a batch that is planned and not committed, removing a"
        " commit makes nothing run again.",
    ),
    Code.STATE_MISPLACED: Explanation(
        meaning="Files of the state lie one folder too deep or too high: in `state/0/0/7` or"
        " `state/7` instead of `state/0/7`, in `state/state`, or beside `state`.",
        causes="A copy or an upload of a folder into the folder of the same name, or of the"
        " contents of a folder instead of the folder.",
        spark=(
            (
                PREDICTED,
                "looks for state only in `state/<operator>/<partition>`, and ignores the rest",
            ),
            (PREDICTED, "fails when it loads the state, as with STATE_MISSING"),
        ),
        cures="Move the folders to where Spark looks, as the finding says. Nothing is lost as long"
        " as all files are there.",
    ),
    Code.STATE_REWRITTEN: Explanation(
        meaning="Changes of the state of a batch were written after the batch was committed, by the"
        " times of the two files. Spark writes them the other way round.",
        causes="A task that was given up and went on all the same, or a second driver: it writes"
        " under the same name as its successor. Or somebody has put the file back from a copy,"
        " without its time, which is harmless. Only state of format 1 has such names; where the"
        " times of the whole checkpoint are those of a copy, nothing can be said.",
        spark=(
            (PREDICTED, "loads what is there: one partition goes on from the state of another try"),
            (
                "4.1 and later",
                (
                    "fails with `CANNOT_LOAD_STATE_STORE`, for"
                    " `CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED`, where the checksum beside the"
                    " file was not replaced with it"
                ),
            ),
        ),
        cures="Compare the result of the query with its source. If it is wrong, restore the file"
        " from a copy of the checkpoint, or remove the last commit if the version before is whole:"
        " its batch then runs again. A new query can have names that no other task writes under:"
        " `spark.sql.streaming.stateStore.checkpointFormatVersion=2`, with RocksDB.",
    ),
    Code.STATE_CHECKSUM_HAZARD: Explanation(
        meaning="Spark 4.1 keeps checksums of state files in checkpoint format 1, where the files"
        " of two tries of a batch have the same name.",
        causes="The default settings of Spark 4.1. A try that fails, a speculative task or a lost"
        " executor can replace the checksum and not the file (SPARK-56461).",
        spark=(
            (
                "4.1",
                (
                    "writes and checks them; a pair that does not fit fails every start with"
                    " `CANNOT_LOAD_STATE_STORE`, for"
                    " `CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED`"
                ),
            ),
            ("4.2 and later", "neither write nor check them in checkpoint format 1"),
        ),
        cures="Set `spark.sql.streaming.checkpoint.fileChecksum.enabled=false`, and keep it so"
        " until the query runs on 4.2. That also starts a query that this has stopped.",
    ),
    Code.STATE_SNAPSHOT_HAZARD: Explanation(
        meaning="The state is in RocksDB with changelogs, and Spark does not check that a snapshot"
        " still finds the files that it reuses.",
        causes="Changelog checkpointing with Spark 3.5 to 4.1. Maintenance uploads a snapshot some"
        " time after its batch. If that takes very long, another executor may have deleted files"
        " of older snapshots that this one names (SPARK-55892).",
        spark=(
            ("3.5 to 4.1", "upload the snapshot as it is; loading it fails: a file is missing"),
            ("4.2 and later", "upload the missing files again"),
        ),
        cures="Use Spark 4.2 or later, or turn changelog checkpointing off, which may be done"
        " between two starts of a query.",
    ),
    Code.STATE_SCHEMA_UNREADABLE: Explanation(
        meaning="The schema of an operator's state cannot be read.",
        causes="A write that was cut off; or a schema of transformWithState was deleted.",
        spark=(
            (PREDICTED, "fails when a batch is planned; a new batch has its offset entry by then"),
        ),
        cures="Put the file away. Spark writes it anew and does not compare once. A schema of"
        " transformWithState it does not write anew: restore that.",
    ),
    Code.OPERATOR_METADATA_UNREADABLE: Explanation(
        meaning="The metadata of an operator that keeps its schemas under names of their own"
        " (transformWithState; a join of format 3 or later) is missing or cannot be read."
        " Without it Spark does not find the schemas.",
        causes="A write that was cut off, a copy that missed it, or somebody deleted `_metadata`.",
        spark=(
            (
                "4.0 and later",
                "fails when a batch after the first is planned, and cannot write it anew",
            ),
        ),
        cures="Restore `_metadata` of the operator from a copy of the checkpoint.",
    ),
    Code.OPERATORS_UNCHECKED: Explanation(
        meaning="The name of a stateful operator is not known, so Spark cannot compare it.",
        causes="The checkpoint is of Spark 3.5 or older, or `_metadata` was deleted.",
        spark=(
            ("3.5", "never compares"),
            ("4.0 and later", "skips the check with a warning, and writes the names anew"),
        ),
        cures="Change nothing in the query at the same time.",
    ),
    Code.STATE_SCHEMA_ELSEWHERE: Explanation(
        meaning="transformWithState keeps absolute paths of its schemas, and these point to another"
        " folder than this checkpoint.",
        causes="The checkpoint was moved or copied.",
        spark=(
            (
                "4.0 and later",
                (
                    "a moved checkpoint fails, because the old files are gone; a copied one reads"
                    " and"
                    " keeps needing the original's"
                ),
            ),
        ),
        cures="Move the checkpoint back. Aggregates, deduplication and joins can be moved.",
    ),
    Code.SETTING_PINNED: Explanation(
        meaning="A setting that was asked for is pinned in the checkpoint with another value.",
        causes="Somebody changed it for an existing query, `spark.sql.shuffle.partitions` say.",
        spark=((PREDICTED, "puts the pinned value in force, with one line in its log"),),
        cures=f"To use the new value, {advice.NEW_CHECKPOINT}. From 4.2 on, state in RocksDB can be"
        " repartitioned instead.",
    ),
    Code.PROVIDER_PINNED: Explanation(
        meaning="Another state store provider was asked for than the one that the state is in.",
        causes="Somebody switched to RocksDB for an existing query.",
        spark=((PREDICTED, "keeps the pinned provider, with one line in its log"),),
        cures=f"To use the new provider, {advice.NEW_CHECKPOINT}.",
    ),
    Code.SETTING_LOST: Explanation(
        meaning="A setting was pinned under a name that only some versions understand.",
        causes="Spark 3.5.4 wrote one setting under a wrong name.",
        spark=(
            ("3.5.5 and later, 4.0", "translate the name"),
            ("4.1 and later", "do not: the value falls back to a default, without an error"),
        ),
        cures="Run one batch on 3.5.5 or later, or 4.0, before going to 4.1.",
    ),
    Code.PARTITIONS_UNPINNED: Explanation(
        meaning="The state lies in a number of partitions that the checkpoint does not keep, and"
        " Spark 4.2.0 takes the number of its session.",
        causes="Spark 4.2.0 wrote the offset log in version 2"
        " (`spark.sql.streaming.offsetLog.formatVersion`), and forgot the number there.",
        spark=(
            ("4.2.0", "with fewer partitions most keys lose their state, without a word"),
            ("4.2.0", "with more partitions the first batch fails: there is no state to load"),
            ("4.2.1 and later", "write the number, and find it in the state where it is missing"),
        ),
        cures="Start with 4.2.1, or with the old number: `--set spark.sql.shuffle.partitions=N`.",
    ),
    Code.STATE_VERSION_UNKNOWN: Explanation(
        meaning="Snapshots of RocksDB have metadata of a version that the Spark to start does not"
        " read.",
        causes="Spark 4.0 with `spark.sql.streaming.stateStore.checkpointFormatVersion=2`, where"
        " the first query of the process asked for it.",
        spark=(
            ("4.0", "writes and reads version 2 in such a process, and only version 1 in others"),
            (
                "4.1 and later",
                "fail in a task with `CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT`",
            ),
        ),
        cures=f"Stay on 4.0, or {advice.NEW_CHECKPOINT}.",
    ),
}
