"""Stage 3: an offset entry -> the sources whose offset is spelt as Spark never spells it.

Spark writes JSON without spaces. Who edits an entry with a program may leave some: the value is the
same, and yet Spark, which compares texts, takes it for another.
"""

from holdfast.decode import source_offset
from holdfast.model.offsets import OffsetEntry
from holdfast.model.source_offset import DeltaOffset, FileOffset, KafkaOffset


def sources(entry: OffsetEntry) -> tuple[str, ...]:
    """Their names. Sources in Python write their offsets themselves, with spaces."""
    return tuple(
        one.source
        for one in entry.sources
        if one.respelt
        and isinstance(source_offset.decode(one.offset), FileOffset | KafkaOffset | DeltaOffset)
    )
