"""Stage 2: the folder `state` -> stateful operators, their stores, and what can be restored."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass

from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.gather.state import descriptions, stores
from holdfast.gather.state.descriptions import Descriptions
from holdfast.model.checkpoint import (
    ColumnFamily,
)
from holdfast.model.fact import Absent, Fact, Known, Unknown, UnreadableFile
from holdfast.model.state import OperatorEvidence, StoreEvidence, make_lost_operator
from holdfast.spark import state_partitions
from holdfast.storage import Reader

_OPERATOR = re.compile(r"state/\d+(/(\d+|_metadata))?")
_IN_OPERATOR = re.compile(r"state/\d+/")
_JOIN_STORE = re.compile(r"(left|right)-key(ToNumValues|WithIndexToValue|WithTsToNumValues|.*)")
_KEY_COUNTS = ("-keyToNumValues", "-keyWithTsToNumValues")
_FORMAT, _SECOND = "spark.sql.streaming.aggregation.stateFormatVersion", "2"
_NO_NAME = "no operator metadata, which Spark writes from 4.0 on"
_INCOMPLETE = Unknown(reason="a partition of the state has no files")
_DELETED = "nothing is left in the folder `state`"
_LOST = "nothing is left of its state, and there is a folder of a later operator"
_IDLE = (
    "nothing is left of its state, and batch {} ran without data, as Spark has it only for state"
    " when the watermark has moved"
)
_MOST_OPERATORS = 100
_FIRST = frozenset({(0, "default")})
_NOT_COMMITTED = Unknown(reason="the newest snapshots are not all of the last committed batch")


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulOperators:
    """The stateful operators, and what could not be read of them."""

    operators: tuple[OperatorEvidence, ...]
    schema_versions: frozenset[int]
    metadata_version: int
    """The highest of RocksDB's metadata in the newest snapshots; 0 where none was opened."""
    unreadable: tuple[UnreadableFile, ...]


def read(reader: Reader, tree: CheckpointTree, logged: stores.LoggedState) -> StatefulOperators:
    """Every operator that has a folder, and those that have lost theirs."""
    described = descriptions.read(reader, tree, logged)
    found = {key[0] for key in tree.stores} | set(tree.operator_metadata)
    found |= {operator for operator, store in tree.schemas if not store.isdecimal()}
    found |= {int(one.path.split("/")[1]) for one in _find_unlisted(tree)}
    own = {n: _find_name(n, tree, described, logged) for n in sorted(found)}
    names = _complete_names(own, logged.operators)
    operators = [_describe_operator(n, names, tree, described, logged) for n in names]
    return StatefulOperators(
        operators=tuple(
            sorted((*operators, *_find_lost(found, tree, logged)), key=lambda o: o.operator)
        ),
        schema_versions=frozenset(s.version for _, s in described.schemas.values()),
        metadata_version=max((s.version for s in described.snapshots.values()), default=0),
        unreadable=tuple(described.unreadable.values()),
    )


def _find_unlisted(tree: CheckpointTree) -> tuple[UnreadableFile, ...]:
    """Folders of operators and of their partitions that cannot be listed."""
    return tuple(
        one
        for one in tree.refused_in("state")
        if _OPERATOR.fullmatch(one.path) or (one.forbidden and _IN_OPERATOR.match(one.path))
    )


def _describe_operator(
    operator: int,
    names: Mapping[int, Fact[str]],
    tree: CheckpointTree,
    described: Descriptions,
    logged: stores.LoggedState,
) -> OperatorEvidence:
    own = {key: tree.stores[key] for key in sorted(tree.stores) if key[0] == operator}
    left_over = stores.find_left_over(own, logged.partitions)
    found = {key[1:]: stores.describe(key, store, logged, described) for key, store in own.items()}
    in_use = {one: store for one, store in found.items() if one[0] not in left_over}
    unlisted = tuple(one for one in _find_unlisted(tree) if one.path.split("/")[1] == str(operator))
    hidden = Unknown(reason=unlisted[0].description) if unlisted else None
    told, schema = described.metadata.get(operator), _select_schemas(operator, described)
    declared = told[1].stores if told else ()
    keyed = state_partitions.is_keyed(schema, {partition for partition, _ in in_use})
    loaded = stores.find_loaded(in_use, declared, logged.partitions, keyed=keyed)
    if not loaded and logged.loads > 0:
        loaded = _FIRST  # it has a schema only, and every operator has a first partition
    absent = () if unlisted else tuple(sorted(loaded - set(in_use)))
    missing = hidden or (_INCOMPLETE if absent else None)
    seen, reported = tuple(in_use.values()), _find_reported_rows(operator, names, logged)
    return OperatorEvidence(
        operator=operator,
        name=names[operator],
        partitions=len({partition for partition, _ in (*in_use, *absent)}),
        left_over=len(left_over),
        rows=_count_rows(seen, missing, logged) if reported is None else reported,
        bytes=sum(store.bytes for store in seen),
        latest_version=max((one.latest_version for one in seen), default=0) or None,
        restorable=hidden or stores.find_restorable(found, declared, logged, keyed=keyed),
        schema=schema,
        properties=told[1].properties if told else {},
        declared_stores=declared,
        stores=seen,
        metadata=_find_metadata(operator, tree, described, logged),
        evolving=_is_evolving(operator, tree),
        lost_schemas=tuple(p for p in described.lost if p.startswith(f"state/{operator}/")),
        absent=absent,
        unlisted=unlisted,
    )


