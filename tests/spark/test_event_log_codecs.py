"""Event logs in every framing that Spark compresses with, compressed by Spark's own codecs."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests import checkpoint_files as files
from tests.looking import evidence, stamps

from holdfast.model.fact import Known

pytestmark = pytest.mark.spark

_LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener"
_EVENTS = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.1.1"},
    {
        "Event": f"{_LISTENER}$QueryStartedEvent",
        "id": files.QUERY_ID,
        "runId": "0b6ee2c4-3a55-4a3c-9d5c-0e4f3cf1a111",
        "name": "orders",
        "timestamp": "2026-01-01T00:00:00.000Z",
    },
]


def log(lines: int) -> bytes:
    """A log with other events around those of the query."""
    other = json.dumps({"Event": "SparkListenerTaskEnd", "Stage ID": 1, "text": "x" * 500})
    text = [json.dumps(_EVENTS[0]), *[other] * lines, json.dumps(_EVENTS[1]), *[other] * lines]
    return ("\n".join(text) + "\n").encode()


def compressed(spark: SparkSession, codec: str, data: bytes) -> bytes:
    """The bytes as Spark itself compresses an event log."""
    jvm = spark.sparkContext._jvm  # noqa: SLF001  the only way to Spark's codecs
    assert jvm is not None
    conf = spark.sparkContext._jsc.sc().conf()  # noqa: SLF001
    output = jvm.java.io.ByteArrayOutputStream()
    made = jvm.org.apache.spark.io.CompressionCodec.createCodec(conf, codec)
    stream = made.compressedContinuousOutputStream(output)
    stream.write(data)
    stream.close()
    return bytes(output.toByteArray())


@pytest.mark.parametrize("codec", ["zstd", "lz4", "snappy", "lzf"])
@pytest.mark.parametrize("lines", [1, 5_000])
def test_a_compressed_log(spark: SparkSession, tmp_path: Path, codec: str, lines: int) -> None:
    location = files.write(tmp_path / "c")
    folder = tmp_path / "events/eventlog_v2_app-1"
    folder.mkdir(parents=True)
    (folder / "appstatus_app-1").touch()
    path = folder / f"events_1_app-1.{codec}"
    path.write_bytes(compressed(spark, codec, log(lines)))
    before = stamps(tmp_path)
    for place in (tmp_path / "events", folder, path):
        found = evidence(location, event_log=str(place))
        assert found.spark_version == Known(value="4.1.1", read_from=(str(path),))
        assert isinstance(found.restart_history, Known)
        assert len(found.restart_history.value) == 1
    assert stamps(tmp_path) == before


def test_a_plain_log_and_several_applications(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c")
    (tmp_path / "events").mkdir()
    for number in range(3):
        (tmp_path / f"events/app-{number}").write_bytes(log(3))
    found = evidence(location, event_log=str(tmp_path / "events"))
    assert isinstance(found.spark_version, Known)
    assert found.spark_version.value == "4.1.1"
