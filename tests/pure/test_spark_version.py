"""Narrowing the version of Spark: right for each release, whatever was left by others."""

import pytest

from holdfast.model.spark_version import SparkVersion
from holdfast.spark import formats, infer, pinned
from holdfast.spark.formats import Format
from holdfast.spark.infer import infer_version_range
from holdfast.spark.versions import NEWEST, OLDEST

PRUNE = "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan"
STREAMING = "spark.sql.streaming."
S2_2 = {"spark.sql.shuffle.partitions"}
S2_3 = S2_2 | {f"{STREAMING}stateStore.providerClass"}
S2_4 = S2_3 | {
    f"{STREAMING}multipleWatermarkPolicy",
    f"{STREAMING}flatMapGroupsWithState.stateFormatVersion",
    f"{STREAMING}aggregation.stateFormatVersion",
}
S3_0 = S2_4 | {f"{STREAMING}join.stateFormatVersion"}
S3_1 = S3_0 | {f"{STREAMING}stateStore.compression.codec"}
S3_2 = S3_1 | {f"{STREAMING}stateStore.rocksdb.formatVersion"}
S3_2_2 = S3_2 | {f"{STREAMING}statefulOperator.useStrictDistribution"}
S3_5_4 = S3_2_2 | {f"spark.databricks.sql.{PRUNE.removeprefix('spark.sql.')}"}
S3_5_5 = S3_2_2 | {PRUNE}
S4_0 = S3_5_5 | {f"{STREAMING}stateStore.encodingFormat"}
S4_2 = S4_0 | {
    f"{STREAMING}stateStore.rocksdb.mergeOperatorVersion",
    f"{STREAMING}stateStore.rowChecksum.enabled",
    "spark.sql.function.protobufExtensions.enabled",
    f"{STREAMING}queryEvolution.enableSourceEvolution",
}
S4_3 = S4_2 | {
    f"{STREAMING}statefulOperator.alwaysNullableOutput.enabled",
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled",
}
RELEASES = {
    "2.1": (set[str](), (2, 1), (2, 1)),
    "2.2": (S2_2, (2, 2), (2, 2)),
    "2.3": (S2_3, (2, 3), (2, 3)),
    "2.4": (S2_4, (2, 4), (2, 4)),
    "3.0": (S3_0, (3, 0), (3, 0)),
    "3.1": (S3_1, (3, 1), (3, 1)),
    "3.2.1": (S3_2, (3, 2), (3, 2)),
    "3.2.2": (S3_2_2, (3, 2), (3, 5)),
    "3.3": (S3_2_2, (3, 2), (3, 5)),
    "3.4": (S3_2_2, (3, 2), (3, 5)),
    "3.5.3": (S3_2_2, (3, 2), (3, 5)),
    "3.5.4": (S3_5_4, (3, 5), (3, 5)),
    "3.5.5": (S3_5_5, (3, 5), (3, 5)),
    "4.0": (S4_0, (4, 0), (4, 1)),
    "4.1": (S4_0, (4, 0), (4, 1)),
    "4.2": (S4_2, (4, 2), (4, 2)),
    "4.3": (S4_3, (4, 3), (4, 3)),
}


def pin(keys: set[str]) -> dict[str, str]:
    return dict.fromkeys(keys, "x")


@pytest.mark.parametrize(("keys", "lowest", "highest"), RELEASES.values(), ids=RELEASES)
def test_settings_tell_the_release(
    keys: set[str], lowest: tuple[int, int], highest: tuple[int, int]
) -> None:
    found = infer_version_range(pin(keys), frozenset(), timestamp_ms=1)
    assert (found.lowest, found.highest) == (SparkVersion(*lowest), SparkVersion(*highest))
    assert found.or_later == (found.highest == NEWEST)
    assert found.reasons


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("format_", [one for one in Format if one not in formats.ONLY_BY])
def test_what_the_release_writes_or_a_later_one_left_never_excludes_it(
    release: str, format_: Format
) -> None:
    keys, _, highest = RELEASES[release]
    true = SparkVersion(*(int(part) for part in release.split(".")[:2]))
    since = formats.WRITTEN_SINCE[format_]
    found = infer_version_range(pin(keys), {format_}, timestamp_ms=1)
    assert found.highest == SparkVersion(*highest)
    if true < since <= found.highest:
        assert found.lowest == since, "left by a sister of the release: nothing can tell"
    else:
        assert found.lowest <= true <= found.highest


