"""Stage 2: one checkpoint -> Evidence. Reads only.

The order of the looks is the argument. Names are listed first, because only they tell which
entries there are. The logs are then followed to their ends, because a running query has gone on
since. Only then are entries read, the newest of each log.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.decode import metadata
from holdfast.diagnose.spark_version import Format, narrowed
from holdfast.gather import (
    ledgers,
    origins,
    progress,
    restarts,
    runs,
    source_logs,
    state,
    state_facts,
    timeline,
    tree,
)
from holdfast.gather.pieces import decoded, unread
from holdfast.gather.told import History
from holdfast.model.batch import Unknown
from holdfast.model.checkpoint import FileKind, QueryMetadata
from holdfast.model.evidence import (
    Absent,
    Batches,
    Evidence,
    Fact,
    Known,
    SourceLog,
    SourceSeen,
    Start,
    UnreadableFile,
)
from holdfast.model.ids import BatchId, QueryId
from holdfast.model.offsets import OffsetEntry, Unreadable
from holdfast.model.source_offset import Offset
from holdfast.model.spark_version import VersionRange
from holdfast.storage import Children, Missing, Piece, Reader

if TYPE_CHECKING:
    from holdfast.gather.history import EventLog

_MOST_METADATA = 1 << 20
_NOT_TOLD = "no checkpoint tells it"
_WOULD_TELL = "; a run record or `--event-log PATH` would"
_NO_METADATA = (
    "no file `metadata`: Spark gives the query a new id, and from 4.2 on refuses to start"
)
_PAST = Unknown(reason="no offset entry can be read")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A checkpoint to look at: its own folder, and the one it lies in."""

    url: str
    name: str
    reader: Reader
    beside: Reader | None
    storage: Mapping[str, str]


@dataclass(slots=True)
class _Seen:
    """Everything that was looked at, before it is put together."""

    tree: tree.Tree
    entries: progress.Entries
    recorded: runs.Recorded
    told: History
    query_id: Fact[QueryId]
    state: state.State
    sources: tuple[SourceSeen, ...]
    unreadable: list[UnreadableFile]
    source_logs: dict[str, SourceLog]


def evidence(
    place: Place,
    top: Children,
    *,
    event_log: "EventLog | None",
    now_ms: int,
    told: Callable[[int], None],
) -> Evidence:
    """What can be said of the checkpoint, given what lies directly in it."""
    found = tree.folded(place.reader, top, told)
    progress.caught_up(place.reader, found)
    seen = _looked(place, found, event_log)
    batches = progress.batches(found)
    latest = _latest(seen.entries)
    settings = latest[1].settings if latest else {}
    versions = _versions(seen, latest)
    return Evidence(
        location=Known(value=place.url, read_from=(place.url,)),
        query_id=_query_id(seen),
        source_offsets=_source_offsets(seen, batches),
        sink=_sink(seen),
        output_mode=_output_mode(seen),
        stateful_operators=_operators(seen),
        state_store_provider=_provider(seen, latest),
        spark_version=_spark_version(seen, versions, latest),
        restart_history=_restart_history(seen),
        batches=batches,
        timeline=timeline.recent(found, seen.entries, seen.told.rows, seen.sources),
        settings=settings,
        spark_versions=versions,
        sources=seen.sources,
        operators=seen.state.operators,
        ledgers=ledgers.seen(seen.told, place.storage, _id_of(seen.query_id)),
        lease=seen.recorded.lease,
        files=found.files(),
        foreign=tuple(found.foreign),
        nested=tuple(sorted(found.nested)),
        unreadable=tuple(seen.unreadable),
        unreadable_more=found.refused_more,
        looked_ms=now_ms,
        offset_entries=seen.entries.offsets,
        commit_entries=seen.entries.commits,
        source_logs=seen.source_logs,
        not_empty=frozenset(found.not_empty & {"offsets", "commits", "state"}),
        leftover_checksums=source_logs.leftover_checksums(found),
        plan=seen.told.plan,
        recorded_ends=seen.told.ends,
    )


