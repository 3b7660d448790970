"""Stage 3: which Spark wrote a checkpoint, from the settings it pinned and the formats there.

No file of a checkpoint names the version of Spark. But every entry of the offset log pins the
settings that must not change during the life of a query, and their number has grown: a release
writes all that it knows, whatever the query, so that each setting tells "this version or later"
by being there and "an earlier one" by its absence. Formats only tell the former, of any batch.
Continuous mode pins nothing in any version, nor does it write the time of an entry; Spark 2.1 wrote
the time. A Databricks runtime takes settings of later Sparks before these are released, and leaves
others out: what it pins narrows nothing.
"""

import re
from collections.abc import Mapping, Sequence, Set
from enum import StrEnum

from holdfast.model.spark_version import Runtime, SparkVersion, VersionRange

OLDEST, NEWEST = SparkVersion(2, 1), SparkVersion(4, 3)
_VERSIONS = (
    *(SparkVersion(2, minor) for minor in (1, 2, 3, 4)),
    *(SparkVersion(3, minor) for minor in (0, 1, 2, 3, 4, 5)),
    *(SparkVersion(4, minor) for minor in (0, 1, 2, 3)),
)
PRUNE = "optimizer.pruneFiltersCanPruneStreamingSubplan"
OF_3_5_4, LOST_IN = f"spark.databricks.sql.{PRUNE}", SparkVersion(4, 1)
_NUMBERS = re.compile(r"(\d+)\.(\d+)")
_SHUFFLE = "spark.sql.shuffle.partitions"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_STRICT = "spark.sql.streaming.statefulOperator.useStrictDistribution"
_DATABRICKS = "a Databricks runtime"
_DATABRICKS_SETTINGS, _DATABRICKS_CLASSES = "spark.databricks.", "com.databricks."
_DATABRICKS_SOURCES = frozenset({"Auto Loader", "Pub/Sub"})

# Checked in the source of every release from 2.1.0 to 4.2.0, and against checkpoints that the last
# release of each minor version wrote.
PINNED_SINCE: Mapping[str, SparkVersion] = {
    _SHUFFLE: SparkVersion(2, 2),
    _PROVIDER: SparkVersion(2, 3),
    "spark.sql.streaming.multipleWatermarkPolicy": SparkVersion(2, 4),
    "spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion": SparkVersion(2, 4),
    "spark.sql.streaming.aggregation.stateFormatVersion": SparkVersion(2, 4),
    "spark.sql.streaming.join.stateFormatVersion": SparkVersion(3, 0),
    "spark.sql.streaming.stateStore.compression.codec": SparkVersion(3, 1),
    "spark.sql.streaming.stateStore.rocksdb.formatVersion": SparkVersion(3, 2),
    _STRICT: SparkVersion(3, 2),
    "spark.sql.streaming.stateStore.encodingFormat": SparkVersion(4, 0),
    "spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion": SparkVersion(4, 2),
    "spark.sql.streaming.stateStore.rowChecksum.enabled": SparkVersion(4, 2),
    "spark.sql.function.protobufExtensions.enabled": SparkVersion(4, 2),
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": SparkVersion(4, 2),
    "spark.sql.streaming.statefulOperator.alwaysNullableOutput.enabled": SparkVersion(4, 3),
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": SparkVersion(4, 3),
}

# The first release of the minor version that pins it, where that is not the first of all.
_FROM_RELEASE = {_STRICT: "3.2.2"}

# Some releases of a minor version pin it and others do not: there it tells, absent it does not.
_PINNED_WITHIN: Mapping[str, tuple[SparkVersion, str]] = {
    OF_3_5_4: (SparkVersion(3, 5), "which of Apache Spark only 3.5.4 does"),
    f"spark.sql.{PRUNE}": (SparkVersion(3, 5), "which 3.5.5 and later do"),
}


