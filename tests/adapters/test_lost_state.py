"""State that somebody deleted: what is left in the checkpoint tells of it."""

import shutil
from pathlib import Path

import pytest
from tests.diagnosing import codes, diagnosed
from tests.golden import FOLDER
from tests.looking import evidence, rendered

from holdfast.model.batch import Unknown
from holdfast.model.fact import Absent
from holdfast.model.finding import Code, Judgement
from holdfast.model.restart import Stage
from holdfast.model.spark_version import SparkVersion

_NOT_MATCH = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
_NO_FOLDER = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
_NO_DELTA = "CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS"


def _without(tmp_path: Path, golden: str, folder: str) -> Path:
    location = shutil.copytree(FOLDER / golden / "checkpoint", tmp_path / "c")
    shutil.rmtree(location / folder)
    return location


@pytest.mark.parametrize(
    ("golden", "folder", "why"),
    [
        ("4.1.4/chained-hdfs", "state/0", "there is a folder of a later operator"),
        ("4.1.4/chained-hdfs", "state/1", "there is a folder of a later operator"),
        ("4.1.4/checkpoint-format-2-changelog", "state", "which `commits/5` names"),
        ("4.3.0/checkpoint-format-2-tws", "state", "which `commits/5` names"),
        ("2.4.8/aggregate-hdfs", "state", "batch 5 ran without data"),
        ("4.1.4/join-left-outer-changelog", "state", "ran without data"),
    ],
)
def test_an_operator_that_has_lost_its_state_is_told(
    tmp_path: Path, golden: str, folder: str, why: str
) -> None:
    location = _without(tmp_path, golden, folder)
    found = evidence(location)
    (lost,) = (one for one in found.operators if not one.partitions)
    assert isinstance(lost.name, Unknown)
    assert lost.name.reason.startswith("nothing is left of its state")
    assert why in lost.name.reason
    _, *others = rendered(found)
    assert all("its state is gone, no batch can be restored" in one for one in others)
    told = diagnosed(location)
    assert told.judgement is Judgement.UNSAFE
    assert Code.STATE_MISSING in codes(told)


@pytest.mark.parametrize(
    ("folder", "spark", "condition", "stage"),
    [
        ("state/1", SparkVersion(3, 5), "", Stage.WRITING),
        ("state/1", SparkVersion(4, 0), _NOT_MATCH, Stage.PLANNING),
        ("state/1", SparkVersion(4, 3), _NOT_MATCH, Stage.PLANNING),
        ("state", SparkVersion(3, 5), "", Stage.WRITING),
        ("state", SparkVersion(4, 1), _NO_DELTA, Stage.WRITING),
        ("state", SparkVersion(4, 2), _NO_FOLDER, Stage.PLANNING),
    ],
)
def test_where_a_start_fails_without_it(
    tmp_path: Path, folder: str, spark: SparkVersion, condition: str, stage: Stage
) -> None:
    location = _without(tmp_path, "4.1.4/chained-hdfs", folder)
    error = diagnosed(location, spark=spark).restart.error
    assert error is not None
    assert (error.condition, error.stage, error.batch) == (condition, stage, 6)


@pytest.mark.parametrize("golden", ["4.1.4/dedup-hdfs", "4.3.0/real-time", "4.1.4/continuous"])
def test_where_nothing_tells_of_state_none_is_said_to_be_lost(tmp_path: Path, golden: str) -> None:
    """Of the first it was deleted; the others read nothing at times, and have none."""
    location = shutil.copytree(FOLDER / golden / "checkpoint", tmp_path / "c")
    shutil.rmtree(location / "state", ignore_errors=True)
    assert isinstance(evidence(location).stateful_operators, Absent)


def test_a_folder_with_a_number_of_its_own_tells_of_no_operators(tmp_path: Path) -> None:
    location = shutil.copytree(FOLDER / "4.1.4/aggregate-hdfs/checkpoint", tmp_path / "c")
    shutil.copytree(location / "state/0", location / "state/20261116")
    assert [one.operator for one in evidence(location).operators] == [0, 20261116]
