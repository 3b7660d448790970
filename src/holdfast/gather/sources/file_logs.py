"""Stage 2: the folders `sources/<i>` -> the logs of file sources, as far as a start reads them.

sources/0/9.compact    every file up to log offset 9
sources/0/10           the files of log offset 10

A file source reads, when it is made, the last compacted entry and every entry after it. What lies
below is never read again.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from holdfast.decode import file_source_log, source_offset, source_start
from holdfast.gather.inventory.folders import SourceFolder
from holdfast.gather.inventory.read import decode_file, make_unreadable
from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import SourceEvidence, SourceFolderKind, SourceLog
from holdfast.model.fact import Unreadable
from holdfast.model.json import Json
from holdfast.model.offsets import SourceStart
from holdfast.model.source_offset import KafkaOffset
from holdfast.storage import Missing, Piece, Reader, Refused
from holdfast.storage.reader import ReadResult

if TYPE_CHECKING:
    from holdfast.gather.inventory.spans import Spans
    from holdfast.model.fact import UnreadableFile

_MOST_ENTRY = 16 << 20
_MOST_TAIL = 256 << 10
_MOST_READ = 64
_MOST_TOLD = 100


def read(
    reader: Reader, tree: CheckpointTree, sources: Sequence[SourceEvidence]
) -> dict[str, SourceLog]:
    """The log in each folder of a source."""
    offsets = {one.folder: one.raw for one in sources if isinstance(one.folder, str)}
    return {
        name: _read_log(reader, name, source, _is_file_source(offsets.get(name)))
        for name, source in tree.sources.items()
    }


def find_leftover_checksums(tree: CheckpointTree) -> tuple[str, ...]:
    """Entries of logs that are gone while their hidden checksum is still there."""
    logs: dict[str, tuple[Spans, ...]] = {
        "offsets/": (tree.offsets.ids,),
        "commits/": (tree.commits.ids,),
    }
    for name, source in tree.sources.items():
        logs[f"sources/{name}/"] = (source.entries, source.compacts)
    gone = tree.metadata_checksum and FileKind.METADATA not in tree.amounts
    found = ["metadata"] if gone else []
    for prefix, checksums in tree.checksums.items():
        ids = logs.get(prefix, (checksums,))
        newest = checksums.tail(_MOST_TOLD)
        found += [f"{prefix}{n}" for n in newest if not any(n in one for one in ids)]
    return tuple(found)


def _is_file_source(offset: object) -> bool | None:
    """Whether a source is known to be one of files; unknown where it has no offset, or a number."""
    if offset is None or isinstance(offset, int):
        return None
    return isinstance(offset, dict) and "logOffset" in offset


def _read_log(reader: Reader, name: str, source: SourceFolder, known: bool | None) -> SourceLog:  # noqa: FBT001
    compacts, entries = tuple(source.compacts), tuple(source.entries)
    last = source.compacts.last
    wanted = [n for n in source.entries.tail(_MOST_READ) if last is None or n > last]
    pieces = [Piece(path=f"sources/{name}/{n}", most=_MOST_ENTRY) for n in wanted]
    if last is not None:
        pieces.append(Piece(path=f"sources/{name}/{last}.compact", most=_MOST_TAIL, last=True))
    damaged: list[UnreadableFile] = []
    partly_read: list[str] = []
    read = 0
    for piece, data in _read_pieces(reader, pieces if known is not False else []):
        whole = not (piece.last and isinstance(data, bytes) and len(data) >= piece.most)
        said = decode_file(data, partial(file_source_log.decode, whole=whole))
        if not whole and isinstance(data, bytes) and b"\n" not in data:
            said = Unreadable(reason=f"no line ends in its last {piece.most:,} bytes")
        if isinstance(said, Unreadable):
            damaged.append(make_unreadable(piece.path, said))
        elif not isinstance(said, Missing):
            read += len(said)
            partly_read += [] if whole else [piece.path]
    folder_kind = SourceFolderKind.FILES if read else _find_content(reader, name, source)
    if folder_kind in (SourceFolderKind.KAFKA, SourceFolderKind.RATE):
        # What another source keeps is no damaged log of files.
        known, damaged = False, []
    return SourceLog(
        is_file_log=known if known is not None else bool(read or last is not None),
        entries=entries,
        compacts=compacts,
        damaged=tuple(damaged),
        partly_read=tuple(partly_read),
        folder_kind=folder_kind,
    )


def _find_content(reader: Reader, name: str, source: SourceFolder) -> SourceFolderKind:
    """Read one entry: a log of files, the first offsets of Kafka, or the start time of rate."""
    newest = source.entries.last
    if newest is None:
        return SourceFolderKind.FILES if source.compacts else SourceFolderKind.UNKNOWN
    for _, data in reader.read([Piece(path=f"sources/{name}/{newest}", most=_MOST_ENTRY)]):
        listed = decode_file(data, file_source_log.decode)
        if isinstance(listed, tuple) and listed:
            return SourceFolderKind.FILES
        began = decode_file(data, source_start.decode) if newest == 0 else None
        if isinstance(began, SourceStart):
            return _classify_start(began.offset)
    return SourceFolderKind.UNKNOWN


def _classify_start(offset: Json) -> SourceFolderKind:
    if isinstance(offset, int) and not isinstance(offset, bool):
        return SourceFolderKind.RATE
    found = source_offset.decode(offset)
    return SourceFolderKind.KAFKA if isinstance(found, KafkaOffset) else SourceFolderKind.UNKNOWN


def _read_pieces(reader: Reader, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
    """The pieces; of an entry that is too long, as one of a hundred thousand files, its end."""
    long: list[Piece] = []
    for piece, data in reader.read(pieces):
        if isinstance(data, Refused) and data.too_long:
            long.append(Piece(path=piece.path, most=_MOST_TAIL, last=True))
        else:
            yield piece, data
    yield from reader.read(long)