def _find_lost(
    found: Set[int], tree: CheckpointTree, logged: stores.LoggedState
) -> Iterator[OperatorEvidence]:
    """Operators of which nothing is left: Spark itself never removes all of one."""
    if tree.refused_in("state"):
        return
    names = (not found and _list_reported(logged)) or _infer_lost(found, tree, logged)
    for operator, name in names.items():
        yield make_lost_operator(operator, name, _DELETED)


def _list_reported(logged: stores.LoggedState) -> Mapping[int, Fact[str]]:
    """Those that a batch ran with. Without rows they may have no files.

    A `foreachBatch` function that reads nothing writes none.
    """
    if logged.operators is None or not any(logged.rows.values()):
        return {}
    unnamed = {n: Unknown(reason=_DELETED) for n in range(len(logged.operators.value))}
    return _complete_names(unnamed, logged.operators, _DELETED)


def _infer_lost(
    found: Set[int], tree: CheckpointTree, logged: stores.LoggedState
) -> Mapping[int, Fact[str]]:
    """Those that others tell of: Spark numbers operators from 0 on, without a gap."""
    highest = max(found, default=0)
    told = dict.fromkeys(range(highest), _LOST) if highest < _MOST_OPERATORS else {}
    last = logged.last_committed
    if last is not None and last in logged.commits:
        named = f"nothing is left of its state, which `commits/{last}` names"
        told.update(dict.fromkeys(logged.commits[last].state_ids, named))
    for folder, belongs in tree.misplaced.items():
        told[int(belongs.split("/")[1])] = (
            f"its state lies in `{folder}`, where Spark does not look"
        )
    for operator, kind in enumerate(_list_planned(logged)):
        told.setdefault(operator, f"nothing is left of its state; the last run had `{kind}`")
    if not found and logged.operators is None and logged.idle is not None:
        told.setdefault(0, _IDLE.format(logged.idle))
    return {n: Unknown(reason=why) for n, why in sorted(told.items()) if n not in found}


def _list_planned(logged: stores.LoggedState) -> tuple[str, ...]:
    """The operators of the query that ran last, by its run record.

    Where its batches report operators, these tell more: without rows they may have no files.
    """
    if logged.operators is not None or isinstance(logged.plan, Unknown):
        return ()
    return tuple(one.kind for one in logged.plan.value.operators)


def _find_reported_rows(
    operator: int, names: Mapping[int, Fact[str]], logged: stores.LoggedState
) -> int | None:
    """The rows that a run has reported. Before 3.2 no operator has a name there."""
    name = names[operator]
    if isinstance(name, Known) and name.value in logged.rows:
        return logged.rows[name.value]
    nameless = logged.operators is not None and logged.operators.value == ("",)
    return logged.rows.get("") if nameless and len(names) == 1 else None


def _count_rows(
    seen: tuple[StoreEvidence, ...], missing: Unknown | None, logged: stores.LoggedState
) -> int | Unknown:
    """The rows that the snapshots tell, if they are those after the last committed batch."""
    if missing is not None:
        return missing
    # A join keeps every row in one store, and how many there are of a key in another.
    counted = stores.sum_rows(seen, but=_KEY_COUNTS)
    committed = {store.latest_version - 1 for store in seen} == {logged.last_committed}
    return counted if committed or isinstance(counted, Unknown) else _NOT_COMMITTED


