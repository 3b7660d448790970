"""The state of a checkpoint: which files count as its versions, and what can be restored."""

import json
import shutil
import time
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed
from tests.golden import Golden, golden
from tests.looking import evidence

from holdfast.gather.history.query_facts import History
from holdfast.gather.inventory import snapshot, spans, tree
from holdfast.gather.locate import resolve
from holdfast.gather.logs import tail
from holdfast.gather.state import operators, stores
from holdfast.model.fact import Known, Unknown
from holdfast.model.finding import Code, Judgement
from holdfast.model.ids import Span
from holdfast.model.spark_version import SparkVersion
from holdfast.model.state import OperatorEvidence
from holdfast.model.verdict import Level
from holdfast.report import diagnosis, document, rows, verdict
from holdfast.report.terminal import lines
from holdfast.storage import File, Portion, open_reader

UNIQUE = ("4.0.5", "4.2.1", "4.3.0")
LAST = {"aggregate-hdfs": 5, "aggregate-rocksdb": 5, "aggregate-changelog": 5, "snapshots-hdfs": 7}


def operator(location: Path) -> OperatorEvidence:
    """The only one."""
    (found,) = evidence(location).operators
    return found


def copied(version: str, scenario: str, place: Path) -> Path:
    """A golden checkpoint to be damaged."""
    shutil.copytree(golden(version, scenario).checkpoint, place)
    return place


def counted(one: Golden) -> object:
    """The rows that Spark's own reader of state found."""
    told = one.expected["state"]
    assert isinstance(told, dict)
    return told["rows"][0]["count"]


@pytest.mark.parametrize("version", ["4.2", "4.3"])
def test_partitions_that_a_repartition_left_behind_do_not_count(version: str) -> None:
    one = golden(version, "repartitioned-fewer")
    found = operator(one.checkpoint)
    assert (found.partitions, found.left_over) == (1, 1)
    assert found.rows == counted(one)
    assert {store.partition for store in found.stores} == {0}
    assert "1 partition (and 1 left over from before a repartition)" in rows.format_state(found)
    assert diagnosed(one.checkpoint).judgement is Judgement.SAFE
    history = evidence(one.checkpoint).restart_history
    assert not isinstance(history, Unknown)
    assert "its state was repartitioned" in str(history)


def test_after_a_repartition_to_more_all_count() -> None:
    one = golden("4.3", "repartitioned-more")
    found = operator(one.checkpoint)
    assert (found.partitions, found.left_over) == (3, 0)
    assert diagnosed(one.checkpoint).judgement is Judgement.SAFE


def test_a_partition_that_is_lost_is_not_taken_for_one_that_is_left_over(tmp_path: Path) -> None:
    location = copied("4.3", "aggregate-rocksdb", tmp_path / "c")
    shutil.rmtree(location / "state/0/1")
    assert Code.STATE_MISSING in codes(diagnosed(location))
    assert operator(location).left_over == 0


@pytest.mark.parametrize("version", ["2.3", "3.5", "4.1", "4.3"])
@pytest.mark.parametrize("lost", [0, 1])
def test_a_partition_without_files_counts_and_nothing_can_be_restored(
    version: str, lost: int, tmp_path: Path
) -> None:
    location = copied(version, "aggregate-hdfs", tmp_path / "c")
    shutil.rmtree(location / f"state/0/{lost}")
    found = operator(location)
    if version == "2.3" and lost == 1:
        # No file tells of a key: it may be a query with one partition.
        assert (found.partitions, found.absent) == (1, ())
        return
    assert (found.partitions, found.absent) == (2, ((lost, "default"),))
    assert found.restorable == ()
    assert isinstance(found.rows, Unknown)
    assert rows.format_state(found).startswith("2 partitions (1 without state files), ")
    error = diagnosed(location).restart.error
    assert error is not None
    assert error.read_from == (f"state/0/{lost}",)


def test_rows_of_some_partitions_are_not_told_as_all(tmp_path: Path) -> None:
    location = copied("4.3", "aggregate-rocksdb", tmp_path / "c")
    assert isinstance(operator(location).rows, int)
    shutil.rmtree(location / "state/0/1")
    assert isinstance(operator(location).rows, Unknown)


