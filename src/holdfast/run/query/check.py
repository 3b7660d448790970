"""May a query start from an old checkpoint? Builds it, starts nothing, and writes nothing."""

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
from holdfast.gather import evidence
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
    """Say whether any PySpark stream may start from a checkpoint; nothing is started or written.

    `query` is a streaming DataFrame, or the writer that `.start()` would be called on, which knows
    its sink and its output mode as well.
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
            "expected a streaming DataFrame to check, found one that is not",
            hint="read its source with `spark.readStream`",
        )
    new = fingerprint.take_from_frame(result, sinks=sinks, output_mode=output_mode or mode)
    return compare(checkpoint.rstrip("/").rpartition("/")[2], checkpoint, storage or {}, new)


def check_job(
    job: Job,
    location: str,
    seen: Evidence | None,
    storage: Mapping[str, str],
    spark: "SparkSession",
) -> Check:
    """Compare a job with its checkpoint, and ask its sinks; starts no query, and writes nothing."""
    from holdfast.run.query import (
        failure,
        stream,
    )

    try:
        with failure.translate_errors(job):
            result = stream.build_result(job, stream.derive_session(job, spark))
            new = fingerprint.take_from_job(job, result)
    except SourceUnavailable as error:
        if seen is not None:
            raise
        # The jobs before it may not have made its source yet.
        question = NotAssessed(question="whether the rows fit the tables", reason=error.message)
        return replace(checks.make_first_start(job.name, location), not_assessed=(question,))
    found = (
        checks.make_first_start(job.name, location)
        if seen is None
        else checks.judge(job.name, QueryChange(evidence=seen, new=new))
    )
    return checks.add_answers(found, check_sinks(job, result, storage))


def check_sinks(
    job: Job, result: "DataFrame", storage: Mapping[str, str]
) -> Iterator[Finding | NotAssessed]:
    """Ask the sink of each output whether the rows fit; writes nothing."""
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
    """A query to come beside what lies at a location."""
    seen = read_evidence(location, storage)
    if seen is None:
        return checks.make_first_start(job, urls.to_canonical(location))
    return checks.judge(job, QueryChange(evidence=seen, new=new))


def read_evidence(location: str, storage: Mapping[str, str]) -> Evidence | None:
    """What is in a checkpoint; None where there is none yet."""
    try:
        found = resolve.find_checkpoint(location, storage)
    except (LocationMissing, LocationEmpty):
        return None
    return evidence.collect(found.place, found.top, event_log=None, now_ms=clock.now_ms())


def unpack_writer(writer: "DataStreamWriter") -> "tuple[DataFrame, tuple[PlanSink, ...], str]":
    """The query, the sink and the output mode of a writer, which has no public way to say so."""
    java = writer._jwrite  # noqa: SLF001
    told = {str(one.getName()): one for one in java.getClass().getDeclaredFields()}
    fields: dict[str, JavaObject] = {}
    for name in ("source", "outputMode", "extraOptions"):
        told[name].setAccessible(True)
        fields[name] = told[name].get(java)
    targets = (fields["extraOptions"].get(one) for one in _TARGETS)
    target = next((str(one.get()) for one in targets if one.isDefined()), "")
    kind = str(fields["source"])
    mode = str(fields["outputMode"].toString()).lower()
    return writer._df, (PlanSink(name="", kind=kind, target=target),), mode  # noqa: SLF001
