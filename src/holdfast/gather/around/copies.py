"""Stage 2: a checkpoint -> checkpoints near it with the same query id. Reads only.

    <base>/…/metadata          above it: a checkpoint that it lies inside of, or beside that
    <parent>/*/*/metadata      below the folder that it lies in, some levels deep
    <itself>/*/metadata        inside it

Those directly beside it are looked for elsewhere. Only a few folders are listed, the nearest first.
On remote storage none is: a table near it may have so many files that a listing takes minutes.
"""

from collections.abc import Iterator, Sequence

from holdfast.decode import metadata
from holdfast.gather.evidence import CheckpointPlace
from holdfast.gather.inventory.read import decode_file
from holdfast.model.checkpoint import QueryMetadata
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Known
from holdfast.model.ids import QueryId
from holdfast.model.surroundings import CheckpointCopy
from holdfast.storage import Children, Piece, Reader, open_reader, urls

_MOST_LISTED = 40
_MOST_READ = 100
_DEEPEST = 3
_SMALL = 64 << 10


def find(place: CheckpointPlace, evidence: Evidence) -> tuple[CheckpointCopy, ...]:
    """Return the checkpoints near one that have its query id, but for those beside it."""
    if place.beside is None or not isinstance(evidence.query_id, Known):
        return ()
    own = evidence.query_id.value
    parent = place.url.rpartition("/")[0]
    local = urls.is_local(place.url)
    below = _find_below(place.beside, place.name) if local else []
    found = [
        *_find_with_id(place.reader, place.url, evidence.nested, own),
        *_find_with_id(place.beside, parent, below, own),
    ]
    grandparent, _, name = parent.rpartition("/")
    if grandparent.partition("://")[2].strip("/") or grandparent.strip("/").count("/"):
        above = open_reader(grandparent, place.storage)
        listed = above.children("") if local else None
        folders = listed.folders if isinstance(listed, Children) else ()
        inside = [one for one in folders if one != name]
        found += _find_with_id(above, grandparent, ["", name, *inside], own)
    return tuple({one.location: one for one in found}.values())


def _find_below(reader: Reader, own: str) -> list[str]:
    """The checkpoints two levels or more below a folder."""
    found: list[str] = []
    waiting = [("", 0)]
    listed = 0
    while waiting and listed < _MOST_LISTED:
        folder, depth = waiting.pop(0)
        inside = reader.children(folder)
        listed += 1
        if not isinstance(inside, Children):
            continue
        if any(one.name == "metadata" for one in inside.files) and "offsets" in inside.folders:
            found += [folder] if depth > 1 else []
            continue
        if depth < _DEEPEST:
            waiting += (
                (f"{folder}/{name}" if folder else name, depth + 1)
                for name in inside.folders
                if not name.startswith((".", "_")) and (folder or name != own)
            )
    return found


def _find_with_id(
    reader: Reader, url: str, folders: Sequence[str], own: QueryId
) -> Iterator[CheckpointCopy]:
    places = {_join(folder, "metadata"): folder for folder in folders[:_MOST_READ]}
    for piece, data in reader.read([Piece(path=path, most=_SMALL) for path in places]):
        told = decode_file(data, metadata.decode)
        if isinstance(told, QueryMetadata) and told.query_id == own:
            folder = places[piece.path]
            offsets = reader.children(_join(folder, "offsets"))
            batches = (
                [int(one.name) for one in offsets.files if one.name.isdecimal()]
                if isinstance(offsets, Children)
                else []
            )
            yield CheckpointCopy(location=_join(url, folder), last_planned=max(batches, default=-1))


def _join(above: str, below: str) -> str:
    return f"{above}/{below}" if above and below else above or below
