"""Was state deleted without a trace, or put where Spark does not look?"""

from collections.abc import Iterator, Sequence

from holdfast.model.evidence import Evidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.state import MisplacedPartition
from holdfast.predict import restart

_MOST_LISTED = 5


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield state that only traces point to, and state at the wrong level."""
    yield from _find_suspected(given)
    yield from _find_misplaced(given)


def _find_suspected(given: RuleInput) -> Iterator[Finding]:
    """Yield a finding if there is no state and something suggests that the query keeps some."""
    other, evidence = given.restart.alternative, given.evidence
    if other is None or other.condition != restart.STATE_LOST:
        return
    signs = [*_list_signs(evidence)]
    if not signs:
        return
    reason = signs[0].found
    yield Finding(
        code=Code.STATE_MISSING,
        severity=Severity.UNDEFINED,
        text=f"If the query keeps state, batch {given.restart.batch} will fail, because the state"
        f" is missing. {reason[:1].upper()}{reason[1:]}.",
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
        found = (
            "the folder `state` is empty, and Spark creates it only for a query that keeps state"
        )
        yield Clue(file="state", expected="no folder, or state in it", found=found)
    if entry is not None and entry.watermark_ms > 0:
        found = "the query has a watermark, and a watermark does nothing without state"
        yield Clue(file=f"offsets/{planned}", expected="no watermark, or state", found=found)


def _find_misplaced(given: RuleInput) -> Iterator[Finding]:
    """Yield a finding if state files lie at a level where Spark does not look."""
    evidence = given.evidence
    if not evidence.misplaced:
        return
    missing = (store for load in given.restart.state for store in load.missing)
    lost = {"/".join(store.split("/")[:3]) for store in missing}
    operators = {
        f"state/{operator.operator}" for operator in evidence.operators if not operator.partitions
    }
    needed = [
        partition
        for partition in evidence.misplaced
        if partition.belongs in lost or partition.belongs.rpartition("/")[0] in operators
    ]
    shown = needed or list(evidence.misplaced)
    count = "1 folder" if len(shown) == 1 else f"{len(shown):,} folders"
    effect = (
        f"The next batch will fail, because Spark does not find the state in {count}"
        if needed
        else f"Spark ignores the state files in {count}"
    )
    yield Finding(
        code=Code.STATE_MISPLACED,
        severity=Severity.BLOCKS if needed else Severity.NOTE,
        text=f"{effect}: the files lie at the wrong level, as after a copy into the wrong folder.",
        clues=tuple(
            Clue(
                file=partition.belongs,
                expected="the state files",
                found=f"they lie in `{partition.folder}`",
            )
            for partition in shown[:_MOST_LISTED]
        ),
        remedies=(_advise_move(shown),) if needed else (),
    )


def _advise_move(shown: Sequence[MisplacedPartition]) -> str:
    """Return how to move the files to where Spark looks."""
    first = shown[0]
    above, belongs = first.folder.rpartition("/")[0], first.belongs.rpartition("/")[0]
    if first.folder.startswith("state/state/"):
        return "move everything in `state/state` into `state`, and remove `state/state`"
    if not first.folder.startswith("state/"):
        return f"make the folder `state`, if it is missing, and move `{above}` into it"
    if first.folder.count("/") == 1:
        return (
            "move everything in `state` to a folder outside the checkpoint, make the folder"
            f" `{belongs}`, and move everything from that folder into `{belongs}`"
        )
    if all(above != other.belongs for other in shown):
        others = ", and the others in the same way" if len(shown) > 1 else ""
        return f"move the folder `{first.folder}` to `{first.belongs}`{others}"
    return (
        f"move the folder `{above}` out of the checkpoint, and then move everything in it into"
        f" `{belongs}`"
    )
