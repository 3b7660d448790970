"""Stage 3: do the same rows reach the state, and the sink?

A filter may change at any time where nothing remembers rows. Before a stateful operator it decides
what is in the state, which then is of two minds.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference, operators
from holdfast.model.finding import Change, Code, Finding, NotAssessed, Severity
from holdfast.model.fingerprint import Term


def asked(change: Change) -> Iterator[Finding | NotAssessed]:
    """Steps before each operator, after the last, and the columns of the result."""
    old, new = change.old, change.new
    if old is None:
        yield NotAssessed(
            question="whether filters and projections are the old ones",
            reason="no run record holds the plan of the query",
        )
        return
    for number, was, now in operators.same(change):
        gone, come = _differ(was.steps, now.steps)
        if gone or come:
            yield difference.found(
                Code.INPUT_CHANGED,
                Severity.UNDEFINED,
                f"Other rows reach operator {number}: its state was made of the old ones, and goes"
                " on with the new.",
                where=difference.record(change),
                was="; ".join(gone),
                now="; ".join(come),
                remedies=(
                    difference.TAKE_BACK,
                    "accept it, if state of both kinds is what you want",
                ),
            )
    gone, come = _differ(
        [*old.steps, *map(_shown, old.columns)], [*new.steps, *map(_shown, new.columns)]
    )
    if gone or come or old.columns != new.columns:
        yield difference.found(
            Code.RESULT_CHANGED,
            Severity.NOTE,
            "From the start on, the sink gets other rows or columns, which it has to accept.",
            where=difference.record(change),
            was="; ".join(gone) or ", ".join(one.name for one in old.columns),
            now="; ".join(come) or ", ".join(one.name for one in new.columns),
        )


def _differ(was: Sequence[str], now: Sequence[str]) -> tuple[list[str], list[str]]:
    old, new = Counter(was), Counter(now)
    return list((old - new).elements()), list((new - old).elements())


def _shown(one: Term) -> str:
    made = "" if one.text == one.name else f" = {one.text}"
    return f"{one.name} {one.type}{made}"
