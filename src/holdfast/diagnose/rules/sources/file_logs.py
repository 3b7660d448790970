"""Stage 3: do the logs of file sources hold what the offsets name?"""

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.model.evidence import Evidence, SourceLog
from holdfast.model.fact import Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.ids import BatchId
from holdfast.predict import source_log, unread_files

_SETTING = "spark.sql.streaming.fileSource.log.compactInterval"
_RESTORE = "restore the folder `sources` from a copy of the checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class _SourceFolder:
    """A source by its name in the offset log, and the folder of its log."""

    name: str
    folder: str


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Logs that are damaged, ahead of the offsets, or behind them."""
    evidence = seen.evidence
    names = {one.folder: one.name for one in evidence.sources if one.same_as is None}
    for folder, log in evidence.source_logs.items():
        if log.is_file_log:
            own = _SourceFolder(name=names.get(folder, folder), folder=folder)
            yield from _find_damaged(own, log)
            yield from _find_interval(own, log)
            for path in log.partly_read:
                question = f"whether `{path}` is whole"
                yield NotAssessed(question=question, reason="it is long, and only its end was read")
    stands = _read_positions(evidence, 0)
    yield from _list_unsure(evidence, stands)
    for own, offset in _list_known(evidence, stands):
        yield from _compare_log(seen, own, offset)
    earlier = _read_positions(evidence, 1)
    for name, offset in stands.items():
        if earlier.get(name, -1) > offset:
            yield _make_went_back_finding(name, earlier[name], offset)


def _compare_log(seen: RuleInput, own: _SourceFolder, offset: int) -> Iterator[Finding]:
    """A log that is not where the offset is."""
    newest = source_log.find_latest(seen.evidence.source_logs.get(own.folder, source_log.EMPTY))
    if newest > offset and not seen.restart.rerun:
        yield _make_ahead_finding(own, newest, offset)
    elif newest < offset:
        yield _make_behind_finding(own, newest, offset)


def _list_unsure(evidence: Evidence, stands: dict[str, int]) -> Iterator[NotAssessed]:
    """Sources whose folder is not known, or known only by there being no other."""
    for source in evidence.sources:
        if source.name not in stands:
            continue
        if isinstance(source.folder, Unknown):
            yield NotAssessed(
                question=f"whether the log of source {source.name} holds what the offsets name",
                reason=f"which folder below `sources` is its own is not known:"
                f" {source.folder.reason}",
            )
        elif source.same_as is not None and source.same_as.by_folders:
            yield NotAssessed(
                question=f"whether source {source.name} has lost a folder of its own",
                reason=f"it is taken for the same source as {source.same_as.name}:"
                f" {source.same_as.inferred}",
            )


def _list_known(evidence: Evidence, stands: dict[str, int]) -> Iterator[tuple[_SourceFolder, int]]:
    """The sources whose folder is known, and could be listed, with where they stand.

    Of one that has several offsets, the first speaks for all.
    """
    hidden = {one.path for one in unread_files.find(evidence)}
    for one in evidence.sources:
        if isinstance(one.folder, Unknown) or one.same_as is not None or one.name not in stands:
            continue
        if not hidden & {"sources", f"sources/{one.folder}"}:
            yield _SourceFolder(name=one.name, folder=one.folder), stands[one.name]


def _read_positions(evidence: Evidence, back: int) -> dict[str, int]:
    """Where the file sources stand in the latest offset entry, or so many before it."""
    planned = evidence.batches.last_planned
    entry = None if planned is None else evidence.offset_entries.get(BatchId(planned - back))
    found: dict[str, int] = {}
    for one in entry.sources if entry else ():
        offset = source_log.read_offset(one.offset, source_log.find(evidence, one.source))
        if offset is not None:
            found[one.source] = offset
    return found


def _find_damaged(own: _SourceFolder, log: SourceLog) -> Iterator[Finding]:
    files = [(one.path, one.reason) for one in log.damaged if not one.is_unread]
    files += [
        (f"sources/{own.folder}/{source_log.name_entry(log, offset)}", "no such file")
        for offset in source_log.find_absent(log, source_log.find_required(log))
    ]
    for path, reason in files:
        yield Finding(
            code=Code.SOURCE_LOG_DAMAGED,
            severity=Severity.BLOCKS,
            text=f"`{path}` is read when source {own.name} is made, and cannot be.",
            clues=(Clue(file=path, expected="an entry of the source's log", found=reason),),
            remedies=(_RESTORE,),
        )


def _find_interval(own: _SourceFolder, log: SourceLog) -> Iterator[Finding]:
    """No file tells the setting that a log was written with, and a start needs it again."""
    least = source_log.find_least_setting(log)
    if least > source_log.DEFAULT_INTERVAL:
        yield Finding(
            code=Code.SOURCE_LOG_INTERVAL,
            severity=Severity.NOTE,
            text=f"The log of source {own.name} was written with `{_SETTING}` at {least} or more: a"
            f" start with less, such as the default {source_log.DEFAULT_INTERVAL}, fails.",
            clues=(
                Clue(
                    file=f"sources/{own.folder}",
                    expected=f"a compacted entry every {source_log.DEFAULT_INTERVAL}",
                    found="plain entries in their places",
                ),
            ),
            remedies=(f"start it with the `{_SETTING}` that it ran with",),
        )


def _make_ahead_finding(own: _SourceFolder, newest: int, offset: int) -> Finding:
    return Finding(
        code=Code.SOURCE_LOG_AHEAD,
        severity=Severity.NOTE,
        text=f"Source {own.name} has already listed files up to log offset {newest}: the next batch"
        " takes all of them at once, whatever `maxFilesPerTrigger` says.",
        clues=(
            Clue(
                file=f"sources/{own.folder}",
                expected=f"log offset {offset}, as the offset log has it",
                found=f"log offset {newest}",
            ),
        ),
        remedies=(),
    )


def _make_behind_finding(own: _SourceFolder, newest: int, offset: int) -> Finding:
    found = f"log offset {newest}" if newest >= 0 else "no entry"
    return Finding(
        code=Code.SOURCE_LOG_BEHIND,
        severity=Severity.BLOCKS,
        text=f"The log of source {own.name} has lost entries that the offset log names.",
        clues=(
            Clue(file=f"sources/{own.folder}", expected=f"log offset {offset}", found=found),
        ),
        remedies=(_RESTORE,),
    )  # fmt: skip


def _make_went_back_finding(name: str, earlier: int, offset: int) -> Finding:
    return Finding(
        code=Code.SOURCE_WENT_BACK,
        severity=Severity.BLOCKS,
        text=f"The last batch ends before it begins, in source {name}.",
        clues=(
            Clue(
                file=f"sources/{name}",
                expected=f"log offset {earlier} or later",
                found=f"log offset {offset}",
            ),
        ),
        remedies=("restore the folder `offsets` from a copy of the checkpoint",),
    )
