"""Are the stateful operators the same, in the same order?

Spark numbers operators from the sink to the sources, keeps the state of each under its number, and
compares only names. So it does not notice if two operators of the same kind swap places.
"""

from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference
from holdfast.diagnose.changes.difference import UNDO, UNDO_OR_START_OVER
from holdfast.model.fact import Known
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import PlanOperator

_SAME = {"StatefulStreamlineAggregate": "stateStoreSave"}


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare number, kind and order."""
    was, where, named = find_previous(change)
    now = [operator.kind for operator in change.new.operators]
    if was is None:
        if now:
            yield NotAssessed(
                question="whether the stateful operators are those that wrote the state",
                reason="neither the checkpoint nor a run record names them",
            )
        return
    if was != now:
        yield _make_change_finding(was, now, where, named=named)
    elif change.old is not None and change.old.operators:
        yield from _find_swapped(change, change.old.operators)


def find_previous(change: QueryChange) -> tuple[list[str] | None, str, bool]:
    """Return the names of the old operators, the file with them, and whether Spark compares it."""
    facts = [
        operator.name
        for operator in sorted(change.evidence.operators, key=lambda operator: operator.operator)
    ]
    named = [fact.value if isinstance(fact, Known) and not fact.inferred else "" for fact in facts]
    # Before the first commit, some operators may have state and others not yet.
    whole = change.evidence.batches.last_committed is not None
    if all(named) and whole:
        where = "state/0/_metadata" if named else "state"
        return [_SAME.get(name, name) for name in named], where, True
    if change.old is not None:
        kinds = [operator.kind for operator in change.old.operators]
        return kinds, difference.name_record(change), False
    known = [fact for fact in facts if isinstance(fact, Known)]
    if len(known) == len(facts) and whole:
        return [fact.value for fact in known], known[0].read_from[0], False
    return None, "", False


def _make_change_finding(
    was: Sequence[str], now: Sequence[str], where: str, *, named: bool
) -> Finding:
    if not now and not named:
        return difference.make_finding(
            Code.OPERATORS_CHANGED,
            Severity.NOTE,
            "The state of the removed operator stays in the checkpoint, and nothing reads it. The"
            " checkpoint does not name its operators, so Spark does not notice.",
            where=where,
            was=", ".join(was),
            now="",
        )
    if not was:
        text = "The first batch will fail: there is no state to load for the new operator."
    elif not now:
        text = "The first batch will fail: the checkpoint has state of a removed operator."
    elif len(was) != len(now):
        text = (
            "Operators will load the state of other operators and fail: the number of stateful"
            " operators changed."
        )
    else:
        text = "An operator will load state of a different kind: a stateful operator was replaced."
    return difference.make_finding(
        Code.OPERATORS_CHANGED,
        Severity.BLOCKS if named else Severity.LOSES,
        f"{text} By then, Spark has written an offset entry."
        if named
        else f"{text} The checkpoint does not name its operators, so Spark does not notice.",
        where=where,
        was=", ".join(was),
        now=", ".join(now),
        remedies=(UNDO_OR_START_OVER,),
    )


def _find_swapped(change: QueryChange, old: Sequence[PlanOperator]) -> Iterator[Finding]:
    was, now = _list_keys(old), _list_keys(change.new.operators)
    if _is_exchanged(was, now):
        yield difference.make_finding(
            Code.OPERATORS_SWAPPED,
            Severity.LOSES,
            "Operators will load each other's state: stateful operators of the same kind swapped"
            " places, and Spark does not notice.",
            where=difference.name_record(change),
            was="; ".join(f"{kind} {keys}" for kind, keys in was),
            now="; ".join(f"{kind} {keys}" for kind, keys in now),
            remedies=(UNDO,),
        )


def _list_keys(operators: Sequence[PlanOperator]) -> list[tuple[str, str]]:
    return [(operator.kind, difference.format_terms(operator.keys)) for operator in operators]


def _is_exchanged(was: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> bool:
    return was != now and sorted(was) == sorted(now)


def pair_unchanged(change: QueryChange) -> Iterator[tuple[int, PlanOperator, PlanOperator]]:
    """Yield the operators that kept their number and kind, as they were and as they will be."""
    if change.old is None or _is_exchanged(
        _list_keys(change.old.operators), _list_keys(change.new.operators)
    ):
        return
    pairs = zip(change.old.operators, change.new.operators, strict=False)
    for number, (was, now) in enumerate(pairs):
        if was.kind == now.kind:
            yield number, was, now
