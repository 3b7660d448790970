"""Looks at a checkpoint while real Spark writes it, as slowly as over a network.

Spark keeps two batches, and puts its state together anew all the time; every claim of damage would
be wrong.
"""

import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.looking import NOW_MS, rendered

from holdfast.diagnose import diagnosis
from holdfast.gather import evidence
from holdfast.gather.around import surroundings
from holdfast.gather.inventory import snapshot
from holdfast.model.evidence import Evidence
from holdfast.model.finding import Code, Finding, Judgement, RuleInput
from holdfast.predict import candidates, restart
from holdfast.storage import Children, Missing, Piece, Portion, Reader, Refused, open_reader

pytestmark = [pytest.mark.spark, pytest.mark.prove]

_SECONDS = 15.0
_STATE = "spark.sql.streaming.stateStore"
_ROCKSDB = {
    f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state"
    ".RocksDBStateStoreProvider"
}
_CHANGELOG = {**_ROCKSDB, f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
KINDS = {
    "hdfs": {},
    "rocksdb": _ROCKSDB,
    "changelog": _CHANGELOG,
    "unique ids": {**_CHANGELOG, f"{_STATE}.checkpointFormatVersion": "2"},
    "files": {},
}
_SETTINGS = {
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.streaming.minBatchesToRetain": "2",
    f"{_STATE}.maintenanceInterval": "100ms",
    f"{_STATE}.minDeltasForSnapshot": "2",
    "spark.sql.streaming.fileSource.log.compactInterval": "3",
    "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
}
_HEALTHY = frozenset(
    {
        Code.BATCH_PROGRESS,
        Code.PENDING_BATCH,
        Code.SOURCE_LOG_AHEAD,
        Code.STATE_CHECKSUM_HAZARD,
        Code.STATE_SNAPSHOT_HAZARD,
        Code.STORAGE_EPHEMERAL,
    }
)


class Slow:
    """A Reader that takes its time, by chance, up to so many seconds for an answer."""

    def __init__(self, reader: Reader, most: float) -> None:
        self._reader = reader
        self._most = most
        self._chance = random.Random(5)

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        self._wait()
        return self._reader.children(folder)

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Every file below the folders."""
        for folder in folders:
            self._wait()
            yield from self._reader.walk([folder])

    def read(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, bytes | Missing | Refused]]:
        """The pieces, together."""
        self._wait()
        yield from self._reader.read(pieces)

    def _wait(self) -> None:
        if self._chance.random() < 0.3:
            time.sleep(self._chance.random() * self._most)


def rows(session: SparkSession, kind: str, home: Path) -> DataFrame:
    """Rows without end: from files, one a batch, or made up."""
    if kind != "files":
        made_up = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 50)
        return made_up.option("advanceMillisPerBatch", 1000).load()
    landing = home / "landing"
    landing.mkdir()
    for number in range(500):
        (landing / f"{number}.json").write_text(f'{{"value":{number}}}')
    reading = session.readStream.schema("value LONG").option("maxFilesPerTrigger", 1)
    return reading.json(str(landing))


@pytest.mark.parametrize("slowest", [0.0, 0.2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_running_query_is_never_called_damaged(
    spark: SparkSession, tmp_path: Path, kind: str, slowest: float
) -> None:
    session = spark.newSession()
    for key, value in {**_SETTINGS, **KINDS[kind]}.items():
        session.conf.set(key, value)
    location = tmp_path / "checkpoint"
    counted = rows(session, kind, tmp_path).groupBy("value").count()
    writing = counted.writeStream.format("noop").outputMode("update")
    query = writing.option("checkpointLocation", str(location)).start()
    try:
        while not (location / "commits/2").exists():
            assert query.isActive, query.exception()
            time.sleep(0.1)
        _looks(location, Slow(open_reader(str(location)), slowest), too_fast_for=slowest > 0)
        assert query.isActive, query.exception()
    finally:
        query.stop()


def _looks(location: Path, reader: Reader, *, too_fast_for: bool) -> None:
    ends, last, known = time.monotonic() + _SECONDS, 0, 0
    while time.monotonic() < ends:
        found, told = _look(location, reader)
        rendered(found)
        planned, committed = found.batches.last_planned, found.batches.last_committed
        assert planned is not None
        assert planned >= last
        last = planned
        assert {one.code for one in told} <= _HEALTHY, told
        if found.unreadable:
            assert too_fast_for
            assert {one.reason for one in found.unreadable} == {snapshot.TOO_FAST}
            continue
        known += 1
        assert committed in (planned, planned - 1)
        assert len(found.batches.offset_spans) == len(found.batches.commit_spans) == 1
        (operator,) = found.operators
        assert isinstance(operator.restorable, tuple)
        assert [span.last for span in operator.restorable] == [committed]
    assert known > 0
    assert last > 10


def _look(location: Path, reader: Reader) -> tuple[Evidence, tuple[Finding, ...]]:
    place = evidence.CheckpointPlace(
        url=str(location), name=location.name, reader=reader, parent=None, storage={}
    )
    top = reader.children("")
    assert isinstance(top, Children)
    found = evidence.collect(place, top, event_log=None, now_ms=NOW_MS)
    how = candidates.choose_start(found, None, asynchronous=False)
    around = surroundings.collect(
        place, found, surroundings.LookupOptions(kafka="", start_settings={})
    )
    seen = RuleInput(evidence=found, restart=restart.predict(found, how), surroundings=around)
    told = diagnosis.diagnose(seen)
    assert told.judgement is not Judgement.UNSAFE, told
    return found, told.findings
