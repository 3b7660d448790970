"""Stage 3: does the offset log still say what the sinks and the runs of the query have seen?

No checksum covers it: an entry that was changed by hand, or replaced by the late write of a dead
driver, is taken for the truth. Three witnesses are asked, the best first:

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


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """The newest entries beside what is known of the same batches, or by their spelling."""
    evidence = seen.evidence
    for batch, entry in sorted(evidence.offset_entries.items()):
        ledgers = [one for one in evidence.ledgers if one.batch == batch and _has_offsets(one)]
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
    """The ledger and the entry say where the batch ended, and where it begins if it runs again."""
    ended = ends.read_ends(ledger.offsets)
    moved = (
        None if isinstance(ended, Unknown) else ends.find_mismatch(ended, ends.read_entry(entry))
    )
    if moved is not None:
        yield _make_ledger_finding(batch, ledger, moved)
    elif batch in evidence.batches.pending:
        yield from _compare_start(evidence, batch, ledger)


def _compare_start(evidence: Evidence, batch: BatchId, ledger: LedgerEvidence) -> Iterator[Finding]:
    """A source that had an offset before the batch begins where it was: sources begin once."""
    before = BatchId(batch - 1)
    entry = evidence.offset_entries.get(before)
    starts = ends.read_starts(ledger.offsets)
    if entry is None or isinstance(starts, Unknown):
        return
    found = ends.read_entry(entry)
    moved = ends.find_mismatch({one: starts.get(one) for one in found}, found)
    if moved is not None:
        yield _make_ledger_finding(before, ledger, moved)


def _make_ledger_finding(batch: BatchId, ledger: LedgerEvidence, moved: OffsetMismatch) -> Finding:
    return Finding(
        code=Code.OFFSETS_EDITED,
        severity=Severity.BLOCKS,
        text=f"`{ledger.table}` refuses the next batch: `offsets/{batch}` does not say where batch"
        f" {batch} ended in source {moved.source}.",
        clues=(
            Clue(
                file=f"offsets/{batch}",
                expected=f"{ends.format_offset(moved.expected)}, as in the ledger of"
                f" `{ledger.table}`",
                found=ends.format_offset(moved.found),
            ),
        ),
        remedies=(ends.describe_repair("offsets", batch, moved),),
    )


def _compare_record(
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
            severity=Severity.LOSES if _is_read_at_start(evidence, batch) else Severity.UNDEFINED,
            text=f"Batch {batch} ran to another offset of source {source.source} than its entry"
            " says now: rows are read again, or never.",
            clues=(
                Clue(
                    file=f"offsets/{batch}",
                    expected=f"{to_canonical(ran)}, as in `{known.read_from[0]}`",
                    found=to_canonical(source.offset),
                ),
            ),
            remedies=_list_remedies(batch),
        )


def _is_read_at_start(evidence: Evidence, batch: BatchId) -> bool:
    """Whether a start reads the entry: the last one, and the one before a batch that is pending."""
    last = max(evidence.offset_entries)
    return batch == last or (batch == last - 1 and last in evidence.batches.pending)


def _match_ends(evidence: Evidence, entry: OffsetEntry, ran: Sequence[Json]) -> list[Json] | None:
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


def _find_respelled(evidence: Evidence, batch: BatchId, entry: OffsetEntry) -> Iterator[Finding]:
    """Nothing tells where the batch ended; that Spark did not write this, its spaces tell."""
    for source in offset_spelling.find_respelled(evidence, entry):
        yield Finding(
            code=Code.OFFSETS_EDITED,
            severity=Severity.UNDEFINED,
            text=f"The offset of source {source} in the entry of batch {batch} was not written by"
            " Spark: whether it is the one to which the batch ran, nothing tells.",
            clues=(
                Clue(file=f"offsets/{batch}", expected="JSON without spaces", found="with spaces"),
            ),
            remedies=_list_remedies(batch),
        )


def _list_remedies(batch: BatchId) -> tuple[str, ...]:
    return (
        f"restore `offsets/{batch}` from a copy of the checkpoint",
        "or accept it, if somebody moved the query on purpose and the sink knows",
    )
