"""Stage 3: is it the Kafka cluster, and are they the topics, that the offsets are of?

An offset counts the records of one topic of one cluster. Ids tell them apart where names do not.
"""

from collections.abc import Mapping
from enum import StrEnum

from holdfast.model import advice
from holdfast.model.evidence import SourceEvidence
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import KafkaIdentity
from holdfast.model.source_offset import KafkaOffset

CLUSTER_REMEDIES = (
    "point the query at the cluster that it has read from",
    "accept it, if the topics were copied with their offsets",
    advice.NEW_CHECKPOINT,
)
TOPIC_REMEDIES = (
    advice.NEW_NAME,
    "accept it, if the records before the old offset are not wanted",
)


class ClusterMatch(StrEnum):
    """Whether two looks at Kafka were at the same cluster."""

    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"


def compare_clusters(was: KafkaIdentity | Unknown, now: KafkaIdentity | Unknown) -> ClusterMatch:
    """Whether it is the same cluster, where both looks had an answer."""
    if isinstance(was, Unknown) or isinstance(now, Unknown):
        return ClusterMatch.UNKNOWN
    return ClusterMatch.SAME if was.cluster == now.cluster else ClusterMatch.OTHER


def find_recreated(was: KafkaIdentity, now: KafkaIdentity) -> Mapping[str, tuple[str, str]]:
    """The topics that have another id now: the old one and the new one."""
    both = sorted(was.topics.keys() & now.topics.keys())
    return {
        name: (was.topics[name], now.topics[name])
        for name in both
        if was.topics[name] != now.topics[name]
    }


def list_begun_topics(source: SourceEvidence) -> frozenset[str]:
    """The topics that something was read of: where nothing was, offsets of 0 fit any topic."""
    if not isinstance(source.offset, KafkaOffset):
        return frozenset()
    return frozenset(one.topic for one, at in source.offset.partitions.items() if at > 0)
