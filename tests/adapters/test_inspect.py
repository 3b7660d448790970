"""What is said of a checkpoint on disk: the nine facts, the batches, and what is wrong with it."""

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.golden import golden
from tests.looking import evidence, rendered, stamps

from holdfast import ops
from holdfast.errors import (
    HoldfastError,
    LocationEmpty,
    LocationForbidden,
    LocationMissing,
    NotACheckpoint,
    StorageUnavailable,
)
from holdfast.gather.inventory import snapshot
from holdfast.gather.logs import tail
from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import BatchStatus, Checkpoints, RestartSign
from holdfast.model.fact import Absent, Known, Unknown, UnreadableFile
from holdfast.model.ids import Span
from holdfast.model.source_offset import Movement
from holdfast.model.verdict import Level
from holdfast.report import verdict


def test_the_nine_facts_of_a_checkpoint_that_nothing_else_tells_of(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders")
    found = evidence(location)
    assert found.location == Known(value=str(location), read_from=(str(location),))
    assert found.query_id == Known(value=files.QUERY_ID, read_from=("metadata",))
    assert isinstance(found.source_offsets, Known)
    assert found.source_offsets.read_from == ("offsets/2",)
    assert isinstance(found.sink, Unknown)
    assert isinstance(found.output_mode, Unknown)
    assert isinstance(found.stateful_operators, Absent)
    assert isinstance(found.state_store_provider, Known)
    assert found.state_store_provider.read_from == ("offsets/2",)
    assert isinstance(found.spark_version, Known)
    assert found.spark_version.inferred
    assert isinstance(found.restart_history, Known)
    assert (found.restart_history.value, bool(found.restart_history.inferred)) == ((), True)
    (source,) = found.sources
    assert (source.kind, source.other_kinds, source.raw) == (
        "Kafka",
        ("Event Hubs",),
        {"orders": {"0": 30, "1": 30}},
    )
    assert (source.consumed.total, source.consumed.unit) == (20, "offsets")
    assert [(one.batch, one.standing) for one in found.timeline] == [
        (n, BatchStatus.YES) for n in range(3)
    ]
    assert [one.records for one in found.timeline][1:] == [20, 20]
    # Kafka may have begun anywhere: what the first batch consumed is not in the offset log.
    assert isinstance(found.timeline[0].records, Unknown)
    assert verdict.judge(found).level is Level.GOOD


@pytest.mark.parametrize(
    ("planned", "committed", "level", "said"),
    [
        (
            0,
            0,
            Level.GOOD,
            "no batch is planned: the query has not run yet, or its logs were deleted",
        ),
        (3, 3, Level.GOOD, "idle: batch 2 is committed"),
        (3, 2, Level.CAREFUL, "batch 2 is planned but not committed"),
        (5, 2, Level.CAREFUL, "a restart runs only batch 4"),
        (3, 0, Level.CAREFUL, "the commits were not copied, or were deleted"),
        (1, 0, Level.CAREFUL, "batch 0 is planned but not committed"),
        (2, 4, Level.BAD, "the offset log ends at batch 1"),
        (0, 2, Level.BAD, "the offset log is empty"),
    ],
)
def test_the_verdict_by_the_two_logs(
    tmp_path: Path, planned: int, committed: int, level: Level, said: str
) -> None:
    found = evidence(files.write(tmp_path / "c", planned=planned, committed=committed))
    assert verdict.judge(found).level is level
    assert said in verdict.judge(found).text
    assert list(found.batches.pending) == list(range(committed, planned))
    rendered(found)


def test_the_offset_entry_before_the_last_is_needed(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=5, committed=5)
    (location / "offsets/3").unlink()
    found = evidence(location)
    assert verdict.judge(found).level is Level.BAD
    assert found.batches.offset_spans == (Span(first=0, last=2), Span(first=4, last=4))


def test_logs_are_in_the_order_of_numbers_and_may_start_above_zero(tmp_path: Path) -> None:
    found = evidence(files.write(tmp_path / "c", first=95, planned=203, committed=203))
    assert (found.batches.first, found.batches.last_planned) == (95, 202)
    assert [one.batch for one in found.timeline][:1] == [101]
    assert isinstance(found.timeline[0].records, Unknown)


def test_only_the_tail_of_a_long_log_is_read(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=400, committed=400)
    for batch in range(250):
        (location / f"offsets/{batch}").write_text("damaged")
    assert evidence(location).unreadable == ()


@pytest.mark.parametrize(
    ("name", "data", "level", "reason"),
    [
        ("metadata", b"", Level.BAD, "empty"),
        ("metadata", b"\xff\xfe", Level.BAD, "not UTF-8"),
        ("offsets/2", b"", Level.BAD, "empty"),
        ("offsets/2", b"v9\n{}\n{}", Level.BAD, "version 9"),
        ("offsets/2", b'v1\n{"batchWater', Level.BAD, ""),
        ("commits/2", b"\0\0", Level.BAD, ""),
        ("offsets/0", b"v1", Level.CAREFUL, ""),
        ("commits/0", b"nonsense", Level.CAREFUL, ""),
    ],
)
def test_a_damaged_entry_is_evidence(
    tmp_path: Path, name: str, data: bytes, level: Level, reason: str
) -> None:
    location = files.write(tmp_path / "c")
    (location / name).write_bytes(data)
    found = evidence(location)
    assert [one.path for one in found.unreadable] == [name]
    assert reason in found.unreadable[0].reason
    assert verdict.judge(found).level is level
    rendered(found)


def test_a_gigabyte_in_one_line_is_not_read(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    with (location / "offsets/2").open("r+b") as file:
        file.truncate(1 << 30)
    found = evidence(location)
    assert isinstance(found.source_offsets, UnreadableFile)
    assert found.source_offsets.reason == (
        f"1,073,741,824 bytes, more than the limit of {tail.MOST_BYTES:,}"
    )
    rendered(found)


def test_a_metadata_file_that_is_missing_is_said(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    (location / "metadata").unlink()
    found = evidence(location)
    assert isinstance(found.query_id, Absent)
    # Spark 2.3, which such settings are of, goes on under another id; 4.2 does not.
    assert verdict.judge(found).level is Level.CAREFUL
    assert "no file `metadata`" in verdict.judge(found).text
    newest = shutil.copytree(golden("4.2", "aggregate-hdfs").checkpoint, tmp_path / "d")
    (newest / "metadata").unlink()
    shown = verdict.judge(evidence(newest))
    assert shown.level is Level.BAD
    assert shown.text.startswith(
        "idle: batch 5 is committed, nothing is pending; but a restart with Spark 4.2 fails before"
        " it writes anything: "
    )


@pytest.mark.parametrize(
    ("damage", "unreadable", "said"),
    [
        (
            "sources/0/3",
            ["sources/0/3"],
            "a restart with Spark 4.2 fails before it writes anything",
        ),
        ("sources", [], "the log of source 0 ends at -1, but `offsets/5` is at 3"),
        ("state/0/1", [], "version 6 of the state cannot be loaded from `state/0/1`"),
        (
            "state/0/0/3.delta",
            ["state/0/0/3.delta"],
            "while it writes to the sink",
        ),
    ],
)
def test_a_checkpoint_that_a_start_fails_on_is_not_called_healthy(
    tmp_path: Path, damage: str, unreadable: list[str], said: str
) -> None:
    location = shutil.copytree(golden("4.2", "aggregate-hdfs").checkpoint, tmp_path / "c")
    damaged = location / damage
    if damaged.is_dir():
        shutil.rmtree(damaged)
    else:
        damaged.write_bytes(b"")
    found = evidence(location)
    shown = verdict.judge(found)
    assert shown.level is Level.BAD
    assert said in shown.text
    assert [one.path for one in found.unreadable] == unreadable


def test_what_is_newer_than_the_entry_that_tells_the_version_is_said(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    (location / "offsets/2").write_bytes(b"v9\n{}\n{}")
    found = evidence(location).spark_version
    assert isinstance(found, Known)
    assert found.inferred.endswith("`offsets/2`, which is newer, cannot be read")


def test_after_the_largest_id_there_is_none(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    largest = (1 << 63) - 1
    for number in (largest, largest + 1):
        files.offsets(location, 2, 1)
        (location / "offsets/2").rename(location / f"offsets/{number}")
    found = evidence(location)
    assert found.batches.last_planned == largest
    assert found.foreign == (f"offsets/{largest + 1}",)


def test_reasons_are_those_of_what_is_there(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    for name in ("offsets", "commits"):
        (empty / name).mkdir(parents=True)
    committed = files.write(tmp_path / "committed", planned=0, committed=1)
    (committed / "metadata").unlink()
    first, later = evidence(empty), evidence(committed)
    assert first.query_id == Absent(
        reason="no file `metadata`: Spark gives the query an id when it first starts"
    )
    assert later.query_id == Absent(
        reason="no file `metadata`: Spark gives the query a new id, and from 4.2 on"
        " does not start it"
    )
    assert first.source_offsets == Absent(
        reason="the offset log is empty: no batch is planned, or the entries were deleted"
    )
    assert later.source_offsets == Absent(reason="the offset log is empty")


def test_the_output_mode_is_read_from_the_operator_that_keeps_it(tmp_path: Path) -> None:
    location = shutil.copytree(golden("4.3", "tws-rows-changelog").checkpoint, tmp_path / "c")
    other = golden("4.3", "aggregate-hdfs").checkpoint / "state/0"
    shutil.copytree(other, location / "state/1")
    found = evidence(location).output_mode
    assert isinstance(found, Known)
    assert (found.value, found.read_from) == ("update", ("state/0/_metadata/v2/3",))


def test_ids_beyond_64_bits_and_strange_names_are_not_spark_s(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    for name in (f"offsets/{1 << 70}", "offsets/007", "offsets/.DS_Store", "notes.txt"):
        (location / name).write_text("?")
    (location / os.fsdecode(b"caf\xe9")).write_text("?")
    found = evidence(location)
    assert found.batches.last_planned == 2
    assert len(found.foreign) == 5
    assert len(rendered(found)) == 4


@pytest.mark.parametrize("name", ["a b", "100%", "a%20b", "a#b", "日本", "a?b", "a:b", "[x]"])
def test_any_location_can_be_named(tmp_path: Path, name: str) -> None:
    location = files.write(tmp_path / name / "c")
    for spelled in (str(location), f"file://{location}", f"file:{location}", f"{location}/"):
        assert evidence(spelled).location.value == str(location)


def test_not_a_byte_and_not_a_time_stamp_changes(tmp_path: Path) -> None:
    location = files.write(tmp_path / "base/c")
    files.state(location, range(1, 4))
    records = tmp_path / "base/.holdfast/c/runs/1767225600000-run"
    records.mkdir(parents=True)
    (records / "000000.jsonl").write_text('{"event":"started","at_ms":1,"query_id":"x"}\n')
    for folder, _, names in os.walk(tmp_path):
        for name in (*names, "."):
            os.utime(Path(folder) / name, ns=(1, 2_000_000_000))
    before = stamps(tmp_path)
    rendered(evidence(location))
    ops.inspect_batch(str(location), storage={}, event_log=None, batch=2, after=None)
    ops.inspect(str(tmp_path), storage={}, event_log=None, now_ms=1, on_progress=lambda *_: None)
    assert stamps(tmp_path) == before


def test_state_tells_what_can_be_restored(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=20, committed=20)
    files.state(location, range(8, 21))
    for partition in range(2):
        (location / f"state/0/{partition}/10.snapshot").write_bytes(b"s" * 100)
    (location / "state/0/1/20.delta").unlink()
    found = evidence(location)
    (operator,) = found.operators
    assert (operator.partitions, operator.latest_version, operator.oldest_batch) == (2, 20, 9)
    assert [one.latest_version for one in operator.stores] == [20, 19]
    assert operator.stores[0].restorable == (Span(first=10, last=20),)
    assert operator.stores[0].snapshots == (Span(first=10, last=10),)
    assert operator.bytes == 25 * 46 + 200
    assert found.files[FileKind.STATE_DELTA].count == 25
    assert isinstance(found.stateful_operators, Known)
    assert found.stateful_operators.value == ("operator 0",)


def test_state_without_a_snapshot_cannot_be_restored(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=20, committed=20)
    files.state(location, range(8, 21))
    (operator,) = evidence(location).operators
    assert (operator.restorable, operator.oldest_batch) == ((), None)


def test_a_join_is_told_by_its_stores(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    for store in ("left-keyToNumValues", "left-keyWithIndexToValue"):
        (location / f"state/0/0/{store}").mkdir(parents=True)
        (location / f"state/0/0/{store}/1.delta").write_bytes(b"x")
    fact = evidence(location).stateful_operators
    assert isinstance(fact, Known)
    assert fact.value == ("symmetricHashJoin",)
    assert "stream-stream join" in fact.inferred


def test_signs_of_restarts(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=10, committed=10)
    later = 1_767_225_600_000 + 7_200_000
    changed = {**files.SETTINGS, "spark.sql.streaming.multipleWatermarkPolicy": "min"}
    for batch in range(5, 10):
        files.offsets(location, batch, later + batch * 1000, changed if batch > 6 else None)
    fact = evidence(location).restart_history
    assert isinstance(fact, Known)
    assert [(s.sign, s.first_batch, s.read_from) for s in fact.value] == [
        (RestartSign.PAUSE, 5, "offsets/5"),
        (RestartSign.SETTINGS_CHANGED, 7, "offsets/7"),
    ]


def test_an_entry_with_a_time_and_no_settings_is_of_the_oldest_spark(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    for batch in range(3):
        files.offsets(location, batch, 1_767_225_600_000, {})
    for commit in (location / "commits").iterdir():
        commit.write_text("v1\n{}")
    found = evidence(location).spark_version
    assert isinstance(found, Known)
    assert found.value == "2.1"
    assert "no setting is pinned" in found.inferred


def test_run_records_tell_sink_mode_version_and_restarts(tmp_path: Path) -> None:
    location = files.write(tmp_path / "base/c")
    for number in range(2):
        folder = tmp_path / f"base/.holdfast/c/runs/176722560000{number}-run-{number}"
        folder.mkdir(parents=True)
        started = {
            "event": "started",
            "at_ms": 1_767_225_600_000 + number,
            "query_id": files.QUERY_ID,
            "run_id": f"run-{number}",
            "name": "c",
            "spark_version": f"4.1.{number}",
            "location": str(location),
            "sink": "ForeachBatchSink",
            "output_mode": "append",
            "sources": ["KafkaV2[Subscribe[orders]]"],
            "configuration": {},
        }
        (folder / "000000.jsonl").write_text(json.dumps(started) + "\n")
        ended = {"event": "terminated", "at_ms": 1_767_225_700_000 + number, "error": None}
        progress_ = {"event": "progress", "at_ms": 1, "batch": number, "rows": 7, "sources": []}
        (folder / "000001.jsonl").write_text(f"{json.dumps(progress_)}\n{json.dumps(ended)}\n")
    found = evidence(location)
    newest = ".holdfast/c/runs/1767225600001-run-1/000000.jsonl"
    assert found.sink == Known(value="ForeachBatchSink", read_from=(newest,))
    assert found.output_mode == Known(value="append", read_from=(newest,))
    assert found.spark_version == Known(value="4.1.1", read_from=(newest,))
    assert isinstance(found.restart_history, Known)
    assert [(s.run_id, s.first_batch) for s in found.restart_history.value] == [
        ("run-0", 0),
        ("run-1", 1),
    ]
    assert [one.rows for one in found.timeline][:2] == [7, 7]
    assert found.sources[0].kind == "Kafka"
    assert found.sources[0].other_kinds == ()


def test_the_times_of_copied_files_are_not_taken_for_those_of_commits(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=4, committed=4)
    assert all(isinstance(one.committed_ms, Unknown) for one in evidence(location).timeline)
    for batch in range(4):
        at_ms = 1_767_225_600_000 + batch * 1000 + 300
        os.utime(location / f"commits/{batch}", ns=(at_ms * 1_000_000, at_ms * 1_000_000))
    times = [one.committed_ms for one in evidence(location).timeline]
    assert times == [1_767_225_600_300 + batch * 1000 for batch in range(4)]


def test_a_checkpoint_inside_a_checkpoint_is_named(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    files.write(location / "inner/deep")
    (location / "sources/0/offsets").mkdir(parents=True)
    (location / "sources/0/offsets/0").write_text('{"version":1}')
    found = evidence(location)
    assert found.nested == ("inner/deep",)


def test_a_folder_of_checkpoints_gives_one_row_each(tmp_path: Path) -> None:
    files.write(tmp_path / "a/one")
    files.write(tmp_path / "a/two", planned=2, committed=1)
    files.write(tmp_path / "b/catalog/schema/table/flow/1", planned=0, committed=0)
    files.write(tmp_path / "a/one/inner")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    (tmp_path / "c/_delta_log").mkdir(parents=True)
    found = ops.inspect(
        str(tmp_path), storage={}, event_log=None, now_ms=1, on_progress=lambda *_: None
    )
    assert isinstance(found, Checkpoints)
    assert found.unreadable == ()
    rows = found.rows
    assert [row.location.removeprefix(f"{tmp_path}/") for row in rows] == [
        "a/one",
        "a/two",
        "a/one/inner",
        "b/catalog/schema/table/flow/1",
    ]
    assert [row.batches.last_committed for row in rows] == [2, 0, 2, None]


@pytest.mark.parametrize(
    ("made", "location", "kind", "said"),
    [
        ([], "nowhere", LocationMissing, "does not exist"),
        (["x/"], "x", LocationEmpty, "is an empty folder"),
        (["x/_delta_log/0.json"], "x", NotACheckpoint, "looks like a Delta table"),
        (["x/_spark_metadata/0"], "x", NotACheckpoint, "Spark's file sink"),
        (["x/rdd-12/part-00000"], "x", NotACheckpoint, "a checkpoint of an RDD"),
        (["x/part-00000", "x/_partitioner"], "x", NotACheckpoint, "a checkpoint of an RDD"),
        (["x/part-00000-a.snappy.parquet"], "x", NotACheckpoint, "output that Spark wrote"),
        (["x/metadata/v1.metadata.json", "x/data/f"], "x", NotACheckpoint, "an Iceberg table"),
        (["x/.hoodie/h"], "x", NotACheckpoint, "a Hudi table"),
        (["x/checkpoint-500/weights"], "x", NotACheckpoint, "is not a checkpoint"),
        (["x/chk-7/_metadata", "x/shared/f"], "x", NotACheckpoint, "a Flink checkpoint"),
        (["x/chk-7/_metadata"], "x/chk-7", NotACheckpoint, "a Flink checkpoint"),
        (["x/checkpoint-1700000000000.bk"], "x", NotACheckpoint, "a checkpoint of DStreams"),
        (["x/eventlog_v2_local-1/events_1_local-1"], "x", NotACheckpoint, "Spark event logs"),
        (["x/local-1794806565473.zstd"], "x", NotACheckpoint, "Spark event logs, which `--ev"),
        (["x/a.csv", "x/y/b.csv"], "x", NotACheckpoint, "and there is none below it"),
        (["x/offsets/0", "x/commits/0"], "x/offsets", NotACheckpoint, "the folder `offsets`"),
        (["x/sources/0/offsets/0"], "x/sources/0", NotACheckpoint, "the folder of a source"),
        (["x/file"], "x/file", NotACheckpoint, "is a file"),
        (["x/metadata"], "x", NotACheckpoint, "is not a checkpoint"),
    ],
)
def test_what_is_no_checkpoint_is_named(
    tmp_path: Path, made: list[str], location: str, kind: type[HoldfastError], said: str
) -> None:
    for name in made:
        path = tmp_path / name
        if name.endswith("/"):
            path.mkdir(parents=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("v1")
    with pytest.raises(kind, match=said) as caught:
        evidence(tmp_path / location)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("location", "meant"),
    [("file://tmp/c", "file:///tmp/c"), ("FILE://localhost/tmp/c", "file:///tmp/c")],
)
def test_a_file_url_with_a_host_is_refused_as_spark_refuses_it(location: str, meant: str) -> None:
    with pytest.raises(LocationMissing, match="names the host") as refused:
        evidence(location)
    assert f"`holdfast inspect {meant}`" in refused.value.hint


def test_other_file_systems_are_named() -> None:
    with pytest.raises(StorageUnavailable, match="scheme `dbfs:` is not supported"):
        evidence("dbfs:/checkpoints/orders")


@pytest.fixture
def nobody() -> Iterator[None]:
    """Run as a user that owns nothing; tests run as root elsewhere."""
    if os.getuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_may_not_be_read_is_said(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    location = files.write(tmp_path / "c")
    files.state(location, range(1, 4))
    for path in (*tmp_path.parents, tmp_path):
        if path.stat().st_uid == os.getuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    (location / "offsets/0").chmod(0)
    (location / "state/0/1").chmod(0)
    request.getfixturevalue("nobody")
    found = evidence(location)
    reasons = {one.path: one.reason for one in found.unreadable}
    assert reasons == dict.fromkeys(("state/0/1", "offsets/0"), "permission denied")
    os.seteuid(0)
    location.chmod(0)
    os.seteuid(65534)
    with pytest.raises(LocationForbidden, match="permission denied"):
        evidence(location)


def test_a_checkpoint_that_is_being_written_is_never_seen_ahead_of_itself(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=1, committed=1)
    files.state(location, range(1, 2))
    ended = threading.Event()

    def written() -> None:
        batch = 0
        while not ended.is_set():
            batch += 1
            files.offsets(tmp_path / "draft", batch, 1_767_225_600_000 + batch)
            (tmp_path / f"draft/offsets/{batch}").rename(location / f"offsets/{batch}")
            (tmp_path / "draft/commit").write_text('v1\n{"nextBatchWatermarkMs":0}')
            (tmp_path / "draft/commit").rename(location / f"commits/{batch}")
            if batch > 5:
                (location / f"offsets/{batch - 5}").unlink()
                (location / f"commits/{batch - 5}").unlink()

    (tmp_path / "draft/offsets").mkdir(parents=True)
    writer = threading.Thread(target=written)
    writer.start()
    try:
        for _ in range(100):
            found = evidence(location)
            planned, committed = found.batches.last_planned, found.batches.last_committed
            assert planned is not None
            assert committed is not None
            assert committed <= planned
            assert {one.reason for one in found.unreadable} <= {snapshot.TOO_FAST}
            rendered(found)
    finally:
        ended.set()
        writer.join()


def test_entries_that_a_running_query_removes_are_not_unreadable(tmp_path: Path) -> None:
    kept = 100
    location = files.write(tmp_path / "c", planned=kept, committed=kept)
    ended = threading.Event()

    def written() -> None:
        batch = kept
        while not ended.wait(0.005):
            files.write(tmp_path / "draft", planned=batch + 1, committed=batch + 1, first=batch)
            for log in ("offsets", "commits"):
                (tmp_path / f"draft/{log}/{batch}").rename(location / f"{log}/{batch}")
                (location / f"{log}/{batch - kept}").unlink()
            shutil.rmtree(tmp_path / "draft")
            batch += 1

    writer = threading.Thread(target=written)
    writer.start()
    try:
        looks = [evidence(location) for _ in range(100)]
    finally:
        ended.set()
        writer.join()
    assert [one for found in looks for one in found.unreadable] == []


def test_a_checkpoint_that_vanishes_while_it_is_read_is_reported(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=50, committed=50)
    copy = tmp_path / "copy"
    for round_ in range(20):
        shutil.copytree(location, copy, dirs_exist_ok=True)
        remover = threading.Timer(round_ / 2000, shutil.rmtree, (copy,), {"ignore_errors": True})
        remover.start()
        with contextlib.suppress(LocationMissing, LocationEmpty, NotACheckpoint):
            rendered(evidence(copy))
        remover.join()


def test_times_of_a_copy_are_not_taken_for_those_of_commits(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders")
    for number in range(3):
        planned = json.loads((location / f"offsets/{number}").read_text().splitlines()[1])
        stamp = planned["batchTimestampMs"] / 1000 + 0.25
        os.utime(location / f"commits/{number}", (stamp, stamp))
    assert all(isinstance(one.committed_ms, int) for one in evidence(location).timeline)
    os.utime(location / "commits/0")
    assert all(isinstance(one.committed_ms, Unknown) for one in evidence(location).timeline)


def test_a_folder_named_offsets_alone_makes_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "data/pg_multixact/offsets").mkdir(parents=True)
    (tmp_path / "data/pg_multixact/offsets/0000").write_bytes(bytes(64))
    with pytest.raises(NotACheckpoint):
        evidence(tmp_path / "data/pg_multixact")


def test_a_file_source_of_spark_2_1_counts_in_bare_numbers(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=0, committed=0)
    log = location / "sources/0"
    log.mkdir(parents=True)
    for batch in range(2):
        (location / f"offsets/{batch}").write_text(f"v1\n{{}}\n{batch}")
        entry = f'{{"path":"file:///in/{batch}","timestamp":7,"batchId":{batch}}}'
        (log / str(batch)).write_text(f"v1\n{entry}\n{entry}")
    found = evidence(location)
    assert [source.kind for source in found.sources] == ["files"]
    assert found.unreadable == ()


def test_after_clean_up_the_oldest_batch_does_not_begin_at_the_beginning(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", first=3, planned=4, committed=4)
    (source,) = evidence(location).sources
    assert [(one.start, one.end, one.change) for one in source.consumed.partitions] == [
        ("?", "40", Movement.START_UNKNOWN),
        ("?", "40", Movement.START_UNKNOWN),
    ]
    assert isinstance(source.consumed.total, Unknown)
    (source,) = evidence(files.write(tmp_path / "new", planned=1)).sources
    assert {one.change for one in source.consumed.partitions} == {Movement.APPEARED}
