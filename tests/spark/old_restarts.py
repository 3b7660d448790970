"""The crash states under Sparks before 3.5: `python -m tests.spark.old_restarts [VERSION]...`.

Those Sparks are driven as `make golden` drives them, through py4j and on Java 8, so that this is a
command and no test of `make prove`. The checkpoints are the golden ones. Of each state the start is
predicted, a real Spark starts on a copy, and the two are compared: does it fail, and if not, which
batch runs first? What differs is printed, and makes the exit code 1.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from tests.diagnosing import diagnosed
from tests.golden import golden
from tests.spark.crash_states import STATES
from tools.golden import old_record
from tools.golden.old_queries import SCENARIOS, OldScenario, OldStage
from tools.golden.old_sparks import OLD_SPARKS, Jvm, OldSpark, start_jvm
from tools.golden.scenario import ROOT, json_files_in, parse_version

from holdfast.model.restart import Restart, RunForecast
from holdfast.model.spark_version import SparkVersion

_QUERIES = ("files-union", "aggregate-hdfs")
_NEW = range(90, 91)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case(OldStage):
    """A copy of a golden checkpoint, beside the input of the scenario that wrote it."""

    copy: Path

    @property
    def checkpoint(self) -> Path:
        """A folder of its own: Spark 2.2 keeps the state of a location in memory."""
        return self.copy / "ck"


def main(versions: Sequence[str]) -> int:
    """Compare under the versions named, or all."""
    different = 0
    for spark in OLD_SPARKS:
        if versions and spark.version not in versions:
            continue
        compared = list(_compared(spark))
        found = [line for line in compared if line]
        different += len(found)
        print(  # noqa: T201
            "\n".join(
                [*found, f"Spark {spark.version}: {len(compared)} states, {len(found)} differ"]
            )
        )
    return 1 if different else 0


def _compared(spark: OldSpark) -> Iterator[str]:
    """What differs in each state, or nothing."""
    scratch = ROOT / "scratch" / spark.version
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    with start_jvm(spark, scratch) as jvm:
        session = old_record.session(spark, jvm, scratch)
        for scenario in (one for one in SCENARIOS if one.name in _QUERIES):
            for name in STATES:
                yield _case(spark, jvm, session, scenario, name)


def _case(spark: OldSpark, jvm: Jvm, session: JavaObject, scenario: OldScenario, name: str) -> str:
    folder = ROOT / spark.version / scenario.name
    copy = ROOT / "scratch" / spark.version / f"{scenario.name}-{list(STATES).index(name)}"
    shutil.copytree(golden(spark.version, scenario.name).checkpoint, copy / "ck")
    case = Case(jvm=jvm, session=session, folder=folder, run=0, kafka="", kinesis="", copy=copy)
    for run in range(2):
        scenario.feed(replace(case, run=run))
    (folder / "input" / f"part-{_NEW[0]}.json").unlink(missing_ok=True)
    STATES[name](copy)
    told = diagnosed(copy / "ck", spark=SparkVersion(*parse_version(spark.version))).restart
    json_files_in(folder / "input", _NEW)
    failure, first = _started(jvm, scenario, case)
    shutil.rmtree(copy, ignore_errors=True)  # a task that was stopped may still be writing
    difference = _difference(told, failure, first)
    return f"{spark.version} {scenario.name}: {name}: {difference}" if difference else ""


def _started(jvm: Jvm, scenario: OldScenario, case: Case) -> tuple[str, int | None]:
    """How a start fails, and the first batch that it ran."""
    try:
        query = old_record.start_query(jvm, scenario, case)
    except Py4JJavaError as error:
        return _said(error.java_exception), None
    try:
        query.processAllAvailable()
    except Py4JJavaError as error:
        return _said(error.java_exception), None
    finally:
        query.stop()
    ran = [one.batchId() for one in query.recentProgress()]
    return "", ran[0] if ran else None


def _said(error: JavaObject) -> str:
    return str(error.toString()).splitlines()[0][:200]


def _difference(told: Restart, failure: str, first: int | None) -> str:
    if told.error is not None:
        return "" if failure else f"predicted to fail, {told.error.reason}; it ran batch {first}"
    if failure and told.later:  # a batch after the first one fails, if it comes to that
        return ""
    if failure:
        return f"predicted to run batch {told.batch}; it failed with {failure}"
    waits = told.runs is not RunForecast.SURELY and first is None
    return "" if waits or first == told.batch else f"predicted batch {told.batch}; it ran {first}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
