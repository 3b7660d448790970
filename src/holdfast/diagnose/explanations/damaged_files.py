"""Explanations of findings about log entries and `metadata` that Spark cannot use."""

from collections.abc import Mapping

from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.ENTRY_UNREADABLE: Explanation(
        meaning="A log entry that every start reads is empty, truncated, or not a log entry at"
        " all.",
        causes="A full disk, an interrupted copy, or an editor.",
        spark=(
            ("3.5", "fails with `IllegalStateException` or an error of its JSON reader"),
            (
                "4.0 and later",
                (
                    "does the same; a wrong first line gives `MALFORMED_LOG_FILE`, an unknown"
                    " version `INVALID_LOG_VERSION`"
                ),
            ),
        ),
        cures="Restore the entry. You can also remove a commit: its batch then runs again. You can"
        " remove an offset entry on its own only if it is the last one and its batch is neither"
        " committed nor in the sink. Otherwise remove it together with everything after it, in"
        " both logs: Spark then reads that data again, under the same batch numbers. Before you"
        " do, put back a copy of every table, as it was after the last batch that remains (in a"
        " database, together with the job's rows in `holdfast_ledger`).",
    ),
    Code.ENTRY_WITHOUT_SETTINGS: Explanation(
        meaning="The second line of the latest offset entry is empty. A micro-batch has its"
        " timestamp, its watermark and the pinned settings there.",
        causes="An editor or a program wrote the entry. Or continuous mode wrote it, and the query"
        " now starts with a different trigger.",
        spark=(
            ("up to 2.3", "continues, without a watermark and with the settings of the session"),
            (
                "2.4 and later",
                (
                    "fails at every start with a `NullPointerException`: immediately if the batch"
                    " is committed, otherwise after the sink has written the batch"
                ),
            ),
            (
                "4.2 and later",
                (
                    "fails immediately with `IllegalArgumentException` if this batch is not"
                    " committed but an earlier one is"
                ),
            ),
        ),
        cures="Restore the entry. If you cannot, copy the second line of the previous entry into"
        " it, and remove its hidden `.crc`.",
    ),
    Code.FILE_UNREADABLE: Explanation(
        meaning="An old log entry or a state file cannot be read. A start does not need it.",
        causes="The same as for ENTRY_UNREADABLE.",
        spark=(
            (PREDICTED, "does not notice, and purges the file in time"),
            (
                "4.2 and later",
                (
                    "also skips a damaged state snapshot and replays changes instead, unless"
                    " `spark.sql.streaming.stateStore.autoSnapshotRepair.enabled` is false"
                ),
            ),
        ),
        cures="No action is needed.",
    ),
    Code.LOG_VERSION_UNKNOWN: Explanation(
        meaning="A log entry has a format that the Spark that starts cannot read.",
        causes="The query ran on a newer Spark, or with different settings for the format of its"
        " state.",
        spark=(
            ("up to 4.1", "reads only version 1 of the offset log"),
            (
                "4.0, 4.1",
                (
                    "reads only the version of the commit log that belongs to"
                    " `stateStore.checkpointFormatVersion`, otherwise fails with"
                    " `INVALID_LOG_VERSION.EXACT_MATCH_VERSION`"
                ),
            ),
            ("4.2", "reads every version"),
            ("4.3", "reads every version, and continues in the version that it finds"),
        ),
        cures="Start the query with the Spark version and the settings that wrote the entry.",
    ),
    Code.SOURCES_CHANGED: Explanation(
        meaning="The last two offset entries, in version 1, have different numbers of sources.",
        causes="Somebody edited an entry, or mixed two checkpoints.",
        spark=(
            (PREDICTED, "fails with `AssertionError: There are [n] sources in the checkpoint`"),
        ),
        cures="Restore both entries from the same checkpoint.",
    ),
    Code.METADATA_MISSING: Explanation(
        meaning="The file `metadata` is missing, and with it the query id.",
        causes="Somebody deleted it, or copied only the folders.",
        spark=(
            (
                "up to 4.1",
                (
                    "creates a new id and continues. Spark's own Delta sink recognizes a query by"
                    " its id, so it writes a pending batch twice"
                ),
            ),
            ("4.2 and later", "refuses to start with `STREAMING_CHECKPOINT_MISSING_METADATA_FILE`"),
        ),
        cures="Write the file again with the old id, which is in run records, in logs or in the"
        " sink's table.",
    ),
    Code.METADATA_UNREADABLE: Explanation(
        meaning="The file `metadata` exists but does not contain a query id.",
        causes="An interrupted write, or an editor.",
        spark=((PREDICTED, "fails when the query starts, before it has a run id"),),
        cures="Write the file again with the old id, and remove `.metadata.crc`: Spark before 3.2"
        " compares the two.",
    ),
    Code.CHECKSUM_LEFT: Explanation(
        meaning="A log entry was removed, but its hidden checksum file `.N.crc` was not.",
        causes="For example `rm commits/7` on a local disk. Object stores have no such files.",
        spark=(
            (
                PREDICTED,
                (
                    "fails with `Multiple streaming queries are concurrently using …` when it"
                    " writes the entry again; for a commit, this happens after the sink has"
                    " written. The entry itself is in place by then, so the next start continues"
                ),
            ),
        ),
        cures="Remove the hidden file too.",
    ),
}
