"""Stage 3: do the settings asked for have an effect?

Spark puts the settings of the latest offset entry in force, and says so in a line of its log only.
"""

from collections.abc import Iterator

from holdfast.model import advice
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, RuleInput, Severity
from holdfast.model.spark_version import SparkVersion
from holdfast.spark import pinned, state_partitions
from holdfast.spark.pinned import LOST_IN, OF_3_5_4, PINNED_SINCE, PRUNE

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_V4_2 = SparkVersion(4, 2)


def evaluate(seen: RuleInput) -> Iterator[Finding | NotAssessed]:
    """Settings that were asked for and differ from the pinned ones."""
    pinned = seen.evidence.settings
    file = f"offsets/{seen.evidence.batches.last_planned}"
    for key, wish in seen.surroundings.start_settings.items():
        if key in PINNED_SINCE and key in pinned and pinned[key] != wish:
            provider = key == _PROVIDER
            yield Finding(
                code=Code.PROVIDER_PINNED if provider else Code.SETTING_PINNED,
                severity=Severity.NOTE,
                text=f"`{key}` stays `{pinned[key]}`, whatever is asked for.",
                clues=(Clue(file=file, expected=f"`{wish}`", found=f"`{pinned[key]}`"),),
                remedies=(f"to use the new value, {advice.NEW_CHECKPOINT}",),
            )
    yield from _find_unpinned(seen, file)
    if OF_3_5_4 in pinned and seen.restart.starting.spark >= LOST_IN:
        yield Finding(
            code=Code.SETTING_LOST,
            severity=Severity.UNDEFINED,
            text=f"Spark 3.5.4 pinned `{OF_3_5_4}`, a name that Spark 4.1 and later do not know:"
            " the setting changes without an error.",
            clues=(Clue(file=file, expected=f"`spark.sql.{PRUNE}`", found=f"`{OF_3_5_4}`"),),
            remedies=("run one batch with Spark 3.5.5 or later, or 4.0, before the upgrade",),
        )
    if pinned and not seen.surroundings.start_settings:
        yield NotAssessed(
            question="whether the settings of the start differ from the pinned ones",
            reason="none were given; name them with `--set KEY=VALUE`",
        )


def _find_unpinned(seen: RuleInput, file: str) -> Iterator[Finding]:
    """Partitions whose number nothing keeps: another one than theirs is asked for, or none."""
    if seen.restart.starting.spark != _V4_2:
        return
    wish = seen.surroundings.start_settings.get(pinned.SHUFFLE_PARTITIONS, "")
    for operator, was in state_partitions.find_unpinned(seen.evidence).items():
        if wish == str(was):
            continue
        yield Finding(
            code=Code.PARTITIONS_UNPINNED,
            severity=Severity.UNDEFINED,
            text=f"{state_partitions.describe(operator, was)}: that release fails with another"
            f" one, or"
            " keys lose their state.",
            clues=(
                Clue(
                    file=file,
                    expected=f"`{pinned.SHUFFLE_PARTITIONS}` is {was}",
                    found=f"`{wish}` is asked for" if wish else "it is not pinned",
                ),
            ),
            remedies=(
                f"start it with `--set {pinned.SHUFFLE_PARTITIONS}={was}`",
                "start it with Spark 4.2.1, which finds the number in the state",
            ),
        )
