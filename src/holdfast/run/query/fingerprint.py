"""The plan of a streaming query -> its Fingerprint, without starting anything.

Spark writes the logical plan as JSON in one call. What that leaves out is asked of single nodes.
"""

import hashlib
import pickle
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING

from holdfast.decode import plan as plans
from holdfast.decode.plan_terms import is_source
from holdfast.model import json
from holdfast.model.definition import Job, find_target
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import Fingerprint, PlanSink, Term
from holdfast.model.json import Json
from holdfast.report import redact
from holdfast.run.query import kafka_ids, processors
from holdfast.spark.pinned import PINNED_SINCE
from holdfast.storage import urls

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import DataFrame, SparkSession

_FILES = frozenset({"json", "csv", "parquet", "orc", "text", "avro", "xml"})
_KINDS = {"kafka": "Kafka", "delta": "Delta", "iceberg": "Iceberg"}
_TARGETS = ("path", "subscribe", "subscribePattern", "assign", "table")
# They are not pinned by any checkpoint, and change what a query computes.
_UNPINNED = (
    "spark.sql.session.timeZone",
    "spark.sql.ansi.enabled",
    "spark.sql.caseSensitive",
    "spark.sql.streaming.stateStore.checkpointFormatVersion",
    "spark.sql.streaming.sessionWindow.stateFormatVersion",
)
_SOURCES = ("StreamingRelation", "StreamingRelationV2")
_FUNCTION = "PythonUDF"
_SHORT = 16


def take_from_plan(
    plan: "JavaObject",
    spark: "SparkSession",
    *,
    sinks: Sequence[PlanSink],
    output_mode: str,
    session: "JavaObject | None" = None,
) -> Fingerprint:
    """What a query is, from its analyzed plan in the JVM; `session` is its own, if another."""
    own = session or spark._jsparkSession  # noqa: SLF001
    append = output_mode == "append"
    asked = kafka_ids.KafkaLookups(_find_kafka_sources(plan, spark), spark)
    found = _decode_plan(plan, spark, append=append)
    optimized = _decode_plan(own.sessionState().optimizer().execute(plan), spark, append=append)
    return Fingerprint(
        spark_version=str(spark.version),
        sources=asked.of(found.sources),
        watermarks=found.watermarks,
        operators=plans.merge_operators(found, optimized),
        steps=found.steps,
        columns=tuple(
            Term(name=str(one.name()), type=str(one.dataType().catalogString()), text=text)
            for one, text in zip(_iterate(plan.output()), found.texts, strict=False)
        ),
        functions=_digest_functions(plan, spark),
        sinks=tuple(sinks),
        output_mode=output_mode,
        settings=dict(_read_settings(own)),
    )


def _decode_plan(plan: "JavaObject", spark: "SparkSession", *, append: bool) -> plans.QueryPlan:
    facts = {number: _read_facts(node, spark) for number, node in enumerate(_walk(plan))}
    found = plans.decode(json.parse(str(plan.toJSON())), facts, append=append)
    if found is None:
        raise AssertionError
    return found


def take_from_frame(
    result: "DataFrame", *, sinks: Sequence[PlanSink], output_mode: str
) -> Fingerprint:
    """What a query is that would be started from a DataFrame."""
    analyzed = result._jdf.queryExecution().analyzed()  # noqa: SLF001  PySpark does not pass it on
    return take_from_plan(analyzed, result.sparkSession, sinks=sinks, output_mode=output_mode)


def take_from_job(job: Job, result: "DataFrame") -> Fingerprint:
    """What the query of a declared job is."""
    sinks = [
        PlanSink(name=one.name, kind=type(one.sink).__name__, target=find_target(one.sink))
        for one in job.writes
    ]
    return take_from_frame(result, sinks=sinks, output_mode=job.output_mode.value)


def try_taking(take: Callable[[], Fingerprint]) -> Fingerprint | Unknown:
    """A fingerprint, or why there is none: a plan that nobody has foreseen must stop no stream."""
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
                str(one.dataType().catalogString()) for one in _iterate(node.groupingExpressions())
            ]
            return {"key_types": keys, "stored": _list_stored_columns(node)}
        case "StreamingRelation" | "StreamingRelationV2":
            return _describe_source(node, _read_options(node, spark))
        case "TransformWithStateInPySpark" | "TransformWithStateInPandas":
            return {"variables": _read_variables(node, spark)}
        case _:
            return {}


def _read_variables(node: "JavaObject", spark: "SparkSession") -> list[Json]:
    """What a processor declares to keep; nothing where it cannot be asked."""
    with suppress(Exception):  # whatever a user's class does
        processor = processors.find_processor(_load_function(node.functionExpr(), spark))
        if processor is not None:
            return [[one.name, one.type, one.text] for one in processors.list_variables(processor)]
    return []


def _describe_source(node: "JavaObject", options: Mapping[str, str]) -> Mapping[str, Json]:
    short = _find_provider(node)
    files = short.removesuffix("fileformat")
    files = files if files in _FILES else ""
    lower = {key.lower(): key for key in options}
    targets = [options[lower[one.lower()]] for one in _TARGETS if one.lower() in lower]
    kind = "files" if files else next((_KINDS[one] for one in _KINDS if one in short), short)
    target = urls.to_canonical(targets[0]) if targets and kind in ("files", "Delta") else ""
    kept = {
        key: value for key, value in options.items() if key.lower() not in map(str.lower, _TARGETS)
    }
    return {
        "name": _read_given_name(node),
        "kind": kind,
        "target": redact.text(target or ", ".join(targets)),
        "options": redact.value({**kept, **({"format": files} if files else {})}),
    }


