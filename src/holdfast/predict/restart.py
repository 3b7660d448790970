"""Stage 3: Evidence and how the query will be started -> what the restart does. Pure.

Spark begins at the latest entry of the offset log, O; C is the latest entry of the commit log.

    no O       batch 0, new
    C == O     batch O+1, new: from the end of O to wherever the sources are
    C < O      batch O again, over exactly its range; what lies between C and O counts as done
    C > O      batch O again; its commit is there already, so Spark fails after the sink has written

That is so for micro-batches; `epochs` says what continuous mode does.
`start_errors` says what stops Spark on the way, in the order in which Spark looks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.decode import source_offset
from holdfast.model.evidence import Evidence, SourceEvidence, SourceLog
from holdfast.model.fact import Known, Unknown
from holdfast.model.ids import BatchId
from holdfast.model.json import Json
from holdfast.model.offsets import OffsetEntry, SourceOffset
from holdfast.model.restart import (
    AlternativeRestart,
    Restart,
    RunForecast,
    SourceRange,
    Stage,
    StartError,
    StartOptions,
)
from holdfast.model.spark_version import Runtime, SparkVersion
from holdfast.model.state import make_lost_operator
from holdfast.predict import (
    continuous,
    kafka_ranges,
    offset_spelling,
    sink_answer,
    sockets,
    source_errors,
    source_log,
    start_errors,
    state_load,
    unread_files,
)
from holdfast.spark import exceptions, versions
from holdfast.spark.versions import NEWEST

_DECIDED = Unknown(reason="the source decides when the batch is planned, or read")
_UNREADABLE = Unknown(reason="the latest offset entry cannot be read")
_NAME = re.compile(r"\w+")
_RAN_LAST = "as it ran last"
STATE_LOST = "the query keeps state, which is lost"
"""The condition of the other reading, where a checkpoint has no state."""
_EMPTY = OffsetEntry(version=1, watermark_ms=0, timestamp_ms=0, settings={}, sources=())


@dataclass(frozen=True, slots=True, kw_only=True)
class _NextBatch:
    """The batch that comes next, with the entries it lies between."""

    batch: BatchId
    rerun: bool
    before: OffsetEntry
    end: OffsetEntry
    earlier: BatchId | None = None
    """The entry that `before` is."""


def choose_start(
    evidence: Evidence, asked: SparkVersion | None, *, asynchronous: bool
) -> StartOptions:
    """Which Spark will start: the one asked for, the one that the evidence names, or the newest.

    In continuous mode, if that wrote the checkpoint; it knows no asynchronous tracking.
    """
    spark, chosen = _choose_spark(evidence, asked)
    continuous = evidence.batches.continuous and not asynchronous
    return StartOptions(
        spark=spark, chosen_because=chosen, asynchronous=asynchronous, continuous=continuous
    )


def list_candidates(
    evidence: Evidence, asked: SparkVersion | None, *, asynchronous: bool
) -> tuple[StartOptions, ...]:
    """Return every Spark that may start the query, the most likely one first.

    There is one if the caller or a run names it. Otherwise each version that may have written the
    checkpoint may start it, and of a checkpoint that says nothing, each that is supported.
    """
    likely = choose_start(evidence, asked, asynchronous=asynchronous)
    others = (
        () if asked is not None or likely.chosen_because == _RAN_LAST else _list_possible(evidence)
    )
    return (likely, *(replace(likely, spark=one) for one in others if one != likely.spark))


def _list_possible(evidence: Evidence) -> tuple[SparkVersion, ...]:
    wrote = evidence.spark_versions
    if isinstance(wrote, Runtime | Unknown):
        return versions.list_between(versions.PREDICTED_SINCE, versions.NEWEST)
    return versions.list_between(wrote.lowest, wrote.highest)


def _choose_spark(evidence: Evidence, asked: SparkVersion | None) -> tuple[SparkVersion, str]:
    if asked is not None:
        return asked, "as asked for"
    told = evidence.spark_version
    numbers = told.value.split(".") if isinstance(told, Known) and not told.inferred else []
    if len(numbers) > 1 and numbers[0].isdecimal() and numbers[1].isdecimal():
        return SparkVersion(int(numbers[0]), int(numbers[1])), _RAN_LAST
    told_range = evidence.spark_versions
    if isinstance(told_range, Runtime):
        return NEWEST, f"the newest of Apache; {told_range.name} wrote it"
    if not isinstance(told_range, Unknown):
        exact = told_range.lowest == told_range.highest
        chosen = "which wrote it" if exact else "the newest that can have written it"
        return told_range.highest, chosen
    return NEWEST, "the newest"


def predict(evidence: Evidence, how: StartOptions) -> Restart:
    """What the next start does; nothing is said where it reads what this look could not."""
    hidden = unread_files.find(evidence)
    if hidden:
        return _make_unknown(how, Unknown(reason=hidden[0].description), None)
    if how.continuous:
        return continuous.predict(evidence, how)
    found = _predict_micro_batch(evidence, how)
    otherwise = _predict_separate_sources(evidence, how) or _predict_lost_state(
        evidence, how, found
    )
    return replace(found, alternative=otherwise)


def _predict_separate_sources(evidence: Evidence, how: StartOptions) -> AlternativeRestart | None:
    """What a start does if lines that are taken for one source are of several.

    One folder for equal lines is what a query leaves that reads a source twice, and also what is
    left of one that reads two where the folder of the second is lost.
    """
    taken = [one for one in evidence.sources if one.same_as is not None and one.same_as.by_folders]
    if not taken:
        return None
    apart = tuple(replace(one, folder=one.name, same_as=None) for one in evidence.sources)
    restart = _predict_micro_batch(replace(evidence, sources=apart), how)
    if restart.error is None and not restart.later:
        return None
    names = " and ".join(one.name for one in taken)
    return AlternativeRestart(
        condition=f"source {names} has a folder of its own, which is lost", restart=restart
    )


def _predict_lost_state(
    evidence: Evidence, how: StartOptions, found: Restart
) -> AlternativeRestart | None:
    """What a start does if the query keeps state, of which there is none.

    A query without state leaves no trace of that, and a query whose folder `state` was deleted may
    leave none either. Only a run record or an event log can tell the two apart.
    """
    known = evidence.operators or evidence.stateless
    if known or found.error is not None or isinstance(found.batch, Unknown) or found.batch == 0:
        return None
    lost = make_lost_operator(0, _DECIDED, "nothing is there")
    restart = _predict_micro_batch(replace(evidence, operators=(lost,)), how)
    return AlternativeRestart(condition=STATE_LOST, restart=restart)


def _predict_micro_batch(evidence: Evidence, how: StartOptions) -> Restart:
    following = _find_next(evidence, how)
    error = _find_first_error(start_errors.find_at_start(evidence, how), how)
    if isinstance(following, Unknown):
        return _make_unknown(how, following, error)
    course = sockets.find_course(evidence, how.spark)
    runs = _forecast_run(evidence, following, course)
    ranges = tuple(_list_ranges(evidence, following, course))
    loads = state_load.list_next_loads(evidence, following.batch, how.spark)
    error = error or _find_first_error(_find_batch_errors(evidence, how, following, ranges), how)
    # A start that fails at this batch fails there again: it does not come to a later one.
    ends = error is not None and not how.asynchronous
    later = () if ends else tuple(_find_later_errors(evidence, following, how.spark))
    later = tuple(exceptions.adapt_condition(one, how.spark) for one in later)
    return Restart(
        starting=how,
        batch=following.batch,
        rerun=following.rerun,
        runs=RunForecast.NOT if error is not None and isinstance(error.batch, Unknown) else runs,
        ranges=ranges,
        watermark_ms=_find_watermark(evidence, following),
        state=loads,
        sinks=sink_answer.predict(evidence, following.batch, rerun=following.rerun, error=error),
        error=_delay_error(error) if error is not None and how.asynchronous else error,
        later=tuple(_delay_error(one) if how.asynchronous else one for one in later),
    )


def _find_first_error(errors: Iterator[StartError], how: StartOptions) -> StartError | None:
    found = next(errors, None)
    return found if found is None else exceptions.adapt_condition(found, how.spark)


def _find_next(evidence: Evidence, how: StartOptions) -> _NextBatch | Unknown:
    planned, committed = evidence.batches.last_planned, evidence.batches.last_committed
    if planned is None:
        return _NextBatch(batch=BatchId(0), rerun=False, before=_EMPTY, end=_EMPTY)
    end = evidence.offset_entries.get(planned)
    if end is None:
        return _UNREADABLE
    earlier = start_errors.find_entry_before(evidence, planned, how)
    before = evidence.offset_entries.get(earlier, _EMPTY) if earlier is not None else _EMPTY
    if committed == planned:
        stands = _merge_positions(before, end)
        return _NextBatch(batch=BatchId(planned + 1), rerun=False, before=stands, end=stands)
    return _NextBatch(batch=planned, rerun=True, before=before, end=end, earlier=earlier)


def _merge_positions(before: OffsetEntry, end: OffsetEntry) -> OffsetEntry:
    """Where the sources stand after a batch: one without an offset in it, where it stood before.

    What no source can be called, Spark passes over.
    """
    ended = {one.source: one for one in end.sources if one.offset is not None}
    earlier = {one.source: one for one in before.sources if one.offset is not None}
    named = dict.fromkeys([*(one.source for one in end.sources), *earlier])
    sources = (
        ended.get(name) or earlier.get(name) or SourceOffset(source=name, offset=None)
        for name in named
        if _NAME.fullmatch(name)
    )
    return replace(end, sources=tuple(sources))


def _make_unknown(how: StartOptions, batch: Unknown, error: StartError | None) -> Restart:
    return Restart(
        starting=how,
        batch=batch,
        rerun=False,
        runs=RunForecast.NOT if error is not None else RunForecast.UNKNOWN,
        ranges=(),
        watermark_ms=batch,
        state=(),
        sinks=(),
        error=error,
        later=(),
    )


def _find_batch_errors(
    evidence: Evidence, how: StartOptions, following: _NextBatch, ranges: Sequence[SourceRange]
) -> Iterator[StartError]:
    """What stops the batch itself, in Spark's order."""
    yield from source_errors.find_in_epochs(evidence)
    if following.rerun:
        entries = {following.batch: following.end}
        if following.earlier is not None:
            entries[following.earlier] = following.before
        yield from source_errors.find_misread(evidence, entries, batch=following.batch)
        yield from source_errors.find_in_ranges(
            evidence, following.before, following.end, batch=following.batch
        )
        yield from kafka_ranges.find_errors(evidence, ranges, following.batch)
    else:
        planned = evidence.batches.last_planned
        if planned is not None:
            entry = evidence.offset_entries[planned]
            yield from source_errors.find_misread(evidence, {planned: entry})
        stopped = sockets.find_error(evidence, following.batch, how.spark)
        if stopped is not None and stopped.batch == following.batch:
            yield stopped
        yield from start_errors.find_blocked_entries(evidence, following.batch)
        yield from source_errors.find_logs_behind(evidence, following.batch, following.end)
    yield from state_load.find_errors(evidence, how, following.batch)
    if following.rerun:
        yield from start_errors.find_bare_entry(evidence, how.spark, following.batch, rerun=True)
    yield from start_errors.find_at_commit(evidence, following.batch, how.spark)


