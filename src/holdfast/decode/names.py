"""Stage 1: the path of a file, relative to its checkpoint -> CheckpointFile.

    metadata
    offsets/7                      commits/7
    sources/0/7                    sources/0/9.compact      sources/<name>/…
    state/0/_metadata/metadata     state/0/_metadata/v2/7   the operator's metadata, 1 and 2
    state/0/_stateSchema/default/7_<uuid>
    state/0/3/8.delta              state/0/3/8.snapshot     operator 0, partition 3, version 8
    state/0/3/8.zip                state/0/3/8.changelog    RocksDB; 8_<uuid>.zip in state format 2
    state/0/3/SSTs/7-<uuid>.sst    state/0/3/logs/7-<uuid>.log
    state/0/3/<store>/8.delta      …                        one folder a store where there are more
    state/0/0/_metadata/schema     state/0/0/<store>/_metadata/schema

Beside any of them: `.<name>.crc` of Hadoop, `<name>.crc` of Spark (under `state`), and
`.<name>.<uuid>.tmp`, which a rename would have made `<name>`; Spark 2 wrote state as `temp-<n>`
and snapshots as `<name>.temp-<n>`.

A number that Spark would not write (beyond 64 bits, with a sign or zeros in front) makes no entry
of a log: such a file is foreign. Spark counts `007` as 7, and then looks for `7`.
"""

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

from holdfast.model.checkpoint import CheckpointFile, FileKind

_LARGEST = (1 << 63) - 1
_MOST_DIGITS = 19
_COMPACT = ".compact"
_STATE_FILES = {
    "delta": FileKind.STATE_DELTA,
    "snapshot": FileKind.STATE_SNAPSHOT,
    "zip": FileKind.STATE_ZIP,
    "changelog": FileKind.STATE_CHANGELOG,
}
_DEFAULT_STORE = "default"
_new = partial(tuple.__new__, CheckpointFile)


class _Folder(NamedTuple):
    """What a folder says of its files, and how their names are read."""

    read: "Callable[[_Folder, str], CheckpointFile | None]"
    kind: FileKind = FileKind.FOREIGN
    source: str = ""
    operator: int | None = None
    partition: int | None = None
    store: str = ""
    in_state: bool = False


def classify(path: str) -> CheckpointFile:
    """What a file is, by its path alone; any text gives an answer."""
    folder, _, name = path.rpartition("/")
    place = _place(folder)
    if name[-4:] == ".crc":
        covered = name[1:-4] if name[0] == "." else name[:-4] if place.in_state else ""
        if covered:
            kind = FileKind.HADOOP_CHECKSUM if name[0] == "." else FileKind.SPARK_CHECKSUM
            of = f"{folder}/{covered}" if folder else covered
            file = place.read(place, covered) or _other(place, covered)
            return _new((kind, *file[1:-1], of))
    return place.read(place, name) or _other(place, name)


_MISPLACED = (
    re.compile(r"state/(?P<operator>\d+)/\d+/(?P<partition>\d+)(?P<store>/[^\d/][^/]*)?"),
    re.compile(r"state/(?P<partition>\d+)(?P<store>/[^\d/_][^/]*)?"),
    re.compile(r"state/state/(?P<operator>\d+)/(?P<partition>\d+)(?P<store>/[^\d/_][^/]*)?"),
    re.compile(r"(?P<operator>\d+)/(?P<partition>\d+)(?P<store>/[^\d/_][^/]*)?"),
)


def is_state_data(name: str) -> bool:
    """Whether a file is called as a version of a state store is."""
    return _state_file(_Folder(_nothing), name) is not None


def misplaced_partition(folder: str) -> tuple[str, str] | None:
    """Return the partition of state that lies a level too deep or too high, and its right place."""
    for pattern in _MISPLACED:
        found = pattern.fullmatch(folder)
        if found is not None:
            operator = found.groupdict().get("operator", "0")
            own = folder.removesuffix(found["store"] or "")
            return own, f"state/{operator}/{found['partition']}"
    return None


def _file(
    place: _Folder, kind: FileKind, number: int | None, unique_id: str = ""
) -> CheckpointFile:
    return _new((kind, number, unique_id, *place[2:6], ""))


def _other(place: _Folder, name: str) -> CheckpointFile:
    """A file that is none of what its folder is for."""
    if name[:1] == "." and name.endswith(".tmp"):
        return _file(place, FileKind.TEMPORARY, None)
    if place.in_state and (name.startswith("temp-") or ".temp-" in name):
        return _file(place, FileKind.TEMPORARY, None)
    return _file(place, FileKind.SOURCE_PRIVATE if place.source else FileKind.FOREIGN, None)


