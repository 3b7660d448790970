"""Explanations of findings about settings that a checkpoint pins, or fails to."""

from collections.abc import Mapping

from holdfast.model import advice
from holdfast.model.explanation import Explanation
from holdfast.model.finding import Code
from holdfast.spark.versions import PREDICTED

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.SETTING_PINNED: Explanation(
        meaning="A requested setting has no effect, because the checkpoint pins a different value.",
        causes="Somebody changed the setting for an existing query, for example"
        " `spark.sql.shuffle.partitions`.",
        spark=((PREDICTED, "uses the pinned value, with one line in its log"),),
        cures=f"To use the new value, {advice.NEW_CHECKPOINT}. From 4.2 on, state in RocksDB can"
        " be repartitioned instead.",
    ),
    Code.PROVIDER_PINNED: Explanation(
        meaning="A requested state store provider has no effect, because the state is in a"
        " different one.",
        causes="Somebody switched to RocksDB for an existing query.",
        spark=((PREDICTED, "uses the pinned provider, with one line in its log"),),
        cures=f"To use the new provider, {advice.NEW_CHECKPOINT}.",
    ),
    Code.SETTING_LOST: Explanation(
        meaning="A setting will silently fall back to its default, because it is pinned under a"
        " name that only some Spark versions understand.",
        causes="Spark 3.5.4 wrote one setting under a wrong name.",
        spark=(
            ("3.5.5 and later, 4.0", "translates the name"),
            (
                "4.1 and later",
                "does not translate the name: the setting gets its default, without an error",
            ),
        ),
        cures="Run one batch on 3.5.5 or later, or on 4.0, before you upgrade to 4.1.",
    ),
    Code.PARTITIONS_UNPINNED: Explanation(
        meaning="The checkpoint does not record how many partitions the state has, and Spark 4.2.0"
        " uses the number of its session.",
        causes="Spark 4.2.0 wrote the offset log in version 2"
        " (`spark.sql.streaming.offsetLog.formatVersion`), and left out the number of partitions.",
        spark=(
            ("4.2.0", "with fewer partitions, most keys lose their state without an error"),
            (
                "4.2.0",
                "with more partitions, the first batch fails because there is no state to load",
            ),
            ("4.2.1 and later", "records the number, and derives a missing one from the state"),
        ),
        cures="Start the query with Spark 4.2.1, or with the old number: `--set"
        " spark.sql.shuffle.partitions=N`.",
    ),
}
