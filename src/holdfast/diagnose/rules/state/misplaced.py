"""Stage 3: was state deleted without a trace, or put where Spark does not look?"""

from collections.abc import Iterator, Sequence

from holdfast.model.evidence import Evidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.state import MisplacedPartition
from holdfast.predict import restart

_MOST_TOLD = 5


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Find state that only traces point to, and state at the wrong level."""
    yield from _find_suspected(seen)
    yield from _find_misplaced(seen)


def _find_suspected(seen: RuleInput) -> Iterator[Finding]:
    """No state is there, and something suggests that the query keeps some."""
    other, evidence = seen.restart.alternative, seen.evidence
    if other is None or other.condition != restart.STATE_LOST:
        return
    signs = [*_list_signs(evidence)]
    if not signs:
        return
    yield Finding(
        code=Code.STATE_MISSING,
        severity=Severity.UNDEFINED,
        text=f"If the query keeps state, batch {seen.restart.batch} fails: its state is missing."
        f" {signs[0].found[:1].upper()}{signs[0].found[1:]}.",
        clues=tuple(signs),
        remedies=(
            (
                "if the query has an aggregation, a deduplication, a stream-stream join or another"
                " stateful operator, restore the folder `state` from a copy of the checkpoint first"
            ),
            "if it has none, start it",
        ),
    )


def _list_signs(evidence: Evidence) -> Iterator[Clue]:
    planned = evidence.batches.last_planned
    entry = None if planned is None else evidence.offset_entries.get(planned)
    if evidence.empty_state:
        found = "the folder is there and empty; Spark makes it only for a query that keeps state"
        yield Clue(file="state", expected="no folder, or state in it", found=found)
    if entry is not None and entry.watermark_ms > 0:
        found = "the query has a watermark, and a watermark does nothing without state"
        yield Clue(file=f"offsets/{planned}", expected="no watermark, or state", found=found)


def _find_misplaced(seen: RuleInput) -> Iterator[Finding]:
    """State files at a level where Spark does not look."""
    evidence = seen.evidence
    if not evidence.misplaced:
        return
    missing = (store for load in seen.restart.state for store in load.missing)
    lost = {"/".join(store.split("/")[:3]) for store in missing}
    operators = {f"state/{one.operator}" for one in evidence.operators if not one.partitions}
    wanted = [
        one
        for one in evidence.misplaced
        if one.belongs in lost or one.belongs.rpartition("/")[0] in operators
    ]
    shown = wanted or list(evidence.misplaced)
    count = "1 folder" if len(shown) == 1 else f"{len(shown):,} folders"
    effect = (
        f"Spark does not find the state in {count}, and the next batch fails"
        if wanted
        else f"Spark ignores the state files in {count}"
    )
    yield Finding(
        code=Code.STATE_MISPLACED,
        severity=Severity.BLOCKS if wanted else Severity.NOTE,
        text=f"{effect}: the files lie at the wrong level, as after a copy into the wrong folder.",
        clues=tuple(
            Clue(file=one.belongs, expected="the state files", found=f"they lie in `{one.folder}`")
            for one in shown[:_MOST_TOLD]
        ),
        remedies=(_advise_move(shown),) if wanted else (),
    )


def _advise_move(shown: Sequence[MisplacedPartition]) -> str:
    """How to bring the files to where Spark looks."""
    one = shown[0]
    above, belongs = one.folder.rpartition("/")[0], one.belongs.rpartition("/")[0]
    if one.folder.startswith("state/state/"):
        return "move everything in `state/state` into `state`, and remove `state/state`"
    if not one.folder.startswith("state/"):
        return f"make the folder `state`, if it is missing, and move `{above}` into it"
    if one.folder.count("/") == 1:
        return (
            "move everything in `state` to a folder outside the checkpoint, make the folder"
            f" `{belongs}`, and move everything from that folder into `{belongs}`"
        )
    if all(above != other.belongs for other in shown):
        others = ", and the others in the same way" if len(shown) > 1 else ""
        return f"move the folder `{one.folder}` to `{one.belongs}`{others}"
    return (
        f"move the folder `{above}` out of the checkpoint, and then move everything in it into"
        f" `{belongs}`"
    )
