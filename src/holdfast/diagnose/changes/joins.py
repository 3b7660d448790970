"""Stage 3: do joins of two streams keep and match the same rows?"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference, operators
from holdfast.diagnose.changes.difference import NEW_CHECKPOINT, TAKE_BACK
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import PlanOperator

_JOIN = "symmetricHashJoin"
_INNER = "Inner"


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Type, condition and kept columns of each join."""
    if change.old is None:
        if any(one.kind == _JOIN for one in change.new.operators):
            yield NotAssessed(
                question="whether type, condition and columns of the join are the old ones",
                reason="no run record holds the plan of the query",
            )
        return
    for number, was, now in operators.pair_unchanged(change):
        if now.kind == _JOIN:
            yield from _compare_join(number, difference.name_record(change), was, now)


def _compare_join(
    number: int, where: str, was: PlanOperator, now: PlanOperator
) -> Iterator[Finding]:
    old, new = was.details.get("join type", ""), now.details.get("join type", "")
    if old != new:
        wrong = old == _INNER
        yield difference.make_finding(
            Code.JOIN_TYPE_CHANGED,
            Severity.DUPLICATES if wrong else Severity.UNDEFINED,
            f"Join {number} is of another type: "
            + (
                "an inner join does not note which rows have matched, and they come again as rows"
                " without a match."
                if wrong
                else "Spark makes no promise for the rows that wait for a match."
            ),
            where=where,
            was=old,
            now=new,
            remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
        )
    if was.details.get("condition") != now.details.get("condition"):
        yield difference.make_finding(
            Code.JOIN_CHANGED,
            Severity.UNDEFINED,
            f"Join {number} has another condition: rows in the state were kept, and removed, by"
            " the old one.",
            where=where,
            was=was.details.get("condition", ""),
            now=now.details.get("condition", ""),
            remedies=(TAKE_BACK,),
        )
    yield from _compare_columns(number, where, was, now)


def _compare_columns(
    number: int, where: str, was: PlanOperator, now: PlanOperator
) -> Iterator[Finding]:
    if difference.list_types(was.values) != difference.list_types(now.values):
        yield difference.make_finding(
            Code.STATE_SCHEMA_CHANGED,
            Severity.BLOCKS,
            f"Join {number} keeps other columns: Spark refuses the state.",
            where=where,
            was=difference.format_terms(was.values),
            now=difference.format_terms(now.values),
            remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
        )
    elif [one.text for one in was.values] != [one.text for one in now.values]:
        yield difference.make_finding(
            Code.JOIN_CHANGED,
            Severity.LOSES,
            f"Join {number} keeps other columns of the same types: rows in the state are taken"
            " for something else.",
            where=where,
            was=difference.format_terms(was.values),
            now=difference.format_terms(now.values),
            remedies=(TAKE_BACK,),
        )
