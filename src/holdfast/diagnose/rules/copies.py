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
    for path in seen.evidence.nested[:_MOST_TOLD]:
        yield Finding(
            code=Code.CHECKPOINT_NESTED,
            severity=Severity.UNDEFINED,
            text=f"Another checkpoint lies inside this one, in `{path}`: a reset of this one"
            " removes it too.",
            clues=(Clue(file=path, expected="no checkpoint", found="offsets or commits"),),
            remedies=(f"stop its query, move `{path}` beside this checkpoint, start it there",),
        )
