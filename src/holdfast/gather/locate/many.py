"""A folder of checkpoints -> a result for each of them.

A small checkpoint takes a dozen requests, one after the other. On remote storage each request takes
tens of milliseconds, so several checkpoints are read at once.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TypeVar

from holdfast.gather.inventory import tree
from holdfast.gather.locate import resolve
from holdfast.gather.locate.resolve import Checkpoint, FolderOfCheckpoints
from holdfast.storage import Children, urls

T = TypeVar("T")

TOGETHER = 8


def read_each(
    folder: FolderOfCheckpoints,
    storage: Mapping[str, str],
    read: Callable[[Checkpoint, tree.OnProgress], T],
    on_progress: tree.OnProgress,
) -> Iterator[T]:
    """Yield what `read` returns for each checkpoint of a folder, in order.

    A checkpoint that is gone by now is skipped. Only the results are kept in memory.
    """
    progress = _SharedProgress(len(folder.checkpoints), on_progress)
    read_at = partial(_read_at, folder, storage, read, progress)
    if urls.is_local(folder.url):
        yield from (result for path in folder.checkpoints for result in read_at(path))
        return
    from concurrent.futures import ThreadPoolExecutor  # slow to load, seldom used

    with ThreadPoolExecutor(TOGETHER) as pool:
        results = pool.map(read_at, folder.checkpoints)
        yield from (result for found in results for result in found)


def _read_at(
    folder: FolderOfCheckpoints,
    storage: Mapping[str, str],
    read: Callable[[Checkpoint, tree.OnProgress], T],
    progress: "_SharedProgress",
    path: str,
) -> tuple[T, ...]:
    place = resolve.make_place_below(folder, path, storage)
    top = place.reader.children("")
    if not isinstance(top, Children):
        return ()
    with progress.begin_checkpoint() as on_progress:
        return (read(Checkpoint(place=place, top=top), on_progress),)


class _SharedProgress:
    """The progress of several listings, reported as one."""

    def __init__(self, checkpoints: int, on_progress: tree.OnProgress) -> None:
        self._checkpoints = checkpoints
        self._on_progress = on_progress
        self._files = 0
        self._share = 0.0
        self._lock = threading.Lock()

    def add(self, files: int, share: float) -> None:
        """Add more files, and a further share of the folders of one checkpoint."""
        with self._lock:
            self._files += files
            self._share += share / self._checkpoints
            self._on_progress(self._files, min(1.0, self._share))

    def begin_checkpoint(self) -> "_CheckpointProgress":
        """Return the progress of one checkpoint, which adds to this one."""
        return _CheckpointProgress(self)


class _CheckpointProgress:
    """The progress of listing one checkpoint; complete when the context ends."""

    def __init__(self, total: _SharedProgress) -> None:
        self._total = total
        self._files = 0
        self._share = 0.0

    def __enter__(self) -> tree.OnProgress:
        return self._report

    def __exit__(self, *_: object) -> None:
        self._report(self._files, 1.0)

    def _report(self, files: int, share: float) -> None:
        more = files - self._files, share - self._share
        self._files, self._share = files, share
        self._total.add(*more)
