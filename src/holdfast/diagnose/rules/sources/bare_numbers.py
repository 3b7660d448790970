"""Can a source that counts in bare numbers send its rows again?

    41    socket: the lines of this connection    memory: the rows that this process was given
          rate: seconds, from the time in its folder below `sources`

A socket and a memory source count from 0 in each process, and keep no folder. Spark takes the
numbers of the checkpoint for numbers of the new process.
"""

from collections.abc import Iterator, Mapping, Sequence

from holdfast.model import advice
from holdfast.model.evidence import SourceEvidence
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.source_offset import NumberOffset
from holdfast.predict import sockets, unread_files
from holdfast.predict.sockets import SocketOutcome

_FORGETFUL = frozenset({"socket", "memory"})
_MOST_LISTED = 5
_OTHERWISE = "if not, do nothing; `--event-log PATH` would show what the source is"
_START_OVER = f"{advice.NEW_CHECKPOINT}; rows that were not read before are lost either way"
_EXPECTED = "an offset that the source still knows after a restart"


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield the sources that count from 0 in each process, by their description or their offset."""
    if given.restart.starting.continuous:
        return
    outcome = sockets.find_outcome(given.evidence, given.restart.starting.spark)
    described: list[SourceEvidence] = []
    similar: list[SourceEvidence] = []
    for source in given.evidence.sources:
        if not isinstance(source.offset, NumberOffset) or source.kind not in _FORGETFUL:
            continue
        if sockets.is_described(source):
            described.append(source)
        else:
            similar.append(source)
    if outcome is not None:
        yield _make_outcome_finding(given, [*described, *similar], outcome, sure=not similar)
        return
    yield from (_make_described_finding(source) for source in described)
    unread = unread_files.find(given.evidence)
    if not similar or any(file.path.startswith("sources") for file in unread):
        return
    without_folder = [source for source in similar if sockets.keeps_nothing(source, given.evidence)]
    if without_folder:
        yield _make_shape_finding(without_folder)


_EFFECTS: dict[SocketOutcome, str] = {
    SocketOutcome.NEVER_READS: "read nothing and report no error, because Spark never connects to"
    " the socket",
    SocketOutcome.STARTS_FRESH: "connect to the socket and read what it sends from then on",
    SocketOutcome.FAILS_SOON: "run batch {batch} at once without rows, and fail when the socket"
    " sends its first line",
    SocketOutcome.LOSES_AND_FAILS: "run batch {batch} again without its rows, run one more batch"
    " without rows, and fail when the socket sends the next line",
}
_IMMEDIATE_EFFECTS: dict[SocketOutcome, str] = {
    SocketOutcome.FAILS_SOON: "fail at batch {batch}, before it reads a line",
    SocketOutcome.LOSES_AND_FAILS: "run batch {batch} again without its rows, and fail at the next"
    " batch",
}
_SEVERITIES: Mapping[SocketOutcome, Severity] = {
    SocketOutcome.NEVER_READS: Severity.BLOCKS,
    SocketOutcome.STARTS_FRESH: Severity.NOTE,
    SocketOutcome.FAILS_SOON: Severity.LOSES,
    SocketOutcome.LOSES_AND_FAILS: Severity.LOSES,
}


def _make_outcome_finding(
    given: RuleInput, sources: Sequence[SourceEvidence], outcome: SocketOutcome, *, sure: bool
) -> Finding:
    """Return what a restart does with a query that reads only sockets, or probable sockets."""
    names = ", ".join(source.name for source in sources[:_MOST_LISTED])
    single = len(sources) == 1
    condition = f"source {names} is a socket" if single else f"sources {names} are sockets"
    shape = "It counts" if single else "They count"
    immediate = sockets.fails_at_once(given.restart.starting.spark)
    effects = _EFFECTS | (_IMMEDIATE_EFFECTS if immediate else {})
    effect = effects[outcome].format(batch=given.restart.batch)
    text = (
        f"A restart will {effect}. {condition[:1].upper()}{condition[1:]}."
        if sure
        else f"If {condition}, a restart will {effect}. {shape} in bare numbers and kept"
        " nothing below `sources`, as a socket does."
    )
    severity = _SEVERITIES[outcome]
    planned = given.evidence.batches.last_planned
    never_reads = outcome is SocketOutcome.NEVER_READS
    cure = (
        f"move `commits/{planned}` and `commits/.{planned}.crc` away: a restart then runs that"
        " batch again, without rows, and connects"
        if never_reads
        else _START_OVER
    )
    remedies = (cure,) if sure else (f"if it is a socket: {cure}", _OTHERWISE)
    return Finding(
        code=Code.SOURCE_NOT_REPLAYABLE,
        severity=severity if sure or severity is Severity.NOTE else Severity.UNDEFINED,
        text=text,
        clues=(
            Clue(
                file=f"offsets/{planned}",
                expected=_EXPECTED,
                found=", ".join(str(source.raw) for source in sources[:_MOST_LISTED]),
            ),
        ),
        remedies=() if outcome is SocketOutcome.STARTS_FRESH else remedies,
    )


def _make_described_finding(source: SourceEvidence) -> Finding:
    return Finding(
        code=Code.SOURCE_NOT_REPLAYABLE,
        severity=Severity.LOSES,
        text=f"A restart will lose rows of source {source.name}, and fail once its numbers fall"
        f" behind the checkpoint: a {source.kind} source sends nothing twice.",
        clues=(
            Clue(
                file=f"offsets/{source.batch}",
                expected=_EXPECTED,
                found=f"a number of `{source.described}`, which only the process that wrote it"
                " could interpret",
            ),
        ),
        remedies=(_START_OVER,),
    )


def _make_shape_finding(sources: Sequence[SourceEvidence]) -> Finding:
    names = ", ".join(source.name for source in sources[:_MOST_LISTED])
    more = f" and {len(sources) - _MOST_LISTED} more" if len(sources) > _MOST_LISTED else ""
    single = len(sources) == 1
    condition = (
        f"If source {names} is a socket" if single else f"If sources {names}{more} are sockets"
    )
    shape = "It counts" if single else "They count"
    return Finding(
        code=Code.SOURCE_NOT_REPLAYABLE,
        severity=Severity.UNDEFINED,
        text=f"{condition}, a restart will lose rows, and fail once the numbers fall behind the"
        f" checkpoint. {shape} in bare numbers and kept nothing below `sources`, as a socket does.",
        clues=(
            Clue(
                file="sources",
                expected=f"a folder of source {sources[0].name}, as rate and file sources have",
                found="no such folder",
            ),
        ),
        remedies=(f"if it is a socket or a memory source: {_START_OVER}", _OTHERWISE),
    )
