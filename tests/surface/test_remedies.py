"""What a diagnosis says to do: following it helps, and what would not help is not said."""

import shutil
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed
from tests.golden import FOLDER

from holdfast.model.finding import Code, Diagnosis, Finding, Severity
from holdfast.model.spark_version import SparkVersion


def _copied(tmp_path: Path, golden: str) -> Path:
    return shutil.copytree(FOLDER / golden / "checkpoint", tmp_path / "c")


def _found(told: Diagnosis, code: Code) -> Finding:
    (found,) = (one for one in told.findings if one.code is code)
    return found


def _removed(location: Path, *entries: str) -> None:
    for entry in entries:
        path = location / entry
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("scenario", ["aggregate-hdfs", "aggregate-rocksdb", "kafka"])
def test_batches_that_are_taken_for_done_can_be_run_again(tmp_path: Path, scenario: str) -> None:
    location = _copied(tmp_path, f"4.1.4/{scenario}")
    _removed(location, "commits/3", "commits/4", "commits/5")
    look, back = _found(diagnosed(location), Code.BATCHES_SKIPPED).remedies
    assert look == "look whether the sink holds all of batches 3 to 4; if so, nothing is lost"
    assert back.startswith(
        "if not, make the sink forget batch 3 and all after it, rows and numbers"
    )
    assert "put away `offsets/4` to `offsets/5` with their hidden `.crc` files" in back
    _removed(location, "offsets/4", "offsets/5")
    cured = diagnosed(location)
    assert (cured.restart.batch, cured.restart.rerun, cured.restart.error) == (3, True, None)
    assert not codes(cured) & {Code.BATCHES_SKIPPED, Code.CHECKSUM_LEFT}


def test_no_batch_is_to_run_again_that_a_start_cannot_reach(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=9, committed=0, first=5)
    (location / "commits/4").write_text('v1\n{"nextBatchWatermarkMs":0}')
    _, back = _found(diagnosed(location), Code.BATCHES_SKIPPED).remedies
    assert back == "if not, no start can run batch 5 again, as `offsets/4` is not there"
    location = _copied(tmp_path / "state", "4.1.4/aggregate-hdfs")
    _removed(location, "commits/3", "commits/4", "commits/5", "state/0/1/2.delta")
    _, back = _found(diagnosed(location), Code.BATCHES_SKIPPED).remedies
    assert back == "if not, no start can run batch 3 again, as the state of that time is not there"


@pytest.mark.parametrize("scenario", ["aggregate-hdfs", "aggregate-rocksdb"])
def test_the_last_batch_writes_its_state_again(tmp_path: Path, scenario: str) -> None:
    location = _copied(tmp_path, f"4.1.4/{scenario}")
    for path in location.glob("state/0/*/6.*"):
        path.unlink()
    restore, again = _found(diagnosed(location), Code.STATE_MISSING).remedies
    assert restore == "restore the folder `state` from a copy of the checkpoint"
    assert "remove `commits/5` and its hidden `.crc`: batch 5 then runs again" in again
    _removed(location, "commits/5")
    cured = diagnosed(location)
    assert (cured.restart.batch, cured.restart.rerun, cured.restart.error) == (5, True, None)


@pytest.mark.parametrize("golden", ["4.1.4/aggregate-hdfs", "4.1.4/killed-after-state-hdfs"])
def test_no_commit_is_to_be_removed_where_that_writes_no_state(tmp_path: Path, golden: str) -> None:
    """Of the first the version before is gone, too; of the second a later batch is planned."""
    location = _copied(tmp_path, golden)
    for path in location.glob("state/0/*/[456].*" if "agg" in golden else "state/0/*/4.*"):
        path.unlink()
    found = _found(diagnosed(location), Code.STATE_MISSING)
    assert found.remedies == ("restore the folder `state` from a copy of the checkpoint",)