def _find_later_errors(
    evidence: Evidence, following: _NextBatch, spark: SparkVersion
) -> Iterator[StartError]:
    """What stops the batches after it."""
    stopped = sockets.find_error(evidence, following.batch, spark)
    if stopped is not None:
        yield stopped
    if following.rerun:
        after = BatchId(following.batch + 1)
        yield from source_errors.find_logs_behind(evidence, after, following.end)
    yield from start_errors.find_in_later_batches(evidence, following.batch, spark)


def _delay_error(error: StartError) -> StartError:
    """With asynchronous tracking another thread writes the logs: its errors come late, or never."""
    written = error.read_from[0].startswith(("offsets/", "commits/"))
    written = written and error.exceptions != exceptions.NULL
    if not written or error.stage not in (Stage.PLANNING, Stage.COMMITTING):
        return error
    return replace(error, stage=Stage.AFTERWARDS, exceptions=("CompletionException",))


def _forecast_run(
    evidence: Evidence, following: _NextBatch, course: sockets.Course | None
) -> RunForecast:
    """A source whose log is ahead of the offset log makes a batch of that, new data or not."""
    if course is sockets.Course.NEVER_READS:
        return RunForecast.NOT
    if following.rerun or course is not None:
        return RunForecast.SURELY
    folders = source_log.map_folders(evidence)
    positions = {folders.get(one.source, one.source): one.offset for one in following.end.sources}
    # Spark compares where it stands with where the source is by their texts.
    if offset_spelling.find_respelled(evidence, following.end):
        return RunForecast.SURELY
    # Of a log that is not known it is not known either whether it is ahead.
    unsure = any(
        isinstance(folders.get(one.source), Unknown) and _read_log_offset(one.offset, None) >= 0
        for one in following.end.sources
    )
    behind = unsure
    for name, log in evidence.source_logs.items():
        if not log.is_file_log:
            continue
        if unsure and name not in positions:
            continue
        stands = _read_log_offset(positions.get(name), log)
        if source_log.find_latest(log) > stands:
            return RunForecast.SURELY
        behind = behind or source_log.find_latest(log) < stands
    return RunForecast.UNKNOWN if behind else RunForecast.IF_THERE_IS_DATA


