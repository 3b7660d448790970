"""What the next batch reads of each source: Evidence, NextBatch -> SourceRange."""

from collections.abc import Iterator, Mapping

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.fact import Unknown
from holdfast.model.json import Json
from holdfast.model.restart import SourceRange
from holdfast.predict import sockets
from holdfast.predict.next_batch import NextBatch

_DECIDED_BY_SOURCE = Unknown(reason="the source decides when the batch is planned, or read")


def list_ranges(
    evidence: Evidence, following: NextBatch, outcome: sockets.SocketOutcome | None
) -> Iterator[SourceRange]:
    """Yield the range of each source of the batch."""
    sources = {source.name: source for source in evidence.sources}
    starts: Mapping[str, Json] = {line.source: line.offset for line in following.before.sources}
    for line in following.end.sources:
        source = sources.get(line.source)
        if source is not None and source.open_ended:
            yield _make_open_range(source, rerun=following.rerun)
            continue
        described = "" if source is None else source.described
        began = None if source is None else source.began
        start = source_offset.find_start(starts.get(line.source), began, described=described)
        end: Json | Unknown = line.offset if following.rerun else _DECIDED_BY_SOURCE
        if outcome is sockets.SocketOutcome.FAILS_SOON:
            end = sockets.FIRST_OFFSET
        decoded_start = source_offset.decode(start, described=described)
        yield SourceRange(
            source=line.source,
            kind=_name_kind(line.offset, described) if source is None else source.kind,
            other_kinds=() if source is None else source.other_kinds,
            start=start,
            end=end,
            consumed=end
            if isinstance(end, Unknown)
            else source_offset.compute_consumed(
                decoded_start, source_offset.decode(end, described=described)
            ),
            positions=source_offset.list_positions(decoded_start),
        )


def _name_kind(offset: Json, described: str) -> str:
    decoded = source_offset.decode(offset, described=described)
    return source_offset.compute_consumed(decoded, decoded).source


def _make_open_range(source: SourceEvidence, *, rerun: bool) -> SourceRange:
    """Return the range of a source whose entries contain only where a batch begins."""
    start = source.raw if rerun or isinstance(source.left_at, Unknown) else source.left_at
    return SourceRange(
        source=source.name,
        kind=source.kind,
        other_kinds=source.other_kinds,
        start=start,
        end=_DECIDED_BY_SOURCE,
        consumed=_DECIDED_BY_SOURCE,
        positions=source_offset.list_positions(
            source_offset.decode(start, described=source.described)
        ),
    )
