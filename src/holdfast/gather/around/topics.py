"""A Kafka cluster -> the offsets that it still has for the partitions in the offset log.

Also the ids of the cluster and its topics: a different cluster may have the same names.
"""

from typing import TYPE_CHECKING

from holdfast.model.evidence import Evidence
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import KafkaIdentity, make_identity
from holdfast.model.source_offset import KafkaOffset, TopicPartition
from holdfast.model.surroundings import KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Collection

_SECONDS = 10.0
_MISSING = Unknown(reason="`confluent-kafka` is not installed: `pip install 'holdfast[kafka]'`")


def fetch_offsets(evidence: Evidence, servers: str) -> KafkaCluster | Unknown:
    """Return the first and the next offset of every partition that exists."""
    try:
        import confluent_kafka  # optional, and slow to load
    except ImportError:
        return _MISSING
    partitions = {
        partition
        for source in evidence.sources
        if isinstance(source.offset, KafkaOffset)
        for partition in source.offset.partitions
    }
    first: dict[TopicPartition, int] = {}
    following: dict[TopicPartition, int] = {}
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "holdfast-diagnose", "log_level": 0}
    )
    try:
        topics = consumer.list_topics(timeout=_SECONDS).topics
        for partition in sorted(partitions):
            topic, number = partition.topic, partition.partition
            if topic not in topics or number not in topics[topic].partitions:
                continue
            wanted = confluent_kafka.TopicPartition(topic, number)
            low, high = consumer.get_watermark_offsets(wanted, timeout=_SECONDS)
            first[partition], following[partition] = low, high
    except confluent_kafka.KafkaException as error:
        return Unknown(reason=f"`{servers}` does not answer: {error}")
    finally:
        consumer.close()
    ids = _fetch_identity(servers, {partition.topic for partition in first})
    return KafkaCluster(servers=servers, first=first, next=following, identity=ids)


def _fetch_identity(servers: str, topics: "Collection[str]") -> KafkaIdentity | Unknown:
    """Return the ids of the cluster and its topics; an old broker may not have them."""
    from confluent_kafka import (
        KafkaException,
        TopicCollection,
    )  # installed: `fetch_offsets` has imported it
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    try:
        cluster = admin.describe_cluster(request_timeout=_SECONDS)
        described = (
            admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_SECONDS)
            if topics
            else {}
        )
        ids = {
            name: _format_topic_id(topic.result(_SECONDS).topic_id)
            for name, topic in described.items()
        }
        return make_identity(str(cluster.result(_SECONDS).cluster_id or ""), ids)
    except (KafkaException, TimeoutError) as error:
        return Unknown(reason=f"`{servers}` does not report its ids: {error}")


def _format_topic_id(topic_id: object) -> str:
    """Return the id as Kafka's own tools and the run records write it: base64 with `-` and `_`."""
    return str(topic_id).replace("+", "-").replace("/", "_").rstrip("=")
