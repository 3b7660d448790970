"""A Delta table with a ledger in it: written once, fenced, and nothing lost; without Spark."""

import json
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import deltalake
import pytest
from tests.adapters.delta_driving import Driver, bare, bare_at, foreign, offset, rows, written

from holdfast.errors import (
    BatchChanged,
    DriverFenced,
    SinkBehind,
    SinkRefused,
    StorageUnavailable,
)
from holdfast.model.batch import LedgerKey, NothingWritten, SinkPosition, WrittenBatch
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Epoch, Generation, JobName, OutputName
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import ledger
from holdfast.sinks.delta.ledger import make_app_id
from holdfast.sinks.delta.log import LogTail
from holdfast.sinks.delta.table import DeltaLocation
from holdfast.storage import open_store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a table ü"


def test_before_any_driver(path: Path) -> None:
    driver = Driver(path)
    assert driver.table.last_written() == NothingWritten(
        epoch=Epoch(0), location=Unknown(reason="there is no table yet")
    )
    assert not path.exists()


def test_a_table_without_a_ledger(path: Path) -> None:
    Driver(path, "other").start()
    assert Driver(path).table.last_written() == NothingWritten(
        epoch=Epoch(0), location=Unknown(reason="no driver has been there")
    )


def test_the_first_driver_makes_the_table_with_its_ledger_in_one_commit(path: Path) -> None:
    driver = Driver(path).start()
    assert driver.table.current().version() == 0
    assert driver.table.last_written() == NothingWritten(epoch=Epoch(1), location="/base/j")


def test_a_batch_is_written_with_its_ledger(path: Path) -> None:
    driver = Driver(path).start()
    assert driver.process(0) is Decision.WRITE
    assert rows(path) == [(0, "j")]
    assert driver.table.last_written() == written(0)
    said = json.loads(driver.table.current().history(1)[0][ledger.KEY])
    assert said == {
        "ledger": "holdfast/j/1/t",
        "job": "j",
        "generation": 1,
        "epoch": 1,
        "location": "/base/j",
        "batch": 0,
        "digest": "digest-0",
        "offsets": [{"source": "0", "start": offset(0), "end": offset(1)}],
    }


