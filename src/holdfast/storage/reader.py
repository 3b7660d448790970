"""The port for looking at storage: three verbs, none of which can change anything.

    children   what lies directly in a folder
    walk       every file below some folders, in portions, so that memory does not grow with them
    read       the content of some files, asked for together

What is not there, or may not be read, is a value: a checkpoint that is being written while it is
looked at loses and gains files at any moment. Only storage that does not answer at all raises
StorageUnavailable.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from holdfast.storage.store import Missing

PORTION = 4096
"""At most so many files are handed on at once."""


class File(NamedTuple):
    """A file as its folder lists it. A tuple, because there may be a million of them."""

    name: str
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Something that is there and cannot be read, and why.

    `forbidden`: others may read it. `too_long`: it was not read, because of its size.
    """

    path: str
    reason: str
    forbidden: bool = False
    too_long: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """What lies directly in a folder, each sorted by name; `refused` can be told to be neither.

    `real` is where the folder lies once links are followed, so that it is known again under another
    name; empty on storage without links.
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
    """What to read of a file: all of it if it is not longer than `most`, or its last `most` bytes.

    A file that is longer than it may be is refused without reading it. The last 0 bytes are empty
    if the file is there.
    """

    path: str
    most: int
    last: bool = False


ReadResult = tuple[Piece, bytes | Missing | Refused]


class Reader(Protocol):
    """A folder that is only looked at. Names are relative and use `/`; the folder itself is ``."""

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        ...

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Every file below the folders, at any depth; each file once."""
        ...

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """The pieces, in their order; on remote storage they are asked for together."""
        ...


def refuse_too_long(piece: Piece, size: int) -> Refused:
    """The refusal of a file that is longer than it may be."""
    reason = f"has {size:,} bytes, more than the {piece.most:,} read"
    return Refused(path=piece.path, reason=reason, too_long=True)


def join_path(folder: str, name: str) -> str:
    """The path of a name in a folder."""
    return f"{folder}/{name}" if folder else name


class Subfolder:
    """A folder of a Reader, as a Reader."""

    def __init__(self, reader: Reader, folder: str) -> None:
        self._reader = reader
        self._folder = folder

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        match self._reader.children(self._at(folder)):
            case Children(refused=refused) as found:
                inside = tuple(replace(one, path=self._inside(one.path)) for one in refused)
                return replace(found, refused=inside) if inside else found
            case found:
                return replace(found, path=self._inside(found.path))

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Every file below the folders, at any depth; each file once."""
        for found in self._reader.walk([self._at(folder) for folder in folders]):
            match found:
                case Portion(folder=folder, files=files):
                    yield Portion(folder=self._inside(folder), files=files)
                case Refused(path=path):
                    yield replace(found, path=self._inside(path))

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """The pieces, in their order."""
        whole = [Piece(path=self._at(p.path), most=p.most, last=p.last) for p in pieces]
        for piece, (_, data) in zip(pieces, self._reader.read(whole), strict=True):
            yield piece, data if isinstance(data, bytes) else replace(data, path=piece.path)

    def _at(self, path: str) -> str:
        return join_path(self._folder, path) if path else self._folder

    def _inside(self, path: str) -> str:
        return path[len(self._folder) + 1 :] if self._folder else path
