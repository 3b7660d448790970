"""What the state schema files of a checkpoint say of its operators, as terms to compare."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.model.checkpoint import StateColumn
from holdfast.model.fact import Known
from holdfast.model.finding import QueryChange
from holdfast.model.fingerprint import PlanOperator, Term

# Their key columns have the names of the query; a join's and a session's do not.
WITH_NAMES = frozenset({"stateStoreSave", "dedupe", "dedupeWithinWatermark"})
_DEFAULT = "default"
_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorSchema:
    """Key and value of the state of an operator that has one store of one column family."""

    file: str
    key: tuple[Term, ...]
    value: tuple[Term, ...]


def pair_operators(change: QueryChange) -> Iterator[tuple[int, OperatorSchema, PlanOperator]]:
    """The operators of the same kind in the checkpoint and in the query to come, by number."""
    for seen in change.evidence.operators:
        name = seen.name.value if isinstance(seen.name, Known) else ""
        families = seen.schema.get(_DEFAULT) or ()
        if seen.operator >= len(change.new.operators) or len(families) != 1:
            continue
        new = change.new.operators[seen.operator]
        if new.kind == name:
            key, value = _to_terms(families[0].key), _to_terms(families[0].value)
            if name == "stateStoreSave" and change.evidence.settings.get(_FORMAT) == "1":
                value = value[len(key) :]  # which keeps the key a second time
            file = f"state/{seen.operator}/0/_metadata/schema"
            yield seen.operator, OperatorSchema(file=file, key=key, value=value), new


def _to_terms(columns: Sequence[StateColumn]) -> tuple[Term, ...]:
    return tuple(Term(name=one.name, type=one.type, text="") for one in columns)
