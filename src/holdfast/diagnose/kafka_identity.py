"""Do the Kafka cluster and its topics still belong to the offsets in the checkpoint?

An offset counts the records of one topic in one cluster. Names can stay the same while the cluster
or the topic is replaced; ids cannot.
"""

from collections.abc import Mapping
from enum import StrEnum

from holdfast.model import advice
from holdfast.model.evidence import SourceEvidence
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import KafkaIdentity
from holdfast.model.source_offset import KafkaOffset

CLUSTER_REMEDIES = (
    "point the query at the cluster that it read from before",
    "accept the change, if the topics were copied with their offsets",
    advice.NEW_CHECKPOINT,
)
TOPIC_REMEDIES = (
    advice.NEW_NAME,
    "accept the change, if you do not need the records before the old offset",
)


class ClusterMatch(StrEnum):
    """The result of comparing the clusters of two starts."""

    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"


def compare_clusters(was: KafkaIdentity | Unknown, now: KafkaIdentity | Unknown) -> ClusterMatch:
    """Return whether two identities name the same cluster, if both are known."""
    if isinstance(was, Unknown) or isinstance(now, Unknown):
        return ClusterMatch.UNKNOWN
    return ClusterMatch.SAME if was.cluster == now.cluster else ClusterMatch.OTHER


def find_recreated(was: KafkaIdentity, now: KafkaIdentity) -> Mapping[str, tuple[str, str]]:
    """Return the topics whose id changed, each with its old and its new id."""
    both = sorted(was.topics.keys() & now.topics.keys())
    return {
        name: (was.topics[name], now.topics[name])
        for name in both
        if was.topics[name] != now.topics[name]
    }


def list_begun_topics(source: SourceEvidence) -> frozenset[str]:
    """Return the topics that the query has read from; an offset of 0 fits any topic."""
    if not isinstance(source.offset, KafkaOffset):
        return frozenset()
    offsets = source.offset.partitions
    return frozenset(partition.topic for partition, offset in offsets.items() if offset > 0)
