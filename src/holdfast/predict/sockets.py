"""Stage 3: a query that reads only sockets -> which of four things a restart does.

A socket counts its lines from 0 in each process, keeps nothing, and connects when a batch runs.

    last offset    batch        what Spark does (tried on 4.1)
    -1             committed    nothing: no batch is due, so it never connects
    -1             pending      runs the batch without rows, connects, and reads on
    n              committed    runs a batch from n to -1 at once, without rows; fails at the next
    n              pending      runs the batch without its rows, then as above

Spark 3.x fails one batch sooner: it plans the batch from n to -1 and fails before it runs. Only a
socket logs -1, which is where it stands before its first line.
"""

from dataclasses import replace
from enum import StrEnum

from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.model.restart import Stage, StartError
from holdfast.model.source_offset import Basis, NumberOffset
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import unread_files
from holdfast.spark import exceptions

_TRIED = SparkVersion(3, 0)
_RUNS_EMPTY = SparkVersion(4, 0)
AT_FIRST = -1
"""Where a socket stands before its first line."""


class Course(StrEnum):
    """What a restart does with a query that reads only sockets."""

    NEVER_READS = "never reads"
    STARTS_FRESH = "starts fresh"
    FAILS_SOON = "fails soon"
    LOSES_AND_FAILS = "loses its batch and fails soon"


def find_course(evidence: Evidence, spark: SparkVersion) -> Course | None:
    """Return what a restart does; None if the query reads other sources too, or it is not clear."""
    if spark < _TRIED:
        return None
    sources = [one for one in evidence.sources if one.same_as is None]
    values = {_read_value(one, evidence) for one in sources}
    if not values or None in values or evidence.batches.continuous:
        return None
    pending = evidence.batches.last_planned != evidence.batches.last_committed
    if values == {AT_FIRST}:
        return Course.STARTS_FRESH if pending else Course.NEVER_READS
    if AT_FIRST in values:
        return None
    return Course.LOSES_AND_FAILS if pending else Course.FAILS_SOON


def find_error(evidence: Evidence, batch: BatchId, spark: SparkVersion) -> StartError | None:
    """Return the error that ends the query after a restart that begins with this batch."""
    course = find_course(evidence, spark)
    if course not in (Course.FAILS_SOON, Course.LOSES_AND_FAILS):
        return None
    again = course is Course.LOSES_AND_FAILS
    late = "it has sent more lines than were read before" if again else ""
    unsure = "" if all(is_described(one) for one in evidence.sources) else "it is no socket"
    empty_first = not fails_at_once(spark)
    line = "the next line" if again else "the first line"
    when = f" (`Offsets committed out of order`) when {line} arrives" if empty_first else ""
    found = exceptions.make_error(
        "",
        exceptions.STATE_ERROR if empty_first else ("IndexOutOfBoundsException",),
        f"the socket counts its lines from 0 again, and Spark fails{when}",
        f"offsets/{evidence.batches.last_planned}",
        stage=Stage.PLANNING,
        batch=BatchId(batch + again + empty_first),
    )
    return replace(found, unless=" or ".join(one for one in (late, unsure) if one))


def fails_at_once(spark: SparkVersion) -> bool:
    """Whether the first new batch fails, and does not run without rows first."""
    return spark < _RUNS_EMPTY


def keeps_nothing(source: SourceEvidence, evidence: Evidence) -> bool:
    """Whether no folder is its own; where that is not known, whether there is none at all."""
    logs = evidence.source_logs
    return not logs if isinstance(source.folder, Unknown) else source.folder not in logs


def is_described(source: SourceEvidence) -> bool:
    """Whether records name the source, so that its kind is more than a guess from its offset."""
    offset = source.offset
    return isinstance(offset, NumberOffset) and offset.recognition.basis is Basis.DESCRIPTION


def _read_value(source: SourceEvidence, evidence: Evidence) -> int | None:
    offset = source.offset
    if not isinstance(offset, NumberOffset) or source.kind != "socket":
        return None
    hidden = any(one.path.startswith("sources") for one in unread_files.find(evidence))
    if not is_described(source) and (hidden or not keeps_nothing(source, evidence)):
        return None
    return offset.value if offset.value >= AT_FIRST else None
