"""Stage 3: is this checkpoint a copy of another, or inside another?"""

from collections.abc import Iterator

from holdfast.model.batch import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, Seen, Severity

_MOST_TOLD = 5


def asked(seen: Seen) -> Iterator[Finding | NotAssessed]:
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
                f"stop its query, move `{nested[0]}` beside this checkpoint, start it there",
            ),
        )
