"""Stage 3: which files cannot be read, and does a start read them?

A start reads the latest entry of either log and the offset entry before the latest; in continuous
mode those of the latest commit and after it. Older entries are never read again; the logs of
sources and the state have rules of their own.
"""

from collections.abc import Iterator

from holdfast.model import advice
from holdfast.model.evidence import Evidence
from holdfast.model.fact import UnreadableFile
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId, spans_contain
from holdfast.model.restart import Stage
from holdfast.model.spark_version import SparkVersion
from holdfast.predict import start_errors, unread_files

_MOST_TOLD = 8
_READS_ANY = SparkVersion(4, 2)


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Damaged entries of the two logs, entries of a later Spark, and files that stay unread."""
    evidence = seen.evidence
    continuous = seen.restart.starting.continuous
    needed = set(unread_files.list_read_at_start(evidence, continuous=continuous))
    yield from _list_hidden(evidence)
    if not continuous:
        yield from _find_bare_entry(seen)
    for file in evidence.unreadable:
        if file.is_unread:
            continue
        if file.path in needed:
            yield _make_blocking_finding(file, evidence, continuous=continuous)
        elif file.path.startswith(("offsets/", "commits/")):
            yield _make_older_finding(file)
        elif not file.path.startswith(("metadata", "sources/", "state/")):
            yield NotAssessed(question=f"what `{file.path}` says", reason=file.reason)
    if evidence.unreadable_more:
        yield NotAssessed(
            question="every file",
            reason=f"{evidence.unreadable_more:,} more files or folders cannot be read",
        )
    yield from _find_later_versions(seen)


def _list_hidden(evidence: Evidence) -> Iterator[NotAssessed]:
    """What was not looked at, the files that a start reads first."""
    others = [one for one in evidence.unreadable if one.is_unread]
    told = dict.fromkeys((*unread_files.find(evidence), *others))
    for file in list(told)[:_MOST_TOLD]:
        yield NotAssessed(question=f"what `{file.path}` says", reason=file.description)
    if len(told) > _MOST_TOLD:
        reason = f"{len(told) - _MOST_TOLD:,} more files or folders were not read"
        yield NotAssessed(question="every file", reason=reason)


def _find_bare_entry(seen: RuleInput) -> Iterator[Finding]:
    """The latest offset entry has lost its second line, or continuous mode wrote it."""
    evidence, planned = seen.evidence, seen.evidence.batches.last_planned
    entry = None if planned is None else evidence.offset_entries.get(planned)
    spark = seen.restart.starting.spark
    if planned is None or entry is None or not entry.lacks_settings:
        return
    if spark < start_errors.NEEDS_SETTINGS or unread_files.find(evidence):
        return
    path = f"offsets/{planned}"
    before = evidence.offset_entries.get(BatchId(planned - 1))
    error = seen.restart.error
    again = error is not None and error.stage is Stage.COMMITTING
    line = (
        f"or, if it cannot be had, put the second line of `offsets/{planned - 1}` in its place, and"
        f" remove the hidden `offsets/.{planned}.crc`: its watermark is that of the batch before"
    )
    yield Finding(
        code=Code.ENTRY_WITHOUT_SETTINGS,
        severity=Severity.DUPLICATES if again else Severity.BLOCKS,
        text=f"The second line of `{path}` is empty, with the settings and the watermark of the"
        f" batch: a start fails{', after it has written the batch to the sink' if again else ''}.",
        clues=(Clue(file=path, expected="settings and a watermark", found="an empty second line"),),
        remedies=(
            f"restore `{path}` from a copy of the checkpoint",
            *([line] if before is not None and not before.lacks_settings else []),
        ),
    )


def _make_blocking_finding(
    file: UnreadableFile, evidence: Evidence, *, continuous: bool
) -> Finding:
    log, _, number = file.path.partition("/")
    cure = (
        _advise_without_commit(file.path, int(number), evidence, continuous=continuous)
        if log == "commits"
        else _advise_without_offsets(int(number), evidence, continuous=continuous)
    )
    return Finding(
        code=Code.ENTRY_UNREADABLE,
        severity=Severity.BLOCKS,
        text=f"`{file.path}`, which every start reads, cannot be read.",
        clues=(Clue(file=file.path, expected=f"an entry of the log `{log}`", found=file.reason),),
        remedies=(
            f"restore `{file.path}` from a copy of the checkpoint",
            *([cure] if cure else []),
        ),
    )


def _advise_without_commit(path: str, batch: int, evidence: Evidence, *, continuous: bool) -> str:
    remove = f"or, if it cannot be had, remove `{path}` and its hidden `.crc`"
    planned = evidence.batches.last_planned
    if continuous:
        return f"{remove}: the epoch is then read again, and a sink without a ledger gets it twice"
    if planned is not None and planned > batch:
        return f"{remove}: a start takes batch {batch} for done, as batch {planned} is planned"
    return (
        f"{remove}: the batch then runs again over the same range, and a sink without a ledger"
        " gets it twice"
    )


def _advise_without_offsets(batch: int, evidence: Evidence, *, continuous: bool) -> str:
    """What helps without the entry: never to remove it alone while a later one or a commit stays.

    A start would run the batch before it again, and then fail, or miss the entry before the latest.
    """
    batches = evidence.batches
    planned = batch if batches.last_planned is None else batches.last_planned
    committed = -1 if batches.last_committed is None else batches.last_committed
    if batch == planned and batch > committed and not continuous:
        return (
            f"or, if batch {batch} has not reached the sink, remove `offsets/{batch}` and its"
            " hidden `.crc`: it is then planned anew, over a range that may differ"
        )
    unread = {one.path for one in evidence.unreadable}
    kept = {f"offsets/{batch - 1}", f"commits/{batch - 1}", f"offsets/{max(0, batch - 2)}"}
    there = spans_contain(batches.offset_spans, batch - 1) and spans_contain(
        batches.commit_spans, batch - 1
    )
    if not there or not spans_contain(batches.offset_spans, max(0, batch - 2)) or kept & unread:
        return ""
    entries = _name_entries("offsets", batch, planned)
    if committed >= batch:
        entries += f" and {_name_entries('commits', batch, committed)}"
    return (
        f"or, if it cannot be had, {advice.take_sinks_back(batch - 1)}; then remove {entries}, with"
        f" their hidden `.crc` files: batch {batch - 1} then counts as the last one done, and what"
        " came after it is read again"
    )


def _name_entries(log: str, first: int, last: int) -> str:
    return f"`{log}/{first}`" if first == last else f"`{log}/{first}` to `{log}/{last}`"


def _make_older_finding(file: UnreadableFile) -> Finding:
    return Finding(
        code=Code.FILE_UNREADABLE,
        severity=Severity.NOTE,
        text=f"`{file.path}` cannot be read; a start does not read it.",
        clues=(Clue(file=file.path, expected="an entry of its log", found=file.reason),),
        remedies=(),
    )


def _find_later_versions(seen: RuleInput) -> Iterator[Finding]:
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
