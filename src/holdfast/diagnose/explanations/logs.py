"""The offset log, the commit log, and `metadata`."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.exceptions import REPARTITION
from holdfast.spark.versions import NEWEST, PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.PENDING_BATCH: Explanation(
        meaning="The latest batch is in the offset log and not in the commit log: it was planned,"
        " and nobody knows how far it came.",
        causes="The driver ended while the batch ran. That is the usual crash, and harmless where"
        " the sink can tell a batch that it holds from a new one.",
        spark=(
            (
                PREDICTED,
                (
                    "runs exactly this batch again, over exactly the range in the offset log,"
                    " with the"
                    " same batch timestamp; `rand()` and `uuid()` give other values"
                ),
            ),
            (
                "4.1.0 to 4.1.2",
                (
                    "the same; if it reads Kafka, it then ends with a `NullPointerException`, when"
                    " it reports on the batch that it has just committed. The next start goes on"
                ),
            ),
            (
                f"2.3 to {NEWEST} in continuous mode",
                (
                    "begins at the end of the last committed epoch, reads on as far as there is"
                    " data, and so writes again what was written since; from 2.4 on an epoch keeps"
                    " the offset entry of its first run, and once it is committed, that counts as"
                    " read: a crash before as much is read again loses the rest"
                ),
            ),
        ),
        cures="Start it. Where the sink has no ledger, look first whether it holds the batch.",
    ),
    Code.OFFSETS_EDITED: Explanation(
        meaning="An entry of the offset log names another end of a batch than the one to which the"
        " batch ran, by the ledger of a sink, a run record or an event log; or it is JSON with"
        " spaces, which Spark never writes. A sink with a ledger refuses the next batch.",
        causes="Somebody edited the entry, or the checkpoint was rewound, and the batch planned"
        " again with a different range. On object stores, a late write of a dead driver arrived.",
        spark=(
            (
                PREDICTED,
                (
                    "takes the entry as it is: no checksum covers the offset log. Where only the"
                    " spaces differ, it runs one batch without rows: it compares texts"
                ),
            ),
        ),
        cures="Restore the entry. If the query was moved on purpose, look at the sink first: rows"
        " that are read again are in it already, and rows that were passed over are missing.",
    ),
    Code.COMMITS_GONE: Explanation(
        meaning="Batches after the first one are planned, and the commit log is empty or missing.",
        causes="A copy without the folder `commits`, or somebody deleted its entries. It is no"
        " crash: Spark plans a batch only after it has committed the one before.",
        spark=(
            (
                PREDICTED,
                "runs the latest planned batch again, and takes all batches before for done",
            ),
            (
                "4.0 and later",
                (
                    "fails with `CANNOT_LOAD_STATE_STORE` where the state has checkpoint format 2:"
                    " only the latest commit names the files that count"
                ),
            ),
        ),
        cures="Copy `commits` from the original. Without it, start the query if the sink may get"
        " the latest batch twice, or if it does not have that batch.",
    ),
    Code.BATCH_PROGRESS: Explanation(
        meaning="The state files show how far the pending batch came. Batch N writes version N+1 of"
        " the state, each task for its own stores, when the task has read all its rows.",
        causes="The driver stopped while the batch ran. If all stores have the version, all tasks"
        " had finished. If some have it, tasks were running. If none has it, no stateful task had"
        " finished. Tasks after the stateful ones may still have been missing.",
        spark=((PREDICTED, "loads version N and writes version N+1 again, over what is there"),),
        cures="Nothing has to be done about the state. For the sink, see PENDING_BATCH.",
    ),
    Code.BATCHES_SKIPPED: Explanation(
        meaning="Several batches are planned and not committed. Only the last one runs again.",
        causes="Commits were deleted by hand, or lost with storage that did not last. Deleting"
        " several commits replays one batch, not several.",
        spark=(
            (
                PREDICTED,
                (
                    "warns that the commit log does not trail by one, takes the batches in"
                    " between for"
                    " done, and runs only the last planned one"
                ),
            ),
        ),
        cures="Look in the sink for the batches in between. If they are missing, put back every"
        " table that the query writes as it was before the first of them, from a copy, in a"
        " database together with the job's rows in `holdfast_ledger`. Then put away the offset"
        " entries after the first one: a start runs it again, and everything after it as new."
        " That needs the entry before it, and the state that it loads, which Spark may have"
        " purged.",
    ),
    Code.REPARTITION_UNFINISHED: Explanation(
        meaning="The latest batch is planned with another number of partitions than the one before,"
        " and not committed: the state was being repartitioned.",
        causes="The repartitioning of Spark 4.2 and later was broken off; or somebody edited the"
        " number in an offset entry.",
        spark=(
            ("3.5 to 4.1", "know of no repartitioning, and take the number of the latest entry"),
            ("4.2 and later", f"refuse with `{REPARTITION}`"),
        ),
        cures="Repartition once more with the same number and let it end; after an edit, put the"
        " old number back.",
    ),
    Code.OFFSET_BEFORE_MISSING: Explanation(
        meaning="The offset entry before the latest one is missing. It is where the latest batch"
        " begins, and a start needs it even if that batch is committed.",
        causes="A file was deleted or lost; its upload to S3 has failed, which"
        " `AbortableStreamBasedCheckpointFileManager` keeps to itself; or the query ran with"
        " asynchronous progress tracking, whose logs have gaps.",
        spark=(
            ("2.1", "reads every source from its beginning, in one batch"),
            (
                "2.2 and later",
                "fails with `IllegalStateException: batch N doesn't exist`, before any batch",
            ),
            ("3.4 and later with asynchronous tracking", "takes the entry before it on disk"),
        ),
        cures="Restore the entry from a copy; it holds the end offsets of that batch, which are"
        " also the start of the latest one.",
    ),
    Code.OFFSET_GAP: Explanation(
        meaning="Entries are missing inside the offset log, further back than a start looks.",
        causes="Deletion by hand, or asynchronous progress tracking.",
        spark=((PREDICTED, "does not notice"),),
        cures="Nothing has to be done. The query cannot be taken back to a batch in the gap.",
    ),
    Code.COMMIT_GAP: Explanation(
        meaning="Entries are missing inside the commit log, or at its beginning.",
        causes="Deletion by hand, a failed upload to S3 that nobody was told of, asynchronous"
        " progress tracking, or first batches of Spark 2.1, which kept no commit log.",
        spark=((PREDICTED, "looks at the latest commit only, and does not notice"),),
        cures="Nothing has to be done.",
    ),
    Code.COMMIT_AHEAD: Explanation(
        meaning="The commit log goes further than the offset log.",
        causes="Offset entries were deleted and their commits were not, as in a rewind that forgot"
        " one of the two folders; or the upload of the last entry to S3 has failed, unnoticed.",
        spark=(
            ("2.2 to 3.0", "runs the last planned batch again, writes it to the sink, and goes on"),
            (
                "3.1 and later",
                (
                    "runs the last planned batch again, writes it to the sink, and fails with"
                    " `CONCURRENT_STREAM_LOG_UPDATE` when it commits; the same at every start"
                ),
            ),
        ),
        cures="Restore the offset entries. Or put back every table that the query writes as it was"
        " after the last batch of the offset log, from a copy, in a database together with the"
        " job's rows in `holdfast_ledger`; then remove the commits beyond the offset log: what"
        " came after it is read again, under the same numbers. A sink that still has their rows"
        " gets them twice, and one that still has their numbers skips or refuses what comes.",
    ),
    Code.OFFSETS_GONE: Explanation(
        meaning="There are commits and no offset entry at all, or in continuous mode none of the"
        " last committed epoch: the query does not know its place.",
        causes="The folder `offsets` was deleted or not copied; or an entry of it was.",
        spark=(
            ("3.5, 4.0", "begins at batch 0, writes it to the sink, and fails when it commits"),
            ("4.1", "refuses with `STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY`"),
            ("4.2, 4.3", "refuses with a bare `AssertionError`"),
            (
                f"2.3 to {NEWEST} in continuous mode",
                (
                    "fails with `IllegalStateException: Batch N was committed without end epoch"
                    " offsets!` where the entry of the last committed epoch is missing"
                ),
            ),
        ),
        cures="Restore the folder from a copy of the checkpoint. Without one,"
        f" {advice.NEW_CHECKPOINT}.",
    ),
    Code.LOGS_GONE: Explanation(
        meaning="Neither log has an entry, and a source has left what it keeps: the log of a file"
        " source, or where Kafka began.",
        causes="Somebody deleted `offsets` and `commits` and left the rest; or the first start was"
        " cut short after its source had looked for data, and before the batch was planned.",
        spark=(
            (
                PREDICTED,
                (
                    "begins at batch 0 without a warning: a file source gives every file that its"
                    " log lists as one batch, Kafka begins where it first began, whatever"
                    " `startingOffsets` says; the query id is the old one, by which a Delta sink"
                    " passes over batches that it has"
                ),
            ),
        ),
        cures=f"Restore both folders. If a new beginning is meant, {advice.NEW_CHECKPOINT}.",
    ),
    Code.LOCATION_NOT_EMPTY: Explanation(
        meaning="No batch is planned, and there are files in `offsets`, `commits` or `state` all"
        " the same.",
        causes="Somebody emptied a log and left the rest, or copied something into the folder.",
        spark=(
            ("3.5, 4.0", "begins at batch 0, on top of whatever state is there"),
            (
                "4.1 and later",
                "refuses with `STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY`; a stray file is enough",
            ),
        ),
        cures="If `state` holds versions, batches have run: restore both logs, or"
        f" {advice.NEW_CHECKPOINT}. Else move what is left away. `sources` is not checked by Spark:"
        " files named there count as listed.",
    ),
    Code.ENTRY_UNREADABLE: Explanation(
        meaning="An entry that every start reads is empty, cut short, or something else.",
        causes="A disk that filled up, a copy that was cut off, an editor.",
        spark=(
            ("3.5", "fails with `IllegalStateException` or an error of its JSON reader"),
            (
                "4.0 and later",
                (
                    "the same; a wrong first line is `MALFORMED_LOG_FILE`, an unknown version"
                    " `INVALID_LOG_VERSION`"
                ),
            ),
        ),
        cures="Restore it. A commit can also be removed: the batch then runs again. An offset entry"
        " can be removed alone only if it is the last one and its batch has neither reached the"
        " sink nor been committed; else with everything after it, in both logs, which reads that"
        " again, under the same numbers: before that, put back every table as it was after the last"
        " batch that stays, in a database together with the job's rows in `holdfast_ledger`.",
    ),
    Code.ENTRY_WITHOUT_SETTINGS: Explanation(
        meaning="The latest offset entry has an empty second line, where a micro-batch has its"
        " time, its watermark and the settings that are pinned.",
        causes="An editor or a program wrote the entry; or continuous mode did, and the query is to"
        " be started with another trigger.",
        spark=(
            ("up to 2.3", "goes on, without a watermark and with the settings of the session"),
            (
                "2.4 and later",
                (
                    "fails with a `NullPointerException`: at once if the batch is committed, else"
                    " after the sink has written it, at every start"
                ),
            ),
            (
                "4.2 and later",
                (
                    "where the batch is not committed and an earlier one is, at once, with"
                    " `IllegalArgumentException`"
                ),
            ),
        ),
        cures="Restore the entry. Else put the second line of the entry before in its place, and"
        " remove its hidden `.crc`.",
    ),
    Code.FILE_UNREADABLE: Explanation(
        meaning="An old entry of a log, or a file of the state, cannot be read, and a start does"
        " without it.",
        causes="As for ENTRY_UNREADABLE.",
        spark=(
            (PREDICTED, "does not notice, and purges the file in time"),
            (
                "4.2 and later",
                (
                    "also pass over a damaged snapshot of the state and replay changes, unless"
                    " `spark.sql.streaming.stateStore.autoSnapshotRepair.enabled` is false"
                ),
            ),
        ),
        cures="Nothing has to be done.",
    ),
    Code.LOG_VERSION_UNKNOWN: Explanation(
        meaning="An entry is written in a format that the Spark to start does not read.",
        causes="The query ran on a later Spark, or with other settings of the state's format.",
        spark=(
            ("up to 4.1", "reads version 1 of the offset log only"),
            (
                "4.0, 4.1",
                (
                    "read the one version of the commit log that"
                    " `stateStore.checkpointFormatVersion`"
                    " asks for: `INVALID_LOG_VERSION.EXACT_MATCH_VERSION`"
                ),
            ),
            ("4.2", "reads every version"),
            ("4.3", "reads every version, and keeps the one it finds"),
        ),
        cures="Start it with the Spark and the settings that wrote it.",
    ),
    Code.SOURCES_CHANGED: Explanation(
        meaning="The last two offset entries, of version 1, name different numbers of sources.",
        causes="Somebody edited an entry, or mixed two checkpoints.",
        spark=(
            (PREDICTED, "fails with `AssertionError: There are [n] sources in the checkpoint`"),
        ),
        cures="Restore the entries from one checkpoint.",
    ),
    Code.METADATA_MISSING: Explanation(
        meaning="The file `metadata` is gone, and with it the query's id.",
        causes="Deletion, or a copy of the folders only.",
        spark=(
            (
                "up to 4.1",
                (
                    "makes up a new id and goes on: a Delta sink of Spark's own, which knows the"
                    " query"
                    " by it, writes a pending batch twice"
                ),
            ),
            ("4.2 and later", "refuses with `STREAMING_CHECKPOINT_MISSING_METADATA_FILE`"),
        ),
        cures="Write the file anew with the old id, from run records, logs or the sink's table.",
    ),
    Code.METADATA_UNREADABLE: Explanation(
        meaning="The file `metadata` is there and does not hold a query id.",
        causes="A write that was cut off, or an editor.",
        spark=((PREDICTED, "fails when the query is started, before it has a run id"),),
        cures="Write the file anew with the old id, and remove `.metadata.crc`: before 3.2 Spark"
        " holds the one against the other.",
    ),
    Code.CHECKSUM_LEFT: Explanation(
        meaning="A file was removed and its hidden checksum, `.N.crc`, was not.",
        causes="`rm commits/7` on a local disk. Object stores have no such files.",
        spark=(
            (
                PREDICTED,
                (
                    "fails with `Multiple streaming queries are concurrently using …` when it"
                    " writes"
                    " the file anew; for a commit, that is after the sink has written. The file"
                    " itself"
                    " is in place then, so that the start after that goes on"
                ),
            ),
        ),
        cures="Remove the hidden file too.",
    ),
}
