"""`holdfast diagnose` and `holdfast explain` as a user sees them: whole output and exit codes."""

import json
from pathlib import Path

from tests import checkpoint_files as files
from tests.commands import holdfast, started
from tests.diagnosing import diagnosed
from tests.golden import Golden, each

from holdfast.diagnose.explanations import EXPLANATIONS
from holdfast.model.finding import Code, Judgement
from holdfast.report import diagnosis


def test_the_whole_report(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders", planned=4, committed=4)
    (location / "offsets/3").unlink()
    done = started("diagnose", str(location), "--spark", "4.1")
    assert (done.returncode, done.stderr) == (1, "")
    after = "after the sink has written"
    assert done.stdout.splitlines()[:8] == [
        f"unsafe: a start fails at batch 2, {after}: `commits/2` is there before the batch has run",
        "",
        "Restart  Spark 4.1, as asked for",
        "  runs batch 2 again, over the same range",
        "  source 0 (Kafka or Event Hubs) orders-0: 20 → 30",
        "  source 0 (Kafka or Event Hubs) orders-1: 20 → 30",
        "  sink: unknown",
        (
            f"  fails at batch 2 with CONCURRENT_STREAM_LOG_UPDATE, {after}:"
            " `commits/2` is there before the batch has run"
        ),
    ]
    assert done.stdout.splitlines()[8:13] == [
        "",
        (
            "duplicates  COMMIT_AHEAD  Batch 3 is committed and the offset log ends at 2: a start"
            " runs batch 2 again, writes it to the sink, and then fails, at every start."
        ),
        (
            "            offsets/3: expected an offset entry for the committed batch 3,"
            " found none after `offsets/2`"
        ),
        "            → restore `offsets/3` from a copy of the checkpoint",
        (
            "            → or, if it cannot be had, remove `commits/3` with its hidden `.crc`:"
            " batch 2 then counts as the last one done, and what came after it is read again"
        ),
    ]


def test_for_programs(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders", committed=2)
    done = holdfast("diagnose", "--json", str(location))
    said = json.loads(done.stdout)
    assert (done.returncode, said["verdict"]) == (1, "undefined")
    assert set(said) == {
        "format", "holdfast_version", "location", "verdict", "restart", "findings", "not_assessed",
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
        "COMMIT_AHEAD\nThe commit log goes further than the offset log.\n"
    )
    assert "CONCURRENT_STREAM_LOG_UPDATE" in done.stdout
    done = holdfast("explain", "PENDING")
    assert done.returncode == 2
    assert "hint: holdfast explain PENDING_BATCH" in done.stderr


@each
def test_a_checkpoint_that_spark_left_at_rest_is_safe(golden: Golden) -> None:
    found = diagnosed(golden.checkpoint)
    assert diagnosis.of(found)
    assert list(diagnosis.lines(found))
    restart = found.restart
    if restart.error is None and not restart.rerun:
        assert found.judgement in (Judgement.SAFE, Judgement.UNDEFINED), found.findings
