"""One behaviour of looking at storage, over every implementation."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.adapters.remotes import SERVERS, remote
from tests.adapters.test_store import NAMES
from tests.looking import stamps
from tests.rights import as_nobody

from holdfast.errors import StorageUnavailable
from holdfast.storage import (
    Children,
    File,
    Missing,
    Piece,
    Portion,
    Reader,
    Refused,
    Subfolder,
    open_reader,
    open_store,
)
from holdfast.storage.reader import PORTION

Filled = Callable[[Mapping[str, bytes]], Reader]


@pytest.fixture(params=["disk", *SERVERS])
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Filled:
    """Writes files and opens their folder, on each kind of storage."""
    match request.param:
        case "disk":
            url, options = str(tmp_path / "a b" / "ü%"), {}
        case server:
            url, given = remote(request.getfixturevalue(server), "a b/ü")
            options = dict(given)

    def fill(files: Mapping[str, bytes]) -> Reader:
        store = open_store(url, options)
        for name, data in files.items():
            store.write(name, data)
        return open_reader(url, options)

    return fill


def walked(reader: Reader, *folders: str) -> dict[str, int]:
    found = {}
    for portion in reader.walk(folders or [""]):
        assert isinstance(portion, Portion)
        for file in portion.files:
            path = f"{portion.folder}/{file.name}" if portion.folder else file.name
            assert path not in found
            found[path] = file.size
    return found


def read(reader: Reader, *pieces: Piece) -> list[bytes | Missing | Refused]:
    answers = list(reader.read(pieces))
    assert [piece for piece, _ in answers] == list(pieces)
    return [data for _, data in answers]


def test_children_are_files_and_folders(filled: Filled) -> None:
    reader = filled({"b": b"12", "a": b"1", "x/y/z": b"123", "x/w": b""})
    top = reader.children("")
    assert isinstance(top, Children)
    assert [(file.name, file.size) for file in top.files] == [("a", 1), ("b", 2)]
    assert all(file.modified_ms > 1_700_000_000_000 for file in top.files)
    assert top.folders == ("x",)
    inside = reader.children("x")
    assert isinstance(inside, Children)
    assert ([file.name for file in inside.files], inside.folders) == (["w"], ("y",))


def test_what_is_not_there_is_missing(filled: Filled) -> None:
    reader = filled({"a": b"1"})
    assert reader.children("nowhere") == Missing(path="nowhere")
    assert read(reader, Piece(path="nowhere/x", most=10)) == [Missing(path="nowhere/x")]
    assert walked(reader, "nowhere") == {}


def test_a_walk_finds_every_file_below_some_folders(filled: Filled) -> None:
    files = {f"{a}/{b}/{c}": b"x" * c for a in "pqr" for b in range(3) for c in range(1, 5)}
    reader = filled({**files, "top": b"1", "empty": b""})
    assert walked(reader) == {path: len(data) for path, data in files.items()} | {
        "top": 1,
        "empty": 0,
    }
    wanted = {path: len(data) for path, data in files.items() if path[0] in "pr"}
    assert walked(reader, "p", "r") == wanted
    assert walked(Subfolder(reader, "p"), "1") == {f"1/{c}": c for c in range(1, 5)}


def test_pieces_are_bounded(filled: Filled) -> None:
    reader = filled({"a": b"0123456789", "d/empty": b""})
    assert read(
        reader,
        Piece(path="a", most=10),
        Piece(path="a", most=3, last=True),
        Piece(path="a", most=0, last=True),
        Piece(path="d/empty", most=5),
        Piece(path="d/empty", most=5, last=True),
    ) == [b"0123456789", b"789", b"", b"", b""]
    (refused,) = read(reader, Piece(path="a", most=9))
    reason = "10 bytes, more than the limit of 9"
    assert refused == Refused(path="a", reason=reason, too_long=True)
    assert read(Subfolder(reader, "d"), Piece(path="empty", most=1)) == [b""]


def test_pieces_come_in_their_order_however_many(filled: Filled) -> None:
    reader = filled({f"f/{n}": b"%d" % n for n in range(300)})
    pieces = [Piece(path=f"f/{n}", most=100) for n in reversed(range(301))]
    assert read(reader, *pieces) == [
        Missing(path="f/300"),
        *(b"%d" % n for n in reversed(range(300))),
    ]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_on_disk_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / name).write_bytes(b"theirs")
    for url in (str(tmp_path / name), f"file://{tmp_path / name}"):
        reader = open_reader(url)
        assert walked(reader) == {name: 6}
        assert read(reader, Piece(path=name, most=10)) == [b"theirs"]


def test_nothing_is_made_and_no_time_stamp_moves(tmp_path: Path) -> None:
    for n in range(5):
        (tmp_path / f"in/{n}").mkdir(parents=True)
        (tmp_path / f"in/{n}/file").write_text("content")
        os.utime(tmp_path / f"in/{n}/file", ns=(1, 2))
        os.utime(tmp_path / f"in/{n}", ns=(1, 2))
    before = stamps(tmp_path)
    reader = open_reader(str(tmp_path))
    assert len(walked(reader)) == 5
    assert isinstance(reader.children("in"), Children)
    assert read(reader, Piece(path="in/3/file", most=100)) == [b"content"]
    assert open_reader(str(tmp_path / "new")).children("") == Missing(path="")
    assert stamps(tmp_path) == before


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("x")
    (tmp_path / "a/b/up").symlink_to(tmp_path / "a")
    (tmp_path / "a/self").symlink_to(".")
    (tmp_path / "a/gone").symlink_to("nowhere")
    found = list(open_reader(str(tmp_path)).walk([""]))
    assert [one for one in found if isinstance(one, Portion)] == [
        Portion(folder="a/b", files=[File("file", 1, found_ms(tmp_path / "a/b/file"))])
    ]
    refused = {one.path: one.reason for one in found if isinstance(one, Refused)}
    assert refused == dict.fromkeys(("a/b/up", "a/self"), "a link to a folder above it")
    top = open_reader(str(tmp_path)).children("a")
    assert isinstance(top, Children)
    assert top.folders == ("b",)


def test_a_link_to_itself_is_refused_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("x")
    (tmp_path / "a/b/loop").symlink_to("loop")
    reader = open_reader(str(tmp_path))
    loop = Refused(path="a/b/loop", reason="too many levels of symbolic links")
    assert loop in list(reader.walk([""]))
    top = Subfolder(reader, "a").children("b")
    assert isinstance(top, Children)
    assert [file.name for file in top.files] == ["file"]
    assert top.refused == (replace(loop, path="b/loop"),)


@pytest.mark.parametrize("mode", [0, 0o700, 0o744])
def test_a_folder_that_may_not_be_entered_is_forbidden(tmp_path: Path, mode: int) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_text("x")
    (tmp_path / "a/b").chmod(mode)
    reader = Subfolder(open_reader(str(tmp_path)), "a")
    forbidden = Refused(path="b", reason="permission denied", forbidden=True)
    assert as_nobody(tmp_path / "a", lambda: reader.children("b")) == forbidden
    assert as_nobody(tmp_path / "a", lambda: list(reader.walk([""]))) == [forbidden]
    (piece,) = as_nobody(tmp_path / "a", lambda: read(reader, Piece(path="b/file", most=9)))
    assert piece == replace(forbidden, path="b/file")


def test_links_that_fan_out_are_followed_once(tmp_path: Path) -> None:
    for n in range(8):
        (tmp_path / f"d{n}").mkdir()
        (tmp_path / f"d{n}/file").write_text("x")
        for other in range(8):
            (tmp_path / f"d{n}/to{other}").symlink_to(f"../d{other}")
    files = sum(
        len(o.files) for o in open_reader(str(tmp_path)).walk([""]) if isinstance(o, Portion)
    )
    assert files <= 16


def test_a_folder_behind_a_link_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_text("x")
    (tmp_path / "here").mkdir()
    (tmp_path / "here/linked").symlink_to(tmp_path / "other")
    assert walked(open_reader(str(tmp_path / "here"))) == {"linked/file": 1}


def test_a_pipe_does_not_keep_the_reader_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "7")
    reader = open_reader(str(tmp_path))
    assert walked(reader) == {}
    (refused,) = read(reader, Piece(path="7", most=10))
    assert refused == Refused(path="7", reason="not a regular file")


def test_a_large_folder_comes_in_portions(tmp_path: Path) -> None:
    for n in range(PORTION + 10):
        (tmp_path / str(n)).touch()
    portions = list(open_reader(str(tmp_path)).walk([""]))
    assert [len(p.files) for p in portions if isinstance(p, Portion)] == [PORTION, 10]


def test_a_deep_tree_ends(tmp_path: Path) -> None:
    (tmp_path / "/".join(["d"] * 80)).mkdir(parents=True)
    (found,) = list(open_reader(str(tmp_path)).walk([""]))
    assert isinstance(found, Refused)
    assert found.reason == "more than 64 folders deep"


def test_a_path_with_nul_is_refused() -> None:
    with pytest.raises(StorageUnavailable, match="NUL"):
        open_reader("/a\0b")


def found_ms(path: Path) -> int:
    return path.stat().st_mtime_ns // 1_000_000
