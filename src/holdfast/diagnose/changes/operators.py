"""Stage 3: are the stateful operators the same, in the same order?

Spark numbers them from the sink to the sources, keeps the state of each by its number, and compares
names alone: two operators of one kind that change places are not noticed.
"""

from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference
from holdfast.diagnose.changes.difference import NEW_CHECKPOINT, TAKE_BACK
from holdfast.model.fact import Known
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import PlanOperator

_SAME = {"StatefulStreamlineAggregate": "stateStoreSave"}


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Number, kind and order."""
    was, where, named = find_previous(change)
    now = [one.kind for one in change.new.operators]
    if was is None:
        if now:
            yield NotAssessed(
                question="whether the stateful operators are the ones that wrote the state",
                reason="neither the checkpoint nor a run record names them",
            )
        return
    if was != now:
        yield _make_change_finding(was, now, where, named=named)
    elif change.old is not None and change.old.operators:
        yield from _find_swapped(change, change.old.operators)


def find_previous(change: QueryChange) -> tuple[list[str] | None, str, bool]:
    """Names of the operators whose state is there, what says so, and whether Spark can tell."""
    seen = sorted(change.evidence.operators, key=lambda one: one.operator)
    named = [
        one.name.value if isinstance(one.name, Known) and not one.name.inferred else ""
        for one in seen
    ]
    # Before a first commit there may be state of some operators, and not yet of others.
    whole = change.evidence.batches.last_committed is not None
    if all(named) and whole:
        where = "state/0/_metadata" if named else "state"
        return [_SAME.get(one, one) for one in named], where, True
    if change.old is not None:
        return [one.kind for one in change.old.operators], difference.name_record(change), False
    told = [one.name for one in seen if isinstance(one.name, Known)]
    if len(told) == len(seen) and whole:
        return [one.value for one in told], told[0].read_from[0], False
    return None, "", False


def _make_change_finding(
    was: Sequence[str], now: Sequence[str], where: str, *, named: bool
) -> Finding:
    if not now and not named:
        return difference.make_finding(
            Code.OPERATORS_CHANGED,
            Severity.NOTE,
            "The state of an operator that is gone stays where it is, and nothing reads it. The"
            " checkpoint does not name its operators, so that Spark does not notice.",
            where=where,
            was=", ".join(was),
            now="",
        )
    if not was:
        text = "There is no state to load for an operator that is new: the first batch fails."
    elif not now:
        text = "The state of an operator that is gone stops the first batch."
    elif len(was) != len(now):
        text = "Another number of stateful operators: each takes the state of another, and fails."
    else:
        text = "A stateful operator is of another kind than the one whose state is there."
    return difference.make_finding(
        Code.OPERATORS_CHANGED,
        Severity.BLOCKS if named else Severity.LOSES,
        f"{text} An offset entry is written by then."
        if named
        else f"{text} The checkpoint does not name its operators, so that Spark does not notice.",
        where=where,
        was=", ".join(was),
        now=", ".join(now),
        remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
    )


def _find_swapped(change: QueryChange, old: Sequence[PlanOperator]) -> Iterator[Finding]:
    was, now = _list_keys(old), _list_keys(change.new.operators)
    if _is_exchanged(was, now):
        yield difference.make_finding(
            Code.OPERATORS_SWAPPED,
            Severity.LOSES,
            "Stateful operators of one kind have changed places: each takes the other's state,"
            " and Spark does not notice.",
            where=difference.name_record(change),
            was="; ".join(f"{kind} {keys}" for kind, keys in was),
            now="; ".join(f"{kind} {keys}" for kind, keys in now),
            remedies=(TAKE_BACK,),
        )


def _list_keys(operators: Sequence[PlanOperator]) -> list[tuple[str, str]]:
    return [(one.kind, difference.format_terms(one.keys)) for one in operators]


def _is_exchanged(was: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> bool:
    return was != now and sorted(was) == sorted(now)


def pair_unchanged(change: QueryChange) -> Iterator[tuple[int, PlanOperator, PlanOperator]]:
    """The operators that are what they were, by number, as they were and as they are to be."""
    if change.old is None or _is_exchanged(
        _list_keys(change.old.operators), _list_keys(change.new.operators)
    ):
        return
    pairs = zip(change.old.operators, change.new.operators, strict=False)
    for number, (was, now) in enumerate(pairs):
        if was.kind == now.kind:
            yield number, was, now
