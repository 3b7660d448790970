"""What an event log tells of a checkpoint, and of which batch it tells it."""

import itertools
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed
from tests.formats import LISTENER
from tests.golden import Golden, golden
from tests.looking import evidence, rendered

from holdfast.gather.history import event_logs
from holdfast.model.evidence import RestartSign
from holdfast.model.fact import Absent, Known, Unknown
from holdfast.model.finding import Code, Judgement


def _log_of(place: Path, progress_: list[dict[str, object]]) -> str:
    """A plain event log of runs, each with one progress."""
    told = {"durationMs": {}, "sources": [], "sink": {}, "timestamp": "2026-01-01T00:00:01Z"}
    events: list[dict[str, object]] = [{"Event": "SparkListenerLogStart", "Spark Version": "4.1.1"}]
    for number, one in enumerate(progress_):
        ids = {"id": files.QUERY_ID, "runId": f"6a1f7f2e-2f6b-4a94-8b1d-94b1de3a2c5{number}"}
        events += [
            {"Event": f"{LISTENER}QueryStartedEvent", **ids, "timestamp": told["timestamp"]},
            {"Event": f"{LISTENER}QueryProgressEvent", "progress": {**told, **ids, **one}},
        ]
    place.write_text("".join(json.dumps(one) + "\n" for one in events))
    return str(place)


def _sourced(rows: int) -> dict[str, object]:
    return {"sources": [{"description": "", "endOffset": "{}", "numInputRows": rows}]}


@pytest.mark.parametrize(
    ("batch", "read", "rows"),
    [
        (0, 1, 40),
        (0, 0, 40),  # a batch without data, which ran
        (1, 0, 40),  # none, in a query that waits
        (1, 1, None),
        (-2, 1, None),
        (-1, 0, None),
        (5, 0, None),
    ],
)
def test_rows_of_the_state_are_told_only_by_the_last_batch(
    tmp_path: Path, batch: int, read: int, rows: int | None
) -> None:
    location = shutil.copytree(golden("4.1", "aggregate-hdfs").checkpoint, tmp_path / "c")
    (location / "metadata").write_text(json.dumps({"id": files.QUERY_ID}))
    last = evidence(location).batches.last_committed
    assert last is not None
    state = {"stateOperators": [{"operatorName": "stateStoreSave", "numRowsTotal": 40}]}
    told = {"batchId": last + batch, **state, **_sourced(read)}
    (found,) = evidence(location, event_log=_log_of(tmp_path / "log", [told])).operators
    assert (found.rows if isinstance(found.rows, int) else None) == rows


def _as_reported(one: Golden, place: Path) -> tuple[Path, str]:
    """A golden checkpoint, and an event log of the progress that Spark has reported of it."""
    location = shutil.copytree(one.checkpoint, place / "c")
    (location / "metadata").write_text(json.dumps({"id": files.QUERY_ID}))
    told = [
        {name: value for name, value in report.items() if name not in ("id", "runId", "timestamp")}
        for report in one.progress
    ]
    return location, _log_of(place / "log", told)


@pytest.mark.parametrize(
    ("version", "scenario", "name"),
    [
        ("3.2", "flat-map-groups-hdfs", "flatMapGroupsWithState"),
        ("3.5", "flat-map-groups-hdfs", "flatMapGroupsWithState"),
        ("3.5", "map-groups-changelog", "flatMapGroupsWithState"),
        ("3.5", "apply-in-pandas-hdfs", "applyInPandasWithState"),
    ],
)
def test_an_event_log_names_the_operator_that_no_file_names(
    version: str, scenario: str, name: str, tmp_path: Path
) -> None:
    one = golden(version, scenario)
    location, log = _as_reported(one, tmp_path)
    (unnamed,) = evidence(location).operators
    assert isinstance(unnamed.name, Unknown)
    assert isinstance(unnamed.rows, Unknown)
    found = evidence(location, event_log=log)
    (operator,) = found.operators
    assert isinstance(operator.name, Known)
    assert (operator.name.value, operator.name.read_from) == (name, (log,))
    assert operator.name.inferred.endswith("; its runs report this name")  # Spark cannot check it
    assert operator.rows == _state_operators(one)[0]["numRowsTotal"]
    fact = found.stateful_operators
    assert isinstance(fact, Known)
    assert (fact.value, fact.read_from) == ((name,), (log,))


def _state_operators(one: Golden) -> list[dict[str, object]]:
    reported = list(one.progress)[-1]["stateOperators"]
    assert isinstance(reported, list)
    return reported