def _complete_names(
    names: Mapping[int, Fact[str]],
    reported: Known[tuple[str, ...]] | None,
    unnamed: str = _NO_NAME,
) -> Mapping[int, Fact[str]]:
    """Names that only what the runs report can give, where it is certain whose they are.

    Spark reports operators in an order of its own. So it must be as many as there are, with those
    that are known among them, and all others of one name.
    """
    if reported is None or len(reported.value) != len(names):
        return names
    left = Counter(reported.value)
    left.subtract(Counter(one.value for one in names.values() if isinstance(one, Known)))
    others = [name for name, count in left.items() if count]
    if len(others) != 1 or not others[0]:
        return names
    reason = f"{unnamed}; as its runs report it"
    told = Known(value=others[0], read_from=reported.read_from, inferred=reason)
    return {n: told if isinstance(one, Unknown) else one for n, one in names.items()}


def _find_metadata(
    operator: int, tree: CheckpointTree, described: Descriptions, logged: stores.LoggedState
) -> Fact[str]:
    """The file of an operator's metadata that the next batch reads."""
    absent = Absent(reason=f"no file up to batch {logged.loads}")
    files = tree.operator_metadata.get(operator)
    if files is not None and not files.find_for(logged.loads):
        return absent
    hidden = _explain_unread_metadata(operator, tree, described)
    if hidden is not None:
        return hidden
    if operator not in described.metadata:
        return absent
    path, _ = described.metadata[operator]
    return Known(value=path, read_from=(path,))


def _explain_unread_metadata(
    operator: int, tree: CheckpointTree, described: Descriptions
) -> UnreadableFile | None:
    """Why an operator's metadata cannot be read, if so."""
    inside = f"state/{operator}/_metadata"
    for path, one in described.unreadable.items():
        if path.startswith(f"{inside}/"):
            return one
    return next((o for o in _find_unlisted(tree) if o.path in (f"state/{operator}", inside)), None)


def _is_evolving(operator: int, tree: CheckpointTree) -> bool:
    """Whether its schemas have names of their own, which only its metadata tells."""
    if operator in tree.operator_metadata and tree.operator_metadata[operator].batches:
        return True
    return any(number >= 0 for key, (number, _) in tree.schemas.items() if key[0] == operator)


def _find_name(
    operator: int, tree: CheckpointTree, described: Descriptions, logged: stores.LoggedState
) -> Fact[str]:
    if operator in described.metadata:
        path, metadata = described.metadata[operator]
        return Known(value=metadata.name, read_from=(path,))
    hidden = _explain_unread_metadata(operator, tree, described)
    if hidden is not None:
        return hidden
    joins = [k[2] for k in tree.stores if k[0] == operator and _JOIN_STORE.fullmatch(k[2])]
    if joins:
        reason = f"{_NO_NAME}; only a stream-stream join has a state store `{min(joins)}`"
        return Known(value="symmetricHashJoin", read_from=(f"state/{operator}",), inferred=reason)
    path, schema = described.schemas.get((operator, "default"), ("", None))
    kind = ""
    if schema and len(schema.families) == 1:
        kind = _guess_kind(schema.families[0], repeats=logged.settings.get(_FORMAT) != _SECOND)
    if kind:
        reason = f"{_NO_NAME}; by the columns of its state"
        return Known(value=kind, read_from=(path,), inferred=reason)
    return Unknown(reason=_NO_NAME)


def _guess_kind(family: ColumnFamily, *, repeats: bool) -> str:
    """The operator whose state has such columns; nothing where several have.

    A state of the user's own has a column of its own name in format 2, and any in format 1, where
    the time of its end comes last. An aggregation `repeats` its key in the value in format 1; the
    deduplication of 3.1 calls all columns of its rows the value.
    """
    key, value = ([one.name for one in side] for side in (family.key, family.value))
    if value in (["__dummy__"], ["expiresAtMicros"]):
        return "dedupe" if value == ["__dummy__"] else "dedupeWithinWatermark"
    if "sessionStartTime" in key:
        return "sessionWindowStateStoreSaveExec"
    if [one.type for one in family.key] == ["void"]:
        return "globalLimit"
    if not value or {value[0], value[-1]} & {"groupState", "timeoutTimestamp"}:
        return ""
    repeated = {(one.name, one.type) for one in family.key} & {
        (one.name, one.type) for one in family.value
    }
    return "stateStoreSave" if repeats or len(repeated) < max(len(key), 1) else ""


def _select_schemas(operator: int, described: Descriptions) -> dict[str, tuple[ColumnFamily, ...]]:
    return {
        store: schema.families
        for (own, store), (_, schema) in sorted(described.schemas.items())
        if own == operator
    }
