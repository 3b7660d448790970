"""The recorded checkpoints are whole: what Spark said of each agrees with what is in it."""

import json

import pytest
from tests.golden import FOLDER, GOLDEN, Golden
from tools.golden import readme
from tools.golden.scenario import ROOT

_LARGEST = 9_000_000


def _entries(golden: Golden, log: str) -> set[int]:
    folder = golden.checkpoint / log
    return {int(path.name) for path in folder.glob("[0-9]*")} if folder.is_dir() else set()


@pytest.mark.parametrize("golden", GOLDEN, ids=str)
def test_what_spark_said_is_about_this_checkpoint(golden: Golden) -> None:
    metadata = json.loads((golden.checkpoint / "metadata").read_text("utf-8"))
    assert metadata == {"id": golden.expected["query_id"]}
    assert golden.expected["spark"] == golden.version
    assert golden.expected["scenario"] == golden.scenario


def _killed(golden: Golden) -> list[int]:
    runs = golden.expected["runs"]
    assert isinstance(runs, list)
    return [run["planned_not_committed"] for run in runs if "planned_not_committed" in run]


@pytest.mark.parametrize("golden", [one for one in GOLDEN if "committed" in one.expected], ids=str)
def test_the_last_batches_that_spark_reported_are_committed(golden: Golden) -> None:
    committed = golden.expected["committed"]
    assert isinstance(committed, list)
    # Spark 2.1 keeps no commit log; it plans a batch when the one before it is done.
    log = "offsets" if golden.version.startswith("2.1.") else "commits"
    found = _entries(golden, log) - set(_killed(golden))
    assert max(found, default=-1) == max(committed, default=-1)
    # Purged or asynchronous logs hold fewer, never more; but a repartition is a batch of its own,
    # which no query reports.
    unreported = golden.scenario.startswith("repartitioned")
    assert len(found - set(committed)) == unreported


def test_every_path_in_them_is_below_the_shared_root() -> None:
    foreign = (b"file:/home", b"file:///home", b"file:/root", b"file:///root", b"file:///work")
    for path in FOLDER.rglob("*"):
        if path.is_file() and path.name != "README.md":
            content = path.read_bytes()
            assert not any(place in content for place in foreign), path
    assert all(str(one.expected["location"]).startswith(str(ROOT)) for one in GOLDEN)


def test_they_stay_small() -> None:
    sizes = [path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(sizes) < _LARGEST


def test_the_table_of_the_readme_is_of_this_folder() -> None:
    assert (FOLDER / "README.md").read_text("utf-8").endswith(readme.table(FOLDER))
