"""Does a known bug of this Spark threaten the state?

Each rule names the preconditions from Spark's own issue tracker, and what avoids the bug.
"""

from collections.abc import Iterator

from holdfast.model.checkpoint import FileKind
from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.spark_version import SparkVersion

_V4_1, _FIXED_IN = SparkVersion(4, 1), SparkVersion(4, 2)
_CHANGELOGS_SINCE = SparkVersion(3, 5)


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield the bugs that can hit this state: mixed-up checksums, and late snapshots."""
    if given.evidence.operators:
        yield from _find_checksum_hazard(given)
        yield from _find_snapshot_hazard(given)


def _find_checksum_hazard(given: RuleInput) -> Iterator[Finding]:
    """Yield SPARK-56461: a retried batch writes a file and its checksum in two steps.

    In checkpoint format 1 the files of both attempts have the same name, so an old file can end up
    beside a new checksum.
    """
    evidence, batch = given.evidence, given.restart.batch
    stores = [store for operator in evidence.operators for store in operator.stores]
    if given.restart.starting.spark != _V4_1 or any(store.unique_ids for store in stores):
        return
    if FileKind.SPARK_CHECKSUM not in evidence.files:
        return
    writes_again = (
        given.restart.rerun
        and not isinstance(batch, Unknown)
        and any(store.latest_version > batch for store in stores)
    )
    when = (
        f"Batch {batch} runs again over state files that it has written before, and"
        if writes_again
        else "When a batch runs again over state files that it has written before,"
    )
    count = evidence.files[FileKind.SPARK_CHECKSUM].count
    yield Finding(
        code=Code.STATE_CHECKSUM_HAZARD,
        severity=Severity.NOTE,
        text=f"{when} Spark 4.1 can leave an old state file beside a new checksum: every later"
        " start then fails with `CANNOT_LOAD_STATE_STORE` (SPARK-56461, fixed in Spark 4.2).",
        clues=(
            Clue(
                file="state",
                expected="no checksums, or state files with unique ids",
                found=f"{count:,} Spark checksums and checkpoint format 1",
            ),
        ),
        remedies=(
            (
                "start the query with `spark.sql.streaming.checkpoint.fileChecksum.enabled=false`:"
                " Spark then neither writes nor checks these checksums"
            ),
            "or use Spark 4.2 or later, which does not check them in checkpoint format 1",
        ),
    )


def _find_snapshot_hazard(given: RuleInput) -> Iterator[Finding]:
    """Yield SPARK-55892: with a changelog, maintenance uploads snapshots after their batch.

    By then another executor may have deleted files of older snapshots that they reuse.
    """
    files = given.evidence.files
    if not {FileKind.STATE_CHANGELOG, FileKind.STATE_ZIP, FileKind.STATE_SST} <= files.keys():
        return
    spark = given.restart.starting.spark
    if not _CHANGELOGS_SINCE <= spark < _FIXED_IN:
        return
    yield Finding(
        code=Code.STATE_SNAPSHOT_HAZARD,
        severity=Severity.NOTE,
        text="A later start may be unable to load the state: a snapshot that maintenance uploads"
        f" late can name files that another executor has deleted, and Spark {spark} does not check"
        " for this (SPARK-55892, fixed in Spark 4.2).",
        clues=(
            Clue(
                file="state",
                expected="snapshots that are uploaded with their batch",
                found="RocksDB snapshots and changelogs",
            ),
        ),
        remedies=(
            "use Spark 4.2 or later",
            (
                "or start the query with"
                " `spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=false`,"
                " which uploads a snapshot with every batch and takes more time"
            ),
        ),
    )
