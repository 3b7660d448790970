"""The checkpoints below a folder: all of them, each once, and whatever was not searched by name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.looking import NOW_MS, evidence

from holdfast import ops
from holdfast.errors import NotACheckpoint
from holdfast.gather.locate import search
from holdfast.model.evidence import Checkpoints
from holdfast.model.fact import UnreadableFile
from holdfast.storage import Children, Missing, Piece, Portion, Reader, Refused, open_reader
from holdfast.storage.reader import ReadResult


def listed(folder: Path) -> Checkpoints:
    found = ops.inspect(
        str(folder), storage={}, event_log=None, now_ms=NOW_MS, on_progress=lambda *_: None
    )
    assert isinstance(found, Checkpoints)
    return found


def names(folder: Path) -> list[str]:
    """The checkpoints below a folder, all of which was searched."""
    found = listed(folder)
    assert found.unreadable == ()
    return [row.location.removeprefix(f"{folder}/") for row in found.rows]


@dataclass
class Counted:
    """A folder as storage without links shows it, and what was listed of it."""

    reader: Reader
    folders: list[str] = field(default_factory=list)

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        self.folders.append(folder)
        found = self.reader.children(folder)
        return replace(found, real="") if isinstance(found, Children) else found

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Every file below the folders."""
        return self.reader.walk(folders)

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """The pieces."""
        return self.reader.read(pieces)


def searched(folder: Path, most: int) -> tuple[search.SearchResult, list[str]]:
    reader = Counted(open_reader(str(folder)))
    top = reader.children("")
    assert isinstance(top, Children)
    return search.find_checkpoints(reader, top, above=folder.name, most=most), reader.folders[1:]


def made(folder: Path, *paths: str) -> Path:
    for path in paths:
        (folder / path).mkdir(parents=True)
    return folder


def test_a_crowded_folder_hides_no_checkpoint_and_what_is_left_is_named(tmp_path: Path) -> None:
    made(tmp_path, *(f"table/{n}" for n in range(50_100)))
    with pytest.raises(NotACheckpoint, match="is not a checkpoint; not all of it was") as caught:
        listed(tmp_path)
    assert caught.value.hint.endswith(f"as in `holdfast inspect {tmp_path}/table`")
    files.write(tmp_path / "jobs/team/x/ck")
    found = listed(tmp_path)
    assert [row.location for row in found.rows] == [f"{tmp_path}/jobs/team/x/ck"]
    left = "105 folders below it were not searched: the limit is 50,000 folders"
    assert found.unreadable == (UnreadableFile(path="table", reason=left),)


def test_a_checkpoint_at_any_depth_is_found(tmp_path: Path) -> None:
    deep = "/".join("abcdefghijklmnopqrstuvwxyz")
    files.write(tmp_path / deep)
    assert names(tmp_path) == [deep]


def test_a_search_asks_no_more_than_it_may(tmp_path: Path) -> None:
    made(tmp_path, *(f"{a}/{b}/{c}" for a in range(10) for b in range(10) for c in range(10)))
    found, asked = searched(tmp_path, 200)
    assert (found.checkpoints, len(asked), len(set(asked))) == ((), 200, 200)
    said = "10 folders below it were not searched: the limit is 200 folders"
    assert [(one.path, one.reason) for one in found.unsearched] == [
        (f"{at // 10}/{at % 10}", said) for at in range(9, 100)
    ]


def test_what_is_not_searched_is_told_in_few_names(tmp_path: Path) -> None:
    made(tmp_path, *(f"{a}/{b}/c" for a in range(30) for b in range(40)))
    found, _ = searched(tmp_path, 1230)
    said = "40 folders below it were not searched: the limit is 1,230 folders"
    assert [(one.path, one.reason) for one in found.unsearched] == [
        (str(at), said) for at in sorted(range(30), key=str)
    ]


def test_partitions_are_searched_last_and_those_of_a_table_not_at_all(tmp_path: Path) -> None:
    files.write(tmp_path / "env=prod/orders")
    files.write(tmp_path / "x/y/z")
    files.write(tmp_path / "table/day=1/never")
    made(tmp_path, "table/_delta_log")
    found, asked = searched(tmp_path, 1000)
    assert found.checkpoints == ("x/y/z", "env=prod/orders")
    assert not [one for one in asked if "day=" in one or "_delta_log" in one]


@pytest.mark.parametrize("log", ["_delta_log", "_spark_metadata", ".hoodie"])
def test_a_large_table_is_refused_by_a_short_look(tmp_path: Path, log: str) -> None:
    made(tmp_path, log, *(f"{n:04}" for n in range(1_200)), *(f"day={n}" for n in range(100)))
    (tmp_path / "part-00000-a.snappy.parquet").touch()
    with pytest.raises(
        NotACheckpoint, match="200 folders below it were not searched: the limit is 1,000"
    ):
        listed(tmp_path)
    files.write(tmp_path / "z_Checkpoints/job1")
    assert [row.location for row in listed(tmp_path).rows] == [f"{tmp_path}/z_Checkpoints/job1"]


