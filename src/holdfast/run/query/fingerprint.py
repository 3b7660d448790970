"""The plan of a streaming query -> its Fingerprint; starts nothing.

Spark writes the logical plan as JSON in one call. Facts that the JSON lacks are read from single
nodes of the plan.
"""

import pickle
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.decode import plan as plans
from holdfast.decode.plan_terms import is_source
from holdfast.model import json
from holdfast.model.definition import Job, find_kind, find_target
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import Fingerprint, PlanSink, Term
from holdfast.model.json import Json
from holdfast.report import redact
from holdfast.run.query import function_code, kafka_ids, processors
from holdfast.spark.pinned import PINNED_SINCE
from holdfast.storage import urls

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession

_FILES = frozenset({"json", "csv", "parquet", "orc", "text", "avro", "xml"})
_KINDS = {"kafka": "Kafka", "delta": "Delta", "iceberg": "Iceberg"}
_TARGETS = ("path", "subscribe", "subscribePattern", "assign", "table")
# No checkpoint pins these settings, and they change the result of a query.
_UNPINNED = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
    "spark.sql.streaming.sessionWindow.stateFormatVersion",
)
_SOURCES = ("StreamingRelation", "StreamingRelationV2")
_FUNCTION = "PythonUDF"


def take_from_plan(
    plan: "JavaObject",
    spark: "SparkSession",
    *,
    sinks: Sequence[PlanSink],
    output_mode: str,
    session: "JavaObject | None" = None,
) -> Fingerprint:
    """Return the fingerprint of a query from its analyzed plan in the JVM.

    `session` is the session of the query, if it is not `spark`.
    """
    query_session = session or spark._jsparkSession  # noqa: SLF001
    append = output_mode == "append"
    lookups = kafka_ids.KafkaLookups(_find_kafka_sources(plan, spark), spark)
    analyzed = _decode_plan(plan, spark, append=append)
    optimized_plan = query_session.sessionState().optimizer().execute(plan)
    optimized = _decode_plan(optimized_plan, spark, append=append)
    return Fingerprint(
        spark_version=str(spark.version),
        sources=lookups.add_identities(analyzed.sources),
        watermarks=analyzed.watermarks,
        operators=plans.merge_operators(analyzed, optimized),
        steps=analyzed.steps,
        columns=tuple(
            Term(name=str(column.name()), type=str(column.dataType().catalogString()), text=text)
            for column, text in zip(_iterate(plan.output()), analyzed.texts, strict=False)
        ),
        functions=_digest_functions(plan, spark),
        sinks=tuple(sinks),
        output_mode=output_mode,
        settings=dict(_read_settings(query_session)),
    )


def _decode_plan(plan: "JavaObject", spark: "SparkSession", *, append: bool) -> plans.QueryPlan:
    facts = {number: _read_facts(node, spark) for number, node in enumerate(_walk(plan))}
    decoded = plans.decode(json.parse(str(plan.toJSON())), facts, append=append)
    if decoded is None:
        raise AssertionError
    return decoded


def take_from_frame(
    result: "DataFrame", *, sinks: Sequence[PlanSink], output_mode: str
) -> Fingerprint:
    """Return the fingerprint of a query that starts from a DataFrame."""
    analyzed = result._jdf.queryExecution().analyzed()  # noqa: SLF001  PySpark has no public access
    return take_from_plan(analyzed, result.sparkSession, sinks=sinks, output_mode=output_mode)


def take_from_job(job: Job, result: "DataFrame") -> Fingerprint:
    """Return the fingerprint of the query of a declared job."""
    sinks = [
        PlanSink(
            name=output.name, kind=find_kind(output.sink).value, target=find_target(output.sink)
        )
        for output in job.writes
    ]
    return take_from_frame(result, sinks=sinks, output_mode=job.output_mode.value)


def try_taking(take: Callable[[], Fingerprint]) -> Fingerprint | Unknown:
    """Return a fingerprint, or why there is none: an unexpected plan must not stop a stream."""
    try:
        return take()
    except Exception as error:
        return Unknown(reason=f"its plan could not be read ({type(error).__name__})")


def _walk(node: "JavaObject") -> "Iterator[JavaObject]":
    yield node
    for child in _iterate(node.children()):
        yield from _walk(child)


def _iterate(sequence: "JavaObject") -> "Iterator[JavaObject]":
    for index in range(sequence.size()):
        yield sequence.apply(index)


def _read_facts(node: "JavaObject", spark: "SparkSession") -> Mapping[str, Json]:
    match str(node.getClass().getSimpleName()):
        case "EventTimeWatermark":
            return {"delay": str(node.delay().toString())}
        case "Aggregate":
            keys = [
                str(key.dataType().catalogString()) for key in _iterate(node.groupingExpressions())
            ]
            return {"key_types": keys, "stored": _list_stored_columns(node)}
        case "StreamingRelation" | "StreamingRelationV2":
            return _describe_source(node, _read_options(node, spark))
        case "TransformWithStateInPySpark" | "TransformWithStateInPandas":
            return {"variables": _read_variables(node, spark)}
        case _:
            return {}


def _read_variables(node: "JavaObject", spark: "SparkSession") -> list[Json]:
    """Return the state variables that a processor declares; none if it cannot be loaded."""
    with suppress(Exception):  # a user's class can raise anything
        processor = processors.find_processor(_load_function(node.functionExpr(), spark))
        if processor is not None:
            variables = processors.list_variables(processor)
            return [[variable.name, variable.type, variable.text] for variable in variables]
    return []


