"""Read a folder of this machine with nothing but the operating system.

No time stamp changes, not even that of the last access: files and folders are opened with
O_NOATIME if the system has it and the user may use it. Symbolic links are followed as Hadoop
follows them. But a walk enters no folder through a link twice, and no folder that it is already
inside of, so that a loop of links ends.
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
# A pipe with the name of a log entry must not block the reader until a writer opens it.
_FILE = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)
_DEEPEST = 64
_MOST_AT_ONCE = 1 << 30

Inode = tuple[int, int]
# Takes half the time of `File(…)`, which counts for a million files.
_new = partial(tuple.__new__, File)


@dataclass(slots=True)
class _Links:
    """The folders that a walk entered through links."""

    entered: set[Inode] = field(default_factory=set)


class LocalReader:
    """A Reader of a local folder."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)

    def children(self, folder: str) -> Children | Missing | Refused:
        """Return the files and folders directly in a folder."""
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
            refused=tuple(sorted(refused, key=lambda refusal: refusal.path)),
            real=os.path.realpath(self._at(folder)),
        )

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Yield every file below the folders, at any depth, each file once."""
        links = _Links()
        for folder in folders:
            yield from self._walk_below(folder, (), links)

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """Yield the pieces, in their order."""
        for piece in pieces:
            try:
                yield piece, self._read_content(piece)
            except (FileNotFoundError, NotADirectoryError):
                yield piece, Missing(path=piece.path)
            except OSError as error:
                yield piece, _refuse(piece.path, error)

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def _leads_back(self, folder: str, entry: "os.DirEntry[str]") -> bool:
        """Return whether an entry is a link to its own folder or to a folder above it."""
        if not entry.is_symlink():
            return False
        own = os.path.realpath(self._at(folder))
        target = os.path.realpath(self._at(join_path(folder, entry.name)))
        return f"{own}/".startswith(f"{target.rstrip('/')}/")

    def _walk_below(
        self, folder: str, above: tuple[Inode, ...], links: _Links
    ) -> Iterator[Portion | Refused]:
        try:
            with _open(self._at(folder), _FOLDER) as number, os.scandir(number) as entries:
                status = os.fstat(number)
                inside = (*above, (status.st_dev, status.st_ino))
                deeper: list[str] = []
                yield from _list_portions(folder, entries, inside, links, deeper)
        except FileNotFoundError:
            return  # the folder was deleted after its parent was listed
        except OSError as error:
            yield _refuse(folder, error)
            return
        # Only after the folder is closed, because a deep tree could exceed the limit of open files.
        for name in deeper:
            path = join_path(folder, name)
            if len(inside) >= _DEEPEST:
                yield Refused(path=path, reason=f"more than {_DEEPEST} folders deep")
            else:
                yield from self._walk_below(path, inside, links)

    def _read_content(self, piece: Piece) -> bytes | Refused:
        with _open(self._at(piece.path), _FILE) as number:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode):
                return Refused(path=piece.path, reason="not a regular file")
            size = status.st_size
            if size > piece.most and not piece.last:
                return refuse_too_long(piece, size)
            start = max(0, size - piece.most)
            return _read_range(number, start, size - start)


def open_folder(root: Path) -> LocalReader:
    """Return a reader of the folder, whether the folder exists or not; creates nothing."""
    if "\0" in str(root):
        raise StorageUnavailable(
            "the path contains a NUL character", hint="write the location without it"
        )
    return LocalReader(root)


@contextmanager
def open_quietly(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, without changing its time stamps."""
    with _open(str(path), _FILE) as number, os.fdopen(number, "rb", closefd=False) as file:
        yield file


def _read_range(number: int, start: int, length: int) -> bytes:
    parts: list[bytes] = []
    while length:
        # As much as possible at once: joining parts needs twice the memory.
        part = os.pread(number, min(length, _MOST_AT_ONCE), start)
        if not part:
            break
        parts.append(part)
        start += len(part)
        length -= len(part)
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
        # Plain files first, with as few calls as possible: most entries are plain files.
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
    """Follow a link to a folder or to a file; ignore a link whose target does not exist."""
    try:
        if entry.is_file():
            files += [file for file in [_to_file(entry)] if file is not None]
        elif entry.is_dir():
            reason = _enter_link(entry, *entered)
            if reason:
                yield Refused(path=join_path(folder, entry.name), reason=reason)
            else:
                deeper.append(entry.name)
    except OSError as error:
        yield _refuse_entry(folder, entry, error)


def _enter_link(entry: "os.DirEntry[str]", inside: tuple[Inode, ...], links: _Links) -> str:
    """Return why a link to a folder is not followed, or an empty text."""
    status = entry.stat()
    inode = (status.st_dev, status.st_ino)
    if inode in inside:
        return "a link to a folder above it"
    if inode in links.entered:
        return "a second link to the same folder"
    links.entered.add(inode)
    return ""


def _to_file(entry: "os.DirEntry[str]") -> File | None:
    """Return the file, or None if it no longer exists."""
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
        # Only the owner of a file may open it with O_NOATIME.
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
    """Return the refusal of one entry of a folder, such as a link to itself.

    A folder that may be listed but not entered refuses every entry; then the folder is refused.
    """
    if isinstance(error, PermissionError) and not entry.is_symlink():
        raise error
    return _refuse(join_path(folder, entry.name), error)


def _refuse(path: str, error: OSError) -> Refused:
    reason = (error.strerror or type(error).__name__).lower()
    return Refused(path=path, reason=reason, forbidden=isinstance(error, PermissionError))
