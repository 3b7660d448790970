"""Stage 3: are the settings the same?

Pinned ones stay, whatever is asked for. Of the others no checkpoint knows.
"""

from collections.abc import Iterator

from holdfast.diagnose.changes import difference
from holdfast.model import advice
from holdfast.model.finding import Code, Finding, NotAssessed, QueryChange, Severity
from holdfast.spark import pinned, state_partitions
from holdfast.spark.pinned import LOST_IN, OF_3_5_4, PINNED_SINCE
from holdfast.spark.versions import parse_version

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def evaluate(change: QueryChange) -> Iterator[Finding | NotAssessed]:
    """Pinned settings that have no effect, and others that have one."""
    pinned = change.evidence.settings
    stateful = bool(change.new.operators)
    for key, wish in change.new.settings.items():
        if key in PINNED_SINCE:
            if stateful and key in pinned and pinned[key] != wish:
                yield difference.make_finding(
                    Code.PROVIDER_PINNED if key == _PROVIDER else Code.SETTING_PINNED,
                    Severity.NOTE,
                    f"`{key}` stays `{pinned[key]}`, whatever is asked for.",
                    where=f"offsets/{change.evidence.batches.last_planned}",
                    was=pinned[key],
                    now=wish,
                    remedies=(f"to use the new value, {advice.NEW_CHECKPOINT}",),
                )
        elif change.old is not None and change.old.settings.get(key, wish) != wish:
            yield _make_change_finding(change, key, change.old.settings[key], wish)
    yield from _compare_partitions(change)
    now = parse_version(change.new.spark_version)
    if OF_3_5_4 in pinned and now is not None and now >= LOST_IN:
        yield difference.make_finding(
            Code.SETTING_LOST,
            Severity.UNDEFINED,
            "Spark 3.5.4 pinned a setting under a name that Spark 4.1 and later do not know: it"
            " changes without an error.",
            where=f"offsets/{change.evidence.batches.last_planned}",
            was=f"{OF_3_5_4}={pinned[OF_3_5_4]}",
            now="true",
            remedies=("run one batch with Spark 3.5.5 or later, or 4.0, before the upgrade",),
        )
    if change.old is None and stateful:
        yield NotAssessed(
            question="whether settings that no checkpoint pins, as the time zone, are the old ones",
            reason="no run record holds the plan of the query",
        )


def _compare_partitions(change: QueryChange) -> Iterator[Finding]:
    """The number of partitions where nothing keeps the old one, and another is asked for."""
    if change.new.spark_version != state_partitions.FORGETFUL_RELEASE:
        return
    wish = change.new.settings.get(pinned.SHUFFLE_PARTITIONS, "")
    for operator, was in state_partitions.find_unpinned(change.evidence).items():
        if wish.isdecimal() and int(wish) != was:
            fewer = int(wish) < was
            yield difference.make_finding(
                Code.PARTITIONS_UNPINNED,
                Severity.LOSES if fewer else Severity.BLOCKS,
                f"{state_partitions.describe(operator, was)}: with another number"
                f" {'keys lose their state' if fewer else 'the first batch fails'}.",
                where=f"offsets/{change.evidence.batches.last_planned}",
                was=str(was),
                now=wish,
                remedies=(
                    f"keep it: `--set {pinned.SHUFFLE_PARTITIONS}={was}`",
                    "start it with Spark 4.2.1, which finds the number in the state",
                ),
            )


def _make_change_finding(change: QueryChange, key: str, was: str, wish: str) -> Finding:
    stateful = bool(change.new.operators)
    severity = Severity.UNDEFINED if stateful else Severity.NOTE
    text = "it is pinned by no checkpoint, and may change what is computed."
    if key == _FORMAT and stateful:
        severity, text = Severity.BLOCKS, "state in the one format cannot be read in the other."
    return difference.make_finding(
        Code.SETTING_CHANGED,
        severity,
        f"`{key}` is another one: {text}",
        where=difference.name_record(change),
        was=was,
        now=wish,
        remedies=(f"keep it: `--set {key}={was}`",),
    )
