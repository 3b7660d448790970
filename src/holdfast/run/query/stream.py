"""One job -> one streaming query.

Spark writes `offsets/N`, then calls the batch writer here, then writes `commits/N`. The writer
gives the batch to every output, each of which writes it once by its own ledger.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from holdfast.errors import FunctionResultInvalid, name_extra
from holdfast.model.batch import Batch, LedgerKey, Writer, make_ledger_key
from holdfast.model.definition import (
    AvailableNow,
    Continuously,
    DeltaAppend,
    DeltaMerge,
    Every,
    FileSink,
    ForeachBatch,
    JdbcAppend,
    JdbcUpsert,
    Job,
    Output,
    PostgresAppend,
    PostgresUpsert,
    Trigger,
)
from holdfast.model.ids import BatchId, Generation, JobName
from holdfast.run.query.batch import OffsetReader
from holdfast.run.query.own_offsets import OwnOffsets
from holdfast.sinks import caching
from holdfast.sinks.contract import Decision, LedgeredSink
from holdfast.sinks.delta import DeltaAppendSink, DeltaMergeSink
from holdfast.sources import open as sources
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOutput:
    """An output with its sink opened; `ledgered` is None for a user's own function."""

    output: Output
    ledgered: LedgeredSink | None

    def rows(self, result: DataFrame) -> DataFrame:
        """The rows of the job's result that go to this output."""
        if self.output.select is None:
            return result
        selected = self.output.select(result)
        if not isinstance(selected, DataFrame):
            raise FunctionResultInvalid(
                f"expected the `select` of output `{self.output.name}` to return a DataFrame,"
                f" found {type(selected).__name__}",
                hint="return the DataFrame that it makes",
            )
        return selected


def open_outputs(
    job: Job, generation: Generation, storage: Mapping[str, str]
) -> tuple[OpenOutput, ...]:
    """The job's outputs with their sinks; opens no connection yet."""
    return tuple(
        OpenOutput(output=output, ledgered=_open_sink(job.name, generation, output, storage))
        for output in job.writes
    )


def _open_sink(
    job: JobName, generation: Generation, output: Output, storage: Mapping[str, str]
) -> LedgeredSink | None:
    in_delta = make_ledger_key(job, generation, output.name)
    key = LedgerKey(job=job, generation=generation, output=output.name)
    match output.sink:
        case DeltaAppend():
            return DeltaAppendSink(output.sink, in_delta, storage)
        case DeltaMerge():
            return DeltaMergeSink(output.sink, in_delta, storage)
        case PostgresAppend() | PostgresUpsert():
            return _open_postgres(output.sink, key)
        case JdbcAppend() | JdbcUpsert():
            from holdfast.sinks.jdbc import JdbcSink

            return JdbcSink(output.sink, key)
        case FileSink() | ForeachBatch():
            return None


def _open_postgres(sink: PostgresAppend | PostgresUpsert, key: LedgerKey) -> LedgeredSink:
    try:
        from holdfast.sinks import postgres  # its driver is an extra
    except ModuleNotFoundError as error:
        raise name_extra(error) or error from error

    if isinstance(sink, PostgresAppend):
        return postgres.PostgresAppendSink(sink, key)
    return postgres.PostgresUpsertSink(sink, key)


def build_result(job: Job, spark: "SparkSession") -> DataFrame:
    """The job's function applied to its sources; raises unless it is a streaming DataFrame."""
    frames = [sources.open_stream(source, spark) for source in job.reads]
    result = job.function(*frames)
    if not isinstance(result, DataFrame):
        raise FunctionResultInvalid(
            f"expected job `{job.name}` ({job.declared_at}) to return a DataFrame, found"
            f" {type(result).__name__}",
            hint="end the function with `return` and the DataFrame",
        )
    if not result.isStreaming:
        raise FunctionResultInvalid(
            f"expected job `{job.name}` ({job.declared_at}) to return a streaming DataFrame, found"
            " one that does not come from its sources",
            hint="make the result from the DataFrames that the function is given",
        )
    return result


def derive_session(job: Job, spark: "SparkSession") -> "SparkSession":
    """The session, or a copy of it with the job's own settings."""
    if not job.settings:
        return spark
    from pyspark.sql import SparkSession

    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001
    for key, value in job.settings.items():
        copy.conf.set(key, value)
    return copy


class BatchHeldBack(Exception):
    """The job is being stopped, and this batch is left to the next start."""


