"""Evidence -> one sentence: the state of a checkpoint, judged by what a restart would do.

Spark starts at the latest offset entry. If that batch has a commit, it is done. Otherwise Spark
re-runs exactly that batch over exactly that range, and no earlier batch. Continuous mode starts at
the latest commit.
"""

from collections.abc import Iterator, Sequence

from holdfast.model.evidence import Batches, CheckpointRow, Evidence
from holdfast.model.fact import Absent, UnreadableFile
from holdfast.model.ids import spans_contain
from holdfast.model.restart import StartError
from holdfast.model.spark_version import Runtime
from holdfast.model.verdict import Level, Verdict
from holdfast.predict import candidates, empty_batch, restart
from holdfast.report import start_failure
from holdfast.spark import versions


def judge(evidence: Evidence) -> Verdict:
    """Return the verdict on a checkpoint."""
    open_ended = [source.kind for source in evidence.sources if source.open_ended]
    by_batches = judge_batches(
        evidence.batches,
        open_ended=open_ended[0] if open_ended else "",
        writes_nothing=empty_batch.writes_nothing(evidence),
    )
    if by_batches.level is Level.BAD:
        return by_batches
    failure = _find_failure(evidence)
    notes = [*_note_lost_query_id(evidence), *_note_half_emptied(evidence), *_note_unread(evidence)]
    if failure is None:
        return _add_notes(by_batches, notes)
    fails, error = failure
    writer = evidence.spark_versions
    if isinstance(writer, Runtime):
        not_predicted = f"{writer.name} wrote this checkpoint, and its restart is not predicted"
        return _add_notes(by_batches, [fails, not_predicted, *notes])
    if error.unless:
        return _add_notes(by_batches, [fails, *notes])
    return _make_bad(f"{by_batches.text}; but {fails}")


def make_row(evidence: Evidence) -> CheckpointRow:
    """Return the part of the evidence that a list of checkpoints shows in one row."""
    return CheckpointRow(
        location=evidence.location.value,
        query_id=evidence.query_id,
        batches=evidence.batches,
        changed_ms=evidence.changed_ms,
        verdict=judge(evidence),
    )


def _add_notes(verdict: Verdict, notes: Sequence[str]) -> Verdict:
    if not notes:
        return verdict
    return Verdict(level=Level.CAREFUL, text="; ".join((verdict.text, *notes)))


def _find_failure(evidence: Evidence) -> tuple[str, StartError] | None:
    """Return how a restart fails, if it does; a gap in the offset log has its own verdict.

    If the version is unknown, a failure with any of the possible versions counts.
    """
    starts = candidates.list_candidates(evidence, None, asynchronous=False)
    planned = evidence.batches.last_planned
    has_gap = planned and not spans_contain(evidence.batches.offset_spans, planned - 1)
    if has_gap and not starts[0].continuous:
        return None
    predictions = [restart.predict(evidence, start) for start in starts]
    failures = [(result, result.error) for result in predictions if result.error is not None]
    if not failures:
        return None
    predicted, error = next((pair for pair in failures if not pair[1].unless), failures[0])
    sparks = [result.starting.spark for result, other in failures if other.stage is error.stage]
    named = (
        f"{predicted.starting.spark}"
        if len(sparks) == len(starts)
        else versions.format_versions(sorted(sparks))
    )
    product = "Apache Spark" if isinstance(evidence.spark_versions, Runtime) else "Spark"
    subject = f"a restart with {product} {named}"
    return start_failure.format_sentence(subject, predicted, error), error


def _note_lost_query_id(evidence: Evidence) -> Iterator[str]:
    """Up to Spark 4.1, a query that has lost its id continues under a new id."""
    if isinstance(evidence.query_id, Absent) and evidence.batches.last_planned is not None:
        yield evidence.query_id.reason


def _note_half_emptied(evidence: Evidence) -> Iterator[str]:
    """A source writes files only when a batch is planned or is about to be."""
    batches = evidence.batches
    has_batches = batches.last_planned is not None or batches.last_committed is not None
    if evidence.source_logs and not has_batches and not batches.unlisted:
        yield f"`sources/{min(evidence.source_logs)}` has files that a source wrote at a start"


def _note_unread(evidence: Evidence) -> list[str]:
    """Return notes on the files that were not read, except those that the verdict already names."""
    unlisted = {log.path for log in evidence.batches.unlisted}
    files = [file for file in evidence.unreadable if not file.outside and file.path not in unlisted]
    forbidden = [file for file in files if file.forbidden]
    too_long = [file for file in files if file.too_long]
    others = len(files) - len(forbidden) - len(too_long) + evidence.unreadable_more
    notes: list[str] = []
    if forbidden:
        more = f" and {len(forbidden) - 1:,} more" if len(forbidden) > 1 else ""
        notes.append(f"this user may not read `{forbidden[0].path}`{more}")
    if too_long:
        more = f", nor were {len(too_long) - 1:,} more" if len(too_long) > 1 else ""
        notes.append(f"{too_long[0].description}{more}")
    if others:
        notes.append(f"{'1 file' if others == 1 else f'{others:,} files'} cannot be read")
    return notes


