"""The one decision that makes a sink exactly once: the whole table of its docstring, as data."""

from dataclasses import replace

import pytest
from pyspark.errors import PySparkException

from holdfast.errors import (
    BatchChanged,
    BatchNotContinuous,
    BatchUnverifiable,
    DriverFenced,
    HoldfastError,
    SinkBehind,
    SinkContended,
    SinkRefused,
    SinkUnavailable,
)
from holdfast.model.batch import Batch, EndOffsets, SinkPosition, Writer
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName
from holdfast.sinks import contract
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import append

EPOCH = Epoch(4)
SAME, OTHER = Digest("a" * 64), Digest("b" * 64)
LOST = Unknown(reason="the log was cleaned")


def batch(number: int) -> Batch:
    return Batch(
        life=Writer(job=JobName("ingest"), generation=Generation(1), epoch=EPOCH, location="/c/i"),
        id=BatchId(number),
        digest=SAME,
        offsets=[],
        expected_rows=1,
    )


def standing(epoch: int, number: int | None) -> SinkPosition:
    return SinkPosition(epoch=Epoch(epoch), batch=None if number is None else BatchId(number))


def not_asked(number: BatchId) -> Digest | Unknown:
    raise AssertionError(number)


WITHOUT_RECALL = {
    "nothing there, first batch": (0, standing(4, None), Decision.WRITE),
    "the next one": (8, standing(4, 7), Decision.WRITE),
    "batch 1 after batch 0": (1, standing(4, 0), Decision.WRITE),
}

WITH_RECALL = {
    "same id, same digest": (7, standing(4, 7), SAME, Decision.SKIP),
    "an earlier id, same digest": (3, standing(4, 7), SAME, Decision.SKIP),
    "batch 0 again": (0, standing(4, 0), SAME, Decision.SKIP),
    "same id, other digest": (7, standing(4, 7), OTHER, BatchChanged),
    "an earlier id, other digest": (3, standing(4, 7), OTHER, BatchChanged),
    "same id, digest not to be found": (7, standing(4, 7), LOST, BatchUnverifiable),
    "an earlier id, digest not to be found": (0, standing(4, 7), LOST, BatchUnverifiable),
}

REFUSED_UNASKED = {
    "newer driver, next batch": (8, standing(5, 7), DriverFenced),
    "newer driver, same batch": (7, standing(5, 7), DriverFenced),
    "newer driver, nothing written": (0, standing(5, None), DriverFenced),
    "newer driver, batch far ahead": (99, standing(5, 7), DriverFenced),
    "no ledger any more, first batch": (0, standing(0, None), SinkBehind),
    "no ledger any more, later batch": (8, standing(0, None), SinkBehind),
    "an older ledger, next batch": (8, standing(3, 7), SinkBehind),
    "an older ledger, same batch": (7, standing(3, 7), SinkBehind),
    "an older ledger, nothing written": (0, standing(3, None), SinkBehind),
    "beyond the next one": (9, standing(4, 7), SinkBehind),
    "nothing there, batch 1": (1, standing(4, None), SinkBehind),
    "nothing there, batch 40": (40, standing(4, None), SinkBehind),
    "far beyond": (1000, standing(4, 0), SinkBehind),
}


@pytest.mark.parametrize(
    ("number", "stands", "decision"), WITHOUT_RECALL.values(), ids=WITHOUT_RECALL
)
def test_a_new_batch_is_written_without_reading_history(
    number: int, stands: SinkPosition, decision: Decision
) -> None:
    assert contract.decide(batch(number), stands, not_asked) is decision


@pytest.mark.parametrize(
    ("number", "stands", "digest", "outcome"), WITH_RECALL.values(), ids=WITH_RECALL
)
def test_a_batch_that_was_written_is_told_by_its_digest(
    number: int,
    stands: SinkPosition,
    digest: Digest | Unknown,
    outcome: Decision | type[HoldfastError],
) -> None:
    asked: list[int] = []

    def recall(earlier: BatchId) -> Digest | Unknown:
        asked.append(earlier)
        return digest

    if isinstance(outcome, Decision):
        assert contract.decide(batch(number), stands, recall) is outcome
    else:
        with pytest.raises(outcome, match=f"batch {number} of job `ingest`"):
            contract.decide(batch(number), stands, recall)
    assert asked == [number]


@pytest.mark.parametrize(
    ("number", "stands", "refusal"), REFUSED_UNASKED.values(), ids=REFUSED_UNASKED
)
def test_what_is_refused_without_reading_history(
    number: int, stands: SinkPosition, refusal: type[HoldfastError]
) -> None:
    with pytest.raises(refusal, match="job `ingest`"):
        contract.decide(batch(number), stands, not_asked)


def test_the_refusals_say_what_was_expected_and_found() -> None:
    with pytest.raises(DriverFenced, match="this driver has epoch 4, and the ledger has epoch 5"):
        contract.decide(batch(8), standing(5, 7), not_asked)
    with pytest.raises(SinkBehind, match="needs batch 8 next, but batch 9 comes"):
        contract.decide(batch(9), standing(4, 7), not_asked)
    with pytest.raises(SinkBehind, match="was replaced while the job ran: its ledger has no epoch"):
        contract.decide(batch(0), standing(0, None), not_asked)
    with pytest.raises(SinkBehind, match="its ledger has epoch 3, and this driver has epoch 4"):
        contract.decide(batch(8), standing(3, 7), not_asked)
    with pytest.raises(BatchUnverifiable, match="the log was cleaned"):
        contract.decide(batch(7), standing(4, 7), lambda _: LOST)
    with pytest.raises(BatchChanged, match="`bbbbbbbbbbbb` in the ledger, `aaaaaaaaaaaa` now"):
        contract.decide(batch(7), standing(4, 7), lambda _: OTHER)


