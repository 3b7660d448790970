"""Rows to PostgreSQL, exactly once, against Spark's own JDBC writer and the server's own COPY.

All sides run in turn, on one server with fsync on and in one Spark session. Each side writes into a
table that was just emptied, after a checkpoint of the server. The columns of a row are text,
timestamp, double, int and long.
"""

import contextlib
import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
from pyspark.sql import DataFrame, SparkSession

from bench import delta
from bench.measure import Result, at_least, at_most, more_by
from holdfast import sinks, sources
from holdfast.examples.broker import Broker
from holdfast.examples.database import ROLE, Database
from holdfast.model.batch import Batch, LedgerKey, Writer
from holdfast.model.definition import PostgresAppend, PostgresUpsert
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.run import order
from holdfast.run.pipeline import Pipeline
from holdfast.run.session import build, jars
from holdfast.run.start.admission import RunOptions
from holdfast.sinks.postgres import PostgresAppendSink, PostgresUpsertSink, encode
from holdfast.sinks.postgres.encode import CopyColumn, Oid

ROWS = 1_000_000
PARTITIONS = 2
SMALL_ROWS = 1_000
SMALL_BATCHES = 20
WARM = 5
WARM_ROUNDS = 4  # the JVM compiles during these rounds, and both sides become faster
MOST_MS = 60.0
FEW, MANY = 100_000, 10_000_000
TYPES = "name text, at timestamptz, value float8, n int4, id int8"
COLUMNS = tuple(
    CopyColumn(name=name, sql=kind, oid=oid, array=False, most=0, required=False)
    for name, kind, oid in (
        ("name", "text", Oid.TEXT),
        ("at", "timestamptz", Oid.TIMESTAMPTZ),
        ("value", "float8", Oid.FLOAT8),
        ("n", "int4", Oid.INT4),
        ("id", "int8", Oid.INT8),
    )
)
BY_HAND = """
INSERT INTO upserted SELECT * FROM by_hand ON CONFLICT (id) DO UPDATE SET name = excluded.name,
at = excluded.at, value = excluded.value, n = excluded.n"""


def open_session(*, master: str = "local[*]") -> SparkSession:
    """Open a session that has PostgreSQL's JDBC driver."""
    driver = ",".join(str(path) for path in jars.fetch("jdbc-postgres"))
    given = {"spark.jars": driver, "spark.sql.session.timeZone": "UTC"}
    return build.open_session("bench", master=master, given=given, on_s3=False, debug=False)


def make_rows(spark: SparkSession, count: int = ROWS, first: int = 0) -> DataFrame:
    """Return rows of five columns in two partitions."""
    return spark.range(first, first + count, numPartitions=PARTITIONS).selectExpr(
        "concat('sensor-', lpad(CAST(id % 997 AS STRING), 4, '0')) AS name",
        "timestamp_micros(1767225600000000 + id * 1001) AS at",
        "id * 0.25D AS value",
        "CAST(id % 1000 AS INT) AS n",
        "id",
    )


