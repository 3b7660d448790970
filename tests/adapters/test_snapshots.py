"""Snapshots of state stores that are there and that Spark cannot load."""

import shutil
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed
from tests.golden import golden
from tests.looking import evidence

from holdfast.gather.inventory.folders import StoreFiles
from holdfast.gather.state import snapshots, stores
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Diagnosis, Judgement
from holdfast.model.ids import Span
from holdfast.model.spark_version import SparkVersion
from holdfast.storage import open_reader

V4_1, V4_2, V4_3 = SparkVersion(4, 1), SparkVersion(4, 2), SparkVersion(4, 3)
REPAIRING = pytest.mark.parametrize("spark", [V4_2, V4_3], ids=str)


def copied(version: str, scenario: str, place: Path) -> Path:
    """A golden checkpoint to be damaged."""
    shutil.copytree(golden(version, scenario).checkpoint, place)
    return place


def newest_zip(store: Path) -> Path:
    """The newest snapshot of a store."""
    return max(store.glob("*.zip"), key=lambda file: int(file.name.split("_")[0].split(".")[0]))


def condition(found: Diagnosis) -> str:
    """The error that is predicted, behind its first part."""
    assert found.restart.error is not None
    return found.restart.error.condition.partition(".")[2]


def cut(file: Path, keep: int) -> None:
    """Keep the first bytes of a file."""
    file.write_bytes(file.read_bytes()[:keep])


def test_a_snapshot_whose_files_are_gone_cannot_be_loaded(tmp_path: Path) -> None:
    location = copied("4.2", "aggregate-rocksdb", tmp_path / "c")
    shutil.rmtree(location / "state/0/1/SSTs")
    found = diagnosed(location, spark=V4_2)
    assert Code.STATE_MISSING in codes(found)
    assert condition(found) == "UNCATEGORIZED"
    assert found.restart.state[0].missing == ("state/0/1",)
    seen = evidence(location)
    assert [one.path for one in seen.unreadable] == [f"state/0/1/{n}.zip" for n in range(6, 0, -1)]
    assert seen.operators[0].restorable == ()
    assert "which does not exist" in seen.unreadable[0].reason
    assert isinstance(seen.operators[0].rows, Unknown)


def test_a_snapshot_whose_file_has_another_size_cannot_be_loaded(tmp_path: Path) -> None:
    location = copied("4.2", "aggregate-rocksdb", tmp_path / "c")
    for file in (location / "state/0/1/SSTs").iterdir():
        cut(file, file.stat().st_size - 1)
    found = diagnosed(location, spark=V4_2)
    assert condition(found) == "UNEXPECTED_FILE_SIZE"
    (unread,) = evidence(location).unreadable
    assert unread.path.startswith("state/0/1/SSTs/")
    assert unread.reason.endswith(", as `6.zip` says")


def test_a_batch_whose_snapshot_lacks_a_file_cannot_be_restored(tmp_path: Path) -> None:
    location = copied("4.1", "aggregate-rocksdb", tmp_path / "c")
    assert [(one.first, one.last) for one in batches_of(location)] == [(0, 5)]
    (lost,) = (location / "state/0/0/SSTs").glob("000008-*.sst")
    lost.unlink()
    assert [(one.first, one.last) for one in batches_of(location)] == [(4, 5)]
    found = diagnosed(location, spark=V4_1)
    assert found.judgement is Judgement.SAFE
    (location / "state/0/0/6.zip").unlink()
    found = diagnosed(location, spark=V4_1)
    assert condition(found) == "CANNOT_READ_STREAMING_STATE_FILE"
    (told,) = (one for one in found.findings if one.code is Code.STATE_MISSING)
    assert told.clues[0].file == "state/0/0", "what is damaged there is not what is missing"


def batches_of(location: Path) -> tuple[Span, ...]:
    """The batches that can be restored."""
    restorable = evidence(location).operators[0].restorable
    assert isinstance(restorable, tuple)
    return restorable


@pytest.mark.parametrize("version", ["3.5", "4.0", "4.1", "4.2", "4.3"])
def test_a_snapshot_that_is_cut_short_cannot_be_loaded(version: str, tmp_path: Path) -> None:
    location = copied(version, "aggregate-rocksdb", tmp_path / "c")
    cut(newest_zip(location / "state/0/0"), 700)
    found = diagnosed(location, spark=SparkVersion(*map(int, version.split("."))))
    assert Code.STATE_MISSING in codes(found)
    assert found.judgement is Judgement.UNSAFE


