"""How far a pending batch came, by the state that real Spark left when it was killed."""

import pytest
from tests.diagnosing import diagnosed
from tests.golden import GOLDEN, Golden

from holdfast.model.finding import Code

_SAID = {
    "killed-before-state": "had written no state, so none of its stateful tasks had finished",
    "killed-after-one-partition": "of 2 stores, so it stopped while its tasks ran",
    "killed-after-state-hdfs": "so every task had finished",
    "killed-after-state-changelog": "so every task had finished",
}


@pytest.mark.parametrize("golden", [one for one in GOLDEN if one.scenario in _SAID], ids=str)
def test_the_state_shows_how_far_a_killed_batch_came(golden: Golden) -> None:
    found = diagnosed(golden.checkpoint, spark=None)
    told = [one for one in found.findings if one.code is Code.BATCH_PROGRESS]
    assert [_SAID[golden.scenario] in one.text for one in told] == [True], told
    assert f"batch {found.restart.batch}" in told[0].text
