"""Stage 3: are the files of the batch still there?

A file source reads the files that its log names; one that is gone is left out with a warning.
"""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.source_offset import FileOffset

_MOST_TOLD = 5


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Files of the batch that runs again."""
    if not any(isinstance(one.offset, FileOffset) for one in seen.evidence.sources):
        return
    gone = seen.surroundings.files_gone
    if isinstance(gone, Unknown):
        if seen.restart.rerun:
            yield NotAssessed(
                question="whether the files of the batch are there", reason=gone.reason
            )
        return
    if gone and seen.restart.rerun:
        yield Finding(
            code=Code.SOURCE_FILES_GONE,
            severity=Severity.LOSES,
            text=f"{len(gone)} of the files that batch {seen.restart.batch} reads are gone: it runs"
            " without them, and without an error.",
            clues=tuple(
                Clue(file=one, expected="a file", found="no such file") for one in gone[:_MOST_TOLD]
            ),
            remedies=("put the files back where they were, before it is started",),
        )
