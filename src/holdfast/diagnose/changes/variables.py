"""Stage 3: does a processor of `transformWithState` keep the same variables?

Spark finds them by name. One that is not there starts empty, whatever lies under another name. It
compares kinds and types of those that are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from holdfast.diagnose.changes import difference
from holdfast.diagnose.changes.difference import NEW_CHECKPOINT, TAKE_BACK
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


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """The variables of each processor beside those of the checkpoint."""
    for number, now in enumerate(change.new.operators):
        if not now.kind.startswith(_KIND):
            continue
        seen = next((one for one in change.evidence.operators if one.operator == number), None)
        old = _read_variables(seen) if seen is not None else None
        if not old or not now.values:
            yield NotAssessed(
                question=f"whether the state variables of operator {number} are the old ones",
                reason="its metadata does not name them"
                if now.values
                else "its processor could not be asked for them",
            )
            continue
        where = f"state/{number}/_metadata"
        yield from _compare_names(number, where, old, now.values)
        new = {one.name: one for one in now.values}
        for name in sorted(old.keys() & new.keys()):
            yield from _compare_variable(change, where, old[name], new[name])
        yield from _compare_lifetimes(change, number, now.values)


def _read_variables(seen: OperatorEvidence) -> Mapping[str, Term]:
    """The variables as the checkpoint tells them; the type is empty where no schema does."""
    families = {one.name: one for stores in seen.schema.values() for one in stores}
    found: dict[str, Term] = {}
    for one in map(as_mapping, as_sequence(as_mapping(seen.properties).get("stateVariables"))):
        name, kind = str(one.get("stateName", "")), str(one.get("stateVariableType", ""))
        if not name or name.startswith("$") or kind == _TIMERS:
            continue
        type_ = ""
        if name in families:
            family = families[name]
            type_ = _format_struct(family.value)
            if kind == _MAP:
                type_ = f"map<{_find_type(family.key, 'userKey')},{type_}>"
        text = f"{kind} with a time to live" if one.get("ttlEnabled") else kind
        found[name] = Term(name=name, type=type_, text=text)
    return found


def _format_struct(columns: Sequence[StateColumn]) -> str:
    """The type of a value; with a time to live it lies in a struct beside the time."""
    if any(one.name == _EXPIRY for one in columns):
        return _find_type(columns, "value")
    shown = (f"{one.name}:{one.type}{'' if one.nullable else ' not null'}" for one in columns)
    return f"struct<{','.join(shown)}>"


def _find_type(columns: Sequence[StateColumn], name: str) -> str:
    return next((one.type for one in columns if one.name == name), "")


def _compare_names(
    number: int, where: str, old: Mapping[str, Term], now: Sequence[Term]
) -> Iterator[Finding]:
    gone = [one for name, one in old.items() if name not in {new.name for new in now}]
    come = [one for one in now if one.name not in old]
    if not gone and not come:
        return
    if gone and come:
        severity = Severity.LOSES
        text = (
            "has variables of other names: they start empty, and what lies under the old names is"
            " not read."
        )
    elif come:
        severity = Severity.UNDEFINED
        text = "has a new variable: it is empty, also for keys that had rows before."
    else:
        severity = Severity.NOTE
        text = "no longer has a variable: what it held stays in the store, and nobody reads it."
    yield difference.make_finding(
        Code.STATE_VARIABLES_CHANGED,
        severity,
        f"Operator {number} {text}",
        where=where,
        was=", ".join(sorted(old)),
        now=", ".join(sorted(one.name for one in now)),
        remedies=() if severity is Severity.NOTE else (f"{TAKE_BACK}, or {NEW_CHECKPOINT}",),
    )


def _compare_variable(change: QueryChange, where: str, was: Term, now: Term) -> Iterator[Finding]:
    kind, _, _ = now.text.partition(" ")
    old_kind, _, limited = was.text.partition(" ")
    if kind != old_kind or bool(limited) != (now.text != kind):
        yield difference.make_finding(
            Code.STATE_SCHEMA_CHANGED,
            Severity.BLOCKS,
            f"Variable `{now.name}` is of another kind, or has a time to live or none: Spark"
            " refuses the state.",
            where=where,
            was=was.text,
            now=now.text,
            remedies=(f"{TAKE_BACK}, or give the variable another name",),
        )
        return
    if not was.type:
        return
    cure = f"{TAKE_BACK}, or give the variable another name"
    for one in difference.compare_types(f"variable `{now.name}`", where, was.type, now.type, cure):
        avro = change.evidence.settings.get(_ENCODING) == "avro"
        yield (
            one
            if not avro or one.code is not Code.STATE_SCHEMA_CHANGED
            else replace(
                one,
                severity=Severity.UNDEFINED,
                text=f"The type of variable `{now.name}` is another one: Avro lets fields come, go"
                " and grow wider, and Spark refuses the rest.",
            )
        )


def _compare_lifetimes(change: QueryChange, number: int, now: Sequence[Term]) -> Iterator[Finding]:
    """Times to live: a checkpoint tells whether there is one, and a run record how long it is."""
    if change.old is None or number >= len(change.old.operators):
        return
    was = {one.name: one.text for one in change.old.operators[number].values}
    for one in now:
        kind, _, new = one.text.partition(" ")
        old_kind, _, old = was.get(one.name, one.text).partition(" ")
        if old and new and old != new and kind == old_kind:
            yield difference.make_finding(
                Code.TIMEOUT_CHANGED,
                Severity.UNDEFINED,
                f"Variable `{one.name}` lives for another time: what was written before keeps the"
                " old one.",
                where=difference.name_record(change),
                was=f"{old} ms",
                now=f"{new} ms",
                remedies=(TAKE_BACK, "accept it, if what is there may go at the old time"),
            )
