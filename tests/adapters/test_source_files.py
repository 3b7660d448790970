"""Which files a batch of a file source took: all if it is asked for, else how many are not told."""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.commands import holdfast
from tests.diagnosing import codes, diagnosed, reading_files
from tests.json_schema import problems
from tests.looking import evidence, rendered

from holdfast.gather.history import runs
from holdfast.gather.inventory.folders import SourceFolder
from holdfast.gather.sources import taken_files
from holdfast.model.fact import Known, UnreadableFile
from holdfast.model.finding import Code, Judgement
from holdfast.run.watch.records import KEPT_RUNS
from holdfast.storage import Children, Missing, Piece, Portion, Refused, open_reader


def line(offset: int, number: int) -> str:
    """A file in the log of a source."""
    return json.dumps({"path": f"file:///in/{offset}-{number}", "timestamp": 7, "batchId": offset})


def entry(log: Path, name: str, lines: Iterable[str]) -> None:
    """An entry of the log."""
    log.mkdir(parents=True, exist_ok=True)
    (log / name).write_text("\n".join(["v1", *lines]))


def checkpoint(folder: Path, ends: Sequence[int]) -> tuple[Path, Path]:
    """A checkpoint of a file source that stands at these log offsets, and the folder of its log."""
    location = files.write(folder, planned=len(ends), committed=len(ends))
    for batch, end in enumerate(ends):
        path = location / f"offsets/{batch}"
        path.write_text(path.read_text().rpartition("\n")[0] + f'\n{{"logOffset":{end}}}')
    return location, location / "sources/0"