@pytest.mark.parametrize(
    ("base", "alike", "below"),
    [
        ("table", ["_delta_log/0", "day=1/x"], ["_checkpoints/job1"]),
        ("out", ["_spark_metadata/0", "part-00000-a.parquet"], ["_checkpoint"]),
        ("hudi", [".hoodie/x"], ["ck"]),
        ("out", ["part-00000-a.parquet"], ["_checkpoint"]),
        ("pair", [], ["data", "metadata"]),
        ("6b0f5f5c-1f5a-4c57-9f5e-0a4f2f0c1d11", ["rdd-1/part-00000"], []),
        *((part, [], ["clicks", "orders"]) for part in ("state", "sources", "offsets", "commits")),
        *((part, [], ["0"]) for part in ("state", "sources", "offsets", "commits")),
    ],
)
def test_what_looks_like_something_else_is_searched(
    tmp_path: Path, base: str, alike: list[str], below: list[str]
) -> None:
    folder = tmp_path / base
    for name in alike:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    for name in below:
        files.write(folder / name)
    if below:
        assert names(folder) == below
        assert names(tmp_path) == [f"{base}/{name}" for name in below]
    else:
        with pytest.raises(NotACheckpoint, match="a checkpoint of an RDD"):
            listed(folder)


def test_a_query_that_has_only_begun_is_found_below_sources(tmp_path: Path) -> None:
    location = files.write(tmp_path / "sources/0", planned=1, committed=0)
    (location / "commits").rmdir()
    assert names(tmp_path / "sources") == ["0"]
    assert evidence(location).batches.last_planned == 0


@pytest.mark.parametrize(
    "part",
    ["offsets", "commits", "state", "state/0", "state/0/1", "sources", "sources/0", "sources/0/0"],
)
def test_a_part_of_a_checkpoint_names_the_checkpoint(tmp_path: Path, part: str) -> None:
    location = files.write(tmp_path / "state/orders")
    files.state(location, range(1, 4))
    made(location, "sources/0/0")
    (location / "sources/0/0/file").write_text("x")
    with pytest.raises(NotACheckpoint, match=f"is the folder `{part}` of a checkpoint") as caught:
        evidence(location / part)
    assert caught.value.hint == f"inspect the checkpoint: `holdfast inspect {location}`"


def test_a_file_of_a_checkpoint_names_the_checkpoint(tmp_path: Path) -> None:
    location = files.write(tmp_path / "orders")
    with pytest.raises(NotACheckpoint, match="is a file") as caught:
        evidence(location / "offsets/1")
    assert caught.value.hint.endswith(f"as in `holdfast inspect {location}`")


def test_the_folder_of_rdd_checkpoints_is_named(tmp_path: Path) -> None:
    made(tmp_path, "0" * 8 + "-0000-0000-0000-" + "0" * 12, f"{files.QUERY_ID}/rdd-12")
    with pytest.raises(NotACheckpoint, match="looks like checkpoints of RDDs, which streaming"):
        listed(tmp_path)
    files.write(tmp_path / "orders")
    assert names(tmp_path) == ["orders"]


def test_a_loop_between_siblings_multiplies_nothing(tmp_path: Path) -> None:
    files.write(tmp_path / "a/ck")
    made(tmp_path, "b")
    (tmp_path / "a/l").symlink_to("../b")
    (tmp_path / "b/l").symlink_to("../a")
    assert names(tmp_path) == ["a/ck"]


def test_a_checkpoint_with_two_names_is_listed_once_under_its_own(tmp_path: Path) -> None:
    files.write(tmp_path / "base/deep/er/ck")
    files.write(tmp_path / "elsewhere/x/other")
    (tmp_path / "base/a").symlink_to("deep/er/ck")
    (tmp_path / "base/b").symlink_to("deep")
    (tmp_path / "base/c").symlink_to("../elsewhere")
    (tmp_path / "base/d").symlink_to("../elsewhere/x")
    (tmp_path / "linked").symlink_to("base")
    assert names(tmp_path / "base") == ["deep/er/ck", "d/other"]
    assert names(tmp_path / "linked") == ["deep/er/ck", "d/other"]


def test_what_cannot_be_looked_at_leaves_a_search_open(tmp_path: Path) -> None:
    made(tmp_path, "x")
    (tmp_path / "x/loop").symlink_to("loop")
    with pytest.raises(NotACheckpoint, match="not all of it was searched: `x/loop`"):
        listed(tmp_path)
