"""Which Spark will start the query: Evidence, a requested version -> StartOptions."""

from dataclasses import replace

from holdfast.model.evidence import Evidence
from holdfast.model.fact import Known, Unknown
from holdfast.model.restart import StartOptions
from holdfast.model.spark_version import Runtime, SparkVersion
from holdfast.spark import versions
from holdfast.spark.versions import NEWEST

_RAN_LAST = "as in the last run"


def choose_start(
    evidence: Evidence, requested: SparkVersion | None, *, asynchronous: bool
) -> StartOptions:
    """Return the start that is most likely.

    Its Spark is the requested one, the one that the evidence names, or the newest. The start is in
    continuous mode if continuous mode wrote the checkpoint; that mode has no asynchronous tracking.
    """
    spark, chosen = _choose_spark(evidence, requested)
    continuous = evidence.batches.continuous and not asynchronous
    return StartOptions(
        spark=spark, chosen_because=chosen, asynchronous=asynchronous, continuous=continuous
    )


def list_candidates(
    evidence: Evidence, requested: SparkVersion | None, *, asynchronous: bool
) -> tuple[StartOptions, ...]:
    """Return every Spark that may start the query, the most likely one first.

    There is only one if the caller or a run names it. Otherwise each version that may have written
    the checkpoint may start it, or each supported version if the checkpoint shows nothing.
    """
    likely = choose_start(evidence, requested, asynchronous=asynchronous)
    is_known = requested is not None or likely.chosen_because == _RAN_LAST
    others = () if is_known else _list_possible(evidence)
    return (likely, *(replace(likely, spark=spark) for spark in others if spark != likely.spark))


def _list_possible(evidence: Evidence) -> tuple[SparkVersion, ...]:
    written_by = evidence.spark_versions
    if isinstance(written_by, Runtime | Unknown):
        return versions.list_between(versions.PREDICTED_SINCE, versions.NEWEST)
    return versions.list_between(written_by.lowest, written_by.highest)


def _choose_spark(evidence: Evidence, requested: SparkVersion | None) -> tuple[SparkVersion, str]:
    if requested is not None:
        return requested, "as requested"
    recorded = evidence.spark_version
    is_exact = isinstance(recorded, Known) and not recorded.inferred
    numbers = recorded.value.split(".") if isinstance(recorded, Known) and is_exact else []
    if len(numbers) > 1 and numbers[0].isdecimal() and numbers[1].isdecimal():
        return SparkVersion(int(numbers[0]), int(numbers[1])), _RAN_LAST
    written_by = evidence.spark_versions
    if isinstance(written_by, Runtime):
        return NEWEST, f"the newest Apache version; {written_by.name} wrote the checkpoint"
    if not isinstance(written_by, Unknown):
        chosen = (
            "which wrote the checkpoint"
            if written_by.lowest == written_by.highest
            else "the newest version that can have written the checkpoint"
        )
        return written_by.highest, chosen
    return NEWEST, "the newest version"