def test_losing_against_other_writers_is_cured_by_a_restart() -> None:
    found = contract.make_contended_error("/lake/t")
    assert isinstance(found, SinkContended)
    assert found.curable_by_restart
    assert "`/lake/t`" in found.message


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("[DELTA_CONCURRENT_APPEND] Files were added.\nat x.scala:1", SinkContended),
        ("[DELTA_CONCURRENT_WRITE] A transaction was committed.", SinkContended),
        ("[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] id.\nat x.scala:1", SinkRefused),
        ("Job aborted: Lost executor 1 (DELTA_CONCURRENT).\nat x.scala:1", SinkUnavailable),
        ("[TASK_WRITE_FAILED] S3 timed out.\nat x.scala:1", SinkUnavailable),
    ],
)
def test_what_sparks_writer_would_not_do(said: str, kind: type[HoldfastError]) -> None:
    found = append.to_sink_error("/lake/t", PySparkException(said))
    assert type(found) is kind
    assert "`/lake/t`" in found.message
    assert "x.scala" not in found.message


CONTINUOUS: dict[str, tuple[EndOffsets, EndOffsets]] = {
    "the same": ({"0": {"t": {"0": 5, "1": 7}}}, {"0": {"t": {"0": 5, "1": 7}}}),
    "keys in another order": ({"0": {"a": 1, "b": 2}}, {"0": {"b": 2, "a": 1}}),
    "numbers in another spelling": ({"0": 1e22, "1": 3.0}, {"0": 10**22, "1": 3}),
    "no source has an offset": ({}, {}),
    "a text": ({"0": "abc"}, {"0": "abc"}),
}
BROKEN: dict[str, tuple[EndOffsets, EndOffsets, str]] = {
    "rows would be lost": (
        {"0": 5},
        {"0": 6},
        "source `0` ended at `5`, but the offset log has `6`",
    ),
    "rows would be written twice": (
        {"0": 5},
        {"0": 4},
        "source `0` ended at `5`, but the offset log has `4`",
    ),
    "one source of two": ({"0": 5, "1": 9}, {"0": 5, "1": 8}, "source `1` ended at `9`"),
    "one partition of two": (
        {"0": {"t": {"0": 5, "1": 7}}}, {"0": {"t": {"0": 5, "1": 8}}},
        'ended at `{"t":{"0":5,"1":7}}`, but the offset log has `{"t":{"0":5,"1":8}}`',
    ),
    "a partition that is gone": (
        {"0": {"t": {"0": 5, "1": 7}}}, {"0": {"t": {"0": 5}}}, 'has `{"t":{"0":5}}`',
    ),
    "an offset that is gone": ({"0": 5}, {}, "ended at `5`, but the offset log has `-`"),
    "an offset that came": ({}, {"0": 5}, "ended at `-`, but the offset log has `5`"),
    "a source of another name": (
        {"a": 5},
        {"b": 5},
        "source `a` ended at `5`, but the offset log has `-`",
    ),
}  # fmt: skip


def after(ended: EndOffsets | Unknown) -> SinkPosition:
    return replace(standing(4, 7), ended=ended)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_the_next_batch_begins_where_the_last_one_ended(name: str) -> None:
    ended, begins = CONTINUOUS[name]
    given = replace(batch(8), begins=begins)
    assert contract.decide(given, after(ended), not_asked) is Decision.WRITE


@pytest.mark.parametrize("name", BROKEN)
def test_the_next_batch_begins_elsewhere(name: str) -> None:
    ended, begins, told = BROKEN[name]
    with pytest.raises(BatchNotContinuous) as caught:
        contract.decide(replace(batch(8), begins=begins), after(ended), not_asked)
    assert told in caught.value.message
    assert "Nothing was written" in caught.value.message
    assert "put back `/c/i/offsets/7`" in caught.value.hint
    assert not caught.value.curable_by_restart


def test_a_ledger_that_has_lost_the_end_is_asked_for_the_digest() -> None:
    given = replace(batch(8), begins={"0": 5}, before=SAME)
    assert contract.decide(given, after(LOST), lambda _: SAME) is Decision.WRITE
    assert contract.decide(given, after(LOST), lambda _: LOST) is Decision.WRITE
    with pytest.raises(BatchNotContinuous, match=r"files of batch 7 .* changed in the checkpoint"):
        contract.decide(given, after(LOST), lambda _: OTHER)


def test_the_first_batch_of_an_empty_ledger_may_begin_anywhere_if_that_was_accepted() -> None:
    """As a checkpoint of 40 batches does in front of a sink that adopts it."""
    life = replace(batch(40).life, gap_before=BatchId(40))
    given = replace(batch(40), begins={"0": 400}, life=life)
    assert contract.decide(given, standing(4, None), not_asked) is Decision.WRITE
    with pytest.raises(SinkBehind, match="needs batch 0 next, but batch 41 comes"):
        contract.decide(replace(given, id=BatchId(41)), standing(4, None), not_asked)
