"""Checkpoints on S3, HDFS and emulated clouds say what the same checkpoints on disk say."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.adapters.remotes import SERVERS, remote
from tests.golden import ONE_OF_EACH, Golden
from tests.looking import evidence, rendered

from holdfast import ops
from holdfast.errors import EventLogUnreadable, LocationMissing, NotACheckpoint, StorageUnavailable
from holdfast.model.evidence import Checkpoints, Evidence
from holdfast.model.fact import Known
from holdfast.model.json import Json, as_mapping
from holdfast.report import document
from holdfast.storage import open_store

Place = tuple[str, Mapping[str, str]]
_SCENARIOS = ("aggregate-rocksdb", "join-inner-hdfs", "kafka", "files-compact")
_SOME = [one for one in ONE_OF_EACH if one.scenario in _SCENARIOS]


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Place:
    """A fresh folder on a server."""
    return remote(request.getfixturevalue(request.param), "checkpoints/a b")


def uploaded(folder: Path, place: Place, name: str) -> str:
    """A copy of a local folder."""
    store = open_store(*place)
    for path in folder.rglob("*"):
        if path.is_file():
            store.write(f"{name}/{path.relative_to(folder)}", path.read_bytes())
    return f"{place[0]}/{name}"


def told(found: Evidence) -> Mapping[str, Json]:
    """The document, without what differs by where and when."""
    shown = dict(as_mapping(document.to_json(found)))
    for name in ("location", "looked_at", "files"):
        shown.pop(name)
    facts = dict(as_mapping(shown["evidence"]))
    batches = dict(as_mapping(shown["batches"]))
    facts.pop("checkpoint_location")
    batches.pop("recent")
    return {**shown, "evidence": facts, "batches": batches}


@pytest.mark.parametrize("golden", _SOME, ids=str)
def test_the_same_is_said_of_it(golden: Golden, place: Place) -> None:
    url = uploaded(golden.checkpoint, place, golden.scenario)
    found = evidence(url, place[1])
    assert told(found) == told(evidence(golden.checkpoint))
    assert len(rendered(found)) == 4
    detail = ops.inspect_batch(url, storage=place[1], event_log=None, batch=1, after=None)
    assert detail.sources


def test_records_and_rows(tmp_path: Path, place: Place) -> None:
    local = files.write(tmp_path / "c")
    url = uploaded(local, place, "base/c")
    uploaded(files.write(tmp_path / "d", planned=2, committed=1), place, "base/d")
    started = (
        '{"event":"started","at_ms":1767225600000,"run_id":"r","name":"c","sink":"S",'
        f'"output_mode":"append","query_id":"{files.QUERY_ID}","spark_version":"4.1.1"}}\n'
    )
    record = "base/.holdfast/c/runs/1767225600000-r/000000.jsonl"
    open_store(*place).write(record, started.encode())
    assert evidence(url, place[1]).output_mode == Known(
        value="append", read_from=(record.removeprefix("base/"),)
    )
    below = ops.inspect(
        f"{place[0]}/base", storage=place[1], event_log=None, now_ms=1, on_progress=lambda *_: None
    )
    assert isinstance(below, Checkpoints)
    assert [row.batches.last_committed for row in below.rows] == [2, 0]


def test_an_event_log_lies_there_too(tmp_path: Path, place: Place) -> None:
    location = files.write(tmp_path / "c")
    store = open_store(*place)
    started = '{"Event":"SparkListenerLogStart","Spark Version":"4.1.%d"}\n%s\n'
    event = (
        '{"Event":"org.apache.spark.sql.streaming.StreamingQueryListener$QueryStartedEvent",'
        f'"id":"{files.QUERY_ID}","runId":"0b6ee2c4-3a55-4a3c-9d5c-0e4f3cf1a111","name":"orders",'
        '"timestamp":"2026-01-01T00:00:00.000Z"}'
    )
    rolling, one = "events/eventlog_v2_app-1/events_1_app-1", "one/app-2"
    store.write(rolling, (started % (1, event)).encode())
    store.write(one, (started % (2, event)).encode())
    for at, version, path in (("events", "4.1.1", rolling), (one, "4.1.2", one)):
        found = evidence(location, place[1], event_log=f"{place[0]}/{at}").spark_version
        assert isinstance(found, Known)
        assert (found.value, [one.endswith(path) for one in found.read_from]) == (version, [True])
    with pytest.raises(EventLogUnreadable, match="nothing there"):
        evidence(location, place[1], event_log=f"{place[0]}/nowhere")


def test_what_is_not_there(place: Place) -> None:
    open_store(*place).write("table/_delta_log/00000000000000000000.json", b"{}")
    with pytest.raises(NotACheckpoint, match="a Delta table"):
        evidence(f"{place[0]}/table", place[1])
    with pytest.raises(LocationMissing):
        evidence(f"{place[0]}/nowhere", place[1])


@pytest.mark.prove
def test_storage_that_does_not_answer() -> None:
    options = {
        "aws_endpoint": "http://127.0.0.1:1",
        "aws_access_key_id": "x",
        "aws_secret_access_key": "x",
        "aws_region": "x",
        "aws_allow_http": "true",
    }
    with pytest.raises(StorageUnavailable):
        evidence("s3://lake/c", options)
