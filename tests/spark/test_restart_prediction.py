"""What `holdfast diagnose` predicts of a restart, beside what real Spark does with a copy.

A disagreement is a bug of the prediction. `make test` runs a selection; `make prove` every listed
state of every query, and compositions of several changes at random.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.diagnosing import diagnosed
from tests.spark.crash_states import BARE, KINDS, LOGS, LOST, SOURCES, STATE, STATES
from tests.spark.predicting import Bases, Case, compared
from tests.spark.restarting import QUERIES, copied, start, write_input

from holdfast.model.finding import Code

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SEED = int(os.environ.get("HOLDFAST_SEED", "1"))
RANDOM = int(os.environ.get("HOLDFAST_RANDOM_STATES", "500"))
_MOST_CHANGES = 4
# Their logs are those of other queries; what differs is the state.
_FOR_STATE = frozenset(
    {
        "counts-rocksdb",
        "counts-zip",
        "counts-ids",
        "processor",
        "join-families",
        "windows",
        "chained",
        "join",
    }
)
# What else tells of their state: batches without data, or ids in their commits.
_TELLING = frozenset({"counts", "distinct", "windows", "chained", "counts-ids"})


def _case(query: str, *changes: str, new_input: bool = True) -> Case:
    return Case(query=query, changes=changes, new_input=new_input)


FAST = (
    _case("plain", "untouched"),
    _case("plain", "untouched", new_input=False),
    _case("plain", "commit: last gone"),
    _case("plain", "commit: last two gone"),
    _case("plain", "commit: folder gone", new_input=False),
    _case("plain", "commit: last gone, checksum left"),
    _case("plain", "commit: last empty"),
    _case("plain", "commit: last of version 2"),
    _case("plain", "commit: last with an empty second line"),
    _case("plain", "commit: three ahead"),
    _case("plain", "offset: last gone"),
    _case("plain", "offset: one before gone"),
    _case("plain", "offset: two before gone"),
    _case("plain", "offset: all gone"),
    _case("plain", "offset: last torn in the second line"),
    _case("plain", "offset: last of version 9, pending"),
    _case("plain", "offset: last with a setting of `true`"),
    _case("plain", "offset: last with a setting that is a number"),
    _case("plain", "offset: last with an offset of Kafka for source 0"),
    _case("plain", "offset: last with an offset of Delta for source 0, pending"),
    _case("plain", "offset: last with a number for source 0, pending"),
    _case("plain", "offset: one before with a text for source 0, pending"),
    _case("plain", "rewound by two", new_input=False),
    _case("plain", "metadata: gone"),
    _case("plain", "metadata: no JSON"),
    _case("plain", "source: folder gone"),
    _case("plain", "source: last gone, pending"),
    _case("distinct", "commit: last gone", new_input=False),
    _case("distinct", "source: folder gone"),
    _case("counts", "state: last version gone"),
    _case("counts", "state: a level too deep"),
    _case("counts", "state: a level too high, pending"),
    _case("counts", "state: in `state/state`"),
    _case("counts", "state: beside its folder"),
    _case("counts", "lost: folder `state`"),
    _case("counts-ids", "commit: folder gone"),
    _case("counts-ids", "commit: last two gone"),
    _case("counts", "state: one version ahead, pending"),
    _case("counts", "state: schema empty"),
    _case("counts", "state: empty snapshot, changes whole"),
    _case("counts-zip", "state: SSTs gone"),
    _case("counts-zip", "state: last zip cut in its list"),
    _case("counts-ids", "state: empty snapshot, changes whole"),
    _case("join-families", "state: evolved schema gone"),
    _case("join-families", "state: operator metadata 2 cut"),
    _case("union", "offset: last names a source less"),
)


def _listed() -> Iterator[Case]:
    for name, query in QUERIES.items():
        for state, kind in KINDS.items():
            if state.startswith("source 1") and query.sources == 1:
                continue
            wanted = {STATE} if name in _FOR_STATE else {LOGS, SOURCES}
            wanted |= {LOST} if name in _TELLING else set()
            # State is of another format then, which is for `check` to tell.
            wanted |= set() if query.stateful else {BARE}
            if kind in wanted | ({STATE} if query.stateful else set()):
                yield _case(name, state)
                if name in ("plain", "distinct"):
                    yield _case(name, state, new_input=False)


def _part(state: str) -> str:
    return state.partition(":")[0]


@st.composite
def _random(draw: st.DrawFn) -> Case:
    """Several changes of a checkpoint, in any order; a disagreement shrinks to the fewest.

    Each is of another part: an entry that was damaged twice is nothing that a crash leaves.
    """
    query = draw(st.sampled_from([name for name in QUERIES if name not in _FOR_STATE]))
    kinds = {LOGS, SOURCES, *([STATE] if QUERIES[query].stateful else [])}
    possible = [state for state in STATES if KINDS[state] in kinds]
    some = st.sampled_from(possible)
    changes = draw(st.lists(some, min_size=1, max_size=_MOST_CHANGES, unique_by=_part))
    return Case(query=query, changes=tuple(changes), new_input=draw(st.booleans()))


LISTED = tuple(_listed())


@pytest.fixture(scope="module")
def bases(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bases:
    return Bases(spark, tmp_path_factory.mktemp("restarts"))


@pytest.mark.parametrize("case", FAST, ids=str)
def test_a_restart_is_as_predicted(bases: Bases, case: Case) -> None:
    assert compared(bases, case).differences == ()


def test_an_operator_that_was_added_later_fails_until_it_is_taken_out(bases: Bases) -> None:
    """A start that fails at the new operator leaves its schema, and following the remedy helps."""
    folder = copied(bases.of("plain"), bases.folder / "added")
    write_input(folder, 50)
    assert start(bases.spark, QUERIES["counts"], folder).failure is not None
    found = diagnosed(folder / "ck")
    (told,) = (one for one in found.findings if one.code is Code.STATE_MISSING)
    assert told.text.startswith("Batch 4 will fail: operator 0 has a schema and no state.")
    error, again = found.restart.error, start(bases.spark, QUERIES["counts"], folder).failure
    assert error is not None
    assert again is not None
    assert (error.condition, error.unless) == (again.condition, "")
    assert start(bases.spark, QUERIES["plain"], folder).failure is not None
    shutil.move(folder / "ck/state/0", folder / "away")
    assert start(bases.spark, QUERIES["plain"], folder).failure is None


def test_checksums_that_do_not_fit_stop_4_1_until_they_are_turned_off(bases: Bases) -> None:
    """What SPARK-56461 leaves behind, and the remedy of STATE_CHECKSUM_HAZARD."""
    folder = copied(bases.of("counts"), bases.folder / "checksums")
    for store in (folder / "ck/state/0").glob("[01]"):
        (store / "4.delta.crc").write_bytes((store / "3.delta.crc").read_bytes())
        (store / ".4.delta.crc.crc").unlink(missing_ok=True)
    (told,) = (
        one for one in diagnosed(folder / "ck").findings if one.code is Code.STATE_CHECKSUM_HAZARD
    )
    write_input(folder, 50)
    assert start(bases.spark, QUERIES["counts"], folder).failure is not None
    off = "spark.sql.streaming.checkpoint.fileChecksum.enabled"
    assert f"`{off}=false`" in told.remedies[0]
    query = replace(QUERIES["counts"], settings={off: "false"})
    assert start(bases.spark, query, folder).failure is None


@pytest.mark.prove
@pytest.mark.parametrize("case", LISTED, ids=str)
def test_a_restart_from_every_listed_state_is_as_predicted(bases: Bases, case: Case) -> None:
    assert compared(bases, case).differences == ()


@pytest.mark.prove
@pytest.mark.timeout(7_200)
@seed(SEED)
@settings(
    max_examples=RANDOM,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(case=_random())
def test_a_restart_after_random_changes_is_as_predicted(bases: Bases, case: Case) -> None:
    assert compared(bases, case).differences == ()


def test_there_are_enough_states() -> None:
    assert len(LISTED) >= 200
    assert len(set(LISTED)) == len(LISTED)
