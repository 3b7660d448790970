"""Stage 3: are the Python functions the same?

Only the code of the function itself is compared, not that of what it calls, nor of a library.
"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Every function that both plans name."""
    new = change.new.functions
    if new:
        yield NotAssessed(
            question=f"whether what {', '.join(f'`{one}`' for one in sorted(new))} calls is the"
            " same",
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
            f"The code of `{name}` is another one"
            + ("; the state was made by the old one." if stateful else "."),
            where=difference.name_record(change),
            was=was,
            now=now,
            remedies=("accept it, if state of both kinds is what you want",) if stateful else (),
        )