def _number(text: str) -> int | None:
    if not (text.isdigit() and text.isascii()) or len(text) > _MOST_DIGITS:
        return None
    if text[0] == "0" and len(text) > 1:
        return None
    number = int(text)
    return number if number <= _LARGEST else None


def _nothing(_place: _Folder, _name: str) -> CheckpointFile | None:
    return None


def _called(expected: str) -> Callable[[_Folder, str], CheckpointFile | None]:
    def read(place: _Folder, name: str) -> CheckpointFile | None:
        return _file(place, place.kind, None) if name == expected else None

    return read


_metadata, _schema = _called("metadata"), _called("schema")


def _numbered(place: _Folder, name: str) -> CheckpointFile | None:
    number = _number(name)
    return None if number is None else _file(place, place.kind, number)


def _source_log(place: _Folder, name: str) -> CheckpointFile | None:
    kind = FileKind.SOURCE_LOG
    if name.endswith(_COMPACT):
        name, kind = name[: -len(_COMPACT)], FileKind.SOURCE_COMPACT
    number = _number(name)
    return None if number is None else _file(place, kind, number)


def _state_file(place: _Folder, name: str) -> CheckpointFile | None:
    stem, _, ending = name.partition(".")
    kind = _STATE_FILES.get(ending)
    version, _, unique_id = stem.partition("_")
    number = None if kind is None else _number(version)
    return None if kind is None or number is None else _file(place, kind, number, unique_id)


def _rocksdb_file(place: _Folder, name: str) -> CheckpointFile | None:
    """`000007-<uuid>.sst`: RocksDB writes its numbers with zeros in front."""
    stem, _, ending = name.partition(".")
    digits, _, unique_id = stem.partition("-")
    expected = "sst" if place.kind is FileKind.STATE_SST else "log"
    number = _number(digits.lstrip("0") or "0") if digits and ending == expected else None
    return None if number is None else _file(place, place.kind, number, unique_id)


def _evolved_schema(place: _Folder, name: str) -> CheckpointFile | None:
    batch, _, unique_id = name.partition("_")
    number = _number(batch) if unique_id else None
    return None if number is None else _file(place, place.kind, number, unique_id)


_LOGS = {
    "": _Folder(_metadata, FileKind.METADATA),
    "offsets": _Folder(_numbered, FileKind.OFFSETS),
    "commits": _Folder(_numbered, FileKind.COMMITS),
}
_ROCKSDB_FOLDERS = {"SSTs": FileKind.STATE_SST, "logs": FileKind.STATE_LOG}


@lru_cache(maxsize=1 << 12)
def _place(folder: str) -> _Folder:
    """What a folder is for; remembered, because a folder of state holds many files."""
    match folder.split("/"):
        case [log] if log in _LOGS:
            return _LOGS[log]
        case ["sources", source, *rest]:
            return _Folder(_nothing if rest else _source_log, source=source)
        case ["state", operator, *rest]:
            number = _number(operator)
            if number is not None:
                return _state(_Folder(_nothing, operator=number, in_state=True), rest)
            return _Folder(_nothing, in_state=True)
        case _:
            return _Folder(_nothing, in_state=folder == "state")


def _state(place: _Folder, parts: list[str]) -> _Folder:
    match parts:
        case ["_metadata"]:
            return place._replace(read=_metadata, kind=FileKind.OPERATOR_METADATA)
        case ["_metadata", "v2"]:
            return place._replace(read=_numbered, kind=FileKind.OPERATOR_METADATA)
        case ["_stateSchema", store]:
            return place._replace(read=_evolved_schema, kind=FileKind.STATE_SCHEMA, store=store)
        case [partition, *rest]:
            number = _number(partition)
            return place if number is None else _partition(place._replace(partition=number), rest)
        case _:
            return place


def _partition(place: _Folder, parts: list[str]) -> _Folder:
    """A folder of a partition: of its only store, or of one of its stores."""
    if parts and parts[0] != "_metadata" and parts[0] not in _ROCKSDB_FOLDERS:
        return _store(place._replace(store=parts[0]), parts[1:])
    return _store(place._replace(store=_DEFAULT_STORE), parts)


def _store(place: _Folder, parts: list[str]) -> _Folder:
    match parts:
        case []:
            return place._replace(read=_state_file)
        case ["_metadata"]:
            return place._replace(read=_schema, kind=FileKind.STATE_SCHEMA)
        case [folder] if folder in _ROCKSDB_FOLDERS:
            return place._replace(read=_rocksdb_file, kind=_ROCKSDB_FOLDERS[folder])
        case _:
            return place
