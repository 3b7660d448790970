"""One job -> one streaming query.

Spark writes `offsets/N`, then calls the batch writer here, then writes `commits/N`. The batch
writer gives the batch to every output. Each output has its own ledger, so it writes a batch once.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from holdfast.errors import FunctionResultInvalid
from holdfast.model.batch import Batch, LedgerKey, Writer
from holdfast.model.definition import (
    AvailableNow,
    Continuously,
    Every,
    FileSink,
    ForeachBatch,
    Job,
    Output,
    Trigger,
)
from holdfast.model.ids import BatchId, Generation
from holdfast.run.query.batch import OffsetReader
from holdfast.run.query.own_offsets import OwnOffsets
from holdfast.sinks import caching
from holdfast.sinks.contract import Decision, LedgeredSink
from holdfast.sinks.open import open_sink
from holdfast.sources import open as sources
from holdfast.storage import urls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOutput:
    """An output with its open sink; `ledgered` is None for a file sink or a user's function."""

    output: Output
    ledgered: LedgeredSink | None

    def select_rows(self, result: DataFrame) -> DataFrame:
        """Return the rows of the job's result that go to this output."""
        if self.output.select is None:
            return result
        selected = self.output.select(result)
        if not isinstance(selected, DataFrame):
            raise FunctionResultInvalid(
                f"the `select` of output `{self.output.name}` returned"
                f" {type(selected).__name__}, not a DataFrame",
                hint="end the `select` function with `return` and the DataFrame",
            )
        return selected


def open_outputs(
    job: Job, generation: Generation, storage: Mapping[str, str]
) -> tuple[OpenOutput, ...]:
    """Return the job's outputs with their sinks; open no connection yet."""
    return tuple(
        OpenOutput(
            output=output,
            ledgered=open_sink(
                output.sink,
                LedgerKey(job=job.name, generation=generation, output=output.name),
                storage,
            ),
        )
        for output in job.writes
    )


def build_result(job: Job, spark: "SparkSession") -> DataFrame:
    """Return the result of the job's function; raise unless it is a streaming DataFrame."""
    frames = [sources.open_stream(source, spark) for source in job.reads]
    result = job.function(*frames)
    if not isinstance(result, DataFrame):
        raise FunctionResultInvalid(
            f"the function of job `{job.name}` ({job.declared_at}) returned"
            f" {type(result).__name__}, not a DataFrame",
            hint="end the function with `return` and the DataFrame",
        )
    if not result.isStreaming:
        raise FunctionResultInvalid(
            f"the function of job `{job.name}` ({job.declared_at}) returned a DataFrame that is"
            " not a streaming DataFrame: it does not come from the job's sources",
            hint="build the result from the DataFrames that the function gets as arguments",
        )
    return result


def derive_session(job: Job, spark: "SparkSession") -> "SparkSession":
    """Return the session, or a copy of it with the job's own settings."""
    if not job.settings:
        return spark
    from pyspark.sql import SparkSession

    copy = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001
    for key, value in job.settings.items():
        copy.conf.set(key, value)
    return copy


class BatchHeldBack(Exception):
    """The job is being stopped; the next start runs this batch."""


class BatchWriter:
    """The function that Spark calls with every batch: it writes the batch to each output once."""

    def __init__(self, outputs: tuple[OpenOutput, ...], offsets: OffsetReader) -> None:
        self._outputs = outputs
        self._offsets = offsets
        self._own = OwnOffsets()
        self._stopping = threading.Event()
        self.failure: Exception | None = None

    def stop_before_next(self) -> None:
        """Let the running batch finish, and write no other batch."""
        self._stopping.set()

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        """Write one batch; keep the error, because Spark turns it into text."""
        if self._stopping.is_set():
            # The batch is in the offset log, so the next start runs it. This call must raise: if it
            # returned, Spark would write the batch into the commit log.
            raise BatchHeldBack(batch_id)
        try:
            batch = BatchId(batch_id)
            own = self._own.read(rows.sparkSession, batch)
            self._write(rows, self._offsets.batch(batch, own))
        except Exception as error:
            self.failure = error
            raise

    def _write(self, rows: DataFrame, batch: Batch) -> None:
        """Write the batch to every output, and run its plan once.

        A single output that writes the rows unchanged runs the whole plan by writing. Other outputs
        may run only a part of the plan: a `select` that keeps few rows or none, or a user's
        function that reads only the first row. State that is updated only in part corrupts the
        checkpoint, so a stateful plan is first run in full and cached. Several outputs always share
        one cache, even for a stateless plan: they must get the same rows, and must not each read
        the source. The executors hold the cache, in memory and on disk.
        """
        if len(self._outputs) == 1 and (_runs_all(self._outputs[0]) or not _has_state(rows)):
            if not self._write_output(self._outputs[0], rows, batch):
                _run_plan(rows)
            return
        with caching.cache(rows) as cached:
            counted = replace(batch, expected_rows=cached.count())
            for output in self._outputs:
                self._write_output(output, cached, counted)

    def _write_output(self, output: OpenOutput, rows: DataFrame, batch: Batch) -> bool:
        """Write the batch to one output; return whether that ran the plan."""
        selected = output.select_rows(rows)
        if output.ledgered is not None:
            return output.ledgered.write(batch, selected) is Decision.WRITE
        if isinstance(output.output.sink, ForeachBatch):
            output.output.sink.function(selected, batch.id)
        return True


def _runs_all(output: OpenOutput) -> bool:
    """Return whether writing to the output runs the whole plan of the job's result."""
    return output.ledgered is not None and output.output.select is None


def _has_state(rows: DataFrame) -> bool:
    """Return whether the plan of a batch updates state, by the RDDs that it consists of."""
    return "StateStore" in rows._jdf.queryExecution().toRdd().toDebugString()  # noqa: SLF001


def _run_plan(rows: DataFrame) -> None:
    """Run the plan only to update its state: a batch that the sink skips must still do that."""
    rows.write.format("noop").mode("overwrite").save()


def start(
    job: Job, result: DataFrame, location: str, writer: BatchWriter, *, once: bool
) -> "StreamingQuery":
    """Start the query of a job; with `once`, it ends after the available data."""
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
    """Raise if the rows of an output do not fit its table; write nothing."""
    if output.ledgered is not None:
        output.ledgered.require_fit(output.select_rows(result).schema, result.sparkSession)


def prepare(outputs: tuple[OpenOutput, ...], writer: Writer, result: DataFrame) -> None:
    """Create missing tables and ledgers, and fence older drivers, before any batch runs."""
    for output in outputs:
        if output.ledgered is not None:
            schema = output.select_rows(result).schema
            output.ledgered.prepare(writer, schema, result.sparkSession)
