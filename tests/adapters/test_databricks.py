"""Checkpoints of Databricks runtimes, after entries of their offset logs that are public."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.diagnosing import codes, diagnosed, reading
from tests.looking import evidence, rendered

from holdfast import ops
from holdfast.diagnose.changes import versions
from holdfast.model.fact import Known
from holdfast.model.finding import Diagnosis, NotAssessed, QueryChange
from holdfast.model.fingerprint import Fingerprint
from holdfast.model.json import Json
from holdfast.model.verdict import Level
from holdfast.report import diagnosis, verdict
from holdfast.report.terminal import lines, text

_STREAMING = "spark.sql.streaming."
_ROCKSDB = "com.databricks.sql.streaming.state.RocksDBStateStoreProvider"
_OF_3_3 = {
    f"{_STREAMING}stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state"
    ".HDFSBackedStateStoreProvider",
    f"{_STREAMING}join.stateFormatVersion": "2",
    f"{_STREAMING}stateStore.compression.codec": "lz4",
    f"{_STREAMING}stateStore.rocksdb.formatVersion": "5",
    f"{_STREAMING}statefulOperator.useStrictDistribution": "true",
    f"{_STREAMING}flatMapGroupsWithState.stateFormatVersion": "2",
    f"{_STREAMING}multipleWatermarkPolicy": "min",
    f"{_STREAMING}aggregation.stateFormatVersion": "2",
    "spark.sql.shuffle.partitions": "200",
}
_ROCKS = _OF_3_3 | {f"{_STREAMING}stateStore.providerClass": _ROCKSDB}
_OF_17 = _ROCKS | {
    f"{_STREAMING}stateStore.encodingFormat": "unsaferow",
    f"{_STREAMING}stateStore.rowChecksum.enabled": "false",
    f"{_STREAMING}dropDuplicates.stateFormatVersion": "1",
    f"{_STREAMING}failStatefulQuerySchemaEvolution": "2",
    "spark.databricks.optimizer.joinOrToUnionAllExpansionWithEquiJoin.streaming": "false",
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": "false",
}
_FILES: Json = {"seqNum": 9, "sourceVersion": 1, "lastBackfillStartTimeMs": 1657033622925}
_TOPIC: Json = {"orders": {"0": 10}}
SHAPES: dict[str, tuple[Mapping[str, str], Json, str]] = {
    "17, with settings of its own": (_OF_17, _TOPIC, _ROCKSDB),
    "RocksDB, and else as Apache": (_ROCKS, _TOPIC, _ROCKSDB),
    "Auto Loader, and else as Apache": (_OF_3_3, _FILES, "Auto Loader"),
}
shapes = pytest.mark.parametrize(("settings", "offset", "told_by"), SHAPES.values(), ids=SHAPES)


@shapes
def test_the_runtime_is_named_and_no_version_of_apache(
    tmp_path: Path, settings: Mapping[str, str], offset: Json, told_by: str
) -> None:
    found = evidence(reading(tmp_path / "c", [offset], settings))
    assert isinstance(found.spark_version, Known)
    assert found.spark_version.value == "a Databricks runtime"
    assert told_by in found.spark_version.inferred
    assert found.spark_version.read_from == ("offsets/0",)
    assert all("a Databricks runtime" in form for form in rendered(found))


@shapes
def test_a_diagnosis_is_of_apache_spark_and_says_so(
    tmp_path: Path, settings: Mapping[str, str], offset: Json, told_by: str
) -> None:
    location = reading(tmp_path / "c", [offset], settings)
    found = ops.diagnose(
        str(location), storage={}, event_log=None, spark=None, asynchronous=False, settings={},
        kafka="", now_ms=0, on_progress=lambda *_: None,
    )  # fmt: skip
    chosen = "the newest Apache version; a Databricks runtime wrote the checkpoint"
    assert found.restart.starting.chosen_because == chosen
    assert not codes(found)
    (unsaid,) = _unsaid(found)
    assert "Apache Spark 4.3" in unsaid.question
    assert told_by in unsaid.reason
    assert "which wrote" not in lines.strip_styles(diagnosis.to_lines(found))
    assert len(_unsaid(diagnosed(location))) == 1


def test_what_apache_wrote_is_assessed(tmp_path: Path) -> None:
    assert not _unsaid(diagnosed(files.write(tmp_path / "c")))


def test_a_start_that_fails_is_one_of_apache_spark(tmp_path: Path) -> None:
    location = reading(tmp_path / "c", [_TOPIC], _OF_17)
    (location / "metadata").unlink()
    found = verdict.judge(evidence(location))
    assert found.level is Level.CAREFUL
    assert (
        "; a restart with Apache Spark 4.2 or later fails before it writes anything" in found.text
    )
    assert (
        "a Databricks runtime wrote this checkpoint, and its restart is not predicted" in found.text
    )


def test_a_change_of_the_version_is_not_assessed(tmp_path: Path) -> None:
    new = Fingerprint(
        spark_version="4.1.1", sources=(), watermarks=(), operators=(), steps=(),
        columns=(), functions={}, sinks=(), output_mode="append", settings={},
    )  # fmt: skip
    looked = evidence(reading(tmp_path / "c", [_TOPIC], _OF_17))
    (found,) = versions.evaluate(QueryChange(evidence=looked, new=new))
    assert isinstance(found, NotAssessed)
    assert found.reason.startswith("a Databricks runtime wrote it: ")


@pytest.mark.parametrize(
    ("provider", "shown"),
    [
        (_ROCKSDB, _ROCKSDB),
        ("org.acme.state.RocksDBStateStoreProvider", "org.acme.state.RocksDBStateStoreProvider"),
        (files.SETTINGS[f"{_STREAMING}stateStore.providerClass"], "HDFSBackedStateStoreProvider"),
    ],
)
def test_only_a_provider_of_apache_is_shown_without_its_package(
    tmp_path: Path, provider: str, shown: str
) -> None:
    settings = _OF_3_3 | {f"{_STREAMING}stateStore.providerClass": provider}
    found = evidence(reading(tmp_path / "c", [_TOPIC], settings))
    assert f"state store provider  {shown}  (offsets/0)\n" in lines.strip_styles(
        text.to_lines(found)
    )


def _unsaid(found: Diagnosis) -> list[NotAssessed]:
    return [one for one in found.not_assessed if "a Databricks runtime" in one.question]
