"""Stage 3: does the state hold the same aggregates?

An aggregate is kept as columns of the value, by its place: `avg` as a sum and a count. Spark
compares their types.
"""

from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference, operators, schemas
from holdfast.diagnose.changes.difference import NEW_CHECKPOINT, TAKE_BACK
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import Term

_AGGREGATES = frozenset({"stateStoreSave", "sessionWindowStateStoreSaveExec"})


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """The aggregates of each operator."""
    if change.old is None:
        yield from _compare_schemas(change)
        return
    for number, was, now in operators.pair_unchanged(change):
        if difference.list_types(was.stored) != difference.list_types(now.stored):
            yield _make_type_finding(number, difference.name_record(change), was.values, now.values)
        elif now.kind in _AGGREGATES:
            old, new = ([one.text for one in side.values] for side in (was, now))
            if old != new:
                yield _make_aggregate_finding(
                    number, difference.name_record(change), was.values, now.values
                )


def _make_type_finding(
    number: int, where: str, was: Sequence[Term], now: Sequence[Term]
) -> Finding:
    return difference.make_finding(
        Code.STATE_SCHEMA_CHANGED,
        Severity.BLOCKS,
        f"The aggregates of operator {number} are kept in columns of other types or number: Spark"
        " refuses the state.",
        where=where,
        was=difference.format_terms(was),
        now=difference.format_terms(now),
        remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
    )


def _make_aggregate_finding(
    number: int, where: str, was: Sequence[Term], now: Sequence[Term]
) -> Finding:
    return difference.make_finding(
        Code.AGGREGATES_CHANGED,
        Severity.LOSES,
        f"Operator {number} keeps other aggregates in columns of the same types: it goes on from"
        " numbers that meant something else, and Spark does not notice.",
        where=where,
        was=difference.format_terms(was),
        now=difference.format_terms(now),
        remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
    )


def _compare_schemas(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    for number, seen, now in schemas.pair_operators(change):
        if now.kind != "stateStoreSave" or not seen.value or not now.stored:
            continue
        if any("decimal" in one.type for one in (*seen.value, *now.stored)):
            continue  # Spark computes some of them as whole numbers
        if difference.list_types(seen.value) != difference.list_types(now.stored):
            yield _make_type_finding(number, seen.file, seen.value, now.stored)
        elif [one.name for one in seen.value] != [one.name for one in now.stored]:
            yield _make_aggregate_finding(number, seen.file, seen.value, now.stored)
    if any(one.kind in _AGGREGATES for one in change.new.operators):
        yield NotAssessed(
            question="whether the aggregates are of the same columns",
            reason="no run record holds the plan of the query; only how they are kept was compared",
        )
