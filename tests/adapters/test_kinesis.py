"""Kinesis: the offset log says where a batch begins, and what it read is told by the source."""

import json
import shutil
from pathlib import Path

import pytest
from tests.diagnosing import diagnosed
from tests.golden import Golden, golden
from tests.looking import evidence, rendered

from holdfast import ops
from holdfast.gather.sources import kinesis
from holdfast.model.evidence import BatchDetail
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code
from holdfast.model.offsets import SourceOffset
from holdfast.model.source_offset import Movement
from holdfast.report import verdict


@pytest.fixture
def stream() -> Golden:
    return golden("3.0", "kinesis")


def detail(location: Path, batch: int, after: int | None = None) -> BatchDetail:
    return ops.inspect_batch(str(location), storage={}, event_log=None, batch=batch, after=after)


def moved(found: BatchDetail) -> set[Movement]:
    return {one.change for one in found.sources[0].consumed.partitions}


def test_a_batch_moved_on_exactly_where_spark_counted_rows(stream: Golden) -> None:
    rows = {int(str(one["batchId"])): one["numInputRows"] for one in stream.progress}
    assert set(rows.values()) == {0, 10}
    for batch, count in rows.items():
        changes = moved(detail(stream.checkpoint, batch))
        assert (Movement.UNCHANGED not in changes) == bool(count), batch


def test_two_batches_are_compared_by_where_they_ended(stream: Golden) -> None:
    assert moved(detail(stream.checkpoint, 2, after=0)) == {Movement.ADVANCED}
    assert moved(detail(stream.checkpoint, 1, after=0)) == {Movement.UNCHANGED}
    assert moved(detail(stream.checkpoint, 2, after=2)) == {Movement.UNCHANGED}


def test_the_next_batch_begins_where_the_last_one_ended(stream: Golden) -> None:
    for batch in range(3):
        left = detail(stream.checkpoint, batch).sources[0].left_at
        following = detail(stream.checkpoint, batch + 1).sources[0].raw
        assert isinstance(left, dict)
        assert isinstance(following, dict)
        assert {key: left[key]["iteratorPosition"] for key in left if key != "metadata"} == {
            key: following[key]["iteratorPosition"] for key in following if key != "metadata"
        }


def test_a_pending_batch_has_no_end(stream: Golden, tmp_path: Path) -> None:
    copy = tmp_path / "checkpoint"
    shutil.copytree(stream.checkpoint, copy)
    (copy / "commits" / "3").unlink()
    shutil.rmtree(copy / "sources" / "0" / "shard-commit" / "3")
    found = evidence(copy)
    (source,) = found.sources
    assert {one.end for one in source.consumed.partitions} == {"?"}
    assert {one.change for one in source.consumed.partitions} == {Movement.END_UNKNOWN}
    assert isinstance(source.left_at, Unknown)
    assert verdict.judge(found).text.endswith(
        "from the same start, up to the newest data that Kinesis then has"
    )
    assert all("end unknown" in form for form in rendered(found))
    told = diagnosed(copy)
    pending = next(one for one in told.findings if one.code is Code.PENDING_BATCH)
    assert "because its end is not logged" in pending.text
    assert all(isinstance(one.end, Unknown) for one in told.restart.ranges)
    assert told.restart.ranges[0].start == source.raw


def test_a_new_batch_begins_where_the_last_one_was_left(stream: Golden) -> None:
    told = diagnosed(stream.checkpoint)
    (source,) = evidence(stream.checkpoint).sources
    assert not told.restart.rerun
    assert told.restart.ranges[0].start == source.left_at


def test_what_a_batch_left_is_looked_for_in_its_own_folder_only() -> None:
    def entry(number: object, *shards: str) -> SourceOffset:
        position = {"iteratorType": "AFTER_SEQUENCE_NUMBER", "iteratorPosition": "1"}
        offset = {"metadata": {"streamName": "s", "batchId": number}} | dict.fromkeys(
            shards, position
        )
        return SourceOffset(source="0", offset=json.loads(json.dumps(offset)))

    assert list(kinesis.list_files(entry("7", "shardId-1"))) == [
        "sources/0/shard-commit/7/shardId-1"
    ]
    assert list(kinesis.list_files(entry(7, "shardId-1"))) == ["sources/0/shard-commit/7/shardId-1"]
    for odd in (
        entry("7", "../../../../etc/passwd"),
        entry("../7", "shardId-1"),
        entry("-1", "shardId-1"),
        entry(None, "shardId-1"),
        entry("7", *(f"shardId-{number}" for number in range(501))),
    ):
        assert not kinesis.list_files(odd)
