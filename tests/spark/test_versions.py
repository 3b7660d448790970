"""Every supported version of Spark: a driver that is killed and restarted, with the same rows.

The other versions of pyspark are installed into a folder that shadows the locked one.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.spark.driving import KILLED, Stage, assert_right, land

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.prove,
    pytest.mark.timeout(900),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowedStage(Stage):
    """A stage whose drivers import another pyspark."""

    shadow: Path

    def environment(self, crash_at: str) -> dict[str, str]:
        """The same, with the folder first on the path of the driver and of the workers."""
        path = f"{self.shadow}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        return {**Stage.environment(self, crash_at), "PYTHONPATH": path}


@pytest.fixture(scope="module", params=["4.0", "4.2"])
def pyspark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The newest patch of a line of Spark."""
    folder = tmp_path_factory.mktemp("pyspark")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder), f"pyspark=={request.param}.*"], check=True)
    return folder


@pytest.mark.parametrize("sink", ["append", "append-large", "merge", "stateful", "files"])
def test_killed_and_restarted(tmp_path: Path, pyspark: Path, sink: str) -> None:
    land(tmp_path)
    stage = ShadowedStage(home=tmp_path, source="files", sink=sink, shadow=pyspark)
    for point in ("writing@0", "written@1"):
        died = stage.run(point)
        assert died.code == KILLED, f"{point}: {died.said}"
    last = stage.run()
    assert last.code == 0, last.said
    assert_right(stage)
    runs = sorted((tmp_path / "checkpoints/.holdfast/crash-job/runs").iterdir())
    told = json.loads((runs[-1] / "000000.jsonl").read_text().splitlines()[0])
    version = next(pyspark.glob("pyspark-*.dist-info")).name.split("-")[1]
    assert told["spark_version"] == version.removesuffix(".dist")
