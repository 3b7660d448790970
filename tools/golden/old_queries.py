"""The scenarios of the Spark releases in `old_sparks`, with the same names as in newer releases.

Queries are sent to the JVM, mostly in SQL: the Python packages of those releases do not load here.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from py4j.java_gateway import JavaObject
from tools.golden.old_sparks import Jvm
from tools.golden.scenario import HDFS, PROVIDER, ROCKSDB, Continuous, Paced, json_files_in

Version = tuple[int, int]
_WINDOWED = """
    SELECT window(t, '10 minutes') AS w, k, sum(v) AS total, count(*) AS n
    FROM events GROUP BY window(t, '10 minutes'), k
"""
_JOINED = """
    SELECT events.k, events.v, others.v AS other FROM events {} JOIN others
    ON events.k = others.k AND others.t >= events.t
    AND others.t <= events.t + interval 10 minutes
"""
_SESSIONS = """
    SELECT session_window(t, '5 minutes') AS w, k, count(*) AS n
    FROM events GROUP BY session_window(t, '5 minutes'), k
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldStage:
    """The place of one run of a scenario: a session of a JVM, and folders."""

    jvm: Jvm
    session: JavaObject
    folder: Path
    run: int
    kafka: str
    kinesis: str

    @property
    def checkpoint(self) -> Path:
        """Return the checkpoint location, which is the same for each run."""
        return self.folder / "checkpoint"

    @property
    def reached(self) -> Path:
        """Return the file that appears when a run has reached the point of its kill."""
        return self.folder / "reached"

    def topic(self, name: str) -> str:
        """Return the name of a topic that only this scenario uses."""
        return f"{self.folder.name}-{name}"

    def stream(self, kind: str, **options: str) -> JavaObject:
        """Return a stream of a source."""
        reader = self.session.readStream().format(kind)
        for key, value in options.items():
            reader = reader.option(key.replace("__", "."), value)
        return reader.load()

    def files(self, name: str = "input") -> JavaObject:
        """Return a stream of the JSON files in an input folder, one per batch."""
        schema = self.jvm.of.org.apache.spark.sql.types.StructType()
        schema = schema.add("k", "string").add("v", "long").add("t", "timestamp")
        reader = self.session.readStream().schema(schema).option("maxFilesPerTrigger", "1")
        return reader.json(str(self.folder / name))

    def watermarked(self, name: str = "input") -> JavaObject:
        """Return the events of an input folder, with a watermark of five minutes."""
        return self.files(name).withWatermark("t", "5 minutes")

    def sql(self, query: str, **views: JavaObject) -> JavaObject:
        """Return a SQL query over streams, by the names of the arguments."""
        for name, rows in views.items():
            rows.createOrReplaceTempView(name)
        return self.session.sql(query)


Query = Callable[[OldStage], JavaObject]
Write = Callable[[OldStage, JavaObject], JavaObject]


def _nothing(stage: OldStage, writer: JavaObject) -> JavaObject:
    return writer.foreach(stage.jvm.of.holdfast.golden.Nothing())


def _stuck(batch: int) -> Write:
    def write(stage: OldStage, writer: JavaObject) -> JavaObject:
        return writer.foreach(stage.jvm.of.holdfast.golden.Stuck(batch, str(stage.reached)))

    return write


def _sink(kind: str) -> Write:
    def write(stage: OldStage, writer: JavaObject) -> JavaObject:
        return writer.format(kind).option("path", str(stage.folder / "sink"))

    return write


def _memory(_stage: OldStage, writer: JavaObject) -> JavaObject:
    return writer.format("memory")


def _to_kafka(stage: OldStage, writer: JavaObject) -> JavaObject:
    writer = writer.format("kafka").option("kafka.bootstrap.servers", stage.kafka)
    return writer.option("topic", stage.topic("out"))


def _two_each(stage: OldStage) -> None:
    _some(stage, "input", (2, 2))


def _eleven(stage: OldStage) -> None:
    _some(stage, "input", (6, 5))


def _two_inputs(stage: OldStage) -> None:
    _some(stage, "input", (2, 1))
    _some(stage, "other", (2, 1))


def _second_input_empty(stage: OldStage) -> None:
    _two_each(stage)
    (stage.folder / "other").mkdir(exist_ok=True)


def _some(stage: OldStage, name: str, counts: tuple[int, int]) -> None:
    first = sum(counts[: stage.run])
    json_files_in(stage.folder / name, range(first, first + counts[stage.run]))


def _no_input(_stage: OldStage) -> None:
    """Feed nothing, for sources that make their own rows."""


