"""A plan fingerprint as JSON in a run record, both ways.

    {"format":1,"spark_version":"4.1.1","sources":[{"kind":"files","target":"…",…}],
     "watermarks":[{"column":"t","delay":"10 minutes"}],
     "operators":[{"kind":"stateStoreSave","keys":[["k","string","k"]],"values":[…],…}],
     "steps":[…],"columns":[…],"functions":{…},"sinks":[…],"output_mode":"append","settings":{…}}

A term is a list of name, type and text. A Kafka source also has `"identity":{"cluster":"…",
"topics":{"orders":"…"}}`, or `{"unknown":"…"}` with the reason why the identity is not known.
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
from holdfast.model.json import Json, as_mapping, as_sequence

FORMAT = 1
_TERM = 3


def encode(shown: Fingerprint) -> Json:
    """Return the JSON of a fingerprint."""
    return {
        "format": FORMAT,
        "spark_version": shown.spark_version,
        "sources": [
            {
                "name": one.name,
                "kind": one.kind,
                "target": one.target,
                "options": dict(one.options),
                "columns": _encode_terms(one.columns),
                **_encode_identity(one.identity),
            }
            for one in shown.sources
        ],
        "watermarks": [{"column": one.column, "delay": one.delay} for one in shown.watermarks],
        "operators": [
            {
                "kind": one.kind,
                "keys": _encode_terms(one.keys),
                "values": _encode_terms(one.values),
                "stored": _encode_terms(one.stored),
                "details": dict(one.details),
                "steps": list(one.steps),
            }
            for one in shown.operators
        ],
        "steps": list(shown.steps),
        "columns": _encode_terms(shown.columns),
        "functions": dict(shown.functions),
        "sinks": [
            {"name": one.name, "kind": one.kind, "target": one.target} for one in shown.sinks
        ],
        "output_mode": shown.output_mode,
        "settings": dict(shown.settings),
    }


def decode(value: Json) -> Fingerprint | Unknown:
    """Return the fingerprint in a record, or why there is none."""
    found = as_mapping(value)
    if not found:
        return NOT_RECORDED
    if found.get("format") != FORMAT:
        return Unknown(reason=f"the recorded plan has the format {found.get('format')}")
    return Fingerprint(
        spark_version=str(found.get("spark_version", "")),
        sources=tuple(_decode_source(as_mapping(one)) for one in as_sequence(found.get("sources"))),
        watermarks=tuple(
            PlanWatermark(column=str(one.get("column", "")), delay=str(one.get("delay", "")))
            for one in map(as_mapping, as_sequence(found.get("watermarks")))
        ),
        operators=tuple(
            _decode_operator(as_mapping(one)) for one in as_sequence(found.get("operators"))
        ),
        steps=_decode_texts(found.get("steps")),
        columns=decode_terms(found.get("columns")),
        functions=log.as_texts(found.get("functions")),
        sinks=tuple(_decode_sink(as_mapping(one)) for one in as_sequence(found.get("sinks"))),
        output_mode=str(found.get("output_mode", "")),
        settings=log.as_texts(found.get("settings")),
    )


def _decode_source(found: Mapping[str, Json]) -> PlanSource:
    return PlanSource(
        name=str(found.get("name", "")),
        kind=str(found.get("kind", "")),
        target=str(found.get("target", "")),
        options=log.as_texts(found.get("options")),
        columns=decode_terms(found.get("columns")),
        identity=_decode_identity(as_mapping(found.get("identity"))),
    )


def _encode_identity(told: KafkaIdentity | Unknown) -> Mapping[str, Json]:
    if told == NOT_IDENTIFIED:
        return {}
    if isinstance(told, Unknown):
        return {"identity": {"unknown": told.reason}}
    return {"identity": {"cluster": told.cluster, "topics": dict(told.topics)}}


def _decode_identity(found: Mapping[str, Json]) -> KafkaIdentity | Unknown:
    cluster, unknown = found.get("cluster"), found.get("unknown")
    if isinstance(cluster, str) and cluster:
        return KafkaIdentity(cluster=cluster, topics=log.as_texts(found.get("topics")))
    return Unknown(reason=unknown) if isinstance(unknown, str) else NOT_IDENTIFIED


def _decode_operator(found: Mapping[str, Json]) -> PlanOperator:
    return PlanOperator(
        kind=str(found.get("kind", "")),
        keys=decode_terms(found.get("keys")),
        values=decode_terms(found.get("values")),
        stored=decode_terms(found.get("stored")),
        details=log.as_texts(found.get("details")),
        steps=_decode_texts(found.get("steps")),
    )


def _decode_sink(found: Mapping[str, Json]) -> PlanSink:
    return PlanSink(
        name=str(found.get("name", "")),
        kind=str(found.get("kind", "")),
        target=str(found.get("target", "")),
    )


def _encode_terms(terms: Iterable[Term]) -> list[Json]:
    return [[one.name, one.type, one.text] for one in terms]


def decode_terms(value: Json) -> tuple[Term, ...]:
    """Return the terms in lists of name, type and text."""
    return tuple(
        Term(name=str(one[0]), type=str(one[1]), text=str(one[2]))
        for one in map(as_sequence, as_sequence(value))
        if len(one) == _TERM
    )


def _decode_texts(value: Json) -> tuple[str, ...]:
    return tuple(str(one) for one in as_sequence(value))