@pytest.mark.parametrize(
    ("version", "scenario", "reported", "name"),
    [
        ("2.4", "flat-map-groups-hdfs", None, None),
        ("2.4", "join-inner-hdfs", None, "symmetricHashJoin"),
        ("3.5", "session-window-hdfs", "defaultName", "sessionWindowStateStoreSaveExec"),
    ],
)
def test_rows_of_the_only_operator_are_told_whatever_its_name(
    version: str, scenario: str, reported: str | None, name: str | None, tmp_path: Path
) -> None:
    one = golden(version, scenario)
    location, log = _as_reported(one, tmp_path)
    (told,) = _state_operators(one)
    assert told.get("operatorName") == reported
    (operator,) = evidence(location, event_log=log).operators
    assert (operator.name.value if isinstance(operator.name, Known) else None) == name
    assert operator.rows == told["numRowsTotal"]


_JOIN, _OWN = "symmetricHashJoin", "flatMapGroupsWithState"


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ((_OWN, _JOIN, _OWN), _OWN),
        ((_OWN, _JOIN, "stateStoreSave"), None),
        ((_OWN, _OWN, _OWN), None),
        ((_OWN, _JOIN), None),
        (("", _JOIN, ""), None),
    ],
)
def test_of_several_operators_an_event_log_names_those_that_it_cannot_mix_up(
    reported: tuple[str, ...], name: str | None, tmp_path: Path
) -> None:
    location = files.write(tmp_path / "c")
    files.state(location, range(1, 4))
    shutil.copytree(location / "state/0", location / "state/1")
    shutil.copytree(location / "state/0/0", location / "state/2/0/left-keyToNumValues")
    state = [{"operatorName": one, "numRowsTotal": 7} for one in reported]
    log = _log_of(tmp_path / "log", [{"batchId": 2, "stateOperators": state, **_sourced(1)}])
    found = [one.name for one in evidence(location, event_log=log).operators]
    told = [one.value if isinstance(one, Known) else None for one in found]
    assert told == [name, name, _JOIN]


def test_an_event_log_that_does_not_tell_the_output_mode_is_not_asked_for_again(
    tmp_path: Path,
) -> None:
    location = files.write(tmp_path / "c")
    silent = evidence(location).output_mode
    told = evidence(location, event_log=_log_of(tmp_path / "log", [{"batchId": 1}])).output_mode
    assert isinstance(silent, Unknown)
    assert isinstance(told, Unknown)
    assert silent.reason.endswith("`--event-log PATH` would")
    assert told.reason.endswith("and neither do the records and logs of its runs")


