"""Does the state contain the same aggregates?

The state keeps an aggregate as columns of its value, by position: `avg` as a sum and a count. Spark
compares the types of these columns.
"""

from collections.abc import Iterator, Sequence

from holdfast.diagnose.changes import difference, operators, schemas
from holdfast.diagnose.changes.difference import UNDO_OR_START_OVER
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import NOT_RECORDED, Term

_AGGREGATES = frozenset({"stateStoreSave", "sessionWindowStateStoreSaveExec"})


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare the aggregates of each operator."""
    if change.old is None:
        yield from _compare_schemas(change)
        return
    for number, was, now in operators.pair_unchanged(change):
        if difference.list_types(was.stored) != difference.list_types(now.stored):
            yield _make_type_finding(number, difference.name_record(change), was.values, now.values)
        elif now.kind in _AGGREGATES:
            old, new = ([value.text for value in operator.values] for operator in (was, now))
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
        f"Spark will refuse the state: the aggregates of operator {number} need columns of"
        " different types, or a different number of columns.",
        where=where,
        was=difference.format_terms(was),
        now=difference.format_terms(now),
        remedies=(UNDO_OR_START_OVER,),
    )


def _make_aggregate_finding(
    number: int, where: str, was: Sequence[Term], now: Sequence[Term]
) -> Finding:
    return difference.make_finding(
        Code.AGGREGATES_CHANGED,
        Severity.LOSES,
        f"Operator {number} will continue from values that mean something else: its aggregates"
        " changed. Their columns have the same types, so Spark does not notice.",
        where=where,
        was=difference.format_terms(was),
        now=difference.format_terms(now),
        remedies=(UNDO_OR_START_OVER,),
    )


def _compare_schemas(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Without a record of the old query, compare with the schema files of the state."""
    for number, schema, now in schemas.pair_operators(change):
        if now.kind != "stateStoreSave" or not schema.value or not now.stored:
            continue
        if any("decimal" in term.type for term in (*schema.value, *now.stored)):
            continue  # Spark stores some decimals as whole numbers
        if difference.list_types(schema.value) != difference.list_types(now.stored):
            yield _make_type_finding(number, schema.file, schema.value, now.stored)
        elif [term.name for term in schema.value] != [term.name for term in now.stored]:
            yield _make_aggregate_finding(number, schema.file, schema.value, now.stored)
    if any(operator.kind in _AGGREGATES for operator in change.new.operators):
        yield NotAssessed(
            question="whether the aggregates use the same columns",
            reason=f"{NOT_RECORDED.reason}; only the columns of the state were compared",
        )
