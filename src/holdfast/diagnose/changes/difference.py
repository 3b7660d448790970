"""A change -> a finding, with the old and the new value."""

import re
from collections.abc import Iterator, Sequence

from holdfast.model import advice
from holdfast.model.fact import Known
from holdfast.model.finding import Clue, Code, Finding, QueryChange, Severity
from holdfast.model.fingerprint import Term

UNDO = "undo the change"
UNDO_OR_START_OVER = f"{UNDO}, or {advice.NEW_CHECKPOINT}"
_NONE = "none"
_NEVER_NULL = " not null"
_PLACES = re.compile(r"[<>,]")


def make_finding(  # noqa: PLR0913  one parameter per member of the finding
    code: Code,
    severity: Severity,
    text: str,
    *,
    where: str,
    was: str,
    now: str,
    remedies: Sequence[str] = (),
) -> Finding:
    """Return a finding about one change."""
    return Finding(
        code=code,
        severity=severity,
        text=text,
        clues=(Clue(file=where, expected=was or _NONE, found=now or _NONE),),
        remedies=tuple(remedies),
    )


def compare_types(what: str, where: str, was: str, now: str, remedy: str) -> Iterator[Finding]:
    """Yield what Spark does with a changed type of state: it compares fields by position.

    Spark refuses a field that was never null and now may be null. It accepts the opposite.
    """
    changed = drop_names(_drop_nullability(was)) != drop_names(_drop_nullability(now))
    if changed or _became_nullable(was, now):
        text = (
            f"Spark will refuse the state: the type of {what} changed."
            if changed
            else f"Spark will refuse the state: fields of {what} may now be null, and were never"
            " null before."
        )
        yield make_finding(
            Code.STATE_SCHEMA_CHANGED, Severity.BLOCKS, text, where=where, was=was, now=now,
            remedies=(remedy,),
        )  # fmt: skip
    elif _drop_nullability(was) != _drop_nullability(now):
        text = (
            f"Fields of {what} have new names. Spark matches fields by position, and does not"
            " notice."
        )
        yield make_finding(
            Code.STATE_FIELDS_RENAMED, Severity.UNDEFINED, text, where=where, was=was, now=now,
            remedies=(UNDO,),
        )  # fmt: skip


def _drop_nullability(type_: str) -> str:
    return type_.replace(_NEVER_NULL, "")


def _became_nullable(was: str, now: str) -> bool:
    """Return whether a field, by position, was never null and now may be null."""
    old, new = (_PLACES.split(drop_names(type_)) for type_ in (was, now))
    mark = _NEVER_NULL.replace(" ", "")
    return any(
        before.endswith(mark) and not after.endswith(mark)
        for before, after in zip(old, new, strict=True)
    )


def name_record(change: QueryChange) -> str:
    """Return the file that records the old query."""
    plan = change.evidence.plan
    return plan.read_from[0] if isinstance(plan, Known) else "the run record"


def format_terms(terms: Sequence[Term]) -> str:
    """Write terms for people: the expression of each, and its type if it is known."""
    return ", ".join(f"{term.text or term.name} {term.type}".strip() for term in terms)


def list_types(terms: Sequence[Term]) -> list[str]:
    """Return the types of terms without field names, which Spark ignores too."""
    return [drop_names(term.type) for term in terms]


def drop_names(type_: str) -> str:
    """Return a type without the names of its fields: `struct<bigint,string>`."""
    parts: list[str] = []
    word = ""
    for mark in type_:
        if mark == ":":
            word = ""
        elif mark in "<>,()":
            parts += [word, mark]
            word = ""
        else:
            word += mark
    return "".join([*parts, word]).replace(" ", "")
