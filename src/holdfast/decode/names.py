"""The path of a file, relative to its checkpoint -> CheckpointFile.

    metadata
    offsets/7                      commits/7
    sources/0/7                    sources/0/9.compact      sources/<name>/…
    state/0/_metadata/metadata     state/0/_metadata/v2/7   operator metadata, versions 1 and 2
    state/0/_stateSchema/default/7_<uuid>
    state/0/3/8.delta              state/0/3/8.snapshot     operator 0, partition 3, version 8
    state/0/3/8.zip                state/0/3/8.changelog    RocksDB; 8_<uuid>.zip in state format 2
    state/0/3/SSTs/7-<uuid>.sst    state/0/3/logs/7-<uuid>.log
    state/0/3/<store>/8.delta      …                        a folder per store if there are several
    state/0/0/_metadata/schema     state/0/0/<store>/_metadata/schema

Beside each of them may be Hadoop's `.<name>.crc`, Spark's `<name>.crc` (under `state`), and
`.<name>.<uuid>.tmp`, which was never renamed to `<name>`. Spark 2 wrote state as `temp-<n>` and
snapshots as `<name>.temp-<n>`.

A file is foreign if its number is one that Spark would not write: more than 64 bits, a sign, or
leading zeros. Spark counts `007` as 7, and then looks for `7`.
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
    """What a folder implies for its files, and the function that reads their names."""

    read: "Callable[[_Folder, str], CheckpointFile | None]"
    kind: FileKind = FileKind.FOREIGN
    source: str = ""
    operator: int | None = None
    partition: int | None = None
    store: str = ""
    in_state: bool = False


def classify(path: str) -> CheckpointFile:
    """Return the kind of a file, from its path alone; any text gives an answer."""
    folder, _, name = path.rpartition("/")
    place = _classify_folder(folder)
    if name[-4:] == ".crc":
        covered = name[1:-4] if name[0] == "." else name[:-4] if place.in_state else ""
        if covered:
            kind = FileKind.HADOOP_CHECKSUM if name[0] == "." else FileKind.SPARK_CHECKSUM
            covered_path = f"{folder}/{covered}" if folder else covered
            file = place.read(place, covered) or _classify_other(place, covered)
            return _new((kind, *file[1:-1], covered_path))
    return place.read(place, name) or _classify_other(place, name)


_MISPLACED = (
    re.compile(r"state/(?P<operator>\d+)/\d+/(?P<partition>\d+)(?P<store>/[^\d/][^/]*)?"),
    re.compile(r"state/(?P<partition>\d+)(?P<store>/[^\d/_][^/]*)?"),
    re.compile(r"state/state/(?P<operator>\d+)/(?P<partition>\d+)(?P<store>/[^\d/_][^/]*)?"),
    re.compile(r"(?P<operator>\d+)/(?P<partition>\d+)(?P<store>/[^\d/_][^/]*)?"),
)


def is_state_data(name: str) -> bool:
    """Return whether a file has the name of a version of a state store."""
    return _match_state_file(_Folder(_match_nothing), name) is not None


def find_misplaced_partition(folder: str) -> tuple[str, str] | None:
    """Return a state partition that is a level too deep or too high, and its right place."""
    for pattern in _MISPLACED:
        match = pattern.fullmatch(folder)
        if match is not None:
            operator = match.groupdict().get("operator", "0")
            partition_folder = folder.removesuffix(match["store"] or "")
            return partition_folder, f"state/{operator}/{match['partition']}"
    return None


def _make_file(
    place: _Folder, kind: FileKind, number: int | None, unique_id: str = ""
) -> CheckpointFile:
    return _new((kind, number, unique_id, *place[2:6], ""))


def _classify_other(place: _Folder, name: str) -> CheckpointFile:
    """Classify a file that does not belong in its folder."""
    if name[:1] == "." and name.endswith(".tmp"):
        return _make_file(place, FileKind.TEMPORARY, None)
    if place.in_state and (name.startswith("temp-") or ".temp-" in name):
        return _make_file(place, FileKind.TEMPORARY, None)
    return _make_file(place, FileKind.SOURCE_PRIVATE if place.source else FileKind.FOREIGN, None)


def _parse_number(text: str) -> int | None:
    if not (text.isdigit() and text.isascii()) or len(text) > _MOST_DIGITS:
        return None
    if text[0] == "0" and len(text) > 1:
        return None
    number = int(text)
    return number if number <= _LARGEST else None


def _match_nothing(_place: _Folder, _name: str) -> CheckpointFile | None:
    return None


def _make_name_matcher(expected: str) -> Callable[[_Folder, str], CheckpointFile | None]:
    def read(place: _Folder, name: str) -> CheckpointFile | None:
        return _make_file(place, place.kind, None) if name == expected else None

    return read


_match_metadata, _match_schema = _make_name_matcher("metadata"), _make_name_matcher("schema")


def _match_number(place: _Folder, name: str) -> CheckpointFile | None:
    number = _parse_number(name)
    return None if number is None else _make_file(place, place.kind, number)


def _match_source_log(place: _Folder, name: str) -> CheckpointFile | None:
    kind = FileKind.SOURCE_LOG
    if name.endswith(_COMPACT):
        name, kind = name[: -len(_COMPACT)], FileKind.SOURCE_COMPACT
    number = _parse_number(name)
    return None if number is None else _make_file(place, kind, number)


def _match_state_file(place: _Folder, name: str) -> CheckpointFile | None:
    stem, _, ending = name.partition(".")
    kind = _STATE_FILES.get(ending)
    version, _, unique_id = stem.partition("_")
    number = None if kind is None else _parse_number(version)
    return None if kind is None or number is None else _make_file(place, kind, number, unique_id)


def _match_rocksdb_file(place: _Folder, name: str) -> CheckpointFile | None:
    """Match `000007-<uuid>.sst`: RocksDB writes its numbers with leading zeros."""
    stem, _, ending = name.partition(".")
    digits, _, unique_id = stem.partition("-")
    expected = "sst" if place.kind is FileKind.STATE_SST else "log"
    number = _parse_number(digits.lstrip("0") or "0") if digits and ending == expected else None
    return None if number is None else _make_file(place, place.kind, number, unique_id)


def _match_evolved_schema(place: _Folder, name: str) -> CheckpointFile | None:
    batch, _, unique_id = name.partition("_")
    number = _parse_number(batch) if unique_id else None
    return None if number is None else _make_file(place, place.kind, number, unique_id)


_LOGS = {
    "": _Folder(_match_metadata, FileKind.METADATA),
    "offsets": _Folder(_match_number, FileKind.OFFSETS),
    "commits": _Folder(_match_number, FileKind.COMMITS),
}
_ROCKSDB_FOLDERS = {"SSTs": FileKind.STATE_SST, "logs": FileKind.STATE_LOG}


@lru_cache(maxsize=1 << 12)
def _classify_folder(folder: str) -> _Folder:
    """Return the purpose of a folder; cached, because a state folder contains many files."""
    match folder.split("/"):
        case [log] if log in _LOGS:
            return _LOGS[log]
        case ["sources", source, *rest]:
            return _Folder(_match_nothing if rest else _match_source_log, source=source)
        case ["state", operator, *rest]:
            number = _parse_number(operator)
            if number is not None:
                return _classify_state_folder(
                    _Folder(_match_nothing, operator=number, in_state=True), rest
                )
            return _Folder(_match_nothing, in_state=True)
        case _:
            return _Folder(_match_nothing, in_state=folder == "state")


def _classify_state_folder(place: _Folder, parts: list[str]) -> _Folder:
    match parts:
        case ["_metadata"]:
            return place._replace(read=_match_metadata, kind=FileKind.OPERATOR_METADATA)
        case ["_metadata", "v2"]:
            return place._replace(read=_match_number, kind=FileKind.OPERATOR_METADATA)
        case ["_stateSchema", store]:
            return place._replace(
                read=_match_evolved_schema, kind=FileKind.STATE_SCHEMA, store=store
            )
        case [partition, *rest]:
            number = _parse_number(partition)
            return (
                place
                if number is None
                else _classify_partition_folder(place._replace(partition=number), rest)
            )
        case _:
            return place


def _classify_partition_folder(place: _Folder, parts: list[str]) -> _Folder:
    """Classify a folder of a partition, which has one store or several."""
    if parts and parts[0] != "_metadata" and parts[0] not in _ROCKSDB_FOLDERS:
        return _classify_store_folder(place._replace(store=parts[0]), parts[1:])
    return _classify_store_folder(place._replace(store=_DEFAULT_STORE), parts)


def _classify_store_folder(place: _Folder, parts: list[str]) -> _Folder:
    match parts:
        case []:
            return place._replace(read=_match_state_file)
        case ["_metadata"]:
            return place._replace(read=_match_schema, kind=FileKind.STATE_SCHEMA)
        case [folder] if folder in _ROCKSDB_FOLDERS:
            return place._replace(read=_match_rocksdb_file, kind=_ROCKSDB_FOLDERS[folder])
        case _:
            return place
