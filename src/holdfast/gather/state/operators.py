"""The folder `state` -> stateful operators, their stores, and the batches that can be restored."""

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
_LOST = "nothing is left of its state, but a later operator has a folder"
_IDLE = (
    "nothing is left of its state, but batch {} ran without data, which happens only for state,"
    " when the watermark has moved"
)
_MOST_OPERATORS = 100
_FIRST = frozenset({(0, "default")})
_NOT_COMMITTED = Unknown(
    reason="some of the newest snapshots do not belong to the last committed batch"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulOperators:
    """The stateful operators, and the files that could not be read."""

    operators: tuple[OperatorEvidence, ...]
    schema_versions: frozenset[int]
    metadata_version: int
    """The highest version of RocksDB metadata in the newest snapshots; 0 if none was opened."""
    unreadable: tuple[UnreadableFile, ...]


def read(reader: Reader, tree: CheckpointTree, logged: stores.LoggedState) -> StatefulOperators:
    """Return every operator that has a folder, and those that have lost theirs."""
    files = descriptions.read(reader, tree, logged)
    found = {key[0] for key in tree.stores} | set(tree.operator_metadata)
    found |= {operator for operator, store in tree.schemas if not store.isdecimal()}
    found |= {int(file.path.split("/")[1]) for file in _find_unlisted(tree)}
    own = {n: _find_name(n, tree, files, logged) for n in sorted(found)}
    names = _complete_names(own, logged.operators)
    operators = [_describe_operator(n, names, tree, files, logged) for n in names]
    return StatefulOperators(
        operators=tuple(
            sorted((*operators, *_find_lost(found, tree, logged)), key=lambda o: o.operator)
        ),
        schema_versions=frozenset(s.version for _, s in files.schemas.values()),
        metadata_version=max((s.version for s in files.snapshots.values()), default=0),
        unreadable=tuple(files.unreadable.values()),
    )


def _find_unlisted(tree: CheckpointTree) -> tuple[UnreadableFile, ...]:
    """Return the folders of operators and their partitions that cannot be listed."""
    return tuple(
        file
        for file in tree.find_refused("state")
        if _OPERATOR.fullmatch(file.path) or (file.forbidden and _IN_OPERATOR.match(file.path))
    )


def _describe_operator(
    operator: int,
    names: Mapping[int, Fact[str]],
    tree: CheckpointTree,
    files: Descriptions,
    logged: stores.LoggedState,
) -> OperatorEvidence:
    own = {key: tree.stores[key] for key in sorted(tree.stores) if key[0] == operator}
    left_over = stores.find_left_over(own, logged.partitions)
    every = {key[1:]: stores.describe(key, store, logged, files) for key, store in own.items()}
    in_use = {key: store for key, store in every.items() if key[0] not in left_over}
    unlisted = tuple(f for f in _find_unlisted(tree) if f.path.split("/")[1] == str(operator))
    hidden = Unknown(reason=unlisted[0].description) if unlisted else None
    metadata, schema = files.metadata.get(operator), _select_schemas(operator, files)
    declared = metadata[1].stores if metadata else ()
    keyed = state_partitions.is_keyed(schema, {partition for partition, _ in in_use})
    loaded = stores.find_loaded(in_use, declared, logged.partitions, keyed=keyed)
    if not loaded and logged.loads > 0:
        loaded = _FIRST  # it has only a schema, but every operator has a first partition
    absent = () if unlisted else tuple(sorted(loaded - set(in_use)))
    missing = hidden or (_INCOMPLETE if absent else None)
    used, reported = tuple(in_use.values()), _find_reported_rows(operator, names, logged)
    return OperatorEvidence(
        operator=operator,
        name=names[operator],
        partitions=len({partition for partition, _ in (*in_use, *absent)}),
        left_over=len(left_over),
        rows=_count_rows(used, missing, logged) if reported is None else reported,
        bytes=sum(store.bytes for store in used),
        latest_version=max((store.latest_version for store in used), default=0) or None,
        restorable=hidden or stores.find_restorable(every, declared, logged, keyed=keyed),
        schema=schema,
        properties=metadata[1].properties if metadata else {},
        declared_stores=declared,
        stores=used,
        metadata=_find_metadata(operator, tree, files, logged),
        evolving=_is_evolving(operator, tree),
        lost_schemas=tuple(p for p in files.lost if p.startswith(f"state/{operator}/")),
        absent=absent,
        unlisted=unlisted,
    )


def _find_lost(
    found: Set[int], tree: CheckpointTree, logged: stores.LoggedState
) -> Iterator[OperatorEvidence]:
    """Yield operators that have no files left: Spark itself never removes all of them."""
    if tree.find_refused("state"):
        return
    names = (not found and _list_reported(logged)) or _infer_lost(found, tree, logged)
    for operator, name in names.items():
        yield make_lost_operator(operator, name, _DELETED)


def _list_reported(logged: stores.LoggedState) -> Mapping[int, Fact[str]]:
    """Return the operators that a batch ran with; without rows they may have no files.

    A `foreachBatch` function that does not read its rows writes no state.
    """
    if logged.operators is None or not any(logged.rows.values()):
        return {}
    unnamed = {n: Unknown(reason=_DELETED) for n in range(len(logged.operators.value))}
    return _complete_names(unnamed, logged.operators, _DELETED)


def _infer_lost(
    found: Set[int], tree: CheckpointTree, logged: stores.LoggedState
) -> Mapping[int, Fact[str]]:
    """Return lost operators that other evidence shows: Spark numbers operators without gaps."""
    highest = max(found, default=0)
    reasons = dict.fromkeys(range(highest), _LOST) if highest < _MOST_OPERATORS else {}
    last = logged.last_committed
    if last is not None and last in logged.commits:
        named = f"nothing is left of its state, but `commits/{last}` names it"
        reasons.update(dict.fromkeys(logged.commits[last].state_ids, named))
    for folder, belongs in tree.misplaced.items():
        reasons[int(belongs.split("/")[1])] = (
            f"its state is in `{folder}`, where Spark does not look"
        )
    for operator, kind in enumerate(_list_planned(logged)):
        reasons.setdefault(operator, f"nothing is left of its state, but the last run had `{kind}`")
    if not found and logged.operators is None and logged.idle is not None:
        reasons.setdefault(0, _IDLE.format(logged.idle))
    return {n: Unknown(reason=reason) for n, reason in sorted(reasons.items()) if n not in found}


def _list_planned(logged: stores.LoggedState) -> tuple[str, ...]:
    """Return the operators of the last query, by its run record.

    If its batches report operators, those reports are better: without rows, operators may have no
    files.
    """
    if logged.operators is not None or isinstance(logged.plan, Unknown):
        return ()
    return tuple(operator.kind for operator in logged.plan.value.operators)


def _find_reported_rows(
    operator: int, names: Mapping[int, Fact[str]], logged: stores.LoggedState
) -> int | None:
    """Return the rows that a run reported; before 3.2 the reported operators have no names."""
    name = names[operator]
    if isinstance(name, Known) and name.value in logged.rows:
        return logged.rows[name.value]
    nameless = logged.operators is not None and logged.operators.value == ("",)
    return logged.rows.get("") if nameless and len(names) == 1 else None


def _count_rows(
    used: tuple[StoreEvidence, ...], missing: Unknown | None, logged: stores.LoggedState
) -> int | Unknown:
    """Return the rows in the snapshots, if these belong to the last committed batch."""
    if missing is not None:
        return missing
    # A join keeps every row in one store, and the number of rows per key in another.
    counted = stores.sum_rows(used, but=_KEY_COUNTS)
    committed = {store.latest_version - 1 for store in used} == {logged.last_committed}
    return counted if committed or isinstance(counted, Unknown) else _NOT_COMMITTED


def _complete_names(
    names: Mapping[int, Fact[str]],
    reported: Known[tuple[str, ...]] | None,
    unnamed: str = _NO_NAME,
) -> Mapping[int, Fact[str]]:
    """Return the names, completed from the reports of runs if it is certain whose they are.

    Spark reports operators in no defined order. So there must be as many as there are folders, the
    known names must be among them, and all others must have the same name.
    """
    if reported is None or len(reported.value) != len(names):
        return names
    left = Counter(reported.value)
    left.subtract(Counter(name.value for name in names.values() if isinstance(name, Known)))
    others = [name for name, count in left.items() if count]
    if len(others) != 1 or not others[0]:
        return names
    reason = f"{unnamed}; its runs report this name"
    completed = Known(value=others[0], read_from=reported.read_from, inferred=reason)
    return {n: completed if isinstance(name, Unknown) else name for n, name in names.items()}


def _find_metadata(
    operator: int, tree: CheckpointTree, files: Descriptions, logged: stores.LoggedState
) -> Fact[str]:
    """Return the metadata file of an operator that the next batch reads."""
    absent = Absent(reason=f"no file up to batch {logged.loads}")
    metadata = tree.operator_metadata.get(operator)
    if metadata is not None and not metadata.find_for(logged.loads):
        return absent
    hidden = _explain_unread_metadata(operator, tree, files)
    if hidden is not None:
        return hidden
    if operator not in files.metadata:
        return absent
    path, _ = files.metadata[operator]
    return Known(value=path, read_from=(path,))


def _explain_unread_metadata(
    operator: int, tree: CheckpointTree, files: Descriptions
) -> UnreadableFile | None:
    """Return why the metadata of an operator cannot be read, if so."""
    inside = f"state/{operator}/_metadata"
    for path, file in files.unreadable.items():
        if path.startswith(f"{inside}/"):
            return file
    return next((f for f in _find_unlisted(tree) if f.path in (f"state/{operator}", inside)), None)


def _is_evolving(operator: int, tree: CheckpointTree) -> bool:
    """Return whether its schemas have unique names, which only its metadata contains."""
    if operator in tree.operator_metadata and tree.operator_metadata[operator].batches:
        return True
    return any(number >= 0 for key, (number, _) in tree.schemas.items() if key[0] == operator)


def _find_name(
    operator: int, tree: CheckpointTree, files: Descriptions, logged: stores.LoggedState
) -> Fact[str]:
    if operator in files.metadata:
        path, metadata = files.metadata[operator]
        return Known(value=metadata.name, read_from=(path,))
    hidden = _explain_unread_metadata(operator, tree, files)
    if hidden is not None:
        return hidden
    joins = [k[2] for k in tree.stores if k[0] == operator and _JOIN_STORE.fullmatch(k[2])]
    if joins:
        reason = f"{_NO_NAME}; only a stream-stream join has a state store `{min(joins)}`"
        return Known(value="symmetricHashJoin", read_from=(f"state/{operator}",), inferred=reason)
    path, schema = files.schemas.get((operator, "default"), ("", None))
    kind = ""
    if schema and len(schema.families) == 1:
        kind = _guess_kind(schema.families[0], repeats=logged.settings.get(_FORMAT) != _SECOND)
    if kind:
        reason = f"{_NO_NAME}; the columns of its state show it"
        return Known(value=kind, read_from=(path,), inferred=reason)
    return Unknown(reason=_NO_NAME)


def _guess_kind(family: ColumnFamily, *, repeats: bool) -> str:
    """Return the operator whose state has such columns; empty if several have.

    User-defined state has a column `groupState` in format 2, and any columns in format 1, where the
    timeout comes last. An aggregation `repeats` its key in the value in format 1. The deduplication
    of 3.1 has all columns of its rows in the value.
    """
    key, value = ([column.name for column in side] for side in (family.key, family.value))
    if value in (["__dummy__"], ["expiresAtMicros"]):
        return "dedupe" if value == ["__dummy__"] else "dedupeWithinWatermark"
    if "sessionStartTime" in key:
        return "sessionWindowStateStoreSaveExec"
    if [column.type for column in family.key] == ["void"]:
        return "globalLimit"
    if not value or {value[0], value[-1]} & {"groupState", "timeoutTimestamp"}:
        return ""
    repeated = {(column.name, column.type) for column in family.key} & {
        (column.name, column.type) for column in family.value
    }
    return "stateStoreSave" if repeats or len(repeated) < max(len(key), 1) else ""


def _select_schemas(operator: int, files: Descriptions) -> dict[str, tuple[ColumnFamily, ...]]:
    return {
        store: schema.families
        for (own, store), (_, schema) in sorted(files.schemas.items())
        if own == operator
    }
