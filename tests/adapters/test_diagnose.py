"""What is found in checkpoints on disk: each code at one that shows it, and nothing else there."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from tests import checkpoint_files as files
from tests.adapters.delta_driving import Driver
from tests.diagnosing import V4_1, codes, diagnosed, late, reading, reading_files, recorded, timed
from tests.golden import FOLDER
from tests.looking import NOW_MS, evidence, stamps

from holdfast.decode import lease as lease_format
from holdfast.diagnose.explanations import changed_state, changes
from holdfast.model.finding import Code, Diagnosis, Judgement, Severity
from holdfast.model.ids import Epoch, JobName, Span
from holdfast.model.json import Json, to_canonical
from holdfast.model.lease import Holder, Lease
from holdfast.model.restart import RunForecast, SinkAction, Stage
from holdfast.model.spark_version import SparkVersion
from holdfast.model.verdict import Level
from holdfast.report import verdict

Make = Callable[[Path], Diagnosis]
CASES: dict[str, tuple[set[Code], Make]] = {}


def _shows(*expected: Code) -> Callable[[Make], Make]:
    def added(make: Make) -> Make:
        CASES[make.__name__.strip("_").replace("_", " ")] = (set(expected), make)
        return make

    return added


@_shows()
def _at_rest(folder: Path) -> Diagnosis:
    return diagnosed(files.write(folder / "c"))


@_shows(Code.PENDING_BATCH)
def _one_batch_pending(folder: Path) -> Diagnosis:
    return diagnosed(files.write(folder / "c", committed=2))


@_shows(Code.PENDING_BATCH, Code.BATCHES_SKIPPED)
def _two_batches_pending(folder: Path) -> Diagnosis:
    return diagnosed(files.write(folder / "c", committed=1))


@_shows(Code.COMMITS_GONE, Code.PENDING_BATCH)
def _a_copy_without_commits(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    shutil.move(location / "commits", folder / "original")
    found = diagnosed(location)
    (told,) = (one for one in found.findings if one.code is Code.COMMITS_GONE)
    assert told.text.startswith("Spark runs batch 2 again, even if it was done. No commit is there")
    assert told.remedies[0] == "copy the folder `commits` from the original checkpoint"
    shutil.copytree(folder / "original", location / "commits")
    assert not codes(diagnosed(location))
    shutil.rmtree(location / "commits")
    return diagnosed(location)


@_shows(Code.PENDING_BATCH)
def _the_first_batch_without_a_commit(folder: Path) -> Diagnosis:
    """A crash leaves that, and a copy without commits, too."""
    return diagnosed(files.write(folder / "c", planned=1, committed=0))


@_shows(Code.PENDING_BATCH, Code.BATCH_PROGRESS)
def _a_batch_that_has_written_some_state(folder: Path) -> Diagnosis:
    location = _stateful(folder, range(1, 4))
    (location / "commits/2").unlink()
    texts = []
    for removed in ([], ["state/0/1/3.delta"], ["state/0/0/3.delta"]):
        for path in removed:
            (location / path).unlink()
        (told,) = (o for o in diagnosed(location).findings if o.code is Code.BATCH_PROGRESS)
        texts.append(told.text.partition(":")[0])
        assert [one.file for one in told.clues] == (["state/0/1"] if len(texts) == 2 else [])
    assert texts == [
        "The sink may have all of batch 2",
        "The sink may have a part of batch 2, unless it takes a batch whole or not at all",
        "The sink has nothing of batch 2 if it takes a batch whole or not at all",
    ]
    return diagnosed(location)


@_shows(Code.CONTINUOUS_MODE)
def _in_continuous_mode(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    for epoch in range(3):
        files.epoch(location, epoch)
    return diagnosed(location)


@_shows(Code.OFFSET_BEFORE_MISSING)
def _the_entry_before_is_missing(folder: Path) -> Diagnosis:
    location = files.write(folder / "c", planned=4, committed=4)
    (location / "offsets/2").unlink()
    return diagnosed(location)


@_shows(Code.OFFSET_GAP)
def _an_older_offset_entry_is_missing(folder: Path) -> Diagnosis:
    location = files.write(folder / "c", planned=5, committed=5)
    (location / "offsets/2").unlink()
    return diagnosed(location)


@_shows(Code.COMMIT_GAP)
def _an_older_commit_is_missing(folder: Path) -> Diagnosis:
    """Inside the log or at its beginning: it is not pending, as nothing runs it again."""
    location = files.write(folder / "c")
    (location / "commits/1").unlink()
    first = files.write(folder / "first/c")
    (first / "commits/0").unlink()
    assert codes(diagnosed(first)) == {Code.COMMIT_GAP}
    for place, batch in ((location, 1), (first, 0)):
        found = evidence(place)
        stands = {one.batch: one.standing.value for one in found.timeline}
        assert stands == dict.fromkeys(range(3), "committed") | {batch: "no commit"}
        assert found.batches.pending == ()
        assert found.batches.missing_commits == (Span(first=batch, last=batch),)
    return diagnosed(location)


@_shows(Code.COMMIT_AHEAD)
def _a_commit_without_offsets(folder: Path) -> Diagnosis:
    return diagnosed(files.write(folder / "c", planned=3, committed=4))


@_shows(Code.OFFSETS_GONE)
def _commits_and_no_offsets(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    shutil.rmtree(location / "offsets")
    return diagnosed(location)


@_shows(Code.OFFSETS_EDITED)
def _an_entry_that_no_run_has_seen(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    recorded(location)
    segment = next((folder / ".holdfast/c/runs").iterdir()) / "000001.jsonl"
    progress = {
        "event": "progress", "at_ms": 1_767_225_601_000, "batch": 2, "rows": 1,
        "sources": [{"description": "files", "startOffset": {"logOffset": 1},
                     "endOffset": {"logOffset": 7}, "numInputRows": 1}],
    }  # fmt: skip
    segment.write_text(segment.read_text() + json.dumps(progress) + "\n")
    return diagnosed(location)


@_shows(Code.OFFSETS_EDITED)
def _an_entry_with_spaces(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    entry = location / "offsets/2"
    entry.write_text(entry.read_text().replace('{"logOffset":2}', '{"logOffset": 2}'))
    found = diagnosed(location)
    assert found.restart.runs is RunForecast.SURELY
    return found


def test_a_source_in_python_writes_its_offsets_with_spaces(tmp_path: Path) -> None:
    """They may have the shape of Kafka's; nothing but the shape says that they are."""
    location = reading(tmp_path / "c", [{"shards": {"0": at, "1": at}} for at in (5, 10, 15)])
    entries = sorted((location / "offsets").iterdir())
    for entry in entries:
        head, _, offset = entry.read_text().rpartition("\n")
        entry.write_text(f"{head}\n{json.dumps(json.loads(offset))}")
    found = diagnosed(location)
    assert Code.OFFSETS_EDITED not in codes(found)
    assert found.restart.runs is RunForecast.IF_THERE_IS_DATA
    kafka = shutil.copytree(location, tmp_path / "kafka/c")
    (kafka / "sources/0").mkdir(parents=True)
    (kafka / "sources/0/0").write_bytes(b'\0v1\n{"shards":{"0":0,"1":0}}')
    assert Code.OFFSETS_EDITED in codes(diagnosed(kafka))
    told = shutil.copytree(location, tmp_path / "told/c")
    recorded(told, sources=["KafkaV2[Subscribe[shards]]"])
    assert Code.OFFSETS_EDITED in codes(diagnosed(told))
    entries[0].write_text(entries[0].read_text().replace(": ", ":").replace(", ", ","))
    assert Code.OFFSETS_EDITED in codes(diagnosed(location))
    python = "org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@1"
    recorded(location, sources=[python])
    assert Code.OFFSETS_EDITED not in codes(diagnosed(location))