class BatchWriter:
    """What Spark calls with every batch: gives it to each output, once."""

    def __init__(self, outputs: tuple[OpenOutput, ...], offsets: OffsetReader) -> None:
        self._outputs = outputs
        self._offsets = offsets
        self._own = OwnOffsets()
        self._stopping = threading.Event()
        self.failure: Exception | None = None

    def stop_before_next(self) -> None:
        """Let the batch at hand finish, and begin no other."""
        self._stopping.set()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write one batch; keeps the error, which Spark would flatten to text."""
        if self._stopping.is_set():
            # Planned but not begun: it is in the offset log and runs at the next start. It must
            # fail, not return: Spark would write it into the commit log.
            raise BatchHeldBack(batch_id)
        try:
            batch = BatchId(batch_id)
            own = self._own.read(rows.sparkSession, batch)
            self._write(rows, self._offsets.batch(batch, own))
        except Exception as error:
            self.failure = error
            raise

    def _write(self, rows: DataFrame, batch: Batch) -> None:
        """Give the batch to every output, running its plan once.

        One output that writes its rows as they are runs the plan by writing. Everything else may
        leave some of the plan out: a `select` that keeps few rows or none, a function of the user
        that looks at the first row only. State that the plan did not move in full poisons the
        checkpoint, so a stateful plan is then run and cached before. Several outputs always share
        one cache, also of a stateless plan: they must get the same rows, and their sum must not
        read the source once per output. The cache lies on the executors and their disks.
        """
        if len(self._outputs) == 1 and (_runs_all(self._outputs[0]) or not _has_state(rows)):
            if not self._give(self._outputs[0], rows, batch):
                _run_plan(rows)
            return
        with caching.cached(rows) as held:
            counted = replace(batch, expected_rows=held.count())
            for output in self._outputs:
                self._give(output, held, counted)

    def _give(self, output: OpenOutput, rows: DataFrame, batch: Batch) -> bool:
        """Give the batch to one output; says whether its plan was run."""
        selected = output.rows(rows)
        if output.ledgered is not None:
            return output.ledgered.write(batch, selected) is Decision.WRITE
        if isinstance(output.output.sink, ForeachBatch):
            output.output.sink.function(selected, batch.id)
        return True


def _runs_all(output: OpenOutput) -> bool:
    """Whether writing to the output runs the plan of the job's result in full."""
    return output.ledgered is not None and output.output.select is None


def _has_state(rows: DataFrame) -> bool:
    """Whether the plan of a batch moves state, by the RDDs that it consists of."""
    return "StateStore" in rows._jdf.queryExecution().toRdd().toDebugString()  # noqa: SLF001


def _run_plan(rows: DataFrame) -> None:
    """Run the plan for nothing but its state: a skipped batch must still move it."""
    rows.write.format("noop").mode("overwrite").save()


def start(
    job: Job, result: DataFrame, location: str, writer: BatchWriter, *, once: bool
) -> "StreamingQuery":
    """Start the query."""
    stream = (
        _set_trigger(result.writeStream, AvailableNow() if once else job.trigger)
        .queryName(job.name)
        .outputMode(job.output_mode.value)
        .option("checkpointLocation", urls.to_spark_url(location))
    )
    sink = job.writes[0].sink
    if not isinstance(sink, FileSink):
        return stream.foreachBatch(writer).start()
    stream = stream.format(sink.format).options(**sink.options)
    if sink.partition_by:
        stream = stream.partitionBy(*sink.partition_by)
    return stream.start(urls.to_spark_url(sink.path))


def _set_trigger(stream: "DataStreamWriter", trigger: Trigger) -> "DataStreamWriter":
    match trigger:
        case Continuously():
            return stream.trigger(processingTime="0 seconds")
        case Every(seconds=seconds):
            return stream.trigger(processingTime=f"{round(seconds * 1000)} milliseconds")
        case AvailableNow():
            return stream.trigger(availableNow=True)


def require_fit(output: OpenOutput, result: DataFrame) -> None:
    """Raise if the rows of an output would not fit its table; writes nothing."""
    if output.ledgered is not None:
        output.ledgered.require_fit(output.rows(result).schema, result.sparkSession)


def prepare(outputs: tuple[OpenOutput, ...], life: Writer, result: DataFrame) -> None:
    """Create what is missing in the sinks and fence older drivers, before any batch runs."""
    for output in outputs:
        if output.ledgered is not None:
            schema = output.rows(result).schema
            output.ledgered.prepare(life, schema, result.sparkSession)
