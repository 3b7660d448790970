"""Stage 3: an offset entry -> the sources whose offset is spelt as Spark never spells it.

Spark writes JSON without spaces. Who edits an entry with a program may leave some: the value is the
same, and yet Spark, which compares texts, takes it for another. A data source in Python writes its
own offsets, with spaces, and of whatever shape: an offset is Kafka's, of files or of Delta's only
where more than its shape says so, or where other entries have it without spaces.
"""

from collections.abc import Mapping

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence, SourceSeen
from holdfast.model.offsets import OffsetEntry, SourceOffset
from holdfast.model.source_offset import Basis, DeltaOffset, FileOffset, KafkaOffset
from holdfast.predict import source_log


def sources(evidence: Evidence, entry: OffsetEntry) -> tuple[str, ...]:
    """Their names."""
    seen = {one.name: one for one in evidence.sources}
    return tuple(
        one.source
        for one in entry.sources
        if one.respelt and _counts(evidence, one, seen.get(one.source))
    )


def _counts(evidence: Evidence, one: SourceOffset, seen: SourceSeen | None) -> bool:
    offset = source_offset.decode(one.offset, described=seen.described if seen else "")
    if not isinstance(offset, FileOffset | KafkaOffset | DeltaOffset):
        return False
    told = offset.recognition.basis is Basis.DESCRIPTION
    return (
        told or _spelt_without(evidence, one.source) or (seen is not None and _kept(evidence, seen))
    )


def _spelt_without(evidence: Evidence, name: str) -> bool:
    """Whether another entry has an offset of the source without spaces, where some could be."""
    return any(
        one.source == name and isinstance(one.offset, Mapping) and one.offset and not one.respelt
        for entry in evidence.offset_entries.values()
        for one in entry.sources
    )


def _kept(evidence: Evidence, seen: SourceSeen) -> bool:
    """Whether its folder is one of Kafka, or of a file source."""
    if isinstance(seen.began, Mapping):
        return True
    log = evidence.source_logs.get(seen.folder) if isinstance(seen.folder, str) else None
    return log is not None and isinstance(seen.offset, FileOffset) and source_log.latest(log) >= 0
