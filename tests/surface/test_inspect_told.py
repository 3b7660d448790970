"""What `holdfast inspect` says where something else tells it, or where it cannot be said."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.commands import holdfast

from holdfast.report.terminal import columns

LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
TRACEBACK = """\
py4j.Py4JException: An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/x/job.py", line 7, in write
    connect()
ValueError: cannot connect to <db>

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""  # noqa: E501
RANGES = (("--batch", "1"), ("--compare", "0:1"))


def shown(location: Path, *arguments: str) -> str:
    """What the command writes."""
    done = holdfast("inspect", str(location), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def record(location: Path, *events: dict[str, object]) -> None:
    """A run record beside a checkpoint, as holdfast writes it."""
    folder = location.parent / f".holdfast/{location.name}/runs/1767225600000-run"
    folder.mkdir(parents=True)
    started = {
        "event": "started", "at_ms": 1, "query_id": files.QUERY_ID, "run_id": "run", "name": "c",
        "sources": [],
    }  # fmt: skip
    (folder / "000000.jsonl").write_text(
        "".join(f"{json.dumps(one)}\n" for one in (started, *events))
    )


def event_log(path: Path, query: str = files.QUERY_ID) -> Path:
    """An event log of a query that reads Kafka."""
    progress = {
        "id": query, "runId": "r", "name": None, "timestamp": "2026-01-01T00:00:00.000Z",
        "batchId": 1, "numInputRows": 20, "stateOperators": [],
        "sources": [{"description": "KafkaV2[Subscribe[orders]]", "startOffset": None,
                     "endOffset": {"orders": {"0": 20, "1": 20}}, "numInputRows": 20}],
        "sink": {"description": "s"},
    }  # fmt: skip
    events = [
        {"Event": f"{LISTENER}QueryStartedEvent", "id": query, "runId": "r", "name": None,
         "timestamp": "2026-01-01T00:00:00.000Z"},
        {"Event": f"{LISTENER}QueryProgressEvent", "progress": progress},
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(one)}\n" for one in events))
    return path


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ((), "    ValueError: cannot connect to <db>\n"),
        (("--markdown",), " ValueError: cannot connect to &lt;db>\n"),
        (("--html",), "<small>ValueError: cannot connect to &lt;db&gt;</small>"),
    ],
)
def test_the_error_of_a_failed_run_is_the_one_of_python(
    tmp_path: Path, form: Sequence[str], line: str
) -> None:
    location = files.write(tmp_path / "c")
    record(location, {"event": "terminated", "at_ms": 2, "error": TRACEBACK})
    found = shown(location, *form)
    assert line in found
    assert "Python Proxy" not in found
    whole = json.loads(shown(location, "--json"))["evidence"]["restart_history"]["value"]
    assert [one["error"] for one in whole] == [TRACEBACK]


@pytest.mark.parametrize("asked", RANGES)
def test_an_event_log_names_the_sources_of_one_batch_and_two(
    tmp_path: Path, asked: Sequence[str]
) -> None:
    location, log = files.write(tmp_path / "c"), str(event_log(tmp_path / "log"))
    assert "Source 0  Kafka or Event Hubs\n" in shown(location, *asked)
    named = "Source 0  Kafka  KafkaV2[Subscribe[orders]]\n"
    assert named in shown(location, *asked, "--event-log", log)
    source: dict[str, object] = {"description": "KafkaV2[Subscribe[orders]]", "end": {}, "rows": 20}
    record(location, {"event": "progress", "at_ms": 2, "batch": 1, "rows": 20, "sources": [source]})
    assert named in shown(location, *asked)


@pytest.mark.parametrize("asked", RANGES)
def test_an_event_log_that_tells_nothing_is_told_of_by_one_batch_and_two(
    tmp_path: Path, asked: Sequence[str]
) -> None:
    location, log = files.write(tmp_path / "c"), event_log(tmp_path / "log", "another")
    reason = "the event log has only other queries"
    assert f"  {log}: {reason}\n" in shown(location, *asked, "--event-log", str(log))
    found = json.loads(shown(location, *asked, "--event-log", str(log), "--json"))
    assert found["unreadable"] == [{"path": str(log), "reason": reason}]
    done = holdfast("inspect", str(location), *asked, "--event-log", str(tmp_path / "nope"))
    assert done.returncode == 2
    assert done.stderr.startswith("EVENT_LOG_UNREADABLE: ")


def test_an_event_log_is_not_for_a_folder_of_checkpoints(tmp_path: Path) -> None:
    files.write(tmp_path / "a")
    files.write(tmp_path / "b")
    done = holdfast("inspect", str(tmp_path), "--event-log", "/nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"OPTION_INVALID: `--event-log` needs one checkpoint, but `{tmp_path}` contains 2",
        f"hint: show one checkpoint: `holdfast inspect {tmp_path}/a --event-log /nope`",
    ]


def test_a_commit_that_was_never_there_is_not_said_to_have_gone(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=3, committed=2)
    found = json.loads(shown(location, "--batch", "2", "--json"))
    assert (found["committed"], found["unreadable"]) == (False, [])


def test_nothing_lies_between_a_batch_and_itself(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=3, committed=2)
    said = "batch {} compared with itself, an empty range: {}\n"
    assert shown(location, "--compare", "1:1") == said.format(1, "committed")
    assert shown(location, "--compare", "2:2") == said.format(2, "pending")


@pytest.mark.parametrize("form", ["", "--json", "--markdown", "--html", "--batch 1"])
def test_a_full_disk_is_told_in_one_sentence(tmp_path: Path, form: str) -> None:
    location = files.write(tmp_path / "c", planned=120, committed=120)
    command = f"{sys.executable} -m holdfast inspect {location} {form} > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines() == [
        "REPORT_UNWRITTEN: cannot write the output to stdout: No space left on device",
        "hint: free some space, or redirect the output to a different place",
    ]
    assert done.returncode == 3


def test_wide_letters_are_aligned(tmp_path: Path) -> None:
    for name in ("a", "uni-ü漢🙂", "e\u0301"):
        files.write(tmp_path / name)
    _, head, *rows = shown(tmp_path).splitlines()
    starts = {columns.measure(row[: row.index(files.QUERY_ID)]) for row in rows}
    assert starts == {head.index("query id")}


def test_code_in_markdown_holds_any_path(tmp_path: Path) -> None:
    base = tmp_path / "base`s"
    location = files.write(base / "<b>x|`y`")
    (location / "offsets/2").write_text("v1\n<i>|")
    page = shown(location, "--markdown")
    assert page.startswith(f"# Checkpoint `` {location} ``\n")
    assert re.search(r"^- `offsets/2`: .*`<i>\|`", page, re.MULTILINE)
    rows = shown(base, "--markdown")
    assert rows.startswith(f"# 1 checkpoint below ``{base}``\n")
    assert "| `` <b>x\\|`y` `` | `" in rows
    facts = next(line for line in page.splitlines() if line.startswith("| checkpoint location"))
    assert "/base\\`s/&lt;b>x\\|\\`y\\`" in facts
