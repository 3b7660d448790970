"""Looking at a folder of an object store or of HDFS, with requests issued together.

One request takes tens of milliseconds, however little it asks for. So the folders of a walk are
listed at the same time, and so are the pieces of a read; the answers are handed on in portions
through a queue that holds a few of them, so that a fast server cannot fill the memory.
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
"""Path, size, and when it was modified, in milliseconds."""


class Forbidden(Exception):
    """This user may not list a folder, in the words of the server."""


class Remote(Protocol):
    """What the reader needs of a client; its paths are relative to the folder that is looked at."""

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        ...

    def below(self, folder: str) -> Iterator[Sequence[ListedFile]]:
        """Every file below a folder, as the server pages them; raises Forbidden."""
        ...

    def piece(self, piece: Piece) -> bytes | Missing | Refused:
        """What is wanted of a file."""
        ...


class RemoteReader:
    """A Reader of storage that is asked over the network."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        return self._remote.children(folder)

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Every file below the folders, at any depth; each file once."""
        listings = _Listings(self._remote)
        with ThreadPoolExecutor(TOGETHER) as pool:
            try:
                for folder in folders:
                    pool.submit(listings.listed, folder)
                yield from listings.portions(len(folders))
            finally:
                listings.abandoned.set()

    def read(self, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
        """The pieces, in their order; asked for together, some ahead of the one that is awaited."""
        with ThreadPoolExecutor(TOGETHER) as pool:
            # In groups, because a pool hands out no answer before all of its tasks are known.
            for start in range(0, len(pieces), TOGETHER * 4):
                group = pieces[start : start + TOGETHER * 4]
                yield from zip(group, pool.map(self._remote.piece, group), strict=True)


class _Listings:
    """Listings under way, and the queue that their portions come through."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._answers: queue.Queue[Portion | Refused | Exception | None] = queue.Queue(_QUEUED)
        self.abandoned = threading.Event()

    def listed(self, folder: str) -> None:
        """List one folder; None in the queue says that it is done."""
        try:
            for portion in _group_by_folder(self._remote.below(folder)):
                if not self._put(portion):
                    return
            self._put(None)
        except Forbidden as error:
            self._put(Refused(path=folder, reason=str(error), forbidden=True))
            self._put(None)
        except Exception as error:
            self._put(error)

    def portions(self, going: int) -> Iterator[Portion | Refused]:
        """The portions of so many listings, as they come."""
        while going:
            match self._answers.get():
                case None:
                    going -= 1
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
    """Pages of paths -> files by folder."""
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
    """The files, without the empty objects that stand for folders.

    Hadoop marks a folder by an empty object `a/`, which clients show as a file `a`. Listings are
    in the order of the names, so what lies in the folder follows at once.
    """
    held: ListedFile | None = None
    for page in pages:
        for found in page:
            if held is not None:
                if not found[0].startswith(f"{held[0]}/"):
                    yield held
                held = None
            if found[1]:
                yield found
            else:
                held = found
    if held is not None:
        yield held
