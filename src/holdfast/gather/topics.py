"""Stage 2: a Kafka cluster -> which offsets it still has, for the partitions that offsets name."""

from holdfast.model.batch import Unknown
from holdfast.model.evidence import Evidence
from holdfast.model.source_offset import KafkaOffset, TopicPartition
from holdfast.model.surroundings import KafkaSeen

_SECONDS = 10.0
_MISSING = Unknown(reason="`confluent-kafka` is not installed: `pip install holdfast[kafka]`")


def seen(evidence: Evidence, servers: str) -> KafkaSeen | Unknown:
    """The first and the next offset of every partition that is there."""
    try:
        import confluent_kafka  # noqa: PLC0415  optional, and slow to load
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
    return KafkaSeen(servers=servers, first=first, next=following)
