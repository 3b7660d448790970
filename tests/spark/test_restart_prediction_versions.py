"""What `holdfast diagnose` predicts of a restart under each Spark, beside what that Spark does.

A selection of the queries, in every listed state; the whole list is for the version that is locked.
"""

import pytest
from tests.spark.predicting import Case
from tests.spark.test_restart_prediction import LISTED
from tests.spark.versions import Sparks

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.prove,
    pytest.mark.timeout(900),
]

VERSIONS = ("3.5.9", "4.0.5", "4.2.1", "4.3.0")
_QUERIES = ("plain", "distinct", "counts", "counts-zip")
CASES = [
    one
    for one in LISTED
    if one.query in _QUERIES or (one.query == "chained" and one.changes[0].startswith("lost: "))
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_restart_is_as_predicted(
    sparks: Sparks, version: str, case: Case, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / f"restarts-{version}"
    said = sparks.of(version).ask(
        "predict", case.query, folder, changes=list(case.changes), new_input=case.new_input
    )
    assert said["differences"] == []
