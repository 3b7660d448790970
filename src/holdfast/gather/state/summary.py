"""The stateful operators -> what the nine facts say about them."""

from collections.abc import Iterable, Mapping

from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.model.fact import Absent, Fact, Known, Unknown, UnreadableFile
from holdfast.model.state import OperatorEvidence


def find_operator_names(
    operators: Iterable[OperatorEvidence], tree: CheckpointTree
) -> Fact[tuple[str, ...]]:
    """Return the fact which stateful operators the query has.

    It is unreadable if the files with their names are. The folder of an operator proves that it
    exists.
    """
    known = tuple(operators)
    refused = [operator.name for operator in known if isinstance(operator.name, UnreadableFile)]
    refused += tree.find_refused("state")
    if refused and all(isinstance(operator.name, UnreadableFile) for operator in known):
        return refused[0]
    if not known:
        where = "the folder `state` is empty" if "state" in tree.folders else "no folder `state`"
        return Absent(reason=f"{where}: the query is stateless, or its state was deleted")
    read_from: list[str] = []
    names: list[str] = []
    inferred = ""
    for operator in known:
        match operator.name:
            case Known(value=value, read_from=files, inferred=reason):
                names.append(value)
                read_from += files
                inferred = inferred or reason
            case UnreadableFile(path=path, reason=reason):
                names.append(f"operator {operator.operator}")
                read_from.append(f"state/{operator.operator}")
                inferred = inferred or f"`{path}` cannot be read: {reason}"
            case Absent(reason=reason) | Unknown(reason=reason):
                names.append(f"operator {operator.operator}")
                read_from.append(f"state/{operator.operator}" if operator.partitions else "state")
                inferred = inferred or reason
    return Known(value=tuple(names), read_from=tuple(read_from), inferred=inferred)


def find_provider(tree: CheckpointTree, settings: Mapping[str, str], read_from: str) -> Fact[str]:
    """Return the fact which state store provider the query uses."""
    pinned = settings.get("spark.sql.streaming.stateStore.providerClass")
    if pinned:
        return Known(value=pinned, read_from=(read_from,))
    kinds = {kind.value for kind, _ in tree.kinds_of_state}
    package = "org.apache.spark.sql.execution.streaming.state"
    if kinds & {"state zip", "state changelog"}:
        reason = "no offset entry pins a provider; the state files are RocksDB files"
        return Known(
            value=f"{package}.RocksDBStateStoreProvider", read_from=("state",), inferred=reason
        )
    if kinds & {"state delta", "state snapshot"}:
        reason = (
            "no offset entry pins a provider; the state files are those of the HDFS-backed provider"
        )
        return Known(
            value=f"{package}.HDFSBackedStateStoreProvider", read_from=("state",), inferred=reason
        )
    refused = tree.find_refused("state") + (() if settings else tree.find_refused("offsets"))
    if refused:
        return refused[0]
    if not settings:
        return Unknown(reason="no offset entry pins it, and there is no state")
    return Absent(reason="the offset entry pins settings, but no state store provider")


def find_output_mode(operator: OperatorEvidence) -> str | None:
    """Return the output mode in an operator's properties; only transformWithState has one."""
    properties = operator.properties if isinstance(operator.properties, Mapping) else {}
    mode = properties.get("outputMode")
    return mode if isinstance(mode, str) else None
