"""A folder of checkpoints: what a row says of one is what is said of it alone."""

import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.golden import golden
from tests.looking import NOW_MS, evidence

from holdfast import ops
from holdfast.gather.inventory.tree import OnProgress, ignore_progress
from holdfast.gather.locate import many
from holdfast.gather.locate.resolve import Checkpoint, FolderOfCheckpoints
from holdfast.model.evidence import Checkpoints
from holdfast.model.verdict import Level
from holdfast.report import verdict
from holdfast.storage import Children, Missing, Piece, Portion, Reader, Refused, open_reader
from holdfast.storage.reader import ReadResult


def rows(folder: Path, told: OnProgress = ignore_progress) -> Checkpoints:
    found = ops.inspect(str(folder), storage={}, event_log=None, now_ms=NOW_MS, on_progress=told)
    assert isinstance(found, Checkpoints)
    return found


def test_a_row_says_what_is_said_of_the_checkpoint_alone(tmp_path: Path) -> None:
    """Every file removed and emptied, a copy each: most of it is seen by a whole look only."""
    whole = golden("4.1.4", "aggregate-hdfs").checkpoint
    paths = [one.relative_to(whole) for one in sorted(whole.rglob("*")) if one.is_file()]
    for number, path in enumerate(paths):
        for how in ("removed", "emptied"):
            copy = tmp_path / f"{number}-{how}"
            shutil.copytree(whole, copy)
            (copy / path).unlink()
            if how == "emptied":
                (copy / path).touch()
    found = rows(tmp_path).rows
    assert len(found) == 2 * len(paths)
    assert list(found) == [verdict.make_row(evidence(row.location)) for row in found]
    assert {row.verdict.level for row in found} == set(Level)


def test_how_far_it_is_goes_up_to_all_of_it(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        files.write(tmp_path / name)
    told: list[tuple[int, float]] = []
    rows(tmp_path, lambda *so_far: told.append(so_far))
    alone: list[tuple[int, float]] = []
    ops.inspect(
        str(tmp_path / "a"),
        storage={},
        event_log=None,
        now_ms=NOW_MS,
        on_progress=lambda *so_far: alone.append(so_far),
    )
    assert told == sorted(told)
    listed, share = told[-1]
    assert listed == 3 * alone[-1][0]
    assert share == pytest.approx(1.0)


@dataclass
class Slow:
    """Storage that takes its time, and notices how many ask at once."""

    reader: Reader
    asking: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        with self.lock:
            self.asking += 1
            self.most = max(self.most, self.asking)
        time.sleep(0.02)
        with self.lock:
            self.asking -= 1
        return self.reader.children(folder)

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Every file below the folders."""
        return self.reader.walk(folders)

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """The pieces."""
        return self.reader.read(pieces)


def test_on_remote_storage_several_are_looked_at_together(tmp_path: Path) -> None:
    names = tuple(f"c{number:02}" for number in range(20))
    for name in names:
        files.write(tmp_path / name)
    (tmp_path / "c07").rename(tmp_path / "gone")
    slow = Slow(open_reader(str(tmp_path)))
    folder = FolderOfCheckpoints(url="s3://bucket/base", reader=slow, checkpoints=names, refused=())

    def look(one: Checkpoint, _: OnProgress) -> str:
        return one.place.name

    assert list(many.read_each(folder, {}, look, ignore_progress)) == [
        n for n in names if n != "c07"
    ]
    assert 1 < slow.most <= many.TOGETHER