def shown(location: Path, *arguments: str) -> dict[str, object]:
    """The one source in what the command writes, which is as the schema says."""
    done = holdfast("inspect", str(location), *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    schema = json.loads(
        resources.files("holdfast.report").joinpath("inspect.schema.json").read_text()
    )
    assert not list(problems(found, schema, schema))
    assert found["unreadable"] == []
    (source,) = found["sources"]
    assert isinstance(source, dict)
    return source


def count(found: dict[str, object]) -> tuple[int, object, object]:
    """How many files are listed, how many more are known, of how many log offsets none are."""
    listed = found["files"]
    assert isinstance(listed, list)
    return len(listed), found["files_more"], found["log_offsets_unread"]


def test_all_files_of_a_batch_that_is_asked_for(tmp_path: Path) -> None:
    location, log = checkpoint(tmp_path / "c", [0, 1, 40])
    entry(log, "0", [line(0, 0)])
    entry(log, "1", [line(1, number) for number in range(300)])
    for offset in range(2, 41):
        entry(log, str(offset), [line(offset, 0)])
    one, more = shown(location, "--batch", "1"), shown(location, "--batch", "2")
    assert count(one) == (300, 0, 0)
    assert one["read_from"] == ["offsets/0", "offsets/1", "sources/0/1"]
    assert more["files"] == [f"file:///in/{offset}-0" for offset in range(2, 41)]
    assert count(shown(location, "--compare", "0:2")) == (339, 0, 0)
    assert count(shown(location)) == (20, 0, 19)


def test_how_many_files_are_left_out_is_in_every_form(tmp_path: Path) -> None:
    location, log = checkpoint(tmp_path / "c", [0, 40])
    for offset in range(39):
        entry(log, str(offset), [line(offset, 0)])
    entry(log, "39", [line(39, number) for number in range(100)])
    entry(log, "40", [line(40, number) for number in range(100)])
    found = evidence(location)
    assert count(shown(location)) == (100, 118, 20)
    document, text, markdown, html = rendered(found)
    assert "'files_more': 118, 'log_offsets_unread': 20" in document
    assert "\n  210 more files; the files of 20 log offsets were not read\n" in text
    assert (
        "\n- `file:///in/39-1`\n- 198 more files; the files of 20 log offsets were not read\n"
        in markdown
    )
    assert "<li>118 more files; the files of 20 log offsets were not read</li></ul>" in html


def test_files_that_only_a_compact_entry_holds(tmp_path: Path) -> None:
    """It is read back to where the batch begins; a plain look reads its end."""
    location, log = checkpoint(tmp_path / "c", range(10))
    held = [line(offset, number) for offset in range(10) for number in range(1000)]
    entry(log, "9.compact", held)
    found = shown(location, "--batch", "2")
    assert found["files"] == [f"file:///in/2-{number}" for number in range(1000)]
    assert found["read_from"] == ["offsets/1", "offsets/2", "sources/0/9.compact"]
    assert count(shown(location, "--compare", "0:8")) == (8000, 0, 0)
    assert count(shown(location)) == (100, 900, 0)
    (log / "9.compact").unlink()
    assert count(shown(location)) == count(shown(location, "--batch", "9")) == (0, 0, 1)
    assert "\n  the files of 1 log offset were not read\n" in rendered(evidence(location))[1]


def test_no_file_is_lost_across_two_compactions(tmp_path: Path) -> None:
    """The compact entry itself has files, and those that it has in their place may be removed."""
    location, log = checkpoint(tmp_path / "c", range(26))
    for compact in (9, 19):
        entry(log, f"{compact}.compact", [line(offset, 0) for offset in range(compact + 1)])
    for offset in (*range(9), *range(10, 19), *range(20, 26)):
        entry(log, str(offset), [line(offset, 0)])
    between = [f"file:///in/{offset}-0" for offset in range(8, 25)]
    assert shown(location, "--compare", "7:24")["files"] == between
    for offset in (*range(9), *range(10, 19)):
        (log / str(offset)).unlink()
    assert shown(location, "--compare", "7:24")["files"] == between
    assert count(shown(location, "--compare", "7:24")) == (17, 0, 0)


@pytest.mark.parametrize(
    ("entries", "compacts", "wanted", "read"),
    [
        ((8, 10, 11), (9,), (8, 12), ["8", "10", "11", "9.compact"]),
        ((10, 11), (9, 19), (8, 12), ["10", "11", "9.compact"]),
        ((), (9, 19, 29), (8, 12), ["19.compact"]),
        ((18,), (19,), (18, 19), ["18"]),
        ((20,), (9, 19), (20, 22), ["20"]),
        ((), (9, 10, 11, 12), (10, 12), ["11.compact"]),
        ((5,), (), (5, 5), []),
    ],
)
def test_no_more_is_read_than_tells_the_files(
    tmp_path: Path,
    entries: Sequence[int],
    compacts: Sequence[int],
    wanted: tuple[int, int],
    read: Sequence[str],
) -> None:
    log = tmp_path / "sources/0"
    log.mkdir(parents=True)
    for offset in entries:
        entry(log, str(offset), [line(offset, 0)])
    for last in compacts:
        entry(log, f"{last}.compact", [line(offset, 0) for offset in range(last + 1)])
    there = [offset for offset in range(*wanted) if offset in entries or offset <= max(compacts)]
    reader = Reading(tmp_path)
    found = reader.taken(entries, compacts, range(*wanted), taken_files.NEWEST)
    assert found.files == tuple(f"file:///in/{offset}-0" for offset in there)
    assert found.unread == wanted[1] - wanted[0] - len(there)
    assert [piece.path.rpartition("/")[2] for piece in reader.pieces] == read


def test_of_a_long_compact_entry_no_more_is_read_than_is_wanted(tmp_path: Path) -> None:
    log = tmp_path / "sources/0"
    held = [line(offset, number) for offset in range(400) for number in range(1000)]
    entry(log, "399.compact", held)
    length = (log / "399.compact").stat().st_size
    assert length > 20 << 20
    compacts, look, everything = [399], taken_files.NEWEST, taken_files.ALL
    reader = Reading(tmp_path)
    found = reader.taken((), compacts, range(390, 400), look)
    assert (len(found.files) + found.more, found.unread) == (4168, 6)
    assert reader.bytes == 256 << 10
    found = reader.taken((), compacts, range(390, 400), everything)
    assert (len(found.files), found.more, found.unread) == (10_000, 0, 0)
    assert reader.bytes == (2 * (256 << 10)) + (16 << 20)
    found = reader.taken((), compacts, range(3, 4), everything)
    assert found.files == tuple(f"file:///in/3-{number}" for number in range(1000))
    found = reader.taken((), compacts, range(290, 400), everything)
    assert (len(found.files), found.more, found.unread) == (100_000, 10_000, 0)


def test_a_damaged_compact_entry_tells_nothing_and_is_named(tmp_path: Path) -> None:
    log = tmp_path / "sources/0"
    reader = Reading(tmp_path)
    for damaged in ("v7\n" + line(0, 0), "v1\n" + line(0, 0) + "\n{torn\n" + line(1, 0), ""):
        entry(log, "1.compact", [])
        (log / "1.compact").write_text(damaged)
        found = reader.taken((), [1], range(1, 2), taken_files.ALL)
        assert (found.files, found.unread, len(reader.unreadable)) == ((), 1, 1)
        reader.unreadable.clear()
    location, log = checkpoint(tmp_path / "c", [0, 1])
    entry(log, "1.compact", ["{torn"])
    assert [one.path for one in evidence(location).unreadable] == ["sources/0/1.compact"]


def test_a_log_offset_beyond_63_bits(tmp_path: Path) -> None:
    location, log = checkpoint(tmp_path / "c", [0, 2**70])
    entry(log, "0", [line(0, 0)])
    assert count(shown(location)) == count(shown(location, "--batch", "1")) == (0, 0, 2**70)


def record(location: Path, number: int) -> None:
    """The record of one run."""
    run = f"{1_767_225_600_000 + number:013d}-run-{number:03d}"
    folder = location.parent / f".holdfast/{location.name}/runs/{run}"
    folder.mkdir(parents=True)
    started = {
        "event": "started", "at_ms": 1_767_225_600_000 + number, "query_id": files.QUERY_ID,
        "run_id": f"run-{number:03d}", "name": "c", "sources": [],
    }  # fmt: skip
    (folder / "000000.jsonl").write_text(f"{json.dumps(started)}\n")


def test_every_run_that_is_kept_is_read_and_older_ones_are_told_of(tmp_path: Path) -> None:
    assert runs.MOST_RUNS == KEPT_RUNS
    location = files.write(tmp_path / "c")
    for number in range(KEPT_RUNS):
        record(location, number)
    (tmp_path / ".holdfast/c/runs/0000000000001-empty").mkdir()
    found = evidence(location)
    assert isinstance(found.restart_history, Known)
    assert len(found.restart_history.value) == KEPT_RUNS
    assert found.unreadable == ()
    text, markdown = rendered(found)[1:3]
    assert f"\n  {KEPT_RUNS - 8} earlier\n" in text
    assert f"\n- {KEPT_RUNS - 20} earlier\n" in markdown
    for number in range(KEPT_RUNS, KEPT_RUNS + 3):
        record(location, number)
    found = evidence(location)
    assert isinstance(found.restart_history, Known)
    assert [start.run_id for start in found.restart_history.value] == [
        f"run-{number:03d}" for number in range(3, KEPT_RUNS + 3)
    ]
    reason = f"only the newest {KEPT_RUNS} of its {KEPT_RUNS + 3} runs were read"
    told = UnreadableFile(path=".holdfast/c/runs", reason=reason, outside=True)
    assert found.unreadable == (told,)


def test_every_sign_of_a_restart_is_told(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=40, committed=40)
    for batch in range(1, 40, 2):
        files.offsets(location, batch, 1_767_225_600_000 + batch, {"spark.x": str(batch)})
    found = evidence(location).restart_history
    assert isinstance(found, Known)
    assert len(found.value) == 39


class Reading:
    """A folder on this disk, as a Reader that keeps what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self._inner = open_reader(str(folder))
        self.pieces: list[Piece] = []
        self.bytes = 0
        self.unreadable: list[UnreadableFile] = []

    def taken(
        self,
        entries: Sequence[int],
        compacts: Sequence[int],
        wanted: range,
        bounds: taken_files.ReadBounds,
    ) -> taken_files.TakenFiles:
        """The files of some log offsets of source 0."""
        log = SourceFolder()
        log.entries.add(list(entries))
        log.compacts.add(list(compacts))
        return taken_files.read(self, ("0", log), wanted, bounds, self.unreadable)

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        return self._inner.children(folder)

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Every file below the folders."""
        return self._inner.walk(folders)

    def read(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, bytes | Missing | Refused]]:
        """The pieces, in their order."""
        for piece, data in self._inner.read(pieces):
            self.pieces.append(piece)
            self.bytes += len(data) if isinstance(data, bytes) else 0
            yield piece, data


