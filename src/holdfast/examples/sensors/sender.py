"""The demo's sensors: a thread that sends messages steadily to files or to Kafka."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from holdfast.examples.sensors import landing, pipeline
from holdfast.examples.sensors.pipeline import Settings
from holdfast.examples.sensors.simulator import Encoding, Message

MESSAGES_PER_SECOND = 400
_MESSAGES_PER_SEND = 200
_PARTITIONS = 4

Send = Callable[[Sequence[Message], int], object]
"""Sends messages, given the number of the first, and returns when they have arrived."""


class Sender(threading.Thread):
    """A thread that sends messages steadily, never more than `allowed`."""

    def __init__(self, send: Send, messages: Sequence[Message]) -> None:
        super().__init__(name="sensors", daemon=True)
        self._send = send
        self._messages = messages
        self._end = threading.Event()
        self.allowed = 0
        self.sent = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        """Send until every message is sent or `stop` is called; keep an error in `failure`."""
        pause = _MESSAGES_PER_SEND / MESSAGES_PER_SECOND
        try:
            while self.sent < len(self._messages) and not self._end.wait(pause):
                upto = min(self.sent + _MESSAGES_PER_SEND, self.allowed)
                if upto > self.sent:
                    self._send(self._messages[self.sent : upto], self.sent)
                    self.sent = upto
        except Exception as error:  # raised again where the demo waits
            self.failure = error

    def stop(self) -> None:
        """Stop sending, and wait until the thread has ended."""
        self._end.set()
        self.join()


@contextmanager
def open_wire(home: Path, encoding: Encoding, *, kafka: bool) -> Iterator[tuple[Settings, Send]]:
    """Yield the settings of a pipeline that reads the messages, and a function that sends them."""
    settings = Settings(home=home, encoding=encoding)
    if not kafka:
        settings.landing.mkdir()
        files = landing.LandingWriter(directory=settings.landing)
        yield settings, lambda batch, first: files.land(batch, first=first)
        return
    from holdfast.examples.broker import Broker  # files need no Kafka

    with Broker(home / "kafka") as broker:
        broker.create_topic(pipeline.TOPIC, _PARTITIONS)
        # `flush` raises every failure; that the broker starts and stops is not worth a message.
        silent = {"log_level": 0}
        topic = landing.KafkaWriter(broker.bootstrap_servers, pipeline.TOPIC, silent)

        def send(batch: Sequence[Message], _: int) -> None:
            topic.write(batch)
            topic.flush()

        yield replace(settings, kafka=broker.bootstrap_servers), send
