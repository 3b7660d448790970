"""Stage 3: do the settings asked for have an effect?

Spark puts the settings of the latest offset entry in force, and says so in a line of its log only.
"""

from collections.abc import Iterator

from holdfast.diagnose.spark_version import PINNED_SINCE
from holdfast.model.finding import Clue, Code, Finding, NotAssessed, Seen, Severity
from holdfast.model.spark_version import SparkVersion

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_PRUNE = "optimizer.pruneFiltersCanPruneStreamingSubplan"
_OF_3_5_4 = f"spark.databricks.sql.{_PRUNE}"
_DROPPED = SparkVersion(4, 1)


def asked(seen: Seen) -> Iterator[Finding | NotAssessed]:
    """Settings that were asked for and differ from the pinned ones."""
    pinned = seen.evidence.settings
    file = f"offsets/{seen.evidence.batches.last_planned}"
    for key, wish in seen.surroundings.asked.items():
        if key in PINNED_SINCE and key in pinned and pinned[key] != wish:
            provider = key == _PROVIDER
            yield Finding(
                code=Code.PROVIDER_PINNED if provider else Code.SETTING_PINNED,
                severity=Severity.NOTE,
                text=f"`{key}` stays `{pinned[key]}`, whatever is asked for.",
                clues=(Clue(file=file, expected=f"`{wish}`", found=f"`{pinned[key]}`"),),
                remedies=("a new checkpoint takes the new value",),
            )
    if _OF_3_5_4 in pinned and seen.restart.starting.spark >= _DROPPED:
        yield Finding(
            code=Code.SETTING_LOST,
            severity=Severity.UNDEFINED,
            text=f"Spark 3.5.4 pinned `{_OF_3_5_4}`, a name that Spark 4.1 and later do not know:"
            " the setting changes without an error.",
            clues=(Clue(file=file, expected=f"`spark.sql.{_PRUNE}`", found=f"`{_OF_3_5_4}`"),),
            remedies=("run one batch with Spark 3.5.5 or later, or 4.0, before the upgrade",),
        )
    if pinned and not seen.surroundings.asked:
        yield NotAssessed(
            question="whether the settings of the start differ from the pinned ones",
            reason="none were given; name them with `--set KEY=VALUE`",
        )
