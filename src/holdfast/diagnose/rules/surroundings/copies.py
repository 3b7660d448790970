"""Stage 3: is this checkpoint a copy of another, or inside another?"""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity

_MOST_TOLD = 5


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """The same query id at two places, and checkpoints in checkpoints."""
    twins = seen.surroundings.same_query
    if isinstance(twins, Unknown):
        yield NotAssessed(
            question="whether another checkpoint has the same query id", reason=twins.reason
        )
    elif twins:
        yield Finding(
            code=Code.CHECKPOINT_COPIED,
            severity=Severity.UNDEFINED,
            text="Another checkpoint has the same query id: one is a copy. A sink that knows the"
            " writer by its query id takes both for one and skips what the second writes.",
            clues=tuple(
                Clue(file=one, expected="a query id of its own", found="the same query id")
                for one in twins[:_MOST_TOLD]
            ),
            remedies=("start only one of them; a copy that is to live needs a sink of its own",),
        )
    yield from _find_copies(seen)
    nested = seen.evidence.nested
    if nested:
        others = (
            f"Another checkpoint lies inside this one, in `{nested[0]}`: a reset of this one"
            " removes it too."
            if len(nested) == 1
            else f"{len(nested):,} other checkpoints lie inside this one: a reset of this one"
            " removes them too."
        )
        yield Finding(
            code=Code.CHECKPOINT_NESTED,
            severity=Severity.NOTE,
            text=others,
            clues=tuple(
                Clue(file=one, expected="no checkpoint", found="offsets or commits")
                for one in nested[:_MOST_TOLD]
            ),
            remedies=(
                (
                    f"stop its query, move `{nested[0]}` beside this checkpoint, start it there; a"
                    " query with transformWithState cannot be moved"
                ),
            ),
        )


def _find_copies(seen: RuleInput) -> Iterator[Finding]:
    """Copies near this checkpoint that nobody sees in the same folder."""
    copies, own = seen.surroundings.copies, seen.evidence.batches.last_planned
    if not copies:
        return
    ahead = [one for one in copies if own is not None and one.last_planned > own]
    effect = (
        f"A start repeats what another checkpoint of this query has done: `{ahead[0].location}`"
        f" has gone on to batch {ahead[0].last_planned}"
        if ahead
        else f"Two queries write as one if both start: `{copies[0].location}` has the same query id"
    )
    yield Finding(
        code=Code.CHECKPOINT_COPIED,
        severity=Severity.NOTE,
        text=f"{effect}. One of the two is a copy.",
        clues=tuple(
            Clue(
                file=one.location,
                expected="a query id of its own",
                found=f"the same query id, and batches up to {one.last_planned}",
            )
            for one in (ahead or copies)[:_MOST_TOLD]
        ),
        remedies=("start only the one that goes with its sink, and move the other away",),
    )
