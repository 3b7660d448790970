"""Is the whole commit log missing?

Spark plans batch N only after batch N-1 is committed. So several offset entries without any commit
are not the trace of a crash: the commits were not copied, or were deleted.
"""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.restart import SinkAction


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield a finding if batches must have been committed and there is no commit."""
    batch, batches = given.restart.batch, given.evidence.batches
    if not batches.lacks_commits or isinstance(batch, Unknown):
        return
    if given.restart.starting.asynchronous or given.restart.starting.continuous:
        return
    needs_commits = any(
        store.unique_ids for operator in given.evidence.operators for store in operator.stores
    )
    actions = {sink.act for sink in given.restart.sinks}
    exact = bool(actions) and actions <= {SinkAction.WRITE, SinkAction.SKIP, SinkAction.NOTHING}
    effect = (
        f"A restart will run batch {batch} again and fail, because only commits say which state"
        " files are valid"
        if needs_commits
        else f"A restart will run batch {batch} again, even if the batch is done"
    )
    severity = Severity.NOTE if exact else Severity.UNDEFINED
    yield Finding(
        code=Code.COMMITS_GONE,
        severity=Severity.BLOCKS if needs_commits else severity,
        text=f"{effect}. There is no commit, although Spark plans batch {batch} only after batch"
        f" {batch - 1} is committed: the copy is incomplete, or the commits were deleted.",
        clues=(Clue(file="commits", expected=f"`commits/{batch - 1}`", found="no entry"),),
        remedies=(
            "copy the folder `commits` from the original checkpoint",
            *(
                []
                if needs_commits
                else [
                    (
                        f"if there is no original, check whether the sink has batch {batch}, and"
                        " then start the query: the batches before it are done"
                    )
                ]
            ),
        ),
    )