def _read_given_name(node: "JavaObject") -> str:
    """The name that the query gave to a source; before Spark 4.2 none has one."""
    from py4j.protocol import Py4JError

    try:
        given = node.sourceIdentifyingName()
    except Py4JError:
        return ""
    return str(given.name()) if str(given.getClass().getSimpleName()) == "UserProvided" else ""


def _find_provider(node: "JavaObject") -> str:
    """The short name of what a source is read with."""
    of_v2 = str(node.getClass().getSimpleName()) == "StreamingRelationV2"
    name = node.sourceName() if of_v2 else node.dataSource().className()
    return str(name).lower().rpartition(".")[2]


def _read_options(node: "JavaObject", spark: "SparkSession") -> dict[str, str]:
    """The options of a source, with its secrets."""
    if str(node.getClass().getSimpleName()) != "StreamingRelationV2":
        converters = spark._jvm.scala.jdk.javaapi.CollectionConverters  # type: ignore[union-attr]  # noqa: SLF001
        found = converters.asJava(node.dataSource().options())
    else:
        found = node.extraOptions().asCaseSensitiveMap()
    return {str(key): str(found[key]) for key in found}


def _find_kafka_sources(
    plan: "JavaObject", spark: "SparkSession"
) -> dict[int, kafka_ids.KafkaSourceNode]:
    """The sources of Kafka with their options, by their place among the sources of a plan."""
    nodes = ((str(node.getClass().getSimpleName()), node) for node in _walk(plan))
    sources = [(kind, node) for kind, node in nodes if is_source(kind)]
    return {
        number: (node, _read_options(node, spark))
        for number, (kind, node) in enumerate(sources)
        if kind in _SOURCES and "kafka" in _find_provider(node)
    }


def _list_stored_columns(node: "JavaObject") -> list[Json]:
    """The columns that the aggregates keep for a key, each aggregate once."""
    found: dict[str, list[Json]] = {}
    for one in _iterate(node.aggregateExpressions()):
        for part in _walk(one):
            if str(part.getClass().getSimpleName()) == "AggregateExpression":
                columns = _iterate(part.aggregateFunction().aggBufferAttributes())
                found.setdefault(
                    str(part.canonicalized().toString()),
                    [[str(c.name()), str(c.dataType().catalogString()), ""] for c in columns],
                )
    return [column for columns in found.values() for column in columns]


def _digest_functions(plan: "JavaObject", spark: "SparkSession") -> Mapping[str, str]:
    """Every Python function of a plan with a digest; those of one name have one together."""
    found: dict[str, str] = {}
    for node in _walk(plan) if _FUNCTION in str(plan.toJSON()) else ():
        for expression in _iterate(node.expressions()):
            for part in _walk(expression):
                if str(part.getClass().getSimpleName()) == _FUNCTION:
                    name, digest = _digest_function(part, spark)
                    found[name] = f"{found[name]} {digest}" if name in found else digest
    version = ".".join(platform.python_version_tuple()[:2])
    return {name: f"{version} {digest}" if digest.strip() else "" for name, digest in found.items()}


def _digest_function(function: "JavaObject", spark: "SparkSession") -> tuple[str, str]:
    """The name of a Python function and a digest of its own code; empty where it is not to be had.

    For a processor of `transformWithState` Spark calls a function of its own: the class tells.
    """
    name = str(function.name())
    with suppress(Exception):  # whatever a user's function needs to be loaded
        called = _load_function(function, spark)
        processor = processors.find_processor(called)
        parts = [called] if processor is None else processors.list_methods(processor)
        seen: set[int] = set()
        code = "\n".join(line for part in parts for line in _dump_value(part, seen))
        name = name if processor is None else type(processor).__name__
        # Of what is no Python function nothing is told, which is no proof that it stays the same.
        return name, hashlib.sha256(code.encode()).hexdigest()[:_SHORT] if code else ""
    return name, ""


def _load_function(function: "JavaObject", spark: "SparkSession") -> Callable[..., object]:
    """A copy of the function, as a worker gets it."""
    tags = spark._jvm.scala.reflect.ClassTag  # type: ignore[union-attr]  # noqa: SLF001
    command = function.func().command().toArray(tags.Byte())
    loaded = pickle.loads(bytes(command))  # noqa: S301  this process has pickled it
    called: Callable[..., object] = loaded[0] if isinstance(loaded, tuple) else loaded
    return called


def _dump_value(value: object, seen: set[int]) -> Iterator[str]:
    """What a function does, as far as it is its own: its code, and the values that it closes over.

    One that names itself comes to an end: each thing is told once.
    """
    if isinstance(value, str | int | float | bool | None):
        yield repr(value)
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, FunctionType):
        yield from _dump_code(value.__code__)
        yield repr(value.__defaults__)
    for inner in _list_inner_values(value):
        yield from _dump_value(inner, seen)


def _list_inner_values(value: object) -> Iterator[object]:
    match value:
        case FunctionType():
            yield from (cell.cell_contents for cell in value.__closure__ or ())
        case MethodType():
            yield value.__func__
        case Mapping():
            for key, inner in value.items():
                yield from (str(key), inner)
        case list() | tuple():
            yield from value
        case _:
            return  # a thing of a library, which is not the function's own


def _dump_code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for one in code.co_consts:
        if isinstance(one, CodeType):
            yield from _dump_code(one)
        else:
            yield repr(one)


def _read_settings(session: "JavaObject") -> Iterator[tuple[str, str]]:
    conf = session.sessionState().conf()
    for key in (*PINNED_SINCE, *_UNPINNED):
        if conf.contains(key) or conf.isModifiable(key):
            yield key, str(conf.getConfString(key))
