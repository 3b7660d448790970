"""Are the settings the same?

A pinned setting keeps its value, whatever the session requests. A checkpoint does not record any
other setting.
"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference
from holdfast.model import advice
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.model.fingerprint import NOT_RECORDED
from holdfast.spark import pinned, state_partitions
from holdfast.spark.pinned import LOST_IN, OF_3_5_4, PINNED_SINCE
from holdfast.spark.versions import parse_version

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Find requested settings without an effect, and unpinned settings that changed."""
    kept = change.evidence.settings
    stateful = bool(change.new.operators)
    for key, requested in change.new.settings.items():
        if key in PINNED_SINCE:
            if stateful and key in kept and kept[key] != requested:
                yield difference.make_finding(
                    Code.PROVIDER_PINNED if key == _PROVIDER else Code.SETTING_PINNED,
                    Severity.NOTE,
                    f"`{key}` stays `{kept[key]}`: the checkpoint pins it.",
                    where=f"offsets/{change.evidence.batches.last_planned}",
                    was=kept[key],
                    now=requested,
                    remedies=(f"to use the new value, {advice.NEW_CHECKPOINT}",),
                )
        elif change.old is not None and change.old.settings.get(key, requested) != requested:
            yield _make_change_finding(change, key, change.old.settings[key], requested)
    yield from _compare_partitions(change)
    now = parse_version(change.new.spark_version)
    if OF_3_5_4 in kept and now is not None and now >= LOST_IN:
        yield difference.make_finding(
            Code.SETTING_LOST,
            Severity.UNDEFINED,
            "A setting will change without an error: Spark 3.5.4 pinned it under a name that Spark"
            " 4.1 and later do not know.",
            where=f"offsets/{change.evidence.batches.last_planned}",
            was=f"{OF_3_5_4}={kept[OF_3_5_4]}",
            now="true",
            remedies=("run one batch with Spark 3.5.5 or later, or 4.0, before the upgrade",),
        )
    if change.old is None and stateful:
        yield NotAssessed(
            question="whether settings that no checkpoint pins, such as the time zone, are"
            " unchanged",
            reason=NOT_RECORDED.reason,
        )


def _compare_partitions(change: QueryChange) -> Iterator[Finding]:
    """Compare the number of partitions, if the checkpoint does not record the old one."""
    if change.new.spark_version != state_partitions.FORGETFUL_RELEASE:
        return
    requested = change.new.settings.get(pinned.SHUFFLE_PARTITIONS, "")
    for operator, was in state_partitions.find_unpinned(change.evidence).items():
        if requested.isdecimal() and int(requested) != was:
            fewer = int(requested) < was
            yield difference.make_finding(
                Code.PARTITIONS_UNPINNED,
                Severity.LOSES if fewer else Severity.BLOCKS,
                f"{state_partitions.describe(operator, was)}: with a different number,"
                f" {'keys lose their state' if fewer else 'the first batch fails'}.",
                where=f"offsets/{change.evidence.batches.last_planned}",
                was=str(was),
                now=requested,
                remedies=(
                    f"keep the old value: `--set {pinned.SHUFFLE_PARTITIONS}={was}`",
                    "start the query with Spark 4.2.1, which derives the number from the state",
                ),
            )


def _make_change_finding(change: QueryChange, key: str, was: str, requested: str) -> Finding:
    stateful = bool(change.new.operators)
    severity = Severity.UNDEFINED if stateful else Severity.NOTE
    text = f"`{key}` changed: no checkpoint pins it, and it may change what the query computes."
    if key == _FORMAT and stateful:
        severity = Severity.BLOCKS
        text = f"Spark will not be able to read the state: `{key}` changed."
    return difference.make_finding(
        Code.SETTING_CHANGED,
        severity,
        text,
        where=difference.name_record(change),
        was=was,
        now=requested,
        remedies=(f"keep the old value: `--set {key}={was}`",),
    )
