"""Stage 3: Evidence -> the partitions of the state whose number no offset entry keeps.

Spark 4.2.0 forgets `spark.sql.shuffle.partitions` in an offset log of version 2. At a start it
takes the session's value, and looks for a row where its key belongs by that number. Later releases
find the number in the state.
"""

from collections.abc import Collection, Mapping

from holdfast.model.checkpoint import ColumnFamily
from holdfast.model.evidence import Evidence
from holdfast.spark.pinned import SHUFFLE_PARTITIONS

FORGETS = "4.2.0"
_SINCE = 2
_MOST_DIGITS = 6


def find_unpinned(evidence: Evidence) -> Mapping[int, int]:
    """How many partitions each operator has, where nothing keeps the number; otherwise none."""
    planned = evidence.batches.last_planned
    entry = evidence.offset_entries.get(planned) if planned is not None else None
    if entry is None or entry.version < _SINCE or SHUFFLE_PARTITIONS in entry.settings:
        return {}
    return {
        one.operator: one.partitions
        for one in evidence.operators
        if is_keyed(one.schema, {store.partition for store in one.stores})
    }


def read_planned(settings: Mapping[str, str]) -> int:
    """The partitions that a batch was planned with; 0 where nothing tells."""
    told = settings.get(SHUFFLE_PARTITIONS, "")
    return int(told) if told.isdecimal() and len(told) < _MOST_DIGITS else 0


def is_keyed(schema: Mapping[str, tuple[ColumnFamily, ...]], partitions: Collection[int]) -> bool:
    """Whether rows go to partitions by a key; without one there is one, whatever is asked for.

    Where no schema tells, the partitions do that were seen; where there are none, it is likely.
    """
    families = next((told for told in schema.values() if told), ())
    if not families:
        return not partitions or max(partitions) > 0
    return any(column.type != "void" for column in families[0].key)


def describe(operator: int, was: int) -> str:
    """What that means."""
    return (
        f"The state of operator {operator} lies in {was} partitions, and the offset log of Spark"
        f" {FORGETS} in version 2 does not keep their number"
    )
