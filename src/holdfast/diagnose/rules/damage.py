"""Stage 3: which files cannot be read, and does a start read them?

A start reads the latest entry of either log and the offset entry before the latest; in continuous
mode those of the latest commit and after it. Older entries are never read again; the logs of
sources and the state have rules of their own.
"""

from collections.abc import Iterator

from holdfast.diagnose import unseen
from holdfast.model.evidence import Evidence, UnreadableFile
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, Seen, Severity
from holdfast.model.spark_version import SparkVersion

_MOST_TOLD = 8
_READS_ANY = SparkVersion(4, 2)


def asked(seen: Seen) -> Iterator[Finding | NotAssessed]:
    """Damaged entries of the two logs, entries of a later Spark, and files that stay unread."""
    evidence = seen.evidence
    continuous = seen.restart.starting.continuous
    needed = set(unseen.read_at_start(evidence, continuous=continuous))
    yield from _hidden(evidence)
    for file in evidence.unreadable:
        if file.forbidden:
            continue
        if file.path in needed:
            yield _blocks(file)
        elif file.path.startswith(("offsets/", "commits/")):
            yield _older(file)
        elif not file.path.startswith(("metadata", "sources/", "state/")):
            yield NotAssessed(question=f"what `{file.path}` says", reason=file.reason)
    if evidence.unreadable_more:
        yield NotAssessed(
            question="every file",
            reason=f"{evidence.unreadable_more:,} more files or folders cannot be read",
        )
    yield from _later_versions(seen)


def _hidden(evidence: Evidence) -> Iterator[NotAssessed]:
    """What this user may not read, the files that a start reads first."""
    forbidden = [one for one in evidence.unreadable if one.forbidden]
    told = dict.fromkeys((*unseen.files(evidence), *forbidden))
    for file in list(told)[:_MOST_TOLD]:
        yield NotAssessed(question=f"what `{file.path}` says", reason=file.told)
    if len(told) > _MOST_TOLD:
        reason = f"this user may not read {len(told) - _MOST_TOLD:,} more files or folders"
        yield NotAssessed(question="every file", reason=reason)


def _blocks(file: UnreadableFile) -> Finding:
    log = file.path.partition("/")[0]
    remedies = (
        (
            (
                f"if no batch ran since, remove `{file.path}` and its hidden `.crc`: the batch is"
                " then"
                " planned anew, over a range that may differ"
            ),
        )
        if log == "offsets"
        else (
            (
                f"remove `{file.path}` and its hidden `.crc`: the batch then runs again over the"
                " same"
                " range, and a sink without a ledger gets it twice"
            ),
        )
    )
    return Finding(
        code=Code.ENTRY_UNREADABLE,
        severity=Severity.BLOCKS,
        text=f"`{file.path}`, which every start reads, cannot be read.",
        clues=(Clue(file=file.path, expected=f"an entry of the log `{log}`", found=file.reason),),
        remedies=remedies,
    )


def _older(file: UnreadableFile) -> Finding:
    return Finding(
        code=Code.FILE_UNREADABLE,
        severity=Severity.NOTE,
        text=f"`{file.path}` cannot be read; a start does not read it.",
        clues=(Clue(file=file.path, expected="an entry of its log", found=file.reason),),
        remedies=(),
    )


def _later_versions(seen: Seen) -> Iterator[Finding]:
    """Entries that a later Spark wrote in a format that the one to start does not read."""
    spark = seen.restart.starting.spark
    if spark >= _READS_ANY:
        return
    error = seen.restart.error
    if error is None or not error.condition.startswith("INVALID_LOG_VERSION"):
        return
    if any(one.path in error.read_from for one in seen.evidence.unreadable):
        return
    yield Finding(
        code=Code.LOG_VERSION_UNKNOWN,
        severity=Severity.BLOCKS,
        text=f"{error.reason}.",
        clues=(Clue(file=error.read_from[0], expected="version 1", found=error.reason),),
        remedies=("start it with the Spark that wrote it",),
    )
