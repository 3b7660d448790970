"""Stage 2: the folder `state` -> stateful operators, their stores, and what can be restored."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from holdfast.decode import operator_metadata, rocksdb_zip, state_schema
from holdfast.gather import spans
from holdfast.gather.pieces import unread
from holdfast.gather.tree import Store, StoreKey, Tree
from holdfast.model.batch import Unknown
from holdfast.model.checkpoint import (
    ColumnFamily,
    OperatorMetadata,
    RocksDbSnapshot,
    StateSchema,
)
from holdfast.model.evidence import (
    Fact,
    Known,
    OperatorSeen,
    StoreSeen,
    UnreadableFile,
)
from holdfast.model.ids import BatchId
from holdfast.model.offsets import Unreadable
from holdfast.storage import Missing, Piece, Reader, Refused

_MOST_BYTES = 16 << 20
_MOST_ZIPS = 64
_OPERATOR = re.compile(r"state/\d+(/(\d+|_metadata))?")
_IN_OPERATOR = re.compile(r"state/\d+/")
_JOIN_STORE = re.compile(r"(left|right)-key(ToNumValues|WithIndexToValue|WithTsToNumValues|.*)")
_KEY_COUNTS = ("-keyToNumValues", "-keyWithTsToNumValues")
_UNCOUNTED = Unknown(reason="the files of this state store do not say how many rows they hold")
_SNAPSHOT_ONLY = Unknown(reason="only snapshots say how many rows they hold; changes follow it")
_TOO_MANY = Unknown(reason=f"only {_MOST_ZIPS} snapshots are opened to count rows")
_NOT_TRACKED = Unknown(reason="Spark was told not to count rows")
_NO_NAME = "no operator metadata, which Spark writes from 4.0 on"


@dataclass(slots=True)
class _Described:
    """What files say of operators, as far as they can be read."""

    metadata: dict[int, tuple[str, OperatorMetadata]] = field(default_factory=dict)
    schemas: dict[tuple[int, str], tuple[str, StateSchema]] = field(default_factory=dict)
    snapshots: dict[StoreKey, RocksDbSnapshot] = field(default_factory=dict)
    unreadable: dict[str, UnreadableFile] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The stateful operators, and what could not be read of them."""

    operators: tuple[OperatorSeen, ...]
    schema_versions: frozenset[int]
    unreadable: tuple[UnreadableFile, ...]


def seen(reader: Reader, tree: Tree, reported: Mapping[str, int]) -> State:
    """Every operator that has a folder; `reported` are rows that the last batch told of."""
    described = _described(reader, tree)
    found = {key[0] for key in tree.stores} | set(tree.operator_metadata)
    found |= {operator for operator, _ in tree.schemas}
    found |= {int(one.path.split("/")[1]) for one in _unlisted(tree)}
    return State(
        operators=tuple(_operator(n, tree, described, reported) for n in sorted(found)),
        schema_versions=frozenset(s.version for _, s in described.schemas.values()),
        unreadable=tuple(described.unreadable.values()),
    )


def _unlisted(tree: Tree) -> tuple[UnreadableFile, ...]:
    """Folders of operators and of their partitions that cannot be listed."""
    return tuple(
        one
        for one in tree.refused_in("state")
        if _OPERATOR.fullmatch(one.path) or (one.forbidden and _IN_OPERATOR.match(one.path))
    )


def _described(reader: Reader, tree: Tree) -> _Described:
    described = _Described()
    wanted = {path: operator for operator, (_, path) in tree.operator_metadata.items()}
    keys = {path: key for key, (_, path) in tree.schemas.items()}
    zips = {
        store.newest_snapshot[1]: key
        for key, store in tree.stores.items()
        if store.newest_snapshot[1].endswith(".zip")
    }
    paths = [*wanted, *keys, *list(zips)[:_MOST_ZIPS]]
    for piece, data in reader.read([Piece(path=path, most=_MOST_BYTES) for path in paths]):
        if isinstance(data, Missing):
            continue  # removed by a running query, which has a newer one
        if isinstance(data, Refused):
            described.unreadable[piece.path] = unread(piece.path, data)
            continue
        if piece.path in wanted:
            problem = _take_metadata(described, wanted[piece.path], piece.path, data)
        elif piece.path in keys:
            problem = _take_schema(described, keys[piece.path], piece.path, data)
        else:
            problem = _take_snapshot(described, zips[piece.path], data)
        if problem:
            described.unreadable[piece.path] = UnreadableFile(path=piece.path, reason=problem)
    return described


def _take_metadata(described: _Described, operator: int, path: str, data: bytes) -> str:
    decoded = operator_metadata.decode(data)
    if isinstance(decoded, Unreadable):
        return decoded.reason
    described.metadata[operator] = (path, decoded)
    return ""


def _take_schema(described: _Described, key: tuple[int, str], path: str, data: bytes) -> str:
    decoded = state_schema.decode(data)
    if isinstance(decoded, Unreadable):
        return decoded.reason
    described.schemas[key] = (path, decoded)
    return ""


