"""Does the storage last?"""

from collections.abc import Iterator

from holdfast.diagnose import locations
from holdfast.model import advice
from holdfast.model.evidence import Evidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.predict import operator_descriptions


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield a finding if the storage ends with a container or a reboot."""
    reason = locations.explain_ephemeral(given.surroundings.location)
    location = given.evidence.location.value
    if reason is not None:
        yield Finding(
            code=Code.STORAGE_EPHEMERAL,
            severity=Severity.NOTE,
            text="The query may lose its place: the checkpoint lies on storage that does not last.",
            clues=(Clue(file=location, expected="storage that lasts", found=reason),),
            remedies=(_advise_move(given.evidence),),
        )


def _advise_move(evidence: Evidence) -> str:
    if any(
        operator_descriptions.list_own_schemas(evidence, operator)
        for operator in evidence.operators
    ):
        return (
            "the folder cannot be moved, because the state names files by their absolute path: to"
            f" use storage that lasts, {advice.NEW_CHECKPOINT}"
        )
    return (
        "stop the query, move the folder to storage that lasts, and start the query there; a job of"
        " holdfast needs `--accept LOCATION_MOVED` once"
    )
