"""Stage 3: does a known bug of this Spark threaten the state?

Each rule names the preconditions that Spark's own tracker gives, and what avoids the bug.
"""

from collections.abc import Iterator

from holdfast.model.checkpoint import FileKind
from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.spark_version import SparkVersion

_V4_1, _FIXED = SparkVersion(4, 1), SparkVersion(4, 2)
_CHANGELOGS_SINCE = SparkVersion(3, 5)


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Checksums of state files that have no names of their own, and snapshots that come late."""
    if seen.evidence.operators:
        yield from _find_checksum_hazard(seen)
        yield from _find_snapshot_hazard(seen)


def _find_checksum_hazard(seen: RuleInput) -> Iterator[Finding]:
    """SPARK-56461: a batch that is tried again writes a file and its checksum in two steps.

    The files of both tries have the same name in checkpoint format 1, so that an old file can end
    up beside a new checksum.
    """
    evidence, batch = seen.evidence, seen.restart.batch
    stores = [one for operator in evidence.operators for one in operator.stores]
    if seen.restart.starting.spark != _V4_1 or any(one.unique_ids for one in stores):
        return
    if FileKind.SPARK_CHECKSUM not in evidence.files:
        return
    again = (
        seen.restart.rerun
        and not isinstance(batch, Unknown)
        and any(one.latest_version > batch for one in stores)
    )
    when = (
        f"Batch {batch} runs again over state files that it has written before, and"
        if again
        else "When a batch is tried again over state files that it has written before,"
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
                "start it with `spark.sql.streaming.checkpoint.fileChecksum.enabled=false`: Spark"
                " then neither writes nor checks these checksums"
            ),
            "or use Spark 4.2 or later, which does not check them in checkpoint format 1",
        ),
    )


def _find_snapshot_hazard(seen: RuleInput) -> Iterator[Finding]:
    """SPARK-55892: with a changelog, maintenance uploads snapshots some time after their batch.

    By then another executor may have deleted the files of older snapshots that they reuse.
    """
    files = seen.evidence.files
    if not {FileKind.STATE_CHANGELOG, FileKind.STATE_ZIP, FileKind.STATE_SST} <= files.keys():
        return
    if not _CHANGELOGS_SINCE <= seen.restart.starting.spark < _FIXED:
        return
    yield Finding(
        code=Code.STATE_SNAPSHOT_HAZARD,
        severity=Severity.NOTE,
        text="A snapshot that maintenance uploads late can name files that another executor has"
        f" deleted, and the state can then not be loaded: Spark {seen.restart.starting.spark} does"
        " not check that (SPARK-55892, fixed in Spark 4.2).",
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
                "or start it with"
                " `spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled=false`,"
                " which uploads a snapshot with every batch and takes more time"
            ),
        ),
    )
