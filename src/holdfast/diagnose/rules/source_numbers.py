"""Stage 3: can a source that counts in bare numbers give again what it gave?

    41    socket: the lines of this connection    memory: what this process was given
          rate: seconds, from the time in its folder below `sources`

A socket and a memory source count from 0 in each process, and keep no folder. Spark takes the
numbers of the checkpoint for those of the new process.
"""

from collections.abc import Iterator, Sequence

from holdfast.diagnose import unseen
from holdfast.model import advice
from holdfast.model.batch import Unknown
from holdfast.model.evidence import Evidence, SourceSeen
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, Seen, Severity
from holdfast.model.source_offset import Basis, NumberOffset

_FORGETFUL = frozenset({"socket", "memory"})
_MOST_TOLD = 5
_ANEW = f"{advice.NEW_CHECKPOINT}; what was not read before is lost either way"


def asked(seen: Seen) -> Iterator[Finding | NotAssessed]:
    """Sources that count anew in each process, as they are called, or as they look."""
    if seen.restart.starting.continuous:
        return
    alike: list[SourceSeen] = []
    for source in seen.evidence.sources:
        offset = source.offset
        if not isinstance(offset, NumberOffset) or source.kind not in _FORGETFUL:
            continue
        if offset.recognition.basis is Basis.DESCRIPTION:
            yield _of_told(source)
        else:
            alike.append(source)
    if not alike or any(one.path.startswith("sources") for one in unseen.files(seen.evidence)):
        return
    found = [one for one in alike if _keeps_nothing(one, seen.evidence)]
    if found:
        yield _of_shape(found)


def _keeps_nothing(source: SourceSeen, evidence: Evidence) -> bool:
    """Whether no folder is its own; where that is not known, whether there is none at all."""
    logs = evidence.source_logs
    return not logs if isinstance(source.folder, Unknown) else source.folder not in logs


def _of_told(source: SourceSeen) -> Finding:
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


def _of_shape(sources: Sequence[SourceSeen]) -> Finding:
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
            "if not, nothing has to be done; `--event-log PATH` would tell",
        ),
    )
