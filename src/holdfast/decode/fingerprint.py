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


def encode(fingerprint: Fingerprint) -> Json:
    """Return the JSON of a fingerprint."""
    return {
        "format": FORMAT,
        "spark_version": fingerprint.spark_version,
        "sources": [
            {
                "name": source.name,
                "kind": source.kind,
                "target": source.target,
                "options": dict(source.options),
                "columns": _encode_terms(source.columns),
                **_encode_identity(source.identity),
            }
            for source in fingerprint.sources
        ],
        "watermarks": [
            {"column": watermark.column, "delay": watermark.delay}
            for watermark in fingerprint.watermarks
        ],
        "operators": [
            {
                "kind": operator.kind,
                "keys": _encode_terms(operator.keys),
                "values": _encode_terms(operator.values),
                "stored": _encode_terms(operator.stored),
                "details": dict(operator.details),
                "steps": list(operator.steps),
            }
            for operator in fingerprint.operators
        ],
        "steps": list(fingerprint.steps),
        "columns": _encode_terms(fingerprint.columns),
        "functions": dict(fingerprint.functions),
        "sinks": [
            {"name": sink.name, "kind": sink.kind, "target": sink.target}
            for sink in fingerprint.sinks
        ],
        "output_mode": fingerprint.output_mode,
        "settings": dict(fingerprint.settings),
    }


def decode(value: Json) -> Fingerprint | Unknown:
    """Return the fingerprint in a record, or why there is none."""
    fields = as_mapping(value)
    if not fields:
        return NOT_RECORDED
    if fields.get("format") != FORMAT:
        return Unknown(reason=f"the recorded plan has the format {fields.get('format')}")
    return Fingerprint(
        spark_version=str(fields.get("spark_version", "")),
        sources=tuple(
            _decode_source(as_mapping(source)) for source in as_sequence(fields.get("sources"))
        ),
        watermarks=tuple(
            PlanWatermark(
                column=str(watermark.get("column", "")), delay=str(watermark.get("delay", ""))
            )
            for watermark in map(as_mapping, as_sequence(fields.get("watermarks")))
        ),
        operators=tuple(
            _decode_operator(as_mapping(operator))
            for operator in as_sequence(fields.get("operators"))
        ),
        steps=_decode_texts(fields.get("steps")),
        columns=decode_terms(fields.get("columns")),
        functions=log.as_texts(fields.get("functions")),
        sinks=tuple(_decode_sink(as_mapping(sink)) for sink in as_sequence(fields.get("sinks"))),
        output_mode=str(fields.get("output_mode", "")),
        settings=log.as_texts(fields.get("settings")),
    )


def _decode_source(fields: Mapping[str, Json]) -> PlanSource:
    return PlanSource(
        name=str(fields.get("name", "")),
        kind=str(fields.get("kind", "")),
        target=str(fields.get("target", "")),
        options=log.as_texts(fields.get("options")),
        columns=decode_terms(fields.get("columns")),
        identity=_decode_identity(as_mapping(fields.get("identity"))),
    )


def _encode_identity(identity: KafkaIdentity | Unknown) -> Mapping[str, Json]:
    if identity == NOT_IDENTIFIED:
        return {}
    if isinstance(identity, Unknown):
        return {"identity": {"unknown": identity.reason}}
    return {"identity": {"cluster": identity.cluster, "topics": dict(identity.topics)}}


def _decode_identity(fields: Mapping[str, Json]) -> KafkaIdentity | Unknown:
    cluster, unknown = fields.get("cluster"), fields.get("unknown")
    if isinstance(cluster, str) and cluster:
        return KafkaIdentity(cluster=cluster, topics=log.as_texts(fields.get("topics")))
    return Unknown(reason=unknown) if isinstance(unknown, str) else NOT_IDENTIFIED


def _decode_operator(fields: Mapping[str, Json]) -> PlanOperator:
    return PlanOperator(
        kind=str(fields.get("kind", "")),
        keys=decode_terms(fields.get("keys")),
        values=decode_terms(fields.get("values")),
        stored=decode_terms(fields.get("stored")),
        details=log.as_texts(fields.get("details")),
        steps=_decode_texts(fields.get("steps")),
    )


def _decode_sink(fields: Mapping[str, Json]) -> PlanSink:
    return PlanSink(
        name=str(fields.get("name", "")),
        kind=str(fields.get("kind", "")),
        target=str(fields.get("target", "")),
    )


def _encode_terms(terms: Iterable[Term]) -> list[Json]:
    return [[term.name, term.type, term.text] for term in terms]


def decode_terms(value: Json) -> tuple[Term, ...]:
    """Return the terms in lists of name, type and text."""
    return tuple(
        Term(name=str(parts[0]), type=str(parts[1]), text=str(parts[2]))
        for parts in map(as_sequence, as_sequence(value))
        if len(parts) == _TERM
    )


def _decode_texts(value: Json) -> tuple[str, ...]:
    return tuple(str(text) for text in as_sequence(value))
