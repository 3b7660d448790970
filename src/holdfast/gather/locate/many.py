"""Stage 2: a folder of checkpoints -> a look at each of them.

A look at a small checkpoint is a dozen requests, one after another; on remote storage each takes
tens of milliseconds, so several checkpoints are looked at together.
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


def look_at_each(
    folder: FolderOfCheckpoints,
    storage: Mapping[str, str],
    look: Callable[[Checkpoint, tree.OnProgress], T],
    told: tree.OnProgress,
) -> Iterator[T]:
    """What a look at each checkpoint of a folder gives, in their order; not of one that has gone.

    Nothing else is kept of a checkpoint, however many there are.
    """
    so_far = _SharedProgress(len(folder.found), told)
    looked = partial(_look_at, folder, storage, look, so_far)
    if urls.is_local(folder.url):
        yield from (one for path in folder.found for one in looked(path))
        return
    from concurrent.futures import ThreadPoolExecutor  # slow to load, seldom used

    with ThreadPoolExecutor(TOGETHER) as pool:
        yield from (one for found in pool.map(looked, folder.found) for one in found)


def _look_at(
    folder: FolderOfCheckpoints,
    storage: Mapping[str, str],
    look: Callable[[Checkpoint, tree.OnProgress], T],
    so_far: "_SharedProgress",
    path: str,
) -> tuple[T, ...]:
    place = resolve.make_place_below(folder, path, storage)
    top = place.reader.children("")
    if not isinstance(top, Children):
        return ()
    with so_far.one() as told:
        return (look(Checkpoint(place=place, top=top), told),)


class _SharedProgress:
    """How far several listings are, as one."""

    def __init__(self, checkpoints: int, told: tree.OnProgress) -> None:
        self._checkpoints = checkpoints
        self._told = told
        self._files = 0
        self._share = 0.0
        self._lock = threading.Lock()

    def add(self, files: int, share: float) -> None:
        """Some more files, and some more of the folders of one checkpoint."""
        with self._lock:
            self._files += files
            self._share += share / self._checkpoints
            self._told(self._files, min(1.0, self._share))

    def one(self) -> "_CheckpointProgress":
        """The part of one checkpoint in it."""
        return _CheckpointProgress(self)


class _CheckpointProgress:
    """How far the listing of one checkpoint is; done when it is left."""

    def __init__(self, so_far: _SharedProgress) -> None:
        self._so_far = so_far
        self._files = 0
        self._share = 0.0

    def __enter__(self) -> tree.OnProgress:
        return self._listed

    def __exit__(self, *_: object) -> None:
        self._listed(self._files, 1.0)

    def _listed(self, files: int, share: float) -> None:
        more = files - self._files, share - self._share
        self._files, self._share = files, share
        self._so_far.add(*more)
