"""Looking at a folder of this machine, through the operating system alone.

Time stamps stay as they are, also those of the last access: files and folders are opened with
O_NOATIME where the system has it and this user may. Symbolic links are followed as Hadoop follows
them, but no folder is entered through a link twice, nor one that the walk is already inside of:
a loop of links ends.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import BinaryIO

from holdfast.errors import StorageUnavailable
from holdfast.storage.reader import (
    PORTION,
    Children,
    File,
    Piece,
    Portion,
    ReadResult,
    Refused,
    join_path,
    refuse_too_long,
)
from holdfast.storage.store import Missing

_QUIET = getattr(os, "O_NOATIME", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
# A pipe under the name of a log entry must not keep the reader waiting for its writer.
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
_DEEPEST = 64
_MOST_AT_ONCE = 1 << 30

Inode = tuple[int, int]
# Half the time of the call that it stands for, a million times.
_new = partial(tuple.__new__, File)


@dataclass(slots=True)
class _Links:
    """Which folders a walk was led into by links."""

    entered: set[Inode] = field(default_factory=set)


class LocalReader:
    """A Reader of a local folder."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        files: list[File] = []
        folders: list[str] = []
        refused: list[Refused] = []
        try:
            with _open(self._at(folder), _FOLDER) as number, os.scandir(number) as entries:
                for entry in entries:
                    try:
                        if entry.is_dir():
                            if not self._leads_back(folder, entry):
                                folders.append(entry.name)
                        elif entry.is_file() and (file := _to_file(entry)) is not None:
                            files.append(file)
                    except OSError as error:
                        refused.append(_refuse_entry(folder, entry, error))
        except FileNotFoundError:
            return Missing(path=folder)
        except OSError as error:
            return _refuse(folder, error)
        return Children(
            files=tuple(sorted(files)),
            folders=tuple(sorted(folders)),
            refused=tuple(sorted(refused, key=lambda one: one.path)),
            real=os.path.realpath(self._at(folder)),
        )

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Every file below the folders, at any depth; each file once."""
        links = _Links()
        for folder in folders:
            yield from self._below(folder, (), links)

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """The pieces, in their order."""
        for piece in pieces:
            try:
                yield piece, self._content(piece)
            except (FileNotFoundError, NotADirectoryError):
                yield piece, Missing(path=piece.path)
            except OSError as error:
                yield piece, _refuse(piece.path, error)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _leads_back(self, folder: str, entry: "os.DirEntry[str]") -> bool:
        """Whether an entry is a link to its own folder or to one above it."""
        if not entry.is_symlink():
            return False
        own = os.path.realpath(self._at(folder))
        target = os.path.realpath(self._at(join_path(folder, entry.name)))
        return f"{own}/".startswith(f"{target.rstrip('/')}/")

    def _below(
        self, folder: str, above: tuple[Inode, ...], links: _Links
    ) -> Iterator[Portion | Refused]:
        try:
            with _open(self._at(folder), _FOLDER) as number, os.scandir(number) as entries:
                status = os.fstat(number)
                inside = (*above, (status.st_dev, status.st_ino))
                deeper: list[str] = []
                yield from _list_portions(folder, entries, inside, links, deeper)
        except FileNotFoundError:
            return  # it went while the folder above was read
        except OSError as error:
            yield _refuse(folder, error)
            return
        # Only after the folder is closed again: a deep tree must not use up the open files.
        for name in deeper:
            path = join_path(folder, name)
            if len(inside) >= _DEEPEST:
                yield Refused(path=path, reason=f"lies more than {_DEEPEST} folders deep")
            else:
                yield from self._below(path, inside, links)

    def _content(self, piece: Piece) -> bytes | Refused:
        with _open(self._at(piece.path), _FILE) as number:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                return Refused(path=piece.path, reason="is not a regular file")
            size = status.st_size
            if size > piece.most and not piece.last:
                return refuse_too_long(piece, size)
            start = max(0, size - piece.most)
            return _read_range(number, start, size - start)


def open_folder(root: Path) -> LocalReader:
    """The folder, whether it is there or not; nothing is made."""
    if "\0" in str(root):
        raise StorageUnavailable(
            "expected a path, found one with a NUL character in it", hint="check the location"
        )
    return LocalReader(root)


@contextmanager
def open_quietly(path: Path) -> Iterator[BinaryIO]:
    """A file that is read from its beginning on, without a trace in its time stamps."""
    with _open(str(path), _FILE) as number, os.fdopen(number, "rb", closefd=False) as file:
        yield file


def _read_range(number: int, start: int, wanted: int) -> bytes:
    parts: list[bytes] = []
    while wanted:
        # All at once: parts that are put together are in memory twice.
        part = os.pread(number, min(wanted, _MOST_AT_ONCE), start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        wanted -= len(part)
    return b"".join(parts)


def _list_portions(
    folder: str,
    entries: Iterator[os.DirEntry[str]],
    inside: tuple[Inode, ...],
    links: _Links,
    deeper: list[str],
) -> Iterator[Portion | Refused]:
    files: list[File] = []
    for entry in entries:
        # What is most of all comes first, in as few calls as there can be.
        if entry.is_file(follow_symlinks=False):
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                yield from _refuse_unless_gone(folder, entry, error)
                continue
            files.append(_new((entry.name, status.st_size, status.st_mtime_ns // 1_000_000)))
            if len(files) >= PORTION:
                yield Portion(folder=folder, files=files)
                files = []
        elif entry.is_dir(follow_symlinks=False):
            deeper.append(entry.name)
        elif entry.is_symlink():
            yield from _follow_link(folder, entry, (inside, links), deeper, files)
    if files:
        yield Portion(folder=folder, files=files)


def _follow_link(
    folder: str,
    entry: "os.DirEntry[str]",
    entered: tuple[tuple[Inode, ...], _Links],
    deeper: list[str],
    files: list[File],
) -> Iterator[Refused]:
    """Follow a link to a folder or to a file; one to nowhere is nothing."""
    try:
        if entry.is_file():
            files += [file for file in [_to_file(entry)] if file is not None]
        elif entry.is_dir():
            refused = _enter_link(entry, *entered)
            if refused:
                yield Refused(path=join_path(folder, entry.name), reason=refused)
            else:
                deeper.append(entry.name)
    except OSError as error:
        yield _refuse_entry(folder, entry, error)


def _enter_link(entry: "os.DirEntry[str]", inside: tuple[Inode, ...], links: _Links) -> str:
    """Why a link to a folder is not followed, or nothing."""
    status = entry.stat()
    inode = (status.st_dev, status.st_ino)
    if inode in inside:
        return "is a link to a folder above it"
    if inode in links.entered:
        return "is a second link to one folder"
    links.entered.add(inode)
    return ""


def _to_file(entry: "os.DirEntry[str]") -> File | None:
    """The file, or None if it is gone by now."""
    try:
        status = entry.stat()
    except FileNotFoundError:
        return None
    return _new((entry.name, status.st_size, status.st_mtime_ns // 1_000_000))


@contextmanager
def _open(path: str, flags: int) -> Iterator[int]:
    try:
        number = os.open(path, flags | _QUIET)
    except PermissionError:
        # Only the owner of a file may read it without leaving a trace.
        number = os.open(path, flags)
    try:
        yield number
    finally:
        os.close(number)


def _refuse_unless_gone(
    folder: str, entry: "os.DirEntry[str]", error: OSError
) -> Iterator[Refused]:
    if not isinstance(error, FileNotFoundError):
        yield _refuse_entry(folder, entry, error)


def _refuse_entry(folder: str, entry: "os.DirEntry[str]", error: OSError) -> Refused:
    """The refusal of one entry of a folder, such as a link to itself.

    A folder that may be listed and not entered refuses every entry: that is told of the folder.
    """
    if isinstance(error, PermissionError) and not entry.is_symlink():
        raise error
    return _refuse(join_path(folder, entry.name), error)


def _refuse(path: str, error: OSError) -> Refused:
    reason = (error.strerror or type(error).__name__).lower()
    return Refused(path=path, reason=reason, forbidden=isinstance(error, PermissionError))
