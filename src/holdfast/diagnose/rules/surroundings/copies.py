"""Is this checkpoint a copy of another, or inside another?"""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity

_MOST_LISTED = 5


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield other checkpoints with the same query id, and checkpoints inside this one."""
    twins = given.surroundings.same_query
    if isinstance(twins, Unknown):
        yield NotAssessed(
            question="whether another checkpoint has the same query id", reason=twins.reason
        )
    elif twins:
        yield Finding(
            code=Code.CHECKPOINT_COPIED,
            severity=Severity.UNDEFINED,
            text="A sink that identifies the writer by its query id will skip what the second query"
            " writes: another checkpoint has the same query id. One of the two is a copy.",
            clues=tuple(
                Clue(file=path, expected="a query id of its own", found="the same query id")
                for path in twins[:_MOST_LISTED]
            ),
            remedies=("start only one of them; a copy that is to run needs a sink of its own",),
        )
    yield from _find_copies(given)
    yield from _find_nested(given)


def _find_nested(given: RuleInput) -> Iterator[Finding]:
    nested = given.evidence.nested
    if not nested:
        return
    text = (
        f"Deleting this checkpoint also deletes the checkpoint inside it, in `{nested[0]}`."
        if len(nested) == 1
        else f"Deleting this checkpoint also deletes the {len(nested):,} checkpoints inside it."
    )
    yield Finding(
        code=Code.CHECKPOINT_NESTED,
        severity=Severity.NOTE,
        text=text,
        clues=tuple(
            Clue(file=path, expected="no checkpoint", found="offsets or commits")
            for path in nested[:_MOST_LISTED]
        ),
        remedies=(
            (
                f"stop its query, move `{nested[0]}` beside this checkpoint, and start the query"
                " there; a query with transformWithState cannot be moved"
            ),
        ),
    )


def _find_copies(given: RuleInput) -> Iterator[Finding]:
    """Yield copies near this checkpoint that do not lie in the same folder."""
    copies, own = given.surroundings.copies, given.evidence.batches.last_planned
    if not copies:
        return
    ahead = [copy for copy in copies if own is not None and copy.last_planned > own]
    effect = (
        "A restart will repeat what another checkpoint of this query has already done:"
        f" `{ahead[0].location}` has reached batch {ahead[0].last_planned}"
        if ahead
        else "Two queries will write under the same id if both start:"
        f" `{copies[0].location}` has the same query id"
    )
    yield Finding(
        code=Code.CHECKPOINT_COPIED,
        severity=Severity.NOTE,
        text=f"{effect}. One of the two is a copy.",
        clues=tuple(
            Clue(
                file=copy.location,
                expected="a query id of its own",
                found=f"the same query id, and batches up to {copy.last_planned}",
            )
            for copy in (ahead or copies)[:_MOST_LISTED]
        ),
        remedies=("start only the one that belongs to its sink, and move the other away",),
    )
