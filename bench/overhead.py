"""What lease, records and ledger cost a batch, and whether it grows with the age of a job.

The parts are driven as the runner drives them, without Spark: the offset log grows by an entry a
batch, the table by a commit, the records by an event. What is timed is all that holdfast adds to
a batch beyond writing the rows' files.
"""

import json
import statistics
import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from bench.measure import Result
from holdfast.model.batch import Writer, make_ledger_key
from holdfast.model.definition import DeltaAppend
from holdfast.model.ids import BatchId, Epoch, Generation, JobName, OutputName
from holdfast.run.query.batch import OffsetReader
from holdfast.run.start import lease
from holdfast.run.watch.records import Recorder, RunLog
from holdfast.sinks.delta import parquet
from holdfast.sinks.delta.fence import fence
from holdfast.sinks.delta.layout import Layout
from holdfast.sinks.delta.ledgered import LedgeredTable
from holdfast.storage import open_store

YOUNG, OLD, WINDOW = 10, 2_000, 100
MOST_GROWTH_MS = 1.0
TRIGGER_MS = 1_000.0


def overhead(home: Path) -> list[Result]:
    """The cost a batch around batch 10 and around batch 2,000."""
    store = open_store(str(home))
    held = lease.acquire(store, JobName("job"), above=Epoch(0))
    keeper = lease.Keeper(store, lambda _: None)
    keeper.keep(held)
    life = Writer(
        job=held.job, generation=Generation(1), epoch=held.epoch, location=str(home / "job")
    )
    sink = DeltaAppend(path=str(home / "table"), partition_by=(), evolve=False, properties={})
    table = LedgeredTable(sink, make_ledger_key(life.job, life.generation, OutputName("table")), {})
    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    _prepare(table, life)
    reader = OffsetReader(store, "job", life)
    recorder = Recorder(flush_seconds=1.0)
    log = RunLog(store, "job", 0, "run")
    costs: list[float] = []
    for number in range(OLD + WINDOW):
        _plan(home / "job", number)
        files = parquet.by_driver(table.store, f"batch-{number}", rows, pa.table({}), Layout())
        started = time.perf_counter()
        _commit(reader, table, BatchId(number), files)
        recorder.submit(lambda number=number: _event(log, number))  # type: ignore[misc]
        costs.append((time.perf_counter() - started) * 1000)
    recorder.close()
    keeper.close()
    young = costs[YOUNG : YOUNG + WINDOW]
    old = costs[OLD : OLD + WINDOW]
    return [_share(old), _growth(young, old)]


def _share(old: list[float]) -> Result:
    share = statistics.median(old) / TRIGGER_MS
    return Result(
        name="lease, records and ledger, share of a 1 s trigger at batch 2,000",
        unit="ms",
        samples={"old": old},
        ratio=share,
        spread=(min(old) / TRIGGER_MS, max(old) / TRIGGER_MS),
        wanted="<= 0.03",
        holds=share <= 0.03,
    )


def _growth(young: list[float], old: list[float]) -> Result:
    grown = statistics.median(old) - statistics.median(young)
    return Result(
        name="the same, ms that batch 2,000 costs more than batch 10",
        unit="ms",
        samples={"young": young, "old": old},
        ratio=grown,
        spread=(min(old) - max(young), max(old) - min(young)),
        wanted=f"<= {MOST_GROWTH_MS:g}",
        holds=grown <= MOST_GROWTH_MS,
    )


def _prepare(table: LedgeredTable, life: Writer) -> None:
    schema = StructType([StructField("id", LongType())])
    # Without a session: holdfast's own commits need no Spark.
    fence(table.place, table.store, life, table.app_id, schema, None)  # type: ignore[arg-type]


def _plan(checkpoint: Path, number: int) -> None:
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": number, "conf": {}}
    offset = {"topic": {"0": (number + 1) * 50, "1": (number + 1) * 50}}
    text = "\n".join(["v1", json.dumps(metadata), json.dumps(offset)])
    (folder / str(number)).write_text(text)


def _commit(
    reader: OffsetReader, table: LedgeredTable, number: BatchId, files: list[parquet.AddedFile]
) -> None:
    batch = reader.batch(number)
    head = table.log.head()
    table.decide(head.standing, batch)
    table.append(head, batch, files)


def _event(log: RunLog, number: int) -> RunLog:
    log.add({"event": "progress", "batch": number, "rows": 100, "duration_ms": {"addBatch": 1}})
    return log
