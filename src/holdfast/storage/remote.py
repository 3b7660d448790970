"""Read a folder of an object store or of HDFS, with many requests at the same time.

One request takes tens of milliseconds, however small it is. So the folders of a walk are listed at
the same time, and so are the pieces of a read. The portions pass through a queue of limited length,
so that a fast server cannot fill the memory.
"""

import queue
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from holdfast.storage.reader import PORTION, Children, File, Piece, Portion, ReadResult, Refused
from holdfast.storage.store import Missing

TOGETHER = 32
_QUEUED = 64
_WAIT_SECONDS = 0.2

ListedFile = tuple[str, int, int]
"""Path, size in bytes, and time of the last change in milliseconds."""


class Forbidden(Exception):
    """This user may not list a folder; the message is the server's."""


class Remote(Protocol):
    """A client of remote storage; its paths are relative to the folder that is read."""

    def children(self, folder: str) -> Children | Missing | Refused:
        """Return the files and folders directly in a folder."""
        ...

    def list_below(self, folder: str) -> Iterator[Sequence[ListedFile]]:
        """Yield every file below a folder, in the pages of the server; raise Forbidden."""
        ...

    def read_piece(self, piece: Piece) -> bytes | Missing | Refused:
        """Return a piece of a file."""
        ...


class RemoteReader:
    """A Reader of storage that is reached over the network."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def children(self, folder: str) -> Children | Missing | Refused:
        """Return the files and folders directly in a folder."""
        return self._remote.children(folder)

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Yield every file below the folders, at any depth, each file once."""
        listings = _Listings(self._remote)
        with ThreadPoolExecutor(TOGETHER) as pool:
            try:
                for folder in folders:
                    pool.submit(listings.list_folder, folder)
                yield from listings.iterate(len(folders))
            finally:
                listings.abandoned.set()

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """Yield the pieces, in their order, while later ones are already requested."""
        with ThreadPoolExecutor(TOGETHER) as pool:
            # In groups, because a pool yields no result before all tasks are submitted.
            for start in range(0, len(pieces), TOGETHER * 4):
                group = pieces[start : start + TOGETHER * 4]
                yield from zip(group, pool.map(self._remote.read_piece, group), strict=True)


class _Listings:
    """Listings in progress, and the queue of their portions."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._answers: queue.Queue[Portion | Refused | Exception | None] = queue.Queue(_QUEUED)
        self.abandoned = threading.Event()

    def list_folder(self, folder: str) -> None:
        """List one folder; put None into the queue when it is done."""
        try:
            for portion in _group_by_folder(self._remote.list_below(folder)):
                if not self._put(portion):
                    return
            self._put(None)
        except Forbidden as error:
            self._put(Refused(path=folder, reason=str(error), forbidden=True))
            self._put(None)
        except Exception as error:
            self._put(error)

    def iterate(self, unfinished: int) -> Iterator[Portion | Refused]:
        """Yield the portions of all listings as they arrive."""
        while unfinished:
            match self._answers.get():
                case None:
                    unfinished -= 1
                case Exception() as error:
                    raise error
                case portion:
                    yield portion

    def _put(self, answer: Portion | Refused | Exception | None) -> bool:
        while not self.abandoned.is_set():
            try:
                self._answers.put(answer, timeout=_WAIT_SECONDS)
            except queue.Full:
                continue
            return True
        return False


def _group_by_folder(pages: Iterator[Sequence[ListedFile]]) -> Iterator[Portion]:
    """Group pages of paths into portions of one folder each."""
    folder, files = "", list[File]()
    for path, size, modified_ms in _drop_markers(pages):
        own, _, name = path.rpartition("/")
        if own != folder or len(files) >= PORTION:
            if files:
                yield Portion(folder=folder, files=files)
            folder, files = own, []
        files.append(File(name, size, modified_ms))
    if files:
        yield Portion(folder=folder, files=files)


def _drop_markers(pages: Iterator[Sequence[ListedFile]]) -> Iterator[ListedFile]:
    """Yield the files without the empty objects that mark folders.

    Hadoop marks a folder with an empty object `a/`, which clients list as a file `a`. Listings are
    sorted by name, so the contents of the folder follow immediately.
    """
    empty: ListedFile | None = None
    for page in pages:
        for file in page:
            if empty is not None:
                if not file[0].startswith(f"{empty[0]}/"):
                    yield empty
                empty = None
            if file[1]:
                yield file
            else:
                empty = file
    if empty is not None:
        yield empty