def test_of_a_batch_that_ran_again_with_other_rows_the_later_run_counts(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    runs = [{"batchId": 1, **_sourced(100)}, {"batchId": 1, **_sourced(40)},
            {"batchId": 1, **_sourced(0)}]  # fmt: skip
    found = evidence(location, event_log=_log_of(tmp_path / "log", runs))
    assert found.timeline[1].rows == 40


def test_of_a_log_of_many_batches_only_those_of_the_offset_log_are_kept(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=30, committed=30, first=20)
    runs = [{"batchId": batch, **_sourced(batch + 1)} for batch in range(40)]
    found = evidence(location, event_log=_log_of(tmp_path / "log", runs))
    assert set(found.recorded_ends) == set(range(20, 30))
    assert [one.rows for one in found.timeline] == list(range(21, 31))


def test_a_long_line_of_an_event_log_takes_no_longer_in_small_blocks() -> None:
    chunk = b"x" * (32 << 10)
    begun = time.perf_counter()
    lines = list(event_logs.split_lines(itertools.chain([b"a\nb"], [chunk] * 1500, [b"\nc\n\nd"])))
    assert [len(line) for line in lines] == [1, 1 + 1500 * len(chunk), 1, 0, 1]
    assert time.perf_counter() - begun < 3
    longest = [chunk] * (event_logs.LONGEST_LINE // len(chunk) + 1)
    assert list(event_logs.split_lines(itertools.chain([b"a\n"], longest, [b"\nb"]))) == [
        b"a",
        b"b",
    ]


_RUNS = tuple(f"6a1f7f2e-2f6b-4a94-8b1d-94b1de3a2c5{number}" for number in range(3))


def _started(query: str, run: str, day: int) -> dict[str, object]:
    ids = {"id": query, "runId": run, "name": None}
    at = f"2026-01-0{day}T00:00:00.000Z"
    return {"Event": f"{LISTENER}QueryStartedEvent", **ids, "timestamp": at}


def _progressed(query: str, run: str, day: int, sink: str) -> dict[str, object]:
    told = {"id": query, "runId": run, "batchId": 1, "timestamp": f"2026-01-0{day}T00:00:01.000Z"}
    known = {"durationMs": {}, "sources": [], "sink": {"description": sink}}
    return {"Event": f"{LISTENER}QueryProgressEvent", "progress": {**told, **known}}


def _logged(place: Path, version: str, *events: dict[str, object]) -> str:
    head = {"Event": "SparkListenerLogStart", "Spark Version": version}
    place.write_text("".join(json.dumps(one) + "\n" for one in (head, *events)))
    return str(place)


def _ran(query: str, run: str, day: int, sink: str) -> tuple[dict[str, object], ...]:
    return _started(query, run, day), _progressed(query, run, day, sink)


def _record(location: Path, run: str, at_ms: int, sink: str) -> None:
    told = {"event": "started", "at_ms": at_ms, "run_id": run, "name": "c", "sink": sink,
            "output_mode": "append", "query_id": files.QUERY_ID,
            "spark_version": "3.5.1"}  # fmt: skip
    place = location.parent / f".holdfast/{location.name}/runs/{at_ms}-{run}"
    place.mkdir(parents=True)
    (place / "000000.jsonl").write_text(json.dumps(told) + "\n")


@pytest.mark.parametrize(("logs", "wanted", "told"), [(50, 0, 0), (51, 50, 1), (51, 0, 2)])
def test_older_logs_that_were_not_read_are_told(
    tmp_path: Path, logs: int, wanted: int, told: int
) -> None:
    location = files.write(tmp_path / "c")
    folder = tmp_path / "logs"
    folder.mkdir()
    ran = _ran(files.QUERY_ID, _RUNS[0], 1, "FileSink[/1]")
    for number in range(logs):
        _logged(folder / f"local-{number}", "4.1.1", *(ran if number == wanted else ()))
        os.utime(folder / f"local-{number}", (number, number))
    found = evidence(location, event_log=str(folder))
    assert isinstance(found.sink, Known) == (told < 2)
    reasons = [one.reason for one in found.unreadable if one.path == str(folder)]
    assert len(reasons) == told
    if told:
        assert reasons[-1].startswith(
            "only the newest 50 of its 51 event logs were read; to read an older"
        )
        assert all(
            "only the newest 50 of its 51 event logs" in " ".join(one.split())
            for one in rendered(found)
        )


@pytest.mark.parametrize("days", [(1, 2), (2, 1)])
def test_what_several_runs_tell_is_that_of_the_newest(
    tmp_path: Path, days: tuple[int, int]
) -> None:
    location = files.write(tmp_path / "c")
    ran = [
        event
        for run, day in zip(_RUNS[:2], days, strict=True)
        for event in _ran(files.QUERY_ID, run, day, f"FileSink[/{day}]")
    ]
    found = evidence(location, event_log=_logged(tmp_path / "log", "4.1.1", *ran))
    assert isinstance(found.sink, Known)
    assert found.sink.value == "FileSink[/2]"
    assert isinstance(found.restart_history, Known)
    times = [start.at_ms for start in found.restart_history.value]
    assert times == sorted(times, key=str)


@pytest.mark.parametrize(
    ("recorded_at", "newest"), [(1_767_139_200_000, "log"), (1_767_600_000_000, "record")]
)
def test_records_and_an_event_log_are_laid_over_one_another_by_time(
    tmp_path: Path, recorded_at: int, newest: str
) -> None:
    location = files.write(tmp_path / "c")
    _record(location, _RUNS[0], recorded_at, "record")
    log = _logged(tmp_path / "log", "4.0.1", *_ran(files.QUERY_ID, _RUNS[1], 2, "log"))
    found = evidence(location, event_log=log)
    assert isinstance(found.sink, Known)
    assert isinstance(found.spark_version, Known)
    assert isinstance(found.output_mode, Known)
    assert isinstance(found.restart_history, Known)
    assert found.sink.value == newest
    assert found.spark_version.value == {"log": "4.0.1", "record": "3.5.1"}[newest]
    assert found.output_mode.value == "append"  # which the log does not tell
    assert len(found.restart_history.value) == 2


def test_what_a_record_and_an_event_log_tell_of_one_run_is_one_start(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    _record(location, _RUNS[0], 1_767_225_600_000, "record")
    log = _logged(tmp_path / "log", "3.5.1", *_ran(files.QUERY_ID, _RUNS[0], 1, "log"))
    found = evidence(location, event_log=log)
    assert isinstance(found.sink, Known)
    assert isinstance(found.restart_history, Known)
    assert found.sink.value == "record"
    (start,) = found.restart_history.value
    assert (start.sign, start.first_batch) == (RestartSign.RECORDED, 1)


@pytest.mark.parametrize("others", [1, 2])
def test_a_query_that_nothing_ties_to_the_checkpoint_is_not_taken_for_its_own(
    tmp_path: Path, others: int
) -> None:
    location = files.write(tmp_path / "c")
    (location / "metadata").unlink()
    ran = [event for run in _RUNS[:others] for event in _ran(f"query of {run}", run, 1, "foreign")]
    found = evidence(location, event_log=_logged(tmp_path / "log", "4.1.1", *ran))
    assert isinstance(found.query_id, Absent)
    assert isinstance(found.sink, Unknown)
    assert "which of its queries belongs to this checkpoint" in found.sink.reason


def test_a_plan_that_names_the_location_ties_its_query_to_the_checkpoint(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    (location / "metadata").unlink()
    state = f"state info [ checkpoint = file:{location}/state, runId = {_RUNS[1]}, opId = 0 ]"
    planned = {
        "Event": "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "executionId": 1,
        "description": f"q\nid = {files.QUERY_ID}\nrunId = {_RUNS[1]}\nbatch = 1",
        "sparkPlanInfo": {"nodeName": "StateStoreSave", "simpleString": f"StateStoreSave {state}"},
        "time": 1,
    }
    ran = (*_ran("another", _RUNS[0], 2, "foreign"), *_ran(files.QUERY_ID, _RUNS[1], 1, "own"))
    found = evidence(location, event_log=_logged(tmp_path / "log", "4.1.1", *ran, planned))
    assert isinstance(found.query_id, Known)
    assert isinstance(found.sink, Known)
    assert (found.query_id.value, found.sink.value) == (files.QUERY_ID, "own")
    assert found.query_id.inferred.endswith("whose plan names this checkpoint location")


def test_a_log_that_begins_in_the_middle_of_a_run_tells_of_it(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    middle = _progressed(files.QUERY_ID, _RUNS[0], 1, "own")
    found = evidence(location, event_log=_logged(tmp_path / "log", "4.1.1", middle))
    assert isinstance(found.sink, Known)
    assert isinstance(found.restart_history, Known)
    assert found.sink.value == "own"
    (start,) = found.restart_history.value
    assert isinstance(start.at_ms, Unknown)
    assert start.first_batch is None
    assert start.note == f"run `{_RUNS[0]}`, whose start is not recorded"


@pytest.mark.parametrize(
    ("scenario", "name", "condition"),
    [
        ("aggregate-complete-hdfs", "stateStoreSave", "CANNOT_READ_DELTA_FILE_NOT_EXISTS"),
        ("aggregate-complete-changelog", "stateStoreSave", "CANNOT_READ_STREAMING_STATE_FILE"),
        ("join-inner-hdfs", "symmetricHashJoin", "CANNOT_READ_DELTA_FILE_NOT_EXISTS"),
    ],
)
def test_state_that_was_deleted_is_told_by_what_its_runs_report(
    tmp_path: Path, scenario: str, name: str, condition: str
) -> None:
    location, log = _as_reported(golden("4.1", scenario), tmp_path)
    shutil.rmtree(location / "state")
    assert all(isinstance(one.name, Unknown) for one in evidence(location).operators)
    found = evidence(location, event_log=log)
    reason = "nothing is left in the folder `state`; its runs report this name"
    assert found.stateful_operators == Known(value=(name,), read_from=(log,), inferred=reason)
    document, *others = rendered(found)
    assert "'partitions': 0" in document
    assert all("state is missing, no batch can be restored" in one for one in others)
    told = diagnosed(location, event_log=log)
    assert Code.STATE_MISSING in codes(told)
    assert Code.OPERATORS_UNCHECKED not in codes(told)
    assert told.judgement is Judgement.UNSAFE
    assert told.restart.error is not None
    assert told.restart.error.condition == f"CANNOT_LOAD_STATE_STORE.{condition}"


def test_no_state_is_no_loss_where_none_was_reported(tmp_path: Path) -> None:
    location, _ = _as_reported(golden("4.1", "aggregate-complete-hdfs"), tmp_path)
    shutil.rmtree(location / "state")
    for operators in ([], [{"operatorName": "stateStoreSave", "numRowsTotal": 0}]):
        told = {"batchId": 5, "stateOperators": operators, **_sourced(1)}
        log = _log_of(tmp_path / "log", [told])
        assert isinstance(evidence(location, event_log=log).stateful_operators, Absent)
        assert Code.STATE_MISSING not in codes(diagnosed(location, event_log=log))
