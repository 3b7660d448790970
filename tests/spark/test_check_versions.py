"""What `holdfast check` says of another Spark, beside what Spark does with it.

The old query runs over two files under one version, two more come, and the new query starts from
the checkpoint under another. Beside it the new query runs from the beginning, under the new version
alone. Spark 3.5 leaves no run record: holdfast does not run there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import diagnosing
from tests.spark.changing import write_input
from tests.spark.versions import Spark, Sparks

from holdfast.model.finding import Code, Judgement
from holdfast.model.json import Json
from holdfast.model.spark_version import SparkVersion

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.prove,
    pytest.mark.timeout(900),
]
SAFE, UNSAFE, UNDEFINED, UNKNOWN = Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A query under a version, and another under the next; `same`: what Spark then gives.

    `without` is the verdict where no run record tells the old query.
    """

    name: str
    was: tuple[str, str]
    now: tuple[str, str]
    same: bool
    verdict: Judgement
    without: Judgement
    codes: frozenset[Code] = frozenset()

    def __str__(self) -> str:
        """The name of the case."""
        return self.name


def _case(
    name: str,
    was: str,
    now: str,
    verdict: Judgement,
    *codes: Code,
    same: bool,
    without: Judgement = UNKNOWN,
) -> Case:
    """`was` and `now` are a version and a query, as in `3.5.9 sums`."""
    (old, _, before), (new, _, after) = was.partition(" "), now.partition(" ")
    return Case(
        name=name,
        was=(old, before),
        now=(new, after),
        same=same,
        verdict=verdict,
        without=without,
        codes=frozenset(codes),
    )


