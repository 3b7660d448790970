"""Operator metadata, state schemas and snapshots -> what they say about the operators.

Only metadata shows which schemas of version 3 are in use: a start that failed may have left others,
with higher numbers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from holdfast.decode import operator_metadata, state_schema
from holdfast.gather.inventory.read import make_unreadable
from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.gather.state import snapshots, stores
from holdfast.model.checkpoint import OperatorMetadata, StateSchema
from holdfast.model.fact import Unreadable, UnreadableFile
from holdfast.storage import Missing, Piece, Reader, Refused

_MOST_BYTES = 16 << 20
_MOST_SCHEMAS = 256


@dataclass(slots=True)
class Descriptions(stores.OpenedSnapshots):
    """What files say about operators, as far as they can be read."""

    metadata: dict[int, tuple[str, OperatorMetadata]] = field(default_factory=dict)
    schemas: dict[tuple[int, str], tuple[str, StateSchema]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)


def read(reader: Reader, tree: CheckpointTree, logged: stores.LoggedState) -> Descriptions:
    """Return metadata, schemas and snapshots; metadata is read before the schemas that it names."""
    descriptions = Descriptions()
    files = {
        files.find_for_or_newest(logged.loads): n for n, files in tree.operator_metadata.items()
    }
    schemas = {path: key for key, (number, path) in tree.schemas.items() if number < 0}
    zips = snapshots.choose_zips(tree.stores, logged)
    for path, data in _read_files(reader, descriptions, [*files, *schemas, *zips]):
        if path in zips:
            snapshot = zips[path]
            snapshots.take(descriptions, reader, path, snapshot, tree.stores[snapshot.key], data)
        elif path in files:
            _take_metadata(descriptions, files[path], path, data)
        else:
            _take_schema(descriptions, schemas[path], path, data)
    in_use = _find_schemas_in_use(tree, descriptions)
    contents = dict(_read_files(reader, descriptions, list(in_use)))
    for path, key in in_use.items():
        if path in contents:
            _take_schema(descriptions, key, path, contents[path])
        elif path not in descriptions.unreadable:
            descriptions.lost.append(path)
    return descriptions


def _read_files(
    reader: Reader, descriptions: Descriptions, paths: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """Yield the files that exist and can be read."""
    for piece, data in reader.read([Piece(path=path, most=_MOST_BYTES) for path in paths]):
        if isinstance(data, Refused):
            descriptions.unreadable[piece.path] = make_unreadable(piece.path, data)
        elif not isinstance(data, Missing):
            yield piece.path, data


def _find_schemas_in_use(
    tree: CheckpointTree, descriptions: Descriptions
) -> dict[str, tuple[int, str]]:
    """Return the schemas of version 3 that metadata names, by their paths here; else the newest.

    If there are several, the last one is current; older rows still have the others.
    """
    in_use: dict[str, tuple[int, str]] = {}
    for operator, (_, metadata) in descriptions.metadata.items():
        for store in metadata.stores:
            for path in store.schema_paths[-_MOST_SCHEMAS:]:
                _, inside, name = path.rpartition(f"/state/{operator}/_stateSchema/")
                if inside:
                    in_use[f"{inside[1:]}{name}"] = (operator, store.name)
    named = {operator for operator, _ in in_use.values()}
    newest = {path: key for key, (number, path) in tree.schemas.items() if number >= 0}
    return {**in_use, **{path: key for path, key in newest.items() if key[0] not in named}}


def _take_metadata(descriptions: Descriptions, operator: int, path: str, data: bytes) -> None:
    decoded = operator_metadata.decode(data)
    if isinstance(decoded, Unreadable):
        descriptions.unreadable[path] = UnreadableFile(path=path, reason=decoded.reason)
    else:
        descriptions.metadata[operator] = (path, decoded)


def _take_schema(descriptions: Descriptions, key: tuple[int, str], path: str, data: bytes) -> None:
    decoded = state_schema.decode(data)
    if isinstance(decoded, Unreadable):
        descriptions.unreadable[path] = UnreadableFile(path=path, reason=decoded.reason)
    else:
        descriptions.schemas[key] = (path, decoded)
