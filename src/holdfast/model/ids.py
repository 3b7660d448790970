"""Ids and names, each with its own type so that they cannot be mixed up; spans of ids."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NewType

JobName = NewType("JobName", str)
"""The name of a job: the stable part of its checkpoint location and of its ledger key."""

OutputName = NewType("OutputName", str)
"""The name of one output of a job; part of the ledger key."""

BatchId = NewType("BatchId", int)
"""Spark's batch id: the name of an entry in the offset log and the commit log."""

QueryId = NewType("QueryId", str)
"""Spark's query id, from the checkpoint's `metadata` file. Never a ledger key."""

RunId = NewType("RunId", str)
"""Spark's run id: one start of a query."""

Digest = NewType("Digest", str)
"""A hash of a batch's offset range. Batches with the same id and the same digest are the same."""

Generation = NewType("Generation", int)
"""Number of a job's output; a reset or a replay starts a new generation."""

Epoch = NewType("Epoch", int)
"""Number of a job's driver; every start takes a higher epoch, and a sink refuses a lower one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Consecutive ids, both ends included."""

    first: int
    last: int


def spans_contain(spans: Iterable[Span], number: int) -> bool:
    """Return whether an id is in one of the spans."""
    return any(span.first <= number <= span.last for span in spans)
