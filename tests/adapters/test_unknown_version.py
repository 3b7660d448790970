"""A checkpoint whose Spark is unknown: the worst outcome is the verdict, and it names its versions.

The cases are generated: every checkpoint that real Spark left, as it is and with parts removed, for
every version that may start it.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from tests import checkpoint_files as files
from tests.commands import holdfast
from tests.diagnosing import diagnosed
from tests.golden import FOLDER, Golden, each
from tests.looking import evidence

from holdfast.diagnose import diagnosis as judged
from holdfast.gather.around import surroundings
from holdfast.gather.locate import resolve
from holdfast.model.finding import Diagnosis, Judgement
from holdfast.model.spark_version import SparkVersion
from holdfast.model.verdict import Level
from holdfast.predict import candidates
from holdfast.report import diagnosis, verdict
from holdfast.spark import versions

_RANKS = (Judgement.SAFE, Judgement.UNKNOWN, Judgement.UNDEFINED, Judgement.UNSAFE)


def _without(*paths: str) -> Callable[[Path], None]:
    def change(location: Path) -> None:
        for path in paths:
            for found in location.glob(path):
                shutil.rmtree(found) if found.is_dir() else found.unlink()

    return change


def _last_gone(log: str) -> Callable[[Path], None]:
    def change(location: Path) -> None:
        numbers = [int(one.name) for one in (location / log).glob("[0-9]*")]
        if numbers:
            (location / log / f"{max(numbers)}").unlink()

    return change


_CHANGES: dict[str, Callable[[Path], None]] = {
    "as it is": lambda _: None,
    "no metadata": _without("metadata"),
    "no offsets": _without("offsets"),
    "no commits": _without("commits"),
    "no logs": _without("offsets", "commits"),
    "no state": _without("state"),
    "no snapshots": _without("state/*/*/*.snapshot", "state/*/*/*.zip"),
    "the last commit gone": _last_gone("commits"),
    "the last offsets gone": _last_gone("offsets"),
}


def _require_worst(location: Path) -> Diagnosis:
    """Hold the verdict against that of every possible version, one by one."""
    place = resolve.find_checkpoint(str(location), {}).place
    seen = evidence(location)
    around = surroundings.collect(
        place, seen, surroundings.LookupOptions(kafka="", start_settings={})
    )
    starts = candidates.list_candidates(seen, None, asynchronous=False)
    by_version = {how.spark: judged.diagnose_worst(seen, [how], around) for how in starts}
    found = judged.diagnose_worst(seen, starts, around)
    assert found.judgement is max((one.judgement for one in by_version.values()), key=_RANKS.index)
    assert bool(found.others) is bool(found.spark_versions)
    outcomes = (found, *found.others)
    failing = {spark for spark, one in by_version.items() if one.restart.error is not None}
    if not found.others:
        assert failing in (set(), set(by_version))
        return found
    assert sorted(v for one in outcomes for v in one.spark_versions) == sorted(by_version)
    for one in outcomes:
        assert {by_version[v].judgement for v in one.spark_versions} == {one.judgement}
        assert {v in failing for v in one.spark_versions} == {one.restart.error is not None}
    first = "".join(part.text for part in next(iter(diagnosis.to_lines(found))))
    assert f" with Spark {versions.format_versions(found.spark_versions)}: " in first
    return found


@each
def test_the_worst_of_the_possible_versions_is_told(golden: Golden, tmp_path: Path) -> None:
    for number, change in enumerate(_CHANGES.values()):
        location = shutil.copytree(golden.checkpoint, tmp_path / f"{number}/c")
        change(location)
        if any(location.iterdir()) and (location / "offsets").exists():
            _require_worst(location)
        shutil.rmtree(location)


def _not_begun(folder: Path) -> Path:
    """A checkpoint that says nothing of its Spark, with a file that 4.1 and later refuse."""
    location = files.write(folder / "c", planned=0, committed=0)
    (location / "commits/notes.txt").write_text("a stray file")
    return location


def test_a_start_that_only_some_versions_refuse(tmp_path: Path) -> None:
    found = _require_worst(_not_begun(tmp_path))
    assert found.spark_versions == (SparkVersion(4, 1), SparkVersion(4, 2), SparkVersion(4, 3))
    lines = ["".join(part.text for part in line) for line in diagnosis.to_lines(found)]
    assert lines[0].startswith("unsafe with Spark 4.1 or later: a restart fails before it writes")
    assert lines[1].startswith("undefined with Spark 3.5 to 4.0: ")


def test_an_older_version_may_be_the_one_that_fails(tmp_path: Path) -> None:
    """Up to 4.1 a damaged snapshot stops the start; from 4.2 on Spark passes over it."""
    location = shutil.copytree(FOLDER / "4.1.4/snapshots-hdfs/checkpoint", tmp_path / "c")
    for snapshot in location.glob("state/0/*/*.snapshot"):
        snapshot.write_bytes(b"")
    for entry in (location / "offsets").glob("[0-9]*"):
        own = '"conf":{"spark.databricks.delta.preview.enabled":"true",'
        entry.write_text(entry.read_text().replace('"conf":{', own))
    found = _require_worst(location)
    assert (
        versions.format_versions(found.spark_versions) == "3.5 to 4.0"
    )  # 4.1 has a bug of its own as well
    assert found.restart.starting.chosen_because == (
        "the worst case of 3.5 or later, any of which may start the query"
    )


def test_inspect_names_the_versions_that_fail(tmp_path: Path) -> None:
    said = verdict.judge(evidence(_not_begun(tmp_path)))
    assert said.level is Level.BAD
    assert "a restart with Spark 4.1 or later fails" in said.text


def test_programs_get_every_outcome(tmp_path: Path) -> None:
    done = holdfast("diagnose", "--json", str(_not_begun(tmp_path)))
    said = json.loads(done.stdout)
    assert (said["verdict"], said["spark_versions"]) == ("unsafe", ["4.1", "4.2", "4.3"])
    (other,) = said["other_versions"]
    assert (other["verdict"], other["spark_versions"]) == ("undefined", ["3.5", "4.0"])
    assert other["restart"]["error"] is None


def test_a_version_that_is_known_leaves_no_doubt(tmp_path: Path) -> None:
    found = diagnosed(_not_begun(tmp_path), spark=SparkVersion(4, 0))
    assert (found.spark_versions, found.others) == ((), ())
