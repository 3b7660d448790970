"""Does the offset log still say what the sinks and the runs of the query recorded?

No checksum covers the offset log: Spark trusts an entry that was changed by hand, or overwritten
late by a dead driver. Three witnesses are compared with it, the best first:

    the ledger of a sink     has the range of its last batch; it refuses the next one: BLOCKS
    run records, event log   have where batches ended; rows are lost or read again: LOSES
    the spelling             Spark writes no spaces: UNDEFINED
"""

from collections.abc import Iterator, Sequence

from holdfast.model import ends
from holdfast.model.ends import OffsetMismatch
from holdfast.model.evidence import Evidence, LedgerEvidence
from holdfast.model.fact import Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId
from holdfast.model.json import Json, to_canonical
from holdfast.model.offsets import OffsetEntry
from holdfast.predict import offset_spelling


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield the newest entries that contradict a ledger, a record, or Spark's own spelling."""
    evidence = given.evidence
    for batch, entry in sorted(evidence.offset_entries.items()):
        ledgers = [
            ledger for ledger in evidence.ledgers if ledger.batch == batch and _has_offsets(ledger)
        ]
        if ledgers:
            for ledger in ledgers:
                yield from _compare_ledger(evidence, batch, entry, ledger)
            continue
        known = evidence.recorded_ends.get(batch)
        recorded = None if known is None else _match_ends(evidence, entry, known.value)
        if known is None or recorded is None:
            yield from _find_respelled(evidence, batch, entry)
        else:
            yield from _compare_record(evidence, batch, entry, recorded, known)


def _has_offsets(ledger: LedgerEvidence) -> bool:
    return not isinstance(ends.read_ends(ledger.offsets), Unknown)


def _compare_ledger(
    evidence: Evidence, batch: BatchId, entry: OffsetEntry, ledger: LedgerEvidence
) -> Iterator[Finding]:
    """Compare where the batch ended and, if it runs again, where it begins."""
    ended = ends.read_ends(ledger.offsets)
    mismatch = (
        None if isinstance(ended, Unknown) else ends.find_mismatch(ended, ends.read_entry(entry))
    )
    if mismatch is not None:
        yield _make_ledger_finding(batch, ledger, mismatch)
    elif batch in evidence.batches.pending:
        yield from _compare_start(evidence, batch, ledger)


def _compare_start(evidence: Evidence, batch: BatchId, ledger: LedgerEvidence) -> Iterator[Finding]:
    """Compare the starts of the sources that had an offset before the batch.

    A source without an offset is skipped: where it first begins is in no entry.
    """
    before = BatchId(batch - 1)
    entry = evidence.offset_entries.get(before)
    starts = ends.read_starts(ledger.offsets)
    if entry is None or isinstance(starts, Unknown):
        return
    offsets = ends.read_entry(entry)
    mismatch = ends.find_mismatch({source: starts.get(source) for source in offsets}, offsets)
    if mismatch is not None:
        yield _make_ledger_finding(before, ledger, mismatch)


def _make_ledger_finding(
    batch: BatchId, ledger: LedgerEvidence, mismatch: OffsetMismatch
) -> Finding:
    return Finding(
        code=Code.OFFSETS_EDITED,
        severity=Severity.BLOCKS,
        text=f"`{ledger.table}` will refuse the next batch: for source {mismatch.source},"
        f" `offsets/{batch}` does not say where batch {batch} ended.",
        clues=(
            Clue(
                file=f"offsets/{batch}",
                expected=f"{ends.format_offset(mismatch.expected)}, as in the ledger of"
                f" `{ledger.table}`",
                found=ends.format_offset(mismatch.found),
            ),
        ),
        remedies=(ends.describe_repair("offsets", batch, mismatch),),
    )


def _compare_record(
    evidence: Evidence,
    batch: BatchId,
    entry: OffsetEntry,
    recorded: Sequence[Json],
    known: Known[tuple[Json, ...]],
) -> Iterator[Finding]:
    for source, end in zip(entry.sources, recorded, strict=True):
        if source.offset == end:
            continue
        yield Finding(
            code=Code.OFFSETS_EDITED,
            severity=Severity.LOSES if _is_read_at_start(evidence, batch) else Severity.UNDEFINED,
            text=f"Rows of source {source.source} are read twice, or never: batch {batch} ended at"
            f" a different offset than `offsets/{batch}` says now.",
            clues=(
                Clue(
                    file=f"offsets/{batch}",
                    expected=f"{to_canonical(end)}, as in `{known.read_from[0]}`",
                    found=to_canonical(source.offset),
                ),
            ),
            remedies=_list_remedies(batch),
        )


def _is_read_at_start(evidence: Evidence, batch: BatchId) -> bool:
    """Return whether a restart reads the entry: the last, or the one before a pending batch."""
    last = max(evidence.offset_entries)
    return batch == last or (batch == last - 1 and last in evidence.batches.pending)


def _match_ends(
    evidence: Evidence, entry: OffsetEntry, recorded: Sequence[Json]
) -> list[Json] | None:
    """Return the recorded end of each source of an entry; None if they cannot be matched."""
    by_name = {source.name: source.number for source in evidence.sources}
    numbers = [by_name.get(source.source) for source in entry.sources]
    if entry.version == 1 and len(recorded) == len(entry.sources):
        numbers = list(range(len(recorded)))
    places = [number for number in numbers if isinstance(number, int) and number < len(recorded)]
    others = (end for place, end in enumerate(recorded) if place not in places)
    # An entry of version 2 has no line for a source without an offset.
    if len(places) < len(numbers) or any(end is not None for end in others):
        return None
    return [recorded[place] for place in places]


def _find_respelled(evidence: Evidence, batch: BatchId, entry: OffsetEntry) -> Iterator[Finding]:
    """Yield offsets with spaces, which Spark did not write, if no record can confirm them."""
    for source in offset_spelling.find_respelled(evidence, entry):
        yield Finding(
            code=Code.OFFSETS_EDITED,
            severity=Severity.UNDEFINED,
            text=f"Rows of source {source} may be read twice, or never: Spark did not write the"
            f" offset in `offsets/{batch}`, and no record shows whether batch {batch} ended there.",
            clues=(
                Clue(file=f"offsets/{batch}", expected="JSON without spaces", found="with spaces"),
            ),
            remedies=_list_remedies(batch),
        )


def _list_remedies(batch: BatchId) -> tuple[str, ...]:
    return (
        f"restore `offsets/{batch}` from a copy of the checkpoint",
        "keep the entry if somebody changed it on purpose and corrected the sink as well",
    )
