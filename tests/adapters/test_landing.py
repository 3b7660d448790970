"""Landing files that a file source passes over: which are told, and which are none of it."""

import json
import os
import time
from pathlib import Path

import pytest
from tests.adapters.remotes import remote
from tests.diagnosing import LANDED_MS, codes, diagnosed, reading_files, recorded
from tests.servers import S3Server

from holdfast.gather.around import landing
from holdfast.model.finding import Code, Finding, Severity
from holdfast.storage import Children, open_reader, open_store

_DAY_MS = 86_400_000
_OLD_MS = LANDED_MS - 8 * _DAY_MS
_BOTH = {Code.SOURCE_FILES_REWRITTEN, Code.SOURCE_FILES_TOO_OLD}


def _put(path: Path, at_ms: int, text: str = "{}") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(at_ms * 1_000_000, at_ms * 1_000_000))
    return path


def _recorded(location: Path, reads: Path | str, **options: str) -> None:
    """A run record that tells what the source reads, and how."""
    source = {"name": "", "kind": "files", "target": str(reads), "options": options, "columns": []}
    recorded(
        location,
        sources=[f"FileStreamSource[file:{reads}]"],
        plan={"format": 1, "sources": [source]},
    )


def _found(location: Path) -> set[Code]:
    return codes(diagnosed(location)) & _BOTH


def _finding(location: Path, code: Code) -> Finding:
    (found,) = (one for one in diagnosed(location).findings if one.code is code)
    return found


