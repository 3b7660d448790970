"""A pipeline that kills its own driver at a named point; its environment says where.

The crash is real: SIGKILL to the driver's whole process group, Python and JVM, from inside the
driver or from a Python worker of an executor. A marker file makes each crash happen once.

    planned     the offset log has the batch, no sink has seen it
    writing     an executor is in the middle of its rows
    staged      the files are written, the commit is not
    written     the (first) sink has committed, Spark's commit log has not
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdfast import Pipeline, sinks, sources
from holdfast.model.batch import Batch
from holdfast.model.definition import Files, Kafka
from holdfast.run import query
from holdfast.sinks.delta import append, merge, parquet
from holdfast.sinks.delta.ledgered import LedgeredTable

HOME = Path(os.environ["CRASH_HOME"])
PLACE = os.environ.get("CRASH_PLACE") or str(HOME)
STORAGE: dict[str, str] = json.loads(os.environ.get("CRASH_STORAGE") or "{}")
SOURCE = os.environ["CRASH_SOURCE"]
SINK = os.environ["CRASH_SINK"]
POINT, _, BATCH = os.environ.get("CRASH_AT", "").partition("@")
MARKER = HOME / f"crashed-{POINT}-{BATCH}"
ROWS_A_BATCH = 500


def due(batch: int) -> bool:
    """Whether the crash is to happen in this batch, and has not yet."""
    return bool(POINT) and batch == int(BATCH) and not MARKER.exists()


def crash() -> None:
    """Kill the driver's process group; also called from workers, which are in other groups."""
    MARKER.touch()
    os.killpg(int((HOME / "driver.pid").read_text()), signal.SIGKILL)
    time.sleep(60)


def stop_here() -> None:
    """Freeze the driver's process group, as a machine that hangs does."""
    MARKER.touch()
    os.killpg(int((HOME / "driver.pid").read_text()), signal.SIGSTOP)


def before(point: str, function: Callable[..., object]) -> Callable[..., object]:
    """The function, with a crash before it."""

    @wraps(function)
    def crashing(*given: object, **named: object) -> object:
        batch = next((one.id for one in given if isinstance(one, Batch)), None)
        if batch is not None and due(batch):
            if point == POINT:
                crash()
            if f"frozen-{point}" == POINT:
                stop_here()
        return function(*given, **named)

    return crashing


def after(point: str, function: Callable[..., object]) -> Callable[..., object]:
    """The function, with a crash after it."""

    @wraps(function)
    def crashing(*given: object, **named: object) -> object:
        result = function(*given, **named)
        batch = next((one.id for one in given if isinstance(one, Batch)), None)
        if batch is not None and point == POINT and due(batch):
            crash()
        return result

    return crashing


def watch(path: Path) -> None:
    """Crash as soon as a file is there: for steps that the JVM takes by itself."""
    while not path.exists():
        time.sleep(0.0005)
    crash()


def arm() -> None:
    """Put the crash where it is asked for."""
    if SINK == "files" and POINT in ("planned", "written") and not MARKER.exists():
        folder = HOME / "checkpoints/crash-job/offsets" if POINT == "planned" else HOME / "table"
        name = BATCH if POINT == "planned" else f"_spark_metadata/{BATCH}"
        threading.Thread(target=watch, args=(folder / name,), daemon=True).start()
    writer = query.BatchWriter
    writer._write = before("planned", writer._write)  # type: ignore[method-assign,assignment]  # noqa: SLF001
    for sink in (append.DeltaAppendSink, merge.DeltaMergeSink):
        sink.write = after("written", sink.write)  # type: ignore[method-assign,assignment]
    LedgeredTable.append = before("staged", LedgeredTable.append)  # type: ignore[method-assign,assignment]
    execute = merge.DeltaMergeSink._execute  # noqa: SLF001
    merge.DeltaMergeSink._execute = before("staged", execute)  # type: ignore[method-assign,assignment]  # noqa: SLF001
    if SINK == "append-large":
        parquet.SMALL_ROWS = 0


def dying(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass the rows on, and kill the driver in the middle of the batch that is due."""
    for rows in batches:
        ids = rows.column(rows.schema.get_field_index("id")).to_pylist()
        middle = int(BATCH) * ROWS_A_BATCH + ROWS_A_BATCH // 2
        if middle in ids and due(int(BATCH)):
            yield rows.slice(0, ids.index(middle))
            crash()
        yield rows


SCHEMA = "id LONG, k LONG, at TIMESTAMP, text STRING"


def source() -> Files | Kafka:
    """The landing directory or the topic, in batches of ROWS_A_BATCH."""
    if SOURCE == "files":
        return sources.files(
            str(HOME / "landing"),
            format="json",
            schema=SCHEMA,
            options={"maxFilesPerTrigger": "1"},
        )
    options = {"maxOffsetsPerTrigger": str(ROWS_A_BATCH)}
    return sources.kafka(SOURCE, f"crash-{HOME.name}", options=options)


def rows_of(given: DataFrame) -> DataFrame:
    """The typed rows, through Python workers where a crash is to come from there."""
    rows = given
    if SOURCE != "files":
        parsed = F.from_json(F.col("value").cast("string"), SCHEMA)
        rows = given.select(parsed.alias("row")).select("row.*")
    return rows.mapInArrow(dying, SCHEMA) if POINT == "writing" else rows


pipeline = Pipeline("crash", checkpoints=f"{PLACE}/checkpoints", storage=STORAGE)
table = f"{PLACE}/table"
other = f"{PLACE}/other"

OUTPUTS = {
    "append": (sinks.delta_append(table),),
    "append-large": (sinks.delta_append(table),),
    "append-partitioned": (sinks.delta_append(table, partition_by=["k"]),),
    "append-spark": (sinks.delta_append(table),),
    "merge": (sinks.delta_merge(table, keys=["k"], newest="id"),),
    "merge-spark": (sinks.delta_merge(table, keys=["k"], newest="id"),),
    "stateful": (sinks.delta_merge(table, keys=["k"]),),
    "outputs": (
        sinks.delta_append(table, select=lambda rows: rows.where("id % 2 = 0")),
        sinks.delta_append(other, select=lambda rows: rows.where("id % 2 = 1")),
    ),
    "files": (sinks.files(table),),
}


@pipeline.job(
    "crash-job",
    reads=source(),
    writes=OUTPUTS[SINK],
    output_mode="update" if SINK == "stateful" else "append",
)
def crash_job(given: DataFrame) -> DataFrame:
    """The rows as they are, or counted by key where state is wanted."""
    rows = rows_of(given)
    if SINK != "stateful":
        return rows
    return rows.groupBy("k").agg(F.count("id").alias("count"), F.max("id").alias("id"))


if os.getsid(0) == os.getpid():  # the driver leads its session; workers import this module too
    arm()
