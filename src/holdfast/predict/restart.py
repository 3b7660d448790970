"""What the next start does: Evidence, StartOptions -> Restart. Pure.

Spark begins at the latest entry of the offset log, O; C is the latest entry of the commit log.

    no O       batch 0, new
    C == O     batch O+1, new: from the end of O to wherever the sources are
    C < O      batch O again, over exactly its range; the batches between C and O count as done
    C > O      batch O again; its commit exists already, so Spark fails after the sink has written

This holds for micro-batches; `continuous` predicts continuous mode.
`start_errors` finds what stops Spark on the way, in the order of Spark's checks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from holdfast.model.evidence import Evidence, SourceLog
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.model.json import Json
from holdfast.model.restart import (
    AlternativeRestart,
    Restart,
    RunForecast,
    SourceRange,
    Stage,
    StartError,
    StartOptions,
)
from holdfast.model.spark_version import SparkVersion
from holdfast.model.state import make_lost_operator
from holdfast.predict import (
    continuous,
    kafka_ranges,
    next_batch,
    offset_spelling,
    sink_answer,
    sockets,
    source_errors,
    source_log,
    source_ranges,
    start_errors,
    state_errors,
    state_load,
    unread_files,
)
from holdfast.predict.next_batch import NextBatch
from holdfast.predict.sockets import SocketOutcome
from holdfast.spark import exceptions

STATE_LOST = "the query keeps state and its state is lost"
"""The condition of the alternative restart from a checkpoint without state."""
_UNNAMED = Unknown(reason="nothing names the operator")


def predict(evidence: Evidence, start: StartOptions) -> Restart:
    """Predict the next start; unknown if it reads files that holdfast could not read."""
    unread = unread_files.find(evidence)
    if unread:
        return _make_unknown(start, Unknown(reason=unread[0].description), None)
    if start.continuous:
        return continuous.predict(evidence, start)
    restart = _predict_micro_batch(evidence, start)
    otherwise = _predict_separate_sources(evidence, start) or _predict_lost_state(
        evidence, start, restart
    )
    return replace(restart, alternative=otherwise)


def _predict_separate_sources(evidence: Evidence, start: StartOptions) -> AlternativeRestart | None:
    """Return what a start does if lines that seem to be of one source are of several.

    A query that reads one source twice leaves one folder for equal lines. A query that reads two
    sources and has lost the folder of the second looks the same.
    """
    merged = [
        source
        for source in evidence.sources
        if source.same_as is not None and source.same_as.by_folders
    ]
    if not merged:
        return None
    separate = tuple(
        replace(source, folder=source.name, same_as=None) for source in evidence.sources
    )
    restart = _predict_micro_batch(replace(evidence, sources=separate), start)
    if restart.error is None and not restart.later:
        return None
    names = " and ".join(source.name for source in merged)
    return AlternativeRestart(
        condition=f"source {names} has a folder of its own, which is lost", restart=restart
    )


def _predict_lost_state(
    evidence: Evidence, start: StartOptions, restart: Restart
) -> AlternativeRestart | None:
    """Return what a start does if the query keeps state and the checkpoint has none.

    A query without state leaves no sign of that, and a query whose folder `state` was deleted may
    leave none either. Only a run record or an event log can tell the two apart.
    """
    if evidence.operators or evidence.stateless or restart.error is not None:
        return None
    if isinstance(restart.batch, Unknown) or restart.batch == 0:
        return None
    lost = make_lost_operator(0, _UNNAMED, "nothing is there")
    stateful = _predict_micro_batch(replace(evidence, operators=(lost,)), start)
    return AlternativeRestart(condition=STATE_LOST, restart=stateful)


def _predict_micro_batch(evidence: Evidence, start: StartOptions) -> Restart:
    following = next_batch.find(evidence, start)
    error = _find_first_error(start_errors.find_at_start(evidence, start), start)
    if isinstance(following, Unknown):
        return _make_unknown(start, following, error)
    outcome = sockets.find_outcome(evidence, start.spark)
    runs = _forecast_run(evidence, following, outcome)
    ranges = tuple(source_ranges.list_ranges(evidence, following, outcome))
    loads = state_load.list_next_loads(evidence, following.batch, start.spark)
    error = error or _find_first_error(
        _find_batch_errors(evidence, start, following, ranges), start
    )
    # A start that fails at this batch fails there again, and never reaches a later batch.
    ends = error is not None and not start.asynchronous
    later = () if ends else tuple(_find_later_errors(evidence, following, start.spark))
    later = tuple(exceptions.adapt_condition(failure, start.spark) for failure in later)
    return Restart(
        starting=start,
        batch=following.batch,
        rerun=following.rerun,
        runs=RunForecast.NOT if error is not None and isinstance(error.batch, Unknown) else runs,
        ranges=ranges,
        watermark_ms=next_batch.find_watermark(evidence, following),
        state=loads,
        sinks=sink_answer.predict(evidence, following.batch, rerun=following.rerun, error=error),
        error=_delay_error(error) if error is not None and start.asynchronous else error,
        later=tuple(_delay_error(failure) if start.asynchronous else failure for failure in later),
    )


def _find_first_error(errors: Iterator[StartError], start: StartOptions) -> StartError | None:
    error = next(errors, None)
    return error if error is None else exceptions.adapt_condition(error, start.spark)


def _make_unknown(start: StartOptions, batch: Unknown, error: StartError | None) -> Restart:
    return Restart(
        starting=start,
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
    evidence: Evidence, start: StartOptions, following: NextBatch, ranges: Sequence[SourceRange]
) -> Iterator[StartError]:
    """Yield what stops the batch itself, in Spark's order."""
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
        socket_error = sockets.find_error(evidence, following.batch, start.spark)
        if socket_error is not None and socket_error.batch == following.batch:
            yield socket_error
        yield from start_errors.find_blocked_entries(evidence, following.batch)
        yield from source_errors.find_logs_behind(evidence, following.batch, following.end)
    yield from state_errors.find(evidence, start, following.batch)
    if following.rerun:
        yield from start_errors.find_bare_entry(evidence, start.spark, following.batch, rerun=True)
    yield from start_errors.find_at_commit(evidence, following.batch, start.spark)


