"""On S3: a dead driver's PUT of `offsets/1` arrives after the next driver has written batch 1."""

# ruff: noqa: D102  the stage says what it does by what it stands for

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from tests.adapters.remotes import remote
from tests.diagnosing import codes, diagnosed
from tests.servers import S3Server
from tests.spark.driving import Ended, ended, java_options
from tests.spark.holding_proxy import HoldingProxy

from holdfast.model.finding import Code, Judgement
from holdfast.storage import Missing, open_store

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.prove, pytest.mark.timeout(900)]

_ENDPOINT = "spark.hadoop.fs.s3a.endpoint"
_ROWS = 100


class Late:
    """A job whose source grows by a hundred rows at a time."""

    def __init__(self, server: S3Server, home: Path) -> None:
        self.place, self.storage = remote(server, "late")
        self.settings = server.settings
        self._source = str(home / "source")
        self._landed = 0

    def land(self) -> None:
        ids = range(self._landed, self._landed + _ROWS)
        deltalake.write_deltalake(self._source, pa.table({"id": list(ids)}), mode="append")
        self._landed += _ROWS

    def start(self, settings: Mapping[str, str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "holdfast", "run"]
        module = str(Path(__file__).with_name("late_pipeline.py"))
        given = {
            **settings,
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": java_options(),
        }
        options = [word for key, value in given.items() for word in ("--set", f"{key}={value}")]
        environment = {
            "LATE_PLACE": self.place,
            "LATE_STORAGE": json.dumps(dict(self.storage)),
            "LATE_SOURCE": self._source,
            "PYSPARK_PYTHON": sys.executable,
        }
        return subprocess.Popen(
            [*command, module, "--once", "--dev", *options],
            env={**os.environ, **environment},
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self) -> Ended:
        return ended(self.start(self.settings))

    def ids(self) -> Counter[int]:
        table = deltalake.DeltaTable(f"{self.place}/table", storage_options=dict(self.storage))
        return Counter(table.to_pyarrow_table().column("id").to_pylist())


def test_a_late_put_of_a_dead_driver_is_found(  # noqa: PLR0915  one schedule, step by step
    s3: S3Server, tmp_path: Path
) -> None:
    late = Late(s3, tmp_path)
    late.land()
    first = late.run()
    assert first.code == 0, first.said
    late.land()
    port = int(s3.settings[_ENDPOINT].rpartition(":")[2])
    with HoldingProxy(port, "late-job/offsets/1") as proxy:
        dying = late.start({**s3.settings, _ENDPOINT: f"http://127.0.0.1:{proxy.port}"})
        assert proxy.held.wait(240), "the driver did not plan batch 1"
        os.killpg(dying.pid, signal.SIGKILL)
        dying.communicate()
        late.land()
        second = late.run()
        assert second.code == 0, second.said
        assert late.ids() == Counter(range(3 * _ROWS))
        store = open_store(f"{late.place}/checkpoints", late.storage)
        written = store.read("late-job/offsets/1")
        proxy.release()
    assert not isinstance(written, Missing)
    assert store.read("late-job/offsets/1") != written, "the late PUT changed nothing"
    location = f"{late.place}/checkpoints/late-job"
    found = diagnosed(location, storage=late.storage)
    assert Code.OFFSETS_EDITED in codes(found)
    assert found.judgement is Judgement.UNSAFE
    late.land()
    third = late.run()
    assert third.code == 5, third.said
    assert "BATCH_NOT_CONTINUOUS" in third.said
    assert late.ids() == Counter(range(3 * _ROWS))
    offset = written.decode().splitlines()[2]
    assert json.loads(third.said.partition("must be `")[2].partition("`")[0]) == json.loads(offset)
    store.write("late-job/offsets/1", written)
    assert diagnosed(location, storage=late.storage).judgement is not Judgement.UNSAFE
    fourth = late.run()
    assert fourth.code == 0, fourth.said
    assert late.ids() == Counter(range(4 * _ROWS))
