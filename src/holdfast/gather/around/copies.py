"""A checkpoint -> checkpoints near it with the same query id. Reads only.

    <base>/…/metadata          above: a checkpoint that contains this one, or one beside that
    <parent>/*/*/metadata      below the parent folder, some levels deep
    <itself>/*/metadata        inside this checkpoint

`surroundings.py` finds the checkpoints in the same folder. Only a few folders are listed, the
nearest first. On remote storage none is listed: a table nearby may have so many files that a
listing takes minutes.
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
    """Return nearby checkpoints with the same query id, except those in the same folder."""
    if place.parent is None or not isinstance(evidence.query_id, Known):
        return ()
    own = evidence.query_id.value
    parent = place.url.rpartition("/")[0]
    local = urls.is_local(place.url)
    below = _find_below(place.parent, place.name) if local else []
    copies = [
        *_find_with_id(place.reader, place.url, evidence.nested, own),
        *_find_with_id(place.parent, parent, below, own),
    ]
    grandparent, _, name = parent.rpartition("/")
    if grandparent.partition("://")[2].strip("/") or grandparent.strip("/").count("/"):
        above = open_reader(grandparent, place.storage)
        listed = above.children("") if local else None
        folders = listed.folders if isinstance(listed, Children) else ()
        others = [folder for folder in folders if folder != name]
        copies += _find_with_id(above, grandparent, ["", name, *others], own)
    return tuple({copy.location: copy for copy in copies}.values())


def _find_below(reader: Reader, own: str) -> list[str]:
    """Return the checkpoints two levels or more below a folder."""
    checkpoints: list[str] = []
    waiting = [("", 0)]
    listed = 0
    while waiting and listed < _MOST_LISTED:
        folder, depth = waiting.pop(0)
        inside = reader.children(folder)
        listed += 1
        if not isinstance(inside, Children):
            continue
        if any(file.name == "metadata" for file in inside.files) and "offsets" in inside.folders:
            checkpoints += [folder] if depth > 1 else []
            continue
        if depth < _DEEPEST:
            waiting += (
                (f"{folder}/{name}" if folder else name, depth + 1)
                for name in inside.folders
                if not name.startswith((".", "_")) and (folder or name != own)
            )
    return checkpoints


def _find_with_id(
    reader: Reader, url: str, folders: Sequence[str], own: QueryId
) -> Iterator[CheckpointCopy]:
    places = {_join(folder, "metadata"): folder for folder in folders[:_MOST_READ]}
    for piece, data in reader.read([Piece(path=path, most=_SMALL) for path in places]):
        decoded = decode_file(data, metadata.decode)
        if isinstance(decoded, QueryMetadata) and decoded.query_id == own:
            folder = places[piece.path]
            offsets = reader.children(_join(folder, "offsets"))
            batches = (
                [int(file.name) for file in offsets.files if file.name.isdecimal()]
                if isinstance(offsets, Children)
                else []
            )
            yield CheckpointCopy(location=_join(url, folder), last_planned=max(batches, default=-1))


def _join(above: str, below: str) -> str:
    return f"{above}/{below}" if above and below else above or below
