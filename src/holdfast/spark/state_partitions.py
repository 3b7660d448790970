"""Evidence -> the number of state partitions, if no offset entry keeps it.

Spark 4.2.0 does not write `spark.sql.shuffle.partitions` into an offset log of version 2. A start
takes the session's value, and looks for each row in the partition that this number gives. Later
releases read the number from the state.
"""

from collections.abc import Collection, Mapping

from holdfast.model.checkpoint import ColumnFamily
from holdfast.model.evidence import Evidence
from holdfast.spark.pinned import SHUFFLE_PARTITIONS

FORGETFUL_RELEASE = "4.2.0"
_SINCE = 2
_MOST_DIGITS = 6


def find_unpinned(evidence: Evidence) -> Mapping[int, int]:
    """Return the number of partitions of each operator; nothing if the offset log pins it."""
    planned = evidence.batches.last_planned
    entry = evidence.offset_entries.get(planned) if planned is not None else None
    if entry is None or entry.version < _SINCE or SHUFFLE_PARTITIONS in entry.settings:
        return {}
    return {
        operator.operator: operator.partitions
        for operator in evidence.operators
        if is_keyed(operator.schema, {store.partition for store in operator.stores})
    }


def read_planned(settings: Mapping[str, str]) -> int:
    """Return the number of partitions that a batch was planned with; 0 if it is not pinned."""
    number = settings.get(SHUFFLE_PARTITIONS, "")
    return int(number) if number.isdecimal() and len(number) < _MOST_DIGITS else 0


def is_keyed(schema: Mapping[str, tuple[ColumnFamily, ...]], partitions: Collection[int]) -> bool:
    """Return whether rows go to partitions by a key; without a key, Spark uses one partition.

    Without a schema, the partitions on disk decide; without partitions, a key is likely.
    """
    families = next((listed for listed in schema.values() if listed), ())
    if not families:
        return not partitions or max(partitions) > 0
    return any(column.type != "void" for column in families[0].key)


def describe(operator: int, partitions: int) -> str:
    """Return a clause that describes the missing number."""
    return (
        f"The state of operator {operator} has {partitions} partitions, and the offset log of Spark"
        f" {FORGETFUL_RELEASE} in version 2 does not record this number"
    )
