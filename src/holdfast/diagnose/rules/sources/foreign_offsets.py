"""Stage 3: are the offset lines offsets of the sources whose folders lie beside them?"""

from collections.abc import Iterator

from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId
from holdfast.model.json import to_canonical
from holdfast.predict import foreign_offsets

_MOST_SHOWN = 80


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Each line of the entries that a start reads which its source cannot read."""
    planned = seen.evidence.batches.last_planned
    if planned is None or seen.restart.starting.continuous:
        return
    read = (planned, planned - 1) if seen.restart.rerun else (planned,)
    for batch in read:
        entry = seen.evidence.offset_entries.get(BatchId(batch))
        for one in foreign_offsets.find(seen.evidence, entry) if entry is not None else ():
            yield _make_finding(one, batch)


def _make_finding(one: foreign_offsets.ForeignOffset, batch: int) -> Finding:
    line = to_canonical(one.offset)
    shown = line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"
    kind = f"an offset of {one.looks_like}" if one.looks_like else "no offset"
    maker, entry = foreign_offsets.MAKERS[one.folder_kind], f"offsets/{batch}"
    restore = f"restore `{entry}` from a copy of the checkpoint"
    left = (f"if {one.unless}: move `sources/{one.folder}` away",) if one.unless else ()
    return Finding(
        code=Code.OFFSET_OF_OTHER_SOURCE,
        severity=Severity.UNDEFINED if one.unless else Severity.BLOCKS,
        text=f"A start fails if source {one.source} is {maker}, as `sources/{one.folder}` shows:"
        f" `{entry}` has {kind} for it."
        if one.unless
        else f"A start fails: source {one.source} is {maker}, as `sources/{one.folder}` shows, and"
        f" `{entry}` has {kind} for it.",
        clues=(
            Clue(
                file=entry, expected=foreign_offsets.EXPECTED[one.folder_kind], found=f"`{shown}`"
            ),
        ),
        remedies=(restore, *left),
    )
