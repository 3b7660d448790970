"""What a streaming query is, as far as a restart cares: no checkpoint of Spark says any of it.

A term is an expression, written in columns of the sources: `select(k2.alias("k")).groupBy("k")`
has the key `k`, of the term `k2`. So two plans are the same where their terms are, however many
projections lie between.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.fact import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """An expression with a name: the column that it makes, its type, and what it is made of."""

    name: str
    type: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaIdentity:
    """Which Kafka cluster it is, and which topics: an id each, that no other one ever has."""

    cluster: str
    topics: Mapping[str, str]


_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""What stands for the id of a topic in a cluster that gives none: 16 bytes of zero."""


def make_identity(cluster: str, topics: Mapping[str, str]) -> KafkaIdentity | Unknown:
    """What a cluster has said of itself, without the topics that have no id."""
    if not cluster:
        return Unknown(reason="its cluster has no id")
    known = {name: one for name, one in sorted(topics.items()) if one not in ("", _NONE)}
    return KafkaIdentity(cluster=cluster, topics=known)


NOT_IDENTIFIED = Unknown(reason="the run record does not tell the ids of its cluster and topics")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSource:
    """One source, in the order of the plan: `files`, `Kafka`, …, and what it reads.

    `name` is the one that the query gave to it, empty where it gave none. `identity` is asked of
    Kafka itself when the query is built.
    """

    name: str
    kind: str
    target: str
    options: Mapping[str, str]
    columns: tuple[Term, ...]
    identity: KafkaIdentity | Unknown = NOT_IDENTIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWatermark:
    """A watermark: the term of its column, and its delay as Spark writes it."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOperator:
    """One stateful operator, numbered as Spark numbers it, by its name in Spark's metadata.

    `keys` find a row of the state. `values` are what is kept for them: aggregates, the columns of a
    join, or the variables of a processor, each with its kind and the milliseconds that it lives as
    the text. `stored` is the type of each column of the value, where the plan tells it. `details`
    are the rest of what it is: join type, condition, timeout. `steps` are what happens to rows on
    the way from the sources, or from the operator below.
    """

    kind: str
    keys: tuple[Term, ...]
    values: tuple[Term, ...]
    stored: tuple[Term, ...]
    details: Mapping[str, str]
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSink:
    """One output: the kind of sink, and where it writes to."""

    name: str
    kind: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """A streaming query, as far as a restart cares.

    `steps` are those after the last stateful operator; `functions` are the Python functions in
    it, each with a digest of its code.
    """

    spark_version: str
    sources: tuple[PlanSource, ...]
    watermarks: tuple[PlanWatermark, ...]
    operators: tuple[PlanOperator, ...]
    steps: tuple[str, ...]
    columns: tuple[Term, ...]
    functions: Mapping[str, str]
    sinks: tuple[PlanSink, ...]
    output_mode: str
    settings: Mapping[str, str]

    @property
    def by_name(self) -> Mapping[str, PlanSource]:
        """The sources as the offset log has them: by their places in the plan, or their names."""
        places = {str(place): one for place, one in enumerate(self.sources)}
        return places | {one.name: one for one in self.sources if one.name}


NOT_RECORDED = Unknown(reason="no run record holds the plan of the query")
