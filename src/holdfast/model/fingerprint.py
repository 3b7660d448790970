"""The parts of a streaming query that matter to a restart. Spark's checkpoints do not record them.

A term is an expression, written in columns of the sources: `select(k2.alias("k")).groupBy("k")`
has the key `k` with the term `k2`. So two plans with the same terms are equal, however many
projections they contain.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.fact import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A named expression: the column that it produces, its type, and its text."""

    name: str
    type: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaIdentity:
    """The unique ids of a Kafka cluster and of its topics."""

    cluster: str
    topics: Mapping[str, str]


_NONE = "AAAAAAAAAAAAAAAAAAAAAA"
"""The id of a topic in a cluster that assigns none: 16 zero bytes."""


def make_identity(cluster: str, topics: Mapping[str, str]) -> KafkaIdentity | Unknown:
    """Return the identity of a cluster, without the topics that have no id."""
    if not cluster:
        return Unknown(reason="its cluster has no id")
    known = {name: topic for name, topic in sorted(topics.items()) if topic not in ("", _NONE)}
    return KafkaIdentity(cluster=cluster, topics=known)


NOT_IDENTIFIED = Unknown(reason="the run record has no ids of the Kafka cluster and its topics")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSource:
    """One source, in the order of the plan: its kind (`files`, `Kafka`, …) and its target.

    `name` is the name that the query gave to the source, or empty. `identity` is read from Kafka
    itself when the query is built.
    """

    name: str
    kind: str
    target: str
    options: Mapping[str, str]
    columns: tuple[Term, ...]
    identity: KafkaIdentity | Unknown = NOT_IDENTIFIED


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWatermark:
    """A watermark: the term of its column, and its delay in Spark's own text."""

    column: str
    delay: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOperator:
    """One stateful operator, in Spark's order; `kind` is its name in Spark's metadata.

    `keys` identify a row of the state. `values` are what the state keeps per key: aggregates, the
    columns of a join, or the variables of a processor, whose text is the kind and the time to live
    in milliseconds. `stored` is the type of each column of the value, if the plan has it. `details`
    are the join type, the condition, the timeout and the like. `steps` are the operations on rows
    between the sources, or the operator below, and this operator.
    """

    kind: str
    keys: tuple[Term, ...]
    values: tuple[Term, ...]
    stored: tuple[Term, ...]
    details: Mapping[str, str]
    steps: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSink:
    """One output: the kind of its sink, and the sink's target."""

    name: str
    kind: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """The parts of a streaming query that matter to a restart.

    `steps` are the operations after the last stateful operator; `functions` are the Python
    functions of the query, each with a digest of its code.
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
        """Return the sources by their keys in the offset log: positions in the plan, and names."""
        positions = {str(position): source for position, source in enumerate(self.sources)}
        return positions | {source.name: source for source in self.sources if source.name}


NOT_RECORDED = Unknown(reason="no run record has the plan of the query")
