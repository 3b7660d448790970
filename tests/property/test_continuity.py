"""Whatever is crashed, edited or taken back: no sink takes a gap or an overlap."""

# ruff: noqa: D102  the model says what it does by what it stands for

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError
from holdfast.model.batch import Batch, SinkPosition, Writer
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName
from holdfast.sinks import contract
from holdfast.sinks.contract import Decision

LIFE = Writer(job=JobName("j"), generation=Generation(1), epoch=Epoch(1), location="/c/j")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["batch", "edit", "rewind", "crash before", "crash after"]),
        st.integers(0, 9),
        st.integers(-3, 3),
    ),
    max_size=30,
)


@dataclass
class Sink:
    """A table with its ledger: the rows of each batch, and where it ended."""

    rows: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    digests: dict[int, Digest] = field(default_factory=dict)

    def write(self, batch: Batch, start: int, end: int) -> None:
        last = len(self.ends) - 1
        standing = SinkPosition(
            epoch=LIFE.epoch,
            batch=BatchId(last) if self.ends else None,
            ended={"0": self.ends[-1]} if self.ends else Unknown(reason="no batch"),
        )
        if contract.decide(batch, standing, self._recall) is Decision.WRITE:
            self.rows += range(start, end)
            self.ends.append(end)
            self.digests[batch.id] = batch.digest

    def _recall(self, batch: BatchId) -> Digest | Unknown:
        return self.digests.get(batch, Unknown(reason="cleaned"))


@dataclass
class Query:
    """Spark: plans a batch in its offset log, runs it, commits it."""

    log: list[int] = field(default_factory=list)
    committed: int = -1

    def run(self, sink: Sink, length: int, crash: str) -> None:
        number = self.committed + 1
        if len(self.log) <= number:  # otherwise the batch that was planned runs again
            self.log.append(max(0, self._start(number) + length))
        if crash == "crash before":
            return
        start, end = self._start(number), self.log[number]
        if end < start:
            return  # sources refuse that themselves
        begins = {"0": start} if number else {}
        batch = Batch(
            life=LIFE, id=BatchId(number), digest=Digest(f"{start}-{end}"), offsets=[],
            expected_rows=1, begins=begins,
        )  # fmt: skip
        sink.write(batch, start, end)
        if crash != "crash after":
            self.committed = number

    def _start(self, number: int) -> int:
        return self.log[number - 1] if number else 0


@given(STEPS)
def test_no_sequence_of_edits_and_crashes_makes_a_gap_or_an_overlap(
    steps: list[tuple[str, int, int]],
) -> None:
    query, sink = Query(), Sink()
    for what, where, by in steps:
        if what == "edit" and query.log:
            place = where % len(query.log)
            query.log[place] = max(0, query.log[place] + by)
        elif what == "rewind" and query.committed >= 0:
            query.committed = where % (query.committed + 1)
            del query.log[query.committed + 1 :]
        else:
            try:
                query.run(sink, where, what)
            except HoldfastError:
                continue
        assert sink.rows == list(range(len(sink.rows))), (query, sink)
