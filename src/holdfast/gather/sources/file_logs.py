"""The folders `sources/<i>` -> the logs of file sources, as far as a start reads them.

sources/0/9.compact    every file up to log offset 9
sources/0/10           the files of log offset 10

When a file source starts, it reads the last compacted entry and every entry after it. It never
reads the entries before.
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
_MOST_LISTED = 100


def read(
    reader: Reader, tree: CheckpointTree, sources: Sequence[SourceEvidence]
) -> dict[str, SourceLog]:
    """Return the log in each source folder."""
    offsets = {source.folder: source.raw for source in sources if isinstance(source.folder, str)}
    return {
        name: _read_log(reader, name, source, _is_file_source(offsets.get(name)))
        for name, source in tree.sources.items()
    }


def find_leftover_checksums(tree: CheckpointTree) -> tuple[str, ...]:
    """Return log entries that are gone although their hidden checksum still exists."""
    logs: dict[str, tuple[Spans, ...]] = {
        "offsets/": (tree.offsets.ids,),
        "commits/": (tree.commits.ids,),
    }
    for name, source in tree.sources.items():
        logs[f"sources/{name}/"] = (source.entries, source.compacts)
    is_gone = tree.metadata_checksum and FileKind.METADATA not in tree.amounts
    leftover = ["metadata"] if is_gone else []
    for prefix, checksums in tree.checksums.items():
        ids = logs.get(prefix, (checksums,))
        newest = checksums.tail(_MOST_LISTED)
        leftover += [f"{prefix}{n}" for n in newest if not any(n in spans for spans in ids)]
    return tuple(leftover)


def _is_file_source(offset: object) -> bool | None:
    """Return whether a source is a file source; None if it has no offset, or only a number."""
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
        decoded = decode_file(data, partial(file_source_log.decode, whole=whole))
        if not whole and isinstance(data, bytes) and b"\n" not in data:
            decoded = Unreadable(reason=f"no line ends in its last {piece.most:,} bytes")
        if isinstance(decoded, Unreadable):
            damaged.append(make_unreadable(piece.path, decoded))
        elif not isinstance(decoded, Missing):
            read += len(decoded)
            partly_read += [] if whole else [piece.path]
    folder_kind = SourceFolderKind.FILES if read else _find_content(reader, name, source)
    if folder_kind in (SourceFolderKind.KAFKA, SourceFolderKind.RATE):
        # The file of a different source is not a damaged log of files.
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
    """Return what one entry contains: files, Kafka's first offsets, or the start time of rate."""
    newest = source.entries.last
    if newest is None:
        return SourceFolderKind.FILES if source.compacts else SourceFolderKind.UNKNOWN
    for _, data in reader.read([Piece(path=f"sources/{name}/{newest}", most=_MOST_ENTRY)]):
        listed = decode_file(data, file_source_log.decode)
        if isinstance(listed, tuple) and listed:
            return SourceFolderKind.FILES
        start = decode_file(data, source_start.decode) if newest == 0 else None
        if isinstance(start, SourceStart):
            return _classify_start(start.offset)
    return SourceFolderKind.UNKNOWN


def _classify_start(offset: Json) -> SourceFolderKind:
    if isinstance(offset, int) and not isinstance(offset, bool):
        return SourceFolderKind.RATE
    decoded = source_offset.decode(offset)
    return SourceFolderKind.KAFKA if isinstance(decoded, KafkaOffset) else SourceFolderKind.UNKNOWN


def _read_pieces(reader: Reader, pieces: Sequence[Piece]) -> Iterator[ReadResult]:
    """Yield the pieces; only the end of an entry that is too long, as with 100,000 files."""
    too_long: list[Piece] = []
    for piece, data in reader.read(pieces):
        if isinstance(data, Refused) and data.too_long:
            too_long.append(Piece(path=piece.path, most=_MOST_TAIL, last=True))
        else:
            yield piece, data
    yield from reader.read(too_long)
