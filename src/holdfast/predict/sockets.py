"""What a restart does with a query that reads only sockets: Evidence -> SocketOutcome.

A socket counts its lines from 0 in each process, keeps nothing, and connects when a batch runs.

    last offset    batch        what Spark does (tried on 4.1)
    -1             committed    nothing: no batch is due, so it never connects
    -1             pending      runs the batch without rows, connects, and reads on
    n              committed    runs a batch from n to -1 at once, without rows; fails at the next
    n              pending      runs the batch without its rows, then as above

Spark 3.x fails one batch sooner: it plans the batch from n to -1 and fails before the batch runs.
Only a socket logs -1, its offset before the first line.
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

_TRIED_SINCE = SparkVersion(3, 0)
_RUNS_EMPTY_SINCE = SparkVersion(4, 0)
FIRST_OFFSET = -1
"""The offset of a socket before its first line."""


class SocketOutcome(StrEnum):
    """What a restart does with a query that reads only sockets."""

    NEVER_READS = "never reads"
    STARTS_FRESH = "starts fresh"
    FAILS_SOON = "fails soon"
    LOSES_AND_FAILS = "loses its batch and fails soon"


def find_outcome(evidence: Evidence, spark: SparkVersion) -> SocketOutcome | None:
    """Return what a restart does; None if other sources are read too, or it is not certain."""
    if spark < _TRIED_SINCE:
        return None
    sources = [source for source in evidence.sources if source.same_as is None]
    values = {_read_value(source, evidence) for source in sources}
    if not values or None in values or evidence.batches.continuous:
        return None
    pending = evidence.batches.last_planned != evidence.batches.last_committed
    if values == {FIRST_OFFSET}:
        return SocketOutcome.STARTS_FRESH if pending else SocketOutcome.NEVER_READS
    if FIRST_OFFSET in values:
        return None
    return SocketOutcome.LOSES_AND_FAILS if pending else SocketOutcome.FAILS_SOON


def find_error(evidence: Evidence, batch: BatchId, spark: SparkVersion) -> StartError | None:
    """Return the error that ends the query after a restart that begins with this batch."""
    outcome = find_outcome(evidence, spark)
    if outcome not in (SocketOutcome.FAILS_SOON, SocketOutcome.LOSES_AND_FAILS):
        return None
    rerun = outcome is SocketOutcome.LOSES_AND_FAILS
    caught_up = "the socket has sent more lines than were read before" if rerun else ""
    is_sure = all(is_described(source) for source in evidence.sources)
    not_socket = "" if is_sure else "the source is not a socket"
    empty_first = not fails_at_once(spark)
    line = "the next line" if rerun else "the first line"
    when = f" (`Offsets committed out of order`) when {line} arrives" if empty_first else ""
    error = exceptions.make_error(
        "",
        exceptions.STATE_ERROR if empty_first else ("IndexOutOfBoundsException",),
        f"the socket counts its lines from 0 again, and Spark fails{when}",
        f"offsets/{evidence.batches.last_planned}",
        stage=Stage.PLANNING,
        batch=BatchId(batch + rerun + empty_first),
    )
    return replace(error, unless=" or ".join(text for text in (caught_up, not_socket) if text))


def fails_at_once(spark: SparkVersion) -> bool:
    """Return whether the first new batch fails, and does not run without rows first."""
    return spark < _RUNS_EMPTY_SINCE


def keeps_nothing(source: SourceEvidence, evidence: Evidence) -> bool:
    """Return whether the source has no folder; if its folder is unknown, whether none exists."""
    logs = evidence.source_logs
    return not logs if isinstance(source.folder, Unknown) else source.folder not in logs


def is_described(source: SourceEvidence) -> bool:
    """Return whether records name the source, so that its kind is not a guess from its offset."""
    offset = source.offset
    return isinstance(offset, NumberOffset) and offset.recognition.basis is Basis.DESCRIPTION


def _read_value(source: SourceEvidence, evidence: Evidence) -> int | None:
    offset = source.offset
    if not isinstance(offset, NumberOffset) or source.kind != "socket":
        return None
    unread = any(file.path.startswith("sources") for file in unread_files.find(evidence))
    if not is_described(source) and (unread or not keeps_nothing(source, evidence)):
        return None
    return offset.value if offset.value >= FIRST_OFFSET else None
