"""Does the state have the same keys?

Spark compares the types of the keys, in order. It compares neither their names nor the columns that
they are computed from.
"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference, operators, schemas
from holdfast.diagnose.changes.difference import UNDO_OR_START_OVER
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import NOT_RECORDED, PlanOperator

_STRUCT = "create_named_struct("


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare the keys of each operator."""
    if change.old is None:
        yield from _compare_schemas(change)
        return
    for number, was, now in operators.pair_unchanged(change):
        if difference.list_types(was.keys) != difference.list_types(now.keys):
            yield _make_type_finding(number, difference.name_record(change), was, now)
        elif [_drop_names(key.text) for key in was.keys] != [
            _drop_names(key.text) for key in now.keys
        ]:
            yield _make_key_finding(number, difference.name_record(change), was, now)


def _drop_names(text: str) -> str:
    """Return a struct key without the names of its fields, which the state does not contain."""
    if not text.startswith(_STRUCT) or not text.endswith(")"):
        return text
    parts, depth = [""], 0
    for mark in text[len(_STRUCT) : -1]:
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if mark == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += mark
    return f"struct({','.join(parts[1::2])})"


def _make_type_finding(number: int, where: str, was: PlanOperator, now: PlanOperator) -> Finding:
    return difference.make_finding(
        Code.STATE_SCHEMA_CHANGED,
        Severity.BLOCKS,
        f"Spark will refuse the state: the keys of operator {number} have different types.",
        where=where,
        was=difference.format_terms(was.keys),
        now=difference.format_terms(now.keys),
        remedies=(UNDO_OR_START_OVER,),
    )


def _make_key_finding(number: int, where: str, was: PlanOperator, now: PlanOperator) -> Finding:
    return difference.make_finding(
        Code.KEYS_CHANGED,
        Severity.LOSES,
        f"Operator {number} will misread its state: its keys changed. The new keys have the same"
        " types, so Spark does not notice.",
        where=where,
        was=difference.format_terms(was.keys),
        now=difference.format_terms(now.keys),
        remedies=(UNDO_OR_START_OVER,),
    )


def _compare_schemas(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Without a record of the old query, compare key names in the state schema.

    Spark itself ignores these names.
    """
    for number, schema, now in schemas.pair_operators(change):
        if not schema.key or now.kind not in schemas.WITH_NAMES:
            continue
        old, new = ([key.name for key in keys] for keys in (schema.key, now.keys))
        if difference.list_types(schema.key) != difference.list_types(now.keys):
            was = PlanOperator(
                kind=now.kind, keys=schema.key, values=(), stored=(), details={}, steps=()
            )
            yield _make_type_finding(number, schema.file, was, now)
        elif old != new:
            yield difference.make_finding(
                Code.KEYS_CHANGED,
                Severity.LOSES if set(old) == set(new) else Severity.UNDEFINED,
                f"Operator {number} will misread its state, unless its keys were only renamed: the"
                " names of the keys changed.",
                where=schema.file,
                was=", ".join(old),
                now=", ".join(new),
                remedies=(UNDO_OR_START_OVER,),
            )
    if change.new.operators:
        yield NotAssessed(
            question="whether the keys of the state come from the same columns",
            reason=f"{NOT_RECORDED.reason}; only the names of the keys were compared",
        )
