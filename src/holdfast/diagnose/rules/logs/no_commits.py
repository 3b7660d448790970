"""Stage 3: is the whole commit log missing?

Spark plans batch N only after batch N-1 is committed. So a log of several offset entries without
any commit is no crash: the commits were not copied, or were deleted.
"""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.restart import SinkAction


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Batches that must have been committed, and no commit."""
    batch, batches = seen.restart.batch, seen.evidence.batches
    if not batches.lacks_commits or isinstance(batch, Unknown):
        return
    if seen.restart.starting.asynchronous or seen.restart.starting.continuous:
        return
    named = any(one.unique_ids for op in seen.evidence.operators for one in op.stores)
    acts = {one.act for one in seen.restart.sinks}
    exact = bool(acts) and acts <= {SinkAction.WRITE, SinkAction.SKIP, SinkAction.NOTHING}
    effect = (
        f"Spark runs batch {batch} again and fails: only commits say which state files count"
        if named
        else f"Spark runs batch {batch} again, even if it was done"
    )
    severity = Severity.NOTE if exact else Severity.UNDEFINED
    yield Finding(
        code=Code.COMMITS_GONE,
        severity=Severity.BLOCKS if named else severity,
        text=f"{effect}. No commit is there, and batch {batch} can only have been planned after"
        f" batch {batch - 1} was committed: this is an incomplete copy, or the commits were"
        " deleted.",
        clues=(Clue(file="commits", expected=f"`commits/{batch - 1}`", found="no entry"),),
        remedies=(
            "copy the folder `commits` from the original checkpoint",
            *(
                []
                if named
                else [
                    (
                        f"if there is no original, check whether the sink has batch {batch}, and"
                        " then start the query: the batches before it are done"
                    )
                ]
            ),
        ),
    )
