"""Evidence -> one sentence: how the checkpoint stands, by what a restart would do with it.

Spark begins at the latest offset entry. If its commit is there the batch is done; otherwise
exactly that batch runs again over exactly that range, and no earlier one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from holdfast.model.evidence import Batches, Evidence, Span, UnreadableFile


class Level(StrEnum):
    """How much attention a verdict needs."""

    GOOD = "good"
    CAREFUL = "careful"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The sentence and how serious it is."""

    level: Level
    text: str


def of(evidence: Evidence) -> Verdict:
    """How the checkpoint stands."""
    damage = _damage(evidence)
    if damage:
        return Verdict(level=Level.BAD, text=damage)
    standing = of_batches(evidence.batches)
    unread = len(evidence.unreadable) + evidence.unreadable_more
    if not unread or standing.level is Level.BAD:
        return standing
    files = "1 file" if unread == 1 else f"{unread:,} files"
    return Verdict(level=Level.CAREFUL, text=f"{standing.text}; {files} cannot be read")


def of_batches(batches: Batches) -> Verdict:
    """How the checkpoint stands, by the names in its two logs alone."""
    planned, committed = batches.last_planned, batches.last_committed
    if planned is None:
        if committed is None:
            return Verdict(level=Level.GOOD, text="not started: no batch was ever planned")
        return _bad(
            f"commits up to batch {committed} and no offset entry: Spark cannot go on from here"
        )
    if committed is not None and committed > planned:
        return _bad(
            f"batch {committed} is committed, but the offset log ends at {planned}: a restart runs"
            f" batch {planned} again, writes it to the sink, and then fails"
        )
    if planned > 0 and not _holds(batches.offset_spans, planned - 1):
        return _of_gap(batches, planned)
    return _of_pending(batches, planned)


def _of_gap(batches: Batches, planned: int) -> Verdict:
    """The entry before the last is missing, which only asynchronous progress tracking can bear."""
    missing = f"offset entry {planned - 1} is missing beside entry {planned}"
    if batches.last_committed == planned and not _holds(batches.commit_spans, planned - 1):
        text = (
            f"at rest: batch {planned} is committed; {missing}, as asynchronous progress tracking"
            " leaves it, and without that a restart fails"
        )
        return Verdict(level=Level.CAREFUL, text=text)
    return _bad(f"{missing}: a restart fails, unless the query tracks progress asynchronously")


def _holds(spans: Sequence[Span], number: int) -> bool:
    return any(span.first <= number <= span.last for span in spans)


def _of_pending(batches: Batches, planned: int) -> Verdict:
    if not batches.pending:
        return Verdict(
            level=Level.GOOD, text=f"at rest: batch {planned} is committed, nothing is pending"
        )
    first, last = batches.pending[0], batches.pending[-1]
    text = (
        f"batch {last} is planned and not committed: it runs now, or a restart runs it again over"
        " the same range"
        if first == last
        else f"batches {first} to {last} are planned and not committed: a restart runs only batch"
        f" {last}, and counts the others as done"
    )
    return Verdict(level=Level.CAREFUL, text=text)


def _damage(evidence: Evidence) -> str:
    """What stops a restart, whatever else is there."""
    if isinstance(evidence.query_id, UnreadableFile):
        return f"`metadata` cannot be read ({evidence.query_id.reason}): a restart fails"
    if isinstance(evidence.source_offsets, UnreadableFile):
        fact = evidence.source_offsets
        return f"`{fact.path}`, where a restart begins, cannot be read ({fact.reason})"
    last = evidence.batches.last_committed
    for one in evidence.unreadable:
        if last is not None and one.path == f"commits/{last}":
            return f"`{one.path}`, the last commit, cannot be read ({one.reason}): a restart fails"
    return ""


def _bad(text: str) -> Verdict:
    return Verdict(level=Level.BAD, text=text)
