"""Rows to PostgreSQL, exactly once, against Spark's own JDBC writer and the server's own COPY.

One server with fsync on, one session of Spark, all sides in turn, each into a table that was just
emptied, after a checkpoint of the server. The rows: text, timestamp, double, int, long.
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
from holdfast.sinks.postgres.encode import Column, Oid

ROWS = 1_000_000
PARTITIONS = 2
SMALL_ROWS = 1_000
SMALL_BATCHES = 20
WARM = 5
WARM_ROUNDS = 4  # the JVM compiles for as long, and both sides become faster with it
MOST_MS = 60.0
FEW, MANY = 100_000, 10_000_000
TYPES = "name text, at timestamptz, value float8, n int4, id int8"
COLUMNS = tuple(
    Column(name=name, sql=kind, oid=oid, array=False, most=0, required=False)
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


def spark_session(*, master: str = "local[*]") -> SparkSession:
    """A session that has PostgreSQL's JDBC driver too."""
    driver = ",".join(str(path) for path in jars.fetch("jdbc-postgres"))
    given = {"spark.jars": driver, "spark.sql.session.timeZone": "UTC"}
    return build.open_session("bench", master=master, given=given, on_s3=False, debug=False)


def rows_of(spark: SparkSession, count: int = ROWS, first: int = 0) -> DataFrame:
    """Rows of five columns in two partitions."""
    return spark.range(first, first + count, numPartitions=PARTITIONS).selectExpr(
        "concat('sensor-', lpad(CAST(id % 997 AS STRING), 4, '0')) AS name",
        "timestamp_micros(1767225600000000 + id * 1001) AS at",
        "id * 0.25D AS value",
        "CAST(id % 1000 AS INT) AS n",
        "id",
    )


