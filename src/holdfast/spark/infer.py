"""Pinned settings and formats -> the range of Spark versions that may have written a checkpoint.

No file of a checkpoint names the version of Spark. Pinned settings (`pinned.py`) narrow the range
from both sides. A format (`formats.py`) means that this version or a later one wrote some batch.
Continuous mode pins no settings in any version, and writes no time; Spark 2.1 pins none either, but
writes the time. A Databricks runtime pins settings of Spark versions that are not yet released and
omits others, so its settings do not narrow the range.
"""

from collections.abc import Mapping, Set

from holdfast.model.spark_version import Runtime, SparkVersion, VersionRange
from holdfast.spark.formats import ONLY_BY, WRITTEN_SINCE, Format
from holdfast.spark.pinned import (
    FROM_RELEASE,
    OF_3_5_4,
    PINNED_SINCE,
    PINNED_WITHIN,
    SHUFFLE_PARTITIONS,
    STATE_PROVIDER,
)
from holdfast.spark.versions import KNOWN, NEWEST, OLDEST

_DATABRICKS = "a Databricks runtime"
_DATABRICKS_SETTINGS, _DATABRICKS_CLASSES = "spark.databricks.", "com.databricks."
_DATABRICKS_SOURCES = frozenset({"Auto Loader", "Pub/Sub"})


def detect_runtime(settings: Mapping[str, str], sources: Set[str]) -> Runtime | None:
    """Return the vendor's Spark that wrote the newest offset entry; None if nothing shows one.

    `sources` are the kinds of its sources, as far as they are certain. A Databricks runtime may
    write exactly what Apache Spark writes, and then it is not detected.
    """
    reasons: list[str] = []
    provider = settings.get(STATE_PROVIDER, "")
    if provider.startswith(_DATABRICKS_CLASSES):
        reasons.append(f"the state store provider is `{provider}`")
    own = sorted(key for key in settings if key.startswith(_DATABRICKS_SETTINGS))
    own = [key for key in own if key != OF_3_5_4]
    if own:
        reasons.append(f"`{own[0]}` is pinned, but no Apache release pins it")
    kinds = sorted(sources & _DATABRICKS_SOURCES)
    if kinds:
        reasons.append(f"the query reads from {kinds[0]}, which only Databricks has")
    return Runtime(name=_DATABRICKS, reasons=tuple(reasons)) if reasons else None


def infer_version_range(
    settings: Mapping[str, str], formats: Set[Format], *, timestamp_ms: int = 0
) -> VersionRange:
    """Return the versions that may have written the batch that pinned these settings.

    `settings` and `timestamp_ms` are those of the newest offset entry; `formats` are those found in
    the checkpoint. A later Spark may have written a format before someone went back to an earlier
    version: if formats and settings contradict each other, the settings decide.
    """
    reasons: list[str] = []
    lowest, highest = _infer_by_settings(settings, reasons, timed=timestamp_ms != 0)
    for format_ in sorted(formats, key=WRITTEN_SINCE.__getitem__):
        since = WRITTEN_SINCE[format_]
        if lowest < since <= highest:
            lowest = since
            reasons.append(
                f"the checkpoint contains {format_.value}, which Spark {since} and later write"
            )
        elif since > highest:
            reasons.append(
                f"the checkpoint contains {format_.value}: Spark {since} or later ran earlier, or a"
                " vendor's older Spark that writes the same format"
            )
    for format_, only in ONLY_BY.items():
        if format_ in formats and lowest <= only <= highest:
            lowest = highest = only
            reasons.append(
                f"the checkpoint contains {format_.value}, which only Spark {only} writes and reads"
            )
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
        reasons.append("no setting is pinned, but Spark 2.2 and later pin settings")
        return OLDEST, OLDEST
    reasons.append("no setting is pinned and no time is recorded, as in continuous mode")
    return OLDEST, NEWEST


def _infer_lowest(settings: Mapping[str, str], reasons: list[str]) -> SparkVersion:
    lowest = OLDEST
    pinned = {key: since for key, since in PINNED_SINCE.items() if key in settings}
    if pinned:
        newest = max(pinned, key=lambda key: (pinned[key], key in FROM_RELEASE))
        lowest = pinned[newest]
        release = _find_first_release(newest)
        reasons.append(f"`{newest}` is pinned, as by Spark {release} and later")
    for key, (since, release) in PINNED_WITHIN.items():
        if key in settings and since >= lowest:
            lowest = since
            reasons.append(f"`{key}` is pinned, {release}")
    unknown = sorted(settings.keys() - PINNED_SINCE.keys() - PINNED_WITHIN.keys())
    if unknown:
        reasons.append(f"`{unknown[0]}` is pinned, but no Apache release up to {NEWEST} pins it")
    return lowest


def _infer_highest(
    settings: Mapping[str, str], lowest: SparkVersion, reasons: list[str]
) -> SparkVersion:
    without: dict[str, SparkVersion] = {}
    for key, since in PINNED_SINCE.items():
        newest = since if key in FROM_RELEASE else KNOWN[KNOWN.index(since) - 1]
        if key not in settings and newest >= lowest:
            without[key] = newest
        elif key not in settings:
            reasons.append(_explain_missing(key, since))
    if not without:
        return NEWEST
    key = min(without, key=without.__getitem__)
    reasons.append(f"`{key}` is not pinned, but Spark {_find_first_release(key)} and later pin it")
    return without[key]


def _find_first_release(key: str) -> str:
    """Return the first release that pins a setting."""
    return FROM_RELEASE.get(key, str(PINNED_SINCE[key]))


def _explain_missing(key: str, since: SparkVersion) -> str:
    if key == SHUFFLE_PARTITIONS:
        return f"`{key}` is not pinned, as in 4.2.0 with offset log version 2"
    return (
        f"`{key}` is not pinned, although Spark {since} and later pin it: Apache Spark does not"
        " write such an entry"
    )
