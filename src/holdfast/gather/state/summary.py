"""Stage 2: the stateful operators as they were seen -> what the nine facts tell of them."""

from collections.abc import Iterable, Mapping

from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.model.fact import Absent, Fact, Known, Unknown, UnreadableFile
from holdfast.model.state import OperatorEvidence


def find_operator_names(
    operators: Iterable[OperatorEvidence], tree: CheckpointTree
) -> Fact[tuple[str, ...]]:
    """The fact: which stateful operators the query has.

    Unreadable, where what would name them is; a folder of an operator shows that it is there.
    """
    found = tuple(operators)
    refused = [one.name for one in found if isinstance(one.name, UnreadableFile)]
    refused += tree.refused_in("state")
    if refused and all(isinstance(one.name, UnreadableFile) for one in found):
        return refused[0]
    if not found:
        where = "the folder `state` is empty" if "state" in tree.folders else "no folder `state`"
        return Absent(reason=f"{where}: the query has none, or its state was deleted")
    read_from: list[str] = []
    told: list[str] = []
    inferred = ""
    for one in found:
        match one.name:
            case Known(value=value, read_from=files, inferred=reason):
                told.append(value)
                read_from += files
                inferred = inferred or reason
            case UnreadableFile(path=path, reason=reason):
                told.append(f"operator {one.operator}")
                read_from.append(f"state/{one.operator}")
                inferred = inferred or f"`{path}` cannot be read: {reason}"
            case Absent(reason=reason) | Unknown(reason=reason):
                told.append(f"operator {one.operator}")
                read_from.append(f"state/{one.operator}" if one.partitions else "state")
                inferred = inferred or reason
    return Known(value=tuple(told), read_from=tuple(read_from), inferred=inferred)


def find_provider(tree: CheckpointTree, settings: Mapping[str, str], read_from: str) -> Fact[str]:
    """The fact: which state store provider the query uses."""
    pinned = settings.get("spark.sql.streaming.stateStore.providerClass")
    if pinned:
        return Known(value=pinned, read_from=(read_from,))
    kinds = {kind.value for kind, _ in tree.kinds_of_state}
    package = "org.apache.spark.sql.execution.streaming.state"
    if kinds & {"state zip", "state changelog"}:
        reason = "no offset entry pins a provider; the state files are RocksDB's"
        return Known(
            value=f"{package}.RocksDBStateStoreProvider", read_from=("state",), inferred=reason
        )
    if kinds & {"state delta", "state snapshot"}:
        reason = "no offset entry pins a provider; the state files are those of the HDFS-backed one"
        return Known(
            value=f"{package}.HDFSBackedStateStoreProvider", read_from=("state",), inferred=reason
        )
    refused = tree.refused_in("state") + (() if settings else tree.refused_in("offsets"))
    if refused:
        return refused[0]
    if not settings:
        return Unknown(reason="no offset entry pins it, and there is no state")
    return Absent(reason="the offset entry pins settings, but none of a state store")


def find_output_mode(operator: OperatorEvidence) -> str | None:
    """The output mode that an operator's own properties name; only transformWithState has one."""
    properties = operator.properties if isinstance(operator.properties, Mapping) else {}
    mode = properties.get("outputMode")
    return mode if isinstance(mode, str) else None
