"""Kafka, asked through the JVM: the ids of the cluster and of the topics that a source reads.

No checkpoint holds them, so that Spark reads on from the offsets of another cluster, or of a topic
that was made anew. The client is made by Spark's own connector, with the options of the source and
the delegation token of the application; nothing of them is kept or told.
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
"""A source: its node in the plan, and its options, with their secrets."""

SECONDS = 3
_PREFIX = "kafka."
# One of the connector's three ways to subscribe; any of them makes the client.
_CONNECTOR = "org.apache.spark.sql.kafka010.SubscribePatternStrategy"
_LATE = Unknown(reason=f"its cluster did not answer within {SECONDS} s")


class KafkaLookups:
    """Answers that are on their way, a source of Kafka each, by its place among the sources.

    Threads of their own ask, all at once and while the plan is read: a first client in a new JVM
    takes a second, and a name server or a login may keep one waiting for much longer.
    """

    def __init__(self, reads: Mapping[int, KafkaSourceNode], spark: "SparkSession") -> None:
        self._until = time.monotonic() + SECONDS
        self._told: dict[int, KafkaIdentity | Unknown] = {}
        self._threads = {
            number: threading.Thread(
                target=self._ask, args=(number, read, spark), name="holdfast-kafka", daemon=True
            )
            for number, read in reads.items()
        }
        for thread in self._threads.values():
            thread.start()

    def of(self, sources: Sequence[PlanSource]) -> tuple[PlanSource, ...]:
        """The sources with what Kafka has said of them: no exception, and no long wait."""
        for thread in self._threads.values():
            thread.join(max(0.0, self._until - time.monotonic()))
        return tuple(
            replace(one, identity=self._told.get(number, _LATE)) if number in self._threads else one
            for number, one in enumerate(sources)
        )

    def _ask(self, number: int, read: KafkaSourceNode, spark: "SparkSession") -> None:
        try:
            self._told[number] = _look_up(read, spark)
        except Exception as error:  # whatever it is, it stops no stream, and may hold a secret
            reason = f"its cluster could not be asked ({_name_error(error)})"
            self._told[number] = Unknown(reason=reason)


def _look_up(read: KafkaSourceNode, spark: "SparkSession") -> KafkaIdentity | Unknown:
    java = spark._jvm.java  # type: ignore[union-attr]  # noqa: SLF001  PySpark does not pass it on
    client = _make_client(read, spark)
    try:
        cluster = client.describeCluster().clusterId()  # on its way while the topics are asked for
        topics = client.describeTopics(_list_topics(read[1], client, spark)).topicNameValues()
        found = {str(name): _read_topic_id(topics[name], spark) for name in topics}
        return make_identity(str(_wait_for_answer(cluster, spark) or ""), found)
    finally:
        client.close(java.time.Duration.ZERO)


def _wait_for_answer(future: "JavaObject", spark: "SparkSession") -> "JavaObject":
    return future.get(SECONDS, spark._jvm.java.util.concurrent.TimeUnit.SECONDS)  # type: ignore[union-attr]  # noqa: SLF001


def _read_topic_id(topic: "JavaObject", spark: "SparkSession") -> str:
    """The id of a topic; empty where there is none of that name, or none that may be seen."""
    with suppress(Exception):
        return str(_wait_for_answer(topic, spark).topicId().toString())
    return ""


def _name_error(error: Exception) -> str:
    """What kind of error it is, and no word of it."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return type(error).__name__
    return str((java.getCause() or java).getClass().getSimpleName())


def _make_client(read: KafkaSourceNode, spark: "SparkSession") -> "JavaObject":
    """An admin client, as Spark makes one for the source."""
    node, options = read
    java = spark._jvm.java  # type: ignore[union-attr]  # noqa: SLF001
    arguments = spark.sparkContext._gateway.new_array(java.lang.Object, 1)  # type: ignore[union-attr]  # noqa: SLF001
    arguments[0] = ""
    connector = (
        _find_class_loader(node).loadClass(_CONNECTOR).getConstructors()[0].newInstance(arguments)
    )
    given = java.util.HashMap()
    for key, value in options.items():
        if key.lower().startswith(_PREFIX):
            given.put(key.lower().removeprefix(_PREFIX), value)
    for key in ("request.timeout.ms", "default.api.timeout.ms"):
        given.put(key, str(SECONDS * 1000))
    return connector.createAdmin(given)


def _find_class_loader(node: "JavaObject") -> "JavaObject":
    """Where Spark has the classes of the connector from."""
    if str(node.getClass().getSimpleName()) == "StreamingRelationV2":
        return node.table().getClass().getClassLoader()
    return node.dataSource().providingClass().getClassLoader()


def _list_topics(
    options: Mapping[str, str], client: "JavaObject", spark: "SparkSession"
) -> "JavaObject":
    """The topics that the source reads; those of a pattern are for the cluster to say."""
    java = spark._jvm.java  # type: ignore[union-attr]  # noqa: SLF001
    wanted = {key.lower(): value for key, value in options.items()}
    if "subscribepattern" in wanted:
        every = _wait_for_answer(client.listTopics().names(), spark)
        matches = java.util.regex.Pattern.compile(wanted["subscribepattern"]).asMatchPredicate()
        return every.stream().filter(matches).toList()
    names = java.util.ArrayList()
    for one in (
        *(wanted["subscribe"].split(",") if "subscribe" in wanted else ()),
        *json.as_mapping(json.parse(wanted.get("assign", "{}"))),
    ):
        names.add(one.strip())
    return names
