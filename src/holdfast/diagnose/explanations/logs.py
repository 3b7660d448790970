"""Explanations of findings about batches and gaps in the offset log and the commit log."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.exceptions import REPARTITION
from holdfast.spark.versions import NEWEST, PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.PENDING_BATCH: Explanation(
        meaning="Spark planned the latest batch but did not commit it: the batch is in the offset"
        " log, but not in the commit log. How much of it reached the sink is unknown.",
        causes="The driver stopped while the batch ran. This is what a normal crash leaves behind."
        " It is harmless if the sink recognizes a batch that it already has.",
        spark=(
            (
                PREDICTED,
                (
                    "runs exactly this batch again, over exactly the range in the offset log and"
                    " with the same batch timestamp; `rand()` and `uuid()` return different values"
                ),
            ),
            (
                "4.1.0 to 4.1.2",
                (
                    "does the same. If the query reads Kafka, it commits the batch and then stops"
                    " with a `NullPointerException` while it reports progress. The next start"
                    " continues normally"
                ),
            ),
            (
                f"2.3 to {NEWEST} in continuous mode",
                (
                    "starts at the end of the last committed epoch and reads everything from there,"
                    " so rows that were written since then are written again. From 2.4 on, an epoch"
                    " keeps the offset entry of its first run. Once the epoch is committed,"
                    " everything up to that entry counts as read: if the query crashes before it"
                    " has read that far again, the rest is lost"
                ),
            ),
        ),
        cures="Start the query. If the sink has no ledger, first check whether the sink already"
        " has the batch.",
    ),
    Code.OFFSETS_EDITED: Explanation(
        meaning="The end offsets of a batch in the offset log are not the offsets that the batch"
        " read up to, according to a sink's ledger, a run record or an event log. Or the entry is"
        " JSON with spaces, which Spark never writes. A sink with a ledger refuses the next batch.",
        causes="Somebody edited the entry, or rewound the checkpoint so that the batch was planned"
        " again with a different range. On an object store, a late write by a dead driver may have"
        " replaced the entry.",
        spark=(
            (
                PREDICTED,
                (
                    "uses the entry as it is: no checksum covers the offset log. If only the spaces"
                    " differ, Spark runs one batch without rows, because it compares offsets as"
                    " text"
                ),
            ),
        ),
        cures="Restore the entry. If somebody moved the query on purpose, check the sink first: it"
        " already has the rows that Spark reads again, and it lacks the rows that Spark skips.",
    ),
    Code.COMMITS_GONE: Explanation(
        meaning="The commit log is empty or missing, although batches after the first one are"
        " planned.",
        causes="The checkpoint was copied without the folder `commits`, or somebody deleted the"
        " entries. A crash cannot cause this: Spark plans a batch only after it has committed the"
        " one before.",
        spark=(
            (
                PREDICTED,
                "runs the latest planned batch again and treats all earlier batches as done",
            ),
            (
                "4.0 and later",
                (
                    "fails with `CANNOT_LOAD_STATE_STORE` if the state uses checkpoint format 2,"
                    " because only the latest commit names the state files that are valid"
                ),
            ),
        ),
        cures="Copy `commits` from the original checkpoint. If there is no original, start the"
        " query only if the sink does not have the latest batch, or may get it twice.",
    ),
    Code.BATCH_PROGRESS: Explanation(
        meaning="The state files show how far the pending batch got. Batch N writes version N+1 of"
        " the state. Each task writes this version for its own stores once it has read all its"
        " rows.",
        causes="The driver stopped while the batch ran. If all stores have version N+1, all"
        " stateful tasks had finished. If some have it, tasks were still running. If none has it,"
        " no stateful task had finished. Tasks that come after the stateful ones may have been"
        " unfinished in any case.",
        spark=(
            (PREDICTED, "loads version N and writes version N+1 again, over the existing files"),
        ),
        cures="The state needs no action. For the sink, see PENDING_BATCH.",
    ),
    Code.BATCHES_SKIPPED: Explanation(
        meaning="Several batches are planned but not committed. A restart runs only the last of"
        " them again and skips the others.",
        causes="Somebody deleted commits by hand, or they were lost with storage that did not"
        " last. If you delete several commits, Spark runs one batch again, not several.",
        spark=(
            (
                PREDICTED,
                (
                    "warns that the commit log does not trail by one, treats the batches in between"
                    " as done, and runs only the last planned batch"
                ),
            ),
        ),
        cures="Check whether the sink has the batches in between. If it lacks any, put back a copy"
        " of every table that the query writes, as it was before the first missing batch (in a"
        " database, together with the job's rows in `holdfast_ledger`). Then put away the offset"
        " entries after the first missing batch: a start runs this batch again and plans all later"
        " ones as new. This works only if the offset entry before that batch still exists, and the"
        " state that the batch loads: Spark may have purged them.",
    ),
    Code.REPARTITION_UNFINISHED: Explanation(
        meaning="The state was being repartitioned and the repartitioning did not finish: the"
        " latest batch is planned with a different number of partitions than the batch before, and"
        " is not committed.",
        causes="Somebody interrupted the repartitioning of Spark 4.2 and later, or edited the"
        " number of partitions in an offset entry.",
        spark=(
            (
                "3.5 to 4.1",
                (
                    "does not know repartitioning, and uses the number of partitions in the latest"
                    " entry"
                ),
            ),
            ("4.2 and later", f"refuses to start with `{REPARTITION}`"),
        ),
        cures="Repartition once more with the same number and let it finish. If the entry was"
        " edited, write the old number back.",
    ),
    Code.OFFSET_BEFORE_MISSING: Explanation(
        meaning="The second-to-last entry of the offset log is missing. The latest batch begins"
        " where that entry ends, and a start needs the entry even if the latest batch is"
        " committed.",
        causes="The file was deleted or lost; its upload to S3 failed, which"
        " `AbortableStreamBasedCheckpointFileManager` does not report; or the query ran with"
        " asynchronous progress tracking, which leaves gaps in the logs.",
        spark=(
            ("2.1", "reads every source from its beginning, in one batch"),
            (
                "2.2 and later",
                (
                    "fails with `IllegalStateException: batch N doesn't exist` before it runs any"
                    " batch"
                ),
            ),
            ("3.4 and later with asynchronous tracking", "uses the next older entry that exists"),
        ),
        cures="Restore the entry from a copy. It contains the end offsets of its batch, which are"
        " the start offsets of the latest batch.",
    ),
    Code.OFFSET_GAP: Explanation(
        meaning="Entries are missing in the middle of the offset log. They are older than the"
        " entries that a start reads.",
        causes="Somebody deleted them by hand, or the query ran with asynchronous progress"
        " tracking.",
        spark=((PREDICTED, "does not notice"),),
        cures="No action is needed. The query cannot be rewound to a batch in the gap.",
    ),
    Code.COMMIT_GAP: Explanation(
        meaning="Entries are missing in the middle of the commit log, or at its beginning.",
        causes="Somebody deleted them by hand; an upload to S3 failed without an error; the query"
        " ran with asynchronous progress tracking; or Spark 2.1, which has no commit log, ran the"
        " first batches.",
        spark=((PREDICTED, "reads only the latest commit, and does not notice"),),
        cures="No action is needed.",
    ),
    Code.COMMIT_AHEAD: Explanation(
        meaning="The commit log is ahead of the offset log: batches are committed that have no"
        " offset entry.",
        causes="Somebody deleted offset entries but not their commits, for example in a rewind"
        " that missed one of the two folders. Or the upload of the last offset entry to S3 failed"
        " without an error.",
        spark=(
            (
                "2.2 to 3.0",
                "runs the last planned batch again, writes it to the sink, and continues",
            ),
            (
                "3.1 and later",
                (
                    "runs the last planned batch again, writes it to the sink, and fails with"
                    " `CONCURRENT_STREAM_LOG_UPDATE` when it commits; the same happens at every"
                    " start"
                ),
            ),
        ),
        cures="Restore the offset entries. If you cannot, put back a copy of every table that the"
        " query writes, as it was after the last batch in the offset log (in a database, together"
        " with the job's rows in `holdfast_ledger`). Then remove the commits that are ahead: Spark"
        " reads the later data again, under the same batch numbers. A table that still has the"
        " rows of those batches gets them twice. A ledger that still has their numbers makes the"
        " sink skip or refuse the new batches.",
    ),
    Code.OFFSETS_GONE: Explanation(
        meaning="There are commits but no offset entries, so the query has lost its position. In"
        " continuous mode, the entry of the last committed epoch is missing.",
        causes="Somebody deleted the folder `offsets` or an entry in it, or copied the checkpoint"
        " without it.",
        spark=(
            ("3.5, 4.0", "starts at batch 0, writes it to the sink, and fails when it commits"),
            ("4.1", "refuses to start with `STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY`"),
            ("4.2, 4.3", "refuses to start with a bare `AssertionError`"),
            (
                f"2.3 to {NEWEST} in continuous mode",
                (
                    "fails with `IllegalStateException: Batch N was committed without end epoch"
                    " offsets!` if the entry of the last committed epoch is missing"
                ),
            ),
        ),
        cures="Restore the folder from a copy of the checkpoint. If there is no copy,"
        f" {advice.NEW_CHECKPOINT}.",
    ),
    Code.LOGS_GONE: Explanation(
        meaning="Both logs are empty, but the folder of a source still has files: the log of a"
        " file source, or the first offsets of Kafka. A start begins at batch 0.",
        causes="Somebody deleted `offsets` and `commits` and left the rest. Or the first start was"
        " interrupted after its source had looked for data and before the batch was planned.",
        spark=(
            (
                PREDICTED,
                (
                    "starts at batch 0 without a warning. A file source returns all files in its"
                    " log as one batch. Kafka starts at its recorded first offsets, whatever"
                    " `startingOffsets` says. The query keeps its id, so a Delta sink skips the"
                    " batches that it already has"
                ),
            ),
        ),
        cures=f"Restore both folders, or {advice.NEW_CHECKPOINT}.",
    ),
    Code.LOCATION_NOT_EMPTY: Explanation(
        meaning="No batch is planned, but there are files in `offsets`, `commits` or `state`.",
        causes="Somebody emptied a log and left the rest, or copied something into the folder.",
        spark=(
            ("3.5, 4.0", "starts at batch 0, on top of any existing state"),
            (
                "4.1 and later",
                (
                    "refuses to start with `STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY`; a single"
                    " stray file is enough"
                ),
            ),
        ),
        cures="If `state` contains versions, batches have run: restore both logs, or"
        f" {advice.NEW_CHECKPOINT}. If `state` contains none, move the remaining files away. Spark"
        " does not check `sources`: a file source treats the files named there as already listed.",
    ),
}
