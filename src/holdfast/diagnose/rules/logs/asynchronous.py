"""Was asynchronous progress tracking turned off midway?

With it, Spark writes the logs only now and then, so both logs have gaps. Without it, Spark needs
the two latest offset entries to be consecutive.
"""

from collections.abc import Iterator

from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import spans_contain

_FEWEST_GAPS = 2


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield a finding if both logs have the same gaps and the start does not allow for them."""
    batches = given.evidence.batches
    offsets = [span.last for span in batches.offset_spans[:-1]]
    commits = {span.last for span in batches.commit_spans[:-1]}
    shared = [batch for batch in offsets if batch in commits]
    planned, start = batches.last_planned, given.restart.starting
    if len(shared) < _FEWEST_GAPS or start.asynchronous or start.continuous or planned is None:
        return
    if spans_contain(batches.offset_spans, planned - 1):
        return
    yield Finding(
        code=Code.ASYNC_TURNED_OFF,
        severity=Severity.BLOCKS,
        text="A restart without asynchronous progress tracking will fail: both logs have the gaps"
        " that this tracking leaves.",
        clues=(
            Clue(
                file=f"offsets/{planned - 1}",
                expected="two consecutive entries",
                found=f"{len(shared)} gaps that both logs share",
            ),
        ),
        remedies=(
            (
                "start the query with the option `asyncProgressTrackingEnabled`, as before; to turn"
                " it off, first let the query run with `asyncProgressTrackingCheckpointIntervalMs`"
                " set to 0"
            ),
        ),
    )
