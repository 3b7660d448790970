"""Which batches the driver may collect: only what was measured counts."""

import pytest

from holdfast.model.batch import Batch, Writer
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName
from holdfast.sinks.batch_size import SMALL_BYTES, SMALL_ROWS, BatchSize, SizeVerdict

NO_ESTIMATE = 8 << 60


class Plan:
    """As much of a DataFrame as is asked how many bytes Spark expects of it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._jdf = self

    def __getattr__(self, name: str) -> "object":
        if name == "sizeInBytes":
            return lambda: self._size
        return lambda: self


def batch(expected: int | None) -> Batch:
    life = Writer(job=JobName("j"), generation=Generation(1), epoch=Epoch(1), location="/c")
    return Batch(
        life=life,
        id=BatchId(0),
        digest=Digest("d"),
        offsets=[],
        expected_rows=Unknown(reason="files") if expected is None else expected,
    )


def judge(size: BatchSize, expected: int | None, plan: int = NO_ESTIMATE) -> SizeVerdict:
    return size.judge(batch(expected), Plan(plan))  # type: ignore[arg-type]


def test_nothing_is_small_before_it_was_measured() -> None:
    for expected, plan in ((1, NO_ESTIMATE), (None, 1_000), (0, NO_ESTIMATE)):
        assert judge(BatchSize(), expected, plan) is SizeVerdict.UNMEASURED
    large = ((SMALL_ROWS + 1, NO_ESTIMATE), (None, SMALL_BYTES + 1), (None, NO_ESTIMATE))
    for expected, plan in large:
        assert judge(BatchSize(), expected, plan) is SizeVerdict.LARGE


def test_narrow_rows_may_be_many_unless_the_sink_bounds_them() -> None:
    bounded, unbounded = BatchSize(most_rows=200_000), BatchSize()
    for size in (bounded, unbounded):
        size.saw(batch(1_000), 1_000, 43_000)
    assert judge(unbounded, 1_000_000) is SizeVerdict.SMALL
    assert judge(bounded, 1_000_000) is SizeVerdict.LARGE


@pytest.mark.parametrize(
    ("came", "verdict"),
    [
        (1_000, SizeVerdict.SMALL),
        (10_000, SizeVerdict.LARGE),
        (10, SizeVerdict.LARGE),
        (0, SizeVerdict.LARGE),
    ],
)
def test_what_a_job_makes_of_its_rows_counts(came: int, verdict: SizeVerdict) -> None:
    """Ten rows made of one weigh ten times; that most were dropped once proves nothing."""
    size = BatchSize()
    size.saw(batch(1_000), came, SMALL_BYTES // 100 if came < 1_000 else came * 60)
    assert judge(size, 1_000_000) is verdict


def test_the_worst_batch_counts_and_wears_off() -> None:
    size = BatchSize(most_rows=SMALL_ROWS)
    size.saw(batch(1_000), 100_000, 10_000_000)
    size.saw(batch(1_000), 1_000, 43_000)
    assert judge(size, 1_000) is SizeVerdict.SMALL
    assert judge(size, 3_000) is SizeVerdict.LARGE
    assert judge(size, 3_000) is SizeVerdict.SMALL


def test_bytes_that_spark_expects_are_a_measure() -> None:
    size = BatchSize(most_rows=SMALL_ROWS)
    judge(size, None, 1_000)
    size.saw(batch(None), 100, 10_000)
    assert judge(size, None, 1_000_000) is SizeVerdict.SMALL
    assert judge(size, None, 1 << 40) is SizeVerdict.LARGE


def test_the_product_that_spark_expects_of_a_join_is_not_taken_literally() -> None:
    size = BatchSize(most_rows=SMALL_ROWS)
    judge(size, None, 1 << 45)
    size.saw(batch(None), 100, 10_000)
    assert judge(size, None, 1 << 46) is SizeVerdict.SMALL


@pytest.mark.parametrize(("expected", "plan"), [(0, NO_ESTIMATE), (None, 1), (None, NO_ESTIMATE)])
def test_a_batch_without_known_input_may_grow_by_a_factor(expected: int | None, plan: int) -> None:
    size = BatchSize(most_rows=SMALL_ROWS)
    judge(size, expected, plan)
    size.saw(batch(expected), 0, 0)
    assert judge(size, expected, plan) is not SizeVerdict.SMALL, (
        "no rows say nothing about the next"
    )
    size.saw(batch(expected), 1_000, 43_000)
    assert judge(size, expected, plan) is SizeVerdict.SMALL
    size.saw(batch(expected), 100_000, 4_300_000)
    assert judge(size, expected, plan) is SizeVerdict.LARGE


def test_batches_with_input_say_nothing_about_batches_without() -> None:
    size = BatchSize(most_rows=SMALL_ROWS)
    size.saw(batch(1_000), 1_000, 43_000)
    assert judge(size, 0) is SizeVerdict.UNMEASURED


def test_a_batch_that_the_driver_could_not_take_is_not_collected_again() -> None:
    class TooMuch(Plan):
        def toArrow(self) -> None:  # noqa: N802  Spark's name
            raise MemoryError

    size = BatchSize()
    size.saw(batch(1_000), 1_000, 43_000)
    assert judge(size, 1_000) is SizeVerdict.SMALL
    with pytest.raises(MemoryError):
        size.collected(batch(1_000), TooMuch(0))  # type: ignore[arg-type]
    assert judge(size, 1_000) is SizeVerdict.LARGE


def test_a_failure_to_collect_is_forgotten_after_a_while() -> None:
    class Failing(Plan):
        def toArrow(self) -> None:  # noqa: N802  Spark's name
            raise OSError

    size = BatchSize()
    for batches in (20, 40):
        size.saw(batch(1_000), 1_000, 43_000)
        assert judge(size, 1_000) is SizeVerdict.SMALL
        with pytest.raises(OSError, match=r"^$"):
            size.collected(batch(1_000), Failing(0))  # type: ignore[arg-type]
        for _ in range(batches):
            size.saw(batch(1_000), 1_000, 43_000)
            assert judge(size, 1_000) is SizeVerdict.LARGE