def test_a_store_of_a_join_without_files(tmp_path: Path) -> None:
    location = copied("4.1", "join-inner-hdfs", tmp_path / "c")
    shutil.rmtree(location / "state/0/1/right-keyToNumValues")
    found = operator(location)
    assert (found.partitions, found.absent) == (2, ((1, "right-keyToNumValues"),))
    assert rows.format_state(found).startswith("2 partitions (1 store without state files), ")
    assert found.restorable == ()


@pytest.mark.parametrize("version", ["4.2", "4.3"])
def test_a_partition_that_a_repartition_added_is_missed(version: str, tmp_path: Path) -> None:
    """The operator's metadata still has the number from before it."""
    location = copied(version, "repartitioned-more", tmp_path / "c")
    shutil.rmtree(location / "state/0/2")
    found = operator(location)
    assert (found.partitions, found.absent) == (3, ((2, "default"),))
    assert Code.STATE_MISSING in codes(diagnosed(location, spark=SparkVersion(4, 3)))


@pytest.mark.parametrize("version", ["2.4", "3.5", "4.1", "4.3"])
def test_a_streaming_limit_has_one_partition(version: str) -> None:
    found = operator(golden(version, "limit-hdfs").checkpoint)
    assert (found.partitions, found.absent) == (1, ())


@pytest.mark.parametrize("version", ["3.5", "4.3"])
def test_a_first_batch_has_as_many_partitions_before_it_has_written_them(
    version: str, tmp_path: Path
) -> None:
    location = copied(version, "aggregate-hdfs", tmp_path / "c")
    for log in ("offsets", "commits"):
        for entry in (location / log).iterdir():
            if log == "commits" or entry.name != "0":
                entry.unlink()
    shutil.rmtree(location / "state/0/1")
    for file in (location / "state/0/0").glob("*.delta*"):
        if file.name != "1.delta":
            file.unlink()
    found = operator(location)
    assert (found.partitions, found.absent) == (2, ((1, "default"),))
    assert found.restorable == ()
    assert diagnosed(location).restart.error is None


def test_a_number_of_partitions_beyond_belief_is_not_counted_up_to(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    files.state(location, range(1, 4))
    files.offsets(location, 2, 1, {})
    (location / "state/0/_metadata").mkdir()
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 1 << 40}
    operator_info = {"operatorId": 0, "operatorName": "stateStoreSave"}
    told = {"operatorInfo": operator_info, "stateStoreInfo": [store]}
    (location / "state/0/_metadata/metadata").write_text(f"v1\n{json.dumps(told)}")
    assert (operator(location).partitions, operator(location).absent) == (2, ())


def test_a_deduplication_of_3_1_is_not_taken_for_an_aggregation() -> None:
    """Its schema has all columns as the value, where an aggregation of format 1 repeats its key."""
    for scenario in ("dedup-hdfs", "dedup-watermark-hdfs"):
        assert isinstance(operator(golden("3.1", scenario).checkpoint).name, Unknown)
        assert operator_name(golden("3.2", scenario).checkpoint) == "dedupe"
    for version, scenario in (("3.1", "aggregate-hdfs"), ("3.5", "aggregate-format-1-hdfs")):
        assert operator_name(golden(version, scenario).checkpoint) == "stateStoreSave"


def operator_name(location: Path) -> str:
    """The name of the only one, which must be known."""
    name = operator(location).name
    assert isinstance(name, Known)
    return name.value


@pytest.mark.parametrize("version", ["3.5", "4.1", "4.3"])
def test_a_batch_that_the_logs_have_purged_cannot_be_restored(version: str) -> None:
    location = golden(version, "purged-hdfs").checkpoint
    found = operator(location)
    assert found.restorable == evidence(location).batches.offset_spans == (Span(first=7, last=9),)
    assert rows.format_state(found).endswith("restorable batches 7 to 9")
    (shown,) = json.loads(json.dumps(document.to_json(evidence(location))))["operators"]
    assert shown["restorable_batches"] == [[7, 9]]
    assert (shown["oldest_restorable_batch"], shown["newest_restorable_batch"]) == (7, 9)
    assert [one["restorable_versions"] for one in shown["stores"]] == [[[6, 10]], [[6, 10]]]


