"""The running query -> the offsets of its current batch, through Py4J.

The file `offsets/N` can differ from what Spark runs: on object stores the late PUT of a dead driver
replaces the file. The query has its offsets in memory. Its own offset log serializes them to the
text of an entry, which is decoded like the file.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

from holdfast.decode import offset_log
from holdfast.model.fact import Unknown, Unreadable
from holdfast.model.ids import BatchId
from holdfast.model.offsets import OffsetEntry

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

_QUERY_ID, _RUN_ID = "sql.streaming.queryId", "spark.jobGroup.id"
NOT_ASKED = Unknown(reason="the running query was not asked for its offsets")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRange:
    """Where the query starts and ends a batch, as entries of an offset log."""

    start: OffsetEntry
    end: OffsetEntry


class OwnOffsets:
    """The offsets of the query that runs in the calling thread.

    Each call into Java costs a round trip. So objects that stay the same within a run are kept, and
    a batch starts where the previous batch ended.
    """

    def __init__(self) -> None:
        self._run: _QueryRun | None = None
        self._last: tuple[BatchId, OffsetEntry] | None = None

    def read(self, spark: "SparkSession", batch: BatchId) -> OwnRange | Unknown:
        """Return the query's own offsets for its batch; Unknown if Spark does not give them."""
        try:
            return self._read(spark, batch)
        except (Py4JError, AttributeError, TypeError) as error:
            # Other versions of Spark may name these methods differently, and Spark Connect has no
            # JVM. The stream then relies on the offset log alone.
            self._run = None
            return Unknown(reason=f"this Spark does not give them: {type(error).__name__}")

    def _read(self, spark: "SparkSession", batch: BatchId) -> OwnRange | Unknown:
        name = spark.sparkContext.getLocalProperty(_RUN_ID)
        run: _QueryRun | Unknown = self._run or NOT_ASKED
        if isinstance(run, Unknown) or run.name != name:
            run, self._last = _find_run(spark, str(name)), None
        if isinstance(run, Unknown):
            return run
        context = run.query.getLatestExecutionContext()
        if context.batchId() != batch:
            return Unknown(reason=f"the query runs batch {context.batchId()}")
        before = self._last
        end = run.decode(context, context.endOffsets())
        start = (
            before[1]
            if before is not None and before[0] == batch - 1
            else run.decode(context, context.startOffsets())
        )
        if isinstance(start, Unreadable) or isinstance(end, Unreadable):
            return Unknown(reason="the query's offsets cannot be read")
        self._run, self._last = run, (batch, end)
        return OwnRange(start=start, end=end)


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueryRun:
    """One run of the query: its execution in the JVM, and objects that do not change within it."""

    name: str
    query: "JavaObject"
    sources: "JavaObject"
    log: "JavaObject"
    out: "JavaObject"

    def decode(self, context: "JavaObject", progress: "JavaObject") -> OffsetEntry | Unreadable:
        """Return the offsets as the query's own offset log would write them."""
        self.out.reset()
        self.log.serialize(
            progress.toOffsetSeq(self.sources, context.offsetSeqMetadata()), self.out
        )
        return offset_log.decode(bytes(self.out.toByteArray()))


def _find_run(spark: "SparkSession", name: str) -> _QueryRun | Unknown:
    query_id = spark.sparkContext.getLocalProperty(_QUERY_ID)
    jvm = spark.sparkContext._jvm  # noqa: SLF001  there is no other way to the running query
    if query_id is None or jvm is None:
        return Unknown(reason="no query runs in this thread")
    # The session of a batch is a copy, and its own list of queries is empty. This list is shared.
    shared = spark._jsparkSession.sharedState()  # noqa: SLF001
    query = shared.activeStreamingQueries().get(jvm.java.util.UUID.fromString(query_id))
    if query is None:
        return Unknown(reason="Spark does not list the query as running")
    return _QueryRun(
        name=name,
        query=query,
        sources=query.sources(),
        log=query.offsetLog(),
        out=jvm.java.io.ByteArrayOutputStream(),
    )
