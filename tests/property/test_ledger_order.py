"""The ledger's version is in the order of epochs first and batches second."""

from hypothesis import given
from hypothesis import strategies as st

from holdfast.model.ids import BatchId, Epoch
from holdfast.sinks.delta import ledger

EPOCHS = st.integers(0, (1 << 23) - 1).map(Epoch)
BATCHES = st.none() | st.integers(0, (1 << 40) - 2).map(BatchId)
STANDINGS = st.tuples(EPOCHS, BATCHES)


def rank(standing: tuple[Epoch, BatchId | None]) -> tuple[int, int]:
    epoch, batch = standing
    return epoch, -1 if batch is None else batch


@given(STANDINGS)
def test_what_was_packed_is_unpacked(standing: tuple[Epoch, BatchId | None]) -> None:
    version = ledger.pack(*standing)
    assert 0 <= version < 1 << 63
    assert ledger.unpack(version) == standing


@given(STANDINGS, STANDINGS)
def test_a_higher_epoch_wins_and_then_a_higher_batch(
    one: tuple[Epoch, BatchId | None], other: tuple[Epoch, BatchId | None]
) -> None:
    assert (ledger.pack(*one) < ledger.pack(*other)) == (rank(one) < rank(other))