@pytest.mark.parametrize("scenario", ["killed-after-state-hdfs", "killed-after-state-changelog"])
def test_state_that_is_ahead_of_the_commits_is_none_to_go_back_to(scenario: str) -> None:
    location = golden("4.3", scenario).checkpoint
    found = operator(location)
    assert (found.latest_version, evidence(location).batches.last_committed) == (5, 3)
    assert found.restorable == (Span(first=0, last=3),)


def test_rows_of_a_batch_that_is_not_committed_are_not_told(tmp_path: Path) -> None:
    location = copied("4.3", "aggregate-rocksdb", tmp_path / "c")
    assert isinstance(operator(location).rows, int)
    (location / "commits/5").unlink()
    found = operator(location)
    assert isinstance(found.rows, Unknown)
    assert "do not belong to the last committed batch" in found.rows.reason
    assert all(isinstance(store.rows, int) for store in found.stores)


def test_a_batch_lies_in_the_partitions_that_it_was_planned_with(tmp_path: Path) -> None:
    more = golden("4.3", "repartitioned-more").checkpoint
    assert operator(more).restorable == (Span(first=0, last=6),)
    fewer = copied("4.3", "repartitioned-fewer", tmp_path / "c")
    assert operator(fewer).restorable == (Span(first=0, last=6),)
    shutil.rmtree(fewer / "state/0/1")
    found = operator(fewer)
    assert (found.restorable, found.absent) == ((Span(first=3, last=6),), ())


def test_a_repartition_that_was_broken_off_leaves_what_was_committed(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=3, committed=2)
    files.state(location, range(1, 3))
    files.offsets(location, 2, 1, files.SETTINGS | {"spark.sql.shuffle.partitions": "3"})
    found = operator(location)
    assert (found.partitions, found.absent) == (3, ((2, "default"),))
    assert found.restorable == (Span(first=0, last=1),)


@pytest.mark.parametrize("log", ["offsets", "commits"])
def test_a_batch_whose_entry_is_damaged_cannot_be_restored(log: str, tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=6, committed=6)
    files.state(location, range(1, 7))
    (location / log / "3").write_text("v1\n{")
    found = operator(location)
    assert found.restorable == (Span(first=0, last=2), Span(first=4, last=5))
    assert (found.oldest_batch, found.newest_batch) == (0, 5)
    assert rows.format_state(found).endswith("restorable batches 0-2, 4-5")


def test_without_a_commit_log_a_batch_is_done_when_the_next_is_planned() -> None:
    location = golden("2.1", "aggregate-hdfs").checkpoint
    assert evidence(location).batches.last_planned == 3
    assert operator(location).restorable == (Span(first=0, last=2),)


@pytest.mark.parametrize("version", UNIQUE)
def test_only_files_that_the_commit_names_are_its_state(version: str, tmp_path: Path) -> None:
    location = copied(version, "checkpoint-format-2-changelog", tmp_path / "c")
    batch = max(int(one.name) for one in (location / "commits").iterdir() if one.name.isdecimal())
    spark = SparkVersion(*(int(part) for part in version.split(".")[:2]))
    assert diagnosed(location, spark=spark).judgement is Judgement.SAFE
    ids = json.loads((location / f"commits/{batch}").read_text().splitlines()[1])["stateUniqueIds"]
    (file,) = (location / "state/0/0").glob(f"{batch + 1}_{ids['0'][0][0]}.changelog")
    for zipped in (location / "state/0/0").glob(f"{batch + 1}_*.zip"):
        zipped.unlink()
    file.rename(file.with_name(f"{batch + 1}_00000000-0000-4000-8000-000000000000.changelog"))
    assert operator(location).newest_batch == batch - 1
    found = diagnosed(location, spark=spark)
    assert found.judgement is Judgement.UNSAFE
    assert Code.STATE_MISSING in codes(found)


