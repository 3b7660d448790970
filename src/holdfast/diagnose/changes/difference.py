"""How a change is put into words: one finding, with what was and what is to be."""

from collections.abc import Sequence

from holdfast.model.evidence import Known
from holdfast.model.finding import Change, Clue, Code, Finding, Severity
from holdfast.model.fingerprint import Term

NEW_CHECKPOINT = "start with a new checkpoint, which reads everything again"
TAKE_BACK = "take the change back"
_NONE = "none"


def found(  # noqa: PLR0913  one parameter a member of the finding
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


def record(change: Change) -> str:
    """The file that tells the old query."""
    plan = change.evidence.plan
    return plan.read_from[0] if isinstance(plan, Known) else "the run record"


def names(terms: Sequence[Term]) -> str:
    """Terms for people: what each is made of, and its type where that is known."""
    return ", ".join(f"{one.text or one.name} {one.type}".strip() for one in terms)


def types(terms: Sequence[Term]) -> list[str]:
    """The types of terms, without the names inside of them: Spark ignores those, too."""
    return [nameless(one.type) for one in terms]


def nameless(type_: str) -> str:
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
