"""The offset log and the commit log -> the batches, and the newest entries of each log.

The ids come from file names, which `inventory/snapshot.py` lists as of one moment. Only the newest
entries are read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.decode import commit_log, offset_log
from holdfast.gather.inventory import spans
from holdfast.gather.inventory.folders import RECENT
from holdfast.gather.inventory.read import decode_file, make_unreadable
from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.model.checkpoint import CommitEntry
from holdfast.model.evidence import Batches
from holdfast.model.fact import Unknown, Unreadable, UnreadableFile
from holdfast.model.ids import BatchId, Span
from holdfast.model.offsets import OffsetEntry
from holdfast.storage import Missing, Piece, Reader, Refused

MOST_BYTES = 16 << 20
"""A longer log entry is not read: it is damaged, or too large for a report."""
_MOST_IN_ALL = 128 << 20
_MOST_PENDING = 1000
_NO_ROOM = "newer entries are too long to read this one too"
GONE = "a running query removed it while it was read"


@dataclass(slots=True)
class Entries:
    """The entries that were read from both logs, by batch."""

    offsets: dict[BatchId, OffsetEntry] = field(default_factory=dict)
    commits: dict[BatchId, CommitEntry] = field(default_factory=dict)
    damaged_offsets: dict[BatchId, UnreadableFile] = field(default_factory=dict)
    damaged_commits: dict[BatchId, UnreadableFile] = field(default_factory=dict)

    @property
    def unreadable(self) -> tuple[UnreadableFile, ...]:
        """The entries that could not be read."""
        return (*self.damaged_offsets.values(), *self.damaged_commits.values())


def find_batches(
    tree: CheckpointTree, *, no_commit_log: bool = False, continuous: bool = False
) -> Batches:
    """Return the batches that the file names in the logs show."""
    planned, committed = tree.offsets.ids, tree.commits.ids
    unlisted = find_unlisted(tree)
    last = committed.last
    tail = [] if unlisted else planned.tail(1 if no_commit_log else _MOST_PENDING)
    return Batches(
        first=_to_batch(planned.first if planned else committed.first),
        last_planned=_to_batch(planned.last),
        last_committed=_to_batch(last),
        pending=tuple(BatchId(number) for number in tail if last is None or number > last),
        offset_spans=tuple(planned),
        commit_spans=tuple(committed),
        unlisted=unlisted,
        no_commit_log=no_commit_log,
        continuous=continuous,
    )


def keeps_no_commits(tree: CheckpointTree, newest: OffsetEntry | None) -> bool:
    """Return whether Spark 2.1 wrote it, which pins no settings and keeps no commit log.

    Continuous mode pins no settings either, but writes no time.
    """
    lacks_settings = newest is not None and not newest.settings and newest.timestamp_ms != 0
    return lacks_settings and "commits" not in tree.folders


def are_epochs(offsets: Mapping[BatchId, OffsetEntry]) -> bool:
    """Return whether continuous mode wrote the newest entries: one source, no settings, no time.

    Two entries are checked if there are two: a single one may be a damaged micro-batch entry.
    """
    newest = [offsets[batch] for batch in sorted(offsets)[-2:]]
    return bool(newest) and all(
        entry.lacks_settings and len(entry.sources) == 1 for entry in newest
    )


def find_complete_batches(tree: CheckpointTree, entries: Entries) -> tuple[Span, ...] | Unknown:
    """Return the finished batches that have an undamaged entry in each log.

    Without both entries, a query cannot be rewound to a batch, and Spark reads no state of it.
    """
    for log in find_unlisted(tree):
        return Unknown(reason=log.description)
    planned = tuple(tree.offsets.ids)
    newest = max(entries.offsets, default=BatchId(0))
    if keeps_no_commits(tree, entries.offsets.get(newest)):
        return spans.subtract(
            planned, [Span(first=batch, last=batch) for batch in tree.offsets.ids.tail(1)]
        )
    damaged = sorted(
        batch
        for log in (entries.damaged_offsets, entries.damaged_commits)
        for batch, file in log.items()
        if not file.is_unread
    )
    both = spans.intersect([planned, tuple(tree.commits.ids)])
    return spans.subtract(both, [Span(first=batch, last=batch) for batch in damaged])


def find_unlisted(tree: CheckpointTree) -> tuple[UnreadableFile, ...]:
    """Return the logs that cannot be listed."""
    return tuple(file for file in tree.refused if file.path in ("offsets", "commits"))


def read(reader: Reader, tree: CheckpointTree) -> Entries:
    """Return the newest entries of both logs.

    A running query removes its oldest entries. An entry that disappears is not unreadable if a
    newer entry exists, or if the query is too fast to be read and its logs count as unlisted.
    """
    newest = [log.ids.tail(RECENT + 1) for log in (tree.offsets, tree.commits)]
    entries = read_entries(reader, *newest)
    too_fast = bool(find_unlisted(tree))
    _forget_removed(entries.damaged_offsets, entries.offsets, all_of_them=too_fast)
    _forget_removed(entries.damaged_commits, entries.commits, all_of_them=too_fast)
    return entries


def _forget_removed(
    damaged: dict[BatchId, UnreadableFile], read: Iterable[BatchId], *, all_of_them: bool
) -> None:
    newest = max(read, default=BatchId(-1))
    for batch, file in list(damaged.items()):
        if file.reason == GONE and (all_of_them or batch < newest):
            del damaged[batch]


def read_entries(reader: Reader, offsets: Sequence[int], commits: Sequence[int]) -> Entries:
    """Return the entries of some batches, the newest first, until the memory limit is reached.

    Missing entries are read a second time: on some storage, a file that is replaced by a rename is
    missing for a moment.
    """
    entries = Entries()
    pieces = [Piece(path=f"offsets/{n}", most=MOST_BYTES) for n in reversed(offsets)]
    pieces += [Piece(path=f"commits/{n}", most=MOST_BYTES) for n in reversed(commits)]
    room = _MOST_IN_ALL
    again: list[Piece] = []
    for piece, data in reader.read(pieces):
        if isinstance(data, Missing):
            again.append(piece)
            continue
        room -= len(data) if isinstance(data, bytes) else 0
        full = Refused(path=piece.path, reason=_NO_ROOM, too_long=True)
        _add_entry(entries, piece, data if room > 0 else full)
    for piece, data in reader.read(again):
        _add_entry(entries, piece, data)
    return entries


def _add_entry(entries: Entries, piece: Piece, data: bytes | Missing | Refused) -> None:
    folder, _, name = piece.path.partition("/")
    batch = BatchId(int(name))
    decoded: OffsetEntry | CommitEntry | Unreadable | Missing = (
        decode_file(data, offset_log.decode)
        if folder == "offsets"
        else decode_file(data, commit_log.decode)
    )
    match decoded:
        case OffsetEntry():
            entries.offsets[batch] = decoded
        case CommitEntry():
            entries.commits[batch] = decoded
        case Unreadable() | Missing():
            damaged = entries.damaged_offsets if folder == "offsets" else entries.damaged_commits
            problem = Unreadable(reason=GONE) if isinstance(decoded, Missing) else decoded
            damaged[batch] = make_unreadable(piece.path, problem)


def _to_batch(number: int | None) -> BatchId | None:
    return None if number is None else BatchId(number)