class Format(StrEnum):
    """Something in a checkpoint that only some versions of Spark write."""

    OFFSET_LOG_2 = "offset log version 2"
    COMMIT_LOG_2 = "commit log version 2"
    COMMIT_LOG_3 = "commit log version 3"
    COMMIT_WITHOUT_WATERMARK = "a commit without a watermark"
    COMMIT_WITH_WATERMARK = "a commit with a watermark"
    OPERATOR_METADATA = "operator metadata"
    STATE_SCHEMA = "a state schema"
    STATE_SCHEMA_3 = "state schema version 3"
    ROCKSDB_ZIP = "a RocksDB zip"
    CHANGELOG = "a state changelog"
    VERSIONED_STATE = "a state file with a unique id"
    SPARK_CHECKSUM = "a Spark checksum of a state file"
    ROCKSDB_METADATA_2 = "RocksDB's metadata of version 2"


WRITTEN_SINCE: Mapping[Format, SparkVersion] = {
    Format.COMMIT_WITHOUT_WATERMARK: SparkVersion(2, 2),
    Format.COMMIT_WITH_WATERMARK: SparkVersion(2, 4),
    Format.STATE_SCHEMA: SparkVersion(3, 1),
    Format.ROCKSDB_ZIP: SparkVersion(3, 2),
    Format.CHANGELOG: SparkVersion(3, 5),
    Format.OPERATOR_METADATA: SparkVersion(4, 0),
    Format.STATE_SCHEMA_3: SparkVersion(4, 0),
    Format.COMMIT_LOG_2: SparkVersion(4, 0),
    Format.VERSIONED_STATE: SparkVersion(4, 0),
    Format.ROCKSDB_METADATA_2: SparkVersion(4, 0),
    Format.SPARK_CHECKSUM: SparkVersion(4, 1),
    Format.OFFSET_LOG_2: SparkVersion(4, 2),
    Format.COMMIT_LOG_3: SparkVersion(4, 2),
}


# What no other reads: a later Spark cannot have gone on from it, and an earlier one neither.
ONLY_BY: Mapping[Format, SparkVersion] = {Format.ROCKSDB_METADATA_2: SparkVersion(4, 0)}


def parse_version(text: str) -> SparkVersion | None:
    """The minor version that a release is of; None where the text names none."""
    found = _NUMBERS.match(text)
    return SparkVersion(int(found[1]), int(found[2])) if found else None


def list_between(lowest: SparkVersion, highest: SparkVersion) -> tuple[SparkVersion, ...]:
    """Return the minor versions from one to another, both included."""
    return tuple(one for one in _VERSIONS if lowest <= one <= highest)


def format_versions(versions: Sequence[SparkVersion]) -> str:
    """Write versions in short: `4.2 or later`, `3.5 to 4.1`, `3.5 and 4.1`."""
    first, last = versions[0], versions[-1]
    if list_between(first, last) != tuple(versions):
        return f"{', '.join(map(str, versions[:-1]))} and {last}"
    if last == NEWEST:
        return f"{first} or later"
    return f"{first}" if first == last else f"{first} to {last}"


def detect_runtime(settings: Mapping[str, str], sources: Set[str]) -> Runtime | None:
    """The vendor's Spark that wrote the newest offset entry; None where nothing shows one.

    `sources` are the kinds of its sources that are sure. A Databricks runtime may also write what
    Apache Spark does, and then nothing tells it.
    """
    reasons: list[str] = []
    provider = settings.get(_PROVIDER, "")
    if provider.startswith(_DATABRICKS_CLASSES):
        reasons.append(f"the state store provider is `{provider}`")
    own = sorted(key for key in settings if key.startswith(_DATABRICKS_SETTINGS))
    own = [key for key in own if key != OF_3_5_4]
    if own:
        reasons.append(f"`{own[0]}` is pinned, which no Apache release does")
    kinds = sorted(sources & _DATABRICKS_SOURCES)
    if kinds:
        reasons.append(f"it reads from {kinds[0]}, which only Databricks has")
    return Runtime(name=_DATABRICKS, reasons=tuple(reasons)) if reasons else None


