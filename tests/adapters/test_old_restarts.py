"""What the first Sparks do at a start where later ones do otherwise, as they were seen to do it."""

import shutil
from pathlib import Path

import pytest
from tests.diagnosing import diagnosed
from tests.golden import golden

from holdfast.model.finding import Code, Severity
from holdfast.model.spark_version import SparkVersion


def _spark(version: str) -> SparkVersion:
    return SparkVersion(*(int(part) for part in version.split(".")))


@pytest.mark.parametrize("version", ["2.2", "2.4", "3.0", "3.1", "3.4"])
def test_a_commit_ahead_of_the_offset_log_is_noticed_from_3_1_on(
    tmp_path: Path, version: str
) -> None:
    location = shutil.copytree(golden(version, "files-union").checkpoint, tmp_path / "c")
    last = max(int(path.name) for path in (location / "offsets").glob("[0-9]*"))
    (location / "offsets" / str(last)).unlink()
    spark = _spark(version)
    fails = spark >= (3, 1)
    found = diagnosed(location, spark=spark)
    assert (found.restart.batch, found.restart.rerun) == (last - 1, True)
    assert (found.restart.error is not None) == fails
    told = next(one for one in found.findings if one.code is Code.COMMIT_AHEAD)
    assert told.severity is Severity.DUPLICATES
    assert (", and continue." in told.text) != fails


@pytest.mark.parametrize(("version", "times"), [("2.1", 1), ("3.4", 1), ("3.5", 0)])
def test_a_spark_that_the_prediction_is_not_held_against_is_named(version: str, times: int) -> None:
    found = diagnosed(golden(version, "files-union").checkpoint, spark=_spark(version))
    told = [one for one in found.not_assessed if "as later versions do" in one.question]
    assert len(told) == times


@pytest.mark.parametrize("version", ["2.1", "2.2", "3.4"])
def test_without_the_entry_before_spark_2_1_begins_at_the_beginning(
    tmp_path: Path, version: str
) -> None:
    location = shutil.copytree(golden(version, "files-union").checkpoint, tmp_path / "c")
    last = max(int(path.name) for path in (location / "offsets").glob("[0-9]*"))
    (location / "offsets" / str(last - 1)).unlink()
    spark = _spark(version)
    fails = spark >= (2, 2)
    found = diagnosed(location, spark=spark)
    told = next(one for one in found.findings if one.code is Code.OFFSET_BEFORE_MISSING)
    assert (found.restart.error is not None) == fails
    if not fails:
        assert [one.start for one in found.restart.ranges] == [None, None]
        assert told.severity is Severity.DUPLICATES
        assert "Spark 2.1" in told.text
