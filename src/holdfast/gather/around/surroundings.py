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
from holdfast.diagnose import locations
from holdfast.gather.around import copies, landing, topics
from holdfast.gather.evidence import Place
from holdfast.gather.inventory.read import decoded
from holdfast.model.checkpoint import QueryMetadata
from holdfast.model.evidence import Evidence, SourceSeen
from holdfast.model.fact import Known, Unknown
from holdfast.model.source_offset import DeltaOffset, FileOffset
from holdfast.model.surroundings import DeltaSeen, KafkaSeen, Surroundings
from holdfast.storage import Children, Piece, mounts, open_reader, urls

_MOST_BESIDE = 100
_SMALL = 64 << 10
_COMMIT = re.compile(r"(\d{20})\.json")
_DELTA_SOURCE = re.compile(r"DeltaSource\[(?P<path>.+)\]")
_ELSEWHERE = Unknown(reason="the files are not on this machine")
_NOT_ASKED = Unknown(reason="no cluster was named; name it with `--kafka SERVERS`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What to look up beyond the storage, and the settings of the start to come."""

    kafka: str
    asked: Mapping[str, str]


def seen(place: Place, evidence: Evidence, wishes: Wishes) -> Surroundings:
    """Everything around a checkpoint that can be looked up."""
    return Surroundings(
        ephemeral=_ephemeral(place.url),
        files_gone=_files_gone(evidence),
        landing=landing.seen(place, evidence),
        same_query=_same_query(place, evidence),
        delta={
            one.name: _table(one, place.storage)
            for one in evidence.sources
            if isinstance(one.offset, DeltaOffset)
        },
        kafka=_kafka(evidence, wishes.kafka),
        asked=wishes.asked,
        copies=copies.find_copies(place, evidence),
    )


def _ephemeral(url: str) -> str | Unknown:
    if not urls.is_local(url):
        return ""
    path = str(urls.local_path(url).resolve())
    facts = locations.BaseFacts(
        url=url,
        path=path,
        temporary=str(Path(tempfile.gettempdir()).resolve()),
        file_system=mounts.file_system(path),
        checkpoint_above=None,
    )
    refusal = locations.of_facts(facts, dev=False)
    return "" if refusal is None else refusal.message.rpartition("found ")[2]


def _files_gone(evidence: Evidence) -> tuple[str, ...] | Unknown:
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
        gone = [path for path in local if not _there(_located(path))]
        # A copy of a checkpoint names folders of the machine, or the container, that wrote it.
        sure = tuple(path for path in gone if _there(_folder(path)))
    except PermissionError as error:
        return Unknown(reason=f"this user may not look at `{error.filename}`")
    if gone and not sure:
        return Unknown(reason=f"their folder `{_folder(gone[0])}` is not on this machine")
    return sure


def _folder(path: str) -> Path:
    return Path(landing.above_partitions(str(_located(path).parent)))


def _located(path: str) -> Path:
    return Path("/" + unquote(path.removeprefix("file:")).lstrip("/"))


def _there(path: Path) -> bool:
    try:
        path.stat()
    except PermissionError:
        raise
    except (OSError, ValueError):
        return False  # a name that no file can have
    return True


def _same_query(place: Place, evidence: Evidence) -> tuple[str, ...] | Unknown:
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
        told = decoded(data, metadata.decode)
        if isinstance(told, QueryMetadata) and told.query_id == evidence.query_id.value:
            found.append(f"{parent}/{piece.path.removesuffix('/metadata')}")
    return tuple(found)


def _table(source: SourceSeen, storage: Mapping[str, str]) -> DeltaSeen | Unknown:
    told = _DELTA_SOURCE.fullmatch(source.described)
    if told is None:
        return Unknown(reason="no run record or event log names its path")
    path = urls.canonical(told["path"])
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
    return DeltaSeen(
        path=path,
        table_id=_table_id(path, storage),
        first_version=first,
        last_version=versions[-1],
    )


def _table_id(path: str, storage: Mapping[str, str]) -> str:
    from holdfast.sinks.delta import table

    place = table.Place(path=path, options=storage, partition_by=(), properties={})
    opened = place.open()
    return str(opened.metadata().id) if opened else ""


def _kafka(evidence: Evidence, servers: str) -> KafkaSeen | Unknown:
    return topics.seen(evidence, servers) if servers else _NOT_ASKED
