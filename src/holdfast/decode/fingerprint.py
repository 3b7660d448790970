"""A plan fingerprint as JSON in a run record, both ways.

    {"format":1,"spark_version":"4.1.1","sources":[{"kind":"files","target":"…",…}],
     "watermarks":[{"column":"t","delay":"10 minutes"}],
     "operators":[{"kind":"stateStoreSave","keys":[["k","string","k"]],"values":[…],…}],
     "steps":[…],"columns":[…],"functions":{…},"sinks":[…],"output_mode":"append","settings":{…}}

A term is a list of name, type and text. A source of Kafka has `"identity":{"cluster":"…",
"topics":{"orders":"…"}}` as well, or `{"unknown":"…"}` with the reason why Kafka did not tell it.
"""

from collections.abc import Iterable, Mapping

from holdfast.decode import log
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import (
    NOT_IDENTIFIED,
    NOT_RECORDED,
    Fingerprint,
    KafkaIdentity,
    PlanOperator,
    PlanSink,
    PlanSource,
    PlanWatermark,
    Term,
)
from holdfast.model.json import Json, mapping, sequence

FORMAT = 1
_TERM = 3


def encode(shown: Fingerprint) -> Json:
    """The JSON of a fingerprint."""
    return {
        "format": FORMAT,
        "spark_version": shown.spark_version,
        "sources": [
            {
                "name": one.name,
                "kind": one.kind,
                "target": one.target,
                "options": dict(one.options),
                "columns": _listed(one.columns),
                **_identity(one.identity),
            }
            for one in shown.sources
        ],
        "watermarks": [{"column": one.column, "delay": one.delay} for one in shown.watermarks],
        "operators": [
            {
                "kind": one.kind,
                "keys": _listed(one.keys),
                "values": _listed(one.values),
                "stored": _listed(one.stored),
                "details": dict(one.details),
                "steps": list(one.steps),
            }
            for one in shown.operators
        ],
        "steps": list(shown.steps),
        "columns": _listed(shown.columns),
        "functions": dict(shown.functions),
        "sinks": [
            {"name": one.name, "kind": one.kind, "target": one.target} for one in shown.sinks
        ],
        "output_mode": shown.output_mode,
        "settings": dict(shown.settings),
    }


def decode(value: Json) -> Fingerprint | Unknown:
    """The fingerprint in a record, or why there is none."""
    found = mapping(value)
    if not found:
        return NOT_RECORDED
    if found.get("format") != FORMAT:
        return Unknown(reason=f"the recorded plan has the format {found.get('format')}")
    return Fingerprint(
        spark_version=str(found.get("spark_version", "")),
        sources=tuple(_source(mapping(one)) for one in sequence(found.get("sources"))),
        watermarks=tuple(
            PlanWatermark(column=str(one.get("column", "")), delay=str(one.get("delay", "")))
            for one in map(mapping, sequence(found.get("watermarks")))
        ),
        operators=tuple(_operator(mapping(one)) for one in sequence(found.get("operators"))),
        steps=_words(found.get("steps")),
        columns=terms(found.get("columns")),
        functions=log.texts(found.get("functions")),
        sinks=tuple(_sink(mapping(one)) for one in sequence(found.get("sinks"))),
        output_mode=str(found.get("output_mode", "")),
        settings=log.texts(found.get("settings")),
    )


def _source(found: Mapping[str, Json]) -> PlanSource:
    return PlanSource(
        name=str(found.get("name", "")),
        kind=str(found.get("kind", "")),
        target=str(found.get("target", "")),
        options=log.texts(found.get("options")),
        columns=terms(found.get("columns")),
        identity=_identified(mapping(found.get("identity"))),
    )


def _identity(told: KafkaIdentity | Unknown) -> Mapping[str, Json]:
    if told == NOT_IDENTIFIED:
        return {}
    if isinstance(told, Unknown):
        return {"identity": {"unknown": told.reason}}
    return {"identity": {"cluster": told.cluster, "topics": dict(told.topics)}}


def _identified(found: Mapping[str, Json]) -> KafkaIdentity | Unknown:
    cluster, unknown = found.get("cluster"), found.get("unknown")
    if isinstance(cluster, str) and cluster:
        return KafkaIdentity(cluster=cluster, topics=log.texts(found.get("topics")))
    return Unknown(reason=unknown) if isinstance(unknown, str) else NOT_IDENTIFIED


def _operator(found: Mapping[str, Json]) -> PlanOperator:
    return PlanOperator(
        kind=str(found.get("kind", "")),
        keys=terms(found.get("keys")),
        values=terms(found.get("values")),
        stored=terms(found.get("stored")),
        details=log.texts(found.get("details")),
        steps=_words(found.get("steps")),
    )


def _sink(found: Mapping[str, Json]) -> PlanSink:
    return PlanSink(
        name=str(found.get("name", "")),
        kind=str(found.get("kind", "")),
        target=str(found.get("target", "")),
    )


def _listed(terms: Iterable[Term]) -> list[Json]:
    return [[one.name, one.type, one.text] for one in terms]


def terms(value: Json) -> tuple[Term, ...]:
    """Terms from lists of name, type and text."""
    return tuple(
        Term(name=str(one[0]), type=str(one[1]), text=str(one[2]))
        for one in map(sequence, sequence(value))
        if len(one) == _TERM
    )


def _words(value: Json) -> tuple[str, ...]:
    return tuple(str(one) for one in sequence(value))
