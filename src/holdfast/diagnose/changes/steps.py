"""Do the same rows reach the state, and the sink?

A filter may change at any time in a query without state. Before a stateful operator, a changed
filter makes the state mix rows of the old and the new query.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference, operators
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import NOT_RECORDED, Term

_JOIN = "symmetricHashJoin"
_WITH_A_TABLE = "join "
# Spark moves filters from after these operators to before them.
_PASSED = frozenset({"stateStoreSave", "sessionWindowStateStoreSaveExec", _JOIN})


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare the steps before each operator, after the last, and the columns of the result."""
    old, new = change.old, change.new
    every = [*new.steps, *(step for operator in new.operators for step in operator.steps)]
    if any(step.startswith(_WITH_A_TABLE) for step in every):
        yield NotAssessed(
            question="whether a table that the stream is joined with has the same rows as before",
            reason="no checkpoint and no record says what was in it",
        )
    if old is None:
        yield NotAssessed(
            question="whether filters and projections are unchanged",
            reason=NOT_RECORDED.reason,
        )
        return
    for number, was, now in operators.pair_unchanged(change):
        removed, added = _find_differences(was.steps, now.steps)
        if removed or added:
            yield difference.make_finding(
                Code.INPUT_CHANGED,
                Severity.UNDEFINED,
                f"The state of operator {number} will mix rows of the old and the new query: the"
                " steps before it changed.",
                where=difference.name_record(change),
                was="; ".join(removed),
                now="; ".join(added),
                remedies=(
                    difference.UNDO,
                    "accept the change, if the state may mix rows of both queries",
                ),
            )
    removed, added = _find_differences(
        [*old.steps, *map(_format_term, old.columns)], [*new.steps, *map(_format_term, new.columns)]
    )
    pushed = _find_pushed_down(change, [*removed, *added])
    if pushed:
        yield difference.make_finding(
            Code.INPUT_CHANGED,
            Severity.UNDEFINED,
            "The state will mix rows of the old and the new query: a filter after the stateful"
            " operator changed, and Spark applies this filter before the operator.",
            where=difference.name_record(change),
            was="; ".join(step for step in removed if step in pushed),
            now="; ".join(step for step in added if step in pushed),
            remedies=(difference.UNDO,),
        )
    removed, added = ([step for step in side if step not in pushed] for side in (removed, added))
    if removed or added or old.columns != new.columns:
        yield difference.make_finding(
            Code.RESULT_CHANGED,
            Severity.NOTE,
            "From this start on, the sink gets different rows or columns, and must accept them.",
            where=difference.name_record(change),
            was="; ".join(removed) or ", ".join(column.name for column in old.columns),
            now="; ".join(added) or ", ".join(column.name for column in new.columns),
        )


def _find_pushed_down(change: QueryChange, steps: Sequence[str]) -> list[str]:
    """Return filters after an aggregate that use only its keys, and all filters after a join."""
    top = change.new.operators[0] if change.new.operators else None
    if top is None or top.kind not in _PASSED:
        return []
    computed = [] if top.kind == _JOIN else [value.text for value in top.values]
    filters = [step for step in steps if step.startswith("filter ")]
    return [step for step in filters if not any(text in step for text in computed)]


def _find_differences(was: Sequence[str], now: Sequence[str]) -> tuple[list[str], list[str]]:
    old, new = Counter(was), Counter(now)
    return list((old - new).elements()), list((new - old).elements())


def _format_term(term: Term) -> str:
    expression = "" if term.text == term.name else f" = {term.text}"
    return f"{term.name} {term.type}{expression}"