@_shows(Code.REPARTITION_UNFINISHED)
def _a_repartition_that_was_broken_off(folder: Path) -> Diagnosis:
    location = files.write(folder / "c", planned=3, committed=2)
    files.offsets(location, 2, 1, files.SETTINGS | {"spark.sql.shuffle.partitions": "5"})
    assert codes(diagnosed(location)) == {Code.PENDING_BATCH}  # 4.1 knows of none
    old = files.write(folder / "of 2.2/c", planned=3, committed=2)
    for batch in range(3):
        files.offsets(old, batch, 1, {})
    assert diagnosed(old, spark=SparkVersion(4, 2)).restart.error is None
    return diagnosed(location, spark=SparkVersion(4, 2))


@_shows(Code.LOCATION_NOT_EMPTY)
def _state_and_no_logs(folder: Path) -> Diagnosis:
    location = files.write(folder / "c", planned=0, committed=0)
    (location / "commits/notes.txt").write_text("a stray file")
    return diagnosed(location)


@_shows(Code.LOGS_GONE)
def _both_logs_deleted_and_the_rest_kept(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    for log in ("offsets", "commits"):
        shutil.rmtree(location / log)
    said = verdict.judge(evidence(location))
    assert said.level is Level.CAREFUL
    assert said.text == (
        "no batch is planned: the query has not run yet, or its logs were deleted; `sources/0` has"
        " files that a source wrote at a start"
    )
    found = diagnosed(location)
    assert found.judgement is Judgement.UNDEFINED
    return found


@_shows(Code.ENTRY_UNREADABLE)
def _the_last_commit_is_empty(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    (location / "commits/2").write_bytes(b"")
    return diagnosed(location)


@_shows(Code.FILE_UNREADABLE)
def _an_older_entry_is_empty(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    (location / "offsets/0").write_bytes(b"")
    return diagnosed(location)


@_shows(Code.LOG_VERSION_UNKNOWN)
def _a_commit_of_a_later_spark(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    (location / "commits/2").write_text('v3\n{"sinkMetadataMap":{"out":{"isActive":true}}}')
    return diagnosed(location)


@_shows(Code.SOURCES_CHANGED)
def _a_source_more(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    with (location / "offsets/2").open("a") as entry:
        entry.write('\n{"orders":{"0":1}}')
    return diagnosed(location)


@_shows(Code.METADATA_MISSING)
def _no_metadata(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    (location / "metadata").unlink()
    return diagnosed(location)


@_shows(Code.METADATA_UNREADABLE)
def _metadata_of_nobody(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    (location / "metadata").write_text("{}")
    return diagnosed(location)


@_shows(Code.PENDING_BATCH, Code.CHECKSUM_LEFT)
def _a_commit_removed_without_its_checksum(folder: Path) -> Diagnosis:
    location = files.write(folder / "c", committed=2)
    (location / "commits/.2.crc").write_bytes(b"crc\0")
    return diagnosed(location)


def _written(folder: Path, batches: int) -> str:
    """A table that holds so many batches of the job `j`."""
    driver = Driver(folder / "table").start()
    for batch in range(batches):
        driver.process(batch)
    return str(folder / "table")


def _over_a_table(
    folder: Path, *, committed: int, written: int, planned: int | None = None
) -> Path:
    location = files.write(folder / "j", planned=planned or committed, committed=committed)
    table = _written(folder, written)
    write = {"kind": "DeltaAppend", "name": "t", "path": table}
    recorded(location, job="j", generation=1, writes=[write])
    return location


@_shows()
def _a_sink_that_agrees(folder: Path) -> Diagnosis:
    found = diagnosed(_over_a_table(folder, committed=3, written=3))
    assert [one.act for one in found.restart.sinks] == [SinkAction.WRITE]
    return found


@_shows(Code.PENDING_BATCH)
def _a_batch_that_the_sink_has_written(folder: Path) -> Diagnosis:
    found = diagnosed(_over_a_table(folder, planned=3, committed=2, written=3))
    assert [one.act for one in found.restart.sinks] == [SinkAction.SKIP]
    assert found.judgement is Judgement.SAFE
    return found


@_shows(Code.OFFSETS_EDITED)
def _an_entry_that_the_sink_knows_otherwise(folder: Path) -> Diagnosis:
    location = _over_a_table(folder, committed=3, written=3)
    _move(location / "offsets/2")
    found = diagnosed(location)
    assert found.judgement is Judgement.UNSAFE
    (edited,) = (one for one in found.findings if one.code is Code.OFFSETS_EDITED)
    assert edited.severity is Severity.BLOCKS
    assert 'must be `{"orders":{"0":30,"1":30}}`' in edited.remedies[0]
    return found


@_shows(Code.OFFSETS_EDITED, Code.PENDING_BATCH)
def _a_pending_batch_that_the_sink_has_from_other_offsets(folder: Path) -> Diagnosis:
    location = _over_a_table(folder, planned=3, committed=2, written=3)
    _move(location / "offsets/1")
    return diagnosed(location)


@_shows(Code.OFFSETS_EDITED, Code.PENDING_BATCH)
def _an_entry_before_a_pending_batch(folder: Path) -> Diagnosis:
    location = _over_a_table(folder, planned=4, committed=3, written=3)
    _move(location / "offsets/2")
    return diagnosed(location)


@_shows()
def _an_entry_of_long_ago(folder: Path) -> Diagnosis:
    location = _over_a_table(folder, committed=3, written=3)
    _move(location / "offsets/1")
    return diagnosed(location)


def _move(entry: Path) -> None:
    """Let partition 1 end one row earlier."""
    text = entry.read_text()
    entry.write_text(re.sub(r'"1":(\d+)', lambda found: f'"1":{int(found[1]) - 1}', text))


@_shows(Code.PENDING_BATCH, Code.BATCHES_SKIPPED)
def _commits_gone_of_batches_that_the_sink_holds(folder: Path) -> Diagnosis:
    found = diagnosed(_over_a_table(folder, planned=4, committed=1, written=4))
    assert Code.SINK_AHEAD not in codes(found)
    assert found.judgement is Judgement.SAFE
    return found


@_shows(Code.ENTRY_WITHOUT_SETTINGS)
def _a_committed_entry_without_its_second_line(folder: Path) -> Diagnosis:
    return _without_settings(folder, committed=3)


@_shows(Code.ENTRY_WITHOUT_SETTINGS, Code.PENDING_BATCH)
def _a_pending_entry_without_its_second_line(folder: Path) -> Diagnosis:
    return _without_settings(folder, committed=2)


def _without_settings(folder: Path, *, committed: int) -> Diagnosis:
    location = files.write(folder / "c", committed=committed)
    entry = location / "offsets/2"
    head, _, rest = entry.read_text().split("\n", 2)
    entry.write_text(f"{head}\n\n{rest}")
    found = diagnosed(location)
    error = found.restart.error
    assert error is not None
    assert error.exceptions == ("NullPointerException",)
    assert error.stage is (Stage.START if committed == 3 else Stage.COMMITTING)
    (told,) = (one for one in found.findings if one.code is Code.ENTRY_WITHOUT_SETTINGS)
    assert "second line of `offsets/1` in its place" in told.remedies[1]
    assert (told.severity is Severity.DUPLICATES) is (committed == 2)
    assert ("to the sink" in told.text) is (committed == 2)
    # 4.2 looks at the line before anything runs.
    newer = diagnosed(location, spark=SparkVersion(4, 2)).findings
    (told,) = (one for one in newer if one.code is Code.ENTRY_WITHOUT_SETTINGS)
    assert told.severity is Severity.BLOCKS
    assert told.text.endswith(": a start fails.")
    assert diagnosed(location, spark=SparkVersion(2, 3)).restart.error is None
    return found


@_shows(Code.SINK_AHEAD)
def _a_checkpoint_taken_back(folder: Path) -> Diagnosis:
    found = diagnosed(_over_a_table(folder, committed=2, written=5))
    (ahead,) = (one for one in found.findings if one.code is Code.SINK_AHEAD)
    assert ahead.severity is Severity.BLOCKS
    assert ahead.text.endswith("and stops the query with `BATCH_CHANGED` at another.")
    assert [one.act for one in found.restart.sinks] == [SinkAction.UNKNOWN]
    return found


@_shows(Code.SINK_SKIPS)
def _a_checkpoint_taken_back_by_one(folder: Path) -> Diagnosis:
    return diagnosed(_over_a_table(folder, committed=2, written=3))


@_shows(Code.SINK_BEHIND)
def _a_table_taken_back(folder: Path) -> Diagnosis:
    return diagnosed(_over_a_table(folder, committed=3, written=2))


@_shows(Code.SINK_NOT_CLEARED)
def _a_reset_checkpoint_over_a_table(folder: Path) -> Diagnosis:
    location = files.write(folder / "j", planned=0, committed=0)
    deltalake.write_deltalake(str(folder / "table"), pa.table({"id": [1]}))
    recorded(location, sink=f"DeltaSink[{folder / 'table'}]")
    return diagnosed(location)


@_shows(Code.SINK_AHEAD)
def _a_reset_checkpoint_over_the_output_of_a_file_sink(folder: Path) -> Diagnosis:
    location = files.write(folder / "j", planned=0, committed=0)
    (folder / "out/_spark_metadata").mkdir(parents=True)
    for name in ("8", "9.compact", "10"):
        (folder / "out/_spark_metadata" / name).write_text("v1")
    recorded(location, sink=f"FileSink[{folder / 'out'}]")
    found = diagnosed(location)
    assert {one.severity for one in found.findings if one.code is Code.SINK_AHEAD} == {
        Severity.LOSES
    }
    return found


@_shows(Code.SOURCE_LOG_DAMAGED)
def _an_empty_entry_of_a_source(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    (location / "sources/0/1").write_bytes(b"")
    return diagnosed(location)


@_shows(Code.SOURCE_LOG_AHEAD)
def _files_listed_and_not_planned(folder: Path) -> Diagnosis:
    found = diagnosed(reading_files(folder / "c", listed=5))
    assert found.restart.runs is RunForecast.SURELY
    return found


@_shows(Code.SOURCE_LOG_BEHIND)
def _a_source_log_that_is_gone(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    shutil.rmtree(location / "sources")
    return diagnosed(location)


@_shows(Code.SOURCE_LOG_INTERVAL)
def _a_source_log_that_is_compacted_seldom(folder: Path) -> Diagnosis:
    found = diagnosed(reading_files(folder / "c", batches=15, listed=15))
    assert found.restart.error is None
    assert "at 16 or more" in found.findings[0].text
    return found


@_shows(Code.SOURCE_WENT_BACK, Code.SOURCE_LOG_AHEAD)
def _a_range_that_ends_before_it_begins(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    entry = (location / "offsets/2").read_text().replace('"logOffset":2', '"logOffset":0')
    (location / "offsets/2").write_text(entry)
    return diagnosed(location)


@_shows(Code.OFFSET_OF_OTHER_SOURCE)
def _an_offset_of_kafka_beside_a_log_of_files(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    entry = (location / "offsets/2").read_text().replace('{"logOffset":2}', '{"t":{"0":2}}')
    (location / "offsets/2").write_text(entry)
    found = diagnosed(location)
    assert found.judgement is Judgement.UNSAFE
    return found


@_shows(Code.SOURCE_NOT_REPLAYABLE)
def _numbers_of_a_socket(folder: Path) -> Diagnosis:
    """As a socket writes them; a rate source keeps when it began."""
    location = reading(folder / "c", [4, 9, 12])
    rate = shutil.copytree(location, folder / "rate/c")
    (rate / "sources/0").mkdir(parents=True)
    (rate / "sources/0/0").write_text("v1\n1767225600000")
    kept = diagnosed(rate)
    assert not codes(kept)
    assert [(one.kind, one.or_kinds) for one in kept.restart.ranges] == [("rate", ())]
    told = shutil.copytree(location, folder / "told/c")
    recorded(told, sources=["TextSocketV2[host: 127.0.0.1, port: 9999]"])
    assert diagnosed(told).judgement is Judgement.UNSAFE
    recorded(told, sources=["RateStreamV2[rowsPerSecond=1]"])
    assert not codes(diagnosed(told))
    found = diagnosed(location)
    assert found.judgement is Judgement.UNDEFINED
    (read,) = found.restart.ranges
    assert (read.kind, read.or_kinds) == ("socket", ("memory", "rate"))
    (old,) = evidence(reading(folder / "of 2.1/c", [4, 9], {})).sources
    assert old.or_kinds == ("memory", "rate", "files of Spark 2.1")
    return found


@_shows(Code.PENDING_BATCH, Code.SOURCE_FILES_GONE)
def _a_file_of_the_batch_is_gone(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    (location / "commits/2").unlink()
    (folder / "landing/2.json").unlink()
    return diagnosed(location)


@_shows(Code.SOURCE_FILES_REWRITTEN)
def _a_landing_file_written_again(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    (folder / "landing/1.json").write_text("{}")
    return diagnosed(location)


@_shows(Code.SOURCE_FILES_TOO_OLD)
def _a_landing_file_that_is_too_old(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c")
    (folder / "landing/late.json").write_text("{}")
    os.utime(folder / "landing/late.json", (1_700_000_000, 1_700_000_000))
    return diagnosed(location)


def _reading_a_table(folder: Path, table_id: str | None, versions: int) -> Path:
    table = folder / "read"
    for _ in range(versions):
        deltalake.write_deltalake(str(table), pa.table({"id": [1]}), mode="append")
    own = deltalake.DeltaTable(str(table)).metadata().id
    offset: Json = {
        "sourceVersion": 1, "reservoirId": table_id or str(own), "reservoirVersion": 1,
        "index": 0, "isStartingVersion": False,
    }  # fmt: skip
    location = reading(folder / "c", [offset, offset])
    recorded(location, sources=[f"DeltaSource[file:{table}]"])
    return location


@_shows()
def _a_table_that_has_everything(folder: Path) -> Diagnosis:
    return diagnosed(_reading_a_table(folder, None, 4))


@_shows(Code.DELTA_VERSIONS_GONE)
def _a_table_whose_log_was_cleaned(folder: Path) -> Diagnosis:
    location = _reading_a_table(folder, None, 5)
    deltalake.DeltaTable(str(folder / "read")).create_checkpoint()
    for version in range(4):
        (folder / f"read/_delta_log/{version:020d}.json").unlink()
    return diagnosed(location)


@_shows(Code.DELTA_TABLE_REPLACED)
def _a_table_made_anew(folder: Path) -> Diagnosis:
    return diagnosed(_reading_a_table(folder, "11111111-2222-4333-8444-555555555555", 4))


def _leased(location: Path, heartbeat_ms: int) -> Path:
    lease = Lease(
        job=JobName(location.name), epoch=Epoch(1), since_ms=1, heartbeat_ms=heartbeat_ms,
        holder=Holder(host="h", pid=1, process="p"), ttl_ms=30_000, released=False,
    )  # fmt: skip
    folder = location.parent / f".holdfast/{location.name}/lease"
    folder.mkdir(parents=True)
    (folder / "000001.json").write_bytes(lease_format.encode(lease))
    return location


@_shows(Code.DRIVER_RUNNING)
def _a_driver_at_work(folder: Path) -> Diagnosis:
    return diagnosed(_leased(files.write(folder / "c"), NOW_MS - 5000))


@_shows(Code.LEASE_STALE)
def _a_driver_that_was_killed(folder: Path) -> Diagnosis:
    return diagnosed(_leased(files.write(folder / "c"), NOW_MS - 500_000))


def test_a_driver_that_was_killed_a_moment_ago_is_not_said_to_run(tmp_path: Path) -> None:
    """Also where another process has its number by now."""
    location = files.write(tmp_path / "c")
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    now = round(time.time() * 1000)
    assert Code.DRIVER_RUNNING in codes(diagnosed(location, now_ms=now))
    child.kill()
    child.communicate()
    found = diagnosed(location, now_ms=now)
    said = {one.code: one.text for one in found.findings}
    assert Code.DRIVER_RUNNING not in said
    assert said[Code.LEASE_STALE].startswith(f"Nobody runs this query: process {child.pid} on")
    file = tmp_path / ".holdfast/c/lease/000000000001.json"
    file.write_text(file.read_text().replace(f'"pid":{child.pid}', f'"pid":{os.getpid()}'))
    assert Code.LEASE_STALE in codes(diagnosed(location, now_ms=now))


_HOLD = """
import sys, time
from holdfast.model.ids import Epoch, JobName
from holdfast.run.start import lease
from holdfast.storage import open_store
lease.acquire(open_store(sys.argv[1]), JobName("c"), above=Epoch(0))
print("held", flush=True)
time.sleep(600)
"""


@_shows(Code.TWO_DRIVERS)
def _two_runs_that_overlap(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    for number, (begin, end) in enumerate(((1000, 9000), (5000, 12_000))):
        run = folder / f".holdfast/c/runs/176722560000{number}-r{number}"
        run.mkdir(parents=True)
        events = [
            {"event": "started", "at_ms": begin, "query_id": files.QUERY_ID, "run_id": "r",
             "name": "c", "sources": [], "configuration": {}},
            {"event": "terminated", "at_ms": end, "error": None},
        ]  # fmt: skip
        (run / "000000.jsonl").write_text("\n".join(json.dumps(one) for one in events))
    return diagnosed(location)


def _stateful(folder: Path, versions: range) -> Path:
    location = files.write(folder / "c")
    files.state(location, versions)
    operator = {
        "operatorInfo": {"operatorId": 0, "operatorName": "dedupe"},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}],
    }
    (location / "state/0/_metadata").mkdir()
    (location / "state/0/_metadata/metadata").write_text(f"v1\n{json.dumps(operator)}")
    return location


@_shows()
def _state_that_is_whole(folder: Path) -> Diagnosis:
    found = diagnosed(_stateful(folder, range(1, 4)))
    assert [(one.version, one.missing) for one in found.restart.state] == [(3, ())]
    return found


@_shows(Code.STATE_MISSING)
def _state_without_its_last_version(folder: Path) -> Diagnosis:
    return diagnosed(_stateful(folder, range(1, 3)))


def _of_kafka(folder: Path, *ends: int) -> Path:
    return reading(folder / "c", [{"orders": {"0": 100, "1": end}} for end in ends])


@_shows(Code.SOURCE_WENT_BACK)
def _a_partition_that_went_back(folder: Path) -> Diagnosis:
    older = diagnosed(_of_kafka(folder / "older", 20, 3, 30))
    assert (older.judgement, older.findings[0].severity) == (Judgement.SAFE, Severity.NOTE)
    assert older.findings[0].text.startswith(
        "Spark has read the records from 3 to 20 of orders-1 twice, or other records"
    )
    found = diagnosed(_of_kafka(folder, 10, 20, 3))
    assert found.judgement is Judgement.UNDEFINED
    (told,) = (one for one in found.findings if one.code is Code.SOURCE_WENT_BACK)
    assert told.text.startswith("A start reads the records from 3 to 20 of orders-1 a second time")
    assert [(one.file, one.found) for one in told.clues] == [("offsets/2", "3")]
    return found


@_shows(Code.STATE_CHECKSUM_HAZARD)
def _checksums_of_4_1_in_format_1(folder: Path) -> Diagnosis:
    location = shutil.copytree(FOLDER / "4.1.4/aggregate-hdfs/checkpoint", folder / "c")
    (told,) = (
        one for one in diagnosed(location).findings if one.code is Code.STATE_CHECKSUM_HAZARD
    )
    assert told.severity is Severity.NOTE
    assert "fileChecksum.enabled=false" in told.remedies[0]
    for spark in (SparkVersion(4, 0), SparkVersion(4, 2), SparkVersion(4, 3)):
        assert Code.STATE_CHECKSUM_HAZARD not in codes(diagnosed(location, spark=spark))
    named = diagnosed(FOLDER / "4.1.4/checkpoint-format-2-changelog/checkpoint")
    assert Code.STATE_CHECKSUM_HAZARD not in codes(named)
    killed = diagnosed(FOLDER / "4.1.4/killed-after-state-hdfs/checkpoint")
    (told,) = (one for one in killed.findings if one.code is Code.STATE_CHECKSUM_HAZARD)
    assert told.text.startswith(f"Batch {killed.restart.batch} runs again over state files")
    return diagnosed(location)


@_shows(Code.STATE_SNAPSHOT_HAZARD)
def _late_snapshots_of_rocksdb(folder: Path) -> Diagnosis:
    location = shutil.copytree(FOLDER / "4.0.5/snapshots-changelog/checkpoint", folder / "c")
    for minor, warned in ((0, True), (1, True), (2, False), (3, False)):
        found = codes(diagnosed(location, spark=SparkVersion(4, minor)))
        assert (Code.STATE_SNAPSHOT_HAZARD in found) is warned
    return diagnosed(location, spark=SparkVersion(4, 0))


@pytest.mark.parametrize("named", [True, False])
def test_an_operator_that_was_added_later_has_a_schema_and_no_state(
    tmp_path: Path, *, named: bool
) -> None:
    """With the operator's metadata Spark refuses a query without it; before 4.0 it does not."""
    location = _stateful(tmp_path, range(1, 4))
    schema = next((FOLDER / "4.1.4/dedup-hdfs/checkpoint").glob("state/0/0/_metadata/schema"))
    for partition in (0, 1):
        shutil.rmtree(location / f"state/0/{partition}")
    (location / "state/0/0/_metadata").mkdir(parents=True)
    shutil.copy(schema, location / "state/0/0/_metadata/schema")
    if not named:
        shutil.rmtree(location / "state/0/_metadata")
    found = diagnosed(location, spark=SparkVersion(4, 1) if named else SparkVersion(3, 5))
    assert found.judgement is Judgement.UNSAFE
    error = found.restart.error
    assert error is not None
    assert error.unless == ("" if named else "operator 0 was taken out of the query")
    (told,) = (one for one in found.findings if one.code is Code.STATE_MISSING)
    assert told.text.startswith("Batch 3 fails: operator 0 has a schema and no state. It was added")
    assert "move the folder `state/0` out of the checkpoint" in told.remedies[0]


@_shows(Code.STATE_MISPLACED)
def _state_in_the_wrong_folder(folder: Path) -> Diagnosis:
    location = _stateful(folder, range(1, 4))
    shutil.move(location / "state/0/1", location / "state/0/0/1")
    return diagnosed(location)


@_shows(Code.STATE_REWRITTEN)
def _state_written_after_its_commit(folder: Path) -> Diagnosis:
    location = _stateful(folder, range(1, 4))
    timed(location)
    late(location / "state/0/1/3.delta")
    return diagnosed(location)


@_shows(Code.STATE_SCHEMA_UNREADABLE)
def _a_schema_that_is_empty(folder: Path) -> Diagnosis:
    location = _stateful(folder, range(1, 4))
    (location / "state/0/0/_metadata").mkdir()
    (location / "state/0/0/_metadata/schema").write_bytes(b"")
    return diagnosed(location)


@_shows(Code.OPERATORS_UNCHECKED)
def _an_operator_without_a_name(folder: Path) -> Diagnosis:
    location = _stateful(folder, range(1, 4))
    shutil.rmtree(location / "state/0/_metadata")
    return diagnosed(location)


@_shows(Code.OPERATOR_METADATA_UNREADABLE)
def _an_operator_whose_schemas_nothing_names(folder: Path) -> Diagnosis:
    location = _stateful(folder, range(1, 4))
    shutil.rmtree(location / "state/0/_metadata")
    (location / "state/0/_stateSchema/default").mkdir(parents=True)
    (location / "state/0/_stateSchema/default/0_a").write_bytes(b"")
    return diagnosed(location)


@_shows(Code.STATE_SCHEMA_ELSEWHERE)
def _a_moved_checkpoint(folder: Path) -> Diagnosis:
    location = _stateful(folder, range(1, 4))
    store = {
        "storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2,
        "stateSchemaFilePaths": ["file:/elsewhere/state/0/_stateSchema/default/0_a"],
    }  # fmt: skip
    operator = {
        "operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"},
        "stateStoreInfo": [store],
        "operatorPropertiesJson": "{}",
    }
    (location / "state/0/_metadata/v2").mkdir()
    (location / "state/0/_metadata/v2/0").write_text(f"v2\n{json.dumps(operator)}")
    return diagnosed(location)


@_shows(Code.SETTING_PINNED, Code.PROVIDER_PINNED)
def _settings_without_effect(folder: Path) -> Diagnosis:
    asked = {
        "spark.sql.shuffle.partitions": "64",
        "spark.sql.streaming.stateStore.providerClass": "RocksDBStateStoreProvider",
        "spark.sql.ansi.enabled": "true",
    }
    return diagnosed(files.write(folder / "c"), asked=asked)


@_shows(Code.SETTING_LOST)
def _a_setting_of_3_5_4(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    key = "spark.databricks.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"
    files.offsets(location, 2, 1_767_225_602_000, {**files.SETTINGS, key: "false"})
    return diagnosed(location)


@_shows(Code.PARTITIONS_UNPINNED, Code.OPERATORS_UNCHECKED)
def _partitions_of_4_2_0(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    files.state(location, range(1, 4))
    conf = {key: value for key, value in files.SETTINGS.items() if "partitions" not in key}
    entry = {"batchWatermarkMs": 0, "batchTimestampMs": 1, "conf": conf, "sourceMetadataInfo": {}}
    for batch in (1, 2):
        end = to_canonical({"orders": {"0": 10 * batch + 10, "1": 10 * batch + 10}})
        (location / f"offsets/{batch}").write_text(f"v2\n{json.dumps(entry)}\n0:{end}")
    return diagnosed(location, spark=SparkVersion(4, 2))


@_shows(Code.STATE_VERSION_UNKNOWN)
def _state_of_4_0_in_format_2(folder: Path) -> Diagnosis:
    shutil.copytree(FOLDER / "4.0.5/checkpoint-format-2-rocksdb/checkpoint", folder / "c")
    return diagnosed(folder / "c")


@_shows(Code.CHECKPOINT_COPIED)
def _a_copy_beside_it(folder: Path) -> Diagnosis:
    location = files.write(folder / "c")
    shutil.copytree(location, folder / "copy")
    return diagnosed(location)


@pytest.mark.parametrize("place", ["backup/c", "backup/old/c", "c/copy", "../copy", ".."])
def test_a_copy_that_does_not_lie_beside_it_is_found(tmp_path: Path, place: str) -> None:
    location = files.write(tmp_path / "home/base/c", planned=2, committed=2)
    other = (tmp_path / "home/base" / place).resolve()
    files.write(tmp_path / "made", planned=5, committed=5)
    shutil.copytree(tmp_path / "made", other, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "made")
    found = diagnosed(location)
    (told,) = (one for one in found.findings if one.code is Code.CHECKPOINT_COPIED)
    assert told.severity is Severity.NOTE
    assert told.text.startswith("A start repeats what another checkpoint of this query has done")
    assert [one.file for one in told.clues] == [str(other)]
    assert told.clues[0].found == "the same query id, and batches up to 4"


def test_few_folders_are_listed_to_find_copies(tmp_path: Path) -> None:
    location = files.write(tmp_path / "base/c")
    for number in range(200):
        (tmp_path / f"base/{number:03d}/inner").mkdir(parents=True)
    assert Code.CHECKPOINT_COPIED not in {one.code for one in diagnosed(location).findings}


@_shows(Code.CHECKPOINT_NESTED)
def _a_checkpoint_inside(folder: Path) -> Diagnosis:
    """Spark takes no notice of them; each is counted."""
    location = files.write(folder / "c")
    for number in range(6):
        files.write(location / f"inner{number}")
    found = diagnosed(location)
    assert found.judgement is Judgement.SAFE
    (nested,) = (one for one in found.findings if one.code is Code.CHECKPOINT_NESTED)
    assert nested.text.startswith("6 other checkpoints lie inside this one")
    return found


@_shows(Code.ASYNC_TURNED_OFF, Code.OFFSET_BEFORE_MISSING, Code.OFFSET_GAP, Code.COMMIT_GAP)
def _the_gaps_of_asynchronous_tracking(folder: Path) -> Diagnosis:
    location = files.write(folder / "c", planned=9, committed=9)
    for batch in (1, 3, 4, 7):
        (location / f"offsets/{batch}").unlink()
        (location / f"commits/{batch}").unlink()
    again = diagnosed(location, asynchronous=True)
    assert again.restart.error is None
    assert again.judgement is Judgement.SAFE
    told = [one for one in again.findings if one.code is Code.OFFSET_GAP]
    assert [one.text.partition(" missing")[0] for one in told] == [
        "`offsets/1` and others, with 3 gaps in all, are"
    ]
    assert [one.file for one in told[0].clues] == ["offsets/1", "offsets/3", "offsets/7"]
    return diagnosed(location)


@_shows(Code.STATE_CHAIN_LONG)
def _many_changes_and_no_snapshot(folder: Path) -> Diagnosis:
    location = files.write(folder / "c", planned=60, committed=60)
    shutil.copytree(_stateful(folder / "other", range(1, 61)) / "state", location / "state")
    return diagnosed(location)


@_shows(Code.SOURCE_LOG_LARGE)
def _a_source_log_of_many_files(folder: Path) -> Diagnosis:
    location = reading_files(folder / "c", batches=10, listed=9)
    compacted = location / "sources/0/9.compact"
    line = json.dumps({"path": f"file:///{'a' * 1000}", "timestamp": 1, "batchId": 9})
    compacted.write_text("v1\n" + f"{line}\n" * 100_000)
    found = diagnosed(location)
    compacted.unlink()
    return found


@_shows(Code.LOG_NOT_PURGED)
def _logs_that_are_not_purged(folder: Path) -> Diagnosis:
    return diagnosed(files.write(folder / "c", planned=1200, committed=1200))


@pytest.mark.parametrize("name", CASES)
def test_a_checkpoint_shows_its_findings_and_no_others(name: str, tmp_path: Path) -> None:
    expected, make = CASES[name]
    assert codes(make(tmp_path)) == expected


_ELSEWHERE = {
    Code.STORAGE_EPHEMERAL,
    Code.KAFKA_OFFSETS_EXPIRED,
    Code.KAFKA_CLUSTER_CHANGED,
    Code.KAFKA_TOPIC_RECREATED,
    Code.KAFKA_PARTITION_GONE,
}


def test_every_code_is_shown_by_a_checkpoint() -> None:
    shown = set().union(*(expected for expected, _ in CASES.values()))
    of_changes = {*changes.EXPLANATIONS, *changed_state.EXPLANATIONS}  # which a check tells
    assert shown | _ELSEWHERE | of_changes == set(Code)
    assert not shown & _ELSEWHERE


def test_a_temporary_folder_is_storage_that_does_not_last(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    found = {one.code for one in diagnosed(location).findings}
    assert found == {Code.STORAGE_EPHEMERAL}


def test_what_a_restart_does_in_each_version(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    (location / "metadata").unlink()
    for minor, error in ((0, ""), (1, ""), (2, "METADATA_FILE"), (3, "METADATA_FILE")):
        found = diagnosed(location, spark=SparkVersion(4, minor)).restart.error
        assert (found.condition if found else "").endswith(error)
    shutil.rmtree(location / "offsets")
    (location / "metadata").write_text(json.dumps({"id": files.QUERY_ID}))
    stages = [
        (told.stage, told.condition or told.exceptions[0])
        for spark in (
            SparkVersion(3, 5),
            SparkVersion(4, 0),
            SparkVersion(4, 1),
            SparkVersion(4, 2),
        )
        for told in [diagnosed(location, spark=spark).restart.error]
        if told is not None
    ]
    assert stages == [
        (Stage.COMMITTING, "CONCURRENT_STREAM_LOG_UPDATE"),
        (Stage.COMMITTING, "CONCURRENT_STREAM_LOG_UPDATE"),
        (Stage.START, "STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY"),
        (Stage.START, "AssertionError"),
    ]


def test_the_range_of_a_pending_batch_is_told_for_each_partition(tmp_path: Path) -> None:
    (source,) = diagnosed(files.write(tmp_path / "c", committed=2)).restart.ranges
    assert source.start == {"orders": {"0": 20, "1": 20}}
    assert source.end == {"orders": {"0": 30, "1": 30}}


def test_what_was_not_looked_at_is_said(tmp_path: Path) -> None:
    asked = {one.question for one in diagnosed(files.write(tmp_path / "c")).not_assessed}
    assert asked == {
        "whether the sink holds what the checkpoint counts as done",
        "whether Kafka has the offsets of source 0",
        "whether the query has state",
        "whether the settings of the start differ from the pinned ones",
        "whether a driver runs this query now",
    }


def test_diagnosing_changes_nothing(tmp_path: Path) -> None:
    location = _over_a_table(tmp_path, planned=3, committed=2, written=3)
    before = stamps(location)
    diagnosed(location)
    assert stamps(location) == before


@pytest.mark.parametrize(
    ("end", "code", "found"),
    [
        ({"orders": {"0": 30}}, Code.KAFKA_PARTITION_GONE, ["an offset of orders-1: none"]),
        ({"other": {"0": 7}}, Code.KAFKA_PARTITION_GONE, ["orders-0: none", "orders-1: none"]),
        (
            {"orders": {"0": 30, "1": 3}},
            Code.KAFKA_TOPIC_RECREATED,
            ["20 or later in orders-1: 3"],
        ),
    ],
)
def test_a_range_that_kafka_does_not_have_stops_the_batch_that_runs_again(
    tmp_path: Path, end: Json, code: Code, found: list[str]
) -> None:
    """As Spark 4.1 did with a real broker; after the commit it does not look at the range again.

    It then goes on from the lower offset.
    """
    location = reading(tmp_path / "c", [{"orders": {"0": 20, "1": 20}}, end])
    back = {Code.SOURCE_WENT_BACK} if code is Code.KAFKA_TOPIC_RECREATED else set()
    assert codes(diagnosed(location)) == back
    (location / "commits/1").unlink()
    told = diagnosed(location)
    assert codes(told) == {code, Code.PENDING_BATCH}
    assert told.judgement is Judgement.UNSAFE
    clues = [f"{clue.expected}: {clue.found}" for clue in told.findings[0].clues]
    assert all(clue.endswith(one) for clue, one in zip(clues, found, strict=True))
    error = told.restart.error
    assert error is not None
    assert (error.condition, error.stage, error.batch) == ("KAFKA_DATA_LOSS", Stage.PLANNING, 1)
    assert "`orders`" in error.reason
    assert "`failOnDataLoss`" in error.unless
    restore, give_up = told.findings[0].remedies
    assert "`offsets/1` and `offsets/.1.crc`" in restore
    assert '`.option("failOnDataLoss", "false")`' in give_up


@pytest.mark.parametrize(
    ("version", "spark", "told"),
    [
        ("", V4_1, True),
        ("4.1.1", V4_1, True),
        ("4.1.3", V4_1, False),
        ("4.1.1", SparkVersion(4, 2), False),
    ],
)
def test_a_batch_of_kafka_that_runs_again_ends_4_1_once(
    tmp_path: Path, version: str, spark: SparkVersion, *, told: bool
) -> None:
    """As 4.1.1 did with a real broker, with every trigger; 4.1.3 asks before it reports."""
    location = files.write(tmp_path / "c", planned=3, committed=2)
    if version:
        recorded(location, spark_version=version)
    (found,) = [
        one for one in diagnosed(location, spark=spark).findings if one.code is Code.PENDING_BATCH
    ]
    assert any("`NullPointerException`" in one for one in found.remedies) is told
    rest = diagnosed(files.write(tmp_path / "rest"))
    assert all("NullPointer" not in one for finding in rest.findings for one in finding.remedies)


@pytest.mark.parametrize("path", ["offsets/2", "commits/2", "offsets/1", "metadata"])
def test_of_a_start_that_reads_a_file_too_long_for_a_look_nothing_is_said(
    tmp_path: Path, path: str
) -> None:
    """It may be whole: a file of that size says nothing of itself."""
    location = files.write(tmp_path / "c")
    os.truncate(location / path, 1 << 30)
    found = diagnosed(location)
    assert found.judgement is Judgement.UNKNOWN
    assert found.restart.error is None
    (told,) = (one for one in found.not_assessed if one.question == f"what `{path}` says")
    assert told.reason.startswith(f"`{path}` was not read (has 1,073,741,824 bytes, more than ")
    assert verdict.judge(evidence(location)).level is Level.CAREFUL
