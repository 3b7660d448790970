"""Whether Kafka still has what a checkpoint stands at, asked of a real broker."""

from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed, reading

from holdfast.examples.broker import Broker
from holdfast.model.finding import Code

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def at(folder: Path, offset: int, topic: str) -> Path:
    """A checkpoint that stands at an offset of the only partition of a topic."""
    return reading(folder / "c", [{topic: {"0": 0}}, {topic: {"0": offset}}])


def test_a_real_cluster_is_asked(broker: Broker, tmp_path: Path) -> None:
    topic = "diagnosed"
    broker.create_topic(topic, 1)
    servers = broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers})
    for number in range(20):
        producer.produce(topic, value=str(number).encode(), partition=0)
    assert producer.flush(30) == 0
    location = at(tmp_path / "behind", 5, topic)
    assert codes(diagnosed(location, kafka=servers)) == set()
    admin = AdminClient({"bootstrap.servers": servers})
    for told in admin.delete_records([TopicPartition(topic, 0, 10)]).values():
        told.result(30)
    assert codes(diagnosed(location, kafka=servers)) == {Code.KAFKA_OFFSETS_EXPIRED}
    beyond = at(tmp_path / "beyond", 50, topic)
    assert codes(diagnosed(beyond, kafka=servers)) == {Code.KAFKA_TOPIC_RECREATED}
    gone = at(tmp_path / "gone", 5, "never-made")
    assert codes(diagnosed(gone, kafka=servers)) == {Code.KAFKA_PARTITION_GONE}


def test_a_cluster_that_does_not_answer_is_not_assessed(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    found = diagnosed(location, kafka="127.0.0.1:9")
    assert codes(found) == set()
    assert any("does not answer" in one.reason for one in found.not_assessed)
