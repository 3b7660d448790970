"""Stage 3: does the offset log still say what the sinks and the runs of the query have seen?

No checksum covers it: an entry that was changed by hand, or replaced by the late write of a dead
driver, is taken for the truth. Three witnesses are asked, the best first:

    the ledger of a sink     has the range of its last batch; it refuses the next one: BLOCKS
    run records, event log   have where batches ended; rows are lost or read again: LOSES
    the spelling             Spark writes no spaces: UNDEFINED
"""

from collections.abc import Iterator, Sequence

from holdfast.model import ends
from holdfast.model.ends import Moved
from holdfast.model.evidence import Evidence, LedgerSeen
from holdfast.model.fact import Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, Seen, Severity
from holdfast.model.ids import BatchId
from holdfast.model.json import Json, canonical
from holdfast.model.offsets import OffsetEntry
from holdfast.predict import offset_spelling


def asked(seen: Seen) -> Iterator[Finding | NotAssessed]:
    """The newest entries beside what is known of the same batches, or by their spelling."""
    evidence = seen.evidence
    for batch, entry in sorted(evidence.offset_entries.items()):
        ledgers = [one for one in evidence.ledgers if one.batch == batch and _has_offsets(one)]
        if ledgers:
            for ledger in ledgers:
                yield from _by_ledger(evidence, batch, entry, ledger)
            continue
        known = evidence.recorded_ends.get(batch)
        recorded = None if known is None else _ends(evidence, entry, known.value)
        if known is None or recorded is None:
            yield from _by_spelling(evidence, batch, entry)
        else:
            yield from _by_record(evidence, batch, entry, recorded, known)


def _has_offsets(ledger: LedgerSeen) -> bool:
    return not isinstance(ends.read_ranges(ledger.offsets), Unknown)


def _by_ledger(
    evidence: Evidence, batch: BatchId, entry: OffsetEntry, ledger: LedgerSeen
) -> Iterator[Finding]:
    """The ledger and the entry say where the batch ended, and where it begins if it runs again."""
    ended = ends.read_ranges(ledger.offsets)
    moved = None if isinstance(ended, Unknown) else ends.find_moved(ended, ends.read_entry(entry))
    if moved is not None:
        yield _disagrees(batch, ledger, moved)
    elif batch in evidence.batches.pending:
        yield from _by_start(evidence, batch, ledger)


def _by_start(evidence: Evidence, batch: BatchId, ledger: LedgerSeen) -> Iterator[Finding]:
    """A source that had an offset before the batch begins where it was: sources begin once."""
    before = BatchId(batch - 1)
    entry = evidence.offset_entries.get(before)
    starts = ends.read_starts(ledger.offsets)
    if entry is None or isinstance(starts, Unknown):
        return
    found = ends.read_entry(entry)
    moved = ends.find_moved({one: starts.get(one) for one in found}, found)
    if moved is not None:
        yield _disagrees(before, ledger, moved)


def _disagrees(batch: BatchId, ledger: LedgerSeen, moved: Moved) -> Finding:
    return Finding(
        code=Code.OFFSETS_EDITED,
        severity=Severity.BLOCKS,
        text=f"`{ledger.table}` refuses the next batch: `offsets/{batch}` does not say where batch"
        f" {batch} ended in source {moved.source}.",
        clues=(
            Clue(
                file=f"offsets/{batch}",
                expected=f"{ends.spell(moved.expected)}, as in the ledger of `{ledger.table}`",
                found=ends.spell(moved.found),
            ),
        ),
        remedies=(ends.put_back("offsets", batch, moved),),
    )


def _by_record(
    evidence: Evidence,
    batch: BatchId,
    entry: OffsetEntry,
    recorded: Sequence[Json],
    known: Known[tuple[Json, ...]],
) -> Iterator[Finding]:
    for source, ran in zip(entry.sources, recorded, strict=True):
        if source.offset == ran:
            continue
        yield Finding(
            code=Code.OFFSETS_EDITED,
            severity=Severity.LOSES if _is_next(evidence, batch) else Severity.UNDEFINED,
            text=f"Batch {batch} ran to another offset of source {source.source} than its entry"
            " says now: rows are read again, or never.",
            clues=(
                Clue(
                    file=f"offsets/{batch}",
                    expected=f"{canonical(ran)}, as in `{known.read_from[0]}`",
                    found=canonical(source.offset),
                ),
            ),
            remedies=_remedies(batch),
        )


def _is_next(evidence: Evidence, batch: BatchId) -> bool:
    """Whether a start reads the entry: the last one, and the one before a batch that is pending."""
    last = max(evidence.offset_entries)
    return batch == last or (batch == last - 1 and last in evidence.batches.pending)


def _ends(evidence: Evidence, entry: OffsetEntry, ran: Sequence[Json]) -> list[Json] | None:
    """What was recorded of each source of an entry; None where nothing tells which is which."""
    known = {one.name: one.number for one in evidence.sources}
    numbers = [known.get(one.source) for one in entry.sources]
    if entry.version == 1 and len(ran) == len(entry.sources):
        numbers = list(range(len(ran)))
    places = [one for one in numbers if isinstance(one, int) and one < len(ran)]
    others = (one for place, one in enumerate(ran) if place not in places)
    # Of a source without an offset an entry of version 2 has no line.
    if len(places) < len(numbers) or any(one is not None for one in others):
        return None
    return [ran[place] for place in places]


def _by_spelling(evidence: Evidence, batch: BatchId, entry: OffsetEntry) -> Iterator[Finding]:
    """Nothing tells where the batch ended; that Spark did not write this, its spaces tell."""
    for source in offset_spelling.sources(evidence, entry):
        yield Finding(
            code=Code.OFFSETS_EDITED,
            severity=Severity.UNDEFINED,
            text=f"The offset of source {source} in the entry of batch {batch} was not written by"
            " Spark: whether it is the one to which the batch ran, nothing tells.",
            clues=(
                Clue(file=f"offsets/{batch}", expected="JSON without spaces", found="with spaces"),
            ),
            remedies=_remedies(batch),
        )


def _remedies(batch: BatchId) -> tuple[str, ...]:
    return (
        f"restore `offsets/{batch}` from a copy of the checkpoint",
        "or accept it, if somebody moved the query on purpose and the sink knows",
    )
