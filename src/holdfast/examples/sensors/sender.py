"""The demo's sensors: messages -> the wire, steadily, from a thread of their own."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from holdfast.examples.sensors import landing, pipeline
from holdfast.examples.sensors.pipeline import Settings
from holdfast.examples.sensors.simulator import Encoding, Message

A_SECOND = 400
_AT_ONCE = 200
_PARTITIONS = 4

Send = Callable[[Sequence[Message], int], object]
"""Sends messages, of which the first has this number, and returns when they have arrived."""


class Sender(threading.Thread):
    """Sends messages steadily from a thread of its own, never more of them than are allowed."""

    def __init__(self, send: Send, messages: Sequence[Message]) -> None:
        super().__init__(name="sensors", daemon=True)
        self._send = send
        self._messages = messages
        self._end = threading.Event()
        self.allowed = 0
        self.sent = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        """Send until everything is sent or `stop` is called; keeps the error that ends it."""
        try:
            while self.sent < len(self._messages) and not self._end.wait(_AT_ONCE / A_SECOND):
                upto = min(self.sent + _AT_ONCE, self.allowed)
                if upto > self.sent:
                    self._send(self._messages[self.sent : upto], self.sent)
                    self.sent = upto
        except Exception as error:  # raised again where the demo waits
            self.failure = error

    def stop(self) -> None:
        """Send no more."""
        self._end.set()
        self.join()


@contextmanager
def open_wire(home: Path, encoding: Encoding, *, kafka: bool) -> Iterator[tuple[Settings, Send]]:
    """What the messages are sent over, and the settings of a pipeline that reads there."""
    settings = Settings(home=home, encoding=encoding)
    if not kafka:
        settings.landing.mkdir()
        files = landing.LandingWriter(directory=settings.landing)
        yield settings, lambda batch, first: files.land(batch, first=first)
        return
    from holdfast.examples.broker import Broker  # files need no Kafka

    with Broker(home / "kafka") as broker:
        broker.create_topic(pipeline.TOPIC, _PARTITIONS)
        # What fails is raised by `flush`; that the broker starts and stops is no news.
        silent = {"log_level": 0}
        topic = landing.KafkaWriter(broker.bootstrap_servers, pipeline.TOPIC, silent)

        def send(batch: Sequence[Message], _: int) -> None:
            topic.write(batch)
            topic.flush()

        yield replace(settings, kafka=broker.bootstrap_servers), send
