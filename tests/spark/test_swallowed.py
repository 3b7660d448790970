"""An upload to S3 that fails, and Spark goes on: what is said of the next start is what it does."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.adapters.remotes import remote
from tests.diagnosing import codes, diagnosed
from tests.servers import S3Server
from tests.spark.refusing_proxy import RefusingProxy

from holdfast.model.finding import Code

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.prove, pytest.mark.timeout(900)]

_EPOCH = 1_767_225_600
_ENDPOINT = "spark.hadoop.fs.s3a.endpoint"


class _Said(NamedTuple):
    batches: list[tuple[int, list[int]]]
    error: str


class _Next(NamedTuple):
    """What is found, and what the next start then does: its batches, and the error it ends with."""

    code: Code
    batches: list[tuple[int, list[int]]]
    error: str


# Of three batches; the file of a fourth has landed since.
_LOST = {
    "commits/1": _Next(Code.COMMIT_GAP, [(3, [3])], ""),
    "commits/2": _Next(Code.PENDING_BATCH, [(2, [2]), (3, [3])], ""),
    "offsets/1": _Next(Code.OFFSET_BEFORE_MISSING, [], "IllegalStateException"),
    "offsets/2": _Next(Code.COMMIT_AHEAD, [(1, [1])], "SparkException"),
}


def _land(home: Path, numbers: range) -> None:
    (home / "landing").mkdir(exist_ok=True)
    for number in numbers:
        path = home / f"landing/{number}.json"
        path.write_text(json.dumps({"n": number}))
        os.utime(path, (_EPOCH + number, _EPOCH + number))


def _ran(home: Path, base: str, settings: Mapping[str, str], names: list[str]) -> dict[str, _Said]:
    command = [sys.executable, "-m", "tests.spark.s3_stream"]
    done = subprocess.run(
        [*command, str(home / "landing"), base, json.dumps(dict(settings)), *names],
        capture_output=True, text=True, check=True, timeout=600,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    told = json.loads(done.stdout.splitlines()[-1])
    return {
        name: _Said([(batch, rows) for batch, rows in one["batches"]], one["error"])
        for name, one in told.items()
    }


def test_what_a_swallowed_upload_does_to_the_next_start(s3: S3Server, tmp_path: Path) -> None:
    base, storage = remote(s3, "swallowed")
    names = {entry: entry.replace("/", "-") for entry in _LOST}
    lost = tuple(f"{name}/{entry}" for entry, name in names.items())
    _land(tmp_path, range(3))
    port = int(s3.settings[_ENDPOINT].rpartition(":")[2])
    with RefusingProxy(port, lost) as proxy:
        through = {**s3.settings, _ENDPOINT: f"http://127.0.0.1:{proxy.port}"}
        first = _ran(tmp_path, base, through, list(names.values()))
        refused = sorted(path.partition("swallowed/")[2] for path in proxy.refused)
        assert refused == sorted(lost), "S3A does not try again"
    every = _Said([(batch, [batch]) for batch in range(3)], "")
    assert set(map(str, first.values())) == {str(every)}, "Spark has noticed"
    found = {name: diagnosed(f"{base}/{name}", storage=storage) for name in names.values()}
    _land(tmp_path, range(3, 4))
    then = _ran(tmp_path, base, s3.settings, list(names.values()))
    for entry, name in names.items():
        expected, said = _LOST[entry], then[name]
        assert codes(found[name]) == {expected.code}
        assert (said.batches, said.error.partition(":")[0]) == expected[1:]
        predicted = found[name].restart
        assert (predicted.error.exceptions if predicted.error else ("",)) == (expected.error,)
        if said.batches:
            assert predicted.batch == said.batches[0][0]
            assert predicted.rerun is (predicted.batch < 3)
