"""Continuous mode, which begins again at the latest commit: killed between its two logs."""

import json
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.commands import holdfast
from tests.diagnosing import codes, diagnosed
from tests.golden import GOLDEN, Golden, golden
from tests.looking import evidence, rendered

from holdfast.errors import StartUnsafe
from holdfast.model.definition import Continuously, DeclarationSite, Job, OutputMode
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Diagnosis, Judgement
from holdfast.model.ids import JobName
from holdfast.model.restart import RunForecast, Stage
from holdfast.model.spark_version import SparkVersion
from holdfast.model.verdict import Level
from holdfast.predict import candidates, restart
from holdfast.report import diagnosis, verdict
from holdfast.report.terminal import lines
from holdfast.run.start import preflight

CONTINUOUS = [one for one in GOLDEN if one.scenario == "continuous"]
V2_3, V4_1, V4_2 = SparkVersion(2, 3), SparkVersion(4, 1), SparkVersion(4, 2)
every = pytest.mark.parametrize("written", CONTINUOUS, ids=str)


def _last(location: Path) -> int:
    return max(int(path.name) for path in (location / "offsets").glob("[0-9]*"))


def _without(location: Path, log: str, numbers: Iterable[int]) -> Path:
    for number in numbers:
        (location / log / str(number)).unlink()
        (location / log / f".{number}.crc").unlink(missing_ok=True)
    return location


def _copied(written: Golden, folder: Path) -> Path:
    return shutil.copytree(written.checkpoint, folder / "c")


def _epochs(location: Path, *, planned: int, committed: int) -> Path:
    """Epochs of one Kafka topic, logged and committed."""
    files.write(location, planned=planned, committed=committed)
    for epoch in range(planned):
        files.epoch(location, epoch)
    return location


def _spark(written: Golden) -> SparkVersion:
    return SparkVersion(*(int(part) for part in written.version.split(".")[:2]))


def test_there_is_one_of_each_version() -> None:
    assert len(CONTINUOUS) > 10


@every
@pytest.mark.parametrize("gone", [1, 3])
def test_what_came_after_the_last_commit_is_read_again(
    tmp_path: Path, written: Golden, gone: int
) -> None:
    location = _copied(written, tmp_path)
    last = _last(location)
    committed = last - gone
    _without(location, "commits", range(committed + 1, last + 1))
    seen = evidence(location)
    assert (seen.batches.continuous, seen.batches.last_committed) == (True, committed)
    assert list(seen.batches.pending) == list(range(committed + 1, last + 1))
    which = f"epoch {last} of continuous mode is" if gone == 1 else f"epochs {committed + 1} to"
    told = verdict.judge(seen)
    assert told.level is Level.CAREFUL
    assert told.text.startswith(which)
    assert f"a restart reads again from the end of epoch {committed} up to the newest" in told.text
    assert "same range" not in told.text
    assert all(told.text.partition("of")[0] in form for form in rendered(seen))
    found = diagnosed(location, spark=_spark(written))
    _reads_on(found, location, committed)
    assert found.judgement is Judgement.UNDEFINED
    assert codes(found) == {Code.PENDING_BATCH, Code.CONTINUOUS_MODE}
    (pending,) = (one for one in found.findings if one.code is Code.PENDING_BATCH)
    assert f"at the end of epoch {committed}, read as far as there is data" in pending.text
    assert f"first move `offsets/{committed + 1}` " in pending.remedies[1]


def _reads_on(found: Diagnosis, location: Path, committed: int) -> None:
    predicted = found.restart
    assert (predicted.batch, predicted.rerun) == (committed + 1, True)
    assert (predicted.runs, predicted.error, predicted.later) == (RunForecast.SURELY, None, ())
    (one,) = predicted.ranges
    assert one.start == json.loads((location / f"offsets/{committed}").read_text().split("\n")[2])
    assert isinstance(one.end, Unknown)


