"""Which files cannot be read, and does a restart read them?

A restart reads the latest entry of each log and the offset entry before the latest. In continuous
mode it reads the entries of the latest commit and the offset entries after it. Spark never reads
older entries again. The logs of sources and the state have rules of their own.
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

_MOST_LISTED = 8
_READS_ANY_SINCE = SparkVersion(4, 2)


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield damaged log entries, entries of a later Spark, and files that were not read."""
    evidence = given.evidence
    continuous = given.restart.starting.continuous
    needed = set(unread_files.list_read_at_start(evidence, continuous=continuous))
    yield from _list_unread(evidence)
    if not continuous:
        yield from _find_bare_entry(given)
    for file in evidence.unreadable:
        if file.is_unread:
            continue
        if file.path in needed:
            yield _make_blocking_finding(file, evidence, continuous=continuous)
        elif file.path.startswith(("offsets/", "commits/")):
            yield _make_older_finding(file)
        elif not file.path.startswith(("metadata", "sources/", "state/")):
            yield NotAssessed(question=f"what `{file.path}` contains", reason=file.reason)
    if evidence.unreadable_more:
        yield NotAssessed(
            question="what the other files contain",
            reason=f"{evidence.unreadable_more:,} more files or folders cannot be read",
        )
    yield from _find_later_version(given)


def _list_unread(evidence: Evidence) -> Iterator[NotAssessed]:
    """Yield the files that were not read, those that a restart reads first."""
    others = [file for file in evidence.unreadable if file.is_unread]
    unread = list(dict.fromkeys((*unread_files.find(evidence), *others)))
    for file in unread[:_MOST_LISTED]:
        yield NotAssessed(question=f"what `{file.path}` contains", reason=file.description)
    if len(unread) > _MOST_LISTED:
        reason = f"{len(unread) - _MOST_LISTED:,} more files or folders were not read"
        yield NotAssessed(question="what the other files contain", reason=reason)


def _find_bare_entry(given: RuleInput) -> Iterator[Finding]:
    """Yield a finding if the latest offset entry has no second line, lost or never written."""
    evidence, planned = given.evidence, given.evidence.batches.last_planned
    entry = None if planned is None else evidence.offset_entries.get(planned)
    spark = given.restart.starting.spark
    if planned is None or entry is None or not entry.lacks_settings:
        return
    if spark < start_errors.NEEDS_SETTINGS_SINCE or unread_files.find(evidence):
        return
    path = f"offsets/{planned}"
    before = evidence.offset_entries.get(BatchId(planned - 1))
    error = given.restart.error
    writes_first = error is not None and error.stage is Stage.COMMITTING
    effect = f"write batch {planned} to the sink and then fail" if writes_first else "fail"
    substitute = (
        f"if you have no copy, use the second line of `offsets/{planned - 1}` in its place, and"
        f" remove the hidden `offsets/.{planned}.crc`: the watermark is then that of the batch"
        " before"
    )
    yield Finding(
        code=Code.ENTRY_WITHOUT_SETTINGS,
        severity=Severity.DUPLICATES if writes_first else Severity.BLOCKS,
        text=f"A restart will {effect}: the second line of `{path}`, which should contain the"
        " settings and the watermark of the batch, is empty.",
        clues=(Clue(file=path, expected="settings and a watermark", found="an empty second line"),),
        remedies=(
            f"restore `{path}` from a copy of the checkpoint",
            *([substitute] if before is not None and not before.lacks_settings else []),
        ),
    )


def _make_blocking_finding(
    file: UnreadableFile, evidence: Evidence, *, continuous: bool
) -> Finding:
    log, _, number = file.path.partition("/")
    remedy = (
        _advise_without_commit(file.path, int(number), evidence, continuous=continuous)
        if log == "commits"
        else _advise_without_offsets(int(number), evidence, continuous=continuous)
    )
    return Finding(
        code=Code.ENTRY_UNREADABLE,
        severity=Severity.BLOCKS,
        text=f"A restart will fail: `{file.path}` cannot be read, and Spark reads it at every"
        " start.",
        clues=(Clue(file=file.path, expected=f"an entry of the log `{log}`", found=file.reason),),
        remedies=(
            f"restore `{file.path}` from a copy of the checkpoint",
            *([remedy] if remedy else []),
        ),
    )


