"""A Kafka source -> the ids of its cluster and topics, from Kafka, through the JVM.

No checkpoint contains these ids. So Spark also goes on with the old offsets if the source now reads
from a different cluster, or from a topic that was deleted and created again. Spark's own connector
makes the client, with the options of the source and the delegation token of the application. None
of these secrets is stored or reported.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from holdfast.model import json
from holdfast.model.fact import Unknown
from holdfast.model.fingerprint import KafkaIdentity, PlanSource, make_identity

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

KafkaSourceNode: TypeAlias = "tuple[JavaObject, Mapping[str, str]]"
"""A source: its node in the plan and its options, secrets included."""

SECONDS = 3
_PREFIX = "kafka."
# One of the connector's three subscription classes; each of them can make the client.
_CONNECTOR = "org.apache.spark.sql.kafka010.SubscribePatternStrategy"
_LATE = Unknown(reason=f"its cluster did not answer within {SECONDS} s")


class KafkaLookups:
    """Lookups in progress, one per Kafka source, by the source's index in the plan.

    The threads run all at once, while the plan is read. The first client in a new JVM takes a
    second, and a name server or a login can take much longer.
    """

    def __init__(self, nodes: Mapping[int, KafkaSourceNode], spark: "SparkSession") -> None:
        self._deadline = time.monotonic() + SECONDS
        self._answers: dict[int, KafkaIdentity | Unknown] = {}
        self._threads = {
            index: threading.Thread(
                target=self._look_up, args=(index, node, spark), name="holdfast-kafka", daemon=True
            )
            for index, node in nodes.items()
        }
        for thread in self._threads.values():
            thread.start()

    def add_identities(self, sources: Sequence[PlanSource]) -> tuple[PlanSource, ...]:
        """Return the sources with their Kafka ids; raise nothing, and wait only a short time."""
        for thread in self._threads.values():
            thread.join(max(0.0, self._deadline - time.monotonic()))
        return tuple(
            replace(source, identity=self._answers.get(index, _LATE))
            if index in self._threads
            else source
            for index, source in enumerate(sources)
        )

    def _look_up(self, index: int, node: KafkaSourceNode, spark: "SparkSession") -> None:
        try:
            self._answers[index] = _look_up_ids(node, spark)
        except Exception as error:  # no error here may stop a stream, and each may hold a secret
            # Run records contain this text.
            reason = f"its cluster could not be asked ({_name_error(error)})"
            self._answers[index] = Unknown(reason=reason)


def _look_up_ids(source: KafkaSourceNode, spark: "SparkSession") -> KafkaIdentity | Unknown:
    java = spark._jvm.java  # type: ignore[union-attr]  # noqa: SLF001  PySpark has no public access
    client = _make_client(source, spark)
    try:
        cluster = client.describeCluster().clusterId()  # Kafka answers while topics are looked up
        topics = client.describeTopics(_list_topics(source[1], client, spark)).topicNameValues()
        ids = {str(name): _read_topic_id(topics[name], spark) for name in topics}
        return make_identity(str(_wait_for_answer(cluster, spark) or ""), ids)
    finally:
        client.close(java.time.Duration.ZERO)


def _wait_for_answer(future: "JavaObject", spark: "SparkSession") -> "JavaObject":
    return future.get(SECONDS, spark._jvm.java.util.concurrent.TimeUnit.SECONDS)  # type: ignore[union-attr]  # noqa: SLF001


def _read_topic_id(topic: "JavaObject", spark: "SparkSession") -> str:
    """Return the id of a topic; empty if the topic does not exist or may not be read."""
    with suppress(Exception):
        return str(_wait_for_answer(topic, spark).topicId().toString())
    return ""


def _name_error(error: Exception) -> str:
    """Return the class of the error; its message may contain a secret."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return type(error).__name__
    return str((java.getCause() or java).getClass().getSimpleName())


def _make_client(source: KafkaSourceNode, spark: "SparkSession") -> "JavaObject":
    """Return an admin client, made as Spark makes its own for the source."""
    node, options = source
    java = spark._jvm.java  # type: ignore[union-attr]  # noqa: SLF001
    arguments = spark.sparkContext._gateway.new_array(java.lang.Object, 1)  # type: ignore[union-attr]  # noqa: SLF001
    arguments[0] = ""
    connector = (
        _find_class_loader(node).loadClass(_CONNECTOR).getConstructors()[0].newInstance(arguments)
    )
    settings = java.util.HashMap()
    for key, value in options.items():
        if key.lower().startswith(_PREFIX):
            settings.put(key.lower().removeprefix(_PREFIX), value)
    for key in ("request.timeout.ms", "default.api.timeout.ms"):
        settings.put(key, str(SECONDS * 1000))
    return connector.createAdmin(settings)


def _find_class_loader(node: "JavaObject") -> "JavaObject":
    """Return the class loader from which Spark loaded the connector."""
    if str(node.getClass().getSimpleName()) == "StreamingRelationV2":
        return node.table().getClass().getClassLoader()
    return node.dataSource().providingClass().getClassLoader()


def _list_topics(
    options: Mapping[str, str], client: "JavaObject", spark: "SparkSession"
) -> "JavaObject":
    """Return the topics that the source reads; the cluster lists those that match a pattern."""
    java = spark._jvm.java  # type: ignore[union-attr]  # noqa: SLF001
    settings = {key.lower(): value for key, value in options.items()}
    if "subscribepattern" in settings:
        all_names = _wait_for_answer(client.listTopics().names(), spark)
        matches = java.util.regex.Pattern.compile(settings["subscribepattern"]).asMatchPredicate()
        return all_names.stream().filter(matches).toList()
    names = java.util.ArrayList()
    for name in (
        *(settings["subscribe"].split(",") if "subscribe" in settings else ()),
        *json.as_mapping(json.parse(settings.get("assign", "{}"))),
    ):
        names.add(name.strip())
    return names