def test_rows_are_those_of_the_snapshot_that_the_commit_names(tmp_path: Path) -> None:
    location = copied("4.3", "checkpoint-format-2-rocksdb", tmp_path / "c")
    told = operator(location).rows
    for file in (location / "state/0").glob("*/*.zip"):
        orphan = file.with_name(f"{file.name.partition('_')[0]}_{'f' * 36}.zip")
        orphan.write_bytes(b"left by a task that was given up")
    assert isinstance(told, int)
    assert operator(location).rows == told


@pytest.mark.parametrize(
    ("scenario", "name", "newest"),
    [
        ("aggregate-hdfs", "6.delta", 4),
        ("aggregate-hdfs", "3.delta", 1),
        ("aggregate-rocksdb", "6.zip", 4),
        ("aggregate-changelog", "6.changelog", 4),
        # Spark begins at the newest snapshot, and does not look for an older one.
        ("snapshots-hdfs", "6.snapshot", 4),
    ],
)
def test_an_empty_file_is_no_state(tmp_path: Path, scenario: str, name: str, newest: int) -> None:
    location = copied("4.1", scenario, tmp_path / "c")
    assert operator(location).newest_batch == LAST[scenario]
    (location / f"state/0/0/{name}").write_bytes(b"")
    found = evidence(location)
    assert operator(location).newest_batch == newest
    assert [(one.path, one.reason) for one in found.unreadable] == [(f"state/0/0/{name}", "empty")]
    shown = verdict.judge(found)
    assert shown.level is Level.BAD
    assert "of the state cannot be loaded from `state/0/0`" in shown.text
    error = diagnosed(location).restart.error
    assert error is not None
    assert error.condition == "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED"


def test_an_empty_file_below_a_later_snapshot_does_no_harm(tmp_path: Path) -> None:
    location = copied("4.1", "snapshots-hdfs", tmp_path / "c")
    (location / "state/0/0/4.delta").write_bytes(b"")
    assert diagnosed(location).restart.error is None
    shown = verdict.judge(evidence(location))
    assert shown.level is Level.CAREFUL
    assert shown.text.endswith("1 file cannot be read")


def test_a_folder_of_an_odd_name_hides_no_state() -> None:
    found = tree.CheckpointTree()
    there = [File("1.delta", 9, 0), File("2.delta", 9, 0), File("2.snapshot", 9, 0)]
    for folder in ("state/0/00", "state/0/٣", "state/0/0"):
        found.add(Portion(folder=folder, files=there))
    assert set(found.stores) == {(0, 0, "default")}
    assert found.stores[0, 0, "default"].files == 3


def test_the_share_of_the_folders_that_were_listed_is_told(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=3, committed=3)
    files.state(location, range(1, 4), partitions=4)
    told: list[tuple[int, float]] = []
    found = resolve.find_checkpoint(str(location), {})
    snapshot.take(found.place.reader, found.top, lambda *so_far: told.append(so_far))
    seen, shares = zip(*told, strict=True)
    assert list(seen) == sorted(seen)
    assert list(shares) == sorted(shares)
    assert (shares[0] < 0.5, shares[-1]) == (True, 1.0)


def test_many_gaps_take_no_time() -> None:
    gaps = [Span(first=n, last=n) for n in range(1, 20_000, 2)]
    begun = time.perf_counter()
    assert len(spans.find_restorable(gaps, [])) == len(gaps)
    assert spans.intersect([gaps, gaps, gaps]) == tuple(gaps)
    assert time.perf_counter() - begun < 2


@pytest.mark.parametrize("version", ["2.4", "3.5"])
def test_state_that_batches_went_on_without_may_be_that_of_an_operator_taken_out(
    version: str, tmp_path: Path
) -> None:
    location = copied(version, "aggregate-hdfs", tmp_path / "c")
    for log in ("offsets", "commits"):
        for batch in range(6, 20):
            shutil.copy(location / log / "5", location / log / str(batch))
    found = diagnosed(location, spark=SparkVersion(3, 5))
    assert found.judgement is Judgement.UNDEFINED
    assert found.restart.error is not None
    assert found.restart.error.unless == "operator 0 was taken out of the query"
    (finding,) = (one for one in found.findings if one.code is Code.STATE_MISSING)
    assert "ends at version 6 in every store, but batches up to 19 are committed" in finding.text
    assert finding.text.startswith(
        "A restart will fail if the query still has operator 0, and start"
    )
    said = verdict.judge(evidence(location))
    assert said.level is Level.CAREFUL
    assert said.text.endswith(", unless operator 0 was taken out of the query")


