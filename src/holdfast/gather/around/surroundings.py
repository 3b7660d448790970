"""Stage 2: what lies around a checkpoint -> Surroundings. Reads only.

The storage that it is on, the checkpoints beside it, the files and tables that its sources read,
and, where a cluster is named, what Kafka still has.
"""

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from holdfast.decode import metadata
from holdfast.gather.around import copies, landing, topics
from holdfast.gather.evidence import CheckpointPlace
from holdfast.gather.inventory.read import decode_file
from holdfast.model.checkpoint import QueryMetadata
from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.fact import Known, Unknown
from holdfast.model.source_offset import DeltaOffset, FileOffset
from holdfast.model.surroundings import DeltaHistory, KafkaCluster, LocationFacts, Surroundings
from holdfast.storage import Children, Piece, mounts, open_reader, urls

_MOST_BESIDE = 100
_SMALL = 64 << 10
_COMMIT = re.compile(r"(\d{20})\.json")
_DELTA_SOURCE = re.compile(r"DeltaSource\[(?P<path>.+)\]")
_ELSEWHERE = Unknown(reason="the files are not on this machine")
_NOT_ASKED = Unknown(reason="no cluster was named; name it with `--kafka SERVERS`")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """What to look up beyond the storage, and the settings of the start to come."""

    kafka: str
    asked: Mapping[str, str]


def collect(place: CheckpointPlace, evidence: Evidence, wishes: LookupOptions) -> Surroundings:
    """Everything around a checkpoint that can be looked up."""
    return Surroundings(
        location=_describe_location(place.url),
        files_gone=_find_missing_files(evidence),
        landing=landing.inspect(place, evidence),
        same_query=_find_same_query(place, evidence),
        delta={
            one.name: _read_table(one, place.storage)
            for one in evidence.sources
            if isinstance(one.offset, DeltaOffset)
        },
        kafka=_ask_kafka(evidence, wishes.kafka),
        start_settings=wishes.asked,
        copies=copies.find(place, evidence),
    )


def _describe_location(url: str) -> LocationFacts:
    path = str(urls.to_local_path(url).resolve()) if urls.is_local(url) else None
    return LocationFacts(
        url=url,
        path=path,
        temporary=str(Path(tempfile.gettempdir()).resolve()),
        file_system=mounts.find_file_system(path) if path else "",
        checkpoint_above=None,
    )


def _find_missing_files(evidence: Evidence) -> tuple[str, ...] | Unknown:
    named = [
        path
        for source in evidence.sources
        if isinstance(source.offset, FileOffset) and source.same_as is None
        for path in source.files
    ]
    local = [path for path in named if path.startswith(("file:", "/"))]
    if len(local) < len(named):
        return _ELSEWHERE
    try:
        gone = [path for path in local if not _exists(_to_path(path))]
        # A copy of a checkpoint names folders of the machine, or the container, that wrote it.
        sure = tuple(path for path in gone if _exists(_find_folder(path)))
    except PermissionError as error:
        return Unknown(reason=f"this user may not look at `{error.filename}`")
    if gone and not sure:
        return Unknown(reason=f"their folder `{_find_folder(gone[0])}` is not on this machine")
    return sure


def _find_folder(path: str) -> Path:
    return Path(landing.strip_partitions(str(_to_path(path).parent)))


def _to_path(path: str) -> Path:
    return Path("/" + unquote(path.removeprefix("file:")).lstrip("/"))


def _exists(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        raise
    except (OSError, ValueError):
        return False  # a name that no file can have
    return True


def _find_same_query(place: CheckpointPlace, evidence: Evidence) -> tuple[str, ...] | Unknown:
    if place.beside is None:
        return Unknown(reason="nothing lies beside it")
    if not isinstance(evidence.query_id, Known):
        return Unknown(reason="its own query id is not known")
    beside = place.beside.children("")
    if not isinstance(beside, Children):
        return Unknown(reason="the folder that it lies in cannot be listed")
    names = [one for one in beside.folders if one != place.name][:_MOST_BESIDE]
    pieces = [Piece(path=f"{one}/metadata", most=_SMALL) for one in names]
    parent = place.url.rpartition("/")[0]
    found = []
    for piece, data in place.beside.read(pieces):
        told = decode_file(data, metadata.decode)
        if isinstance(told, QueryMetadata) and told.query_id == evidence.query_id.value:
            found.append(f"{parent}/{piece.path.removesuffix('/metadata')}")
    return tuple(found)


def _read_table(source: SourceEvidence, storage: Mapping[str, str]) -> DeltaHistory | Unknown:
    told = _DELTA_SOURCE.fullmatch(source.described)
    if told is None:
        return Unknown(reason="no run record or event log names its path")
    path = urls.to_canonical(told["path"])
    log = open_reader(path, storage).children("_delta_log")
    if not isinstance(log, Children):
        return Unknown(reason=f"`{path}` has no log that can be listed")
    commits = [_COMMIT.fullmatch(file.name) for file in log.files]
    versions = sorted(int(one[1]) for one in commits if one)
    if not versions:
        return Unknown(reason=f"`{path}` has no commit in its log")
    first = versions[-1]
    for version in reversed(versions[:-1]):
        if version != first - 1:
            break
        first = version
    return DeltaHistory(
        path=path,
        table_id=_read_table_id(path, storage),
        first_version=first,
        last_version=versions[-1],
    )


def _read_table_id(path: str, storage: Mapping[str, str]) -> str:
    from holdfast.sinks.delta import table

    place = table.Place(path=path, options=storage, partition_by=(), properties={})
    opened = place.open()
    return str(opened.metadata().id) if opened else ""


def _ask_kafka(evidence: Evidence, servers: str) -> KafkaCluster | Unknown:
    return topics.fetch_offsets(evidence, servers) if servers else _NOT_ASKED
