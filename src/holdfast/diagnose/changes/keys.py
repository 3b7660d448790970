"""Stage 3: is the state found by the same keys?

Spark compares the types of the keys, in their order, and neither names nor what they are made of.
"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference, operators, schemas
from holdfast.diagnose.changes.difference import NEW_CHECKPOINT, TAKE_BACK
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import PlanOperator

_STRUCT = "create_named_struct("


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """The keys of each operator."""
    if change.old is None:
        yield from _compare_schemas(change)
        return
    for number, was, now in operators.pair_unchanged(change):
        if difference.list_types(was.keys) != difference.list_types(now.keys):
            yield _make_type_finding(number, difference.name_record(change), was, now)
        elif [_drop_names(one.text) for one in was.keys] != [
            _drop_names(one.text) for one in now.keys
        ]:
            yield _make_key_finding(number, difference.name_record(change), was, now)


def _drop_names(text: str) -> str:
    """A key that is a struct, without the names of its fields: the state does not hold them."""
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
        f"The keys of operator {number} have other types: Spark refuses the state.",
        where=where,
        was=difference.format_terms(was.keys),
        now=difference.format_terms(now.keys),
        remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
    )


def _make_key_finding(number: int, where: str, was: PlanOperator, now: PlanOperator) -> Finding:
    return difference.make_finding(
        Code.KEYS_CHANGED,
        Severity.LOSES,
        f"Operator {number} has other keys of the same types: what is in the state is taken for"
        " something else, and Spark does not notice.",
        where=where,
        was=difference.format_terms(was.keys),
        now=difference.format_terms(now.keys),
        remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
    )


def _compare_schemas(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Without a record: the schema of the state has the names of the keys, which Spark ignores."""
    for number, seen, now in schemas.pair_operators(change):
        if not seen.key or now.kind not in schemas.WITH_NAMES:
            continue
        was = difference.list_types(seen.key)
        if was != difference.list_types(now.keys):
            shown = PlanOperator(
                kind=now.kind, keys=seen.key, values=(), stored=(), details={}, steps=()
            )
            yield _make_type_finding(number, seen.file, shown, now)
        elif [one.name for one in seen.key] != [one.name for one in now.keys]:
            yield difference.make_finding(
                Code.KEYS_CHANGED,
                Severity.LOSES
                if {one.name for one in seen.key} == {one.name for one in now.keys}
                else Severity.UNDEFINED,
                f"The keys of operator {number} have other names: unless they were only renamed,"
                " what is in the state is taken for something else.",
                where=seen.file,
                was=", ".join(one.name for one in seen.key),
                now=", ".join(one.name for one in now.keys),
                remedies=(f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
            )
    if change.new.operators:
        yield NotAssessed(
            question="whether the keys of the state are made of the same columns",
            reason="no run record holds the plan of the query; only their names were compared",
        )