def _advise_without_commit(path: str, batch: int, evidence: Evidence, *, continuous: bool) -> str:
    remove = f"if you have no copy, remove `{path}` and its hidden `.crc`"
    planned = evidence.batches.last_planned
    if continuous:
        return (
            f"{remove}: Spark then reads the epoch again, and a sink without a ledger gets it twice"
        )
    if planned is not None and planned > batch:
        return (
            f"{remove}: Spark still treats batch {batch} as done, because batch {planned} is"
            " planned"
        )
    return (
        f"{remove}: the batch then runs again over the same range, and a sink without a ledger"
        " gets it twice"
    )


def _advise_without_offsets(batch: int, evidence: Evidence, *, continuous: bool) -> str:
    """Return what helps if there is no copy of an offset entry.

    Never advise to remove only this entry while a later entry or its commit stays: a restart would
    run the batch before it again and then fail, or miss the entry before the latest.
    """
    batches = evidence.batches
    planned = batch if batches.last_planned is None else batches.last_planned
    committed = -1 if batches.last_committed is None else batches.last_committed
    if batch == planned and batch > committed and not continuous:
        return (
            f"if batch {batch} has not reached the sink, remove `offsets/{batch}` and its hidden"
            " `.crc`: Spark then plans the batch again, over a range that may differ"
        )
    unreadable = {file.path for file in evidence.unreadable}
    kept = {f"offsets/{batch - 1}", f"commits/{batch - 1}", f"offsets/{max(0, batch - 2)}"}
    has_previous = spans_contain(batches.offset_spans, batch - 1) and spans_contain(
        batches.commit_spans, batch - 1
    )
    has_earlier = spans_contain(batches.offset_spans, max(0, batch - 2))
    if not has_previous or not has_earlier or kept & unreadable:
        return ""
    entries = _name_entries("offsets", batch, planned)
    if committed >= batch:
        entries += f" and {_name_entries('commits', batch, committed)}"
    return (
        f"if you have no copy of the checkpoint, {advice.take_sinks_back(batch - 1)}; then remove"
        f" {entries}, with their hidden `.crc` files: batch {batch - 1} then counts as the last"
        " batch done, and Spark reads again what came after it"
    )


def _name_entries(log: str, first: int, last: int) -> str:
    return f"`{log}/{first}`" if first == last else f"`{log}/{first}` to `{log}/{last}`"


def _make_older_finding(file: UnreadableFile) -> Finding:
    return Finding(
        code=Code.FILE_UNREADABLE,
        severity=Severity.NOTE,
        text=f"`{file.path}` cannot be read, but a restart does not need it.",
        clues=(Clue(file=file.path, expected="an entry of its log", found=file.reason),),
        remedies=(),
    )


def _find_later_version(given: RuleInput) -> Iterator[Finding]:
    """Yield a finding if a later Spark wrote an entry in a format that this Spark cannot read."""
    spark = given.restart.starting.spark
    if spark >= _READS_ANY_SINCE:
        return
    error = given.restart.error
    if error is None or not error.condition.startswith("INVALID_LOG_VERSION"):
        return
    if any(file.path in error.read_from for file in given.evidence.unreadable):
        return
    yield Finding(
        code=Code.LOG_VERSION_UNKNOWN,
        severity=Severity.BLOCKS,
        text=f"A restart will fail: {error.reason}.",
        clues=(Clue(file=error.read_from[0], expected="version 1", found=error.reason),),
        remedies=("start the query with the Spark version that wrote the entry",),
    )