def test_the_same_batch_twice_is_written_once(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    assert driver.process(0) is Decision.SKIP
    assert rows(path) == [(0, "j")]


def test_a_commit_that_was_made_but_not_heard_of_is_not_made_again(path: Path) -> None:
    """The answer was lost on the way, and the writer tries again with what it knew."""
    driver = Driver(path).start()
    before = driver.table.log.head()
    assert driver.write(0) is Decision.WRITE
    assert driver.write(0, at=before) is Decision.SKIP
    assert rows(path) == [(0, "j")]


def test_a_batch_that_changed_is_refused(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    with pytest.raises(BatchChanged):
        driver.decide(0, "other")


def test_a_batch_that_skips_one_is_refused(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    with pytest.raises(SinkBehind, match="needs batch 1 next, but batch 2 comes"):
        driver.process(2)


def test_a_driver_that_starts_again_carries_on(path: Path) -> None:
    first = Driver(path).start()
    first.process(0)
    first.process(1)
    second = Driver(path, epoch=2).start()
    assert second.table.last_written() == written(1, epoch=2)
    assert [second.process(n) for n in (0, 1, 2)] == [Decision.SKIP, Decision.SKIP, Decision.WRITE]
    assert rows(path) == [(0, "j"), (1, "j"), (2, "j")]


def test_starting_twice_with_one_epoch_commits_once(path: Path) -> None:
    driver = Driver(path).start()
    Driver(path, epoch=2).start()
    version = driver.table.current().version()
    Driver(path, epoch=2).start()
    assert driver.table.current().version() == version


def test_an_older_driver_that_had_the_table_open_is_fenced(path: Path) -> None:
    old = Driver(path).start()
    old.process(0)
    seen = old.table.log.head()
    Driver(path, epoch=2).start()
    with pytest.raises(DriverFenced, match="this driver has epoch 1, and the ledger has epoch 2"):
        old.write(1, at=seen)
    with pytest.raises(DriverFenced):
        old.process(1)
    with pytest.raises(DriverFenced):
        old.start()
    assert rows(path) == [(0, "j")]


def test_an_older_driver_is_fenced_with_foreign_commits_before_and_after_the_fence(
    path: Path,
) -> None:
    old = Driver(path).start()
    old.process(0)
    seen = old.table.log.head()
    foreign(path, 3)
    Driver(path, epoch=2).start()
    foreign(path, 3)
    deltalake.DeltaTable(path).create_checkpoint()
    with pytest.raises(DriverFenced):
        old.write(1, at=seen)
    assert rows(path) == [(0, "j")]


def test_an_older_driver_is_fenced_also_when_the_newer_wrote_its_batch(path: Path) -> None:
    old = Driver(path).start()
    seen = old.table.log.head()
    new = Driver(path, epoch=2).start()
    new.process(0)
    with pytest.raises(DriverFenced):
        old.write(0, at=seen)
    assert rows(path) == [(0, "j")]


def test_the_older_and_the_newer_driver_race(path: Path) -> None:
    """Whatever the order, each batch is there once and the old one ends fenced."""
    old = Driver(path).start()
    ended: list[DriverFenced] = []

    def run() -> None:
        try:
            for number in range(1_000):
                old.process(number)
                time.sleep(0.005)
        except DriverFenced as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    new = Driver(path, epoch=2).start()
    last = new.table.last_written()
    first = last.batch + 1 if isinstance(last, WrittenBatch) else 0
    for number in range(first, first + 5):
        assert new.process(number) is Decision.WRITE
    thread.join()
    assert len(ended) == 1
    assert rows(path) == [(number, "j") for number in range(first + 5)]


def test_two_places_with_one_epoch_are_not_one_driver(path: Path) -> None:
    """Two bases have leases of their own, so that both may have taken epoch 1."""
    Driver(path, base="/one").start()
    with pytest.raises(DriverFenced):
        Driver(path, base="/other").start()


def test_two_jobs_on_one_table_lose_nothing(path: Path) -> None:
    drivers = [Driver(path, name).start() for name in ("a", "b")]
    failed: list[BaseException] = []

    def run(driver: Driver) -> None:
        try:
            for number in range(50):
                assert driver.process(number) is Decision.WRITE
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run, args=(driver,)) for driver in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert rows(path) == [(n, name) for name in ("a", "b") for n in range(50)]
    assert [ledger.read_standing(deltalake.DeltaTable(path), d.app_id) for d in drivers] == [
        SinkPosition(epoch=Epoch(1), batch=BatchId(49))
    ] * 2


def test_a_new_generation_begins_anew(path: Path) -> None:
    first = Driver(path).start()
    first.process(0)
    second = Driver(path, epoch=2)
    second.life = replace(second.life, generation=Generation(2))
    second.table.app_id = make_app_id(
        LedgerKey(job=JobName("j"), generation=Generation(2), output=OutputName("t"))
    )
    second.start()
    assert second.process(0) is Decision.WRITE
    assert rows(path) == [(0, "j"), (0, "j")]


def test_the_last_batch_is_found_behind_foreign_commits(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    foreign(path, 30)
    Driver(path, "other").start()
    assert driver.table.last_written() == written(0)
    assert driver.process(0) is Decision.SKIP
    assert driver.process(1) is Decision.WRITE


def test_commits_without_commit_info_hide_nothing(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    foreign(path, 25)
    bare(path, {"txn": {"appId": "else", "version": 1, "lastUpdated": 1}})
    assert ledger.recall(driver.table.current(), driver.app_id, BatchId(0)) == "digest-0"


@pytest.mark.parametrize("metadata", ["[" * 100_000, '{"ledger":3}', "7", "null", "{}"])
def test_what_others_say_in_their_commits_is_nothing_to_the_ledger(
    path: Path, metadata: str
) -> None:
    driver = Driver(path).start()
    driver.process(0)
    bare(path, {"commitInfo": {"timestamp": 1, "operation": "WRITE", "userMetadata": metadata}})
    assert ledger.recall(driver.table.current(), driver.app_id, BatchId(0)) == "digest-0"


def test_what_sparks_writer_said_is_read(path: Path) -> None:
    driver = Driver(path).start()
    said = ledger.format_batch(driver.batch(0), driver.app_id)
    version = ledger.pack(Epoch(1), BatchId(0))
    bare(
        path,
        {"commitInfo": {"timestamp": 1, "operation": "WRITE", "userMetadata": said}},
        {"txn": {"appId": driver.app_id, "version": version, "lastUpdated": 1}},
    )
    assert driver.table.last_written() == written(0)
    assert driver.process(0) is Decision.SKIP


def test_a_batch_that_no_commit_tells_of_is_unknown(path: Path) -> None:
    driver = Driver(path).start()
    for number in range(3):
        driver.process(number)
    found = ledger.recall(driver.table.current(), driver.app_id, BatchId(7))
    assert isinstance(found, Unknown)
    assert "batch 7" in found.reason


@pytest.mark.slow
def test_a_long_history(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    driver.process(1)
    info = json.dumps({"commitInfo": {"timestamp": 1, "operation": "WRITE"}})
    for version in range(3, 1_503):
        (path / "_delta_log" / f"{version:020d}.json").write_text(info)
    table = driver.table.current()
    assert table.version() == 1_502
    assert ledger.read_standing(table, driver.app_id) == SinkPosition(
        epoch=Epoch(1), batch=BatchId(1)
    )
    assert ledger.recall(table, driver.app_id, BatchId(0)) == "digest-0"
    assert driver.process(1) is Decision.SKIP
    assert driver.process(2) is Decision.WRITE


def test_a_table_that_is_gone_is_said(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    shutil.rmtree(path)
    with pytest.raises(SinkRefused, match="a table ü"):
        driver.process(1)


def test_a_table_that_was_replaced_is_not_written_from_memory(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    driver.process(1)
    shutil.rmtree(path)
    Driver(path, "other").start()
    with pytest.raises((SinkRefused, SinkBehind)):
        driver.process(2)
    assert rows(path) == []


def test_a_table_that_was_replaced_by_one_as_long_is_not_written_from_memory(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    shutil.rmtree(path)
    other = Driver(path, "other").start()
    other.process(0)
    other.process(1)
    with pytest.raises(SinkBehind, match="was replaced while the job ran: its ledger has no epoch"):
        driver.process(1)
    assert rows(path) == [(0, "other"), (1, "other")]


@pytest.mark.parametrize("heard", [False, True])
def test_a_commit_that_another_writer_overwrote_is_missed(path: Path, *, heard: bool) -> None:
    """As Spark's writer can on local disk, which looks for the name first and then renames."""
    driver = Driver(path).start()
    driver.process(0)
    driver.process(1)
    if heard:
        assert driver.table.log.head().version == 2
    bare_at(path, 2, {"commitInfo": {"operation": "OPTIMIZE", "timestamp": 1}})
    with pytest.raises(SinkBehind, match="needs batch 1 next, but batch 2 comes"):
        driver.process(2)
    assert driver.process(1) is Decision.WRITE
    assert rows(path) == [(0, "j"), (1, "j")]


def test_a_transaction_that_expired_is_remembered_by_the_history(path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    table = driver.table.current()
    table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 0 hours"})
    assert driver.table.current().transaction_version(driver.app_id) is None
    assert driver.table.last_written() == written(0)
    with pytest.raises(DriverFenced):
        Driver(path, base="/elsewhere").start()
    heir = Driver(path, epoch=2).start()
    assert [heir.process(number) for number in (0, 1)] == [Decision.SKIP, Decision.WRITE]
    with pytest.raises(DriverFenced):
        driver.process(1)
    assert rows(path) == [(0, "j"), (1, "j")]


def test_a_table_put_back_to_an_older_copy_is_noticed(path: Path, tmp_path: Path) -> None:
    driver = Driver(path).start()
    driver.process(0)
    shutil.copytree(path, tmp_path / "copy")
    driver.process(1)
    driver.process(2)
    shutil.rmtree(path)
    (tmp_path / "copy").rename(path)
    with pytest.raises(SinkBehind, match="needs batch 1 next, but batch 3 comes"):
        Driver(path, epoch=2).start().process(3)
    assert Driver(path, epoch=3).start().process(1) is Decision.WRITE


def test_a_listing_that_lacks_a_commit_is_not_waited_for_for_ever(path: Path) -> None:
    Driver(path).start()
    stale = path.with_name("stale")
    shutil.copytree(path, stale)
    deltalake.DeltaTable(path).alter.add_columns([deltalake.Field("more", "string")])  # type: ignore[arg-type]
    listed = DeltaLocation(path=str(stale), options={}, partition_by=(), properties={})
    tail = LogTail(listed, open_store(str(path), {}), "app")
    with pytest.raises(StorageUnavailable, match=r"found nothing after version 0"):
        tail.head()