def judge_batches(
    batches: Batches, *, open_ended: str = "", writes_nothing: bool = False
) -> Verdict:
    """Return the verdict by the file names in the two logs alone.

    `open_ended` is the kind of a source that logs no end of a batch, or empty. `writes_nothing`:
    the last planned batch is known to have no rows.
    """
    planned, committed = batches.last_planned, batches.last_committed
    if batches.unlisted:
        return _judge_unlisted(batches, batches.unlisted[0])
    if planned is None:
        if committed is None:
            return _make_good(
                "no batch is planned: the query has not run yet, or its logs were deleted"
            )
        return _make_bad(
            f"Spark cannot continue from here: batch {committed} is committed, but the offset log"
            " is empty"
        )
    if batches.continuous:
        return _judge_epochs(batches, planned)
    verdict = _judge_planned(batches, planned, open_ended)
    if writes_nothing and list(batches.pending) == [planned] and verdict.level is Level.CAREFUL:
        return _make_good(
            f"batch {planned} is planned but not committed, and has no rows to read: it is running"
            " now, or a restart runs it again and writes nothing"
        )
    return verdict


def _judge_planned(batches: Batches, planned: int, open_ended: str) -> Verdict:
    committed = batches.last_committed
    if committed is not None and committed > planned:
        return _make_bad(
            f"batch {committed} is committed, but the offset log ends at batch {planned}: a restart"
            f" writes batch {planned} to the sink again, and from Spark 3.1 on then fails"
        )
    if planned > 0 and not spans_contain(batches.offset_spans, planned - 1):
        return _judge_gap(batches, planned)
    again = (
        f"again from the same start, up to the newest data that {open_ended} then has"
        if open_ended
        else "again over the same range"
    )
    return _judge_pending(batches, planned, again)


def _judge_unlisted(batches: Batches, log: UnreadableFile) -> Verdict:
    """Judge a checkpoint with a log that cannot be listed; the other log is half of the truth."""
    text = "the batches are unknown"
    if batches.last_planned is not None:
        text = f"batch {batches.last_planned} is planned; whether it is committed is unknown"
    elif batches.last_committed is not None:
        text = f"batch {batches.last_committed} is committed; which batches are planned is unknown"
    level = Level.CAREFUL if log.forbidden else Level.BAD
    return Verdict(level=level, text=f"{text}: {log.description}")


def _judge_epochs(batches: Batches, planned: int) -> Verdict:
    """Judge continuous mode, whose restart needs only the end of the last committed epoch."""
    committed, pending = batches.last_committed, batches.pending
    if committed is not None and not spans_contain(batches.offset_spans, committed):
        return _make_bad(
            f"a restart fails: epoch {committed} of continuous mode is committed, but"
            f" `offsets/{committed}` is missing"
        )
    if not pending:
        return _make_good(
            f"idle: epoch {planned} of continuous mode is committed, nothing is pending"
        )
    epochs, runs = (
        (f"epoch {planned} of continuous mode is", "it is running")
        if len(pending) == 1
        else (f"epochs {pending[0]} to {planned} of continuous mode are", "they are running")
    )
    reads = (
        "starts over where the source starts"
        if committed is None
        else f"reads again from the end of epoch {committed} up to the newest data"
    )
    return _make_careful(
        f"{epochs} not committed: {runs} now, or a restart {reads} and writes again what was"
        " written since"
    )


def _judge_gap(batches: Batches, planned: int) -> Verdict:
    """Judge a missing entry before the last one, which only asynchronous progress survives."""
    if batches.last_committed == planned and not spans_contain(batches.commit_spans, planned - 1):
        return _make_careful(
            f"idle: batch {planned} is committed; offset entry {planned - 1} is missing, which is"
            " normal with asynchronous progress tracking; without it, a restart fails"
        )
    return _make_bad(
        f"a restart fails, unless the query tracks progress asynchronously: offset entry"
        f" {planned - 1} is missing before entry {planned}"
    )


def _judge_pending(batches: Batches, planned: int, again: str) -> Verdict:
    if not batches.pending:
        return _make_good(f"idle: batch {planned} is committed, nothing is pending")
    first, last = batches.pending[0], batches.pending[-1]
    if batches.no_commit_log:
        return _make_careful(
            f"a restart runs batch {last} {again}: Spark 2.1 keeps no commit log, so whether the"
            " batch has ended is unknown"
        )
    if batches.lacks_commits:
        return _make_careful(
            f"no batch is committed although batch {last} is planned: the commits were not copied,"
            f" or were deleted; a restart runs batch {last} {again}, even if it had finished"
        )
    if first == last:
        return _make_careful(
            f"batch {last} is planned but not committed: it is running now, or a restart runs it"
            f" {again}"
        )
    return _make_careful(
        f"batches {first} to {last} are planned but not committed: a restart runs only batch {last}"
        " and treats the others as done"
    )


def _make_good(text: str) -> Verdict:
    return Verdict(level=Level.GOOD, text=text)


def _make_careful(text: str) -> Verdict:
    return Verdict(level=Level.CAREFUL, text=text)


def _make_bad(text: str) -> Verdict:
    return Verdict(level=Level.BAD, text=text)