def _describe_source(node: "JavaObject", options: Mapping[str, str]) -> Mapping[str, Json]:
    provider = _find_provider(node)
    format_ = provider.removesuffix("fileformat")
    format_ = format_ if format_ in _FILES else ""
    names = {key.lower(): key for key in options}
    targets = [options[names[key.lower()]] for key in _TARGETS if key.lower() in names]
    kind = "files" if format_ else next((_KINDS[k] for k in _KINDS if k in provider), provider)
    target = urls.to_canonical(targets[0]) if targets and kind in ("files", "Delta") else ""
    others = {
        key: value for key, value in options.items() if key.lower() not in map(str.lower, _TARGETS)
    }
    return {
        "name": _read_given_name(node),
        "kind": kind,
        "target": redact.text(target or ", ".join(targets)),
        "options": redact.value({**others, **({"format": format_} if format_ else {})}),
    }


def _read_given_name(node: "JavaObject") -> str:
    """Return the name that the query gave to a source; only Spark 4.2 and later have names."""
    from py4j.protocol import Py4JError

    try:
        name = node.sourceIdentifyingName()
    except Py4JError:
        return ""
    return str(name.name()) if str(name.getClass().getSimpleName()) == "UserProvided" else ""


def _find_provider(node: "JavaObject") -> str:
    """Return the short name of the provider of a source."""
    is_v2 = str(node.getClass().getSimpleName()) == "StreamingRelationV2"
    name = node.sourceName() if is_v2 else node.dataSource().className()
    return str(name).lower().rpartition(".")[2]


def _read_options(node: "JavaObject", spark: "SparkSession") -> dict[str, str]:
    """Return the options of a source, secrets included."""
    if str(node.getClass().getSimpleName()) != "StreamingRelationV2":
        converters = spark._jvm.scala.jdk.javaapi.CollectionConverters  # type: ignore[union-attr]  # noqa: SLF001
        options = converters.asJava(node.dataSource().options())
    else:
        options = node.extraOptions().asCaseSensitiveMap()
    return {str(key): str(options[key]) for key in options}


def _find_kafka_sources(
    plan: "JavaObject", spark: "SparkSession"
) -> dict[int, kafka_ids.KafkaSourceNode]:
    """Return the nodes and options of Kafka sources, by their index among the plan's sources."""
    nodes = ((str(node.getClass().getSimpleName()), node) for node in _walk(plan))
    sources = [(kind, node) for kind, node in nodes if is_source(kind)]
    return {
        index: (node, _read_options(node, spark))
        for index, (kind, node) in enumerate(sources)
        if kind in _SOURCES and "kafka" in _find_provider(node)
    }


def _list_stored_columns(node: "JavaObject") -> list[Json]:
    """Return the columns that the aggregates store per key, each aggregate once."""
    stored: dict[str, list[Json]] = {}
    for expression in _iterate(node.aggregateExpressions()):
        for part in _walk(expression):
            if str(part.getClass().getSimpleName()) == "AggregateExpression":
                columns = _iterate(part.aggregateFunction().aggBufferAttributes())
                stored.setdefault(
                    str(part.canonicalized().toString()),
                    [[str(c.name()), str(c.dataType().catalogString()), ""] for c in columns],
                )
    return [column for columns in stored.values() for column in columns]


def _digest_functions(plan: "JavaObject", spark: "SparkSession") -> Mapping[str, str]:
    """Return a digest per Python function; functions with the same name share one entry."""
    digests: dict[str, str] = {}
    for node in _walk(plan) if _FUNCTION in str(plan.toJSON()) else ():
        for expression in _iterate(node.expressions()):
            for part in _walk(expression):
                if str(part.getClass().getSimpleName()) == _FUNCTION:
                    name, digest = _digest_function(part, spark)
                    digests[name] = f"{digests[name]} {digest}" if name in digests else digest
    version = ".".join(platform.python_version_tuple()[:2])
    return {
        name: f"{version} {digest}" if digest.strip() else "" for name, digest in digests.items()
    }


def _digest_function(function: "JavaObject", spark: "SparkSession") -> tuple[str, str]:
    """Return the name of a Python function and a digest of its code; empty if it has no code.

    For a processor of `transformWithState`, Spark calls one of its own functions. The name and the
    digest are then those of the processor's class.
    """
    name = str(function.name())
    with suppress(Exception):  # a user's function can fail to load for any reason
        called = _load_function(function, spark)
        processor = processors.find_processor(called)
        if processor is None:
            return name, function_code.digest([called])
        methods = processors.list_methods(processor)
        return type(processor).__name__, function_code.digest(methods)
    return name, ""


def _load_function(function: "JavaObject", spark: "SparkSession") -> Callable[..., object]:
    """Return a copy of the function, as a worker gets it."""
    tags = spark._jvm.scala.reflect.ClassTag  # type: ignore[union-attr]  # noqa: SLF001
    command = function.func().command().toArray(tags.Byte())
    loaded = pickle.loads(bytes(command))  # noqa: S301  this process has pickled it
    called: Callable[..., object] = loaded[0] if isinstance(loaded, tuple) else loaded
    return called


def _read_settings(session: "JavaObject") -> Iterator[tuple[str, str]]:
    conf = session.sessionState().conf()
    for key in (*PINNED_SINCE, *_UNPINNED):
        if conf.contains(key) or conf.isModifiable(key):
            yield key, str(conf.getConfString(key))
