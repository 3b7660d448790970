"""Are there landing files that a file source will not read?

    newest - maxFileAge        newest        newest: the newest time in the log of the source
    ---------|-------------------|------->
     never   |   unless the log names it

Spark drops the names from its memory that were logged before the same limit. It does not read a
file between the two times again, whatever was written to it since.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.fact import Known, Unknown
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.source_offset import FileOffset
from holdfast.model.surroundings import LandingFolder, RewrittenFile, UnreadFile

_MOST_LISTED = 5
_WEEK_MS = 7 * 24 * 3600 * 1000
_NEVER_MS = -(1 << 63)
_AGE = re.compile(r"(\d+)([a-z]*)")
_UNITS = {
    "us": 0.001, "": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000,
    "d": 86_400_000,
}  # fmt: skip
_GLOB = frozenset("*?[{\\")
# Hadoop's patterns know these, and Python's do not.
_HADOOP_ONLY = frozenset("{}\\^")

_Options = Mapping[str, str] | Unknown


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield files that were rewritten, and files that are too old for the source."""
    for source in given.evidence.sources:
        if not isinstance(source.offset, FileOffset) or source.same_as is not None:
            continue
        landing = given.surroundings.landing.get(source.name, Unknown(reason="it has no log"))
        reason = landing.reason if isinstance(landing, Unknown) else landing.not_checked
        if reason:
            yield NotAssessed(
                question=f"whether source {source.name} skips files that have landed",
                reason=reason,
            )
        if isinstance(landing, Unknown):
            continue
        options = _read_options(given.evidence, source)
        oldest_ms = _compute_oldest_ms(landing.newest_ms, options)
        rewritten = tuple(_list_not_read_again(given.evidence, source, landing, oldest_ms))
        if rewritten:
            yield _make_rewritten_finding(source, rewritten)
        yield from _find_old(source, landing, options, oldest_ms)


def _read_options(evidence: Evidence, source: SourceEvidence) -> _Options:
    """Return the options of a source in the record of the last run, with lower-case keys."""
    plan = evidence.plan
    if isinstance(plan, Known):
        recorded = plan.value.by_name.get(source.name)
        if recorded is not None and recorded.kind == "files":
            return {key.lower(): value for key, value in recorded.options.items()}
    return Unknown(reason="no run record shows the options of the source")


def _compute_oldest_ms(newest_ms: int, options: _Options) -> int:
    """Return the time before which a source takes no file, as Spark computes it at the start."""
    known = {} if isinstance(options, Unknown) else options
    limited = "maxfilespertrigger" in known or "maxbytespertrigger" in known
    if limited and known.get("latestfirst", "").lower() == "true":
        return _NEVER_MS
    age = _AGE.fullmatch(known.get("maxfileage", "7d").strip().lower())
    return newest_ms - (int(int(age[1]) * _UNITS.get(age[2], 1)) if age else _WEEK_MS)


def _list_not_read_again(
    evidence: Evidence, source: SourceEvidence, landing: LandingFolder, oldest_ms: int
) -> Iterator[RewrittenFile]:
    """Yield the rewritten files of committed batches.

    A file that the source has forgotten by now counts as new, and is read.
    """
    entry = (
        evidence.offset_entries.get(evidence.batches.last_committed)
        if evidence.batches.last_committed is not None
        else None
    )
    offsets = {line.source: line.offset for line in entry.sources} if entry else {}
    offset = offsets.get(source.name)
    done = offset.get("logOffset") if isinstance(offset, Mapping) else None
    for file in landing.rewritten:
        forgotten = file.logged_ms < oldest_ms <= file.modified_ms
        if isinstance(done, int) and file.log_offset <= done and not forgotten:
            yield file


def _make_rewritten_finding(source: SourceEvidence, files: Sequence[RewrittenFile]) -> Finding:
    return Finding(
        code=Code.SOURCE_FILES_REWRITTEN,
        severity=Severity.UNDEFINED,
        text=f"A restart will not read what is new in {_format_count(files)}: source {source.name}"
        f" had read {'it' if len(files) == 1 else 'them'} before the change.",
        clues=tuple(
            Clue(
                file=file.path,
                expected=f"modified {_format_time(file.logged_ms)}, as when it was read",
                found=f"modified {_format_time(file.modified_ms)}",
            )
            for file in files[:_MOST_LISTED]
        ),
        remedies=("write what is new to a file with a different name",),
    )


def _find_old(
    source: SourceEvidence, landing: LandingFolder, options: _Options, oldest_ms: int
) -> Iterator[Finding | NotAssessed]:
    old = [file for file in landing.unread if file.modified_ms < oldest_ms]
    name_pattern = "" if isinstance(options, Unknown) else options.get("pathglobfilter", "")
    if old and _HADOOP_ONLY & set(landing.pattern + name_pattern):
        yield NotAssessed(
            question=f"whether source {source.name} would read the {len(old)} old files that have"
            " landed",
            reason=f"only Hadoop can match the pattern `{landing.pattern}`",
        )
        return
    skipped = [file for file in old if _is_read(landing.pattern, name_pattern, file.path)]
    if skipped:
        yield _make_old_finding(source, skipped, options, oldest_ms)


def _is_read(path_pattern: str, name_pattern: str, path: str) -> bool:
    """Return whether the source takes this file, apart from its age."""
    folder, _, name = path.rpartition("/")
    if name_pattern and not fnmatchcase(name, name_pattern):
        return False
    is_plain = not _GLOB & set(path_pattern)
    return is_plain or _matches(path, path_pattern) or _matches(folder, path_pattern)


def _matches(path: str, pattern: str) -> bool:
    """Match name by name: no part of a pattern reaches across a slash."""
    names, patterns = path.split("/"), pattern.split("/")
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))


def _make_old_finding(
    source: SourceEvidence, files: Sequence[UnreadFile], options: _Options, oldest_ms: int
) -> Finding:
    sure = not isinstance(options, Unknown)
    default = "" if sure else ", if `maxFileAge` is 7 days, which no run record shows"
    are = "is" if len(files) == 1 else "are"
    return Finding(
        code=Code.SOURCE_FILES_TOO_OLD,
        severity=Severity.LOSES if sure else Severity.UNDEFINED,
        text=f"Source {source.name} will never read {_format_count(files)} in its landing folder"
        f" that {are} too old{default}.",
        clues=tuple(
            Clue(
                file=file.path,
                expected=f"modified {_format_time(oldest_ms)} or later",
                found=f"modified {_format_time(file.modified_ms)}",
            )
            for file in sorted(files, key=lambda file: file.path)[:_MOST_LISTED]
        ),
        remedies=("`touch` the files: the source then reads them as new files",),
    )


def _format_count(files: Sequence[object]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files):,} files"


def _format_time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"