@pytest.mark.parametrize("version", ["3.5", "4.1"])
def test_state_is_missing_for_certain_where_no_operator_can_have_been_taken_out(
    version: str, tmp_path: Path
) -> None:
    """With its metadata Spark refuses that; and no query leaves stores that end apart."""
    location = copied(version, "aggregate-hdfs", tmp_path / "c")
    for partition in (0, 1) if version == "4.1" else (0,):
        (location / f"state/0/{partition}/6.delta").unlink()
    found = diagnosed(location, spark=SparkVersion(*map(int, version.split("."))))
    assert found.judgement is Judgement.UNSAFE
    assert found.restart.error is not None
    assert not found.restart.error.unless


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_said_of_a_join_does_not_hang_on_the_order_of_a_listing(order: int) -> None:
    found = tree.CheckpointTree()
    names = [f"{side}-key{kind}" for side in ("left", "right") for kind in ("ToNumValues", "With")]
    for store in names[::order]:
        found.add(Portion(folder=f"state/0/0/{store}", files=[File("1.delta", 9, 0)]))
    logged = stores.make_logged_state(found, tail.Entries(), History())
    (seen,) = operators.read(open_reader("/"), found, logged).operators
    assert isinstance(seen.name, Known)
    assert seen.name.inferred.endswith("a state store `left-keyToNumValues`")


def test_a_partition_that_was_copied_into_another_is_none_of_its_stores(tmp_path: Path) -> None:
    """What a start looks for is the partition, where it would be."""
    location = _partitioned(tmp_path / "c", 3)
    shutil.move(location / "state/0/2", location / "state/0/0/2")
    stores = [(one.partition, one.store) for one in operator(location).stores]
    assert stores == [(0, "default"), (1, "default")]
    found = diagnosed(location)
    (finding,) = (one for one in found.findings if one.code is Code.STATE_MISPLACED)
    assert [one.file for one in finding.clues] == ["state/0/2"]
    error = found.restart.error
    assert error is not None
    assert error.reason == "version 3 of the state cannot be loaded from `state/0/2`"


def test_every_store_that_cannot_be_loaded_is_counted(tmp_path: Path) -> None:
    """And none is taken for one that a start does without."""
    location = _partitioned(tmp_path / "c", 25)
    for partition in range(25):
        (location / f"state/0/{partition}/3.delta").write_bytes(b"")
    found = diagnosed(location)
    assert Code.FILE_UNREADABLE not in codes(found)
    (finding,) = (one for one in found.findings if one.code is Code.STATE_MISSING)
    assert "and 25 stores cannot provide it" in finding.text
    report = lines.strip_styles(diagnosis.to_lines(found)).splitlines()
    assert "  operator 0 loads state version 3, missing in 25 stores" in report
    (shown,) = json.loads(json.dumps(diagnosis.to_json(found)))["restart"]["state"]
    assert (len(shown["missing"]), shown["missing_more"]) == (20, 5)


def _partitioned(location: Path, partitions: int) -> Path:
    files.write(location)
    for batch in range(3):
        settings = files.SETTINGS | {"spark.sql.shuffle.partitions": str(partitions)}
        files.offsets(location, batch, 1, settings)
    files.state(location, range(1, 4), partitions=partitions)
    return location


def test_stores_that_are_ahead_are_told_as_those_that_ended_the_batch(tmp_path: Path) -> None:
    location = _partitioned(tmp_path / "c", 5)
    for partition in (1, 3, 4):
        (location / f"state/0/{partition}/3.delta").unlink()
    said = rows.format_stores_behind(operator(location))
    assert said == (
        "2 of 5 stores finished batch 2 (version 3), the others did not:"
        " 1/default at 2, 3/default at 2, 4/default at 2"
    )
