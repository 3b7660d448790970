"""What an event log tells of a checkpoint, and of which batch it tells it."""

import itertools
import json
import shutil
import time
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.formats import LISTENER
from tests.golden import golden
from tests.looking import evidence

from holdfast.gather import event_logs
from holdfast.model.batch import Unknown


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


def test_an_event_log_that_does_not_tell_the_output_mode_is_not_asked_for_again(
    tmp_path: Path,
) -> None:
    location = files.write(tmp_path / "c")
    silent = evidence(location).output_mode
    told = evidence(location, event_log=_log_of(tmp_path / "log", [{"batchId": 1}])).output_mode
    assert isinstance(silent, Unknown)
    assert isinstance(told, Unknown)
    assert silent.reason.endswith("`--event-log PATH` would")
    assert told.reason.endswith("what is told of its runs does not either")


def test_of_a_batch_that_ran_again_with_other_rows_the_later_run_counts(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    runs = [{"batchId": 1, **_sourced(100)}, {"batchId": 1, **_sourced(40)},
            {"batchId": 1, **_sourced(0)}]  # fmt: skip
    found = evidence(location, event_log=_log_of(tmp_path / "log", runs))
    assert found.timeline[1].rows == 40


def test_a_long_line_of_an_event_log_takes_no_longer_in_small_blocks() -> None:
    chunk = b"x" * (32 << 10)
    begun = time.perf_counter()
    lines = list(event_logs.lines(itertools.chain([b"a\nb"], [chunk] * 1500, [b"\nc\n\nd"])))
    assert [len(line) for line in lines] == [1, 1 + 1500 * len(chunk), 1, 0, 1]
    assert time.perf_counter() - begun < 3
    longest = [chunk] * (event_logs.LONGEST_LINE // len(chunk) + 1)
    assert list(event_logs.lines(itertools.chain([b"a\n"], longest, [b"\nb"]))) == [b"a", b"b"]