UP, DOWN = Code.SPARK_UPGRADED, Code.SPARK_DOWNGRADED
CASES = (
    # From 3.5, without a record: what is right is unknown, never unsafe.
    _case("3.5 to 4.1, sums", "3.5.9 sums", "4.1.1 sums", UNKNOWN, UP, same=True),
    _case("3.5 to 4.1, unique", "3.5.9 unique", "4.1.1 unique", UNKNOWN, UP, same=True),
    _case("3.5 to 4.1, windows", "3.5.9 windows", "4.1.1 windows", UNKNOWN, UP, same=True),
    _case(
        "3.5 to 4.1, five columns that stay", "3.5.9 five, as they were",
        "4.1.1 five, as they were", UNKNOWN, UP, same=True,
    ),
    _case(
        "3.5 to 4.1, five columns that move", "3.5.9 five, moved", "4.1.1 five, moved",
        UNSAFE, UP, Code.KEYS_CHANGED, same=False, without=UNSAFE,
    ),
    _case(
        "3.5 to 4.1, sums to unique", "3.5.9 sums", "4.1.1 unique k2",
        UNSAFE, UP, Code.OPERATORS_CHANGED, same=False, without=UNSAFE,
    ),
    _case(
        "3.5 to 4.1, unique to none", "3.5.9 unique", "4.1.1 plain",
        UNKNOWN, UP, Code.OPERATORS_CHANGED, same=True,
    ),
    _case(
        "3.5 to 4.1, join", "3.5.9 join", "4.1.1 join",
        UNDEFINED, UP, Code.STATE_SCHEMA_CHANGED, same=False, without=UNDEFINED,
    ),
    _case(
        "3.5 to 4.1, join by its remedy", "3.5.9 join", "4.1.1 join, unchecked",
        UNDEFINED, UP, Code.STATE_SCHEMA_CHANGED, same=True, without=UNDEFINED,
    ),
    _case("3.5.4 to 4.0", "3.5.4 half", "4.0.5 half", UNKNOWN, UP, same=True),
    _case(
        "3.5.4 to 4.1", "3.5.4 half", "4.1.1 half",
        UNDEFINED, UP, Code.SETTING_LOST, same=False, without=UNDEFINED,
    ),
    # Up and down within 4.
    _case("4.0 to 4.1, sums", "4.0.5 sums", "4.1.1 sums", SAFE, same=True),
    _case("4.0 to 4.1, session", "4.0.5 session", "4.1.1 session", SAFE, same=True),
    _case("4.1 to 4.2, join", "4.1.1 join", "4.2.1 join", SAFE, UP, same=True),
    # Spark 4.1 has another name for an expression of its condition.
    _case("4.0 to 4.1, join", "4.0.5 join", "4.1.1 join", SAFE, same=True),
    _case(
        "4.1 to 4.0, sums", "4.1.1 sums", "4.0.5 sums",
        UNDEFINED, DOWN, same=True, without=UNDEFINED,
    ),
    _case(
        "4.0 to 4.1, sums to unique", "4.0.5 sums", "4.1.1 unique k2",
        UNSAFE, Code.OPERATORS_CHANGED, same=False, without=UNSAFE,
    ),
    # An offset log of version 2, in which 4.2.0 forgets the number of partitions.
    _case("4.2.0, partitions kept", "4.2.0 sums, offsets 2", "4.2.0 sums, offsets 2", SAFE,
          same=True),
    _case("4.2.0, fewer partitions", "4.2.0 sums, offsets 2", "4.2.0 sums, offsets 2, fewer",
          UNSAFE, Code.PARTITIONS_UNPINNED, same=False, without=UNSAFE),
    _case("4.2.0, more partitions", "4.2.0 sums, offsets 2", "4.2.0 sums, offsets 2, more",
          UNSAFE, Code.PARTITIONS_UNPINNED, same=False, without=UNSAFE),
    _case("4.2.0 to 4.2.1, fewer partitions", "4.2.0 sums, offsets 2",
          "4.2.1 sums, offsets 2, fewer", SAFE, same=True),
    _case("4.2.1, fewer partitions", "4.2.1 sums, offsets 2", "4.2.1 sums, offsets 2, fewer",
          SAFE, Code.SETTING_PINNED, same=True),
    # Named sources
    _case("4.2, name kept", "4.2.1 clicks", "4.2.1 clicks", SAFE, same=True),
    _case("4.2, source renamed", "4.2.1 clicks", "4.2.1 visits",
          UNSAFE, Code.SOURCE_RENAMED, same=False, without=UNSAFE),
    _case("4.2, name of another folder", "4.2.1 clicks", "4.2.1 clicks elsewhere",
          UNSAFE, same=False),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_verdict_is_true(sparks: Sparks, case: Case, tmp_path: Path) -> None:
    (old, before), (new, after) = case.was, case.now
    was, now = sparks.of(old), sparks.of(new)
    changed, wanted = _inputs(tmp_path, "changed", (0, 1)), _inputs(tmp_path, "wanted", (0, 1))
    _ran(was, before, changed)
    _ran(now, after, wanted)
    for folder in (changed, wanted):
        _inputs(tmp_path, folder.name, (2, 3))
    _said(now, after, changed, case.without, case.codes)
    if was.recording:
        was.ask("record", before, changed)
        _said(now, after, changed, case.verdict, case.codes)
    given = now.ask("run", after, changed)
    same = not given["failed"] and given["rows"] == _ran(now, after, wanted)["rows"]
    assert same is case.same, given
    for verdict in (case.verdict, case.without):
        assert verdict is not (UNSAFE if same else SAFE)


@pytest.mark.parametrize("query", ["sums", "unique", "windows"])
def test_one_version_after_another(sparks: Sparks, query: str, tmp_path: Path) -> None:
    """From 4.0 to 4.1 to 4.2, beside 4.2 alone: what 4.1 read from 4.0 is what 4.2 reads."""
    last, rows = sparks.of("4.2.1"), []
    for step, version in enumerate(("4.0.5", "4.1.1", "4.2.1")):
        spark = sparks.of(version)
        files = (2 * step, 2 * step + 1)
        folder, wanted = _inputs(tmp_path, "upgraded", files), _inputs(tmp_path, "wanted", files)
        _said(spark, query, folder, SAFE, frozenset({UP} if step else ()))
        rows = [_ran(spark, query, folder)["rows"], _ran(last, query, wanted)["rows"]]
        spark.ask("record", query, folder)
        assert rows[0] == rows[1]
    assert rows[0]


@pytest.mark.parametrize("new", ["4.0.5", "4.1.1", "4.2.1"])
def test_state_format_2_of_4_0(sparks: Sparks, new: str, tmp_path: Path) -> None:
    """The first query of a process of 4.0 decides on the version of RocksDB's metadata."""
    first, query = sparks.fresh("4.0.5"), "sums, state 2"
    folder = _inputs(tmp_path, "changed", (0, 1))
    _ran(first, query, folder)
    first.ask("record", query, folder)
    first.close()
    _inputs(tmp_path, "changed", (2, 3))
    version = SparkVersion(*map(int, new.split(".")[:2]))
    readable = new == "4.0.5"
    found = diagnosing.diagnosed(folder / "ck", spark=version)
    assert (Code.STATE_VERSION_UNKNOWN in diagnosing.codes(found)) is not readable
    # Of 4.0 one whose first query has format 2 as well.
    spark = sparks.fresh(new)
    _said(
        spark, query, folder, SAFE if readable else UNSAFE,
        frozenset() if readable else frozenset({Code.STATE_VERSION_UNKNOWN}),
    )  # fmt: skip
    given = spark.ask("run", query, folder)
    spark.close()
    assert bool(given["failed"]) is not readable, given
    assert (found.restart.error is None) is readable


@pytest.mark.parametrize("first", ["sums, state 1", "sums, state 2"])
def test_state_that_4_0_reads_in_some_processes(sparks: Sparks, first: str, tmp_path: Path) -> None:
    """Format 2 with metadata of version 1 can be taken to 4.1; with version 2 only back."""
    query, other = "sums, state 2", sparks.fresh("4.0.5")
    _ran(other, first, _inputs(tmp_path, "first", (0,)))
    folder = _inputs(tmp_path, "changed", (0, 1))
    _ran(other, query, folder)
    other.close()
    _inputs(tmp_path, "changed", (2, 3))
    later = sparks.of("4.1.1")
    said = later.ask("check", query, folder)
    given = later.ask("run", query, folder)
    unread = first == query
    assert said["verdict"] == (UNSAFE if unread else UNKNOWN).value
    assert bool(given["failed"]) is unread, given


def _inputs(home: Path, name: str, batches: Sequence[int]) -> Path:
    for batch in batches:
        write_input(home / name, batch)
    return home / name


def _ran(spark: Spark, query: str, folder: Path) -> Mapping[str, Json]:
    told = spark.ask("run", query, folder)
    assert not told["failed"], told
    return told


def _said(
    spark: Spark, query: str, folder: Path, verdict: Judgement, codes: frozenset[Code]
) -> None:
    said = spark.ask("check", query, folder)
    told = said["codes"]
    assert isinstance(told, list)
    assert said["verdict"] == verdict.value, told
    assert codes <= set(told)