def _read_log_offset(offset: Json, log: SourceLog | None) -> int:
    found = source_log.read_offset(offset, log)
    return -1 if found is None else found


def _list_ranges(
    evidence: Evidence, following: _NextBatch, course: sockets.Course | None
) -> Iterator[SourceRange]:
    seen = {one.name: one for one in evidence.sources}
    starts: Mapping[str, Json] = {one.source: one.offset for one in following.before.sources}
    for source in following.end.sources:
        known = seen.get(source.source)
        if known is not None and known.open_ended:
            yield _make_open_range(known, rerun=following.rerun)
            continue
        told = "" if known is None else known.described
        began = None if known is None else known.began
        start = source_offset.find_start(starts.get(source.source), began, described=told)
        end: Json | Unknown = source.offset if following.rerun else _DECIDED
        if course is sockets.Course.FAILS_SOON:
            end = sockets.AT_FIRST
        begin = source_offset.decode(start, described=told)
        yield SourceRange(
            source=source.source,
            kind=_name_kind(source.offset, told) if known is None else known.kind,
            other_kinds=() if known is None else known.other_kinds,
            start=start,
            end=end,
            consumed=end
            if isinstance(end, Unknown)
            else source_offset.compute_consumed(begin, source_offset.decode(end, described=told)),
            positions=source_offset.list_positions(begin),
        )


def _name_kind(offset: Json, described: str) -> str:
    found = source_offset.decode(offset, described=described)
    return source_offset.compute_consumed(found, found).source


def _make_open_range(source: SourceEvidence, *, rerun: bool) -> SourceRange:
    """From where a source reads whose entries say where a batch begins; to where, nothing says."""
    start = source.raw if rerun or isinstance(source.left_at, Unknown) else source.left_at
    return SourceRange(
        source=source.name,
        kind=source.kind,
        other_kinds=source.other_kinds,
        start=start,
        end=_DECIDED,
        consumed=_DECIDED,
        positions=source_offset.list_positions(
            source_offset.decode(start, described=source.described)
        ),
    )


def _find_watermark(evidence: Evidence, following: _NextBatch) -> int | Unknown:
    watermark = following.end.watermark_ms
    if following.rerun or following.batch == 0:
        return watermark
    commit = evidence.commit_entries.get(BatchId(following.batch - 1))
    if commit is None:
        return Unknown(reason="the latest commit entry cannot be read")
    told = commit.next_watermark_ms
    return watermark if isinstance(told, Unknown) else max(watermark, told)