def _looked(place: Place, found: tree.Tree, event_log: "EventLog | None") -> _Seen:
    reader = place.reader
    own_id = query_id(reader, found)
    recorded = runs.recorded(place.beside, place.name) if place.beside else runs.NOTHING
    told = _told(recorded, event_log, _id_of(own_id))
    entries = progress.entries(reader, found)
    stated = state.seen(reader, found, told.state_rows)
    sources, damaged = _sources(reader, found, entries, told)
    latest = _latest(entries)
    return _Seen(
        tree=found,
        entries=entries,
        recorded=recorded,
        told=told,
        query_id=own_id,
        state=stated,
        sources=sources,
        unreadable=[
            *dict.fromkeys(
                (*([own_id] if isinstance(own_id, UnreadableFile) else []), *found.refused)
            ),
            *entries.unreadable,
            *damaged,
            *stated.unreadable,
            *recorded.unreadable,
            *_silent(event_log, told),
        ],
        source_logs=source_logs.seen(reader, found, latest[1].sources if latest else ()),
    )


def _silent(event_log: "EventLog | None", told: History) -> Iterator[UnreadableFile]:
    if event_log is not None and told.log_silent:
        reason = f"the event log {told.log_silent}"
        yield UnreadableFile(path=event_log.place, reason=reason, outside=True)


def _told(recorded: runs.Recorded, event_log: "EventLog | None", own_id: QueryId | None) -> History:
    if event_log is None and not recorded.events:
        return History()
    from holdfast.gather import history  # noqa: PLC0415  most checkpoints have neither

    return history.of(recorded.events, event_log.events if event_log else None, own_id)


def query_id(reader: Reader, found: tree.Tree) -> Fact[QueryId]:
    """The query id, as the checkpoint's own `metadata` tells it."""
    for refused in found.refused_in("metadata"):
        return refused
    if FileKind.METADATA not in found.amounts:
        return Absent(reason=_NO_METADATA)
    for _, data in reader.read([Piece(path="metadata", most=_MOST_METADATA)]):
        match decoded(data, metadata.decode):
            case QueryMetadata(query_id=told):
                return Known(value=told, read_from=("metadata",))
            case Unreadable() as said:
                return unread("metadata", said)
            case Missing():
                return UnreadableFile(path="metadata", reason=progress.GONE)
    raise AssertionError


def _sources(
    reader: Reader, found: tree.Tree, entries: progress.Entries, told: History
) -> tuple[tuple[SourceSeen, ...], tuple[UnreadableFile, ...]]:
    latest = _latest(entries)
    if latest is None:
        return (), ()
    earlier = max((batch for batch in entries.offsets if batch < latest[0]), default=None)
    before = None if earlier is None else (earlier, entries.offsets[earlier])
    return origins.seen(reader, found, before, latest, told.sources)


def _latest(entries: progress.Entries) -> tuple[BatchId, OffsetEntry] | None:
    if not entries.offsets:
        return None
    newest = max(entries.offsets)
    return newest, entries.offsets[newest]


def _id_of(fact: Fact[QueryId]) -> QueryId | None:
    return fact.value if isinstance(fact, Known) else None


def _query_id(seen: _Seen) -> Fact[QueryId]:
    recorded = seen.told.query_id
    if isinstance(seen.query_id, Known) or recorded is None:
        return seen.query_id
    reason = f"`metadata` does not tell it ({seen.query_id.reason}); the newest run record does"
    return Known(value=recorded.value, read_from=recorded.read_from, inferred=reason)


def _source_offsets(seen: _Seen, batches: Batches) -> Fact[Mapping[str, Offset]]:
    planned, unlisted = batches.last_planned, batches.unlisted_log("offsets")
    if unlisted is not None:
        return unlisted
    if planned is None:
        return Absent(reason="the offset log is empty: no batch was ever planned")
    if planned in seen.entries.damaged_offsets:
        return seen.entries.damaged_offsets[planned]
    offsets = {source.name: source.offset for source in seen.sources}
    return Known(value=offsets, read_from=(f"offsets/{planned}",))


def _sink(seen: _Seen) -> Fact[str]:
    if seen.told.sink is not None:
        return seen.told.sink
    for batch in sorted(seen.entries.commits, reverse=True):
        for sink in seen.entries.commits[batch].sinks:
            if sink.active:
                told = " ".join(part for part in (sink.provider, sink.name) if part)
                return Known(value=told, read_from=(f"commits/{batch}",))
    return _not_told(seen)


def _not_told(seen: _Seen) -> Unknown:
    silent = seen.told.log_silent
    return Unknown(
        reason=_NOT_TOLD + (f", and the event log given {silent}" if silent else _WOULD_TELL)
    )


