"""The state schema files of a checkpoint -> terms to compare with the operators of a query."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.model.checkpoint import StateColumn
from holdfast.model.fact import Known
from holdfast.model.finding import QueryChange
from holdfast.model.fingerprint import PlanOperator, Term

# The key columns of these have the names of the query; those of joins and sessions do not.
WITH_NAMES = frozenset({"stateStoreSave", "dedupe", "dedupeWithinWatermark"})
_DEFAULT = "default"
_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSchema:
    """Key and value of the state of an operator that has one store with one column family."""

    file: str
    key: tuple[Term, ...]
    value: tuple[Term, ...]


def pair_operators(change: QueryChange) -> Iterator[tuple[int, OperatorSchema, PlanOperator]]:
    """Yield operators of the same kind and number in the checkpoint and in the new query."""
    for operator in change.evidence.operators:
        number = operator.operator
        name = operator.name.value if isinstance(operator.name, Known) else ""
        families = operator.schema.get(_DEFAULT) or ()
        if number >= len(change.new.operators) or len(families) != 1:
            continue
        new = change.new.operators[number]
        if new.kind == name:
            key, value = _to_terms(families[0].key), _to_terms(families[0].value)
            if name == "stateStoreSave" and change.evidence.settings.get(_FORMAT) == "1":
                value = value[len(key) :]  # format 1 repeats the key in the value
            file = f"state/{number}/0/_metadata/schema"
            yield number, OperatorSchema(file=file, key=key, value=value), new


def _to_terms(columns: Sequence[StateColumn]) -> tuple[Term, ...]:
    return tuple(Term(name=column.name, type=column.type, text="") for column in columns)