@pytest.mark.parametrize(
    ("keys", "formats", "lowest", "highest"),
    [
        (S4_0, {Format.SPARK_CHECKSUM}, (4, 1), (4, 1)),
        (S4_0, {Format.ROCKSDB_METADATA_2}, (4, 0), (4, 0)),
        (S3_2_2, {Format.ROCKSDB_METADATA_2}, (3, 2), (3, 5)),
        (S3_2_2, {Format.CHANGELOG}, (3, 5), (3, 5)),
        (S3_2_2, {Format.ROCKSDB_ZIP}, (3, 2), (3, 5)),
        (S3_2_2, {Format.OPERATOR_METADATA}, (3, 2), (3, 5)),
    ],
)
def test_formats_narrow_further(
    keys: set[str], formats: set[Format], lowest: tuple[int, int], highest: tuple[int, int]
) -> None:
    found = infer_version_range(pin(keys), formats)
    assert (found.lowest, found.highest) == (SparkVersion(*lowest), SparkVersion(*highest))


def test_continuous_mode_pins_nothing_in_any_version() -> None:
    found = infer_version_range({}, {Format.COMMIT_WITH_WATERMARK})
    assert (found.lowest, found.highest) == (SparkVersion(2, 4), NEWEST)
    assert found.or_later


def test_a_format_of_a_later_spark_is_told_and_not_believed() -> None:
    found = infer_version_range(pin(S3_2_2), {Format.OPERATOR_METADATA})
    assert any("Spark 4.0 or later ran earlier" in reason for reason in found.reasons)


def test_the_offset_log_of_4_2_0_that_lost_a_setting() -> None:
    found = infer_version_range(pin(S4_2 - S2_2), {Format.OFFSET_LOG_2})
    assert (found.lowest, found.highest) == (SparkVersion(4, 2), SparkVersion(4, 2))
    assert any("as in 4.2.0" in reason for reason in found.reasons)


def test_settings_of_a_later_spark_or_of_a_vendor() -> None:
    later = infer_version_range(pin(S4_3 | {"spark.sql.streaming.tomorrow"}), frozenset())
    assert later.or_later
    assert any("no Apache release" in reason for reason in later.reasons)
    odd = infer_version_range(pin(S4_0 - {f"{STREAMING}join.stateFormatVersion"}), frozenset())
    assert odd.lowest == SparkVersion(4, 0)
    assert any("Apache Spark does not write such an entry" in text for text in odd.reasons)


@pytest.mark.parametrize(
    ("settings", "sources", "reasons"),
    [
        (pin(S4_3), {"Kafka", "Delta"}, 0),
        (pin(S3_5_4), set[str](), 0),
        (pin(S4_0) | {f"{STREAMING}stateStore.providerClass": "org.acme.Provider"}, set(), 0),
        (pin(S3_2_2), {"Auto Loader"}, 1),
        (pin(S3_5_4 | {"spark.databricks.optimizer.x.streaming"}), set(), 1),
        (
            pin(S3_2_2)
            | {f"{STREAMING}stateStore.providerClass": "com.databricks.sql.streaming.state.X"},
            {"Kafka"},
            1,
        ),
    ],
)
def test_a_databricks_runtime_is_told_by_what_only_it_has(
    settings: dict[str, str], sources: set[str], reasons: int
) -> None:
    found = infer.detect_runtime(settings, sources)
    assert len(found.reasons if found else ()) == reasons
    assert found is None or found.name == "a Databricks runtime"


def test_the_table_spans_what_is_known() -> None:
    assert min(pinned.PINNED_SINCE.values()) == SparkVersion(2, 2)
    assert SparkVersion(2, 1) == OLDEST
    assert max(pinned.PINNED_SINCE.values()) == NEWEST
    assert set(formats.WRITTEN_SINCE) == set(Format)
    assert str(NEWEST) == "4.3"
