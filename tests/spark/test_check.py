"""What `holdfast check` says of a change, beside what real Spark does with it.

Safe: the restart gives the rows that the new query gives when it has run from the beginning.
Unsafe: it fails, or gives others. `make test` runs a selection, `make prove` every change.
"""

import json
import os
import subprocess
import sys
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
def bases(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Bases:
    """Queries that have run, for all cases; a broker is started for the first that needs one."""
    return Bases(spark, tmp_path_factory.mktemp("bases"), lambda: request.getfixturevalue("broker"))


@pytest.mark.parametrize("case", [one for one in CASES if one.name in _FAST], ids=str)
def test_a_verdict_is_true(spark: SparkSession, bases: Bases, case: Case, tmp_path: Path) -> None:
    _true(spark, bases, case, tmp_path / "case")


@pytest.mark.prove
@pytest.mark.parametrize("case", [one for one in CASES if one.name not in _FAST], ids=str)
def test_every_verdict_is_true(
    spark: SparkSession, bases: Bases, case: Case, tmp_path: Path
) -> None:
    _true(spark, bases, case, tmp_path / "case")


@pytest.mark.prove
def test_the_command_before_and_after_a_change(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/0.json").write_text('{"k": "a", "k2": "b", "v": 1}')
    module = tmp_path / "orders.py"
    module.write_text(_MODULE.format(home=tmp_path))
    first = _holdfast("check", str(module))
    assert (first.returncode, "first start" in first.stdout) == (0, True), first.stderr
    assert not (tmp_path / "checkpoints").exists()
    ran = _holdfast("run", str(module), "--once", "--dev")
    assert ran.returncode == 0, ran.stderr
    same = _holdfast("check", str(module), "--json")
    assert (same.returncode, json.loads(same.stdout)["verdict"]) == (0, "safe"), same.stderr
    module.write_text(module.read_text().replace('groupBy("k")', 'groupBy(rows.k2.alias("k"))'))
    before = sorted((tmp_path / "checkpoints").rglob("*"))
    other = _holdfast("check", str(module), "--job", "sums", "--json")
    assert sorted((tmp_path / "checkpoints").rglob("*")) == before
    said = json.loads(other.stdout)["jobs"][0]
    assert (other.returncode, said["verdict"]) == (1, "unsafe")
    assert said["changes"][0]["code"] == "KEYS_CHANGED"
    refused = _holdfast("run", str(module), "--once", "--dev")
    assert (refused.returncode, refused.stderr.count("START_UNSAFE")) == (1, 1), refused.stderr


_MODULE = """
from pyspark.sql import functions as F
from holdfast import Pipeline, sinks, sources

pipeline = Pipeline("orders", checkpoints="{home}/checkpoints")


@pipeline.job(
    "sums",
    reads=sources.files("{home}/landing", format="json", schema="k string, k2 string, v long"),
    writes=sinks.delta_merge("{home}/sums", keys=["k"]),
    output_mode="update",
)
def sums(rows):
    return rows.groupBy("k").agg(F.sum("v").alias("v"))
"""


def _holdfast(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *arguments],
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


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
