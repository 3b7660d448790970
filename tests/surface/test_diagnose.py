"""`holdfast diagnose` and `holdfast explain` as a user sees them: whole output and exit codes."""

import json
import re
import sys
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.commands import holdfast, on_terminal, started
from tests.diagnosing import codes, diagnosed, reading
from tests.golden import FOLDER, Golden, each

from holdfast.diagnose.explanations import EXPLANATIONS
from holdfast.model.finding import Code, Judgement
from holdfast.report import diagnosis
from holdfast.report.terminal import lines


def test_the_whole_report(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders", planned=4, committed=4)
    (location / "offsets/3").unlink()
    done = started("diagnose", str(location), "--spark", "4.1")
    assert (done.returncode, done.stderr) == (1, "")
    after = "after it has written to the sink"
    reason = "`commits/2` exists before the batch has run"
    assert done.stdout.splitlines()[:8] == [
        f"unsafe: a restart fails at batch 2, {after}: {reason}",
        "",
        "Restart  Spark 4.1, as requested",
        "  runs batch 2 again over the same range",
        "  source 0 (Kafka or Event Hubs) orders-0: 20 → 30",
        "  source 0 (Kafka or Event Hubs) orders-1: 20 → 30",
        "  sink: unknown",
        (
            f"  fails at batch 2 with CONCURRENT_STREAM_LOG_UPDATE, {after}:"
            " `commits/2` exists before the batch has run"
        ),
    ]
    assert done.stdout.splitlines()[8:13] == [
        "",
        (
            "duplicates  COMMIT_AHEAD  Every restart will run batch 2 again, write it to the sink,"
            " and then fail. Batch 3 is committed, but the offset log ends at 2."
        ),
        (
            "            offsets/3: expected an offset entry for the committed batch 3,"
            " found none after `offsets/2`"
        ),
        "            → restore `offsets/3` from a copy of the checkpoint",
        (
            "            → if you have no copy of the checkpoint, restore every table that the"
            " query writes to its state after batch 2 (in a database, together with the job's"
            " rows in `holdfast_ledger`); then remove `commits/3` with its hidden `.crc`: batch 2"
            " then counts as the last batch done, and Spark reads again what came after it"
        ),
    ]


def test_for_programs(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders", committed=2)
    done = holdfast("diagnose", "--json", str(location))
    said = json.loads(done.stdout)
    assert (done.returncode, said["verdict"]) == (1, "undefined")
    assert set(said) == {
        "format", "holdfast_version", "location", "verdict", "restart", "findings", "not_assessed",
        "spark_versions", "other_versions",
    }  # fmt: skip
    restart = said["restart"]
    assert (restart["batch"], restart["rerun"], restart["watermark_ms"]) == (2, True, 0)
    assert (restart["sink"], restart["error"]) == ([], None)
    assert restart["ranges"] == [
        {
            "source": "0",
            "kind": "Kafka",
            "or_kinds": ["Event Hubs"],
            "start": {"orders": {"0": 20, "1": 20}},
            "end": {"orders": {"0": 30, "1": 30}},
            "end_known": True,
            "partitions": [
                {"partition": "orders-0", "start": "20", "end": "30"},
                {"partition": "orders-1", "start": "20", "end": "30"},
            ],
        }
    ]
    assert [one["code"] for one in said["findings"]] == ["PENDING_BATCH", "STORAGE_EPHEMERAL"]
    assert all(set(one) == {"question", "reason"} for one in said["not_assessed"])


def test_exit_codes(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders")
    assert holdfast("diagnose", str(location)).returncode == 0
    assert holdfast("diagnose", str(tmp_path / "nothing")).returncode == 2
    (location / "commits/2").unlink()
    assert holdfast("diagnose", str(location)).returncode == 1
    done = holdfast("diagnose", str(location), "--spark", "2.4")
    assert (done.returncode, done.stderr.partition(":")[0]) == (2, "OPTION_INVALID")


def test_every_code_is_explained() -> None:
    assert set(EXPLANATIONS) == set(Code)
    for one in EXPLANATIONS.values():
        assert one.meaning
        assert one.causes
        assert one.cures
        assert one.spark


def test_explain() -> None:
    done = holdfast("explain", "commit_ahead")
    assert done.returncode == 0
    assert done.stdout.startswith(
        "COMMIT_AHEAD\nThe commit log is ahead of the offset log: batches are committed that"
        " have no offset entry.\n"
    )
    assert "CONCURRENT_STREAM_LOG_UPDATE" in done.stdout
    done = holdfast("explain", "lease_held")
    assert done.stdout == "LEASE_HELD\nAnother live driver runs this job.\n\nExit code 4\n"
    done = holdfast("explain", "PENDING")
    assert done.returncode == 2
    assert "hint: holdfast explain PENDING_BATCH" in done.stderr


@each
def test_a_checkpoint_that_spark_left_at_rest_is_safe(golden: Golden) -> None:
    found = diagnosed(golden.checkpoint)
    assert diagnosis.to_json(found)
    assert list(diagnosis.to_lines(found))
    restart = found.restart
    if restart.error is None and not restart.rerun:
        assert found.judgement in (Judgement.SAFE, Judgement.UNDEFINED), found.findings


@pytest.mark.parametrize(
    ("planned", "committed", "damaged", "removed"),
    [
        (5, 5, "offsets/4", ["offsets/4", "commits/4"]),
        (5, 5, "offsets/3", ["offsets/3", "offsets/4", "commits/3", "commits/4"]),
        (5, 4, "offsets/4", ["offsets/4"]),
        (5, 4, "offsets/3", ["offsets/3", "offsets/4", "commits/3"]),
        (5, 5, "commits/4", ["commits/4"]),
        (5, 4, "commits/3", ["commits/3"]),
    ],
)
def test_what_is_said_to_help_against_damage_does(
    tmp_path: Path, planned: int, committed: int, damaged: str, removed: list[str]
) -> None:
    location = files.write(tmp_path / "c", planned=planned, committed=committed)
    (location / damaged).write_text("")
    found = diagnosed(location)
    assert found.restart.error is not None
    cure = next(one for one in found.findings if one.code is Code.ENTRY_UNREADABLE)
    restore, remove = cure.remedies
    assert restore == f"restore `{damaged}` from a copy of the checkpoint"
    named = re.findall(r"`((?:offsets|commits)/\d)`(?: to `(?:offsets|commits)/(\d)`)?", remove)
    ranges = [(path[:-1], int(path[-1]), int(last or path[-1])) for path, last in named]
    told = [f"{log}{n}" for log, first, last in ranges for n in range(first, last + 1)]
    assert told == removed
    for path in told:
        (location / path).unlink()
    cured = diagnosed(location)
    assert cured.restart.error is None
    assert Code.COMMIT_AHEAD not in codes(cured)


def test_no_entry_is_to_be_removed_where_nothing_is_left_to_go_on_from(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=5, committed=5, first=3)
    (location / "offsets/4").write_text("")
    cure = next(one for one in diagnosed(location).findings if one.code is Code.ENTRY_UNREADABLE)
    assert cure.remedies == ("restore `offsets/4` from a copy of the checkpoint",)


def test_topics_and_folders_may_be_called_as_secrets_are(tmp_path: Path) -> None:
    ends = [{"auth-events": {"0": n, "1": n}, "tokens": {"0": n}} for n in (10, 20)]
    location = reading(tmp_path / "user-tokens", ends)
    (location / "commits/1").unlink()
    shown = lines.strip_styles(diagnosis.to_lines(diagnosed(location)))
    assert "(redacted)" not in shown
    for name in ("auth-events-0", "auth-events-1", "tokens-0"):
        assert f"  source 0 (Kafka or Event Hubs) {name}: 10 → 20\n" in shown
    assert f"{location}: expected storage that lasts" in shown


@each
def test_a_source_is_called_as_inspect_calls_it(golden: Golden) -> None:
    said = json.loads(holdfast("inspect", str(golden.checkpoint), "--json").stdout)["sources"]
    kinds = {one["name"]: (one["kind"], one["or_kinds"]) for one in said}
    ranges = json.loads(holdfast("diagnose", str(golden.checkpoint), "--json").stdout)["restart"]
    for one in ranges["ranges"]:
        assert (one["kind"], one["or_kinds"]) == kinds[one["source"]]


def test_a_finding_goes_on_below_its_code() -> None:
    location = str(FOLDER / "4.1.4/kafka/checkpoint")
    command = [sys.executable, "-m", "holdfast", "diagnose", location, "--set", "spark.x=1"]
    lines = on_terminal(command, "stdout", {"NO_COLOR": "1"}, columns=80).splitlines()
    for at, line in enumerate(lines):
        if re.match(r"[a-z]+ +[A-Z_]+  ", line):
            assert len(line) <= 80
            assert re.match(" {12}[^ ]", lines[at + 1])


def test_one_batch_that_is_taken_for_done(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=5, committed=3)
    (found,) = [o for o in diagnosed(location).findings if o.code is Code.BATCHES_SKIPPED]
    assert "treat batch 3 as done, although it is planned but not committed" in found.text
    look, back = found.remedies
    assert look == "check whether the sink has batch 3; if so, nothing is lost"
    assert "move `offsets/4` with its hidden `.crc` out of the checkpoint: a restart" in back
    assert "then runs batch 3 again" in back
