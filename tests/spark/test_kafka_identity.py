"""Topics and clusters of the same name: real Spark reads on in silence, and what is said before.

An offset counts the records of one topic of one cluster, and Spark keeps the id of neither.
"""

import json
import time
from dataclasses import replace
from pathlib import Path

import deltalake
import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession
from tests.diagnosing import codes, diagnosed, reading, recorded
from tests.looking import evidence
from tests.spark.driving import send_numbers
from tests.spark.recording import recorded_to_the_end, runs

import holdfast
from holdfast import Pipeline, sinks, sources
from holdfast.decode import fingerprint as plans
from holdfast.errors import ServerUnavailable, StartUnsafe
from holdfast.examples.broker import Broker
from holdfast.gather.around import topics
from holdfast.model.fact import Unknown
from holdfast.model.finding import Check, Code, Judgement, Severity
from holdfast.model.fingerprint import KafkaIdentity
from holdfast.model.surroundings import KafkaCluster
from holdfast.run import order
from holdfast.run.query import check as checks
from holdfast.run.query import fingerprint, kafka_ids
from holdfast.run.start.admission import RunOptions

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow]

_CLOSED = "127.0.0.1:9"
_PASSWORD = "s3cret-of-the-test"


def _make_anew(broker: Broker, topic: str) -> None:
    """Delete a topic and make it anew, as soon as the broker has forgotten the old one."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_topics([topic], operation_timeout=30)[topic].result(30)
    deadline = time.monotonic() + 30
    while True:
        try:
            broker.create_topic(topic, 1)
        except ServerUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return


def _frame(spark: SparkSession, servers: str, **options: str) -> DataFrame:
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    read = reader.options(**{"startingOffsets": "earliest", **options}).load()
    return read.selectExpr("int(string(value)) n")


def _ran(spark: SparkSession, home: Path, servers: str, topic: str) -> list[int]:
    """Plain Spark to the end of a topic, and recorded: all that is in the sink then."""
    before = runs(home / "ck")
    session = spark.newSession()  # whose listener hears of no other test
    holdfast.record(session)
    stream = _frame(session, servers, subscribe=topic).writeStream.format("parquet")
    stream = stream.option("checkpointLocation", f"{home}/ck").trigger(availableNow=True)
    stream.start(f"{home}/out").awaitTermination()
    recorded_to_the_end(home / "ck", but=before)
    return sorted(int(row.n) for row in spark.read.parquet(f"{home}/out").collect())


def _checked(spark: SparkSession, home: Path, servers: str, topic: str) -> Check:
    return holdfast.check(_frame(spark, servers, subscribe=topic), f"{home}/ck")


def _told(found: Check) -> list[tuple[Code, Severity]]:
    return [(one.code, one.severity) for one in found.findings]


def test_a_topic_that_was_made_anew(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    topic, servers = "made-anew", broker.bootstrap_servers
    broker.create_topic(topic, 1)
    send_numbers(broker, topic, range(5))
    assert _ran(spark, tmp_path, servers, topic) == [0, 1, 2, 3, 4]
    assert _told(_checked(spark, tmp_path, servers, topic)) == []
    assert codes(diagnosed(tmp_path / "ck", kafka=servers)) == set()

    # The same cluster by another of its addresses is the same cluster.
    other = servers.replace("127.0.0.1", "localhost")
    named = _checked(spark, tmp_path, other, topic)
    assert _told(named) == [(Code.SOURCE_OPTION_CHANGED, Severity.NOTE)]
    assert named.judgement is Judgement.SAFE
    send_numbers(broker, topic, [5])
    assert _ran(spark, tmp_path, other, topic) == [0, 1, 2, 3, 4, 5]

    _make_anew(broker, topic)
    send_numbers(broker, topic, range(100, 110))
    found = _checked(spark, tmp_path, servers, topic)
    assert (Code.KAFKA_TOPIC_RECREATED, Severity.LOSES) in _told(found)
    assert found.judgement is Judgement.UNSAFE
    assert codes(diagnosed(tmp_path / "ck", kafka=servers)) == {Code.KAFKA_TOPIC_RECREATED}
    rows = _ran(spark, tmp_path, servers, topic)
    assert rows == [0, 1, 2, 3, 4, 5, 106, 107, 108, 109], "Spark has noticed"
    # What has run since is what was read last.
    assert _told(_checked(spark, tmp_path, servers, topic)) == []


def test_a_cluster_that_has_a_topic_of_the_same_name(
    spark: SparkSession, broker: Broker, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic, servers = "in-two-clusters", broker.bootstrap_servers
    broker.create_topic(topic, 1)
    send_numbers(broker, topic, range(3))
    assert _ran(spark, tmp_path, servers, topic) == [0, 1, 2]
    with Broker(tmp_path_factory.mktemp("another")) as another:
        another.create_topic(topic, 1)
        send_numbers(another, topic, range(100, 105))
        there = another.bootstrap_servers
        found = _checked(spark, tmp_path, there, topic)
        assert _told(found) == [(Code.KAFKA_CLUSTER_CHANGED, Severity.LOSES)]
        assert found.judgement is Judgement.UNSAFE
        assert codes(diagnosed(tmp_path / "ck", kafka=there)) == {Code.KAFKA_CLUSTER_CHANGED}
        assert codes(diagnosed(tmp_path / "ck", kafka=servers)) == set()
        rows = _ran(spark, tmp_path, there, topic)
        assert rows == [0, 1, 2, 103, 104], "Spark has noticed"


def test_a_run_is_refused_and_can_be_accepted(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = "run-anew"
    declared = Pipeline("test", checkpoints=str(tmp_path / "checkpoints"))
    reads = sources.kafka(broker.bootstrap_servers, topic)
    table = str(tmp_path / "table")
    job = declared.job("job", reads=reads, writes=sinks.delta_append(table))
    job(lambda rows: rows.selectExpr("int(string(value)) n"))

    def run(*accepted: str) -> list[int]:
        options = RunOptions(dev=True, once=True, restarts=1, accepted=frozenset(accepted))
        order.start(declared.declaration, declared.jobs, options, lambda _: spark).wait()
        rows = deltalake.DeltaTable(table).to_pyarrow_table()
        return sorted(rows.column("n").to_pylist())

    broker.create_topic(topic, 1)
    send_numbers(broker, topic, range(3))
    assert run() == [0, 1, 2]
    _make_anew(broker, topic)
    send_numbers(broker, topic, range(100, 105))
    with pytest.raises(StartUnsafe, match="KAFKA_TOPIC_RECREATED") as refused:
        run()
    assert "--accept KAFKA_TOPIC_RECREATED" in refused.value.hint
    assert run("KAFKA_TOPIC_RECREATED") == [0, 1, 2, 103, 104]
    assert run() == [0, 1, 2, 103, 104]


def test_a_topic_that_is_made_anew_under_a_run(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    topic = "anew-under-a-run"
    given: list[list[int]] = []

    def kept(rows: DataFrame, _: int) -> None:
        given.append(sorted(row.n for row in rows.collect()))
        if len(given) == 2:
            _make_anew(broker, topic)
            send_numbers(broker, topic, range(100, 110))
            raise OSError  # as a database may at any time: a restart of the query cures it

    declared = Pipeline("test", checkpoints=str(tmp_path / "checkpoints"))
    reads = sources.kafka(broker.bootstrap_servers, topic, options={"maxOffsetsPerTrigger": "2"})
    job = declared.job("job", reads=reads, writes=sinks.foreach_batch(kept))
    job(lambda rows: rows.selectExpr("int(string(value)) n"))
    broker.create_topic(topic, 1)
    send_numbers(broker, topic, range(6))
    options = RunOptions(dev=True, once=True, restarts=3, accepted=frozenset())
    with pytest.raises(StartUnsafe, match="KAFKA_TOPIC_RECREATED"):
        order.start(declared.declaration, declared.jobs, options, lambda _: spark).wait()
    assert given == [[0, 1], [2, 3]]


def _identity(frame: DataFrame) -> KafkaIdentity | Unknown:
    (source,) = fingerprint.take_from_frame(frame, sinks=(), output_mode="append").sources
    return source.identity


def test_ids_are_the_same_however_they_are_asked(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    names = [f"asked-{number}" for number in range(12)]  # of 22 letters each: some have a - or a _
    for name in names:
        broker.create_topic(name, 1)
    servers = broker.bootstrap_servers
    location = reading(tmp_path / "ck", [{name: {"0": 1} for name in names}])
    seen = topics.fetch_offsets(evidence(location), servers)
    assert isinstance(seen, KafkaCluster)
    told = seen.identity
    assert isinstance(told, KafkaIdentity)
    assert sorted(told.topics) == sorted(names)
    for options in (
        {"subscribePattern": "asked-[0-9]+"},
        {"subscribe": ",".join(names)},
        {"assign": json.dumps({name: [0] for name in names})},
    ):
        assert _identity(_frame(spark, servers, **options)) == told
    two = _identity(_frame(spark, servers, subscribe="asked-0, never-made"))
    assert isinstance(two, KafkaIdentity)
    assert set(two.topics) == {"asked-0"}


def test_a_cluster_that_does_not_answer_stops_nothing(spark: SparkSession, tmp_path: Path) -> None:
    location = reading(tmp_path / "ck", [{"orders": {"0": 5}}])
    began = time.monotonic()
    frame = _frame(spark, _CLOSED, subscribe="orders")
    new = fingerprint.take_from_frame(frame, sinks=(), output_mode="append")
    assert time.monotonic() - began < kafka_ids.SECONDS + 5
    assert isinstance(new.sources[0].identity, Unknown)
    known = KafkaIdentity(cluster="c", topics={"orders": "t"})
    old = replace(new, sources=(replace(new.sources[0], identity=known),))
    recorded(location, plan=plans.encode(old))
    found = checks.compare("ck", str(location), {}, new)
    assert (found.judgement, found.findings) == (Judgement.SAFE, ())
    (told,) = (one for one in found.not_assessed if "same cluster" in one.question)
    assert told.reason.startswith("its cluster ")


def test_a_secret_of_a_source_is_told_nowhere(spark: SparkSession) -> None:
    jaas = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    options = {
        "subscribe": "orders",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{jaas} username="u" password="{_PASSWORD}"',  # no semicolon
    }
    new = fingerprint.take_from_frame(
        _frame(spark, _CLOSED, **options), sinks=(), output_mode="append"
    )
    identity = new.sources[0].identity
    assert isinstance(identity, Unknown)
    assert identity.reason == "its cluster could not be asked (KafkaException)"
    assert _PASSWORD not in json.dumps(plans.encode(new))
