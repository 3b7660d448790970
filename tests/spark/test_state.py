"""Rows of state, through real Spark, from checkpoints that it wrote and that stay untouched."""

import json
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.golden import GOLDEN, Golden
from tests.looking import stamps

from holdfast.errors import StateUnreadable
from holdfast.gather import looking, tree
from holdfast.gather import state as states
from holdfast.run import state

pytestmark = pytest.mark.spark
_OF_THIS_LINE = [one for one in GOLDEN if one.version.startswith("4.1.")]


def rows(
    spark: SparkSession,
    place: Path,
    *,
    operator: int = 0,
    batch: int | None = None,
    changes: tuple[int, int] | None = None,
) -> tuple[state.Row, ...]:
    """The rows of an operator."""
    found = looking.checkpoint_at(str(place), {})
    listed = tree.folded(found.place.reader, found.top, lambda _: None)
    seen = states.seen(found.place.reader, listed, {}).operators[operator]
    wanted = state.Wanted(operator=operator, batch=batch, changes=changes, limit=1000)
    return state.rows(found.place.reader, found.top, seen, wanted, spark)


def scenario(name: str) -> Golden:
    (found,) = [one for one in _OF_THIS_LINE if one.scenario == name]
    return found


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("aggregate-rocksdb", 6),
        ("aggregate-hdfs", 6),
        ("dedup-changelog", 3),
        ("session-window-hdfs", 3),
    ],
)
def test_as_many_rows_as_spark_counted(spark: SparkSession, name: str, count: int) -> None:
    golden = scenario(name)
    before = stamps(golden.checkpoint)
    found = rows(spark, golden.checkpoint)
    assert stamps(golden.checkpoint) == before
    assert len(found) == count
    assert all(isinstance(json.loads(row.key), dict) for row in found)
    assert {row.part for row in found} == {""}


def test_a_join_by_sides(spark: SparkSession) -> None:
    golden = scenario("join-inner-hdfs")
    before = stamps(golden.checkpoint)
    found = rows(spark, golden.checkpoint)
    assert stamps(golden.checkpoint) == before
    assert {row.part for row in found} == {"left", "right"}
    assert len(found) == 12


def test_state_variables_of_a_checkpoint_that_was_moved(
    spark: SparkSession, tmp_path: Path
) -> None:
    moved = tmp_path / "moved here"
    shutil.copytree(scenario("tws-rows-changelog").checkpoint, moved)
    before = stamps(moved)
    found = rows(spark, moved)
    assert stamps(moved) == before
    assert len({row.part for row in found}) > 1


def test_an_earlier_batch_and_what_changed(spark: SparkSession) -> None:
    golden = scenario("aggregate-hdfs")
    assert len(rows(spark, golden.checkpoint, batch=0)) < len(rows(spark, golden.checkpoint))
    changed = rows(spark, golden.checkpoint, changes=(0, 2))
    assert {row.batch for row in changed} <= {0, 1, 2}
    assert {row.change for row in changed} <= {"update", "delete"}
    assert changed


def test_what_is_not_there_is_said_in_spark_s_words(spark: SparkSession) -> None:
    with pytest.raises(StateUnreadable, match="BATCH"):
        rows(spark, scenario("aggregate-hdfs").checkpoint, batch=4711)
