"""The cost of lease, records and ledger per batch, and whether it grows with the age of a job.

The parts run as in the runner, but without Spark: per batch, the offset log grows by an entry, the
table by a commit and the records by an event. The time covers everything that holdfast adds to a
batch, except writing the data files.
"""

import json
import statistics
import time
from pathlib import Path

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from bench.measure import Result
from holdfast.model.batch import LedgerKey, Writer
from holdfast.model.definition import DeltaAppend
from holdfast.model.ids import BatchId, Epoch, Generation, JobName, OutputName
from holdfast.run.query.batch import OffsetReader
from holdfast.run.start import lease
from holdfast.run.watch.records import Recorder, RunLog
from holdfast.sinks.delta import parquet
from holdfast.sinks.delta.fence import fence_older_drivers
from holdfast.sinks.delta.layout import Layout
from holdfast.sinks.delta.ledger import make_app_id
from holdfast.sinks.delta.ledgered import LedgeredDeltaTable
from holdfast.storage import open_store

YOUNG, OLD, WINDOW = 10, 2_000, 100
MOST_GROWTH_MS = 1.0
TRIGGER_MS = 1_000.0


def measure_overhead(home: Path) -> list[Result]:
    """Measure the cost per batch after batch 10 and after batch 2,000."""
    store = open_store(str(home))
    acquired = lease.acquire(store, JobName("job"), above=Epoch(0))
    keeper = lease.Keeper(store, lambda _: None)
    keeper.keep(acquired)
    writer = Writer(
        job=acquired.job, generation=Generation(1), epoch=acquired.epoch, location=str(home / "job")
    )
    sink = DeltaAppend(path=str(home / "table"), partition_by=(), evolve=False, properties={})
    app_id = make_app_id(
        LedgerKey(job=writer.job, generation=writer.generation, output=OutputName("table"))
    )
    table = LedgeredDeltaTable(sink, app_id, {})
    rows = pa.table({"id": pa.array(range(100), pa.int64())})
    _prepare(table, writer)
    reader = OffsetReader(store, "job", writer)
    recorder = Recorder(flush_seconds=1.0)
    log = RunLog(store, "job", 0, "run")
    costs: list[float] = []
    for number in range(OLD + WINDOW):
        _write_offsets(home / "job", number)
        files = parquet.write_by_driver(
            table.store, f"batch-{number}", rows, pa.table({}), Layout()
        )
        started = time.perf_counter()
        _commit(reader, table, BatchId(number), files)
        recorder.submit(lambda number=number: _add_event(log, number))  # type: ignore[misc]
        costs.append((time.perf_counter() - started) * 1000)
    recorder.close()
    keeper.close()
    young = costs[YOUNG : YOUNG + WINDOW]
    old = costs[OLD : OLD + WINDOW]
    return [_compute_share(old), _compute_growth(young, old)]


def _compute_share(old: list[float]) -> Result:
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


def _compute_growth(young: list[float], old: list[float]) -> Result:
    growth = statistics.median(old) - statistics.median(young)
    return Result(
        name="the same, ms that batch 2,000 costs more than batch 10",
        unit="ms",
        samples={"young": young, "old": old},
        ratio=growth,
        spread=(min(old) - max(young), max(old) - min(young)),
        wanted=f"<= {MOST_GROWTH_MS:g}",
        holds=growth <= MOST_GROWTH_MS,
    )


def _prepare(table: LedgeredDeltaTable, writer: Writer) -> None:
    schema = StructType([StructField("id", LongType())])
    # Without a session, because holdfast's own commits need no Spark.
    fence_older_drivers(table.place, table.store, writer, table.app_id, schema, None)  # type: ignore[arg-type]


def _write_offsets(checkpoint: Path, number: int) -> None:
    folder = checkpoint / "offsets"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": number, "conf": {}}
    offset = {"topic": {"0": (number + 1) * 50, "1": (number + 1) * 50}}
    text = "\n".join(["v1", json.dumps(metadata), json.dumps(offset)])
    (folder / str(number)).write_text(text)


def _commit(
    reader: OffsetReader, table: LedgeredDeltaTable, number: BatchId, files: list[parquet.AddedFile]
) -> None:
    batch = reader.batch(number)
    head = table.log.head()
    table.decide(head.standing, batch)
    table.append(head, batch, files)


def _add_event(log: RunLog, number: int) -> RunLog:
    log.add({"event": "progress", "batch": number, "rows": 100, "duration_ms": {"addBatch": 1}})
    return log
