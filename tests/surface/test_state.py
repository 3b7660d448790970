"""`holdfast state` as a user sees it: what is refused without Spark, and what is shown with it."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.commands import holdfast, started
from tests.golden import golden

SNAPSHOTS_ONLY = golden("4.1", "aggregate-rocksdb").checkpoint
JOIN = golden("4.1", "join-inner-hdfs").checkpoint


@pytest.mark.parametrize(
    ("arguments", "found", "hint"),
    [
        (
            ("--batch", "99"),
            (
                "the state of batch 99 cannot be read, because batch 99 has not run yet; readable"
                " batches: 5-8"
            ),
            "--batch 8",
        ),
        (
            ("--batch", "9"),
            (
                "the state of batch 9 cannot be read, because batch 9 is planned but not committed;"
                " readable batches: 5-8"
            ),
            "--batch 8",
        ),
        (
            ("--batch", "4"),
            "the state of batch 4 cannot be read; readable batches: 5-8",
            "--batch 8",
        ),
        (
            ("--batch", "3"),
            "the state of batch 3 cannot be read; readable batches: 5-8",
            "--batch 8",
        ),
        (
            ("--changes", "6:99"),
            (
                "the changes of batches 6 to 99 cannot be read, because batch 99 has not run yet;"
                " readable batches: 6-8"
            ),
            "--changes 6:8",
        ),
        (
            ("--changes", "2:7"),
            "the changes of batches 2 to 7 cannot be read; readable batches: 6-8",
            "--changes 6:8",
        ),
    ],
)
def test_a_batch_without_state_is_refused_at_once(
    tmp_path: Path, arguments: tuple[str, ...], found: str, hint: str
) -> None:
    location = files.write(tmp_path / "my orders", first=4, planned=10, committed=9)
    files.state(location, range(7, 11))
    for partition in range(2):
        (location / f"state/0/{partition}/6.snapshot").write_bytes(b"x")
    done = holdfast("state", str(location), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first == f"STATE_UNREADABLE: {found}"
    assert second == f"hint: run `holdfast state '{location}' --operator 0 {hint}`"


def test_inspect_and_state_name_the_same_batches() -> None:
    location = str(golden("4.3", "purged-hdfs").checkpoint)
    done = holdfast("state", location, "--batch", "5")
    assert done.stderr.splitlines()[0].endswith("batch 5 cannot be read; readable batches: 7-9")
    assert "restorable batches 7 to 9\n" in holdfast("inspect", location).stdout


def test_a_batch_whose_entry_is_torn_is_refused_at_once(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    files.state(location, range(1, 4))
    (location / "offsets/1").write_text("v1\n{")
    done = holdfast("state", str(location), "--batch", "1")
    assert done.stderr.splitlines()[0].endswith("batch 1 cannot be read; readable batches: 0, 2")


def test_state_that_one_partition_lacks_is_no_state(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    files.state(location, range(1, 4))
    (location / "state/0/1/1.delta").unlink()
    done = holdfast("state", str(location))
    first, second = done.stderr.splitlines()
    assert first.endswith("batch 2 cannot be read; readable batches: none")
    assert second == f"hint: find out what happened to the state: `holdfast diagnose {location}`"


@pytest.mark.parametrize(
    ("arguments", "found"), [((), "batch 5"), (("--changes", "0:2"), "0 to 2")]
)
def test_state_without_one_of_its_partitions_is_not_shown_as_if_it_were_all(
    tmp_path: Path, arguments: tuple[str, ...], found: str
) -> None:
    location = tmp_path / "c"
    shutil.copytree(golden("4.1", "aggregate-hdfs").checkpoint, location)
    shutil.rmtree(location / "state/0/1")
    done = holdfast("state", str(location), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    first, second = done.stderr.splitlines()
    assert first.endswith(
        f"{found} cannot be read; readable batches: none, because `state/0/1` has no files"
    )
    assert second == f"hint: find out what happened to the state: `holdfast diagnose {location}`"


def test_changes_that_no_store_has_kept(tmp_path: Path) -> None:
    done = holdfast("state", str(SNAPSHOTS_ONLY), "--changes", "1:3")
    first, second = done.stderr.splitlines()
    assert first == (
        "STATE_UNREADABLE: the changes of batches 1 to 3 were not kept, only snapshots: changes"
        " are kept by the HDFS-backed state store, and by RocksDB with its changelog"
    )
    assert second.endswith("--operator 0 --batch 3`")
    files.write(tmp_path / "c")
    assert (
        holdfast("state", str(tmp_path / "c")).stderr.splitlines()[0].endswith("with state: none")
    )


def test_changes_of_a_join() -> None:
    done = holdfast("state", str(JOIN), "--changes", "0:1")
    assert "cannot read the changes of a join (operator 0), only its rows" in done.stderr
    assert done.stderr.splitlines()[1].endswith("--batch 1`")


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("--changes", "3:1"), "swap the two: `--changes 1:3`"),
        (("--changes", "3"), "use `--batch N` for one batch or `--changes FROM:TO` for two"),
        (("--changes", "1:3", "--batch", "2"), "use either `--batch N` or `--changes FROM:TO`"),
    ],
)
def test_batches_that_cannot_be_meant(
    tmp_path: Path, arguments: tuple[str, ...], hint: str
) -> None:
    done = holdfast("state", str(files.write(tmp_path / "c")), *arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("OPTION_INVALID: `--changes ")
    assert done.stderr.splitlines()[1] == f"hint: {hint}"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "form", ["--json", pytest.param("", marks=pytest.mark.prove)], ids=["json", "text"]
)
def test_what_is_shown_says_what_it_is(form: str) -> None:
    location = golden("4.1", "aggregate-hdfs").checkpoint
    named = os.path.relpath(location)
    done = started("state", named, "--limit", "2", *([form] if form else []))
    assert (done.returncode, done.stderr) == (0, "")
    if not form:
        first, heads, *rows, last = done.stdout.splitlines()
        assert first == "operator 0 (stateStoreSave), after batch 5"
        assert heads.split() == ["partition", "key", "value"]
        assert len(rows) == 2
        assert last == "more rows exist than `--limit 2`; show more with `--limit 20`"
        return
    shown = json.loads(done.stdout)
    rows = shown.pop("rows")
    assert shown == {
        "format": 1,
        "location": str(location),
        "operator": 0,
        "name": "stateStoreSave",
        "batch": 5,
        "changes": None,
        "limit": 2,
        "cut": True,
    }
    assert [row["batch"] for row in rows] == [5, 5]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("ending", "after"),
    [
        (signal.SIGTERM, 1.0),
        *(pytest.param(signal.SIGINT, s, marks=pytest.mark.prove) for s in (0.0, 1.0, 3.0, 5.0)),
    ],
)
def test_it_is_ended_quietly_and_leaves_no_copy(
    tmp_path: Path, ending: signal.Signals, after: float
) -> None:
    """At some time after it has begun to copy; the JVM that it starts shares its stdout."""
    location = golden("4.1", "aggregate-hdfs").checkpoint
    with subprocess.Popen(
        [sys.executable, "-m", "holdfast", "state", str(location)],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        while not list(tmp_path.glob("holdfast-state-*")):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(after)
        process.send_signal(ending)
        out, err = process.communicate(timeout=60)
    # Python may end by the signal itself, which is the same number to a shell.
    assert process.returncode in (130, -signal.SIGINT)
    assert (out, err.strip()) == (b"", b"")
    assert not list(tmp_path.glob("holdfast-state-*"))


@pytest.mark.spark
@pytest.mark.prove
def test_what_a_jvm_says_that_cannot_start_is_shown() -> None:
    location = golden("4.1", "aggregate-hdfs").checkpoint
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "state", str(location)],
        env={**os.environ, "JAVA_TOOL_OPTIONS": "-XX:NoSuchOption"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (70, "")
    assert "NoSuchOption" in done.stderr
    assert "JAVA_GATEWAY_EXITED" in done.stderr


@pytest.mark.parametrize("scenario", ["aggregate-hdfs", "join-inner-hdfs"])
def test_state_without_a_schema_is_refused_at_once(scenario: str) -> None:
    done = holdfast("state", str(golden("3.0", scenario).checkpoint))
    assert done.returncode == 2
    assert done.stderr.startswith(
        "STATE_UNREADABLE: the rows in `state/0` cannot be read: the state has no schema, which"
        " Spark keeps only from 3.1 on\nhint: see how large the state is: "
    )