@every
def test_where_nothing_is_committed_it_begins_anew(tmp_path: Path, written: Golden) -> None:
    location = _copied(written, tmp_path)
    _without(location, "commits", range(_last(location) + 1))
    found = diagnosed(location, spark=_spark(written))
    assert (found.restart.batch, found.restart.rerun, found.restart.error) == (0, True, None)
    assert [one.start for one in found.restart.ranges] == [None]
    assert codes(found) == {Code.PENDING_BATCH, Code.CONTINUOUS_MODE}
    assert "a restart starts over where the source starts" in verdict.judge(evidence(location)).text
    assert "starts over in continuous mode, at epoch 0" in lines.strip_styles(
        diagnosis.to_lines(found)
    )


@every
def test_at_rest_it_goes_on_with_the_next_epoch(tmp_path: Path, written: Golden) -> None:
    location = _copied(written, tmp_path)
    last = _last(location)
    assert verdict.judge(evidence(location)).text == (
        f"idle: epoch {last} of continuous mode is committed, nothing is pending"
    )
    found = diagnosed(location, spark=_spark(written))
    assert (found.judgement, codes(found)) == (Judgement.SAFE, {Code.CONTINUOUS_MODE})
    assert (found.restart.batch, found.restart.rerun) == (last + 1, False)


@every
@pytest.mark.parametrize("pending", [0, 2])
def test_the_end_of_the_last_committed_epoch_is_needed(
    tmp_path: Path, written: Golden, pending: int
) -> None:
    location = _copied(written, tmp_path)
    last = _last(location)
    committed = last - pending
    _without(location, "commits", range(committed + 1, last + 1))
    _without(location, "offsets", [committed])
    found = diagnosed(location, spark=_spark(written))
    assert found.restart.error is not None
    assert found.restart.error.exceptions == ("IllegalStateException",)
    assert found.restart.error.stage is Stage.START
    assert Code.OFFSETS_GONE in codes(found)
    assert not codes(found) & {Code.OFFSET_GAP, Code.OFFSET_BEFORE_MISSING, Code.COMMIT_AHEAD}
    told = verdict.judge(evidence(location))
    assert told.level is Level.BAD
    assert f"a restart fails: epoch {committed} of" in told.text


def test_spark_2_3_takes_a_number_that_was_never_used(tmp_path: Path) -> None:
    location = _epochs(tmp_path / "c", planned=5, committed=3)
    found = diagnosed(location, spark=SparkVersion(2, 3)).restart
    assert (found.batch, found.rerun) == (5, False)
    assert [one.start for one in found.ranges] == [{"orders": {"0": 30, "1": 30}}]


def test_only_the_entry_of_the_last_commit_is_read_at_the_start(tmp_path: Path) -> None:
    location = _epochs(tmp_path / "c", planned=5, committed=5)
    (location / "offsets/3").unlink()
    assert diagnosed(location).restart.error is None
    assert codes(diagnosed(location)) == {Code.CONTINUOUS_MODE, Code.OFFSET_GAP}
    (location / "offsets/4").write_text("")
    assert codes(diagnosed(location)) >= {Code.CONTINUOUS_MODE, Code.ENTRY_UNREADABLE}
    assert diagnosed(location).restart.error is not None


def test_a_torn_entry_stops_the_commit_of_its_epoch(tmp_path: Path) -> None:
    location = _epochs(tmp_path / "c", planned=5, committed=3)
    (location / "offsets/4").write_text("v1\n")
    found = diagnosed(location)
    assert (found.restart.batch, found.restart.error) == (3, None)
    assert [(one.batch, one.stage) for one in found.restart.later] == [(4, Stage.COMMITTING)]
    assert Code.ENTRY_UNREADABLE in codes(found)