def _output_mode(seen: _Seen) -> Fact[str]:
    if seen.told.output_mode is not None:
        return seen.told.output_mode
    mode = state_facts.output_mode(seen.state.operators)
    if isinstance(mode, str):
        files = [path for _, path in seen.tree.operator_metadata.values()]
        return Known(value=mode.lower(), read_from=tuple(files))
    return _not_told(seen)


def _operators(seen: _Seen) -> Fact[tuple[str, ...]]:
    fact = state_facts.names(seen.state.operators, seen.tree)
    recorded = seen.told
    untold = isinstance(fact, Absent | UnreadableFile)
    if untold and recorded.operators and recorded.query_id:
        return Known(value=recorded.operators, read_from=recorded.query_id.read_from)
    return fact


def _provider(seen: _Seen, latest: tuple[BatchId, OffsetEntry] | None) -> Fact[str]:
    settings, path = (latest[1].settings, f"offsets/{latest[0]}") if latest else ({}, "")
    return state_facts.provider(seen.tree, settings, path)


def _spark_version(
    seen: _Seen,
    versions: VersionRange | Unknown,
    latest: tuple[BatchId, OffsetEntry] | None,
) -> Fact[str]:
    if seen.told.spark_version is not None:
        return seen.told.spark_version
    if isinstance(versions, Unknown) or latest is None:
        return _PAST
    low, high = versions.lowest, versions.highest
    up_to = f"{low}" if low == high else f"{low} to {high}"
    return Known(
        value=f"{low} or later" if versions.or_later else up_to,
        read_from=(f"offsets/{latest[0]}",),
        inferred="; ".join(versions.reasons),
    )


def _versions(seen: _Seen, latest: tuple[BatchId, OffsetEntry] | None) -> VersionRange | Unknown:
    if latest is None:
        return _PAST
    _, entry = latest
    return narrowed(entry.settings, _formats(seen), timestamp_ms=entry.timestamp_ms)


def _formats(seen: _Seen) -> set[Format]:
    offsets, commits = seen.entries.offsets.values(), seen.entries.commits.values()
    watermarks = [entry.next_watermark_ms for entry in commits]
    kinds = {kind for kind, _ in seen.tree.kinds_of_state}
    versions = {f"offsets {entry.version}" for entry in offsets}
    versions |= {f"commits {entry.version}" for entry in commits}
    versions |= {f"schema {version}" for version in seen.state.schema_versions}
    tests: tuple[tuple[bool, Format], ...] = (
        ("offsets 2" in versions, Format.OFFSET_LOG_2),
        ("commits 2" in versions, Format.COMMIT_LOG_2),
        ("commits 3" in versions, Format.COMMIT_LOG_3),
        (any(isinstance(one, Unknown) for one in watermarks), Format.COMMIT_WITHOUT_WATERMARK),
        (any(isinstance(one, int) for one in watermarks), Format.COMMIT_WITH_WATERMARK),
        (FileKind.OPERATOR_METADATA in seen.tree.amounts, Format.OPERATOR_METADATA),
        (bool(versions & {"schema 1", "schema 2"}), Format.STATE_SCHEMA),
        ("schema 3" in versions, Format.STATE_SCHEMA_3),
        (FileKind.STATE_ZIP in kinds, Format.ROCKSDB_ZIP),
        (FileKind.STATE_CHANGELOG in kinds, Format.CHANGELOG),
        (any(unique for _, unique in seen.tree.kinds_of_state), Format.VERSIONED_STATE),
        (FileKind.SPARK_CHECKSUM in kinds, Format.SPARK_CHECKSUM),
    )
    return {found for holds, found in tests if holds}


def _restart_history(seen: _Seen) -> Fact[tuple[Start, ...]]:
    recorded = tuple(seen.told.starts.values())
    known = {start.first_batch for start in recorded}
    signs = tuple(
        sign for sign in restarts.signs(seen.entries.offsets) if sign.first_batch not in known
    )
    if recorded:
        files = dict.fromkeys(start.read_from for start in recorded)
        return Known(value=recorded + signs, read_from=tuple(files))
    if not seen.entries.offsets:
        return Unknown(reason="no run record, no event log, and no offset entry can be read")
    first, last = min(seen.entries.offsets), max(seen.entries.offsets)
    return Known(
        value=signs,
        read_from=tuple(dict.fromkeys((f"offsets/{first}", f"offsets/{last}"))),
        inferred=(
            f"no run record, and the event log given {seen.told.log_silent}"
            if seen.told.log_silent
            else "no run record and no event log"
        )
        + ": only what the times and settings of the offset log show, which misses restarts that"
        " were quick",
    )
