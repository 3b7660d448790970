"""A checkpoint -> its names as of one moment, although a query may run while they are listed.

Spark writes `offsets/N`, then what batch N leaves elsewhere, then `commits/N`, then `offsets/N+1`:

    offsets   listed first, up to O
    commits   listed next; commits after O belong to a later moment and are left out
    the rest  listed last: it contains what the batches up to O wrote, and perhaps more

So the files that a start after O reads are in the listing, unless Spark removed them because many
batches have run since. In that case the log entries are gone too, which is checked at the end.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from holdfast.decode import names
from holdfast.gather.inventory.tree import CheckpointTree, OnProgress, ignore_progress
from holdfast.model.checkpoint import FileKind
from holdfast.storage import Children, Missing, Piece, Portion, Reader, Refused

MOST_ATTEMPTS = 3
TOO_FAST = f"a running query removed entries while they were read, {MOST_ATTEMPTS} times in a row"
_LOGS = (FileKind.OFFSETS, FileKind.COMMITS)
_PARTS = frozenset({"offsets", "commits", "sources", "state"})
_MOST_PROBED = 32


def take(
    reader: Reader, top: Children, on_progress: OnProgress = ignore_progress
) -> CheckpointTree:
    """Return everything below a checkpoint; `top` is what its folder directly contains.

    The folders of the partitions are listed together: there are many of them, and on an object
    store each one takes a request.
    """
    tree = CheckpointTree(folders=set(top.folders))
    tree.refuse(*top.refused)
    tree.add(Portion(folder="", files=[f for f in top.files if f.size or f.name not in _PARTS]))
    list_logs(reader, tree, on_progress)
    folders = [folder for folder in _list_folders(reader, top) if folder not in _LOGS]
    tree.folders.update(folders)
    if "state" in folders:
        folders.remove("state")
        folders += _list_state_folders(reader, tree)
    done = len(tree.folders.intersection(_LOGS))
    started: set[str] = set()
    for result in reader.walk(folders):
        match result:
            case Portion():
                tree.add(result)
                started.add(_find_walk_root(result.folder))
                on_progress(tree.listed, (done + len(started)) / (done + len(folders)))
            case Refused():
                tree.refuse(result)
    return tree


def list_logs(
    reader: Reader, tree: CheckpointTree, on_progress: OnProgress = ignore_progress
) -> None:
    """List both logs, offsets first."""
    logs = [kind for kind in _LOGS if kind.value in tree.folders]
    for started, kind in enumerate(logs, 1):
        for result in reader.walk([kind.value]):
            if isinstance(result, Portion):
                tree.add(result)
                # The state has most of the folders, but their number is not known yet.
                share = 0.0 if "state" in tree.folders else started / len(tree.folders)
                on_progress(tree.listed, share)
            else:
                tree.refuse(result)
        _fill_gap(reader, tree, kind)
    if tree.commits.ids and not any(file.path in _LOGS for file in tree.refused):
        _align_logs(reader, tree)


def _align_logs(reader: Reader, tree: CheckpointTree) -> None:
    """Drop entries that only one log has because the query ran between the two listings."""
    offsets, commits = tree.offsets.ids, tree.commits.ids
    first, last = commits.first or 0, commits.last or 0
    planned = -1 if offsets.last is None else offsets.last
    if planned < last and _reaches(reader, last):
        tree.keep(FileKind.COMMITS, 0, planned)
    if offsets.first is not None and offsets.first < first:
        # Spark purges the offset log, then the commit log: both start where the later one starts.
        results = _probe(reader, [f"{FileKind.OFFSETS.value}/{offsets.first}"])
        if any(isinstance(data, Missing) for _, data in results):
            tree.keep(FileKind.OFFSETS, min(first, planned), planned)


def is_stale(reader: Reader, tree: CheckpointTree) -> bool:
    """Return whether a running query has removed what was listed first, or has just started."""
    planned, committed = tree.offsets.ids.last, tree.commits.ids.last
    if planned is None:
        return committed is None and _reaches(reader, 0)
    wanted = [f"offsets/{n}" for n in (planned - 1, planned) if n in tree.offsets.ids]
    wanted += [] if committed is None else [f"commits/{committed}"]
    return any(isinstance(data, Missing) for _, data in _probe(reader, wanted))


def _fill_gap(reader: Reader, tree: CheckpointTree, kind: FileKind) -> None:
    """Look for entries that are missing near the end of a log.

    A long folder is listed in pages. A new entry may belong to a page that was already read, and
    the entry after it to a page that was not.
    """
    ids = tree.logs[kind].ids
    gaps = [range(before.last + 1, after.first) for before, after in pairwise(ids)][-1:]
    missing = {f"{kind.value}/{n}": n for gap in gaps if len(gap) <= _MOST_PROBED for n in gap}
    results = _probe(reader, list(missing))
    ids.add([missing[piece.path] for piece, data in results if isinstance(data, bytes)])


def _reaches(reader: Reader, batch: int) -> bool:
    """Return whether the offset log reaches a batch by now."""
    inside = reader.children(FileKind.OFFSETS.value)
    if not isinstance(inside, Children):
        return False
    files = (names.classify(f"{FileKind.OFFSETS.value}/{file.name}") for file in inside.files)
    return any(file.kind is FileKind.OFFSETS and (file.number or 0) >= batch for file in files)


def _probe(
    reader: Reader, paths: Sequence[str]
) -> Iterator[tuple[Piece, bytes | Missing | Refused]]:
    return reader.read([Piece(path=path, most=0, last=True) for path in paths])


def _list_folders(reader: Reader, top: Children) -> list[str]:
    """Return the folders of a checkpoint, including those that the first batch has just created."""
    if {"sources", "state"} <= set(top.folders):
        return list(top.folders)
    again = reader.children("")
    return list(again.folders if isinstance(again, Children) else top.folders)


def _find_walk_root(folder: str) -> str:
    """Return the folder that a walk started in: a partition, or a whole log."""
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
