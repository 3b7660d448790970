"""Which batches the driver may collect, and which the executors write.

A driver that collects too much is killed, and a driver that would collect the same batch again is
killed again after every restart. So a batch counts as small only if batches of its kind were
measured in this process and were small enough:

    rows     the offsets count the rows that the batch reads (Kafka)
    bytes    Spark knows how many bytes the batch reads (files, Delta)
    nothing  the batch reads nothing, or nobody knows how much: closing windows, other sources

For the first two, the worst measured ratio of what came out to what went in is the forecast. For
the third there is no ratio: what came out last time may grow by `_GROWTH` at most. A batch without
rows says nothing about the next one of the third kind.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.model.batch import Batch
from holdfast.model.fact import Unknown
from holdfast.sinks import caching

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SMALL_ROWS = 200_000
SMALL_BYTES = 64 << 20
GUESSED_BYTES_PER_ROW = 1_000
EXPANSION = 4
"""How much larger rows may be in Arrow than in Parquet files and in Spark's cache."""
_GUESSED_BYTES_PER_BYTE = 16.0
_GROWTH = 16
_REMEMBERED = 20
_LONGEST = 1_280
_NO_INPUT = 16
_NO_ESTIMATE = 1 << 60


class InputKind(StrEnum):
    """What is known about a batch before it runs."""

    ROWS = "rows"
    BYTES = "bytes"
    NOTHING = "nothing"


class SizeVerdict(StrEnum):
    """How large a batch is going to be."""

    SMALL = "small"
    LARGE = "large"
    UNMEASURED = "unmeasured"
    """Its input is small, and how much its job makes of it was not measured yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """What a batch reads, in rows or bytes."""

    kind: InputKind
    amount: int
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """What one batch made of each row or byte that it read."""

    rows: float
    size: float


class BatchSize:
    """Which batches are small enough for the driver's memory.

    `most_rows` is for sinks where the executors are faster from that many rows on; for the others
    only memory decides.
    """

    def __init__(self, *, most_rows: int | None = None) -> None:
        self._most_rows = most_rows
        self._seen: dict[InputKind, deque[Ratio]] = {
            kind: deque(maxlen=_REMEMBERED) for kind in InputKind
        }
        self._plan_bytes = _NO_ESTIMATE
        self._too_much = False
        self._pause = 0
        self._next_pause = _REMEMBERED

    def judge(self, batch: Batch, rows: "DataFrame") -> SizeVerdict:
        """Say how large the batch is going to be."""
        self._too_much = self._pause > 0
        self._pause = max(0, self._pause - 1)
        if isinstance(batch.expected_rows, Unknown):
            self._plan_bytes = caching.estimate_bytes(rows)
        given = _estimate_input(batch, self._plan_bytes)
        seen = self._seen[given.kind]
        if not seen:
            return self._judge_input(given)
        amount = _GROWTH if given.kind is InputKind.NOTHING else given.amount
        rows_to_come = amount * max(ratio.rows for ratio in seen)
        bytes_to_come = amount * max(ratio.size for ratio in seen)
        if not self._too_much and self._fits(rows_to_come, bytes_to_come):
            return SizeVerdict.SMALL
        # Each batch that is too large wears the evidence down, so that a single odd batch does
        # not decide for ever.
        seen.popleft()
        return SizeVerdict.LARGE

    def small(self, batch: Batch, rows: "DataFrame") -> bool:
        """Whether the driver may collect this batch."""
        return self.judge(batch, rows) is SizeVerdict.SMALL

    def saw(self, batch: Batch, count: int, size: int) -> None:
        """Remember what the batch that was judged last turned out to be."""
        given = _estimate_input(batch, self._plan_bytes)
        match given.kind:
            case InputKind.ROWS:
                # A job that drops most of its rows may drop none next time.
                fewer = min(count, given.amount)
                per_row = size / fewer if fewer else GUESSED_BYTES_PER_ROW
                self._remember(given, max(1.0, count / given.amount), per_row)
            case InputKind.BYTES:
                # The same for bytes, within limits: Spark multiplies the sides of a join, so that
                # little may come out of very many bytes.
                per_byte = size / given.amount if count else _GUESSED_BYTES_PER_BYTE
                floor = min(1.0, per_byte * _GROWTH)
                self._remember(given, count / given.amount, max(floor, per_byte))
            case InputKind.NOTHING:
                if count:
                    self._remember(given, count, size)

    def collected(self, batch: Batch, rows: "DataFrame") -> pa.Table:
        """The rows on the driver; if that fails, the next batches are not tried.

        Spark refuses to collect more than the driver is set to take. The batch then fails, runs
        again, and goes through the executors. What failed may also have passed: after 20 batches
        the driver collects again, and after twice as many if that fails, too.
        """
        try:
            table = rows.toArrow()
        except BaseException:
            self._pause, self._next_pause = self._next_pause, min(self._next_pause * 2, _LONGEST)
            self._too_much = True
            raise
        self.saw(batch, table.num_rows, table.nbytes)
        return table

    def measure(self, batch: Batch, held: "DataFrame") -> SizeVerdict:
        """Count cached rows of the batch that was judged last, and say whether they are small."""
        count = held.count()
        size = caching.estimate_bytes(held) * EXPANSION
        if not self._too_much and self._fits(count, size):
            return SizeVerdict.SMALL
        self.saw(batch, count, size)
        return SizeVerdict.LARGE

    def _remember(self, given: Input, rows: float, size: float) -> None:
        self._seen[given.kind].append(Ratio(rows=rows, size=size))

    def _judge_input(self, given: Input) -> SizeVerdict:
        most = {
            InputKind.ROWS: SMALL_ROWS if self._most_rows is None else self._most_rows,
            InputKind.BYTES: SMALL_BYTES,
            InputKind.NOTHING: 0,
        }[given.kind]
        fits = given.known and given.amount <= most
        return SizeVerdict.UNMEASURED if fits else SizeVerdict.LARGE

    def _fits(self, count: float, size: float) -> bool:
        few = self._most_rows is None or count <= self._most_rows
        return few and size <= SMALL_BYTES


def _estimate_input(batch: Batch, plan_bytes: int) -> Input:
    """What the batch reads: by its offsets, or else by Spark's statistics of its plan."""
    expected = batch.expected_rows
    if not isinstance(expected, Unknown):
        kind = InputKind.ROWS if expected else InputKind.NOTHING
        return Input(kind=kind, amount=expected, known=True)
    if plan_bytes >= _NO_ESTIMATE:
        return Input(kind=InputKind.NOTHING, amount=0, known=False)
    if plan_bytes <= _NO_INPUT:
        return Input(kind=InputKind.NOTHING, amount=0, known=True)
    return Input(kind=InputKind.BYTES, amount=plan_bytes, known=True)
