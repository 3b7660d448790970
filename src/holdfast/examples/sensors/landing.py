r"""Messages of the sensors -> files in a landing directory, or a Kafka topic.

    <directory>/part-000000000.tsv      messages 0 to 999
    <directory>/part-000001000.tsv      messages 1000 to 1999, or fewer
    <directory>/.part-000002000.tsv     being written; Spark ignores names that begin with a dot

A file is named after its first message and appears whole or not at all. A line is one message,
`base64(key) TAB base64(payload) LF`, so that payloads may contain any bytes and Spark's text source
reads one message per row. An empty payload leaves nothing after the tab:

    c2Vuc29yLTAwMDc=\teyJzZW5zb3IiOiJzZW5zb3ItMDAwNyIs...
    c2Vuc29yLTAwMDc=\t
"""

import base64
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from holdfast.examples.sensors.simulator import Message

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka import Message as KafkaMessage


class NotDelivered(Exception):
    """Kafka did not acknowledge every message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingWriter:
    """A writer of landing files; a directory must have only one writer."""

    directory: Path
    messages_per_file: int = 1_000

    def count_landed(self) -> int:
        """Return how many messages have landed, which is the number of the next message."""
        newest = max(self.directory.glob("part-*.tsv"), default=None)
        if newest is None:
            return 0
        return int(newest.stem.removeprefix("part-")) + newest.read_bytes().count(b"\n")

    def write(self, messages: Iterable[Message], *, first: int = 0) -> int:
        """Land all messages, counted from `first`, and return the number of the next message."""
        rest = iter(messages)
        while batch := tuple(islice(rest, self.messages_per_file)):
            self.land(batch, first=first)
            first += len(batch)
        return first

    def land(self, batch: Sequence[Message], *, first: int) -> Path:
        """Land one file, durably and in one step, without overwriting another."""
        target = self.directory / f"part-{first:09d}.tsv"
        if target.exists():
            raise FileExistsError(f"message {first} has already landed in `{target}`")
        self.directory.mkdir(parents=True, exist_ok=True)
        hidden = target.with_name(f".{target.name}")
        with hidden.open("wb") as file:
            file.writelines(map(to_line, batch))
            file.flush()
            # Before the rename, because a crash between them must not leave half a file under its
            # final name.
            os.fsync(file.fileno())
        hidden.rename(target)
        _sync_directory(self.directory)
        return target


class KafkaWriter:
    """A writer to a Kafka topic; each writer sends a message once, with the sensor as the key."""

    def __init__(
        self, bootstrap: str, topic: str, settings: Mapping[str, str | int] = MappingProxyType({})
    ) -> None:
        from confluent_kafka import Producer  # landing files need no Kafka client

        self._topic = topic
        self._failures: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "partitioner": "murmur2_random",  # a sensor's partition as Java producers choose it
                "linger.ms": 20,
                **settings,
                "enable.idempotence": True,
            }
        )

    def write(self, messages: Iterable[Message]) -> int:
        """Queue all messages and return how many; only `flush` makes sure that they arrived."""
        queued = 0
        for queued, message in enumerate(messages, start=1):  # noqa: B007 - read after the loop
            self._queue(message)
        return queued

    def flush(self, timeout_seconds: float = 30) -> None:
        """Wait until Kafka has every message; raise `NotDelivered` if it does not get them all."""
        waiting = self._producer.flush(timeout_seconds)
        if waiting or self._failures:
            reason = self._failures[0] if self._failures else f"no answer in {timeout_seconds} s"
            raise NotDelivered(
                f"`{self._topic}` did not receive every message ({len(self._failures)} failed,"
                f" {waiting} unanswered): {reason}"
            )

    def _queue(self, message: Message) -> None:
        while True:
            try:
                self._producer.produce(
                    self._topic, message.payload, message.key, on_delivery=self._note_delivery
                )
            except BufferError:  # the local queue is full
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _note_delivery(self, error: "KafkaError | None", _: "KafkaMessage") -> None:
        if error is not None:
            self._failures.append(error.str())


def to_line(message: Message) -> bytes:
    """Return the line of a message in a landing file, with its line feed."""
    return base64.b64encode(message.key) + b"\t" + base64.b64encode(message.payload) + b"\n"


def read_landed(directory: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the key and payload of every message that has landed, in the order of sending."""
    for file in sorted(directory.glob("part-*.tsv")):
        for line in file.read_bytes().splitlines():
            key, payload = line.split(b"\t")
            yield base64.b64decode(key), base64.b64decode(payload)


def _sync_directory(directory: Path) -> None:
    """Sync the directory, so that a new name survives a loss of power."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
