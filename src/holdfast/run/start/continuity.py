"""Does the offset log still agree with the sink about the sink's last batch?

The next batch starts where `offsets/N` ends now. A late PUT of a dead driver, a restored copy or an
edit may have replaced that entry. So every start compares it with the sink, while it has the lease,
and again before it prepares the sinks.

    N is committed     its end must match the sink's, and so must the files of a file source
    N is pending       it runs again, so its whole range must match the sink's
"""

from holdfast.errors import BatchChanged, BatchNotContinuous
from holdfast.model import ends
from holdfast.model.batch import Writer, WrittenBatch
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.run.query.batch import OffsetReader
from holdfast.sinks import contract
from holdfast.storage import Store

_BY_THE_LOG = Unknown(reason="the batch starts where the log ends the batch before it")


def find_break(
    store: Store, writer: Writer, last: WrittenBatch, last_committed: BatchId | None
) -> BatchNotContinuous | BatchChanged | None:
    """Return why the log does not continue after the sink's last batch; None if it does.

    A batch without an entry in the log is not checked.
    """
    reader = OffsetReader(store, writer.job, writer)
    entry = reader.entry(last.batch)
    if isinstance(entry, Unknown):
        return None
    sink_ends = ends.read_ends(last.offsets)
    if not isinstance(sink_ends, Unknown):
        mismatch = ends.find_mismatch(sink_ends, ends.read_entry(entry))
        if mismatch is not None:
            return contract.make_not_continuous_error(writer, last.batch, mismatch)
    is_pending = last_committed is None or last_committed < last.batch
    return _find_changed_range(reader, writer, last, is_pending=is_pending)


def _find_changed_range(
    reader: OffsetReader, writer: Writer, last: WrittenBatch, *, is_pending: bool
) -> BatchNotContinuous | BatchChanged | None:
    """Return the error if the digest of the batch changed.

    The start of a committed batch no longer matters, so its digest is compared with the start that
    the sink recorded.
    """
    digest = reader.digest(last.batch, _BY_THE_LOG)
    if digest == last.digest or isinstance(last.digest, Unknown):
        return None
    if is_pending:
        if isinstance(digest, Unknown):
            return None
        return contract.make_changed_error(writer, last.batch, last.digest, digest)
    digest = reader.digest(last.batch, ends.read_starts(last.offsets))
    if digest == last.digest or isinstance(digest, Unknown):
        return None
    return contract.make_range_error(writer, last.batch, last.digest, digest)