def test_state_is_not_to_be_moved_away_because_its_logs_are_gone(tmp_path: Path) -> None:
    location = _copied(tmp_path, "4.1.4/aggregate-hdfs")
    for folder in ("offsets", "commits", "sources"):
        shutil.rmtree(location / folder)
    restore, anew = _found(diagnosed(location), Code.LOCATION_NOT_EMPTY).remedies
    assert restore == "restore the folders `offsets` and `commits` from a copy of the checkpoint"
    assert anew.endswith("move all of the checkpoint away, and clear what the sink holds")
    for path in location.glob("state/0/*/*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (move,) = _found(diagnosed(location), Code.LOCATION_NOT_EMPTY).remedies
    assert move == "move `state` away, if nothing in it is needed"


def test_commits_far_ahead_of_the_offsets_stop_the_first_batch_that_has_one(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=4, committed=3)
    for batch in (6, 7):
        (location / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    found = _found(diagnosed(location), Code.COMMIT_AHEAD)
    assert "runs batch 3 again, goes on, and at batch 6 fails after that was written" in found.text


def test_a_gap_is_not_said_to_be_passed_over_where_a_start_looks(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=6, committed=6)
    _removed(location, "offsets/2", "offsets/3", "offsets/4")
    told = diagnosed(location)
    assert _found(told, Code.OFFSET_BEFORE_MISSING).text.startswith("`offsets/4` is missing")
    gap = _found(told, Code.OFFSET_GAP).text
    assert gap.startswith("`offsets/2` to `offsets/3` are missing, and later ones are there")
    assert (
        "`offsets/2` to `offsets/4` are missing"
        in _found(diagnosed(location, asynchronous=True), Code.OFFSET_GAP).text
    )


def test_metadata_is_written_anew_without_its_old_checksum(tmp_path: Path) -> None:
    location = _copied(tmp_path, "2.4.8/kafka")
    (location / "metadata").write_text("")
    (remedy,) = _found(diagnosed(location), Code.METADATA_UNREADABLE).remedies
    assert remedy.startswith("remove `.metadata.crc`, if it is there, and write `metadata` anew")


def test_a_query_of_which_only_metadata_is_left_is_not_known_to_be_new(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=0, committed=0)
    (told,) = (one for one in diagnosed(location).not_assessed if "run before" in one.question)
    assert "one whose logs and sources were deleted looks the same" in told.reason


@pytest.mark.parametrize(
    ("golden", "part", "code", "remedy"),
    [
        ("aggregate-hdfs", "offsets", Code.OFFSETS_GONE, "restore the folder `offsets` from"),
        ("aggregate-hdfs", "commits", Code.COMMITS_GONE, "copy the folder `commits` from the"),
        (
            "checkpoint-format-2-changelog",
            "commits",
            Code.COMMITS_GONE,
            "copy the folder `commits`",
        ),
        ("aggregate-hdfs", "metadata", Code.METADATA_MISSING, "remove `.metadata.crc`, if it is"),
        ("files-to-files", "sources", Code.SOURCE_LOG_BEHIND, "restore"),
        ("aggregate-append-hdfs", "state", Code.STATE_MISSING, "restore the folder `state` from"),
    ],
)
def test_what_an_incomplete_copy_lacks_is_named_and_copying_it_helps(
    tmp_path: Path, golden: str, part: str, code: Code, remedy: str
) -> None:
    location = _copied(tmp_path, f"4.1.4/{golden}")
    before = codes(diagnosed(location))
    shutil.move(location / part, tmp_path / "kept")
    found = _found(diagnosed(location), code)
    assert found.remedies[0].startswith(remedy)
    assert Code.BATCHES_SKIPPED not in codes(diagnosed(location))
    shutil.move(tmp_path / "kept", location / part)
    assert codes(diagnosed(location)) == before


def test_a_missing_metadata_file_names_the_version_that_refuses_it(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    (location / "metadata").unlink()
    older = _found(diagnosed(location), Code.METADATA_MISSING)
    assert older.severity is Severity.DUPLICATES
    assert older.text.endswith("Spark 4.2 or later refuses to start.")
    newer = _found(diagnosed(location, spark=SparkVersion(4, 2)), Code.METADATA_MISSING)
    assert (newer.severity, "refuses to start" in newer.text) == (Severity.BLOCKS, True)
