"""The example broker is a real one: what was written is there after a stop and a start."""

import socket
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from holdfast.errors import JavaMissing, ServerUnavailable
from holdfast.examples.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
MESSAGES = 10_000
PARTITIONS = 3


def produce(broker: Broker, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(MESSAGES):
        producer.produce(topic, value=str(number).encode(), partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(30) == 0


def consume(broker: Broker, topic: str) -> set[int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test"})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[int] = []
    try:
        while len(found) < MESSAGES and (messages := consumer.consume(1_000, timeout=15)):
            assert [message.error() for message in messages if message.error()] == []
            found += [int(message.value() or b"") for message in messages]
    finally:
        consumer.close()
    assert len(found) == MESSAGES
    return set(found)


def test_messages_survive_a_stop_and_a_start(tmp_path: Path) -> None:
    with Broker(tmp_path) as broker:
        address = broker.bootstrap_servers
        broker.create_topic("numbers", PARTITIONS)
        produce(broker, "numbers")
        assert consume(broker, "numbers") == set(range(MESSAGES))

        broker.stop()
        host, port = address.split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=1)

        broker.start()
        assert broker.bootstrap_servers == address
        assert consume(broker, "numbers") == set(range(MESSAGES))
        with pytest.raises(ServerUnavailable, match="`numbers`"):
            broker.create_topic("numbers", PARTITIONS)


def test_a_missing_java_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match="Kafka needs Java 17 or later"):
        Broker(tmp_path).start()


def test_a_broker_that_does_not_come_up_leaves_its_log(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "meta.properties").write_text("cluster.id=another\n")
    with pytest.raises(ServerUnavailable, match="its process ended with exit code 1"):
        broker.start()
    assert broker.log_file.stat().st_size > 0