class Sides:
    """The writers that are compared on one server; each method returns its seconds."""

    def __init__(self, spark: SparkSession, database: Database, home: Path) -> None:
        self._spark = spark
        self._database = database
        self._batches = 0
        self._admin = psycopg.connect(database.connection, autocommit=True)
        self._writer = Writer(
            job=JobName("bench"), generation=Generation(1), epoch=Epoch(1), location="/bench"
        )
        self._file = home / "rows.copy"
        self._admin.execute(f"CREATE TABLE IF NOT EXISTS rows ({TYPES})")
        key = LedgerKey(job=self._writer.job, generation=Generation(1), output=OutputName("rows"))
        sink = PostgresAppend(
            connection=database.connection, password=None, schema="public", table="rows"
        )
        self._append = PostgresAppendSink(sink, key)
        self._append.prepare(self._writer, make_rows(spark).schema, spark)

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()

    def append(self, count: int) -> None:
        """Append rows with holdfast, in one batch."""
        self._append.write(self._make_batch(count), make_rows(self._spark, count))

    def _empty(self, table: str = "rows") -> None:
        self._admin.execute(f"TRUNCATE {table}")
        self._admin.execute("CHECKPOINT")

    def _make_batch(self, count: int) -> Batch:
        self._batches += 1
        return Batch(
            life=self._writer,
            id=BatchId(self._batches - 1),
            digest=Digest(str(self._batches)),
            offsets=[],
            expected_rows=count,
        )

    def _measure(
        self, write: Callable[[], object], table: str = "rows", count: int = ROWS
    ) -> float:
        started = time.perf_counter()
        write()
        seconds = time.perf_counter() - started
        counted = self._admin.execute(f"SELECT count(*) FROM {table}").fetchall()
        assert counted == [(count,)], (table, counted)
        return seconds

    def append_with_holdfast(self) -> float:
        """Append with holdfast, including its ledger."""
        self._empty()
        rows = make_rows(self._spark)
        return self._measure(lambda: self._append.write(self._make_batch(ROWS), rows))

    def _write_jdbc(self, table: str, parameters: str = "", first: int = 0) -> None:
        address = f"jdbc:postgresql://127.0.0.1:{self._database.port}/postgres{parameters}"
        (
            make_rows(self._spark, first=first)
            .write.format("jdbc")
            .option("url", address)
            .option("driver", "org.postgresql.Driver")
            .option("dbtable", table)
            .option("user", ROLE)
            .option("password", self._database.password_file.read_text())
            .mode("append")
            .save()
        )

    def append_with_jdbc(self) -> float:
        """Append with Spark's JDBC writer at its defaults."""
        self._empty()
        return self._measure(lambda: self._write_jdbc("rows"))

    def append_with_rewriting_jdbc(self) -> float:
        """Append with Spark's JDBC writer and a driver that rewrites batched inserts."""
        self._empty()
        return self._measure(lambda: self._write_jdbc("rows", "?reWriteBatchedInserts=true"))

    def copy_on_server(self) -> float:
        """Let the server copy the same rows from a local file in one session: the fastest way."""
        if not self._file.exists():
            batches = make_rows(self._spark).toArrow().to_batches()
            parts = [bytes(p) for b in batches for p in encode.encode_rows(COLUMNS, b)]
            self._file.write_bytes(encode.HEADER + b"".join(parts) + encode.TRAILER)
            self._file.chmod(0o644)
        self._empty()
        statement = f"COPY rows FROM '{self._file}' (FORMAT binary)"
        return self._measure(lambda: self._admin.execute(statement))

    def prepare_upserts(self) -> PostgresUpsertSink:
        """Create the tables for upserts, and return the sink."""
        self._admin.execute(f"CREATE TABLE upserted ({TYPES}, PRIMARY KEY (id))")
        self._admin.execute(f"CREATE TABLE by_hand ({TYPES})")
        self._write_jdbc("by_hand")
        self._admin.execute("CREATE TABLE million AS SELECT * FROM by_hand")
        declared = PostgresUpsert(
            connection=self._database.connection,
            password=None,
            schema="public",
            table="upserted",
            keys=("id",),
            newest=None,
            deleted=None,
        )
        key = LedgerKey(
            job=self._writer.job, generation=Generation(1), output=OutputName("upserted")
        )
        sink = PostgresUpsertSink(declared, key)
        sink.prepare(self._writer, make_rows(self._spark).schema, self._spark)
        return sink

    def _fill_upserted(self) -> None:
        self._admin.execute("TRUNCATE upserted; TRUNCATE by_hand")
        self._admin.execute("INSERT INTO upserted SELECT * FROM million")
        self._admin.execute("VACUUM ANALYZE upserted")
        self._admin.execute("CHECKPOINT")

    def upsert(self, sink: PostgresUpsertSink) -> float:
        """Upsert with holdfast into a million rows; half of the keys exist."""
        self._fill_upserted()
        rows = make_rows(self._spark, first=ROWS // 2)
        batch = self._make_batch(ROWS)
        return self._measure(lambda: sink.write(batch, rows), "upserted", ROWS * 3 // 2)

    def upsert_by_hand(self) -> float:
        """Write to a second table with Spark's JDBC writer, then run a hand-written upsert."""
        self._fill_upserted()

        def write() -> None:
            self._write_jdbc("by_hand", first=ROWS // 2)
            self._admin.execute(BY_HAND)

        return self._measure(write, "upserted", ROWS * 3 // 2)


@contextlib.contextmanager
def _start_server(home: Path) -> Iterator[Database]:
    with Database(home / "database") as database:
        os.environ["PGPASSFILE"] = str(database.pgpass)
        yield database


def measure_appends(home: Path, rounds: int) -> list[Result]:
    """Measure an append of a million rows in one batch."""
    with _start_server(home) as database:
        spark = open_session()
        sides = Sides(spark, database, _make_readable_folder(home))
        appends = {
            "holdfast": sides.append_with_holdfast,
            "jdbc": sides.append_with_jdbc,
            "rewritten": sides.append_with_rewriting_jdbc,
            "copy": sides.copy_on_server,
        }
        samples: dict[str, list[float]] = {name: [] for name in appends}
        for round_number in range(-1, rounds):
            for name, append in appends.items():
                seconds = append()
                if round_number >= 0:  # an extra first round warms up the JVM
                    samples[name].append(seconds)
        sides.close()
        spark.stop()
    name = "PostgreSQL, append of 1 million rows"
    return [
        at_least(f"{name}, Spark's JDBC", "s", samples, "jdbc", "holdfast", 2),
        at_least(f"{name}, the same rewritten", "s", samples, "rewritten", "holdfast", 1.2),
        at_most(f"{name}, the server's COPY", "s", samples, "holdfast", "copy", 3),
    ]


def measure_upserts(home: Path, rounds: int) -> list[Result]:
    """Measure an upsert of a million rows into a million rows; half of the keys exist."""
    with _start_server(home) as database:
        spark = open_session()
        sides = Sides(spark, database, _make_readable_folder(home))
        sink = sides.prepare_upserts()
        samples: dict[str, list[float]] = {"holdfast": [], "by hand": []}
        for round_number in range(-1, rounds):
            with_holdfast, by_hand = sides.upsert(sink), sides.upsert_by_hand()
            if round_number >= 0:
                samples["holdfast"].append(with_holdfast)
                samples["by hand"].append(by_hand)
        sides.close()
        spark.stop()
    name = "PostgreSQL, upsert of 1 million rows"
    return [at_least(name, "s", samples, "by hand", "holdfast", 1.5)]


def measure_small_batches(home: Path, rounds: int) -> list[Result]:
    """Measure batches of 1,000 rows from Kafka: milliseconds per trigger over the noop sink."""
    samples: dict[str, list[float]] = {"noop": [], "holdfast": []}
    with _start_server(home) as database, Broker(home / "broker") as broker:
        spark = open_session()
        delta.fill(broker, "small", SMALL_ROWS * SMALL_BATCHES)
        run_noop = delta.Bench(spark, broker, "small").run_noop
        for round_number in range(-WARM_ROUNDS, rounds):
            for name, medians in samples.items():
                folder = home / f"{name}-{round_number}"
                triggers = (
                    run_noop(folder, SMALL_ROWS)
                    if name == "noop"
                    else _stream(
                        spark, broker, database, folder, f"rows_{round_number + WARM_ROUNDS}"
                    )
                )
                assert len(triggers) == SMALL_BATCHES, (name, triggers)
                if round_number >= 0:
                    medians.append(statistics.median(triggers[WARM:]))
        spark.stop()
    name = "PostgreSQL, 1,000-row batches, ms per trigger more than noop"
    return [more_by(name, "ms", samples, "holdfast", "noop", MOST_MS)]


def _stream(
    spark: SparkSession, broker: Broker, database: Database, home: Path, table: str
) -> list[float]:
    pipeline = Pipeline("bench", checkpoints=str(home / "checkpoints"))
    options = {"maxOffsetsPerTrigger": str(SMALL_ROWS)}

    @pipeline.job(
        table,
        reads=sources.kafka(broker.bootstrap_servers, "small", options=options),
        writes=sinks.postgres_append(database.connection, table),
    )
    def bench(rows: DataFrame) -> DataFrame:
        return rows

    run_options = RunOptions(dev=True, once=True)
    running = order.start(pipeline.declaration, pipeline.jobs, run_options, lambda _: spark)
    running.wait()
    progress = running.queries[table].recentProgress
    return [p["durationMs"]["triggerExecution"] for p in progress if p["numInputRows"] > 0]


def measure_memory(home: Path) -> list[Result]:
    """Measure the driver's memory, Python and JVM, with 100,000 and with 10 million rows.

    The executors are separate processes, so that only the driver counts.
    """
    with _start_server(home) as database:
        spark = open_session(master="local-cluster[2,1,1024]")
        sides = Sides(spark, database, _make_readable_folder(home))
        jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]  # noqa: SLF001
        peaks: dict[str, list[float]] = {"few": [], "many": []}
        for name, count in (("few", FEW), ("few", FEW), ("many", MANY)):
            with _Peak(jvm) as peak:
                sides.append(count)
            peaks[name] = [peak.megabytes]
        sides.close()
        spark.stop()
    name = "PostgreSQL, driver's memory, 10 million rows per batch against 100,000"
    return [at_most(name, "MB", peaks, "many", "few", 1.25)]


class _Peak:
    """The peak memory of this process and the JVM together."""

    def __init__(self, jvm: int) -> None:
        self._jvm = jvm
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.megabytes = 0.0

    def __enter__(self) -> "_Peak":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.05):
            pages = [
                int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                for pid in (os.getpid(), self._jvm)
            ]
            self.megabytes = max(self.megabytes, sum(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20)


def _make_readable_folder(home: Path) -> Path:
    """Return a folder that every user can read: the server runs as another user than root."""
    folder = home / "files"
    folder.mkdir(exist_ok=True)
    for path in (folder, home, home.parent):
        path.chmod(0o755)
    return folder
