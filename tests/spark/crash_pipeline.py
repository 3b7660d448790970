"""A pipeline that kills its own driver at a named point; its environment says where.

The crash is real: SIGKILL to the driver's whole process group, Python and JVM, from inside the
driver or from a Python worker of an executor. A marker file makes each crash happen once.

    planned     the offset log has the batch, no sink has seen it
    writing     an executor is in the middle of its rows
    staged      the files are written, the commit is not; in PostgreSQL, staging tables
    moved       the rows are in the table, in a transaction that has not noted them yet
    noted       so is the ledger, and the transaction is not committed
    written     the (first) sink has committed, Spark's commit log has not

At the points of CRASH_HOLDS the driver or its worker waits instead, until it is told to go on; and
`copying` is the middle of a COPY by the driver itself.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from holdfast import Pipeline, sinks, sources
from holdfast.model.batch import Batch
from holdfast.model.definition import Files, Kafka
from holdfast.run.query import stream
from holdfast.sinks import batch_size
from holdfast.sinks.delta import append, merge
from holdfast.sinks.delta.ledgered import LedgeredDeltaTable

HOME = Path(os.environ["CRASH_HOME"])
PLACE = os.environ.get("CRASH_PLACE") or str(HOME)
CONNECTION, DB_SCHEMA = os.environ.get("CRASH_DATABASE", ""), os.environ.get("CRASH_SCHEMA", "")
STORAGE: dict[str, str] = json.loads(os.environ.get("CRASH_STORAGE") or "{}")
SOURCE = os.environ["CRASH_SOURCE"]
SINK = os.environ["CRASH_SINK"]
POINT, _, BATCH = os.environ.get("CRASH_AT", "").partition("@")
MARKER = HOME / f"crashed-{POINT}-{BATCH}"
HOLDS = frozenset(filter(None, os.environ.get("CRASH_HOLDS", "").split(",")))
CURRENT: list[int] = []
PARTITIONS = int(os.environ.get("CRASH_PARTITIONS") or 0)
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


def hold(point: str, batch: int) -> None:
    """Wait here, once, until whoever drives the test has done what it wants."""
    name = f"{point}@{batch}"
    if name not in HOLDS or (HOME / f"held-{name}").exists():
        return
    (HOME / f"held-{name}").touch()
    while not (HOME / f"go-on-{name}").exists():
        time.sleep(0.01)


def reached(point: str, given: tuple[object, ...]) -> None:
    """Do what is asked for at this point of the batch that is among the arguments."""
    batch = next((one.id for one in given if isinstance(one, Batch)), None)
    if batch is None:
        return
    CURRENT[:] = [batch]
    hold(point, batch)
    if due(batch):
        if point == POINT:
            crash()
        if f"frozen-{point}" == POINT:
            stop_here()


def before(point: str, function: Callable[..., object]) -> Callable[..., object]:
    """The function, with a crash before it."""

    @wraps(function)
    def crashing(*given: object, **named: object) -> object:
        reached(point, given)
        return function(*given, **named)

    return crashing


def after(point: str, function: Callable[..., object]) -> Callable[..., object]:
    """The function, with a crash after it."""

    @wraps(function)
    def crashing(*given: object, **named: object) -> object:
        result = function(*given, **named)
        reached(point, given)
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
    writer = stream.BatchWriter
    writer._write = before("planned", writer._write)  # type: ignore[method-assign,assignment]  # noqa: SLF001
    for sink in (append.DeltaAppendSink, merge.DeltaMergeSink):
        sink.write = after("written", sink.write)  # type: ignore[method-assign,assignment]
    LedgeredDeltaTable.append = before("staged", LedgeredDeltaTable.append)  # type: ignore[method-assign,assignment]
    execute = merge.DeltaMergeSink._execute  # noqa: SLF001
    merge.DeltaMergeSink._execute = before("staged", execute)  # type: ignore[method-assign,assignment]  # noqa: SLF001
    if SINK.endswith("-large"):
        batch_size.SMALL_BYTES = 0
    if SINK.startswith("pg-"):
        begin_measured()
        arm_postgres()
    if SINK.startswith("jdbc-"):
        arm_jdbc()


def begin_measured() -> None:
    """Let sinks begin with a measured batch, so that the driver copies the first one."""
    begin = batch_size.BatchSize.__init__

    def measured(size: batch_size.BatchSize, *, most_rows: int | None = None) -> None:
        begin(size, most_rows=most_rows)
        for seen in size._seen.values():  # noqa: SLF001
            seen.append(batch_size.Ratio(rows=1.0, size=1.0))

    batch_size.BatchSize.__init__ = measured  # type: ignore[method-assign,assignment]


def arm_postgres() -> None:
    """The same for the steps of a PostgreSQL sink."""
    from holdfast.sinks import postgres
    from holdfast.sinks.postgres import encode, ledger, staging

    encoded = encode.encode_rows

    def halfway(columns: Sequence[encode.CopyColumn], rows: pa.RecordBatch) -> Iterator[memoryview]:
        for part in encoded(columns, rows):
            yield part[: len(part) // 2]
            hold("copying", CURRENT[0])
            yield part[len(part) // 2 :]

    encode.encode_rows = halfway
    staging.stage_by_executors = after("staged", staging.stage_by_executors)  # type: ignore[assignment]
    note = before("moved", ledger.PostgresLedger.record)
    ledger.PostgresLedger.record = after("noted", note)  # type: ignore[method-assign,assignment]
    for sink in (postgres.PostgresAppendSink, postgres.PostgresUpsertSink):
        sink.write = after("written", sink.write)  # type: ignore[method-assign,assignment]


def arm_jdbc() -> None:
    """The same for the steps of a JDBC sink."""
    from holdfast.sinks.jdbc import JdbcSink, ledger

    moved = before("staged", JdbcSink._moved)  # noqa: SLF001
    JdbcSink._moved = moved  # type: ignore[method-assign,assignment]  # noqa: SLF001
    note = before("moved", ledger.JdbcLedger.record)
    ledger.JdbcLedger.record = after("noted", note)  # type: ignore[method-assign,assignment]
    JdbcSink.write = after("written", JdbcSink.write)  # type: ignore[method-assign,assignment]


def dying(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass the rows on, and kill the driver in the middle of the batch that is due."""
    for rows in batches:
        ids = rows.column(rows.schema.get_field_index("id")).to_pylist()
        batch = ids[0] // ROWS_A_BATCH if ids else 0
        middle = batch * ROWS_A_BATCH + ROWS_A_BATCH // 2
        if middle not in ids:
            yield rows
            continue
        yield rows.slice(0, ids.index(middle))
        hold("writing", batch)
        if POINT == "writing" and batch == int(BATCH) and due(batch):
            crash()
        if POINT == "failing" and batch == int(BATCH) and due(batch):
            MARKER.touch()
            raise RuntimeError("a task that fails once, in the middle of its rows")
        yield rows.slice(ids.index(middle))


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
    if PARTITIONS:
        rows = rows.repartition(PARTITIONS)
    # A query with state is to be the same at every start.
    through_python = SINK.endswith("stateful") or POINT in ("writing", "failing")
    through_python = through_python or any("writing" in hold for hold in HOLDS)
    return rows.mapInArrow(dying, SCHEMA) if through_python else rows


