"""Are the Python functions the same?

Only the code of the function itself is compared, not the code that it calls, and not libraries.
"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Compare every function that is in both plans."""
    new = change.new.functions
    if new:
        names = ", ".join(f"`{name}`" for name in sorted(new))
        yield NotAssessed(
            question=f"whether the code called by {names} is unchanged",
            reason="only the code of the function itself is compared",
        )
    if change.old is None:
        return
    for name, now in sorted(new.items()):
        was = change.old.functions.get(name, "")
        if not was or not now or was.split(" ")[0] != now.split(" ")[0] or was == now:
            continue
        stateful = bool(change.new.operators)
        yield difference.make_finding(
            Code.FUNCTION_CHANGED,
            Severity.UNDEFINED if stateful else Severity.NOTE,
            f"The code of `{name}` changed"
            + (", but the old code made the state that the query loads." if stateful else "."),
            where=difference.name_record(change),
            was=was,
            now=now,
            remedies=("accept the change, if the state may mix results of both versions",)
            if stateful
            else (),
        )
