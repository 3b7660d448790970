"""Stage 3: does the storage last?"""

from collections.abc import Iterator

from holdfast.diagnose import locations
from holdfast.model import advice
from holdfast.model.evidence import Evidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.predict import operator_descriptions


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """A checkpoint on storage that ends with a container or a reboot."""
    reason = locations.explain_ephemeral(seen.surroundings.location)
    location = seen.evidence.location.value
    if reason is not None:
        yield Finding(
            code=Code.STORAGE_EPHEMERAL,
            severity=Severity.NOTE,
            text="The checkpoint lies on storage that does not last: the query may lose its place.",
            clues=(Clue(file=location, expected="storage that lasts", found=reason),),
            remedies=(_advise_move(seen.evidence),),
        )


def _advise_move(evidence: Evidence) -> str:
    if any(
        operator_descriptions.list_own_schemas(evidence, operator)
        for operator in evidence.operators
    ):
        return (
            "the folder cannot be moved, as the state names files by its path: to use storage that"
            f" lasts, {advice.NEW_CHECKPOINT}"
        )
    return (
        "stop the query, move the folder to storage that lasts, start it there; a job of holdfast"
        " needs `--accept LOCATION_MOVED` once"
    )