def _find_later_errors(
    evidence: Evidence, following: NextBatch, spark: SparkVersion
) -> Iterator[StartError]:
    """Yield what stops the batches after the next one."""
    socket_error = sockets.find_error(evidence, following.batch, spark)
    if socket_error is not None:
        yield socket_error
    if following.rerun:
        after = BatchId(following.batch + 1)
        yield from source_errors.find_logs_behind(evidence, after, following.end)
    yield from start_errors.find_in_later_batches(evidence, following.batch, spark)


def _delay_error(error: StartError) -> StartError:
    """Return an error as asynchronous tracking raises it.

    Another thread writes the logs, so errors from writing them come late, or never.
    """
    is_write = error.read_from[0].startswith(("offsets/", "commits/"))
    is_write = is_write and error.exceptions != exceptions.NULL
    if not is_write or error.stage not in (Stage.PLANNING, Stage.COMMITTING):
        return error
    return replace(error, stage=Stage.AFTERWARDS, exceptions=("CompletionException",))


def _forecast_run(
    evidence: Evidence, following: NextBatch, outcome: SocketOutcome | None
) -> RunForecast:
    """Return whether the batch runs.

    If the log of a source is ahead of the offset log, Spark runs a batch with or without new data.
    """
    if outcome is SocketOutcome.NEVER_READS:
        return RunForecast.NOT
    if following.rerun or outcome is not None:
        return RunForecast.SURELY
    folders = source_log.map_folders(evidence)
    offsets = {folders.get(line.source, line.source): line.offset for line in following.end.sources}
    # Spark compares its own position with the position of the source by their texts.
    if offset_spelling.find_respelled(evidence, following.end):
        return RunForecast.SURELY
    # If the log of a source is unknown, so is whether it is ahead.
    unsure = any(
        isinstance(folders.get(line.source), Unknown) and _read_log_offset(line.offset, None) >= 0
        for line in following.end.sources
    )
    behind = unsure
    for name, log in evidence.source_logs.items():
        if not log.is_file_log:
            continue
        if unsure and name not in offsets:
            continue
        position = _read_log_offset(offsets.get(name), log)
        if source_log.find_latest(log) > position:
            return RunForecast.SURELY
        behind = behind or source_log.find_latest(log) < position
    return RunForecast.UNKNOWN if behind else RunForecast.IF_THERE_IS_DATA


def _read_log_offset(offset: Json, log: SourceLog | None) -> int:
    log_offset = source_log.read_offset(offset, log)
    return -1 if log_offset is None else log_offset
