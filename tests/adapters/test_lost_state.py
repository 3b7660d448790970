"""State that somebody deleted: what is left in the checkpoint tells of it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed, recorded
from tests.golden import FOLDER
from tests.looking import evidence, rendered

from holdfast.model.fact import Absent, Unknown
from holdfast.model.finding import Code, Judgement
from holdfast.model.restart import Stage
from holdfast.model.spark_version import SparkVersion
from holdfast.report import diagnosis

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
        ("4.1.4/chained-hdfs", "state/0", "a later operator has a folder"),
        ("4.1.4/chained-hdfs", "state/1", "a later operator has a folder"),
        ("4.1.4/checkpoint-format-2-changelog", "state", "but `commits/5` names it"),
        ("4.3.0/checkpoint-format-2-tws", "state", "but `commits/5` names it"),
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
    assert all("state is missing, no batch can be restored" in one for one in others)
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


@pytest.mark.parametrize(
    ("golden", "made", "judgement"),
    [
        ("4.1.4/dedup-hdfs", False, Judgement.SAFE),
        ("4.1.4/dedup-hdfs", True, Judgement.UNDEFINED),
        ("4.1.4/files-to-files", False, Judgement.SAFE),
        ("4.1.4/aggregate-complete-hdfs", False, Judgement.SAFE),
    ],
)
def test_no_start_is_safe_for_certain_while_state_may_be_lost(
    tmp_path: Path, golden: str, *, made: bool, judgement: Judgement
) -> None:
    """A query that keeps no state looks the same as one whose state was deleted."""
    location = shutil.copytree(FOLDER / golden / "checkpoint", tmp_path / "c")
    shutil.rmtree(location / "state", ignore_errors=True)
    if made:
        (location / "state").mkdir()
    found = diagnosed(location)
    assert found.judgement is judgement
    assert found.restart.alternative is not None
    error = found.restart.alternative.restart.error
    assert error is not None
    assert (error.condition, error.stage) == (_NO_DELTA, Stage.WRITING)
    assert "whether the query has state" in {one.question for one in found.not_assessed}
    first = "".join(part.text for part in next(iter(diagnosis.to_lines(found))))
    said = "safe, unless the query keeps state and its state is lost: a restart runs batch"
    expected = said if judgement is Judgement.SAFE else "undefined: if the query keeps state, batch"
    assert first.startswith(expected)


def test_a_watermark_suggests_state(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    assert diagnosed(location).judgement is Judgement.SAFE
    entry = location / "offsets/2"
    entry.write_text(entry.read_text().replace('"batchWatermarkMs": 0', '"batchWatermarkMs": 7'))
    found = diagnosed(location)
    assert (found.judgement, codes(found)) == (Judgement.UNDEFINED, {Code.STATE_MISSING})


def test_a_run_that_shows_no_state_leaves_no_doubt(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    recorded(location)
    segment = next((tmp_path / ".holdfast/c/runs").iterdir()) / "000001.jsonl"
    progress = {"event": "progress", "at_ms": 1_767_225_601_000, "batch": 2, "rows": 1}
    with segment.open("a") as record:
        record.write(json.dumps({**progress, "sources": []}) + "\n")
    found = diagnosed(location)
    assert found.restart.alternative is None
    assert "whether the query has state" not in {one.question for one in found.not_assessed}
    first = "".join(part.text for part in next(iter(diagnosis.to_lines(found))))
    assert first.startswith("safe: ")


def _nested(location: Path) -> None:
    shutil.move(location / "state/0", location / "moved")
    (location / "state/0").mkdir()
    shutil.move(location / "moved", location / "state/0/0")


def _unnested(location: Path) -> None:
    shutil.move(location / "state/0/0", location.parent / "out")
    for one in (location.parent / "out").iterdir():
        shutil.move(one, location / "state/0" / one.name)


def _flat(location: Path) -> None:
    shutil.move(location / "state/0", location / "moved")
    (location / "state").rmdir()
    shutil.move(location / "moved", location / "state")


def _unflat(location: Path) -> None:
    shutil.move(location / "state", location.parent / "out")
    (location / "state").mkdir()
    shutil.move(location.parent / "out", location / "state/0")


def _twice(location: Path) -> None:
    shutil.move(location / "state", location / "moved")
    (location / "state").mkdir()
    shutil.move(location / "moved", location / "state/state")


def _once(location: Path) -> None:
    for one in (location / "state/state").iterdir():
        shutil.move(one, location / "state" / one.name)
    (location / "state/state").rmdir()


def _beside(location: Path) -> None:
    shutil.move(location / "state/0", location / "0")
    (location / "state").rmdir()


def _inside(location: Path) -> None:
    (location / "state").mkdir(exist_ok=True)
    shutil.move(location / "0", location / "state/0")


@pytest.mark.parametrize("golden", ["aggregate-hdfs", "aggregate-changelog", "join-inner-hdfs"])
@pytest.mark.parametrize(
    ("misplace", "follow", "remedy"),
    [
        (_nested, _unnested, "move the folder `state/0/0` out of the checkpoint, and then move"),
        (_flat, _unflat, "move everything in `state` to a folder outside the checkpoint, make"),
        (_twice, _once, "move everything in `state/state` into `state`, and remove"),
        (_beside, _inside, "make the folder `state`, if it is missing, and move `0` into it"),
    ],
)
def test_state_at_a_wrong_level_is_found_and_the_remedy_works(
    tmp_path: Path,
    golden: str,
    misplace: Callable[[Path], None],
    follow: Callable[[Path], None],
    remedy: str,
) -> None:
    location = shutil.copytree(FOLDER / "4.1.4" / golden / "checkpoint", tmp_path / "c")
    before = codes(diagnosed(location))
    misplace(location)
    found = diagnosed(location)
    assert found.judgement is Judgement.UNSAFE
    assert found.restart.error is not None
    assert Code.STATE_MISSING not in codes(found)
    (told,) = (one for one in found.findings if one.code is Code.STATE_MISPLACED)
    assert told.remedies[0].startswith(remedy)
    follow(location)
    assert codes(diagnosed(location)) == before