def test_a_snapshot_that_is_cut_in_its_list_is_whole_to_spark(tmp_path: Path) -> None:
    location = copied("4.2", "aggregate-rocksdb", tmp_path / "c")
    file = newest_zip(location / "state/0/0")
    cut(file, file.stat().st_size - 30)
    found = diagnosed(location, spark=V4_2)
    assert found.restart.error is None
    assert Code.FILE_UNREADABLE in codes(found)
    assert found.judgement is Judgement.SAFE


def test_only_the_snapshot_that_a_start_loads_stops_it(tmp_path: Path) -> None:
    location = copied("4.2", "aggregate-rocksdb", tmp_path / "c")
    for name in ("5", ".5.crc"):
        (location / "commits" / name).unlink()
    cut(location / "state/0/0/6.zip", 700)
    found = diagnosed(location, spark=V4_2)
    assert found.restart.state[0].version == 5
    assert found.restart.error is None
    assert Code.FILE_UNREADABLE in codes(found)
    cut(location / "state/0/0/5.zip", 700)
    assert Code.STATE_MISSING in codes(diagnosed(location, spark=V4_2))


def test_it_is_told_how_many_snapshots_were_opened(tmp_path: Path) -> None:
    location = copied("4.2", "aggregate-rocksdb", tmp_path / "c")
    for partition in range(2, 70):
        shutil.copytree(location / "state/0/1", location / f"state/0/{partition}")
    told = [one.reason for one in diagnosed(location, spark=V4_2).not_assessed]
    expected = "only their names and sizes are checked, and in 64 of 70 stores the files that the"
    assert f"{expected} snapshot names" in told


def test_files_that_came_after_the_listing_are_looked_for_once_more(tmp_path: Path) -> None:
    location = copied("4.2", "aggregate-rocksdb", tmp_path / "c")
    reader = open_reader(str(location), {})
    one = snapshots.SnapshotZip(key=(0, 0, "default"), version=6, newest=True)
    data = (location / "state/0/0/6.zip").read_bytes()
    opened, before_them = stores.OpenedSnapshots(), StoreFiles()
    snapshots.take(opened, reader, "state/0/0/6.zip", one, before_them, data)
    assert (opened.damaged, opened.unreadable) == ({}, {})
    shutil.rmtree(location / "state/0/0/SSTs")
    snapshots.take(opened, reader, "state/0/0/6.zip", one, before_them, data)
    assert opened.damaged == {(0, 0, "default"): {6}}


@REPAIRING
@pytest.mark.parametrize(
    ("scenario", "snapshot"), [("aggregate-hdfs", "2.snapshot"), ("aggregate-changelog", "2.zip")]
)
def test_a_damaged_snapshot_is_passed_over_from_4_2_on(
    spark: SparkVersion, scenario: str, snapshot: str, tmp_path: Path
) -> None:
    location = copied("4.2", scenario, tmp_path / "c")
    (location / "state/0/0" / snapshot).write_bytes(b"")
    earlier, later = diagnosed(location, spark=V4_1), diagnosed(location, spark=spark)
    assert condition(earlier) == "UNCATEGORIZED"
    assert later.restart.error is None
    assert Code.FILE_UNREADABLE in codes(later)
    change = next((location / "state/0/0").glob("1.[dc]*"))
    change.unlink()
    assert condition(diagnosed(location, spark=spark)) in (
        "CANNOT_READ_DELTA_FILE_NOT_EXISTS",
        "CANNOT_READ_STREAMING_STATE_FILE",
    )


@pytest.mark.parametrize("loads", [500, 501])
def test_at_most_500_changes_are_replayed(loads: int, tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=loads, committed=loads)
    files.state(location, range(1, loads + 1))
    assert diagnosed(location, spark=V4_2).restart.error is None
    (location / "state/0/0/2.snapshot").write_bytes(b"")
    found = diagnosed(location, spark=V4_2)
    if loads > 500:
        assert condition(found) == "AUTO_SNAPSHOT_REPAIR_FAILED"
    else:
        assert found.restart.error is None


def test_an_empty_snapshot_with_an_id_counts_if_its_commit_names_it(tmp_path: Path) -> None:
    location = copied("4.1", "checkpoint-format-2-changelog", tmp_path / "c")
    (change,) = (location / "state/0/0").glob("5_*.changelog")
    given_up = location / "state/0/0/5_00000000-1111-4222-8333-444444444444.zip"
    given_up.write_bytes(b"")
    assert diagnosed(location, spark=V4_1).restart.error is None
    change.with_suffix(".zip").write_bytes(b"")
    assert condition(diagnosed(location, spark=V4_1)) == "UNCATEGORIZED"
    assert diagnosed(location, spark=V4_2).restart.error is None
