"""Small queries over files, and what real Spark does when one of them is started on a checkpoint.

    <folder>/in0/0.json …     what source 0 reads; `in1` where there is a second
    <folder>/ck               the checkpoint

A query is run once to make a checkpoint, which is then copied, damaged and started again.
"""

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from tests.spark.processing import processing

SCHEMA = "k string, v long, t timestamp"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_EPOCH = 1_767_225_600
_DEEPEST = 20
_ASYNC = {
    "asyncProgressTrackingEnabled": "true",
    "asyncProgressTrackingCheckpointIntervalMs": "0",
    "_asyncProgressTrackingOverrideSinkSupportCheck": "true",
}


def _plain(read: Sequence[DataFrame]) -> DataFrame:
    return read[0].select("k", "v")


def _union(read: Sequence[DataFrame]) -> DataFrame:
    return read[0].select("k", "v").union(read[1].select("k", "v"))


def _counts(read: Sequence[DataFrame]) -> DataFrame:
    return read[0].groupBy("k").count()


def _distinct(read: Sequence[DataFrame]) -> DataFrame:
    return read[0].withWatermark("t", "10 minutes").dropDuplicates(["k", "t"]).select("k", "v")


def _windows(read: Sequence[DataFrame]) -> DataFrame:
    timed = read[0].withWatermark("t", "10 minutes")
    return timed.groupBy("t", "k").count().select("k", "count")


def _chained(read: Sequence[DataFrame]) -> DataFrame:
    timed = read[0].withWatermark("t", "10 minutes").dropDuplicates(["k", "t"])
    return timed.groupBy("t", "k").count().select("k", "count")


def _join(read: Sequence[DataFrame]) -> DataFrame:
    left, right = read[0].select("k", "v"), read[1].selectExpr("k", "v as w")
    return left.join(right, "k")


