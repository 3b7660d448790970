"""Which batches the driver may collect: by what the last one was, never by hope."""

import pytest

from holdfast.model.batch import Batch, Life, Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName
from holdfast.sinks.batch_size import SMALL_BYTES, BatchSize


def batch(expected: int | None) -> Batch:
    life = Life(job=JobName("j"), generation=Generation(1), epoch=Epoch(1), location="/c")
    return Batch(
        life=life,
        id=BatchId(0),
        digest=Digest("d"),
        offsets=[],
        expected_rows=Unknown(reason="files") if expected is None else expected,
    )


def test_before_the_first_batch_rows_count_as_wide_and_an_unknown_number_as_large() -> None:
    size = BatchSize()
    assert size.small(batch(60_000))
    assert not size.small(batch(100_000))
    assert not size.small(batch(None))


def test_narrow_rows_may_be_many_unless_the_sink_bounds_them() -> None:
    bounded, unbounded = BatchSize(most_rows=200_000), BatchSize()
    for size in (bounded, unbounded):
        size.saw(batch(1_000), 1_000, 43_000)
    assert unbounded.small(batch(1_000_000))
    assert not bounded.small(batch(1_000_000))
    assert not unbounded.small(batch(10_000_000))


@pytest.mark.parametrize(("came", "small"), [(1_000, True), (10_000, False), (10, False)])
def test_what_a_job_makes_of_its_rows_counts(came: int, *, small: bool) -> None:
    """Ten rows made of one weigh ten times; that most were dropped once proves nothing."""
    size = BatchSize()
    size.saw(batch(1_000), came, SMALL_BYTES // 100 if came < 1_000 else came * 60)
    assert size.small(batch(1_000_000)) is small


def test_an_unknown_number_is_that_of_the_batch_before() -> None:
    size = BatchSize()
    size.saw(batch(None), 1_000, 43_000)
    assert size.small(batch(None))
    size.saw(batch(None), 10_000_000, 430_000_000)
    assert not size.small(batch(None))
