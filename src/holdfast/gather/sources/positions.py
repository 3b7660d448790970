"""The sources of a query -> their positions, their first offsets, and what a batch read.

The offset log has the position of each source. A folder below `sources` is private to a source:
Kafka keeps its first offsets there, a file source its log of files. `offset_lines.py` finds the
folder of a source.
"""

from collections.abc import Mapping, Sequence

from holdfast.decode import file_source_log, source_offset, source_start
from holdfast.gather.inventory.read import decode_file, make_unreadable
from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.gather.sources import kinesis, taken_files
from holdfast.gather.sources.offset_lines import Leaf
from holdfast.model.evidence import SourceEvidence
from holdfast.model.fact import Unknown, Unreadable, UnreadableFile
from holdfast.model.ids import BatchId
from holdfast.model.json import Json
from holdfast.model.offsets import OffsetEntry, SourceOffset
from holdfast.model.source_offset import (
    Basis,
    FileOffset,
    NoOffset,
    Offset,
    OpaqueOffset,
)
from holdfast.storage import Missing, Piece, Reader

_MOST_START = 16 << 20
_OF_2_1 = "of Spark 2.1"

PlannedEntry = tuple[BatchId, OffsetEntry]


def read(
    reader: Reader,
    tree: CheckpointTree,
    before: PlannedEntry | None,
    planned: PlannedEntry,
    leaves: Mapping[str, Leaf],
    bounds: taken_files.ReadBounds = taken_files.NEWEST,
) -> tuple[tuple[SourceEvidence, ...], tuple[UnreadableFile, ...]]:
    """Return every source of a batch, with what lies between the previous batch and this one."""
    earlier = _index_by_name(before[1].sources) if before else {}
    evidence: list[SourceEvidence] = []
    unreadable: list[UnreadableFile] = []
    began, logs = _read_starts(reader, tree, planned[1].sources, leaves, unreadable)
    for source in planned[1].sources:
        leaf = leaves[source.source]
        description = leaf.description
        if kinesis.logs_beginnings(source.offset):
            evidence.append(_read_kinesis(reader, source, before, planned, leaf))
            continue
        # Among the sources whose offsets are bare numbers, only the rate source keeps its start
        # time, and only the file source keeps a log.
        by_log = "filestreamsource" if source.source in logs else ""
        kind = description or ("rate" if isinstance(began.get(source.source), int) else by_log)
        end = source_offset.decode(source.offset, described=kind)
        start = (
            Unknown(reason=f"the entry before batch {planned[0]} is missing or cannot be read")
            if before is None and planned[0] > 0
            else _find_start(earlier.get(source.source), began.get(source.source), kind)
        )
        consumed = source_offset.compute_consumed(start, end)
        folder = "" if isinstance(leaf.folder, Unknown) else leaf.folder
        place = (folder, tree.sources.get(folder))
        taken = taken_files.read(reader, place, _find_log_offsets(start, end), bounds, unreadable)
        private = [f"sources/{folder}/0"] if source.source in began or by_log else []
        read_from = [f"offsets/{entry[0]}" for entry in (before, planned) if entry]
        evidence.append(
            SourceEvidence(
                name=source.source,
                batch=planned[0],
                after=before[0] if before else None,
                kind=consumed.source,
                other_kinds=_find_other_kinds(end, planned[1]),
                described=description,
                offset=end,
                raw=source.offset,
                began=began.get(source.source),
                consumed=consumed,
                files=taken.files,
                files_more=taken.more,
                log_offsets_unread=taken.unread,
                folder=leaf.folder,
                number=leaf.number,
                same_as=leaf.same_as,
                read_from=tuple(dict.fromkeys((*read_from, *private, *taken.read_from))),
            )
        )
    return tuple(evidence), tuple(unreadable)


def _read_kinesis(
    reader: Reader,
    source: SourceOffset,
    before: PlannedEntry | None,
    planned: PlannedEntry,
    leaf: Leaf,
) -> SourceEvidence:
    """Return a source whose entry has the start of its batch; the end is in files of its own."""
    start: Json | Unknown = source.offset
    earlier = _index_by_name(before[1].sources).get(source.source) if before else None
    if before and earlier and before[0] + 1 != planned[0]:
        start = kinesis.read_end(reader, earlier)
    end = kinesis.read_end(reader, source)
    # Its own entry has the start, even if the previous entry is gone.
    after = before[0] if before else BatchId(planned[0] - 1) if planned[0] else None
    consumed = kinesis.find_consumed(start, end, source.offset)
    end_files = () if isinstance(end, Unknown) else kinesis.list_files(source)
    return SourceEvidence(
        name=source.source,
        batch=planned[0],
        after=after,
        kind=consumed.source,
        other_kinds=(),
        described=leaf.description,
        offset=source_offset.decode(source.offset, described=leaf.description),
        raw=source.offset,
        began=None,
        consumed=consumed,
        files=(),
        read_from=(f"offsets/{planned[0]}", *end_files),
        open_ended=True,
        left_at=end,
        folder=leaf.folder,
        number=leaf.number,
        same_as=leaf.same_as,
    )


def _find_other_kinds(offset: Offset, entry: OffsetEntry) -> tuple[str, ...]:
    """Return other sources that write the same offset; Spark 2.1 pins no settings."""
    if isinstance(offset, NoOffset | OpaqueOffset):
        return ()
    is_shared = offset.recognition.basis is Basis.SHARED_SHAPE
    others = offset.recognition.others if is_shared else ()
    return tuple(kind for kind in others if not (entry.settings and kind.endswith(_OF_2_1)))


def _index_by_name(sources: Sequence[SourceOffset]) -> Mapping[str, SourceOffset]:
    return {source.source: source for source in sources}


def _find_start(source: SourceOffset | None, began: Json, described: str) -> Offset:
    previous = None if source is None else source.offset
    start = source_offset.find_start(previous, began, described=described)
    return source_offset.decode(start, described=described)


def _read_starts(
    reader: Reader,
    tree: CheckpointTree,
    sources: Sequence[SourceOffset],
    leaves: Mapping[str, Leaf],
    unreadable: list[UnreadableFile],
) -> tuple[dict[str, Json], set[str]]:
    """Return the first offsets of sources that keep them in `sources/<i>/0`.

    Also return the sources that have the log of a file source there, whatever their offsets are.
    """
    paths: dict[str, list[str]] = {}
    for source in sources:
        folder = leaves[source.source].folder
        log = None if isinstance(folder, Unknown) else tree.sources.get(folder)
        if isinstance(source_offset.decode(source.offset), FileOffset):
            continue
        if log is not None and 0 in log.entries:
            paths.setdefault(f"sources/{folder}/0", []).append(source.source)
    began: dict[str, Json] = {}
    logs: set[str] = set()
    for piece, data in reader.read([Piece(path=path, most=_MOST_START) for path in paths]):
        start = decode_file(data, source_start.decode)
        listed = decode_file(data, file_source_log.decode)
        if isinstance(listed, tuple) and listed:
            logs.update(paths[piece.path])
        elif isinstance(start, Unreadable):
            unreadable.append(make_unreadable(piece.path, start))
        elif not isinstance(start, Missing):
            began.update(dict.fromkeys(paths[piece.path], start.offset))
    return began, logs


def _find_log_offsets(start: Offset | Unknown, end: Offset) -> range:
    """Return the log offsets of a file source between two positions; empty if they are unknown."""
    if not isinstance(end, FileOffset) or isinstance(start, Unknown):
        return range(0)
    first = start.log_offset + 1 if isinstance(start, FileOffset) else 0
    return range(first, max(first, end.log_offset + 1))