def _processor(read: Sequence[DataFrame]) -> DataFrame:
    return processing("value n: c long")(read)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query that can be built again."""

    name: str
    build: Callable[[Sequence[DataFrame]], DataFrame]
    sources: int = 1
    mode: str = "append"
    stateful: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def asynchronous(self) -> bool:
        """Whether it runs with asynchronous progress tracking."""
        return "asyncProgressTrackingEnabled" in self.options


QUERIES = {
    query.name: query
    for query in (
        Query(name="plain", build=_plain),
        Query(name="union", build=_union, sources=2),
        Query(name="counts", build=_counts, mode="update", stateful=True),
        Query(
            name="counts-rocksdb",
            build=_counts,
            mode="update",
            stateful=True,
            settings={
                "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
                "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
            },
        ),
        Query(
            name="counts-zip",
            build=_counts,
            mode="update",
            stateful=True,
            settings={
                "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
                "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
            },
        ),
        Query(
            name="counts-ids",
            build=_counts,
            mode="update",
            stateful=True,
            settings={
                "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
                "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
                "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
            },
        ),
        Query(
            name="processor",
            build=_processor,
            mode="update",
            stateful=True,
            settings={"spark.sql.streaming.stateStore.providerClass": ROCKSDB},
        ),
        Query(
            name="join-families",
            build=_join,
            sources=2,
            stateful=True,
            settings={
                "spark.sql.streaming.stateStore.providerClass": ROCKSDB,
                "spark.sql.streaming.join.stateFormatVersion": "3",
            },
        ),
        Query(name="distinct", build=_distinct, stateful=True),
        Query(name="windows", build=_windows, stateful=True),
        Query(name="chained", build=_chained, stateful=True),
        Query(name="join", build=_join, sources=2, stateful=True),
        Query(name="asynchronous", build=_plain, options=_ASYNC),
        Query(
            name="compacted",
            build=_plain,
            settings={
                "spark.sql.streaming.fileSource.log.compactInterval": "3",
                "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
                "spark.sql.streaming.minBatchesToRetain": "2",
                "spark.sql.streaming.asyncLogPurge.enabled": "false",
            },
        ),
    )
}
_SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": HDFS,
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.adaptive.enabled": "false",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A batch that reached the sink; `rows` is None where its rows could not be computed."""

    batch: int
    rows: tuple[tuple[object, ...], ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a start ended with."""

    exception: str
    condition: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What Spark did. `before` are the offset entries that were there, `planned` those since."""

    delivered: tuple[Delivered, ...]
    failure: Failure | None
    ranges: Mapping[int, tuple[tuple[object, object], ...]]
    watermarks: Mapping[int, str]
    before: frozenset[int]
    planned: tuple[int, ...]
    committed: tuple[int, ...]


def rows(batch: int, source: int = 0) -> list[dict[str, object]]:
    """What the input file of a number holds: a key of its own, and one that all files share."""
    minute = f"2026-01-01T{batch // 6:02d}:{batch % 6}0:00Z"
    mine = {"k": f"s{source}-f{batch}", "v": batch, "t": minute}
    return [mine, {"k": "every", "v": batch + 100 * source, "t": minute}]


def write_input(folder: Path, batch: int, source: int = 0) -> Path:
    """Write the input file of a number."""
    path = folder / f"in{source}" / f"{batch:04d}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(row) for row in rows(batch, source)))
    # Spark takes files by the time they were written at, which must not be the same for two.
    os.utime(path, (_EPOCH + batch, _EPOCH + batch))
    return path


def start(spark: SparkSession, query: Query, folder: Path) -> Observed:
    """Start a query on a checkpoint, and tell what it did until it had read everything."""
    return observe(
        lambda sink: _writer(spark, query, folder, sink),
        folder / "ck",
        lambda running, _: _read_all(running, asynchronous=query.asynchronous),
    )


def observe(
    make: "Callable[[Sink], DataStreamWriter]",
    checkpoint: Path,
    wait: "Callable[[StreamingQuery, Sink], None]",
) -> Observed:
    """Start any query, wait as told, and return what it did."""
    before = {log: _entries(checkpoint / log) for log in ("offsets", "commits")}
    sink = Sink()
    failure: Failure | None = None
    progress: list[_Progress] = []
    try:
        running = make(sink).start()
    except Exception as error:
        failure = _failure(_java(error))
    else:
        failure = _ended(running, sink, wait)
        # Python's view of it is another in each version.
        reported = running._jsq.recentProgress()  # noqa: SLF001
        said = (_progress(one.json()) for one in reported)
        progress = [one for one in said if one is not None]
    after = {log: _entries(checkpoint / log) for log in ("offsets", "commits")}
    return Observed(
        delivered=tuple(sink.delivered),
        failure=failure,
        ranges={one.batch: one.ranges for one in progress},
        watermarks={one.batch: one.watermark for one in progress},
        before=frozenset(before["offsets"]),
        planned=tuple(sorted(after["offsets"] - before["offsets"])),
        committed=tuple(sorted(after["commits"] - before["commits"])),
    )


class _Class(Protocol):
    def getSimpleName(self) -> str: ...  # noqa: N802  Java's name


class _Thrown(Protocol):
    """An exception in Java."""

    def getCause(self) -> "_Thrown | None": ...  # noqa: N802
    def getClass(self) -> _Class: ...  # noqa: N802
    def getMessage(self) -> str: ...  # noqa: N802
    def getCondition(self) -> str | None: ...  # noqa: N802


class _Progress(NamedTuple):
    batch: int
    ranges: tuple[tuple[object, object], ...]
    watermark: str


def _progress(text: str) -> _Progress | None:
    """What a batch reported; nothing where only a look for data was reported."""
    said = json.loads(text)
    if "addBatch" not in said.get("durationMs", {}):
        return None
    return _Progress(
        batch=said["batchId"],
        ranges=tuple((one["startOffset"], one["endOffset"]) for one in said["sources"]),
        watermark=said.get("eventTime", {}).get("watermark", ""),
    )


class Sink:
    """Keeps what it is given, and what went wrong when the rows were computed."""

    def __init__(self) -> None:
        self.delivered: list[Delivered] = []
        self.raised: list[Exception] = []

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Take a batch, as `foreachBatch` hands it over."""
        self.delivered.append(Delivered(batch=batch, rows=None))
        try:
            found = sorted(tuple(row) for row in frame.collect())
        except Exception as error:
            self.raised.append(error)
            raise
        self.delivered[-1] = Delivered(batch=batch, rows=tuple(found))


def _writer(spark: SparkSession, query: Query, folder: Path, sink: Sink) -> DataStreamWriter:
    session = spark.newSession()
    for key, value in {**_SETTINGS, **query.settings}.items():
        session.conf.set(key, value)
    read = [
        session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"{folder}/in{n}")
        for n in range(query.sources)
    ]
    writer = (
        query.build(read)
        .writeStream.foreachBatch(sink)
        .outputMode(query.mode)
        .option("checkpointLocation", str(folder / "ck"))
        .options(**query.options)
    )
    if query.asynchronous:
        return writer.trigger(processingTime="0 seconds")
    return writer.trigger(availableNow=True)


def _read_all(running: StreamingQuery, *, asynchronous: bool) -> None:
    if asynchronous:
        running.processAllAvailable()
        running.stop()
    else:
        running.awaitTermination()


def _ended(
    running: StreamingQuery, sink: Sink, wait: Callable[[StreamingQuery, Sink], None]
) -> Failure | None:
    with suppress(StreamingQueryException):
        wait(running, sink)
    told = running._jsq.exception()  # noqa: SLF001  its cause is not to be had otherwise
    if not told.isDefined():
        return None
    # What the sink's own Python code raised comes back as text only.
    return _failure(_java(sink.raised[-1]) if sink.raised else told.get().cause())


def _entries(log: Path) -> set[int]:
    if not log.is_dir():
        return set()
    return {int(file.name) for file in log.iterdir() if file.name.isdecimal()}


def _java(error: Exception) -> _Thrown:
    """The exception in Java that one in Python stands for."""
    for name in ("_origin", "java_exception"):
        found: _Thrown | None = getattr(error, name, None)
        if found is not None:
            return found
    raise error


def _failure(raised: _Thrown) -> Failure:
    """The outermost exception, with the first condition that it or one of its causes has."""
    chain: list[_Thrown] = []
    cause: _Thrown | None = raised
    while cause is not None and len(chain) < _DEEPEST:
        chain.append(cause)
        cause = cause.getCause()
    conditions = [one for one in map(_condition, chain) if one]
    named = [one for one in conditions if not one.startswith("_LEGACY")]
    return Failure(
        exception=raised.getClass().getSimpleName(),
        condition=named[0] if named else "",
        message=str(raised.getMessage())[:400],
    )


def _condition(raised: _Thrown) -> str:
    for ask in ("getCondition", "getErrorClass"):  # the second is its name in 3.5
        with suppress(Exception):
            return str(getattr(raised, ask)() or "")
    return ""


def copied(base: Path, to: Path) -> Path:
    """A copy of a query's folder, which names the copied input and its own state schemas."""
    shutil.copytree(base, to)
    for pattern in ("ck/sources/*/*", "ck/state/*/_metadata/v2/*"):
        for entry in to.glob(pattern):
            if entry.is_file() and not entry.name.startswith("."):
                entry.write_text(entry.read_text().replace(f"{base}/", f"{to}/"))
                entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
    return to
