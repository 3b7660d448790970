"""The app transaction's version: epoch and batch in one number that only grows."""

import pytest

from holdfast.model.batch import LedgerKey
from holdfast.model.ids import BatchId, Epoch, Generation, JobName, OutputName
from holdfast.sinks.delta import ledger
from holdfast.sinks.delta.ledger import make_app_id

VERSIONS = [
    (0, None, 0),
    (0, 0, 1),
    (1, None, 1 << 40),
    (1, 0, (1 << 40) + 1),
    (1, 41, (1 << 40) + 42),
    (2, None, 2 << 40),
    (3, (1 << 40) - 2, (4 << 40) - 1),
]


@pytest.mark.parametrize(("epoch", "batch", "version"), VERSIONS)
def test_a_version_holds_epoch_and_batch(epoch: int, batch: int | None, version: int) -> None:
    last = None if batch is None else BatchId(batch)
    assert ledger.pack(Epoch(epoch), last) == version
    assert ledger.unpack(version) == (epoch, batch)


def test_the_versions_above_are_in_order() -> None:
    versions = [version for _, _, version in VERSIONS]
    assert versions == sorted(set(versions))


def test_eight_million_drivers_fit_into_deltas_signed_long() -> None:
    assert ledger.pack(Epoch((1 << 23) - 1), BatchId((1 << 40) - 2)) == (1 << 63) - 1


def test_the_key_is_job_generation_and_output() -> None:
    key = make_app_id(
        LedgerKey(job=JobName("j"), generation=Generation(2), output=OutputName("raw"))
    )
    assert key == "holdfast/j/2/raw"
