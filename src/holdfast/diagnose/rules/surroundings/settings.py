"""Do the settings of the next start have an effect?

Spark applies the settings of the latest offset entry instead, and only its log says so.
"""

from collections.abc import Iterator

from holdfast.model import advice
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.spark_version import SparkVersion
from holdfast.spark import pinned, state_partitions
from holdfast.spark.pinned import LOST_IN, OF_3_5_4, PINNED_SINCE, PRUNE

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_V4_2 = SparkVersion(4, 2)


def evaluate(given: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Yield requested settings that differ from the pinned ones, and settings that get lost."""
    settings, requested = given.evidence.settings, given.surroundings.start_settings
    file = f"offsets/{given.evidence.batches.last_planned}"
    for key, value in requested.items():
        if key in PINNED_SINCE and key in settings and settings[key] != value:
            yield Finding(
                code=Code.PROVIDER_PINNED if key == _PROVIDER else Code.SETTING_PINNED,
                severity=Severity.NOTE,
                text=f"`{key}` stays `{settings[key]}`, whatever value you set: the checkpoint pins"
                " it.",
                clues=(Clue(file=file, expected=f"`{value}`", found=f"`{settings[key]}`"),),
                remedies=(f"to use the new value, {advice.NEW_CHECKPOINT}",),
            )
    yield from _find_unpinned(given, file)
    if OF_3_5_4 in settings and given.restart.starting.spark >= LOST_IN:
        yield Finding(
            code=Code.SETTING_LOST,
            severity=Severity.UNDEFINED,
            text=f"A restart will change a setting without an error: Spark 3.5.4 pinned"
            f" `{OF_3_5_4}`, a name that Spark 4.1 and later do not know.",
            clues=(Clue(file=file, expected=f"`spark.sql.{PRUNE}`", found=f"`{OF_3_5_4}`"),),
            remedies=("run one batch with Spark 3.5.5 or later, or 4.0, before the upgrade",),
        )
    if settings and not requested:
        yield NotAssessed(
            question="whether the settings of the next start differ from the pinned ones",
            reason="none were given; name them with `--set KEY=VALUE`",
        )


def _find_unpinned(given: RuleInput, file: str) -> Iterator[Finding]:
    """Yield operators whose number of partitions is neither pinned nor requested."""
    if given.restart.starting.spark != _V4_2:
        return
    requested = given.surroundings.start_settings.get(pinned.SHUFFLE_PARTITIONS, "")
    for operator, count in state_partitions.find_unpinned(given.evidence).items():
        if requested == str(count):
            continue
        yield Finding(
            code=Code.PARTITIONS_UNPINNED,
            severity=Severity.UNDEFINED,
            text=f"With Spark {state_partitions.FORGETFUL_RELEASE}, a restart with a different"
            " number of partitions will fail, or keys will lose their state."
            f" {state_partitions.describe(operator, count)}.",
            clues=(
                Clue(
                    file=file,
                    expected=f"`{pinned.SHUFFLE_PARTITIONS}` is {count}",
                    found=f"`{requested}` is requested" if requested else "it is not pinned",
                ),
            ),
            remedies=(
                f"start it with `--set {pinned.SHUFFLE_PARTITIONS}={count}`",
                "start it with Spark 4.2.1, which finds the number in the state",
            ),
        )