def _take_snapshot(described: _Described, key: StoreKey, data: bytes) -> str:
    decoded = rocksdb_zip.decode(data)
    if isinstance(decoded, Unreadable):
        return decoded.reason
    described.snapshots[key] = decoded
    return ""


def _operator(
    operator: int, tree: Tree, described: _Described, reported: Mapping[str, int]
) -> OperatorSeen:
    keys = sorted(key for key in tree.stores if key[0] == operator)
    stores = tuple(_store(key, tree.stores[key], described) for key in keys)
    held = [store for store in stores if store.latest_version > 0]
    unlisted = tuple(one for one in _unlisted(tree) if one.path.split("/")[1] == str(operator))
    told = described.metadata.get(operator)
    return OperatorSeen(
        operator=operator,
        name=_name(operator, tree, described),
        partitions=len({key[1] for key in keys}),
        rows=_rows(_name(operator, tree, described), stores, unlisted, reported),
        bytes=sum(store.bytes for store in stores),
        latest_version=max((store.latest_version for store in held), default=None),
        oldest_batch=_oldest(held, unlisted),
        schema=_schema(operator, described),
        properties=told[1].properties if told else {},
        declared=told[1].stores if told else (),
        stores=stores,
        unlisted=unlisted,
    )


def _counted(path: str, opened: RocksDbSnapshot | None, described: _Described) -> int | Unknown:
    """The rows of a snapshot, or why they are not known."""
    if opened is not None:
        return opened.keys if opened.keys >= 0 else _NOT_TRACKED
    unreadable = described.unreadable.get(path)
    return _TOO_MANY if unreadable is None else Unknown(reason=unreadable.reason)


def _oldest(held: Iterable[StoreSeen], unlisted: tuple[UnreadableFile, ...]) -> BatchId | Unknown:
    if unlisted:
        return Unknown(reason=unlisted[0].told)
    versions = spans.common([store.restorable for store in held])
    if not versions:
        return Unknown(reason="no version can be put together in every partition")
    return BatchId(versions[0].first - 1)


def _store(key: StoreKey, store: Store, described: _Described) -> StoreSeen:
    changes, snapshots = tuple(store.changes), tuple(store.snapshots)
    latest = max(store.changes.last or 0, store.snapshots.last or 0)
    rows: int | Unknown = _UNCOUNTED
    opened = described.snapshots.get(key)
    if store.newest_snapshot[1].endswith(".zip"):
        rows = _counted(store.newest_snapshot[1], opened, described)
        rows = rows if store.newest_snapshot[0] == latest else _SNAPSHOT_ONLY
    return StoreSeen(
        partition=key[1],
        store=key[2],
        latest_version=latest,
        snapshots=snapshots,
        restorable=spans.restorable(snapshots, changes),
        files=store.files,
        bytes=store.bytes,
        rows=rows,
        metadata_version=opened.version if opened is not None else 0,
        written_ms=store.written_ms,
    )


def _rows(
    name: Fact[str],
    stores: tuple[StoreSeen, ...],
    unlisted: tuple[UnreadableFile, ...],
    reported: Mapping[str, int],
) -> int | Unknown:
    if isinstance(name, Known) and name.value in reported:
        return reported[name.value]
    if unlisted:
        return Unknown(reason=unlisted[0].told)
    total = 0
    for store in stores:
        if store.store.endswith(_KEY_COUNTS):
            continue  # a join keeps every row in another store, and here how many there are
        if isinstance(store.rows, Unknown):
            return store.rows
        total += store.rows
    return total


def _name(operator: int, tree: Tree, described: _Described) -> Fact[str]:
    if operator in described.metadata:
        path, metadata = described.metadata[operator]
        return Known(value=metadata.name, read_from=(path,))
    path = tree.operator_metadata.get(operator, (0, ""))[1]
    if path in described.unreadable:
        return described.unreadable[path]
    for one in _unlisted(tree):
        if one.path in (f"state/{operator}", f"state/{operator}/_metadata"):
            return one
    joins = [k[2] for k in tree.stores if k[0] == operator and _JOIN_STORE.fullmatch(k[2])]
    if joins:
        reason = f"{_NO_NAME}; only a stream-stream join has a state store `{joins[0]}`"
        return Known(value="symmetricHashJoin", read_from=(f"state/{operator}",), inferred=reason)
    path, schema = described.schemas.get((operator, "default"), ("", None))
    kind = _kind(schema.families[0]) if schema and len(schema.families) == 1 else ""
    if kind:
        reason = f"{_NO_NAME}; by the columns of its state"
        return Known(value=kind, read_from=(path,), inferred=reason)
    return Unknown(reason=_NO_NAME)


def _kind(family: ColumnFamily) -> str:
    """The operator whose state has such columns; nothing where several have.

    A state of the user's own has a column of its own name in format 2, and any in format 1, where
    the time of its end comes last.
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
    return "stateStoreSave"


def _schema(operator: int, described: _Described) -> dict[str, tuple[ColumnFamily, ...]]:
    return {
        store: schema.families
        for (own, store), (_, schema) in sorted(described.schemas.items())
        if own == operator
    }
