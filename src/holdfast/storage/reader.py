"""The port that only reads storage: three verbs, none of which can change anything.

    children   list what is directly in a folder
    walk       list every file below some folders, in portions, so that memory stays bounded
    read       read the content of some files, requested together

A file that is missing or may not be read is a value, not an error: a running query adds and deletes
files of its checkpoint at any moment. Only storage that does not answer raises StorageUnavailable.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from holdfast.storage.store import Missing

PORTION = 4096
"""The largest number of files in a portion."""


class File(NamedTuple):
    """A file as its folder lists it. A tuple, because there may be a million of them."""

    name: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A file or folder that exists and cannot be read, with the reason.

    `forbidden`: this user may not read it. `too_long`: it was not read because of its size.
    """

    path: str
    reason: str
    forbidden: bool = False
    too_long: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """The files and folders directly in a folder, sorted by name.

    `refused` are entries that may be either. `real` is the path of the folder with all links
    resolved, which identifies a folder that has several names; empty on storage without links.
    """

    files: tuple[File, ...]
    folders: tuple[str, ...]
    refused: tuple[Refused, ...] = ()
    real: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """Some files of one folder; a large folder comes in several portions."""

    folder: str
    files: Sequence[File]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a file to read: the whole file, or with `last` its last `most` bytes.

    A whole file that is longer than `most` is refused without reading it. The last 0 bytes show
    only whether the file exists.
    """

    path: str
    most: int
    last: bool = False


ReadResult = tuple[Piece, bytes | Missing | Refused]


class Reader(Protocol):
    """A folder to read. Names are relative and use `/`; the folder itself is an empty text."""

    def children(self, folder: str) -> Children | Missing | Refused:
        """Return the files and folders directly in a folder."""
        ...

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Yield every file below the folders, at any depth, each file once."""
        ...

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """Yield the pieces, in their order; remote storage gets the requests together."""
        ...


def refuse_too_long(piece: Piece, size: int) -> Refused:
    """Return the refusal of a file that is longer than the limit of the piece."""
    reason = f"{size:,} bytes, more than the limit of {piece.most:,}"
    return Refused(path=piece.path, reason=reason, too_long=True)


def join_path(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return f"{folder}/{name}" if folder else name


class Subfolder:
    """A folder of a Reader, as a Reader."""

    def __init__(self, reader: Reader, folder: str) -> None:
        self._reader = reader
        self._folder = folder

    def children(self, folder: str) -> Children | Missing | Refused:
        """Return the files and folders directly in a folder."""
        match self._reader.children(self._at(folder)):
            case Children(refused=refused) as children:
                inside = tuple(
                    replace(refusal, path=self._inside(refusal.path)) for refusal in refused
                )
                return replace(children, refused=inside) if inside else children
            case absent:
                return replace(absent, path=self._inside(absent.path))

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Yield every file below the folders, at any depth, each file once."""
        for result in self._reader.walk([self._at(folder) for folder in folders]):
            match result:
                case Portion(folder=folder, files=files):
                    yield Portion(folder=self._inside(folder), files=files)
                case Refused(path=path):
                    yield replace(result, path=self._inside(path))

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """Yield the pieces, in their order."""
        whole = [Piece(path=self._at(p.path), most=p.most, last=p.last) for p in pieces]
        for piece, (_, data) in zip(pieces, self._reader.read(whole), strict=True):
            yield piece, data if isinstance(data, bytes) else replace(data, path=piece.path)

    def _at(self, path: str) -> str:
        return join_path(self._folder, path) if path else self._folder

    def _inside(self, path: str) -> str:
        return path[len(self._folder) + 1 :] if self._folder else path