pipeline = Pipeline("crash", checkpoints=f"{PLACE}/checkpoints", storage=STORAGE)
table = f"{PLACE}/table"
other = f"{PLACE}/other"

LOGIN = {"user": os.environ.get("CRASH_USER"), "password": "env:CRASH_PASSWORD"}
JDBC = CONNECTION if CONNECTION.startswith("jdbc:") else "jdbc:mariadb://none/none"
OUTPUTS = {
    "append": (sinks.delta_append(table),),
    "append-large": (sinks.delta_append(table),),
    "append-partitioned": (sinks.delta_append(table, partition_by=["k"]),),
    "append-spark": (sinks.delta_append(table),),
    "merge": (sinks.delta_merge(table, keys=["k"], newest="id"),),
    "merge-large": (sinks.delta_merge(table, keys=["k"], newest="id"),),
    "merge-spark": (sinks.delta_merge(table, keys=["k"], newest="id"),),
    "stateful": (sinks.delta_merge(table, keys=["k"]),),
    "outputs": (
        sinks.delta_append(table, select=lambda rows: rows.where("id % 2 = 0")),
        sinks.delta_append(other, select=lambda rows: rows.where("id % 2 = 1")),
    ),
    "files": (sinks.files(table),),
    "pg-append": (sinks.postgres_append(CONNECTION, "rows", schema=DB_SCHEMA),),
    "pg-append-large": (sinks.postgres_append(CONNECTION, "rows", schema=DB_SCHEMA),),
    "pg-upsert": (
        sinks.postgres_upsert(CONNECTION, "rows", keys=["k"], newest="id", schema=DB_SCHEMA),
    ),
    "pg-upsert-large": (
        sinks.postgres_upsert(CONNECTION, "rows", keys=["k"], newest="id", schema=DB_SCHEMA),
    ),
    "jdbc-append": (sinks.jdbc_append(JDBC, "rows", **LOGIN),),  # type: ignore[arg-type]
    "jdbc-upsert": (
        sinks.jdbc_upsert(JDBC, "rows", keys=["k"], newest="id", **LOGIN),  # type: ignore[arg-type]
    ),
    "pg-stateful": (sinks.postgres_upsert(CONNECTION, "rows", keys=["k"], schema=DB_SCHEMA),),
}


@pipeline.job(
    "crash-job",
    reads=source(),
    writes=OUTPUTS[SINK],
    output_mode="update" if SINK.endswith("stateful") else "append",
)
def crash_job(given: DataFrame) -> DataFrame:
    """The rows as they are, or counted by key where state is wanted."""
    rows = rows_of(given)
    if not SINK.endswith("stateful"):
        return rows
    return rows.groupBy("k").agg(F.count("id").alias("count"), F.max("id").alias("id"))


if os.getsid(0) == os.getpid():  # the driver leads its session; workers import this module too
    arm()
