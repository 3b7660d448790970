"""Stage 3: are there landing files that a file source will not read?

    newest - maxFileAge        newest        newest: the newest time in the log of the source
    ---------|-------------------|------->
     never   |   unless the log names it

A name in the log is looked for only while its logged time is not older than that, too; and what is
between is not read again, whatever was written to it since.
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

_MOST_TOLD = 5
_WEEK_MS = 7 * 24 * 3600 * 1000
_NEVER_MS = -(1 << 63)
_AGE = re.compile(r"(\d+)([a-z]*)")
_UNITS = {
    "us": 0.001, "": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000,
    "d": 86_400_000,
}  # fmt: skip
_GLOB = frozenset("*?[{\\")
# Hadoop's patterns know these, and those of Python do not.
_HADOOP_ONLY = frozenset("{}\\^")

_Options = Mapping[str, str] | Unknown


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Files that were written again, and files that are older than a source looks back."""
    for source in seen.evidence.sources:
        if not isinstance(source.offset, FileOffset) or source.same_as is not None:
            continue
        landing = seen.surroundings.landing.get(source.name, Unknown(reason="it has no log"))
        reason = landing.reason if isinstance(landing, Unknown) else landing.not_checked
        if reason:
            yield NotAssessed(
                question=f"whether source {source.name} passes over files that have landed",
                reason=reason,
            )
        if isinstance(landing, Unknown):
            continue
        options = _read_options(seen.evidence, source)
        oldest_ms = _compute_oldest_ms(landing.newest_ms, options)
        rewritten = tuple(_list_not_read_again(seen.evidence, source, landing, oldest_ms))
        if rewritten:
            yield _make_rewritten_finding(source, rewritten)
        yield from _find_old(source, landing, options, oldest_ms)


def _read_options(evidence: Evidence, seen: SourceEvidence) -> _Options:
    """The options of a source as the record of the last run has them, in small letters."""
    plan = evidence.plan
    if isinstance(plan, Known):
        source = plan.value.by_name.get(seen.name)
        if source is not None and source.kind == "files":
            return {key.lower(): value for key, value in source.options.items()}
    return Unknown(reason="no run record tells the options of the source")


def _compute_oldest_ms(newest_ms: int, options: _Options) -> int:
    """The time before which a source takes no file, as Spark reckons it when it starts."""
    given = {} if isinstance(options, Unknown) else options
    limited = "maxfilespertrigger" in given or "maxbytespertrigger" in given
    if limited and given.get("latestfirst", "").lower() == "true":
        return _NEVER_MS
    age = _AGE.fullmatch(given.get("maxfileage", "7d").strip().lower())
    return newest_ms - (int(int(age[1]) * _UNITS.get(age[2], 1)) if age else _WEEK_MS)


def _list_not_read_again(
    evidence: Evidence, source: SourceEvidence, landing: LandingFolder, oldest_ms: int
) -> Iterator[RewrittenFile]:
    """Rewritten files of committed batches, but those that are forgotten by now, and so new."""
    entry = (
        evidence.offset_entries.get(evidence.batches.last_committed)
        if evidence.batches.last_committed is not None
        else None
    )
    offsets = {one.source: one.offset for one in entry.sources} if entry else {}
    offset = offsets.get(source.name)
    done = offset.get("logOffset") if isinstance(offset, Mapping) else None
    for one in landing.rewritten:
        forgotten = one.logged_ms < oldest_ms <= one.modified_ms
        if isinstance(done, int) and one.log_offset <= done and not forgotten:
            yield one


def _make_rewritten_finding(source: SourceEvidence, files: Sequence[RewrittenFile]) -> Finding:
    return Finding(
        code=Code.SOURCE_FILES_REWRITTEN,
        severity=Severity.UNDEFINED,
        text=f"Source {source.name} has read {_format_count(files)} that changed since: what is"
        f" new is"
        " not read.",
        clues=tuple(
            Clue(
                file=one.path,
                expected=f"of {_format_time(one.logged_ms)}, as it was when it was read",
                found=f"of {_format_time(one.modified_ms)}",
            )
            for one in files[:_MOST_TOLD]
        ),
        remedies=("put what is new into a file of another name",),
    )


def _find_old(
    source: SourceEvidence, landing: LandingFolder, options: _Options, oldest_ms: int
) -> Iterator[Finding | NotAssessed]:
    old = [one for one in landing.unread if one.modified_ms < oldest_ms]
    pattern = "" if isinstance(options, Unknown) else options.get("pathglobfilter", "")
    if old and _HADOOP_ONLY & set(landing.pattern + pattern):
        yield NotAssessed(
            question=f"whether source {source.name} would read the {len(old)} old files that have"
            " landed",
            reason=f"`{landing.pattern}` is a pattern that only Hadoop knows",
        )
        return
    found = [one for one in old if _is_read(landing.pattern, pattern, one.path)]
    if found:
        yield _make_old_finding(source, found, options, oldest_ms)


def _is_read(reads: str, pattern: str, path: str) -> bool:
    """Whether a file in a folder that is read is one that the source takes."""
    folder, _, name = path.rpartition("/")
    if pattern and not fnmatchcase(name, pattern):
        return False
    return not _GLOB & set(reads) or _matches(path, reads) or _matches(folder, reads)


def _matches(path: str, pattern: str) -> bool:
    """Name by name: no part of a pattern reaches across a slash."""
    names, patterns = path.split("/"), pattern.split("/")
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))


def _make_old_finding(
    source: SourceEvidence, files: Sequence[UnreadFile], options: _Options, oldest_ms: int
) -> Finding:
    sure = not isinstance(options, Unknown)
    default = "" if sure else ", if `maxFileAge` is 7 days, which no run record tells"
    return Finding(
        code=Code.SOURCE_FILES_TOO_OLD,
        severity=Severity.LOSES if sure else Severity.UNDEFINED,
        text=f"Source {source.name} never reads {_format_count(files)} in its landing folder:"
        f" too old"
        f"{default}.",
        clues=tuple(
            Clue(
                file=one.path,
                expected=f"of {_format_time(oldest_ms)} or later",
                found=f"of {_format_time(one.modified_ms)}",
            )
            for one in sorted(files, key=lambda one: one.path)[:_MOST_TOLD]
        ),
        remedies=("`touch` the files: they are new then, and are read",),
    )


def _format_count(files: Sequence[object]) -> str:
    return "1 file" if len(files) == 1 else f"{len(files):,} files"


def _format_time(ms: int) -> str:
    try:
        return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, OSError, ValueError):
        return f"{ms} ms"
