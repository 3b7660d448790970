"""Does a processor of `transformWithState` have the same variables?

Spark finds a variable by its name. A variable whose name is not in the state starts empty, even if
its data is there under a different name. Spark compares the kinds and types of the variables that
it finds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from holdfast.diagnose.changes import difference
from holdfast.diagnose.changes.difference import UNDO, UNDO_OR_START_OVER
from holdfast.model.checkpoint import StateColumn
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import Term
from holdfast.model.json import as_mapping, as_sequence
from holdfast.model.state import OperatorEvidence

_KIND = "transformWithState"
_TIMERS = "TimerState"
_MAP = "MapState"
_EXPIRY = "ttlExpirationMs"
_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_UNDO_OR_RENAME = f"{UNDO}, or give the variable a new name"


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare the variables of each processor with those in the checkpoint."""
    by_number = {operator.operator: operator for operator in change.evidence.operators}
    for number, now in enumerate(change.new.operators):
        if not now.kind.startswith(_KIND):
            continue
        old = _read_variables(by_number[number]) if number in by_number else None
        if not old or not now.values:
            yield NotAssessed(
                question=f"whether operator {number} has the same state variables as before",
                reason="its metadata does not name them"
                if now.values
                else "its processor did not report them",
            )
            continue
        where = f"state/{number}/_metadata"
        yield from _compare_names(number, where, old, now.values)
        new = {variable.name: variable for variable in now.values}
        for name in sorted(old.keys() & new.keys()):
            yield from _compare_variable(change, where, old[name], new[name])
        yield from _compare_lifetimes(change, number, now.values)


def _read_variables(operator: OperatorEvidence) -> Mapping[str, Term]:
    """Return the variables in the checkpoint; a type is empty if no schema has it."""
    families = {family.name: family for stores in operator.schema.values() for family in stores}
    properties = as_mapping(operator.properties)
    variables: dict[str, Term] = {}
    for variable in map(as_mapping, as_sequence(properties.get("stateVariables"))):
        name = str(variable.get("stateName", ""))
        kind = str(variable.get("stateVariableType", ""))
        if not name or name.startswith("$") or kind == _TIMERS:
            continue
        type_ = ""
        if name in families:
            family = families[name]
            type_ = _format_struct(family.value)
            if kind == _MAP:
                type_ = f"map<{_find_type(family.key, 'userKey')},{type_}>"
        text = f"{kind} with a time to live" if variable.get("ttlEnabled") else kind
        variables[name] = Term(name=name, type=type_, text=text)
    return variables


def _format_struct(columns: Sequence[StateColumn]) -> str:
    """Return the type of a value; with a time to live, the value is in a struct with the time."""
    if any(column.name == _EXPIRY for column in columns):
        return _find_type(columns, "value")
    fields = (
        f"{column.name}:{column.type}{'' if column.nullable else ' not null'}" for column in columns
    )
    return f"struct<{','.join(fields)}>"


def _find_type(columns: Sequence[StateColumn], name: str) -> str:
    return next((column.type for column in columns if column.name == name), "")


def _compare_names(
    number: int, where: str, old: Mapping[str, Term], now: Sequence[Term]
) -> Iterator[Finding]:
    names = {variable.name for variable in now}
    removed, added = old.keys() - names, names - old.keys()
    if not removed and not added:
        return
    if removed and added:
        severity = Severity.LOSES
        text = (
            "will lose state: its variables have different names. They start empty, and Spark does"
            " not read the state under the old names."
        )
    elif added:
        severity = Severity.UNDEFINED
        text = "has a new state variable, which starts empty even for keys that already had rows."
    else:
        severity = Severity.NOTE
        text = "no longer has a state variable. Its data stays in the store, and nothing reads it."
    yield difference.make_finding(
        Code.STATE_VARIABLES_CHANGED,
        severity,
        f"Operator {number} {text}",
        where=where,
        was=", ".join(sorted(old)),
        now=", ".join(sorted(variable.name for variable in now)),
        remedies=() if severity is Severity.NOTE else (UNDO_OR_START_OVER,),
    )


def _compare_variable(change: QueryChange, where: str, was: Term, now: Term) -> Iterator[Finding]:
    kind, _, _ = now.text.partition(" ")
    old_kind, _, limited = was.text.partition(" ")
    if kind != old_kind or bool(limited) != (now.text != kind):
        yield difference.make_finding(
            Code.STATE_SCHEMA_CHANGED,
            Severity.BLOCKS,
            f"Spark will refuse the state: variable `{now.name}` has a different kind, or gained or"
            " lost its time to live.",
            where=where,
            was=was.text,
            now=now.text,
            remedies=(_UNDO_OR_RENAME,),
        )
        return
    if not was.type:
        return
    avro = change.evidence.settings.get(_ENCODING) == "avro"
    what = f"variable `{now.name}`"
    for finding in difference.compare_types(what, where, was.type, now.type, _UNDO_OR_RENAME):
        if avro and finding.code is Code.STATE_SCHEMA_CHANGED:
            yield replace(
                finding,
                severity=Severity.UNDEFINED,
                text=f"Spark may refuse the state: the type of {what} changed. With Avro, fields"
                " may be added, removed and widened; Spark refuses any other change.",
            )
        else:
            yield finding


def _compare_lifetimes(change: QueryChange, number: int, now: Sequence[Term]) -> Iterator[Finding]:
    """Compare times to live: the checkpoint shows which variables have one, a record how long."""
    if change.old is None or number >= len(change.old.operators):
        return
    was = {variable.name: variable.text for variable in change.old.operators[number].values}
    for variable in now:
        kind, _, new = variable.text.partition(" ")
        old_kind, _, old = was.get(variable.name, variable.text).partition(" ")
        if old and new and old != new and kind == old_kind:
            yield difference.make_finding(
                Code.TIMEOUT_CHANGED,
                Severity.UNDEFINED,
                f"The time to live of variable `{variable.name}` changed: existing entries keep the"
                " old one.",
                where=difference.name_record(change),
                was=f"{old} ms",
                now=f"{new} ms",
                remedies=(UNDO, "accept the change, if existing entries may expire as before"),
            )
