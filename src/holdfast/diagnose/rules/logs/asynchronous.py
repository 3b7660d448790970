"""Stage 3: was asynchronous progress tracking turned off half way?

With it, the logs are written now and then, so that they have gaps; without it, Spark needs the two
latest offset entries to follow one another.
"""

from collections.abc import Iterator

from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import spans_contain

_FEWEST_GAPS = 2


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Gaps of the same places in both logs, and a start that does not allow for them."""
    batches = seen.evidence.batches
    offsets = [span.last for span in batches.offset_spans[:-1]]
    commits = {span.last for span in batches.commit_spans[:-1]}
    shared = [one for one in offsets if one in commits]
    planned, how = batches.last_planned, seen.restart.starting
    if len(shared) < _FEWEST_GAPS or how.asynchronous or how.continuous or planned is None:
        return
    if spans_contain(batches.offset_spans, planned - 1):
        return
    yield Finding(
        code=Code.ASYNC_TURNED_OFF,
        severity=Severity.BLOCKS,
        text="The gaps in both logs are those of asynchronous progress tracking, and without it"
        " the query does not start.",
        clues=(
            Clue(
                file=f"offsets/{planned - 1}",
                expected="two entries that follow one another",
                found=f"{len(shared)} gaps that both logs share",
            ),
        ),
        remedies=(
            (
                "start it with the option `asyncProgressTrackingEnabled` as before; to turn it off,"
                " first let it run with `asyncProgressTrackingCheckpointIntervalMs` set to 0"
            ),
        ),
    )
