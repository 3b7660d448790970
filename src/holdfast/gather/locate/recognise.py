"""The contents of a folder -> is it a checkpoint, and if not, what does it look like?

A checkpoint is a folder with an offset log or a commit log, or with the `metadata` of a query that
has planned no batch yet. Either log may be missing: git and object stores do not keep empty
folders, and people delete things.
"""

import re

from holdfast.decode import metadata
from holdfast.model.checkpoint import QueryMetadata
from holdfast.storage import Children, Missing, Piece, Reader, Refused
from holdfast.storage.reader import join_path

PARTS = frozenset({"offsets", "commits", "sources", "state"})
RDDS = "checkpoints of RDDs, which streaming queries do not use"
_LOGS = frozenset({"offsets", "commits"})
_TABLES = {
    "_delta_log": "a Delta table",
    "_spark_metadata": "the output folder of Spark's file sink",
    ".hoodie": "a Hudi table",
}
_RDD = re.compile(r"rdd-\d+")
_FLINK = re.compile(r"chk-\d+|savepoint-[0-9a-f-]+")
_PART_FILE = re.compile(r"part-\d{5}(-.*)?")
_ENTRY = re.compile(r"0|[1-9]\d*")
_DSTREAM = re.compile(r"checkpoint-\d+(\.bk)?")
_EVENTS = re.compile(
    r"(eventlog_v2_|events_\d+_|appstatus_|application_\d+_|(local|app)-\d{13,}).*"
)
_OF_A_SOURCE = re.compile(r"(.*/)?sources/\d+")
_SMALL = 64 << 10


def is_checkpoint(reader: Reader, folder: str, inside: Children, above: str = "") -> bool:
    """Return whether a folder is a checkpoint; reads more only if its names do not decide it.

    `above` is the name of the reader's own folder.
    """
    parts = PARTS & set(inside.folders)
    has_metadata = any(file.name == "metadata" for file in inside.files)
    if parts & _LOGS and (has_metadata or len(parts) > 1):
        return True
    if parts == {"offsets"} and _OF_A_SOURCE.fullmatch(join_path(above, folder).rstrip("/")):
        return False  # the private folder of an Iceberg source
    if any(_is_log(reader, join_path(folder, log)) for log in parts & _LOGS):
        return True
    if not any(file.name == "metadata" and file.size < _SMALL for file in inside.files):
        return False
    piece = Piece(path=join_path(folder, "metadata"), most=_SMALL)
    for _, data in reader.read([piece]):
        return isinstance(data, bytes) and isinstance(metadata.decode(data), QueryMetadata)
    return False


def _is_log(reader: Reader, folder: str) -> bool:
    """Return whether a folder is a log, by its contents, or by its name if it cannot be listed.

    A folder of checkpoints may be called `commits`. PostgreSQL has folders called `offsets` too,
    but numbers their files 0000.
    """
    match reader.children(folder):
        case Children(files=(), folders=()) | Refused():
            return True
        case Children(files=files):
            return any(_ENTRY.fullmatch(file.name) for file in files)
        case Missing():
            return False


def is_table(inside: Children) -> bool:
    """Return whether a folder has the log of a table: its `key=value` folders are partitions."""
    return bool(set(_TABLES) & set(inside.folders))


def may_be_iceberg(inside: Children) -> bool:
    """Return whether a folder looks like an Iceberg table, by names that any folder may have."""
    return {"metadata", "data"} <= set(inside.folders)


def describe_folder(path: str, inside: Children) -> str:
    """Return what a folder that is not a checkpoint looks like, or an empty text."""
    above, _, name = path.rpartition("/")
    folders, files = set(inside.folders), {file.name for file in inside.files}
    is_numbered = any(_ENTRY.fullmatch(entry) for entry in folders | files)
    tests = (
        *((log in folders, table) for log, table in _TABLES.items()),
        (may_be_iceberg(inside), "an Iceberg table"),
        (name == "_delta_log", "the log of a Delta table"),
        (name == "_spark_metadata", "the log of Spark's file sink"),
        (".holdfast" in folders and len(folders) == 1, "a folder of records without checkpoints"),
        (name in PARTS and is_numbered, f"possibly the folder `{name}` of a checkpoint"),
        (above == "sources" and "offsets" in folders, "the folder of a source in a checkpoint"),
        (_is_rdd(inside, files), "a checkpoint of an RDD, which streaming queries do not use"),
        (any(_DSTREAM.fullmatch(file) for file in files), "a checkpoint of DStreams, the old API"),
        (
            any(_EVENTS.fullmatch(entry) for entry in folders | files),
            "Spark event logs, which `--event-log` takes",
        ),
        (
            any(_FLINK.fullmatch(folder) for folder in folders)
            or (_FLINK.fullmatch(name) is not None and "_metadata" in files),
            "a Flink checkpoint",
        ),
        (any(_PART_FILE.match(file) for file in files), "output that Spark wrote"),
    )
    return next((description for is_so, description in tests if is_so), "")


def find_rdds(inside: Children) -> frozenset[str]:
    """Return the subfolders that are checkpoints of RDDs."""
    return frozenset(name for name in inside.folders if _RDD.fullmatch(name))


def _is_rdd(inside: Children, files: set[str]) -> bool:
    if find_rdds(inside) or "_partitioner" in files:
        return True
    return bool(files) and all(re.fullmatch(r"\.?part-\d{5}(\.crc)?", file) for file in files)
