"""What is around a checkpoint -> Surroundings. Reads only.

Its storage, the checkpoints beside it, the files and tables that its sources read, and, if a
cluster is named, what Kafka still has.
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
_NO_CLUSTER = Unknown(reason="no cluster is named; name it with `--kafka SERVERS`")


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupOptions:
    """What to look up beyond the storage, and the settings of the next start."""

    kafka: str
    start_settings: Mapping[str, str]


def collect(place: CheckpointPlace, evidence: Evidence, options: LookupOptions) -> Surroundings:
    """Return everything around a checkpoint that can be looked up."""
    return Surroundings(
        location=_describe_location(place.url),
        files_gone=_find_missing_files(evidence),
        landing=landing.inspect(place, evidence),
        same_query=_find_same_query(place, evidence),
        delta={
            source.name: _read_table(source, place.storage)
            for source in evidence.sources
            if isinstance(source.offset, DeltaOffset)
        },
        kafka=_ask_kafka(evidence, options.kafka),
        start_settings=options.start_settings,
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
    paths = [
        path
        for source in evidence.sources
        if isinstance(source.offset, FileOffset) and source.same_as is None
        for path in source.files
    ]
    local = [path for path in paths if path.startswith(("file:", "/"))]
    if len(local) < len(paths):
        return _ELSEWHERE
    try:
        gone = [path for path in local if not _exists(_to_path(path))]
        # A copied checkpoint names folders of the machine or container that wrote it.
        certain = tuple(path for path in gone if _exists(_find_folder(path)))
    except PermissionError as error:
        return Unknown(reason=f"this user may not read `{error.filename}`")
    if gone and not certain:
        return Unknown(reason=f"their folder `{_find_folder(gone[0])}` is not on this machine")
    return certain


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
        return False  # also a name that no file can have
    return True


def _find_same_query(place: CheckpointPlace, evidence: Evidence) -> tuple[str, ...] | Unknown:
    if place.parent is None:
        return Unknown(reason="it has no parent folder")
    if not isinstance(evidence.query_id, Known):
        return Unknown(reason="its own query id is unknown")
    siblings = place.parent.children("")
    if not isinstance(siblings, Children):
        return Unknown(reason="its parent folder cannot be listed")
    names = [name for name in siblings.folders if name != place.name][:_MOST_BESIDE]
    pieces = [Piece(path=f"{name}/metadata", most=_SMALL) for name in names]
    parent = place.url.rpartition("/")[0]
    same = []
    for piece, data in place.parent.read(pieces):
        decoded = decode_file(data, metadata.decode)
        if isinstance(decoded, QueryMetadata) and decoded.query_id == evidence.query_id.value:
            same.append(f"{parent}/{piece.path.removesuffix('/metadata')}")
    return tuple(same)


def _read_table(source: SourceEvidence, storage: Mapping[str, str]) -> DeltaHistory | Unknown:
    description = _DELTA_SOURCE.fullmatch(source.described)
    if description is None:
        return Unknown(reason="no run record or event log names its path")
    path = urls.to_canonical(description["path"])
    log = open_reader(path, storage).children("_delta_log")
    if not isinstance(log, Children):
        return Unknown(reason=f"the log of `{path}` cannot be listed")
    commits = [_COMMIT.fullmatch(file.name) for file in log.files]
    versions = sorted(int(commit[1]) for commit in commits if commit)
    if not versions:
        return Unknown(reason=f"the log of `{path}` has no commits")
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

    place = table.DeltaLocation(path=path, options=storage, partition_by=(), properties={})
    opened = place.open()
    return str(opened.metadata().id) if opened else ""


def _ask_kafka(evidence: Evidence, servers: str) -> KafkaCluster | Unknown:
    return topics.fetch_offsets(evidence, servers) if servers else _NO_CLUSTER
