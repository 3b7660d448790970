"""Stage 3: Evidence -> the partitions of the state whose number no offset entry keeps.

Spark 4.2.0 forgets `spark.sql.shuffle.partitions` in an offset log of version 2: the session's
value counts at every start, and a row is looked for where its key belongs by that number.
"""

from collections.abc import Mapping

from holdfast.model.evidence import Evidence

SHUFFLE = "spark.sql.shuffle.partitions"
_SINCE = 2


def partitions(evidence: Evidence) -> Mapping[int, int]:
    """How many partitions each operator has, where nothing keeps the number; otherwise none.

    One partition is what an operator without keys has, whatever the setting says.
    """
    planned = evidence.batches.last_planned
    entry = evidence.offset_entries.get(planned) if planned is not None else None
    if entry is None or entry.version < _SINCE or SHUFFLE in entry.settings:
        return {}
    return {one.operator: one.partitions for one in evidence.operators if one.partitions > 1}


def text(operator: int, was: int) -> str:
    """What that means."""
    return (
        f"The state of operator {operator} lies in {was} partitions, and the offset log of Spark"
        " 4.2.0 in version 2 does not keep their number"
    )