def _feed_kafka(stage: OldStage) -> None:
    """Write rows for a run that reads Kafka; the second topic has none before the restart."""
    of = stage.jvm.of
    settings = of.java.util.Properties()
    settings.setProperty("bootstrap.servers", stage.kafka)
    for side in ("key", "value"):
        named = "org.apache.kafka.common.serialization.StringSerializer"
        settings.setProperty(f"{side}.serializer", named)
    clients = of.org.apache.kafka.clients.producer
    producer = clients.KafkaProducer(settings)
    for topic, rows in (("events", 20), ("payments", 5 * stage.run)):
        for number in range(rows):
            row = clients.ProducerRecord(stage.topic(topic), str(number), f"row {number}")
            producer.send(row)
    producer.close()


def _feed_kinesis(stage: OldStage) -> None:
    """Create a stream of two shards before the first run, and write rows for a run."""
    of = stage.jvm.of
    # The connector contains Amazon's client, but the server does not know Amazon's own encoding.
    inside = "org.apache.spark.sql.kinesis.shaded.amazonaws"
    of.java.lang.System.setProperty(f"{inside}.sdk.disableCbor", "true")
    amazon = of.org.apache.spark.sql.kinesis.shaded.amazonaws
    user = amazon.auth.BasicAWSCredentials("golden", "golden")
    client = amazon.services.kinesis.AmazonKinesisClient(user)
    client.setEndpoint(stage.kinesis)
    if stage.run == 0:
        client.createStream("events", 2)
        while client.describeStream("events").getStreamDescription().getStreamStatus() != "ACTIVE":
            time.sleep(0.1)
    for number in range(10):
        row = of.java.nio.ByteBuffer.wrap(f"row {number}".encode())
        client.putRecord("events", row, str(number))


def _kinesis(stage: OldStage) -> JavaObject:
    return stage.stream(
        "kinesis",
        streamName="events",
        endpointUrl=stage.kinesis,
        region="us-east-1",
        awsAccessKeyId="golden",
        awsSecretKey="golden",
        startingposition="TRIM_HORIZON",
    )


def _feed_delta(stage: OldStage) -> None:
    for number in range(2):
        rows = stage.session.range(number * 10, number * 10 + 3).toDF().coalesce(1)
        rows.write().format("delta").mode("append").save(str(stage.folder / "input"))


def _kafka(stage: OldStage, most: str) -> JavaObject:
    return stage.stream(
        "kafka",
        kafka__bootstrap__servers=stage.kafka,
        subscribe=f"{stage.topic('events')},{stage.topic('payments')}",
        startingOffsets="earliest",
        maxOffsetsPerTrigger=most,
    ).select("key", stage.jvm.array("value"))


def _dedup(*columns: str, watermark: bool) -> Query:
    def query(stage: OldStage) -> JavaObject:
        rows = stage.watermarked() if watermark else stage.files()
        return rows.dropDuplicates(stage.jvm.array(*columns))

    return query


def _joined(kind: str) -> Query:
    def query(stage: OldStage) -> JavaObject:
        return stage.sql(
            _JOINED.format(kind), events=stage.watermarked(), others=stage.watermarked("other")
        )

    return query


def _windowed(stage: OldStage) -> JavaObject:
    return stage.sql(_WINDOWED, events=stage.watermarked())


@dataclass(frozen=True, slots=True, kw_only=True)
class OldScenario:
    """A query, how it is fed, written and run, and the first Spark version that supports it."""

    name: str
    about: str
    query: Query
    write: Write = _nothing
    feed: Callable[[OldStage], None] = _two_each
    conf: Mapping[str, str] = field(default_factory=dict)
    mode: str = "append"
    # None: read all available data, and stop.
    pace: Paced | Continuous | None = None
    since: Version = (2, 1)
    topics: Mapping[str, int] = field(default_factory=dict)
    needs_delta: bool = False
    needs_kinesis: bool = False
    killed: bool = False


