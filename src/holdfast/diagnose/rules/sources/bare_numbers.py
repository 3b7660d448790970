"""Stage 3: can a source that counts in bare numbers give again what it gave?

    41    socket: the lines of this connection    memory: what this process was given
          rate: seconds, from the time in its folder below `sources`

A socket and a memory source count from 0 in each process, and keep no folder. Spark takes the
numbers of the checkpoint for those of the new process.
"""

from collections.abc import Iterator, Mapping, Sequence

from holdfast.model import advice
from holdfast.model.evidence import SourceEvidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.source_offset import NumberOffset
from holdfast.predict import sockets, unread_files

_FORGETFUL = frozenset({"socket", "memory"})
_MOST_TOLD = 5
_NOT_ONE = "if not, nothing has to be done; `--event-log PATH` would tell"
_ANEW = f"{advice.NEW_CHECKPOINT}; what was not read before is lost either way"


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Sources that count anew in each process, as they are called, or as they look."""
    if seen.restart.starting.continuous:
        return
    course = sockets.find_course(seen.evidence, seen.restart.starting.spark)
    told: list[SourceEvidence] = []
    alike: list[SourceEvidence] = []
    for source in seen.evidence.sources:
        offset = source.offset
        if not isinstance(offset, NumberOffset) or source.kind not in _FORGETFUL:
            continue
        if sockets.is_described(source):
            told.append(source)
        else:
            alike.append(source)
    if course is not None:
        yield _make_course_finding(seen, [*told, *alike], course, sure=not alike)
        return
    yield from (_make_described_finding(one) for one in told)
    if not alike or any(one.path.startswith("sources") for one in unread_files.find(seen.evidence)):
        return
    found = [one for one in alike if sockets.keeps_nothing(one, seen.evidence)]
    if found:
        yield _make_shape_finding(found)


_ENDS: dict[sockets.Course, str] = {
    sockets.Course.NEVER_READS: "a start never connects to it and reads nothing, without an error",
    sockets.Course.STARTS_FRESH: "a start connects to it and reads what it sends from then on",
    sockets.Course.FAILS_SOON: "a start runs batch {batch} at once without rows, and fails when the"
    " first line arrives",
    sockets.Course.LOSES_AND_FAILS: "a start runs batch {batch} again without its rows, then one"
    " more without rows, and fails when the next line arrives",
}
_AT_ONCE: dict[sockets.Course, str] = {
    sockets.Course.FAILS_SOON: "a start fails at batch {batch}, before it reads a line",
    sockets.Course.LOSES_AND_FAILS: "a start runs batch {batch} again without its rows, and fails"
    " at the next batch",
}
_SEVERITIES: Mapping[sockets.Course, Severity] = {
    sockets.Course.NEVER_READS: Severity.BLOCKS,
    sockets.Course.STARTS_FRESH: Severity.NOTE,
    sockets.Course.FAILS_SOON: Severity.LOSES,
    sockets.Course.LOSES_AND_FAILS: Severity.LOSES,
}


def _make_course_finding(
    seen: RuleInput, sources: Sequence[SourceEvidence], course: sockets.Course, *, sure: bool
) -> Finding:
    """What a restart does with a query that reads only sockets, or what looks like some."""
    names = ", ".join(one.name for one in sources[:_MOST_TOLD])
    is_socket = (
        f"Source {names} is a socket"
        if sure
        else f"Source {names} counts in bare numbers and keeps nothing below `sources`, as a socket"
        " does. If it is a socket"
    )
    severity = _SEVERITIES[course]
    ends = _AT_ONCE if sockets.fails_at_once(seen.restart.starting.spark) else {}
    planned = seen.evidence.batches.last_planned
    fresh = course is sockets.Course.NEVER_READS
    cure = f"move `commits/{planned}` and `commits/.{planned}.crc` away" if fresh else _ANEW
    connects = ": a start then runs that batch again, without rows, and connects" if fresh else ""
    remedy = f"{cure}{connects}" if sure else f"if it is a socket: {cure}{connects}"
    cured = course is sockets.Course.STARTS_FRESH
    return Finding(
        code=Code.SOURCE_NOT_REPLAYABLE,
        severity=severity if sure or severity is Severity.NOTE else Severity.UNDEFINED,
        text=f"{is_socket}: {(_ENDS | ends)[course].format(batch=seen.restart.batch)}.",
        clues=(
            Clue(
                file=f"offsets/{planned}",
                expected="an offset that the source still knows after a start",
                found=", ".join(str(one.raw) for one in sources[:_MOST_TOLD]),
            ),
        ),
        remedies=() if cured else (remedy, *([] if sure else [_NOT_ONE])),
    )


def _make_described_finding(source: SourceEvidence) -> Finding:
    return Finding(
        code=Code.SOURCE_NOT_REPLAYABLE,
        severity=Severity.LOSES,
        text=f"Source {source.name} is a {source.kind} source and gives nothing a second time: a"
        " start loses rows, and fails once its numbers fall back.",
        clues=(
            Clue(
                file=f"offsets/{source.batch}",
                expected="an offset that the source still knows after a start",
                found=f"a number that only the process that wrote it knew, of `{source.described}`",
            ),
        ),
        remedies=(_ANEW,),
    )


def _make_shape_finding(sources: Sequence[SourceEvidence]) -> Finding:
    names = ", ".join(one.name for one in sources[:_MOST_TOLD])
    more = f" and {len(sources) - _MOST_TOLD} more" if len(sources) > _MOST_TOLD else ""
    which = f"Source {names} counts" if len(sources) == 1 else f"Sources {names}{more} count"
    return Finding(
        code=Code.SOURCE_NOT_REPLAYABLE,
        severity=Severity.UNDEFINED,
        text=f"{which} in bare numbers and kept nothing below `sources`, as with a socket: of one a"
        " start loses rows, and fails once its numbers fall back.",
        clues=(
            Clue(
                file="sources",
                expected=f"a folder of source {sources[0].name}, which a rate source and one of"
                " files have",
                found="none",
            ),
        ),
        remedies=(
            f"if it is a socket or a memory source: {_ANEW}",
            _NOT_ONE,
        ),
    )