def infer_version_range(
    settings: Mapping[str, str], formats: Set[Format], *, timestamp_ms: int = 0
) -> VersionRange:
    """The versions that may have written the batch that pinned these settings.

    `settings` and `timestamp_ms` are those of the newest offset entry; `formats` what was seen in
    the checkpoint. A format may have been left by a later Spark, before somebody went back to an
    earlier one: where the two contradict, the settings tell.
    """
    reasons: list[str] = []
    lowest, highest = _infer_by_settings(settings, reasons, timed=timestamp_ms != 0)
    for format_ in sorted(formats, key=WRITTEN_SINCE.__getitem__):
        since = WRITTEN_SINCE[format_]
        if lowest < since <= highest:
            lowest = since
            reasons.append(f"{format_.value} is there, which Spark {since} and later write")
        elif since > highest:
            reasons.append(
                f"{format_.value} is there: Spark {since} or later was here before, or a vendor's"
                " earlier one, which writes it, too"
            )
    for format_, only in ONLY_BY.items():
        if format_ in formats and lowest <= only <= highest:
            lowest = highest = only
            reasons.append(f"{format_.value} is there, which Spark {only} alone writes and reads")
    return VersionRange(
        lowest=lowest, highest=highest, or_later=highest == NEWEST, reasons=tuple(reasons)
    )


def _infer_by_settings(
    settings: Mapping[str, str], reasons: list[str], *, timed: bool
) -> tuple[SparkVersion, SparkVersion]:
    if settings:
        lowest = _infer_lowest(settings, reasons)
        return lowest, _infer_highest(settings, lowest, reasons)
    if timed:
        reasons.append("no setting is pinned, which Spark 2.2 and later do")
        return OLDEST, OLDEST
    reasons.append("no setting is pinned and no time is there, as in continuous mode")
    return OLDEST, NEWEST


def _infer_lowest(settings: Mapping[str, str], reasons: list[str]) -> SparkVersion:
    lowest = OLDEST
    telling = {key: since for key, since in PINNED_SINCE.items() if key in settings}
    if telling:
        key = max(telling, key=lambda one: (telling[one], one in _FROM_RELEASE))
        lowest = telling[key]
        reasons.append(f"`{key}` is pinned, which Spark {_find_first_release(key)} and later do")
    for key, (since, release) in _PINNED_WITHIN.items():
        if key in settings and since >= lowest:
            lowest = since
            reasons.append(f"`{key}` is pinned, {release}")
    unknown = sorted(settings.keys() - PINNED_SINCE.keys() - _PINNED_WITHIN.keys())
    if unknown:
        reasons.append(f"`{unknown[0]}` is pinned, which no Apache release up to {NEWEST} does")
    return lowest


def _infer_highest(
    settings: Mapping[str, str], lowest: SparkVersion, reasons: list[str]
) -> SparkVersion:
    without: dict[str, SparkVersion] = {}
    for key, since in PINNED_SINCE.items():
        newest = since if key in _FROM_RELEASE else _VERSIONS[_VERSIONS.index(since) - 1]
        if key not in settings and newest >= lowest:
            without[key] = newest
        elif key not in settings:
            reasons.append(_explain_missing(key, since))
    if not without:
        return NEWEST
    key = min(without, key=without.__getitem__)
    reasons.append(f"`{key}` is not pinned, which Spark {_find_first_release(key)} and later do")
    return without[key]


def _find_first_release(key: str) -> str:
    """The first release that pins a setting."""
    return _FROM_RELEASE.get(key, str(PINNED_SINCE[key]))


def _explain_missing(key: str, since: SparkVersion) -> str:
    if key == _SHUFFLE:
        return f"`{key}` is not pinned, as in 4.2.0 with offset log version 2"
    return f"`{key}` is not pinned although Spark {since} and later do: not as Apache Spark writes"
