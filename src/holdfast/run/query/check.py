"""May a query start from an old checkpoint? Builds the query, but starts and writes nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.diagnose import check as checks
from holdfast.errors import (
    HoldfastError,
    LocationEmpty,
    LocationMissing,
    OptionInvalid,
    SchemaMismatch,
    SourceUnavailable,
)
from holdfast.gather import evidence as gathering
from holdfast.gather.locate import resolve
from holdfast.model.definition import Job
from holdfast.model.evidence import Evidence
from holdfast.model.finding import Check, Finding, NotAssessed, QueryChange
from holdfast.model.fingerprint import Fingerprint, PlanSink
from holdfast.model.ids import Generation
from holdfast.run.query import fingerprint
from holdfast.run.session import clock
from holdfast.storage import urls

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_TARGETS = ("path", "topic", "table")


def check(
    query: "DataFrame | DataStreamWriter",
    checkpoint: str,
    *,
    output_mode: str | None = None,
    storage: Mapping[str, str] | None = None,
) -> Check:
    """Check whether a PySpark stream may start from a checkpoint; start and write nothing.

    `query` is a streaming DataFrame, or the writer on which you would call `.start()`. The writer
    also contains the sink and the output mode.
    """
    from pyspark.sql import DataFrame

    sinks: tuple[PlanSink, ...] = ()
    mode = "append"
    if isinstance(query, DataFrame):
        result = query
    else:
        result, sinks, mode = unpack_writer(query)
    if not result.isStreaming:
        raise OptionInvalid(
            "the query to check is not a streaming DataFrame",
            hint="read its source with `spark.readStream`",
        )
    new = fingerprint.take_from_frame(result, sinks=sinks, output_mode=output_mode or mode)
    return compare(checkpoint.rstrip("/").rpartition("/")[2], checkpoint, storage or {}, new)


def check_job(
    job: Job,
    location: str,
    evidence: Evidence | None,
    storage: Mapping[str, str],
    spark: "SparkSession",
) -> Check:
    """Compare a job with its checkpoint and its sinks; start no query, write nothing.

    `evidence` is None if the job has no checkpoint yet.
    """
    from holdfast.run.query import failure, stream

    try:
        with failure.translate_errors(job):
            result = stream.build_result(job, stream.derive_session(job, spark))
            new = fingerprint.take_from_job(job, result)
    except SourceUnavailable as error:
        if evidence is not None:
            raise
        # An earlier job of the pipeline may still have to create the source.
        gap = NotAssessed(question="whether the rows fit the tables", reason=error.message)
        return replace(checks.make_first_start(job.name, location), not_assessed=(gap,))
    comparison = (
        checks.make_first_start(job.name, location)
        if evidence is None
        else checks.judge(job.name, QueryChange(evidence=evidence, new=new))
    )
    return checks.add_answers(comparison, check_sinks(job, result, storage))


def check_sinks(
    job: Job, result: "DataFrame", storage: Mapping[str, str]
) -> Iterator[Finding | NotAssessed]:
    """Check whether the rows of each output fit its sink; write nothing."""
    from holdfast.run.query import stream

    for output in stream.open_outputs(job, Generation(1), storage):
        try:
            stream.require_fit(output, result)
        except SchemaMismatch as error:
            yield checks.make_rows_finding(output.output.name, error.message, error.hint)
        except HoldfastError as error:
            yield NotAssessed(
                question=f"whether the rows fit output `{output.output.name}`",
                reason=error.message,
            )


def compare(job: str, location: str, storage: Mapping[str, str], new: Fingerprint) -> Check:
    """Compare a new query with the checkpoint at a location."""
    evidence = read_evidence(location, storage)
    if evidence is None:
        return checks.make_first_start(job, urls.to_canonical(location))
    return checks.judge(job, QueryChange(evidence=evidence, new=new))


def read_evidence(location: str, storage: Mapping[str, str]) -> Evidence | None:
    """Return the evidence of a checkpoint; None if there is no checkpoint yet."""
    try:
        checkpoint = resolve.find_checkpoint(location, storage)
    except (LocationMissing, LocationEmpty):
        return None
    return gathering.collect(
        checkpoint.place, checkpoint.top, event_log=None, now_ms=clock.now_ms()
    )


def unpack_writer(writer: "DataStreamWriter") -> "tuple[DataFrame, tuple[PlanSink, ...], str]":
    """Return the query, the sink and the output mode of a writer.

    A writer has no public methods for these, so the fields of its Java object are read.
    """
    java = writer._jwrite  # noqa: SLF001
    fields = {str(field.getName()): field for field in java.getClass().getDeclaredFields()}
    values: dict[str, JavaObject] = {}
    for name in ("source", "outputMode", "extraOptions"):
        fields[name].setAccessible(True)
        values[name] = fields[name].get(java)
    targets = (values["extraOptions"].get(option) for option in _TARGETS)
    target = next((str(option.get()) for option in targets if option.isDefined()), "")
    kind = str(values["source"])
    mode = str(values["outputMode"].toString()).lower()
    return writer._df, (PlanSink(name="", kind=kind, target=target),), mode  # noqa: SLF001