@pytest.mark.parametrize(
    ("committed", "spark", "told"),
    [
        (5, V2_3, "continues with batch 5, where the last epoch ended"),
        (4, V2_3, "runs batch 4 again over its range"),
        (3, V2_3, "runs batch 4 again over its range, and treats epoch 3 as done"),
        (1, V2_3, "runs batch 4 again over its range, and treats epochs 1 to 3 as done"),
        (5, V4_1, "fails, because the second line of `offsets/4` is empty"),
        (4, V4_1, "fails, because the second line of `offsets/4` is empty"),
        (5, V4_2, "fails, because the second line of `offsets/4` is empty"),
        (4, V4_2, "fails, because the second line of `offsets/4` or `offsets/3` is empty"),
    ],
)
def test_another_trigger_begins_at_the_latest_offset_entry(
    tmp_path: Path, committed: int, spark: SparkVersion, told: str
) -> None:
    found = diagnosed(_epochs(tmp_path / "c", planned=5, committed=committed), spark=spark)
    (note,) = (one for one in found.findings if one.code is Code.CONTINUOUS_MODE)
    assert f"at the latest offset entry and {told}." in note.text


def test_rate_cannot_change_its_trigger(tmp_path: Path) -> None:
    """As it was seen with Spark 4.1, which wrote nothing.

    At rest there is no watermark, and pending it is `For input string: "{"1":{"value":45,...`.
    """
    location = _copied(golden("4.1", "continuous"), tmp_path)
    for raised, gone in (("NullPointerException", 0), ("NumberFormatException", 1)):
        _without(location, "commits", [_last(location)] * gone)
        seen = evidence(location)
        how = candidates.choose_start(seen, V4_1, asynchronous=False)
        assert how.continuous
        error = restart.predict(seen, replace(how, continuous=False)).error
        assert error is not None
        assert (error.stage, error.exceptions) == (Stage.START, (raised,))


def test_a_job_of_holdfast_runs_in_micro_batches(tmp_path: Path) -> None:
    location = _epochs(tmp_path / "c", planned=5, committed=3)
    job = Job(
        name=JobName("orders"), function=_epochs, reads=(), writes=(), trigger=Continuously(),
        output_mode=OutputMode.APPEND, settings={},
        declared_at=DeclarationSite(file="jobs.py", line=1),
    )  # fmt: skip
    with pytest.raises(StartUnsafe, match="BATCHES_SKIPPED: A restart will run only batch 4"):
        preflight.require_safe_checkpoint(job, evidence(location), {}, {}, frozenset())


def test_one_entry_without_settings_is_no_sign_of_the_mode(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=4, committed=3)
    files.epoch(location, 3)
    assert not evidence(location).batches.continuous
    found = diagnosed(location)
    assert codes(found) == {Code.PENDING_BATCH, Code.ENTRY_WITHOUT_SETTINGS}
    assert not found.restart.starting.continuous
    files.epoch(location, 2)
    assert evidence(location).batches.continuous


def test_for_programs(tmp_path: Path) -> None:
    location = _epochs(tmp_path / "c", planned=5, committed=3)
    said = json.loads(holdfast("diagnose", "--json", "--spark", "4.1", str(location)).stdout)
    assert (said["verdict"], said["restart"]["continuous"]) == ("undefined", True)
    assert (said["restart"]["batch"], said["restart"]["rerun"]) == (3, True)
    assert [one["end_known"] for one in said["restart"]["ranges"]] == [False]
    looked = json.loads(holdfast("inspect", "--json", str(location)).stdout)
    assert (looked["batches"]["continuous"], looked["batches"]["pending"]) == (True, [3, 4])
    usual = json.loads(holdfast("inspect", "--json", str(files.write(tmp_path / "d"))).stdout)
    assert usual["batches"]["continuous"] is False


def test_the_restart_in_words(tmp_path: Path) -> None:
    location = _epochs(tmp_path / "c", planned=5, committed=3)
    lines = holdfast("diagnose", "--spark", "4.1", str(location)).stdout.splitlines()
    assert lines[:5] == [
        (
            "undefined: a restart in continuous mode will begin at the end of epoch 2, read as far"
            " as there is data, and write again what was written since. Epochs 3 to 4 are logged"
            " but not committed"
        ),
        "",
        "Restart  Spark 4.1, as requested, in continuous mode",
        "  runs epoch 3 of continuous mode again, from the end of the last committed epoch",
        "  source 0 (Kafka or Event Hubs) orders-0 from 30",
    ]
