"""Stage 2: a Kafka cluster -> which offsets it still has, for the partitions that offsets name.

And its id, with those of the topics: names may be the same where they are not.
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
    """The first and the next offset of every partition that is there."""
    try:
        import confluent_kafka  # optional, and slow to load
    except ImportError:
        return _MISSING
    named = {
        one
        for source in evidence.sources
        if isinstance(source.offset, KafkaOffset)
        for one in source.offset.partitions
    }
    first: dict[TopicPartition, int] = {}
    following: dict[TopicPartition, int] = {}
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "holdfast-diagnose", "log_level": 0}
    )
    try:
        there = consumer.list_topics(timeout=_SECONDS).topics
        for one in sorted(named):
            if one.topic not in there or one.partition not in there[one.topic].partitions:
                continue
            asked = confluent_kafka.TopicPartition(one.topic, one.partition)
            low, high = consumer.get_watermark_offsets(asked, timeout=_SECONDS)
            first[one], following[one] = low, high
    except confluent_kafka.KafkaException as error:
        return Unknown(reason=f"`{servers}` does not answer: {error}")
    finally:
        consumer.close()
    ids = _fetch_identity(servers, {one.topic for one in first})
    return KafkaCluster(servers=servers, first=first, next=following, identity=ids)


def _fetch_identity(servers: str, topics: "Collection[str]") -> KafkaIdentity | Unknown:
    """The ids of the cluster and of topics that it has; a broker may be too old to tell."""
    from confluent_kafka import KafkaException, TopicCollection  # it is there by now
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    try:
        cluster = admin.describe_cluster(request_timeout=_SECONDS)
        told = (
            admin.describe_topics(TopicCollection(sorted(topics)), request_timeout=_SECONDS)
            if topics
            else {}
        )
        ids = {name: _format_topic_id(one.result(_SECONDS).topic_id) for name, one in told.items()}
        return make_identity(str(cluster.result(_SECONDS).cluster_id or ""), ids)
    except (KafkaException, TimeoutError) as error:
        return Unknown(reason=f"`{servers}` does not tell its ids: {error}")


def _format_topic_id(topic_id: object) -> str:
    """The id as Kafka's own tools and the run records write it: base64 with `-` and `_`."""
    return str(topic_id).replace("+", "-").replace("/", "_").rstrip("=")
