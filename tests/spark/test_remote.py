"""A driver that is killed, with its checkpoint base and its table on real S3 and real HDFS."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.adapters.remotes import HDFS, S3, remote
from tests.servers import S3Server
from tests.spark.driving import KILLED, Stage, assert_right, land

from holdfast.storage import Missing, open_store

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ABORTABLE = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.mark.parametrize("sink", ["append", "merge", "merge-large"])
@pytest.mark.parametrize("name", [S3, HDFS])
def test_killed_after_the_sinks_commit(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, sink: str
) -> None:
    server = request.getfixturevalue(name)
    place, storage = remote(server, "lake")
    stage = Stage(home=tmp_path, source="files", sink=sink, place=place, storage=storage)
    land(tmp_path)
    settings = server.settings if isinstance(server, S3Server) else {}
    options = [part for k, v in settings.items() for part in ("--set", f"{k}={v}")]
    first = stage.run("written@1", *options)
    assert first.code == KILLED, first.said
    second = stage.run("", *options)
    assert second.code == 0, second.said
    assert_right(stage)
    store = open_store(f"{place}/checkpoints", storage)
    assert store.names("crash-job/commits") == ("0", "1", "2", "3")
    if isinstance(server, S3Server):
        assert configured(f"{place}/checkpoints", storage)[MANAGER] == ABORTABLE


def configured(base: str, storage: Mapping[str, str]) -> Mapping[str, str]:
    """The settings that the last run of the job recorded."""
    store = open_store(base, storage)
    runs = ".holdfast/crash-job/runs"
    newest = f"{runs}/{store.names(runs)[-1]}"
    data = store.read(f"{newest}/{store.names(newest)[0]}")
    assert not isinstance(data, Missing)
    found: Mapping[str, str] = json.loads(data.splitlines()[0])["configuration"]
    return found
