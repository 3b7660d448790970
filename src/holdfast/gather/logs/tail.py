"""Stage 2: the offset log and the commit log -> the batches, from the tail of each log.

Ids come from the names, as `listing` has them of one moment; only the newest entries are read.
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
"""A longer entry of a log is not read: it is damage, or nothing that fits into a report."""
_MOST_IN_ALL = 128 << 20
_MOST_PENDING = 1000
_NO_ROOM = "the entries after it are too long"
GONE = "went while it was read: a running query has removed it"


@dataclass(slots=True)
class Entries:
    """The entries of both logs that were read, by batch."""

    offsets: dict[BatchId, OffsetEntry] = field(default_factory=dict)
    commits: dict[BatchId, CommitEntry] = field(default_factory=dict)
    damaged_offsets: dict[BatchId, UnreadableFile] = field(default_factory=dict)
    damaged_commits: dict[BatchId, UnreadableFile] = field(default_factory=dict)

    @property
    def unreadable(self) -> tuple[UnreadableFile, ...]:
        """What could not be read."""
        return (*self.damaged_offsets.values(), *self.damaged_commits.values())


def find_batches(
    tree: CheckpointTree, *, no_commit_log: bool = False, continuous: bool = False
) -> Batches:
    """Which batches the names in the logs tell of."""
    planned, committed = tree.offsets.ids, tree.commits.ids
    hidden = find_unlisted(tree)
    last = committed.last
    tail = [] if hidden else planned.tail(1 if no_commit_log else _MOST_PENDING)
    return Batches(
        first=_to_batch(planned.first if planned else committed.first),
        last_planned=_to_batch(planned.last),
        last_committed=_to_batch(last),
        pending=tuple(BatchId(number) for number in tail if last is None or number > last),
        offset_spans=tuple(planned),
        commit_spans=tuple(committed),
        unlisted=hidden,
        no_commit_log=no_commit_log,
        continuous=continuous,
    )


def keeps_no_commits(tree: CheckpointTree, newest: OffsetEntry | None) -> bool:
    """Whether Spark 2.1 wrote it, which pins no setting and keeps no commit log.

    Continuous mode pins none either, but writes no time.
    """
    bare = newest is not None and not newest.settings and newest.timestamp_ms != 0
    return bare and "commits" not in tree.folders


def are_epochs(offsets: Mapping[BatchId, OffsetEntry]) -> bool:
    """Whether continuous mode wrote the newest entries: it has one source, no settings, no time.

    Two are looked at where there are two: one alone may be a micro-batch's whose line is lost.
    """
    newest = [offsets[batch] for batch in sorted(offsets)[-2:]]
    bare = [one.lacks_settings and len(one.sources) == 1 for one in newest]
    return bool(bare) and all(bare)


def find_complete_batches(tree: CheckpointTree, found: Entries) -> tuple[Span, ...] | Unknown:
    """The batches that are done and have their entry in each log, unless one is damaged.

    Without both, a query cannot be taken back to a batch, and Spark reads no state of it.
    """
    for log in find_unlisted(tree):
        return Unknown(reason=log.description)
    planned = tuple(tree.offsets.ids)
    if keeps_no_commits(tree, found.offsets.get(max(found.offsets, default=BatchId(0)))):
        return spans.subtract(
            planned, [Span(first=one, last=one) for one in tree.offsets.ids.tail(1)]
        )
    damaged = sorted(
        batch
        for log in (found.damaged_offsets, found.damaged_commits)
        for batch, file in log.items()
        if not file.is_unread
    )
    both = spans.intersect([planned, tuple(tree.commits.ids)])
    return spans.subtract(both, [Span(first=one, last=one) for one in damaged])


def find_unlisted(tree: CheckpointTree) -> tuple[UnreadableFile, ...]:
    """The logs whose names cannot be had."""
    return tuple(one for one in tree.refused if one.path in ("offsets", "commits"))


def read(reader: Reader, tree: CheckpointTree) -> Entries:
    """The newest entries of both logs.

    A running query removes its oldest entries: one that went, below one that is there, is none that
    cannot be read. Nor is any where the query is too fast for a look: its logs count as unlisted.
    """
    newest = [log.ids.tail(RECENT + 1) for log in (tree.offsets, tree.commits)]
    found = read_entries(reader, *newest)
    too_fast = bool(find_unlisted(tree))
    _forget_removed(found.damaged_offsets, found.offsets, all_of_them=too_fast)
    _forget_removed(found.damaged_commits, found.commits, all_of_them=too_fast)
    return found


def _forget_removed(
    damaged: dict[BatchId, UnreadableFile], read: Iterable[BatchId], *, all_of_them: bool
) -> None:
    newest = max(read, default=BatchId(-1))
    for batch, file in list(damaged.items()):
        if file.reason == GONE and (all_of_them or batch < newest):
            del damaged[batch]


def read_entries(reader: Reader, offsets: Sequence[int], commits: Sequence[int]) -> Entries:
    """The entries of some batches; the newest come first, and older ones only while there is room.

    What went in between is looked for once more: a file that is replaced by a rename is away for
    a moment on some storage.
    """
    found = Entries()
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
        _add_entry(found, piece, data if room > 0 else full)
    for piece, data in reader.read(again):
        _add_entry(found, piece, data)
    return found


def _add_entry(found: Entries, piece: Piece, data: bytes | Missing | Refused) -> None:
    folder, _, name = piece.path.partition("/")
    batch = BatchId(int(name))
    said: OffsetEntry | CommitEntry | Unreadable | Missing = (
        decode_file(data, offset_log.decode)
        if folder == "offsets"
        else decode_file(data, commit_log.decode)
    )
    match said:
        case OffsetEntry():
            found.offsets[batch] = said
        case CommitEntry():
            found.commits[batch] = said
        case Unreadable() | Missing():
            damaged = found.damaged_offsets if folder == "offsets" else found.damaged_commits
            why = Unreadable(reason=GONE) if isinstance(said, Missing) else said
            damaged[batch] = make_unreadable(piece.path, why)


def _to_batch(number: int | None) -> BatchId | None:
    return None if number is None else BatchId(number)
