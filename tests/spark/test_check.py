"""What `holdfast check` says of a change, beside what real Spark does with it.

Safe: the restart gives the rows that the new query gives when it has run from the beginning.
Unsafe: it fails, or gives others. `make test` runs a selection, `make prove` every change.
"""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.spark.changes import CASES
from tests.spark.changing import Bases, Case, outcome

from holdfast.model.finding import Judgement

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_FAST = frozenset({
    "nothing changed, aggregate", "source added", "filter", "sum of another column",
    "another key by an alias", "key renamed", "aggregate added", "filter before an aggregate",
    "aggregate to deduplication", "shuffle partitions",
})  # fmt: skip


@pytest.fixture(scope="module")
def bases(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bases:
    """Queries that have run, for all cases."""
    return Bases(spark, tmp_path_factory.mktemp("bases"))


@pytest.mark.parametrize("case", [one for one in CASES if one.name in _FAST], ids=str)
def test_a_verdict_is_true(spark: SparkSession, bases: Bases, case: Case, tmp_path: Path) -> None:
    _true(spark, bases, case, tmp_path / "case")


@pytest.mark.prove
@pytest.mark.parametrize("case", [one for one in CASES if one.name not in _FAST], ids=str)
def test_every_verdict_is_true(
    spark: SparkSession, bases: Bases, case: Case, tmp_path: Path
) -> None:
    _true(spark, bases, case, tmp_path / "case")


def _true(spark: SparkSession, bases: Bases, case: Case, folder: Path) -> None:
    found = outcome(spark, bases, case, folder)
    said = found.said
    assert said.judgement is case.verdict, [one.code for one in said.findings]
    assert case.codes <= {one.code for one in said.findings}
    if case.verdict is Judgement.SAFE:
        assert found.same, found.failed or (found.rows, found.wanted)
    elif case.verdict is Judgement.UNSAFE:
        assert not found.same
    # Without a record less is known: nothing wrong may be called safe, nothing right unsafe.
    if case.verdict is not Judgement.SAFE:
        assert found.without_record.judgement is not Judgement.SAFE
    else:
        assert found.without_record.judgement is not Judgement.UNSAFE
