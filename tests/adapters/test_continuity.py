"""At a start: the sink's last batch beside what the offset log says of it now; without Spark."""

import json
import re
from dataclasses import replace
from pathlib import Path

import deltalake
import pytest
from tests import checkpoint_files as files
from tests.adapters.delta_driving import Driver, offset
from tests.adapters.test_offset_reader import LIFE, Tree

from holdfast.errors import BatchChanged, BatchNotContinuous, HoldfastError
from holdfast.model.batch import EndOffsets, WrittenBatch
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch
from holdfast.model.json import Json
from holdfast.run.start.continuity import find_break
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import ledger
from holdfast.storage import open_store

GONE = Unknown(reason="the log was cleaned")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def wrote(tree: Tree, number: int) -> WrittenBatch:
    """What a sink remembers that wrote the batch as it is in the log."""
    batch = tree.batch(number)
    return WrittenBatch(
        epoch=Epoch(1), batch=BatchId(number), digest=batch.digest, location=LIFE.location,
        taken_back=False, offsets=batch.offsets,
    )  # fmt: skip


def found(tree: Tree, last: WrittenBatch, done: int | None) -> HoldfastError | None:
    return find_break(tree.store, LIFE, last, None if done is None else BatchId(done))


def kafka(tree: Tree, *ends: int) -> None:
    for number, end in enumerate(ends):
        tree.offsets(number, {"t": {"0": end}})


def test_a_log_that_agrees(tree: Tree) -> None:
    kafka(tree, 5, 10)
    last = wrote(tree, 1)
    for done in (0, 1):
        assert found(tree, last, done) is None
        assert found(tree, replace(last, offsets=GONE), done) is None
        assert found(tree, replace(last, digest=GONE), done) is None


@pytest.mark.parametrize("end", [9, 11])
def test_an_end_that_moved(tree: Tree, end: int) -> None:
    kafka(tree, 5, 10)
    last = wrote(tree, 1)
    kafka(tree, 5, end)
    for done in (0, 1):
        assert isinstance(found(tree, last, done), BatchNotContinuous)
    assert isinstance(found(tree, replace(last, offsets=GONE), 1), BatchNotContinuous)
    assert isinstance(found(tree, replace(last, offsets=GONE), 0), BatchChanged)
    assert found(tree, replace(last, offsets=GONE, digest=GONE), 1) is None


def test_a_start_counts_only_for_a_batch_that_runs_again(tree: Tree) -> None:
    kafka(tree, 5, 10)
    last = wrote(tree, 1)
    kafka(tree, 4, 10)
    assert found(tree, last, 1) is None
    assert isinstance(found(tree, last, 0), BatchChanged)


def test_files_of_a_batch_that_another_driver_listed(tree: Tree) -> None:
    """The late write of a dead driver to the log of the source; the offset is the same."""
    tree.taken(0, "a")
    tree.taken(1, "b", "c")
    for number in range(2):
        tree.offsets(number, {"logOffset": number})
    last = wrote(tree, 1)
    tree.taken(1, "b")
    said = found(tree, last, 1)
    assert isinstance(said, BatchNotContinuous)
    assert "the offsets or the files of batch 1" in said.message


def test_a_batch_that_is_not_in_the_log(tree: Tree) -> None:
    """A checkpoint that was rewound, or is new: other rules judge that."""
    kafka(tree, 5, 10)
    last = wrote(tree, 1)
    assert found(tree, replace(last, batch=BatchId(7)), 1) is None


def test_a_source_without_an_offset_that_begins_later(tree: Tree) -> None:
    tree.offsets(0, {"t": {"0": 5}}, "-")
    last = wrote(tree, 0)
    assert found(tree, last, 0) is None
    tree.offsets(1, {"t": {"0": 6}}, {"u": {"0": 3}})
    assert tree.batch(1).begins == {"0": {"t": {"0": 5}}}
    tree.offsets(0, {"t": {"0": 5}}, {"u": {"0": 1}})
    assert isinstance(found(tree, last, 0), BatchNotContinuous)


