"""What Spark takes without a word and no change of code has caused: real Spark, and what is said.

The changes of code that it never detects are in `changes`, damaged logs in `crash_states`.
"""

import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession, functions
from tests.diagnosing import codes, diagnosed
from tests.spark.recording import recorded_to_the_end, runs

import holdfast
from holdfast.model.finding import Code, Judgement

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.prove]

_EPOCH = 1_767_225_600


def _land(home: Path, number: int, *, days: int = 0, name: str = "") -> None:
    (home / "landing").mkdir(exist_ok=True)
    path = home / f"landing/{name or number}.json"
    path.write_text(json.dumps({"n": number}))
    at = _EPOCH + number + days * 86_400
    os.utime(path, (at, at))  # Spark takes the oldest first


def _ran(spark: SparkSession, home: Path, kind: str = "parquet", **options: str) -> list[int]:
    """Run to the end of the input, one file a batch: all that is in the sink then."""
    before = runs(home / "ck")
    session = spark.newSession()  # whose listener hears of no other test
    holdfast.record(session)
    rows = session.readStream.schema("n long").option("maxFilesPerTrigger", 1)
    stream = rows.options(**options).json(f"{home}/landing").writeStream.format(kind)
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


def test_a_landing_file_that_was_written_again(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        _land(tmp_path, number)
    assert _ran(spark, tmp_path) == [0, 1, 2]
    assert Code.SOURCE_FILES_REWRITTEN not in codes(diagnosed(tmp_path / "ck"))
    _land(tmp_path, 100, days=5, name="1")
    found = diagnosed(tmp_path / "ck")
    assert Code.SOURCE_FILES_REWRITTEN in codes(found)
    assert found.judgement is Judgement.UNDEFINED
    _land(tmp_path, 3)
    assert _ran(spark, tmp_path) == [0, 1, 2, 3], "Spark has noticed"
    _land(tmp_path, 4, days=8)
    assert _ran(spark, tmp_path) == [0, 1, 2, 3, 4, 100], "Spark forgets a file after `maxFileAge`"
    assert Code.SOURCE_FILES_REWRITTEN not in codes(diagnosed(tmp_path / "ck"))


def test_a_landing_file_that_is_too_old(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        _land(tmp_path, number)
    _land(tmp_path, 3, days=-9)
    assert _ran(spark, tmp_path) == [0, 1, 2, 3], "the first run takes files of any age"
    assert Code.SOURCE_FILES_TOO_OLD not in codes(diagnosed(tmp_path / "ck"))
    _land(tmp_path, 4, days=-8)
    _land(tmp_path, 5, days=-6)
    found = diagnosed(tmp_path / "ck")
    (one,) = (one for one in found.findings if one.code is Code.SOURCE_FILES_TOO_OLD)
    assert [clue.file for clue in one.clues] == [str(tmp_path / "landing/4.json")]
    assert found.judgement is Judgement.UNSAFE
    assert _ran(spark, tmp_path) == [0, 1, 2, 3, 5], "Spark has noticed"
    assert Code.SOURCE_FILES_TOO_OLD in codes(diagnosed(tmp_path / "ck"))
    (tmp_path / "landing/4.json").touch()
    assert Code.SOURCE_FILES_TOO_OLD not in codes(diagnosed(tmp_path / "ck"))
    assert _ran(spark, tmp_path) == [0, 1, 2, 3, 4, 5], "the remedy is none"


@pytest.mark.parametrize(
    "options", [{"latestFirst": "true"}, {"maxFileAge": "10d"}], ids=lambda one: next(iter(one))
)
def test_an_old_landing_file_that_is_read(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    for number in range(2):
        _land(tmp_path, number)
    assert _ran(spark, tmp_path, **options) == [0, 1]
    _land(tmp_path, 2, days=-9)
    assert Code.SOURCE_FILES_TOO_OLD not in codes(diagnosed(tmp_path / "ck"))
    assert _ran(spark, tmp_path, **options) == [0, 1, 2]


_STORES = {"changelog": "RocksDBStateStoreProvider", "delta": "HDFSBackedStateStoreProvider"}


def _summed(spark: SparkSession, home: Path, kind: str, out: str = "out") -> int:
    """Run an aggregate to the end of the input, one file a batch: the sum that it gives."""
    session = spark.newSession()
    settings = "spark.sql.streaming.stateStore"
    package = "org.apache.spark.sql.execution.streaming.state"
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set(f"{settings}.providerClass", f"{package}.{_STORES[kind]}")
    session.conf.set(f"{settings}.rocksdb.changelogCheckpointing.enabled", "true")
    rows = session.readStream.schema("n long").option("maxFilesPerTrigger", 1)
    total = rows.json(f"{home}/landing").agg(functions.sum("n").alias("total"))
    stream = total.writeStream.format("delta").outputMode("complete")
    stream = stream.option("checkpointLocation", f"{home}/ck").trigger(availableNow=True)
    stream.start(f"{home}/{out}").awaitTermination()
    (row,) = spark.read.format("delta").load(f"{home}/{out}").collect()
    return int(row.total)


def _given_up(own: Path, other: Path, kind: str) -> None:
    """Let a task that ran over other input write version 3 a minute after it was committed."""
    written = list((other / "ck/state/0/0").glob(f"*3.{kind}*"))
    assert {f"3.{kind}", f"3.{kind}.crc"} <= {one.name for one in written}
    for one in written:
        shutil.copy(one, own / "ck/state/0/0" / one.name)
    later = time.time() + 60
    os.utime(own / f"ck/state/0/0/3.{kind}", (later, later))


@pytest.mark.parametrize("kind", _STORES)
def test_a_task_that_was_given_up_writes_over_the_state(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for home, numbers in ((own, (1, 2, 3)), (other, (10, 20, 30))):
        home.mkdir()
        for number in numbers:
            _land(home, number)
        assert _summed(spark, home, kind) == sum(numbers)
        assert Code.STATE_REWRITTEN not in codes(diagnosed(home / "ck"))
    checksum = own / f"ck/state/0/0/3.{kind}.crc"
    first = checksum.read_bytes()
    _given_up(own, other, kind)
    found = diagnosed(own / "ck")
    assert Code.STATE_REWRITTEN in codes(found)
    assert found.judgement is Judgement.UNDEFINED
    _land(own, 4)
    copied = shutil.copytree(own / "ck", own / "copied")
    assert _summed(spark, own, kind) == 60 + 4, "Spark has noticed"
    shutil.rmtree(own / "ck")
    copied.rename(own / "ck")
    checksum.write_bytes(first)
    checksum.with_name(f".{checksum.name}.crc").unlink()
    with pytest.raises(StreamingQueryException, match="CANNOT_LOAD_STATE_STORE"):
        _summed(spark, own, kind, out="another")  # which skips no batch


def test_both_logs_deleted_and_what_the_source_has_read_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Everything comes again, in one batch."""
    batches: list[tuple[int, list[int]]] = []

    def take(rows: DataFrame, batch: int) -> None:
        batches.append((batch, sorted(int(row.n) for row in rows.collect())))

    def run() -> list[tuple[int, list[int]]]:
        batches.clear()
        rows = spark.readStream.schema("n long").option("maxFilesPerTrigger", 1)
        stream = rows.json(f"{tmp_path}/landing").writeStream.foreachBatch(take)
        stream = stream.option("checkpointLocation", f"{tmp_path}/ck").trigger(availableNow=True)
        stream.start().awaitTermination()
        return batches

    for number in range(3):
        _land(tmp_path, number)
    assert run() == [(0, [0]), (1, [1]), (2, [2])]
    for log in ("offsets", "commits"):
        shutil.rmtree(tmp_path / "ck" / log)
    found = diagnosed(tmp_path / "ck")
    assert Code.LOGS_GONE in codes(found)
    assert found.judgement is Judgement.UNDEFINED
    assert run() == [(0, [0, 1, 2])], "Spark has noticed"


def test_a_socket_knows_no_number_of_an_earlier_process(
    spark: SparkSession, tmp_path: Path
) -> None:
    """What comes first is lost, and then the query fails, which is no message of its restart."""
    lines: list[str] = []

    def take(rows: DataFrame, _: int) -> None:
        lines.extend(row.value for row in rows.collect())

    with socket.create_server(("127.0.0.1", 0)) as server:
        at = {"host": "127.0.0.1", "port": str(server.getsockname()[1])}
        stream = spark.readStream.format("socket").options(**at).load().writeStream
        stream = stream.foreachBatch(take).option("checkpointLocation", f"{tmp_path}/ck")
        query = stream.start()
        with server.accept()[0] as connection:
            for count, line in enumerate("abc", start=1):
                connection.sendall(f"{line}\n".encode())
                _until(lines, count)
            query.stop()
        found = diagnosed(tmp_path / "ck")
        assert codes(found) == {Code.SOURCE_NOT_REPLAYABLE}
        assert found.judgement is Judgement.UNDEFINED
        query = stream.start()
        with server.accept()[0] as connection:
            for number in range(60):
                if not query.isActive:
                    break
                connection.sendall(f"{number}\n".encode())
                time.sleep(1)
            with pytest.raises(StreamingQueryException, match="Offsets committed out of order"):
                query.awaitTermination(60)
    assert "0" not in lines


def _until(lines: list[str], count: int) -> None:
    end = time.monotonic() + 60
    while len(lines) < count:
        assert time.monotonic() < end
        time.sleep(0.1)