@pytest.mark.parametrize(
    ("logged_ms", "modified_ns", "expected"),
    [
        (LANDED_MS, LANDED_MS * 1_000_000 + 999_999, set()),
        (LANDED_MS, (LANDED_MS + 1) * 1_000_000, {Code.SOURCE_FILES_REWRITTEN}),
        (LANDED_MS, (LANDED_MS - 1) * 1_000_000, {Code.SOURCE_FILES_REWRITTEN}),
        (LANDED_MS // 1000 * 1000, LANDED_MS * 1_000_000, set()),
        (LANDED_MS, LANDED_MS // 1000 * 1_000_000_000, set()),
        (LANDED_MS // 1000 * 1000, (LANDED_MS + 1000) * 1_000_000, {Code.SOURCE_FILES_REWRITTEN}),
    ],
)
def test_only_another_time_is_another_file(
    tmp_path: Path, logged_ms: int, modified_ns: int, expected: set[Code]
) -> None:
    location = reading_files(tmp_path / "c")
    entry = location / "sources/0/1"
    entry.write_text(entry.read_text().replace(str(LANDED_MS), str(logged_ms)))
    os.utime(tmp_path / "landing/1.json", ns=(modified_ns, modified_ns))
    assert _found(location) == expected


def test_what_the_batch_to_come_reads_is_not_lost(tmp_path: Path) -> None:
    location = reading_files(tmp_path / "c")
    (location / "commits/2").unlink()
    (tmp_path / "landing/2.json").write_text("{}")
    assert not _found(location)
    (tmp_path / "landing/1.json").write_text("{}")
    found = _finding(location, Code.SOURCE_FILES_REWRITTEN)
    assert [one.file for one in found.clues] == [str(tmp_path / "landing/1.json")]
    assert found.severity is Severity.UNDEFINED


def test_a_file_that_spark_has_forgotten_is_new_again(tmp_path: Path) -> None:
    location = reading_files(tmp_path / "c")
    entry = location / "sources/0/1"
    entry.write_text(entry.read_text().replace(str(LANDED_MS), str(_OLD_MS)))
    assert not _found(location)
    _put(tmp_path / "landing/1.json", _OLD_MS + 1)
    assert _found(location) == {Code.SOURCE_FILES_REWRITTEN}  # forgotten, and too old again


def test_files_gone_are_not_written_again(tmp_path: Path) -> None:
    location = reading_files(tmp_path / "c")
    for number in range(3):
        (tmp_path / f"landing/{number}.json").unlink()
    assert not _found(location)


def test_a_folder_of_another_machine_says_nothing_of_its_files(tmp_path: Path) -> None:
    """Its files are not known to be gone; those of a folder of one partition are."""
    location = reading_files(tmp_path / "c")
    (location / "commits/2").unlink()
    entry = location / "sources/0/2"
    entry.write_text(entry.read_text().replace("landing/2.json", "landing/day=2/2.json"))
    assert Code.SOURCE_FILES_GONE in codes(diagnosed(location))
    (tmp_path / "landing").rename(tmp_path / "on a laptop there is none")
    found = diagnosed(location)
    assert codes(found) == {Code.PENDING_BATCH}
    questions = {one.question: one.reason for one in found.not_assessed}
    assert questions["whether the files of the batch still exist"] == (
        f"their folder `{tmp_path / 'landing'}` is not on this machine"
    )


@pytest.mark.parametrize(
    ("name", "at_ms", "text", "expected"),
    [
        ("late.json", LANDED_MS - 7 * _DAY_MS, "{}", False),
        ("late.json", LANDED_MS - 7 * _DAY_MS - 1, "{}", True),
        ("late.json", LANDED_MS + _DAY_MS, "{}", False),
        ("late.json", _OLD_MS, "", False),
        ("_late.json", _OLD_MS, "{}", False),
        (".late.json", _OLD_MS, "{}", False),
        ("late.json._COPYING_", _OLD_MS, "{}", False),
        ("done/late.json", _OLD_MS, "{}", False),
        ("day=1/late.json", _OLD_MS, "{}", True),
        ("a b%.json", _OLD_MS, "{}", True),
    ],
)
def test_which_files_are_too_old(
    tmp_path: Path, name: str, at_ms: int, text: str, *, expected: bool
) -> None:
    location = reading_files(tmp_path / "c")
    _put(tmp_path / "landing" / name, at_ms, text)
    assert (_found(location) == {Code.SOURCE_FILES_TOO_OLD}) is expected
    _recorded(location, tmp_path / "landing", maxFilesPerTrigger="1")
    assert (_found(location) == {Code.SOURCE_FILES_TOO_OLD}) is expected


@pytest.mark.parametrize(
    ("reads", "options", "expected"),
    [
        ("landing", {"maxFileAge": "9d"}, False),
        ("landing", {"maxfileage": "191h"}, True),
        ("landing", {"maxFileAge": "691200000"}, False),
        ("landing", {"maxFileAge": "691199999ms"}, True),
        ("landing", {"latestFirst": "true"}, True),
        ("landing", {"latestFirst": "true", "maxBytesPerTrigger": "1g"}, False),
        ("landing", {"latestFirst": "false", "maxFilesPerTrigger": "1"}, True),
        ("landing", {"pathGlobFilter": "*.csv"}, False),
        ("landing", {"pathGlobFilter": "l*.json"}, True),
        ("landing/*.json", {}, True),
        ("landing/*.csv", {}, False),
        ("land*", {}, True),
    ],
)
def test_the_options_of_the_source_decide(
    tmp_path: Path, reads: str, options: dict[str, str], *, expected: bool
) -> None:
    location = reading_files(tmp_path / "c")
    _put(tmp_path / "landing/late.json", _OLD_MS)
    _recorded(location, tmp_path / reads, **options)
    assert (_found(location) == {Code.SOURCE_FILES_TOO_OLD}) is expected


def test_without_the_options_nothing_is_sure(tmp_path: Path) -> None:
    location = reading_files(tmp_path / "c")
    _put(tmp_path / "landing/late.json", _OLD_MS)
    found = _finding(location, Code.SOURCE_FILES_TOO_OLD)
    assert found.severity is Severity.UNDEFINED
    assert "no run record" in found.text
    _recorded(location, tmp_path / "landing")
    found = _finding(location, Code.SOURCE_FILES_TOO_OLD)
    assert found.severity is Severity.LOSES
    assert [one.file for one in found.clues] == [str(tmp_path / "landing/late.json")]


def test_one_file_of_the_future_makes_all_others_old(tmp_path: Path) -> None:
    location = reading_files(tmp_path / "c")
    entry = location / "sources/0/0"
    future_ms = LANDED_MS + 400 * _DAY_MS
    entry.write_text(entry.read_text().replace(str(LANDED_MS), str(future_ms)))
    _put(tmp_path / "landing/0.json", future_ms)
    _put(tmp_path / "landing/new.json", LANDED_MS + _DAY_MS)
    assert _found(location) == {Code.SOURCE_FILES_TOO_OLD}


def _why_not(location: Path) -> str:
    asked = "whether source 0 skips files that have landed"
    return " ".join(one.reason for one in diagnosed(location).not_assessed if one.question == asked)


def test_what_was_not_looked_at_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = reading_files(tmp_path / "c")
    assert not _why_not(location)
    monkeypatch.setattr(landing, "_MOST_LISTED", 2)
    (tmp_path / "landing/1.json").write_text("{}")
    assert "3 files" in _why_not(location)
    assert _found(location) == {Code.SOURCE_FILES_REWRITTEN}  # those read last are asked singly
    (tmp_path / "landing/_spark_metadata").mkdir()
    assert "Spark's file sink" in _why_not(location)
    (tmp_path / "landing").rename(tmp_path / "moved")
    assert "does not exist" in _why_not(location)
    entry = location / "sources/0/1"
    entry.write_text(entry.read_text().replace("file:///", "s3a://bucket/"))
    assert "not on this machine" in _why_not(location)
    entry.write_text("v1\n{}")
    assert "cannot be read" in _why_not(location)
    monkeypatch.setattr(landing, "_MOST_ENTRIES", 2)
    assert "3 entries" in _why_not(location)


def test_a_pattern_of_hadoop_alone_is_not_guessed_at(tmp_path: Path) -> None:
    location = reading_files(tmp_path / "c")
    _put(tmp_path / "landing/late.json", _OLD_MS)
    _recorded(location, f"{tmp_path}/landing/{{a,b}}*.json")
    assert not _found(location)
    assert any("pattern" in one.reason for one in diagnosed(location).not_assessed)


def test_a_compacted_log_names_what_was_read_long_ago(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = reading_files(tmp_path / "c", batches=12, listed=12)
    lines = [
        json.dumps({"path": f"file://{_put(tmp_path / f'landing/{number}', _OLD_MS)}",
                    "timestamp": _OLD_MS, "batchId": 0}, separators=(",", ":"))
        for number in range(500)
    ]  # fmt: skip
    own = [(location / f"sources/0/{number}").read_text()[3:] for number in range(10)]
    (location / "sources/0/9.compact").write_text("\n".join(["v1", *lines, *own]))
    (location / "sources/0/9").unlink()
    assert not _found(location)
    _put(tmp_path / "landing/late", _OLD_MS)
    assert _found(location) == {Code.SOURCE_FILES_TOO_OLD}
    monkeypatch.setattr(landing, "_MOST_LOG", 2000)
    assert not _found(location)
    assert "log is long" in _why_not(location)
    (tmp_path / "landing/11.json").write_text("{}")
    assert _found(location) == {Code.SOURCE_FILES_REWRITTEN}


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_landing_folder_in_the_bucket_of_the_checkpoint(s3: S3Server, tmp_path: Path) -> None:
    base, storage = remote(s3, "base")
    store = open_store(base, storage)
    location = reading_files(tmp_path / "c")
    for number in range(3):
        store.write(f"landing/{number}.json", b"{}")
    listed = open_reader(base, storage).children("landing")
    assert isinstance(listed, Children)
    times = {file.name: file.modified_ms for file in listed.files}
    for path in (one for one in location.rglob("*") if one.is_file()):
        text = path.read_text().replace(f"file://{tmp_path}", base.replace("s3:", "s3a:"))
        text = text.replace(str(LANDED_MS), str(times.get(f"{path.name}.json", 0)))
        store.write(f"c/{path.relative_to(location)}", text.encode())

    def found() -> set[Code]:
        return codes(diagnosed(f"{base}/c", storage=storage)) & _BOTH

    assert not found()
    time.sleep(1.1)
    store.write("landing/1.json", b"{}")
    assert found() == {Code.SOURCE_FILES_REWRITTEN}
    future_ms = times["2.json"] + 8 * _DAY_MS
    entry = store.read("c/sources/0/2")
    assert isinstance(entry, bytes)
    store.write("c/sources/0/2", entry.replace(str(times["2.json"]).encode(), b"%d" % future_ms))
    store.write("landing/late.json", b"{}")
    assert found() == _BOTH