def test_a_long_entry_that_is_not_compacted_is_no_damage(tmp_path: Path) -> None:
    """The first batch of a folder with hundreds of thousands of files."""
    location = reading_files(tmp_path / "c", batches=2, listed=2)
    path = location / "sources/0/0"
    path.write_text("\n".join(["v1", *[line(0, 0)] * 400_000]))
    assert path.stat().st_size > 16 << 20
    found = diagnosed(location)
    assert Code.SOURCE_LOG_DAMAGED not in codes(found)
    assert found.restart.error is None
    assert found.judgement is Judgement.SAFE
    assert "whether `sources/0/0` is whole" in {one.question for one in found.not_assessed}
    assert not evidence(location).unreadable
    with path.open("a") as file:
        file.write("\n{")
    assert Code.SOURCE_LOG_DAMAGED in codes(diagnosed(location))


def test_of_a_long_compact_entry_only_the_end_is_read(tmp_path: Path) -> None:
    location = reading_files(tmp_path / "c", batches=11, listed=11)
    log, path = location / "sources/0", "sources/0/9.compact"
    names = [line(offset, 0) for offset in range(10)]
    (log / "9").unlink()
    (log / "9.compact").write_text("\n".join(["v9 or whatever", *names * 600, ""]))
    assert (log / "9.compact").stat().st_size > 256 << 10
    found = diagnosed(location)
    assert Code.SOURCE_LOG_DAMAGED not in codes(found)
    assert f"whether `{path}` is whole" in {one.question for one in found.not_assessed}
    (log / "9.compact").write_bytes(b"v1\n{")
    os.truncate(log / "9.compact", 1 << 30)
    found = diagnosed(location)
    assert Code.SOURCE_LOG_DAMAGED in codes(found)
    assert {path} == {one.path for one in evidence(location).unreadable}
