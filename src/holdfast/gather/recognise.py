"""Stage 2: what lies in a folder -> is it a checkpoint, and if not, what does it look like?

A checkpoint is a folder with an offset log or a commit log, or with the `metadata` of a query
that has planned no batch yet. Either log may be missing: git and object stores keep no empty
folder, and people delete things.
"""

import re
from collections.abc import Iterator

from holdfast.decode import metadata
from holdfast.model.checkpoint import QueryMetadata
from holdfast.storage import Children, Missing, Piece, Reader, Refused
from holdfast.storage.reader import joined

_PARTS = frozenset({"offsets", "commits", "sources", "state"})
_RDD = re.compile(r"rdd-\d+")
_PART_FILE = re.compile(r"part-\d{5}(-.*)?")
_ENTRY = re.compile(r"0|[1-9]\d*")
_SMALL = 64 << 10
_DEEPEST = 12
_MOST_FOLDERS = 50_000
_TOGETHER = 16
_SKIPPED = frozenset({".holdfast", "_delta_log", "_spark_metadata", "_temporary"})


def is_checkpoint(reader: Reader, folder: str, inside: Children) -> bool:
    """Whether a folder is a checkpoint; reads its `metadata` only where the folders do not tell."""
    parts = _PARTS & set(inside.folders)
    if parts == {"offsets"} and folder.split("/")[-2:-1] == ["sources"]:
        return False  # Iceberg's private folder of a source
    named = any(file.name == "metadata" for file in inside.files)
    if parts & {"commits"} or (parts & {"offsets"} and (named or len(parts) > 1)):
        return True
    if parts and _has_entry(reader, joined(folder, "offsets")):
        return True  # PostgreSQL, too, keeps folders named `offsets`, but numbers their files 0000
    if not any(file.name == "metadata" and file.size < _SMALL for file in inside.files):
        return False
    piece = Piece(path=joined(folder, "metadata"), most=_SMALL)
    for _, data in reader.read([piece]):
        return isinstance(data, bytes) and isinstance(metadata.decode(data), QueryMetadata)
    return False


def _has_entry(reader: Reader, folder: str) -> bool:
    inside = reader.children(folder)
    return isinstance(inside, Children) and (
        not inside.files or any(_ENTRY.fullmatch(file.name) for file in inside.files)
    )


def look_alike(path: str, inside: Children) -> str:
    """What a folder that is no checkpoint looks like, or nothing; by its path and what is in it."""
    above, _, name = path.rpartition("/")
    folders, files = set(inside.folders), {file.name for file in inside.files}
    tests = (
        ("_delta_log" in folders, "a Delta table"),
        ("_spark_metadata" in folders, "the output folder of Spark's file sink"),
        (".hoodie" in folders, "a Hudi table"),
        ({"metadata", "data"} <= folders, "an Iceberg table"),
        (name == "_delta_log", "the log of a Delta table"),
        (name == "_spark_metadata", "the log of Spark's file sink"),
        (".holdfast" in folders and len(folders) == 1, "a folder of records without checkpoints"),
        (name in _PARTS, f"the folder `{name}` of a checkpoint, and not the checkpoint itself"),
        (above == "sources" and "offsets" in folders, "the folder of a source, in a checkpoint"),
        (_has_rdd(folders, files), "a checkpoint of an RDD, which no streaming query has"),
        (any(_PART_FILE.match(one) for one in files), "output that Spark has written"),
    )
    return next((what for holds, what in tests if holds), "")


def _has_rdd(folders: set[str], files: set[str]) -> bool:
    if any(_RDD.fullmatch(one) for one in folders) or "_partitioner" in files:
        return True
    return bool(files) and all(re.fullmatch(r"\.?part-\d{5}(\.crc)?", one) for one in files)


def below(reader: Reader) -> Iterator[str | Refused]:
    """Every checkpoint below a folder, level by level; also those inside of other checkpoints.

    What cannot be listed may hold more of them.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  slow to load, seldom used

    level, seen = [""], 0
    with ThreadPoolExecutor(_TOGETHER) as pool:
        for _ in range(_DEEPEST):
            deeper: list[str] = []
            looked = pool.map(lambda folder: (folder, reader.children(folder)), level)
            for folder, inside in looked:
                if isinstance(inside, Missing):
                    continue
                if isinstance(inside, Refused):
                    yield inside
                    continue
                found = is_checkpoint(reader, folder, inside)
                if found:
                    yield folder
                else:
                    yield from inside.refused
                hidden = _SKIPPED | (_PARTS if found else frozenset())
                deeper += [joined(folder, one) for one in inside.folders if one not in hidden]
            seen += len(deeper)
            level = deeper if seen <= _MOST_FOLDERS else []