@pytest.mark.parametrize("then", [{"t": {"0": 9, "1": 4}}, {"t": {"0": 9}}, {"u": {"0": 2}}])
def test_partitions_and_topics_that_come_and_go(tree: Tree, then: Json) -> None:
    """The next batch has others; it begins where the one before it ended all the same."""
    tree.offsets(0, {"t": {"0": 5, "2": 8}})
    tree.offsets(1, then)
    last = wrote(tree, 0)
    assert found(tree, last, 0) is None
    ended: EndOffsets = {"0": {"t": {"0": 5, "2": 8}}}
    assert tree.batch(1).begins == ended


# The ledger in a Delta table.


def last_of(path: Path, driver: Driver) -> WrittenBatch:
    last = ledger.read_last_written(deltalake.DeltaTable(path), driver.app_id)
    assert isinstance(last, WrittenBatch)
    return last


def test_a_start_carries_on_where_the_last_batch_ended(tmp_path: Path) -> None:
    first = Driver(tmp_path).start()
    for number in range(3):
        assert first.process(number) is Decision.WRITE
    second = Driver(tmp_path, epoch=2).start()
    ranges = [{"source": "0", "start": offset(2), "end": offset(3)}]
    assert last_of(tmp_path, second).offsets == ranges
    commits = sorted((tmp_path / "_delta_log").glob("*.json"))
    for commit in commits[:-1]:  # the log is cleaned behind the start
        assert "carried" not in commit.read_text()
    assert "carried" in commits[-1].read_text()
    with pytest.raises(BatchNotContinuous):
        second.table.decide(second.table.log.head().standing, second.batch(3, begins={"0": 31}))
    assert second.process(3) is Decision.WRITE
    third = Driver(tmp_path, epoch=3).start()
    assert third.process(3) is Decision.SKIP
    assert third.process(4) is Decision.WRITE


def test_the_start_of_an_earlier_version_carries_on_less(tmp_path: Path) -> None:
    """Then the commit of the batch says where it ended, while it is there."""
    first = Driver(tmp_path).start()
    assert first.process(0) is Decision.WRITE
    Driver(tmp_path, epoch=2).start()
    newest = max((tmp_path / "_delta_log").glob("*.json"))
    newest.write_text(re.sub(r',?\\"carried\\":\[[^]]*\]', "", newest.read_text()))
    assert "carried" not in newest.read_text()
    third = Driver(tmp_path, epoch=3).start()
    assert last_of(tmp_path, third).offsets == first.batch(0).offsets
    with pytest.raises(BatchNotContinuous):
        third.table.decide(third.table.log.head().standing, third.batch(1, begins={"0": 3}))
    assert third.process(1) is Decision.WRITE


def test_a_tail_that_is_followed_knows_where_the_last_batch_ended(tmp_path: Path) -> None:
    """Commits of another driver of the job, read one by one as the log grows."""
    first = Driver(tmp_path).start()
    assert first.process(0) is Decision.WRITE
    other = Driver(tmp_path, epoch=2)
    assert other.table.log.head().standing.ended == {"0": offset(1)}
    other.start()
    assert other.table.log.head().standing.ended == {"0": offset(1)}
    assert Driver(tmp_path, epoch=2).process(1) is Decision.WRITE
    assert other.table.log.head().standing.ended == {"0": offset(2)}


def test_a_table_behind_a_checkpoint_of_the_same_job(tmp_path: Path) -> None:
    """What the fake driver writes and what the fake checkpoint says is the same, as it is."""
    location = files.write(tmp_path / "base/j")
    driver = Driver(tmp_path / "table").start()
    for number in range(3):
        driver.process(number)
    last = last_of(tmp_path / "table", driver)
    store = open_store(str(location.parent))
    assert find_break(store, driver.life, replace(last, digest=GONE), BatchId(2)) is None
    entry = location / "offsets/2"
    entry.write_text(entry.read_text().replace(json.dumps(30), "29"))
    assert isinstance(find_break(store, driver.life, last, BatchId(2)), BatchNotContinuous)
    assert Digest("digest-2") == last.digest
