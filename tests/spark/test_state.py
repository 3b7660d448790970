"""Rows of state, through real Spark, from checkpoints that it wrote and that stay untouched."""

import json
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.golden import GOLDEN, Golden
from tests.looking import stamps

from holdfast.errors import StateUnreadable
from holdfast.gather.history.query_facts import History
from holdfast.gather.inventory import snapshot, tree
from holdfast.gather.locate import resolve
from holdfast.gather.logs import tail
from holdfast.gather.state import operators as states
from holdfast.gather.state import readable_batches, stores
from holdfast.model.state import OperatorEvidence
from holdfast.run import state, state_copy

pytestmark = pytest.mark.spark
_OF_THIS_LINE = [one for one in GOLDEN if one.version.startswith("4.1.")]


def looked(
    place: Path,
) -> tuple[resolve.Checkpoint, tree.CheckpointTree, tuple[OperatorEvidence, ...]]:
    """A checkpoint, what its names say, and its operators."""
    found = resolve.find_checkpoint(str(place), {})
    listed = snapshot.take(found.place.reader, found.top)
    logged = stores.make_logged_state(listed, tail.read(found.place.reader, listed), History())
    return found, listed, states.read(found.place.reader, listed, logged).operators


def read(
    spark: SparkSession,
    place: Path,
    *,
    operator: int = 0,
    batch: int | None = None,
    changes: tuple[int, int] | None = None,
    limit: int = 1000,
) -> state.StateRows:
    """What Spark reads of an operator."""
    found, listed, operators = looked(place)
    last = listed.commits.ids.last or 0
    wanted = state.StateQuery(
        operator=operator,
        batch=last if batch is None else batch,
        changes=changes,
        limit=limit,
        unique_ids=any(unique for _, unique in listed.kinds_of_state),
    )
    with state_copy.copy_checkpoint(found.place.reader, found.top, operator) as copy:
        return state.read(copy, operators[operator], wanted, spark)


def rows(
    spark: SparkSession,
    place: Path,
    *,
    batch: int | None = None,
    changes: tuple[int, int] | None = None,
) -> tuple[state.StateRow, ...]:
    """The rows of the first operator, all of them."""
    found = read(spark, place, batch=batch, changes=changes)
    assert not found.is_cut
    return found.rows


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
        ("checkpoint-format-2-changelog", 6),
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


def test_times_are_those_of_utc_and_say_so(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        found = rows(spark, scenario("aggregate-hdfs").checkpoint)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert {json.loads(row.key)["window"]["start"] for row in found} == {
        "2026-01-01 00:20:00+00:00",
        "2026-01-01 00:30:00+00:00",
    }


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


def test_more_rows_than_wanted_are_told(spark: SparkSession) -> None:
    golden = scenario("join-inner-hdfs")
    counts = Counter(row.part for row in rows(spark, golden.checkpoint))
    most, fewest = max(counts.values()), min(counts.values())
    whole = read(spark, golden.checkpoint, limit=most)
    cut = read(spark, golden.checkpoint, limit=most - 1)
    assert (len(whole.rows), whole.is_cut) == (12, False)
    assert (len(cut.rows), cut.is_cut) == (most - 1 + min(fewest, most - 1), True)


@pytest.mark.prove
@pytest.mark.parametrize(
    "name",
    [
        "aggregate-changelog",
        "aggregate-rocksdb",
        "apply-in-pandas-hdfs",
        "checkpoint-format-2-changelog",
        "checkpoint-format-2-rocksdb",
        "checkpoint-format-2-tws",
        "join-inner-format-3-changelog",
        "join-inner-hdfs",
        "limit-changelog",
        "purged-hdfs",
        "purged-rocksdb",
        "snapshots-changelog",
        "snapshots-hdfs",
        "tws-rows-changelog",
    ],
)
def test_what_is_refused_without_spark_is_what_spark_cannot_read(
    spark: SparkSession, name: str
) -> None:
    """Of the committed batches: rows after each, and the changes of each."""
    place = scenario(name).checkpoint
    _, listed, operators = looked(place)
    committed = range((listed.commits.ids.last or 0) + 1)
    assert operators
    for batch in committed:
        for changes in (None, (batch, batch)):
            asked = readable_batches.StateRequest(
                location="", operator=0, batch=batch, changes=changes
            )
            expected = _answers(lambda: readable_batches.choose_batch(asked, listed, operators[0]))  # noqa: B023
            found = _answers(lambda: read(spark, place, batch=batch, changes=changes))  # noqa: B023
            assert found == expected, (batch, changes)


_DAMAGEABLE = (
    "aggregate-rocksdb",
    "checkpoint-format-2-changelog",
    "checkpoint-format-2-rocksdb",
    "join-inner-hdfs",
    "purged-hdfs",
    "purged-rocksdb",
    "snapshots-changelog",
    "snapshots-hdfs",
    "tws-rows-changelog",
)
_FILE = re.compile(r"(offsets|commits)/\d+|state/.*\.(delta|snapshot|zip|changelog|sst|log)")


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(24))
def test_a_batch_is_restorable_if_spark_reads_it_also_after_damage(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    place = tmp_path / "c"
    shutil.copytree(scenario(chance.choice(_DAMAGEABLE)).checkpoint, place)
    inside = {str(one.relative_to(place)): one for one in place.rglob("*") if one.is_file()}
    for path in chance.sample([one for one in inside if _FILE.fullmatch(one)], 2):
        for checksum in (f".{inside[path].name}.crc", f"{inside[path].name}.crc"):
            inside[path].with_name(checksum).unlink(missing_ok=True)
        if path.startswith("state/") and chance.random() < 0.3:
            inside[path].write_bytes(b"")
        else:
            inside[path].unlink()
    _, listed, operators = looked(place)
    for batch in range((listed.commits.ids.last or 0) + 2):
        restorable = operators[0].restorable
        assert isinstance(restorable, tuple)
        expected = any(one.first <= batch <= one.last for one in restorable)
        found = _answers(lambda: read(spark, place, batch=batch))  # noqa: B023
        assert found == expected, batch


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except StateUnreadable:
        return False
    return True
