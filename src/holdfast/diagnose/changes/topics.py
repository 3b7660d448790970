"""Do the Kafka cluster and its topics still belong to the offsets in the checkpoint?

Names prove nothing: the servers may now belong to a different cluster, and a topic may have been
deleted and created again. In both cases Spark continues at the old offset, once there are that many
records.
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
    """Compare every source that was Kafka, still is, and has read records."""
    if change.old is None or len(change.old.sources) != len(change.new.sources):
        return
    old = change.old.by_name
    sources = {source.name: source for source in change.evidence.sources}
    for name, now in change.new.by_name.items():
        was, source = old.get(name), sources.get(name)
        if was is not None and source is not None and was.kind == now.kind == "Kafka":
            yield from _compare_source(change, source, was, now)


def _compare_source(
    change: QueryChange, source: SourceEvidence, was: PlanSource, now: PlanSource
) -> Iterator[Finding | NotAssessed]:
    begun = kafka_identity.list_begun_topics(source)
    old, new = was.identity, now.identity
    if not begun:
        return
    if isinstance(old, Unknown):
        yield _make_not_assessed(source, "cluster and topics", old.reason)
        return
    if isinstance(new, Unknown):
        yield _make_not_assessed(source, "cluster and topics", new.reason)
        return
    if kafka_identity.compare_clusters(old, new) is ClusterMatch.OTHER:
        yield difference.make_finding(
            Code.KAFKA_CLUSTER_CHANGED,
            Severity.LOSES,
            f"Source {source.name} will read the wrong records: it now reads from a different Kafka"
            " cluster, where the old offsets belong to other records. Spark does not notice.",
            where=difference.name_record(change),
            was=_describe_cluster(was, old),
            now=_describe_cluster(now, new),
            remedies=kafka_identity.CLUSTER_REMEDIES,
        )
        return
    recreated = {
        name: ids for name, ids in kafka_identity.find_recreated(old, new).items() if name in begun
    }
    if recreated:
        yield difference.make_finding(
            Code.KAFKA_TOPIC_RECREATED,
            Severity.LOSES,
            f"Source {source.name} will skip records: its topic was deleted and created again."
            " Spark continues at the old offset, and never reads the records of the new topic"
            " before it.",
            where=difference.name_record(change),
            was=", ".join(f"{name} (topic id {id_})" for name, (id_, _) in recreated.items()),
            now=", ".join(f"{name} (topic id {id_})" for name, (_, id_) in recreated.items()),
            remedies=kafka_identity.TOPIC_REMEDIES,
        )
    missing = sorted(begun & old.topics.keys() - new.topics.keys())
    if missing and was.target == now.target:
        yield _make_not_assessed(
            source,
            f"topic {', '.join(missing)}",
            "the cluster has no topic of that name, or does not return its id",
        )


def _make_not_assessed(source: SourceEvidence, what: str, reason: str) -> NotAssessed:
    question = f"whether source {source.name} still reads the same {what}"
    return NotAssessed(question=question, reason=reason)


def _describe_cluster(source: PlanSource, identity: KafkaIdentity) -> str:
    servers = (value for key, value in source.options.items() if key.lower() == _SERVERS)
    return f"cluster {identity.cluster} at {next(servers, 'unknown servers')}"
