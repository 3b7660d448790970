"""Do the files of the batch still exist?

A file source reads the files that its log names. It leaves out a missing file with a warning only.
"""

from collections.abc import Iterator

from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.source_offset import FileOffset

_MOST_LISTED = 5


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield a finding if the batch that runs again has lost files."""
    if not any(isinstance(source.offset, FileOffset) for source in given.evidence.sources):
        return
    gone = given.surroundings.files_gone
    if isinstance(gone, Unknown):
        if given.restart.rerun:
            yield NotAssessed(
                question="whether the files of the batch still exist", reason=gone.reason
            )
        return
    if gone and given.restart.rerun:
        verb = "exists" if len(gone) == 1 else "exist"
        yield Finding(
            code=Code.SOURCE_FILES_GONE,
            severity=Severity.LOSES,
            text=f"A restart will run batch {given.restart.batch} with rows missing, and without an"
            f" error: {len(gone)} of its files no longer {verb}.",
            clues=tuple(
                Clue(file=path, expected="a file", found="no such file")
                for path in gone[:_MOST_LISTED]
            ),
            remedies=("put the files back where they were, then start the query",),
        )