_HDFS = {PROVIDER: HDFS}
SCENARIOS = (
    OldScenario(
        name="files-compact",
        about="JSON files, enough batches for a compact file of the source's log",
        query=OldStage.files,
        feed=_eleven,
    ),
    OldScenario(
        name="files-to-files",
        about="JSON files to a file sink whose log is compacted every third batch",
        query=lambda stage: stage.files().coalesce(1),
        write=_sink("json"),
        conf={"spark.sql.streaming.fileSink.log.compactInterval": "3"},
    ),
    OldScenario(
        name="files-union",
        about="two folders of JSON files, unioned",
        query=lambda stage: stage.files().union(stage.files("other")),
        feed=_two_inputs,
    ),
    OldScenario(
        name="files-union-no-offset",
        about="two folders of JSON files, unioned, the second always empty: its offset is `-`",
        query=lambda stage: stage.files().union(stage.files("other")),
        feed=_second_input_empty,
    ),
    OldScenario(
        name="rate",
        about="the rate source",
        query=lambda stage: stage.stream("rate", rowsPerSecond="5"),
        feed=_no_input,
        pace=Paced(),
        since=(2, 2),
    ),
    OldScenario(
        name="continuous",
        about="the rate source in continuous mode",
        query=lambda stage: stage.stream("rate", rowsPerSecond="5", numPartitions="2"),
        feed=_no_input,
        pace=Continuous(),
        since=(2, 4),
    ),
    OldScenario(
        name="kafka",
        about="two Kafka topics; the second gets its first rows before the restart",
        query=lambda stage: _kafka(stage, "10"),
        feed=_feed_kafka,
        topics={"events": 3, "payments": 1},
    ),
    OldScenario(
        name="kafka-to-kafka",
        about="two Kafka topics to a third",
        query=lambda stage: _kafka(stage, "15"),
        write=_to_kafka,
        feed=_feed_kafka,
        topics={"events": 2, "payments": 1, "out": 1},
        since=(2, 2),
    ),
    OldScenario(
        name="kinesis",
        about="a Kinesis stream of two shards",
        query=_kinesis,
        feed=_feed_kinesis,
        pace=Paced(every="3 seconds"),
        needs_kinesis=True,
    ),
    OldScenario(
        name="delta-to-delta",
        about="a Delta table to another",
        query=lambda stage: (
            stage.session.readStream()
            .format("delta")
            .option("maxFilesPerTrigger", "1")
            .load(str(stage.folder / "input"))
            .coalesce(1)
        ),
        write=_sink("delta"),
        feed=_feed_delta,
        needs_delta=True,
    ),
    OldScenario(
        name="aggregate-hdfs",
        about="windowed sums with a watermark (hdfs)",
        query=_windowed,
        mode="update",
        conf=_HDFS,
    ),
    OldScenario(
        name="aggregate-append-hdfs",
        about="windowed sums, each once (hdfs)",
        query=_windowed,
        conf=_HDFS,
    ),
    OldScenario(
        name="aggregate-complete-hdfs",
        about="averages to the memory sink (hdfs)",
        query=lambda stage: stage.sql(
            "SELECT k, avg(v) AS mean FROM events GROUP BY k", events=stage.files()
        ),
        write=_memory,
        conf=_HDFS,
        mode="complete",
    ),
    OldScenario(
        name="aggregate-rocksdb",
        about="windowed sums with a watermark (rocksdb)",
        query=_windowed,
        mode="update",
        conf={PROVIDER: ROCKSDB},
        since=(3, 2),
    ),
    OldScenario(
        name="dedup-hdfs",
        about="dropDuplicates without a watermark (hdfs)",
        query=_dedup("k", watermark=False),
        conf=_HDFS,
        since=(2, 2),
    ),
    OldScenario(
        name="dedup-watermark-hdfs",
        about="dropDuplicates with a watermark (hdfs)",
        query=_dedup("k", "t", watermark=True),
        conf=_HDFS,
        since=(2, 2),
    ),
    OldScenario(
        name="join-inner-hdfs",
        about="stream-stream join, inner (hdfs)",
        query=_joined("INNER"),
        feed=_two_inputs,
        conf=_HDFS,
        since=(2, 3),
    ),
    OldScenario(
        name="join-left-outer-hdfs",
        about="stream-stream join, left outer (hdfs)",
        query=_joined("LEFT OUTER"),
        feed=_two_inputs,
        conf=_HDFS,
        since=(2, 3),
    ),
    OldScenario(
        name="map-groups-hdfs",
        about="mapGroupsWithState (hdfs)",
        query=lambda stage: stage.jvm.of.holdfast.golden.Groups.map(stage.files()),
        conf=_HDFS,
        mode="update",
        since=(2, 2),
    ),
    OldScenario(
        name="flat-map-groups-hdfs",
        about="flatMapGroupsWithState with a time-out (hdfs)",
        query=lambda stage: stage.jvm.of.holdfast.golden.Groups.flatMap(stage.watermarked()),
        conf=_HDFS,
        mode="update",
        since=(2, 2),
    ),
    OldScenario(
        name="limit-hdfs",
        about="a limit over the whole stream (hdfs)",
        query=lambda stage: stage.files().limit(6),
        conf=_HDFS,
        since=(2, 4),
    ),
    OldScenario(
        name="session-window-hdfs",
        about="counts by session (hdfs)",
        query=lambda stage: stage.sql(_SESSIONS, events=stage.watermarked()),
        conf=_HDFS,
        since=(3, 2),
    ),
    OldScenario(
        name="killed-before-write",
        about="killed after the second batch of the second run was planned",
        query=OldStage.files,
        write=_stuck(3),
        killed=True,
    ),
    OldScenario(
        name="killed-before-state",
        about="windowed sums, killed after a batch was planned",
        query=_windowed,
        write=_stuck(3),
        conf=_HDFS,
        mode="update",
        killed=True,
    ),
)
