"""Offsets that are written as Spark never writes them: OffsetEntry -> names of sources.

Spark writes JSON without spaces. A program that edits an entry may leave spaces: the value is the
same, but Spark compares texts and takes it for a different offset. A data source in Python writes
its own offsets, with spaces and in any shape. So an offset counts as Kafka's, Delta's or a file
source's only if more than its shape says so, or if other entries have it without spaces.
"""

from collections.abc import Mapping

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.offsets import OffsetEntry, SourceOffset
from holdfast.model.source_offset import Basis, DeltaOffset, FileOffset, KafkaOffset
from holdfast.predict import source_log


def find_respelled(evidence: Evidence, entry: OffsetEntry) -> tuple[str, ...]:
    """Return the names of the sources whose offset in this entry Spark did not write."""
    sources = {source.name: source for source in evidence.sources}
    return tuple(
        line.source
        for line in entry.sources
        if line.respelled and _is_surely_respelled(evidence, line, sources.get(line.source))
    )


def _is_surely_respelled(
    evidence: Evidence, line: SourceOffset, source: SourceEvidence | None
) -> bool:
    offset = source_offset.decode(line.offset, described=source.described if source else "")
    if not isinstance(offset, FileOffset | KafkaOffset | DeltaOffset):
        return False
    return (
        offset.recognition.basis is Basis.DESCRIPTION
        or _has_compact_entry(evidence, line.source)
        or (source is not None and _has_own_folder(evidence, source))
    )


def _has_compact_entry(evidence: Evidence, name: str) -> bool:
    """Return whether another entry has an offset of the source without spaces.

    An empty offset has no place for spaces, and does not count.
    """
    return any(
        line.source == name
        and isinstance(line.offset, Mapping)
        and line.offset
        and not line.respelled
        for entry in evidence.offset_entries.values()
        for line in entry.sources
    )


def _has_own_folder(evidence: Evidence, source: SourceEvidence) -> bool:
    """Return whether the folder of the source is one of Kafka or of a file source."""
    if isinstance(source.began, Mapping):
        return True
    log = evidence.source_logs.get(source.folder) if isinstance(source.folder, str) else None
    return (
        log is not None
        and isinstance(source.offset, FileOffset)
        and source_log.find_latest(log) >= 0
    )
