"""A RESTORE takes rows back and leaves the ledger as it is: noticed at start and while running."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import deltalake
import pytest
from tests.adapters.delta_driving import Driver, bare, foreign, rows, written

from holdfast.errors import SinkBehind
from holdfast.model.batch import NothingWritten
from holdfast.model.ids import BatchId, Epoch
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with the batches 0 and 1 of a driver."""
    driver = Driver(tmp_path / "a table ü").start()
    driver.process(0)
    driver.process(1)
    return tmp_path / "a table ü"


def restore(path: Path, version: int = 1) -> None:
    deltalake.DeltaTable(path).restore(version)


def test_a_restore_takes_rows_and_leaves_the_ledger(path: Path) -> None:
    restore(path)
    assert rows(path) == [(0, "j")]
    assert Driver(path).table.last_written() == written(1, taken_back=True)


@pytest.mark.parametrize("commits", [1, 30])
def test_a_restore_is_found_behind_foreign_commits(path: Path, commits: int) -> None:
    restore(path)
    foreign(path, commits)
    assert Driver(path).table.last_written() == written(1, taken_back=True)


def test_a_restore_before_the_last_batch_is_history(path: Path) -> None:
    """The driver that started after it was told, and went on because the user accepted it."""
    restore(path)
    second = Driver(path, epoch=2)
    second.life = replace(second.life, gap_before=BatchId(2))
    second.start()
    assert second.table.last_written() == written(1, epoch=2)
    assert second.process(2) is Decision.WRITE
    assert second.table.last_written() == written(2, epoch=2)


def commit_as_spark(path: Path, driver: Driver, number: int, **said: int) -> None:
    """A batch by a writer that cannot be told after which version to commit."""
    text = ledger.format_batch(driver.batch(number), driver.app_id, **said)
    version = ledger.pack(driver.life.epoch, BatchId(number))
    bare(
        path,
        {"commitInfo": {"timestamp": 1, "operation": "WRITE", "userMetadata": text}},
        {"txn": {"appId": driver.app_id, "version": version, "lastUpdated": 1}},
    )


@pytest.mark.parametrize("commits", [0, 2])
def test_a_restore_just_before_the_fence_is_not_hidden_by_it(path: Path, commits: int) -> None:
    restore(path)
    foreign(path, commits)
    version = deltalake.DeltaTable(path).version()
    with pytest.raises(SinkBehind, match="after batch 1 was written"):
        Driver(path, epoch=2).start()
    assert deltalake.DeltaTable(path).version() == version


@pytest.mark.parametrize("commits", [0, 30])
def test_a_restore_just_before_a_commit_by_spark_is_found(path: Path, commits: int) -> None:
    driver = Driver(path)
    seen = deltalake.DeltaTable(path).version()
    restore(path)
    foreign(path, commits)
    commit_as_spark(path, driver, 2, decided_on=seen)
    assert driver.table.last_written() == written(2, taken_back=True)
    with pytest.raises(SinkBehind):
        driver.table.log.head()


def test_a_restore_that_the_driver_knew_of_is_history(path: Path) -> None:
    driver = Driver(path)
    restore(path)
    commit_as_spark(path, driver, 2, decided_on=deltalake.DeltaTable(path).version())
    assert driver.table.last_written() == written(2)


def test_an_entry_of_an_earlier_version_says_no_more_than_before(path: Path) -> None:
    driver = Driver(path)
    restore(path)
    commit_as_spark(path, driver, 2)
    assert driver.table.last_written() == written(2)


def test_a_restore_is_every_jobs_own_matter(path: Path) -> None:
    restore(path)
    other = Driver(path, "other").start()
    assert other.table.last_written() == NothingWritten(epoch=Epoch(1), location="/base/other")
    other.process(0)
    assert Driver(path).table.last_written() == written(1, taken_back=True)


def after_a_batch(driver: Driver) -> None:
    driver.process(2)


def after_a_start(driver: Driver) -> None:
    driver.table.log.head()


def after_a_skip(driver: Driver) -> None:
    assert driver.process(1) is Decision.SKIP


def before_the_first_look(_: Driver) -> None:
    pass


MOMENTS = [
    after_a_batch,
    after_a_start,
    after_a_skip,
    before_the_first_look,
]


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_restore_while_the_job_runs(path: Path, moment: Callable[[Driver], None]) -> None:
    driver = Driver(path, epoch=2).start()
    moment(driver)
    restore(path)
    with pytest.raises(SinkBehind, match="restored to an earlier version"):
        driver.table.log.head()


def test_a_restore_while_the_batchs_files_are_written(path: Path) -> None:
    driver = Driver(path, epoch=2).start()
    driver.process(2)
    seen = driver.table.log.head()
    restore(path)
    with pytest.raises(SinkBehind):
        driver.write(3, at=seen)


def test_a_restore_among_foreign_commits_while_the_job_runs(path: Path) -> None:
    driver = Driver(path, epoch=2).start()
    driver.process(2)
    foreign(path, 2)
    restore(path)
    foreign(path, 2)
    with pytest.raises(SinkBehind, match="a table ü"):
        driver.process(3)
    assert rows(path) == [(0, "j")]


def test_what_others_commit_while_the_job_runs_is_no_restore(path: Path) -> None:
    driver = Driver(path, epoch=2).start()
    for number in (2, 3):
        foreign(path, 3)
        deltalake.DeltaTable(path).optimize.compact()
        assert driver.process(number) is Decision.WRITE
    assert rows(path) == [(number, "j") for number in range(4)]


def test_a_restore_after_the_tables_metadata_changed(path: Path) -> None:
    driver = Driver(path, epoch=2).start()
    driver.process(2)
    deltalake.DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    restore(path, 3)
    with pytest.raises(SinkBehind):
        driver.table.log.head()


def test_a_restore_by_a_writer_that_names_the_metadata_first(path: Path) -> None:
    """The order of actions in a commit is the writer's choice."""
    driver = Driver(path, epoch=2).start()
    driver.process(2)
    first = (path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    metadata = next(json.loads(line) for line in first if "metaData" in line)
    bare(path, metadata, {"commitInfo": {"timestamp": 1, "operation": "RESTORE"}})
    with pytest.raises(SinkBehind):
        driver.table.log.head()
