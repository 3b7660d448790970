"""Stage 3: does the offset log still say what the runs of the query have seen?

No checksum covers it: an entry that was changed by hand is taken for the truth.
"""

from collections.abc import Iterator, Sequence

from holdfast.diagnose import respelt
from holdfast.model.evidence import Evidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, Seen, Severity
from holdfast.model.ids import BatchId
from holdfast.model.json import Json, canonical
from holdfast.model.offsets import OffsetEntry


def asked(seen: Seen) -> Iterator[Finding | NotAssessed]:
    """The newest entries beside what was recorded of the same batches, or by their spelling."""
    evidence = seen.evidence
    for batch, entry in sorted(evidence.offset_entries.items()):
        known = evidence.recorded_ends.get(batch)
        ends = None if known is None else _ends(evidence, entry, known.value)
        if known is None or ends is None:
            yield from _by_spelling(evidence, batch, entry)
            continue
        for source, ran in zip(entry.sources, ends, strict=True):
            if canonical(source.offset) == canonical(ran):
                continue
            yield Finding(
                code=Code.OFFSETS_EDITED,
                severity=Severity.UNDEFINED,
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
    for source in respelt.sources(evidence, entry):
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
