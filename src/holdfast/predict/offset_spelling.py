"""Stage 3: an offset entry -> the sources whose offset is spelt as Spark never spells it.

Spark writes JSON without spaces. Who edits an entry with a program may leave some: the value is the
same, and yet Spark, which compares texts, takes it for another. A data source in Python writes its
own offsets, with spaces, and of whatever shape: an offset is Kafka's, of files or of Delta's only
where more than its shape says so, or where other entries have it without spaces.
"""

from collections.abc import Mapping

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.offsets import OffsetEntry, SourceOffset
from holdfast.model.source_offset import Basis, DeltaOffset, FileOffset, KafkaOffset
from holdfast.predict import source_log


def find_respelled(evidence: Evidence, entry: OffsetEntry) -> tuple[str, ...]:
    """Their names."""
    seen = {one.name: one for one in evidence.sources}
    return tuple(
        one.source
        for one in entry.sources
        if one.respelled and _is_surely_respelled(evidence, one, seen.get(one.source))
    )


def _is_surely_respelled(
    evidence: Evidence, one: SourceOffset, seen: SourceEvidence | None
) -> bool:
    offset = source_offset.decode(one.offset, described=seen.described if seen else "")
    if not isinstance(offset, FileOffset | KafkaOffset | DeltaOffset):
        return False
    told = offset.recognition.basis is Basis.DESCRIPTION
    return (
        told
        or _has_compact_entry(evidence, one.source)
        or (seen is not None and _has_own_folder(evidence, seen))
    )


def _has_compact_entry(evidence: Evidence, name: str) -> bool:
    """Whether another entry has an offset of the source without spaces, where some could be."""
    return any(
        one.source == name and isinstance(one.offset, Mapping) and one.offset and not one.respelled
        for entry in evidence.offset_entries.values()
        for one in entry.sources
    )


def _has_own_folder(evidence: Evidence, seen: SourceEvidence) -> bool:
    """Whether its folder is one of Kafka, or of a file source."""
    if isinstance(seen.began, Mapping):
        return True
    log = evidence.source_logs.get(seen.folder) if isinstance(seen.folder, str) else None
    return (
        log is not None and isinstance(seen.offset, FileOffset) and source_log.find_latest(log) >= 0
    )