class Writing:
    """The sides that are compared, on one server."""

    def __init__(self, spark: SparkSession, database: Database, home: Path) -> None:
        self._spark = spark
        self._database = database
        self._batches = 0
        self._admin = psycopg.connect(database.connection, autocommit=True)
        self._life = Writer(
            job=JobName("bench"), generation=Generation(1), epoch=Epoch(1), location="/bench"
        )
        self._file = home / "rows.copy"
        self._admin.execute(f"CREATE TABLE IF NOT EXISTS rows ({TYPES})")
        key = LedgerKey(job=self._life.job, generation=Generation(1), output=OutputName("rows"))
        sink = PostgresAppend(
            connection=database.connection, password=None, schema="public", table="rows"
        )
        self._append = PostgresAppendSink(sink, key)
        self._append.prepare(self._life, rows_of(spark).schema, spark)

    def close(self) -> None:
        """End the connection."""
        self._admin.close()

    def _emptied(self, table: str = "rows") -> None:
        self._admin.execute(f"TRUNCATE {table}")
        self._admin.execute("CHECKPOINT")

    def _batch(self, count: int) -> Batch:
        self._batches += 1
        return Batch(
            life=self._life,
            id=BatchId(self._batches - 1),
            digest=Digest(str(self._batches)),
            offsets=[],
            expected_rows=count,
        )

    def _timed(self, write: Callable[[], object], table: str = "rows", count: int = ROWS) -> float:
        started = time.perf_counter()
        write()
        seconds = time.perf_counter() - started
        found = self._admin.execute(f"SELECT count(*) FROM {table}").fetchall()
        assert found == [(count,)], (table, found)
        return seconds

    def holdfast(self) -> float:
        """The append of holdfast, with its ledger."""
        self._emptied()
        rows = rows_of(self._spark)
        return self._timed(lambda: self._append.write(self._batch(ROWS), rows))

    def _jdbc(self, table: str, parameters: str = "", first: int = 0) -> None:
        address = f"jdbc:postgresql://127.0.0.1:{self._database.port}/postgres{parameters}"
        (
            rows_of(self._spark, first=first)
            .write.format("jdbc")
            .option("url", address)
            .option("driver", "org.postgresql.Driver")
            .option("dbtable", table)
            .option("user", ROLE)
            .option("password", self._database.password_file.read_text())
            .mode("append")
            .save()
        )

    def jdbc(self) -> float:
        """Spark's JDBC append at its defaults."""
        self._emptied()
        return self._timed(lambda: self._jdbc("rows"))

    def jdbc_rewritten(self) -> float:
        """The same with the driver's rewriting of batched inserts."""
        self._emptied()
        return self._timed(lambda: self._jdbc("rows", "?reWriteBatchedInserts=true"))

    def copy(self) -> float:
        """The limit: the server copies the same rows from a file of its own, in one session."""
        if not self._file.exists():
            batches = rows_of(self._spark).toArrow().to_batches()
            parts = [bytes(p) for b in batches for p in encode.encoded(COLUMNS, b)]
            self._file.write_bytes(encode.HEADER + b"".join(parts) + encode.TRAILER)
            self._file.chmod(0o644)
        self._emptied()
        statement = f"COPY rows FROM '{self._file}' (FORMAT binary)"
        return self._timed(lambda: self._admin.execute(statement))

    def prepare_upserts(self) -> PostgresUpsertSink:
        """Make the tables of the upserts, and the sink."""
        self._admin.execute(f"CREATE TABLE upserted ({TYPES}, PRIMARY KEY (id))")
        self._admin.execute(f"CREATE TABLE by_hand ({TYPES})")
        self._jdbc("by_hand")
        self._admin.execute("CREATE TABLE million AS SELECT * FROM by_hand")
        sink = PostgresUpsert(
            connection=self._database.connection,
            password=None,
            schema="public",
            table="upserted",
            keys=("id",),
            newest=None,
            deleted=None,
        )
        key = LedgerKey(job=self._life.job, generation=Generation(1), output=OutputName("upserted"))
        made = PostgresUpsertSink(sink, key)
        made.prepare(self._life, rows_of(self._spark).schema, self._spark)
        return made

    def _a_million(self) -> None:
        self._admin.execute("TRUNCATE upserted; TRUNCATE by_hand")
        self._admin.execute("INSERT INTO upserted SELECT * FROM million")
        self._admin.execute("VACUUM ANALYZE upserted")
        self._admin.execute("CHECKPOINT")

    def upsert(self, sink: PostgresUpsertSink) -> float:
        """The upsert of holdfast into a million rows, half of them with keys that are there."""
        self._a_million()
        rows = rows_of(self._spark, first=ROWS // 2)
        batch = self._batch(ROWS)
        return self._timed(lambda: sink.write(batch, rows), "upserted", ROWS * 3 // 2)

    def upsert_by_hand(self) -> float:
        """Spark's JDBC writer into a table beside it, then the statement that one writes by hand."""
        self._a_million()

        def write() -> None:
            self._jdbc("by_hand", first=ROWS // 2)
            self._admin.execute(BY_HAND)

        return self._timed(write, "upserted", ROWS * 3 // 2)


@contextlib.contextmanager
def _server(home: Path) -> Iterator[Database]:
    with Database(home / "database") as database:
        os.environ["PGPASSFILE"] = str(database.pgpass)
        yield database


def appends(home: Path, rounds: int) -> list[Result]:
    """A million rows in one batch."""
    with _server(home) as database:
        spark = spark_session()
        writing = Writing(spark, database, _open_to_all(home))
        sides = {
            "holdfast": writing.holdfast,
            "jdbc": writing.jdbc,
            "rewritten": writing.jdbc_rewritten,
            "copy": writing.copy,
        }
        samples: dict[str, list[float]] = {name: [] for name in sides}
        for round_number in range(-1, rounds):
            for name, side in sides.items():
                seconds = side()
                if round_number >= 0:  # the round before the first warms the JVM up
                    samples[name].append(seconds)
        writing.close()
        spark.stop()
    name = "PostgreSQL, append of 1 million rows"
    return [
        at_least(f"{name}, Spark's JDBC", "s", samples, "jdbc", "holdfast", 2),
        at_least(f"{name}, the same rewritten", "s", samples, "rewritten", "holdfast", 1.2),
        at_most(f"{name}, the server's COPY", "s", samples, "holdfast", "copy", 3),
    ]


def upserts(home: Path, rounds: int) -> list[Result]:
    """A million rows in one batch into a million rows, half of the keys there."""
    with _server(home) as database:
        spark = spark_session()
        writing = Writing(spark, database, _open_to_all(home))
        sink = writing.prepare_upserts()
        samples: dict[str, list[float]] = {"holdfast": [], "by hand": []}
        for round_number in range(-1, rounds):
            ours, theirs = writing.upsert(sink), writing.upsert_by_hand()
            if round_number >= 0:
                samples["holdfast"].append(ours)
                samples["by hand"].append(theirs)
        writing.close()
        spark.stop()
    name = "PostgreSQL, upsert of 1 million rows"
    return [at_least(name, "s", samples, "by hand", "holdfast", 1.5)]


def small(home: Path, rounds: int) -> list[Result]:
    """Batches of 1,000 rows from Kafka: milliseconds per trigger more than the noop sink."""
    samples: dict[str, list[float]] = {"noop": [], "holdfast": []}
    with _server(home) as database, Broker(home / "broker") as broker:
        spark = spark_session()
        delta.fill(broker, "small", SMALL_ROWS * SMALL_BATCHES)
        noop = delta.Bench(spark, broker, "small").noop
        for round_number in range(-WARM_ROUNDS, rounds):
            for name, kept in samples.items():
                folder = home / f"{name}-{round_number}"
                triggers = (
                    noop(folder, SMALL_ROWS)
                    if name == "noop"
                    else _stream(
                        spark, broker, database, folder, f"rows_{round_number + WARM_ROUNDS}"
                    )
                )
                assert len(triggers) == SMALL_BATCHES, (name, triggers)
                if round_number >= 0:
                    kept.append(statistics.median(triggers[WARM:]))
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


def memory(home: Path) -> list[Result]:
    """The driver's memory, Python and JVM, with executors of their own: 100,000 rows and 10 million."""
    with _server(home) as database:
        spark = spark_session(master="local-cluster[2,1,1024]")
        writing = Writing(spark, database, _open_to_all(home))
        jvm = int(spark._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]  # noqa: SLF001
        peaks: dict[str, list[float]] = {"few": [], "many": []}
        for name, count in (("few", FEW), ("few", FEW), ("many", MANY)):
            with _Peak(jvm) as peak:
                writing._append.write(writing._batch(count), rows_of(spark, count))  # noqa: SLF001
            peaks[name] = [peak.megabytes]
        writing.close()
        spark.stop()
    name = "PostgreSQL, driver's memory, 10 million rows per batch against 100,000"
    return [at_most(name, "MB", peaks, "many", "few", 1.25)]


class _Peak:
    """The most memory that this process and the JVM held together."""

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


def _open_to_all(home: Path) -> Path:
    """A folder that the server can read, which is another user where this one is root."""
    folder = home / "files"
    folder.mkdir(exist_ok=True)
    for one in (folder, home, home.parent):
        one.chmod(0o755)
    return folder
