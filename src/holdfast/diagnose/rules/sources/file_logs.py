"""Do the logs of file sources contain what the offsets refer to?"""

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


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield logs that are damaged, ahead of the offsets, or behind them."""
    evidence = given.evidence
    names = {source.folder: source.name for source in evidence.sources if source.same_as is None}
    for folder, log in evidence.source_logs.items():
        if log.is_file_log:
            source = _SourceFolder(name=names.get(folder, folder), folder=folder)
            yield from _find_damaged(source, log)
            yield from _find_interval(source, log)
            for path in log.partly_read:
                question = f"whether `{path}` is whole"
                yield NotAssessed(question=question, reason="it is long, and only its end was read")
    positions = _read_positions(evidence, 0)
    yield from _list_unsure(evidence, positions)
    for source, offset in _list_known(evidence, positions):
        yield from _compare_log(given, source, offset)
    earlier = _read_positions(evidence, 1)
    for name, offset in positions.items():
        if earlier.get(name, -1) > offset:
            yield _make_went_back_finding(name, earlier[name], offset)


def _compare_log(given: RuleInput, source: _SourceFolder, offset: int) -> Iterator[Finding]:
    """Compare the end of a log with the offset of its source."""
    log = given.evidence.source_logs.get(source.folder, source_log.EMPTY)
    newest = source_log.find_latest(log)
    if newest > offset and not given.restart.rerun:
        yield _make_ahead_finding(source, newest, offset)
    elif newest < offset:
        yield _make_behind_finding(source, newest, offset)


def _list_unsure(evidence: Evidence, positions: dict[str, int]) -> Iterator[NotAssessed]:
    """Yield the sources whose folder is unknown, or inferred because there is no other."""
    for source in evidence.sources:
        if source.name not in positions:
            continue
        if isinstance(source.folder, Unknown):
            yield NotAssessed(
                question=f"whether the log of source {source.name} contains what the offsets"
                " refer to",
                reason=f"its folder below `sources` is not known: {source.folder.reason}",
            )
        elif source.same_as is not None and source.same_as.by_folders:
            yield NotAssessed(
                question=f"whether source {source.name} has lost a folder of its own",
                reason=f"it is treated as the same source as {source.same_as.name}:"
                f" {source.same_as.inferred}",
            )


def _list_known(
    evidence: Evidence, positions: dict[str, int]
) -> Iterator[tuple[_SourceFolder, int]]:
    """Yield the sources whose folder is known and could be listed, with their positions.

    A source that has several offsets is yielded once, with its first.
    """
    hidden = {file.path for file in unread_files.find(evidence)}
    for source in evidence.sources:
        name, folder = source.name, source.folder
        if isinstance(folder, Unknown) or source.same_as is not None or name not in positions:
            continue
        if not hidden & {"sources", f"sources/{folder}"}:
            yield _SourceFolder(name=name, folder=folder), positions[name]


def _read_positions(evidence: Evidence, back: int) -> dict[str, int]:
    """Return the log offset of each file source, `back` entries before the latest offset entry."""
    planned = evidence.batches.last_planned
    entry = None if planned is None else evidence.offset_entries.get(BatchId(planned - back))
    positions: dict[str, int] = {}
    for source in entry.sources if entry else ():
        offset = source_log.read_offset(source.offset, source_log.find(evidence, source.source))
        if offset is not None:
            positions[source.source] = offset
    return positions


def _find_damaged(source: _SourceFolder, log: SourceLog) -> Iterator[Finding]:
    files = [(file.path, file.reason) for file in log.damaged if not file.is_unread]
    files += [
        (f"sources/{source.folder}/{source_log.name_entry(log, offset)}", "no such file")
        for offset in source_log.find_absent(log, source_log.find_required(log))
    ]
    for path, reason in files:
        yield Finding(
            code=Code.SOURCE_LOG_DAMAGED,
            severity=Severity.BLOCKS,
            text=f"A restart will fail: `{path}` cannot be read, and Spark reads it when it creates"
            f" source {source.name}.",
            clues=(Clue(file=path, expected="an entry of the source's log", found=reason),),
            remedies=(_RESTORE,),
        )


def _find_interval(source: _SourceFolder, log: SourceLog) -> Iterator[Finding]:
    """Yield a finding if a start needs more than the default setting.

    No file contains the setting that a log was written with, and a start needs the same again.
    """
    least = source_log.find_least_setting(log)
    if least > source_log.DEFAULT_INTERVAL:
        yield Finding(
            code=Code.SOURCE_LOG_INTERVAL,
            severity=Severity.NOTE,
            text=f"A restart will fail if `{_SETTING}` is less than {least}, such as the default"
            f" {source_log.DEFAULT_INTERVAL}: the log of source {source.name} was written with"
            f" {least} or more.",
            clues=(
                Clue(
                    file=f"sources/{source.folder}",
                    expected=f"a compacted entry every {source_log.DEFAULT_INTERVAL} entries",
                    found="plain entries in their places",
                ),
            ),
            remedies=(f"start the query with the `{_SETTING}` that it ran with",),
        )


def _make_ahead_finding(source: _SourceFolder, newest: int, offset: int) -> Finding:
    return Finding(
        code=Code.SOURCE_LOG_AHEAD,
        severity=Severity.NOTE,
        text=f"The next batch will read every file up to log offset {newest} at once, whatever"
        f" `maxFilesPerTrigger` says: source {source.name} has already listed these files.",
        clues=(
            Clue(
                file=f"sources/{source.folder}",
                expected=f"log offset {offset}, as in the offset log",
                found=f"log offset {newest}",
            ),
        ),
        remedies=(),
    )


def _make_behind_finding(source: _SourceFolder, newest: int, offset: int) -> Finding:
    found = f"log offset {newest}" if newest >= 0 else "no entry"
    return Finding(
        code=Code.SOURCE_LOG_BEHIND,
        severity=Severity.BLOCKS,
        text=f"A restart will fail: the log of source {source.name} has lost entries that the"
        " offset log refers to.",
        clues=(
            Clue(file=f"sources/{source.folder}", expected=f"log offset {offset}", found=found),
        ),
        remedies=(_RESTORE,),
    )  # fmt: skip


def _make_went_back_finding(name: str, earlier: int, offset: int) -> Finding:
    return Finding(
        code=Code.SOURCE_WENT_BACK,
        severity=Severity.BLOCKS,
        text=f"A restart will fail: the last batch ends before it begins, in source {name}.",
        clues=(
            Clue(
                file=f"sources/{name}",
                expected=f"log offset {earlier} or later",
                found=f"log offset {offset}",
            ),
        ),
        remedies=("restore the folder `offsets` from a copy of the checkpoint",),
    )
