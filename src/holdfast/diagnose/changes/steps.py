"""Stage 3: do the same rows reach the state, and the sink?

A filter may change at any time where nothing remembers rows. Before a stateful operator it decides
what is in the state, which then is of two minds.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference, operators
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import Term

_JOIN = "symmetricHashJoin"
_WITH_A_TABLE = "join "
# Spark moves filters from above to below them.
_PASSED = frozenset({"stateStoreSave", "sessionWindowStateStoreSaveExec", _JOIN})


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Steps before each operator, after the last, and the columns of the result."""
    old, new = change.old, change.new
    every = [*new.steps, *(step for operator in new.operators for step in operator.steps)]
    if any(step.startswith(_WITH_A_TABLE) for step in every):
        yield NotAssessed(
            question="whether a table that the stream is joined with holds what it held",
            reason="no checkpoint and no record tells what was in it",
        )
    if old is None:
        yield NotAssessed(
            question="whether filters and projections are the old ones",
            reason="no run record holds the plan of the query",
        )
        return
    for number, was, now in operators.pair_unchanged(change):
        gone, come = _find_differences(was.steps, now.steps)
        if gone or come:
            yield difference.make_finding(
                Code.INPUT_CHANGED,
                Severity.UNDEFINED,
                f"Other rows reach operator {number}: its state was made of the old ones, and goes"
                " on with the new.",
                where=difference.name_record(change),
                was="; ".join(gone),
                now="; ".join(come),
                remedies=(
                    difference.TAKE_BACK,
                    "accept it, if state of both kinds is what you want",
                ),
            )
    gone, come = _find_differences(
        [*old.steps, *map(_format_term, old.columns)], [*new.steps, *map(_format_term, new.columns)]
    )
    below = _find_pushed_down(change, [*gone, *come])
    if below:
        yield difference.make_finding(
            Code.INPUT_CHANGED,
            Severity.UNDEFINED,
            "A filter after the state is another one, which Spark applies before it: the state was"
            " made by the old one.",
            where=difference.name_record(change),
            was="; ".join(one for one in gone if one in below),
            now="; ".join(one for one in come if one in below),
            remedies=(difference.TAKE_BACK,),
        )
    gone, come = ([one for one in side if one not in below] for side in (gone, come))
    if gone or come or old.columns != new.columns:
        yield difference.make_finding(
            Code.RESULT_CHANGED,
            Severity.NOTE,
            "From the start on, the sink gets other rows or columns, which it has to accept.",
            where=difference.name_record(change),
            was="; ".join(gone) or ", ".join(one.name for one in old.columns),
            now="; ".join(come) or ", ".join(one.name for one in new.columns),
        )


def _find_pushed_down(change: QueryChange, steps: Sequence[str]) -> list[str]:
    """Filters after an aggregate that name only its keys, and any after a join."""
    top = change.new.operators[0] if change.new.operators else None
    if top is None or top.kind not in _PASSED:
        return []
    kept = [] if top.kind == _JOIN else [value.text for value in top.values]
    filters = [one for one in steps if one.startswith("filter ")]
    return [one for one in filters if not any(text in one for text in kept)]


def _find_differences(was: Sequence[str], now: Sequence[str]) -> tuple[list[str], list[str]]:
    old, new = Counter(was), Counter(now)
    return list((old - new).elements()), list((new - old).elements())


def _format_term(one: Term) -> str:
    made = "" if one.text == one.name else f" = {one.text}"
    return f"{one.name} {one.type}{made}"
