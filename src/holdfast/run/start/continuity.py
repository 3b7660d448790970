"""Does the offset log still say of a sink's last batch what the sink says of it?

Asked at every start, with the lease held, and again before the sinks are prepared: the next batch
begins where `offsets/N` says now that batch N ended, and a dead driver's late PUT, a copy that was
put back or an edit may have replaced it.

    N is committed     its end must be the sink's, and the files of a file source, too
    N is pending       it runs again, so its whole range must be the sink's
"""

from holdfast.errors import BatchChanged, BatchNotContinuous
from holdfast.model import ends
from holdfast.model.batch import Writer, WrittenBatch
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.run.query.batch import OffsetReader
from holdfast.sinks import contract
from holdfast.storage import Store

_AS_LOGGED = Unknown(reason="where the batch before ended counts")


def find_break(
    store: Store, life: Writer, last: WrittenBatch, done: BatchId | None
) -> BatchNotContinuous | BatchChanged | None:
    """Return why the log does not go on from the sink's last batch; None where it does.

    A batch that is not in the log, or not any more, is not judged here.
    """
    reader = OffsetReader(store, life.job, life)
    entry = reader.entry(last.batch)
    if isinstance(entry, Unknown):
        return None
    ended = ends.read_ends(last.offsets)
    if not isinstance(ended, Unknown):
        moved = ends.find_mismatch(ended, ends.read_entry(entry))
        if moved is not None:
            return contract.not_continuous(life, last.batch, moved)
    return _find_other_range(reader, life, last, is_pending=done is None or done < last.batch)


def _find_other_range(
    reader: OffsetReader, life: Writer, last: WrittenBatch, *, is_pending: bool
) -> BatchNotContinuous | BatchChanged | None:
    """Return whether the digest of the batch changed.

    Where a committed batch began no longer matters: the sink's own start is taken for it.
    """
    digest = reader.digest(last.batch, _AS_LOGGED)
    if digest == last.digest or isinstance(last.digest, Unknown):
        return None
    if is_pending:
        if isinstance(digest, Unknown):
            return None
        return contract.changed(life, last.batch, last.digest, digest)
    digest = reader.digest(last.batch, ends.read_starts(last.offsets))
    if digest == last.digest or isinstance(digest, Unknown):
        return None
    return contract.not_same_range(life, last.batch, last.digest, digest)
