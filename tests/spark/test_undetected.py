"""What Spark takes without a word and no change of code has caused: real Spark, and what is said.

The changes of code that it never detects are in `changes`, damaged logs in `crash_states`.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.diagnosing import codes, diagnosed
from tests.spark.recording import recorded_to_the_end, runs

import holdfast
from holdfast.model.finding import Code, Judgement

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.prove]

_EPOCH = 1_767_225_600


def _land(home: Path, number: int) -> None:
    (home / "landing").mkdir(exist_ok=True)
    path = home / f"landing/{number}.json"
    path.write_text(json.dumps({"n": number}))
    os.utime(path, (_EPOCH + number, _EPOCH + number))  # Spark takes the oldest first


def _ran(spark: SparkSession, home: Path, kind: str = "parquet") -> list[int]:
    """Run to the end of the input, one file a batch: all that is in the sink then."""
    before = runs(home / "ck")
    session = spark.newSession()  # whose listener hears of no other test
    holdfast.record(session)
    rows = session.readStream.schema("n long").option("maxFilesPerTrigger", 1)
    stream = rows.json(f"{home}/landing").writeStream.format(kind)
    stream = stream.option("checkpointLocation", f"{home}/ck").trigger(availableNow=True)
    stream.start(f"{home}/out").awaitTermination()
    recorded_to_the_end(home / "ck", but=before)
    return sorted(int(row.n) for row in spark.read.format(kind).load(f"{home}/out").collect())


def test_an_offset_that_somebody_has_edited(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        _land(tmp_path, number)
    assert _ran(spark, tmp_path) == [0, 1, 2]
    assert Code.OFFSETS_EDITED not in codes(diagnosed(tmp_path / "ck"))
    entry = tmp_path / "ck/offsets/2"
    entry.write_text(entry.read_text().replace('{"logOffset":2}', '{"logOffset":1}'))
    found = diagnosed(tmp_path / "ck")
    assert Code.OFFSETS_EDITED in codes(found)
    assert found.judgement is not Judgement.SAFE
    _land(tmp_path, 3)
    rows = _ran(spark, tmp_path)
    assert (len(rows), set(rows)) == (5, {0, 1, 2, 3}), "Spark has noticed"


def test_a_new_checkpoint_over_the_old_folder(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        _land(tmp_path, number)
    assert _ran(spark, tmp_path) == [0, 1, 2]
    shutil.rmtree(tmp_path / "ck")
    for number in range(3):
        (tmp_path / f"landing/{number}.json").unlink()
    _land(tmp_path, 3)
    assert _ran(spark, tmp_path) == [0, 1, 2], "Spark has noticed"
    found = diagnosed(tmp_path / "ck")
    assert Code.SINK_AHEAD in codes(found)
    assert found.judgement is Judgement.UNSAFE
    _land(tmp_path, 4)
    assert _ran(spark, tmp_path) == [0, 1, 2], "Spark has noticed"


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_rewound_checkpoint(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    for number in range(4):
        _land(tmp_path, number)
    assert _ran(spark, tmp_path, kind) == [0, 1, 2, 3]
    for batch in (2, 3):
        for log in ("offsets", "commits"):
            (tmp_path / f"ck/{log}/{batch}").unlink()
            (tmp_path / f"ck/{log}/.{batch}.crc").unlink()
    found = diagnosed(tmp_path / "ck")
    assert Code.SINK_AHEAD in codes(found)
    assert found.judgement is Judgement.UNSAFE
    _land(tmp_path, 4)
    assert _ran(spark, tmp_path, kind) == [0, 1, 2, 3], "Spark has noticed: row 4 is lost"
