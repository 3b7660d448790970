"""Do stream-stream joins keep and match the same rows?"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference, operators
from holdfast.diagnose.changes.difference import UNDO, UNDO_OR_START_OVER
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import NOT_RECORDED, PlanOperator

_JOIN = "symmetricHashJoin"
_INNER = "Inner"


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare the type, the condition and the kept columns of each join."""
    if change.old is None:
        if any(operator.kind == _JOIN for operator in change.new.operators):
            yield NotAssessed(
                question="whether the type, condition and columns of the join are unchanged",
                reason=NOT_RECORDED.reason,
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
        duplicates = old == _INNER
        yield difference.make_finding(
            Code.JOIN_TYPE_CHANGED,
            Severity.DUPLICATES if duplicates else Severity.UNDEFINED,
            f"Join {number} will write matched rows again, as rows without a match: its type"
            " changed, and an inner join does not record which rows have matched."
            if duplicates
            else f"The type of join {number} changed: Spark guarantees nothing for the rows that"
            " wait for a match.",
            where=where,
            was=old,
            now=new,
            remedies=(UNDO_OR_START_OVER,),
        )
    if was.details.get("condition") != now.details.get("condition"):
        yield difference.make_finding(
            Code.JOIN_CHANGED,
            Severity.UNDEFINED,
            f"The condition of join {number} changed: the old condition decided which rows its"
            " state kept and removed.",
            where=where,
            was=was.details.get("condition", ""),
            now=now.details.get("condition", ""),
            remedies=(UNDO,),
        )
    yield from _compare_columns(number, where, was, now)


def _compare_columns(
    number: int, where: str, was: PlanOperator, now: PlanOperator
) -> Iterator[Finding]:
    if difference.list_types(was.values) != difference.list_types(now.values):
        yield difference.make_finding(
            Code.STATE_SCHEMA_CHANGED,
            Severity.BLOCKS,
            f"Spark will refuse the state: join {number} keeps different columns.",
            where=where,
            was=difference.format_terms(was.values),
            now=difference.format_terms(now.values),
            remedies=(UNDO_OR_START_OVER,),
        )
    elif [value.text for value in was.values] != [value.text for value in now.values]:
        yield difference.make_finding(
            Code.JOIN_CHANGED,
            Severity.LOSES,
            f"Join {number} will misread the rows in its state: it keeps different columns of the"
            " same types.",
            where=where,
            was=difference.format_terms(was.values),
            now=difference.format_terms(now.values),
            remedies=(UNDO,),
        )
