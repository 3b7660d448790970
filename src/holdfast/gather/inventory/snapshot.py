"""Stage 2: a checkpoint -> its names, of one moment, though a query goes on while they are listed.

Spark writes `offsets/N`, then what batch N leaves elsewhere, then `commits/N`, then `offsets/N+1`:

    offsets   listed first, up to O
    commits   listed next; those of batches after O are of a later moment, and left out
    the rest  listed last: it holds what the batches up to O have left, and perhaps more

So what a start after O reads is there, whenever it is listed, until so many batches went by that
Spark has removed it. Then these entries are removed as well, which is asked at the end of a look.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from holdfast.decode import names
from holdfast.gather.inventory.tree import CheckpointTree, OnProgress, ignore_progress
from holdfast.model.checkpoint import FileKind
from holdfast.storage import Children, Missing, Piece, Portion, Reader, Refused

MOST_LOOKS = 3
TOO_FAST = (
    f"what it named was removed before a look ended, {MOST_LOOKS} times: a query runs, and fast"
)
_LOGS = (FileKind.OFFSETS, FileKind.COMMITS)
_PARTS = frozenset({"offsets", "commits", "sources", "state"})
_MOST_PROBED = 32


def take(reader: Reader, top: Children, told: OnProgress = ignore_progress) -> CheckpointTree:
    """Everything below a checkpoint, given what lay directly in it.

    The folders of the partitions are listed together: on an object store each of them is a
    request of its own, and they are most of what there is.
    """
    tree = CheckpointTree(folders=set(top.folders))
    tree.refuse(*top.refused)
    tree.add(Portion(folder="", files=[f for f in top.files if f.size or f.name not in _PARTS]))
    list_logs(reader, tree, told)
    folders = [folder for folder in _list_folders(reader, top) if folder not in _LOGS]
    tree.folders.update(folders)
    if "state" in folders:
        folders.remove("state")
        folders += _list_state_folders(reader, tree)
    done = len(tree.folders.intersection(_LOGS))
    begun: set[str] = set()
    for found in reader.walk(folders):
        match found:
            case Portion():
                tree.add(found)
                begun.add(_find_walk_root(found.folder))
                told(tree.seen, (done + len(begun)) / (done + len(folders)))
            case Refused():
                tree.refuse(found)
    return tree


def list_logs(reader: Reader, tree: CheckpointTree, told: OnProgress = ignore_progress) -> None:
    """Both logs, offsets first."""
    there = [kind for kind in _LOGS if kind.value in tree.folders]
    for begun, kind in enumerate(there, 1):
        for found in reader.walk([kind.value]):
            if isinstance(found, Portion):
                tree.add(found)
                # How many folders the state has is not known yet, but that they are most.
                told(tree.seen, 0.0 if "state" in tree.folders else begun / len(tree.folders))
            else:
                tree.refuse(found)
        _fill_gap(reader, tree, kind)
    if tree.commits.ids and not any(one.path in _LOGS for one in tree.refused):
        _align_logs(reader, tree)


def _align_logs(reader: Reader, tree: CheckpointTree) -> None:
    """Leave out of either log what only it has because the query went on between two listings."""
    offsets, commits = tree.offsets.ids, tree.commits.ids
    first, last = commits.first or 0, commits.last or 0
    planned = -1 if offsets.last is None else offsets.last
    if planned < last and _reaches(reader, last):
        tree.keep(FileKind.COMMITS, 0, planned)
    if offsets.first is not None and offsets.first < first:
        # Spark purges the offset log, then the commit log: both begin where the later one does.
        found = _probe(reader, [f"{FileKind.OFFSETS.value}/{offsets.first}"])
        if any(isinstance(data, Missing) for _, data in found):
            tree.keep(FileKind.OFFSETS, min(first, planned), planned)


def is_stale(reader: Reader, tree: CheckpointTree) -> bool:
    """Whether a running query has removed by now what a look began with, or has just begun."""
    planned, committed = tree.offsets.ids.last, tree.commits.ids.last
    if planned is None:
        return committed is None and _reaches(reader, 0)
    wanted = [f"offsets/{n}" for n in (planned - 1, planned) if n in tree.offsets.ids]
    wanted += [] if committed is None else [f"commits/{committed}"]
    return any(isinstance(data, Missing) for _, data in _probe(reader, wanted))


def _fill_gap(reader: Reader, tree: CheckpointTree, kind: FileKind) -> None:
    """Look for what is missing near the end of a log.

    A long folder is listed in pages: an entry that comes meanwhile may belong to one that was had
    already, and the entry after it to one that was not.
    """
    ids = tree.logs[kind].ids
    gaps = [range(one.last + 1, two.first) for one, two in pairwise(ids)][-1:]
    missing = {f"{kind.value}/{n}": n for gap in gaps if len(gap) <= _MOST_PROBED for n in gap}
    found = _probe(reader, list(missing))
    ids.add([missing[piece.path] for piece, data in found if isinstance(data, bytes)])


def _reaches(reader: Reader, batch: int) -> bool:
    """Whether by now the offset log reaches a batch."""
    inside = reader.children(FileKind.OFFSETS.value)
    if not isinstance(inside, Children):
        return False
    found = (names.classify(f"{FileKind.OFFSETS.value}/{file.name}") for file in inside.files)
    return any(one.kind is FileKind.OFFSETS and (one.number or 0) >= batch for one in found)


def _probe(
    reader: Reader, paths: Sequence[str]
) -> Iterator[tuple[Piece, bytes | Missing | Refused]]:
    return reader.read([Piece(path=path, most=0, last=True) for path in paths])


def _list_folders(reader: Reader, top: Children) -> list[str]:
    """The folders of a checkpoint; the first batch makes some that were not there a moment ago."""
    if {"sources", "state"} <= set(top.folders):
        return list(top.folders)
    again = reader.children("")
    return list(again.folders if isinstance(again, Children) else top.folders)


def _find_walk_root(folder: str) -> str:
    """The folder that a walk began in: that of a partition, or a whole log."""
    parts = folder.split("/", 3)
    return "/".join(parts[:3]) if parts[0] == "state" else parts[0]


def _list_state_folders(reader: Reader, tree: CheckpointTree) -> list[str]:
    folders: list[str] = []
    for operator in _list_subfolders(reader, "state", tree):
        folders += _list_subfolders(reader, operator, tree)
    return folders


def _list_subfolders(reader: Reader, folder: str, tree: CheckpointTree) -> list[str]:
    match reader.children(folder):
        case Children(files=files, folders=folders, refused=refused):
            tree.add(Portion(folder=folder, files=files))
            tree.refuse(*refused)
            tree.nonempty_folders.update(("state",) if folders or refused else ())
            return [f"{folder}/{name}" for name in folders]
        case Refused() as refused:
            tree.refuse(refused)
            return []
        case Missing():
            return []
