"""Does each offset line belong to the source whose folder lies beside it?"""

from collections.abc import Iterator

from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId
from holdfast.model.json import to_canonical
from holdfast.predict import foreign_offsets

_MOST_SHOWN = 80


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield each offset line that a restart reads and its source cannot."""
    planned = given.evidence.batches.last_planned
    if planned is None or given.restart.starting.continuous:
        return
    batches = (planned, planned - 1) if given.restart.rerun else (planned,)
    for batch in batches:
        entry = given.evidence.offset_entries.get(BatchId(batch))
        for foreign in foreign_offsets.find(given.evidence, entry) if entry is not None else ():
            yield _make_finding(foreign, batch)


def _make_finding(foreign: foreign_offsets.ForeignOffset, batch: int) -> Finding:
    line = to_canonical(foreign.offset)
    shown = line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"
    kind = f"an offset of {foreign.looks_like}" if foreign.looks_like else "no valid offset"
    maker, entry = foreign_offsets.MAKERS[foreign.folder_kind], f"offsets/{batch}"
    folder = f"sources/{foreign.folder}"
    restore = f"restore `{entry}` from a copy of the checkpoint"
    leftover = (f"if {foreign.unless}: move `sources/{foreign.folder}` away",)
    return Finding(
        code=Code.OFFSET_OF_OTHER_SOURCE,
        severity=Severity.UNDEFINED if foreign.unless else Severity.BLOCKS,
        text=f"A restart will fail if source {foreign.source} is {maker}, as `{folder}` suggests:"
        f" `{entry}` has {kind} for it."
        if foreign.unless
        else f"A restart will fail: source {foreign.source} is {maker}, as `{folder}` shows, but"
        f" `{entry}` has {kind} for it.",
        clues=(
            Clue(
                file=entry,
                expected=foreign_offsets.EXPECTED[foreign.folder_kind],
                found=f"`{shown}`",
            ),
        ),
        remedies=(restore, *(leftover if foreign.unless else ())),
    )
