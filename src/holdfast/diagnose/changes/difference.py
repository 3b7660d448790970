"""How a change is put into words: one finding, with what was and what is to be."""

import re
from collections.abc import Iterator, Sequence

from holdfast.model import advice
from holdfast.model.fact import Known
from holdfast.model.finding import Clue, Code, Finding, QueryChange, Severity
from holdfast.model.fingerprint import Term

NEW_CHECKPOINT = advice.NEW_CHECKPOINT
TAKE_BACK = "take the change back"
_NONE = "none"
_NEVER_NULL = " not null"
_PLACES = re.compile(r"[<>,]")


def make_finding(  # noqa: PLR0913  one parameter a member of the finding
    code: Code,
    severity: Severity,
    text: str,
    *,
    where: str,
    was: str,
    now: str,
    remedies: Sequence[str] = (),
) -> Finding:
    """A finding about one change."""
    return Finding(
        code=code,
        severity=severity,
        text=text,
        clues=(Clue(file=where, expected=was or _NONE, found=now or _NONE),),
        remedies=tuple(remedies),
    )


def compare_types(what: str, where: str, was: str, now: str, cure: str) -> Iterator[Finding]:
    """What Spark says to another type of some state: it compares fields by their place.

    A field that was never null may not be null now; the other way round Spark takes it.
    """
    other = drop_names(_drop_nullability(was)) != drop_names(_drop_nullability(now))
    if other or _became_nullable(was, now):
        text = (
            f"The type of {what} is another one: Spark refuses it."
            if other
            else f"Fields of {what} may be null, and could not be: Spark refuses it."
        )
        yield make_finding(
            Code.STATE_SCHEMA_CHANGED, Severity.BLOCKS, text, where=where, was=was, now=now,
            remedies=(cure,),
        )  # fmt: skip
    elif _drop_nullability(was) != _drop_nullability(now):
        text = (
            f"Fields of {what} have other names; they are read by their place, and Spark does not"
            " notice."
        )
        yield make_finding(
            Code.STATE_FIELDS_RENAMED, Severity.UNDEFINED, text, where=where, was=was, now=now,
            remedies=(TAKE_BACK,),
        )  # fmt: skip


def _drop_nullability(type_: str) -> str:
    return type_.replace(_NEVER_NULL, "")


def _became_nullable(was: str, now: str) -> bool:
    """Whether a field of a type was never null and is not so any more, by its place."""
    old, new = (_PLACES.split(drop_names(one)) for one in (was, now))
    mark = _NEVER_NULL.replace(" ", "")
    return any(
        before.endswith(mark) and not after.endswith(mark)
        for before, after in zip(old, new, strict=True)
    )


def name_record(change: QueryChange) -> str:
    """The file that tells the old query."""
    plan = change.evidence.plan
    return plan.read_from[0] if isinstance(plan, Known) else "the run record"


def format_terms(terms: Sequence[Term]) -> str:
    """Terms for people: what each is made of, and its type where that is known."""
    return ", ".join(f"{one.text or one.name} {one.type}".strip() for one in terms)


def list_types(terms: Sequence[Term]) -> list[str]:
    """The types of terms, without the names inside of them: Spark ignores those, too."""
    return [drop_names(one.type) for one in terms]


def drop_names(type_: str) -> str:
    """A type without the names of its fields: `struct<bigint,string>`."""
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
