"""Stage 3: are Kafka's cluster and topics those that the offsets are of?

The names may be the same: of servers that are now another cluster's, of a topic that was deleted
and made anew. Spark goes on at the old offset in either, as soon as there are that many records.
"""

from collections.abc import Iterator

from holdfast.diagnose import kafka_identity
from holdfast.diagnose.changes import difference
from holdfast.diagnose.kafka_identity import ClusterMatch
from holdfast.model.evidence import SourceEvidence
from holdfast.model.fact import Unknown
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import KafkaIdentity, PlanSource

_SERVERS = "kafka.bootstrap.servers"


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Every source that was Kafka, is Kafka, and has read something."""
    if change.old is None or len(change.old.sources) != len(change.new.sources):
        return
    old, seen = change.old.by_name, {one.name: one for one in change.evidence.sources}
    for name, now in change.new.by_name.items():
        was, source = old.get(name), seen.get(name)
        if was is not None and source is not None and was.kind == now.kind == "Kafka":
            yield from _compare_source(change, source, was, now)


def _compare_source(
    change: QueryChange, source: SourceEvidence, was: PlanSource, now: PlanSource
) -> Iterator[Finding | NotAssessed]:
    begun = kafka_identity.list_begun_topics(source)
    old, new = was.identity, now.identity
    if not begun:
        return
    if isinstance(old, Unknown) or isinstance(new, Unknown):
        told = [one.reason for one in (old, new) if isinstance(one, Unknown)]
        yield _make_not_assessed(source, "its cluster and topics are", told[0])
        return
    if kafka_identity.compare_clusters(old, new) is ClusterMatch.OTHER:
        yield difference.make_finding(
            Code.KAFKA_CLUSTER_CHANGED,
            Severity.LOSES,
            f"Source {source.name} reads from another Kafka cluster: its offsets count other"
            " records there, and Spark does not notice.",
            where=difference.name_record(change),
            was=_describe_cluster(was, old),
            now=_describe_cluster(now, new),
            remedies=kafka_identity.CLUSTER_REMEDIES,
        )
        return
    anew = {
        name: ids for name, ids in kafka_identity.find_recreated(old, new).items() if name in begun
    }
    if anew:
        yield difference.make_finding(
            Code.KAFKA_TOPIC_RECREATED,
            Severity.LOSES,
            f"A topic of source {source.name} was deleted and made anew: Spark goes on at the old"
            " offset, and never reads what the new one holds before it.",
            where=difference.name_record(change),
            was=", ".join(f"{name} (topic id {one})" for name, (one, _) in anew.items()),
            now=", ".join(f"{name} (topic id {one})" for name, (_, one) in anew.items()),
            remedies=kafka_identity.TOPIC_REMEDIES,
        )
    hidden = sorted(begun & old.topics.keys() - new.topics.keys())
    if hidden and was.target == now.target:
        yield _make_not_assessed(
            source,
            f"{', '.join(hidden)} is",
            "the cluster has no topic of that name, or tells no id",
        )


def _make_not_assessed(source: SourceEvidence, what: str, reason: str) -> NotAssessed:
    question = f"whether {what} what source {source.name} has read from so far"
    return NotAssessed(question=question, reason=reason)


def _describe_cluster(source: PlanSource, identity: KafkaIdentity) -> str:
    servers = (one for key, one in source.options.items() if key.lower() == _SERVERS)
    return f"cluster {identity.cluster} at {next(servers, 'unknown servers')}"
