"""A real Kafka broker for demos, tests and benchmarks: one node, on the loopback interface only.

    with Broker(folder) as broker:
        broker.create_topic("events", partitions=4)
        ... broker.bootstrap_servers ...

The folder contains:

    server.properties   the settings of the broker
    log/                the topics; a broker that starts again on the same folder still has them
    broker.log          the output of the process

The broker uses KRaft: broker and controller are one process, without ZooKeeper.
"""

import base64
import os
import secrets
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from holdfast.errors import JavaMissing, ServerUnavailable
from holdfast.run.session import jars

_START_WITHIN_S = 60.0
_STOP_WITHIN_S = 20.0
# A demo needs a small heap, only the fast compiler, and only warnings and errors in the log.
_JVM_OPTIONS = (
    "-Xms128m",
    "-Xmx512m",
    "-XX:TieredStopAtLevel=1",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
)
_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={log}
auto.create.topics.enable=false
delete.topic.enable=true
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class Broker:
    """A Kafka broker that runs as long as the `with` block.

    It chooses its ports when it is created. `stop` and `start` may alternate: the broker comes
    back with its topics, on the same port.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._port, self._controller_port = _find_free_ports()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Return the address for clients, which is also valid while the broker is stopped."""
        return f"127.0.0.1:{self._port}"

    @property
    def log_file(self) -> Path:
        """Return the file with the output of the broker's process, over all its starts."""
        return self._folder / "broker.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker unless it is running, and return when it answers.

        Raises:
            JavaMissing: there is no Java to start the broker with.
            JarsUnavailable: Kafka's jars could not be fetched.
            ServerUnavailable: the broker did not answer within a minute, and was stopped.
        """
        if self._process is not None and self._process.poll() is None:
            return
        java = _find_java()
        classpath = os.pathsep.join(str(path) for path in jars.fetch("kafka-broker"))
        log = self._folder / "log"
        log.mkdir(parents=True, exist_ok=True)
        properties = self._folder / "server.properties"
        properties.write_text(
            _PROPERTIES.format(port=self._port, controller_port=self._controller_port, log=log),
            "utf-8",
        )
        command = [java, *_JVM_OPTIONS, "-cp", classpath]
        with self.log_file.open("ab") as output:
            if not (log / "meta.properties").exists():
                self._format([*command, "kafka.tools.StorageTool"], properties, output)
            self._process = subprocess.Popen(  # noqa: S603 - the command is built here
                [*command, "kafka.Kafka", str(properties)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
            )
        try:
            self._wait_until_it_answers(self._process)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Terminate the broker, and kill it if it does not end; its topics stay in the folder."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic that producers and consumers can use as soon as this returns.

        Raises:
            ServerUnavailable: the broker did not create the topic, for example because it exists.
        """
        admin = self._admin()
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1)
        try:
            admin.create_topics([topic], operation_timeout=30)[name].result(timeout=30)
        except (KafkaException, TimeoutError) as error:
            raise ServerUnavailable(
                f"the broker did not create the topic `{name}`: {error}",
                hint=f"tail {self.log_file}",
            ) from error

    def _admin(self) -> AdminClient:
        # librdkafka prints every refused connection to stderr, which is normal during a start.
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

    def _format(self, tool: list[str], properties: Path, output: IO[bytes]) -> None:
        arguments = ["format", "-t", _make_cluster_id(), "-c", str(properties)]
        ended = subprocess.run(  # noqa: S603 - the command is built here
            [*tool, *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
        )
        if ended.returncode != 0:
            raise self._make_error(f"its storage tool ended with exit code {ended.returncode}")

    def _wait_until_it_answers(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_WITHIN_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise self._make_error(f"its process ended with exit code {process.returncode}")
            # The port opens before the broker serves, so the broker must also answer a request.
            if _is_listening(self._port) and self._answers():
                return
            time.sleep(0.1)
        raise self._make_error(f"it did not answer within {_START_WITHIN_S:.0f} s")

    def _answers(self) -> bool:
        try:
            return len(self._admin().list_topics(timeout=5).brokers) == 1
        except KafkaException:
            return False

    def _make_error(self, reason: str) -> ServerUnavailable:
        return ServerUnavailable(
            f"the Kafka broker on `{self.bootstrap_servers}` did not start: {reason}",
            hint=f"tail {self.log_file}",
        )


def _make_cluster_id() -> str:
    """Return a new cluster id: 16 bytes in base64, which the folder keeps between starts.

    The first byte is fixed, so that the id never begins with a dash like an option.
    """
    return base64.urlsafe_b64encode(b"h" + secrets.token_bytes(15)).decode().rstrip("=")


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")  # noqa: TID251 - Java's variable, not a setting of holdfast
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if java is None:
        raise JavaMissing(
            f"Java is missing in `{home or 'PATH'}`: Kafka needs Java 17 or later",
            hint="install a JDK or JRE 17 or 21, or set JAVA_HOME to one",
        )
    return java


def _find_free_ports() -> tuple[int, int]:
    # Both sockets are open at the same time; otherwise the system might return one port twice.
    with (
        socket.create_server(("127.0.0.1", 0)) as first,
        socket.create_server(("127.0.0.1", 0)) as second,
    ):
        return first.getsockname()[1], second.getsockname()[1]


def _is_listening(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False
