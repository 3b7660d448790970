"""Evidence -> one sentence: how the checkpoint stands, by what a restart would do with it.

Spark begins at the latest offset entry. If its commit is there the batch is done; otherwise
exactly that batch runs again over exactly that range, and no earlier one. Continuous mode begins
at the latest commit.
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
    """How the checkpoint stands."""
    opened = [one.kind for one in evidence.sources if one.open_ended]
    standing = judge_batches(
        evidence.batches,
        open_ended=opened[0] if opened else "",
        writes_nothing=empty_batch.writes_nothing(evidence),
    )
    if standing.level is Level.BAD:
        return standing
    failure = _find_failure(evidence)
    notes = [*_note_lost_query_id(evidence), *_note_half_emptied(evidence), *_note_unread(evidence)]
    if failure is None:
        return _add_notes(standing, notes)
    fails, error = failure
    wrote = evidence.spark_versions
    if isinstance(wrote, Runtime):
        unsaid = f"of a start of {wrote.name}, which wrote it, nothing is predicted"
        return _add_notes(standing, [fails, unsaid, *notes])
    if error.unless:
        return _add_notes(standing, [fails, *notes])
    return _make_bad(f"{standing.text}; but {fails}")


def make_row(evidence: Evidence) -> CheckpointRow:
    """One checkpoint among others: of the evidence, what fits into a line."""
    return CheckpointRow(
        location=evidence.location.value,
        query_id=evidence.query_id,
        batches=evidence.batches,
        changed_ms=evidence.changed_ms,
        verdict=judge(evidence),
    )


def _add_notes(standing: Verdict, notes: Sequence[str]) -> Verdict:
    if not notes:
        return standing
    return Verdict(level=Level.CAREFUL, text="; ".join((standing.text, *notes)))


def _find_failure(evidence: Evidence) -> tuple[str, StartError] | None:
    """How a start fails, if it does; of a gap the standing says what can be said.

    Where the version is unknown, a start with any of the possible versions counts.
    """
    starts = candidates.list_candidates(evidence, None, asynchronous=False)
    planned = evidence.batches.last_planned
    gap = planned and not spans_contain(evidence.batches.offset_spans, planned - 1)
    if gap and not starts[0].continuous:
        return None
    every = [restart.predict(evidence, how) for how in starts]
    failed = [(one, one.error) for one in every if one.error is not None]
    if not failed:
        return None
    predicted, error = next((one for one in failed if not one[1].unless), failed[0])
    sparks = [one.starting.spark for one, other in failed if other.stage is error.stage]
    named = (
        f"{predicted.starting.spark}"
        if len(sparks) == len(starts)
        else versions.format_versions(sorted(sparks))
    )
    whose = "Apache Spark" if isinstance(evidence.spark_versions, Runtime) else "Spark"
    return start_failure.format_sentence(f"a start of {whose} {named}", predicted, error), error


def _note_lost_query_id(evidence: Evidence) -> Iterator[str]:
    """A query that has lost its id goes on under another, up to Spark 4.1."""
    if isinstance(evidence.query_id, Absent) and evidence.batches.last_planned is not None:
        yield evidence.query_id.reason


def _note_half_emptied(evidence: Evidence) -> Iterator[str]:
    """A source keeps something only when a batch is planned, or is about to be."""
    batches = evidence.batches
    begun = batches.last_planned is not None or batches.last_committed is not None
    if evidence.source_logs and not begun and not batches.unlisted:
        yield f"`sources/{min(evidence.source_logs)}` has what a source kept of a start"


def _note_unread(evidence: Evidence) -> list[str]:
    """What the standing may lack, in words; what it names itself is not said twice."""
    hidden = {one.path for one in evidence.batches.unlisted}
    named = [one for one in evidence.unreadable if not one.outside and one.path not in hidden]
    forbidden = [one for one in named if one.forbidden]
    long = [one for one in named if one.too_long]
    others = len(named) - len(forbidden) - len(long) + evidence.unreadable_more
    told: list[str] = []
    if forbidden:
        more = f" and {len(forbidden) - 1:,} more" if len(forbidden) > 1 else ""
        told.append(f"this user may not read `{forbidden[0].path}`{more}")
    if long:
        more = f", nor were {len(long) - 1:,} more" if len(long) > 1 else ""
        told.append(f"{long[0].description}{more}")
    if others:
        told.append(f"{'1 file' if others == 1 else f'{others:,} files'} cannot be read")
    return told


def judge_batches(
    batches: Batches, *, open_ended: str = "", writes_nothing: bool = False
) -> Verdict:
    """How the checkpoint stands, by the names in its two logs alone.

    `open_ended` is the kind of a source, if there is one, that logs no end of a batch.
    `writes_nothing`: the last planned batch is known to have no rows.
    """
    planned, committed = batches.last_planned, batches.last_committed
    if batches.unlisted:
        return _judge_unlisted(batches, batches.unlisted[0])
    if planned is None:
        if committed is None:
            return Verdict(
                level=Level.GOOD,
                text="no batch is planned: it has not begun, or its logs were deleted",
            )
        return _make_bad(
            f"commits up to batch {committed} and no offset entry: Spark cannot go on from here"
        )
    if batches.continuous:
        return _judge_epochs(batches, planned)
    standing = _judge_planned(batches, planned, open_ended)
    if writes_nothing and list(batches.pending) == [planned] and standing.level is Level.CAREFUL:
        return Verdict(
            level=Level.GOOD,
            text=f"batch {planned} is planned and not committed, and has no rows to read: it runs"
            " now, or a restart runs it again and writes nothing",
        )
    return standing


def _judge_planned(batches: Batches, planned: int, open_ended: str) -> Verdict:
    committed = batches.last_committed
    if committed is not None and committed > planned:
        return _make_bad(
            f"batch {committed} is committed, but the offset log ends at {planned}: a restart runs"
            f" batch {planned} again, writes it to the sink, and from Spark 3.1 on then fails"
        )
    if planned > 0 and not spans_contain(batches.offset_spans, planned - 1):
        return _judge_gap(batches, planned)
    again = (
        f"again from where it began, to what {open_ended} holds then"
        if open_ended
        else "again over the same range"
    )
    return _judge_pending(batches, planned, again)


def _judge_unlisted(batches: Batches, log: UnreadableFile) -> Verdict:
    """A log whose names cannot be had: what the other one says is half of it."""
    seen = ""
    if batches.last_planned is not None:
        seen = f"batch {batches.last_planned} is planned, and whether it is committed is not known"
    elif batches.last_committed is not None:
        seen = f"batch {batches.last_committed} is committed, and what is planned is not known"
    level = Level.CAREFUL if log.forbidden else Level.BAD
    return Verdict(
        level=level, text=f"{seen or 'which batches there are is not known'}: {log.description}"
    )


def _judge_epochs(batches: Batches, planned: int) -> Verdict:
    """Continuous mode: where the last committed epoch ended is all that a restart asks for."""
    committed, pending = batches.last_committed, batches.pending
    if committed is not None and not spans_contain(batches.offset_spans, committed):
        return _make_bad(
            f"epoch {committed} of continuous mode is committed, and `offsets/{committed}` is"
            " missing: a restart fails"
        )
    if not pending:
        return Verdict(
            level=Level.GOOD,
            text=f"at rest: epoch {planned} of continuous mode is committed, nothing is pending",
        )
    which = f"epoch {planned}" if len(pending) == 1 else f"epochs {pending[0]} to {planned}"
    begins = (
        "begins anew, where the source begins"
        if committed is None
        else f"reads again from the end of epoch {committed}, as far as there is data"
    )
    text = (
        f"{which} of continuous mode {'is' if len(pending) == 1 else 'are'} not committed: it runs"
        f" now, or a restart {begins}, and writes again what was written since"
    )
    return Verdict(level=Level.CAREFUL, text=text)


def _judge_gap(batches: Batches, planned: int) -> Verdict:
    """The entry before the last is missing, which only asynchronous progress tracking can bear."""
    missing = f"offset entry {planned - 1} is missing beside entry {planned}"
    if batches.last_committed == planned and not spans_contain(batches.commit_spans, planned - 1):
        text = (
            f"at rest: batch {planned} is committed; {missing}, as asynchronous progress tracking"
            " leaves it, and without that a restart fails"
        )
        return Verdict(level=Level.CAREFUL, text=text)
    return _make_bad(f"{missing}: a restart fails, unless the query tracks progress asynchronously")


def _judge_pending(batches: Batches, planned: int, again: str) -> Verdict:
    if not batches.pending:
        return Verdict(
            level=Level.GOOD, text=f"at rest: batch {planned} is committed, nothing is pending"
        )
    first, last = batches.pending[0], batches.pending[-1]
    if batches.no_commit_log:
        return Verdict(
            level=Level.CAREFUL,
            text=f"whether batch {last} has ended is not known, as Spark 2.1 keeps no commit log: a"
            f" restart runs it {again}",
        )
    if batches.lacks_commits:
        return Verdict(
            level=Level.CAREFUL,
            text=f"no batch is committed although batch {last} is planned: the commits were not"
            f" copied, or were deleted; a restart runs batch {last} {again}, even if it was done",
        )
    text = (
        f"batch {last} is planned and not committed: it runs now, or a restart runs it {again}"
        if first == last
        else f"batches {first} to {last} are planned and not committed: a restart runs only batch"
        f" {last}, and counts the others as done"
    )
    return Verdict(level=Level.CAREFUL, text=text)


def _make_bad(text: str) -> Verdict:
    return Verdict(level=Level.BAD, text=text)
