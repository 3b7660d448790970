"""Stage 2: operator metadata, state schemas and snapshots -> what they say of the operators.

Which schemas of version 3 are in use, only metadata tells: a start that was refused may have left
others, with later numbers.
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
    """What files say of operators, as far as they can be read."""

    metadata: dict[int, tuple[str, OperatorMetadata]] = field(default_factory=dict)
    schemas: dict[tuple[int, str], tuple[str, StateSchema]] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)


def read(reader: Reader, tree: CheckpointTree, logged: stores.LoggedState) -> Descriptions:
    """What describes the operators, and the snapshots; metadata before the schemas it names."""
    described = Descriptions()
    files = {files.shown(logged.loads): n for n, files in tree.operator_metadata.items()}
    schemas = {path: key for key, (number, path) in tree.schemas.items() if number < 0}
    zips = snapshots.choose_zips(tree.stores, logged)
    for path, data in _read_files(reader, described, [*files, *schemas, *zips]):
        if path in zips:
            one = zips[path]
            snapshots.take(described, reader, path, one, tree.stores[one.key], data)
        elif path in files:
            _take_metadata(described, files[path], path, data)
        else:
            _take_schema(described, schemas[path], path, data)
    in_use = _find_schemas_in_use(tree, described)
    found = dict(_read_files(reader, described, list(in_use)))
    for path, key in in_use.items():
        if path in found:
            _take_schema(described, key, path, found[path])
        elif path not in described.unreadable:
            described.lost.append(path)
    return described


def _read_files(
    reader: Reader, described: Descriptions, paths: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    """The files that are there and can be read."""
    for piece, data in reader.read([Piece(path=path, most=_MOST_BYTES) for path in paths]):
        if isinstance(data, Refused):
            described.unreadable[piece.path] = make_unreadable(piece.path, data)
        elif not isinstance(data, Missing):
            yield piece.path, data


def _find_schemas_in_use(
    tree: CheckpointTree, described: Descriptions
) -> dict[str, tuple[int, str]]:
    """The schemas of version 3 that metadata names, by their paths here; else the newest.

    Of several the last is the schema of today, the others those of rows that were not written anew.
    """
    in_use: dict[str, tuple[int, str]] = {}
    for operator, (_, metadata) in described.metadata.items():
        for store in metadata.stores:
            for path in store.schema_paths[-_MOST_SCHEMAS:]:
                _, inside, name = path.rpartition(f"/state/{operator}/_stateSchema/")
                if inside:
                    in_use[f"{inside[1:]}{name}"] = (operator, store.name)
    told = {operator for operator, _ in in_use.values()}
    newest = {path: key for key, (number, path) in tree.schemas.items() if number >= 0}
    return {**in_use, **{path: key for path, key in newest.items() if key[0] not in told}}


def _take_metadata(described: Descriptions, operator: int, path: str, data: bytes) -> None:
    decoded = operator_metadata.decode(data)
    if isinstance(decoded, Unreadable):
        described.unreadable[path] = UnreadableFile(path=path, reason=decoded.reason)
    else:
        described.metadata[operator] = (path, decoded)


def _take_schema(described: Descriptions, key: tuple[int, str], path: str, data: bytes) -> None:
    decoded = state_schema.decode(data)
    if isinstance(decoded, Unreadable):
        described.unreadable[path] = UnreadableFile(path=path, reason=decoded.reason)
    else:
        described.schemas[key] = (path, decoded)
