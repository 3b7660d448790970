"""What `holdfast inspect` says: units, batches, times and columns, the same in every form."""

import importlib.resources
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.commands import holdfast, on_terminal
from tests.diagnosing import timed
from tests.golden import FOLDER, golden
from tests.json_schema import problems

from holdfast.decode import lease as lease_format
from holdfast.model.ids import Epoch, JobName
from holdfast.model.lease import Holder, Lease
from holdfast.report import markdown

SCHEMA = json.loads(
    importlib.resources.files("holdfast.report").joinpath("inspect.schema.json").read_text("utf-8")
)
FORMS = ((), ("--markdown",), ("--html",))
RATE = golden("4.3", "rate").checkpoint
KAFKA = golden("4.3", "kafka").checkpoint
JOIN = golden("4.3", "join-inner-changelog").checkpoint
NO_OFFSET = golden("4.3", "files-union-no-offset").checkpoint


def shown(location: Path | str, *arguments: str) -> str:
    """What the command writes."""
    done = holdfast("inspect", str(location), *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def parsed(location: Path | str, *arguments: str) -> dict[str, object]:
    """Its JSON, which is as its schema says."""
    found = json.loads(shown(location, "--json", *arguments))
    assert list(problems(found, SCHEMA, SCHEMA)) == []
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("form", FORMS)
def test_steps_of_a_source_are_not_called_rows(form: Sequence[str]) -> None:
    found = shown(RATE, *form)
    assert "2 offsets" in found
    assert "2 rows" not in found
    assert not re.search(r">\s*rows|\| rows", found, re.IGNORECASE)


def test_rows_and_what_offsets_number_are_two_things() -> None:
    recent = json.loads(shown(RATE, "--json"))["batches"]["recent"]
    assert [(one["rows"], one["records"], one["unit"]) for one in recent] == [
        (None, None, ""),
        (None, 2, "offsets"),
        (None, 2, "offsets"),
    ]


def test_the_first_batch_of_kafka_begins_where_kafka_says(tmp_path: Path) -> None:
    assert "  batch 0: 9 offsets\n" in shown(KAFKA, "--batch", "0")
    assert re.search(r"^ +0  \S+ \S+  committed  9 offsets ", shown(KAFKA), re.MULTILINE)
    # Without that file nobody knows.
    location = files.write(tmp_path / "c")
    assert re.search(r"^ +0  \S+ \S+  committed +- ", shown(location), re.MULTILINE)


@pytest.mark.parametrize("form", FORMS)
def test_the_time_of_one_copied_commit_is_not_taken_for_its_own(
    tmp_path: Path, form: Sequence[str]
) -> None:
    location = files.write(tmp_path / "c", planned=1, committed=1)
    at = (1_767_225_600_000 + 500) * 1_000_000
    os.utime(location / "commits/0", ns=(at, at))
    assert "500 ms" in shown(location, *form)
    for name in ("offsets/0", "commits/0"):
        os.utime(location / name)
    copied = shown(location, *form)
    assert not re.search(r"[\d.]+ (?:h|days|min|s|ms)\b", copied)
    recent = json.loads(shown(location, "--json"))["batches"]["recent"]
    assert [one["committed_at"] for one in recent] == [None]


@pytest.mark.parametrize("form", FORMS)
def test_a_source_says_of_which_batch_its_range_is(tmp_path: Path, form: Sequence[str]) -> None:
    location = files.write(tmp_path / "c", planned=6, committed=6)
    assert "batch 5: 20 offsets" in shown(location, *form)
    (location / "offsets/5").write_text("v1\n{")
    assert "batch 4: 20 offsets" in shown(location, *form)
    files.offsets(location, 5, 1_767_225_605_000)
    (location / "offsets/4").write_text("v1\n{")
    assert "batches 4 to 5: 40 offsets" in shown(location, *form)
    (source,) = json.loads(shown(location, "--json"))["sources"]
    assert (source["after"], source["batch"]) == (3, 5)


@pytest.mark.parametrize("form", FORMS)
def test_times_are_said_to_be_in_utc(tmp_path: Path, form: Sequence[str]) -> None:
    assert "planned (UTC)" in shown(KAFKA, *form)
    location = files.write(tmp_path / "base/c")
    files.offsets(location, 2, 1_767_225_602_000, {**files.SETTINGS, "spark.y": "2"})
    restarts = shown(location, *form)
    assert "UTC" in restarts[restarts.index("Restarts") :][:60]
    if form != ("--html",):
        assert "changed (UTC)" in shown(tmp_path / "base", *form)


def test_the_page_says_what_is_inferred_titles_its_charts_and_marks_code(tmp_path: Path) -> None:
    assert "<small>inferred: " in shown(KAFKA, "--html")
    assert "<h3>Bytes by partition and store</h3><svg" in shown(JOIN, "--html")
    assert "<h2>Offsets by batch</h2><svg" in shown(KAFKA, "--html")
    location = files.write(tmp_path / "c")
    (location / "metadata").write_text("no <JSON>")
    page = shown(location, "--html")
    assert "<code>metadata</code> cannot be read: <code>no &lt;JSON&gt;</code>" in page
    assert "<li>metadata: <code>no &lt;JSON&gt;</code>" in page
    assert "`" not in page


def test_the_page_calls_no_batch_pending_whose_time_is_not_known(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    timed(location)
    (location / "commits/1").unlink()
    page = shown(location, "--html")
    assert "batch 1: no commit" in page
    assert "batch 0: 900 ms" in page
    assert '<td class="careful">no commit</td>' in page


@pytest.mark.parametrize(("form", "named"), [((), 8), (("--markdown",), 20), (("--html",), 100)])
def test_all_that_is_not_of_the_checkpoint_is_counted(
    tmp_path: Path, form: Sequence[str], named: int
) -> None:
    location = files.write(tmp_path / "c")
    for number in range(130):
        (location / f"part-{number:05}.json").write_text("{}")
    page = shown(location, *form)
    assert "ot part of this checkpoint" in page
    assert page.count(".json") == named
    assert f"and {130 - named} more" in page


def test_markdown_shows_the_state_schema() -> None:
    page = shown(JOIN, "--markdown")
    assert "| store | column family | key | value |" in page
    assert "| left-keyToNumValues | default | field0 string | value bigint |" in page


def test_small_words(tmp_path: Path) -> None:
    none = shown(NO_OFFSET)
    assert "Source 1  no offset\n  batch 3\n" in none
    assert "  0 s\n" not in none
    assert "committed  1 log offset " in none
    one = shown(files.write(tmp_path / "one", planned=1, committed=1))
    assert "  (offsets/0)\n" in one
    assert "(offsets/0, offsets/0)" not in one
    old = files.write(tmp_path / "old")
    (old / "offsets/2").write_text('v1\n{"batchWatermarkMs":0,"batchTimestampMs":0}\n{"a":{"0":1}}')
    told = re.search(r"Spark version +(.*?)  \(", shown(old))
    assert told is not None
    assert re.fullmatch(r"\d\.\d or later", told[1])
    (tmp_path / "one/sources/0").mkdir(parents=True)
    (tmp_path / "one/sources/0/9.compact").write_text("v1\n")
    assert "1 compacted source log" in shown(tmp_path / "one")


def test_columns_are_aligned(tmp_path: Path) -> None:
    ranges = [line for line in shown(KAFKA).splitlines() if " → " in line]
    assert len({line.index("→") for line in ranges}) == len({len(line) for line in ranges}) == 1
    files.write(tmp_path / "a")
    files.write(tmp_path / "b")
    for path in (tmp_path / "b").rglob("*"):
        os.utime(path, (0, 0))
    _, head, *rows = shown(tmp_path).splitlines()
    assert {row.index("idle") for row in rows} == {head.index("status")}
    assert [row[head.index("changed") :][:1] for row in rows] == ["2", "-"]


@pytest.mark.parametrize("form", FORMS)
def test_what_a_terminal_would_obey_is_escaped(tmp_path: Path, form: Sequence[str]) -> None:
    location = files.write(tmp_path / "c\x1b[31m")
    entry = (location / "offsets/2").read_text().rpartition("\n")[0]
    topic = json.dumps({"a\x1b[2J\n\u202eb": {"0": 1}})
    (location / "offsets/2").write_text(f"{entry}\n{topic}")
    for arguments in (form, *([("--batch", "2")] if not form else [])):
        found = shown(location, *arguments)
        assert r"a\x1b[2J\n\u202eb-0" in found
        assert not re.search("[\x1b\u202e]", found)
    error = holdfast("inspect", str(tmp_path / "nowhere\x1b[2J")).stderr
    assert r"nowhere\x1b[2J" in error
    assert "\x1b" not in error


def test_every_json_is_as_the_schema_says_and_has_its_whole_location(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = files.write(tmp_path / "base/c", planned=4, committed=3)
    changed = {**files.SETTINGS, "spark.y": "2", "spark.password": "x"}
    files.offsets(location, 3, 1_767_225_603_000, changed)
    (location / "offsets/2").write_text("v1\n{")
    monkeypatch.chdir(tmp_path)
    for arguments in ((), ("--batch", "0"), ("--batch", "3"), ("--compare", "1:3")):
        assert parsed("base/c", *arguments)["location"] == str(location)
    files.write(tmp_path / "base/d", planned=0, committed=0)
    (tmp_path / "base/d/metadata").write_text("x")
    assert parsed("base")["location"] == str(tmp_path / "base")


def test_a_terminal_gets_lines_that_fit(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    command = [sys.executable, "-m", "holdfast", "inspect", str(location)]
    lines = on_terminal(command, "stdout", {"NO_COLOR": "1"}, columns=80).splitlines()
    assert max(len(line) for line in lines if str(location) not in line) <= 80
    history = next(at for at, line in enumerate(lines) if "no run record and no event log" in line)
    assert lines[history].startswith(" " * 24 + "inferred: ")
    assert re.match(r" {24}\S", lines[history + 1])


def test_a_long_word_begins_further_left_where_it_would_not_fit(tmp_path: Path) -> None:
    setting = "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled"
    location = files.write(tmp_path / "c")
    files.offsets(location, 2, 1_767_225_602_000, {**files.SETTINGS, setting: "true"})
    command = [sys.executable, "-m", "holdfast", "inspect", str(location)]
    lines = on_terminal(command, "stdout", {"NO_COLOR": "1"}, columns=80).splitlines()
    assert f"`{setting}`".rjust(80) in lines


def _partitions(location: Path, ends: Mapping[int, int]) -> Path:
    for batch in (0, 1):
        files.offsets(location, batch, 1_767_225_600_000)
    entry = (location / "offsets/2").read_text().rpartition("\n")[0]
    before = {"orders": {str(n): 100 for n in ends}}
    for batch, topics in ((1, before), (2, {"orders": {str(n): end for n, end in ends.items()}})):
        (location / f"offsets/{batch}").write_text(f"{entry}\n{json.dumps(topics)}")
    return location


@pytest.mark.parametrize("form", [(), ("--markdown",), ("--html",)])
def test_partitions_are_in_the_order_of_their_numbers(tmp_path: Path, form: Sequence[str]) -> None:
    location = _partitions(files.write(tmp_path / "c"), dict.fromkeys(range(12), 101))
    found = list(dict.fromkeys(re.findall(r"orders-\d+", shown(location, *form))))
    assert found == [f"orders-{n}" for n in range(8 if not form else 12)]


@pytest.mark.parametrize("form", [(), ("--markdown",)])
def test_a_partition_that_went_back_is_not_left_out(tmp_path: Path, form: Sequence[str]) -> None:
    ends = {**dict.fromkeys(range(40), 101), 33: 7}
    found = shown(_partitions(files.write(tmp_path / "c"), ends), *form)
    assert re.search(r"orders-33 .*went back", found)
    assert "more partitions" in found


@pytest.mark.parametrize("form", FORMS)
def test_a_driver_that_runs_is_in_every_form(tmp_path: Path, form: Sequence[str]) -> None:
    location = files.write(tmp_path / "c")
    lease = Lease(
        job=JobName("c"), epoch=Epoch(1), since_ms=1, heartbeat_ms=round(time.time() * 1000),
        holder=Holder(host="worker-7", pid=4711, process="p"), ttl_ms=600_000, released=False,
    )  # fmt: skip
    folder = tmp_path / ".holdfast/c/lease"
    folder.mkdir(parents=True)
    (folder / "000001.json").write_bytes(lease_format.encode(lease))
    found = shown(location, *form)
    assert "4711" in found
    assert "worker-7" in found
    if not form:
        assert found.splitlines()[1] == "A driver is running: process 4711 on worker-7"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("__dummy__ void", r"\_\_dummy\_\_ void"),
        ("spark_version a_b", "spark_version a_b"),
        ("Pattern[a.*|b.*]", r"Pattern[a.\*|b.\*]"),
        (r"C:\in\_x \a", r"C:\in\\\_x \a"),
        ("[a](b) ~~c~~ &amp; & d", r"[a\](b) \~\~c\~\~ &amp;amp; & d"),
        ("<b>`x`", r"&lt;b>\`x\`"),
    ],
)
def test_a_name_means_nothing_in_markdown(given: str, expected: str) -> None:
    assert markdown.format_literal(given) == expected


def test_markdown_tells_of_a_restart_what_the_text_does(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    files.offsets(location, 2, 1_767_225_602_000, {**files.SETTINGS, "spark.y": "2"})
    assert " settings changed, from batch 2: `spark.y` " in shown(location, "--markdown")


def test_a_folder_that_was_removed_is_said_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    done = holdfast("inspect", "c")
    assert done.returncode == 2
    assert done.stderr.startswith("LOCATION_MISSING: cannot resolve `c`: the current directory")


@pytest.mark.parametrize("columns", [60, 80])
def test_rows_of_a_folder_go_on_further_in(columns: int) -> None:
    command = [sys.executable, "-m", "holdfast", "inspect", str(FOLDER / "4.1.4/kafka")]
    shown = on_terminal(command, "stdout", {"NO_COLOR": "1"}, columns=columns)
    lines = shown[shown.index("  checkpoint ") :].splitlines()
    begun = [line for line in lines if re.match("  [^ ]", line)]
    assert [line.split()[0] for line in begun] == ["checkpoint", "checkpoint"]
    assert all(re.match(" {4}[^ ]", one) for one in lines if one not in begun)
    assert "" not in (line.strip() for line in lines)
