"""Stage 2: one checkpoint -> Evidence. Reads only.

The order of the looks is the argument. Names are listed first, because only they tell which
entries there are: those of the logs before the others, so that all are of one moment. Only then
are entries read, the newest of each log. Where a running query has removed by now what was listed
first, all is looked at again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.decode import metadata
from holdfast.gather import facts
from holdfast.gather.history import ledgers, processes, runs
from holdfast.gather.history.query_facts import History
from holdfast.gather.inventory import snapshot, tree
from holdfast.gather.inventory.read import decode_file, make_unreadable
from holdfast.gather.logs import tail, timeline
from holdfast.gather.sources import file_logs, offset_lines, positions
from holdfast.gather.state import operators, stores
from holdfast.model.checkpoint import FileKind, QueryMetadata
from holdfast.model.evidence import Evidence, SourceEvidence
from holdfast.model.fact import Absent, Fact, Known, Unreadable, UnreadableFile
from holdfast.model.ids import BatchId, QueryId
from holdfast.model.offsets import OffsetEntry
from holdfast.model.state import MisplacedPartition
from holdfast.storage import Children, Missing, Piece, Reader, Refused

if TYPE_CHECKING:
    from holdfast.gather.history.events import EventLog

_MOST_METADATA = 1 << 20
_NO_METADATA = "no file `metadata`: Spark gives the query "
_AT_FIRST = "an id when it first starts"
_LATER = "a new id, and from 4.2 on refuses to start"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlace:
    """A checkpoint to look at: its own folder, and the one it lies in."""

    url: str
    name: str
    reader: Reader
    beside: Reader | None
    storage: Mapping[str, str]


def collect(
    place: CheckpointPlace,
    top: Children,
    *,
    event_log: "EventLog | None",
    now_ms: int,
    told: tree.OnProgress = tree.ignore_progress,
    databases: bool = False,
) -> Evidence:
    """What can be said of the checkpoint, given what lies directly in it.

    With `databases`, a PostgreSQL server that a run record names is asked for its ledger.
    """
    found, seen = _read_consistently(place, top, event_log, told)
    latest = _find_latest_entry(seen.entries)
    bare = tail.keeps_no_commits(found, latest[1] if latest else None)
    epochs = tail.are_epochs(seen.entries.offsets)
    batches = tail.find_batches(found, no_commit_log=bare, continuous=epochs)
    settings = latest[1].settings if latest else {}
    versions = facts.narrow_versions(seen, latest)
    lease = seen.recorded.lease
    return Evidence(
        location=Known(value=place.url, read_from=(place.url,)),
        query_id=facts.find_query_id(seen),
        source_offsets=facts.find_source_offsets(seen, batches),
        sink=facts.find_sink(seen),
        output_mode=facts.find_output_mode(seen),
        stateful_operators=facts.find_operators(seen),
        state_store_provider=facts.find_provider(seen, latest),
        spark_version=facts.find_spark_version(seen, versions, latest),
        restart_history=facts.find_restart_history(seen),
        batches=batches,
        timeline=timeline.build(found, seen.entries, seen.told.rows, seen.sources, batches),
        settings=settings,
        spark_versions=versions,
        sources=seen.sources,
        operators=seen.state.operators,
        ledgers=ledgers.read(
            seen.told, place.storage, _get_known_id(seen.query_id), databases=databases
        ),
        lease=lease,
        driver_died=lease is not None and processes.is_dead(lease.holder),
        files=found.files(),
        foreign=tuple(found.foreign),
        nested=tuple(sorted(found.nested)),
        unreadable=tuple(seen.unreadable),
        unreadable_more=found.refused_more,
        observed_ms=now_ms,
        changed_ms=found.newest_ms,
        offset_entries=seen.entries.offsets,
        commit_entries=seen.entries.commits,
        source_logs=seen.source_logs,
        nonempty_folders=frozenset(found.nonempty_folders & {"offsets", "commits", "state"}),
        leftover_checksums=file_logs.find_leftover_checksums(found),
        plan=seen.told.plan,
        recorded_ends=seen.told.ends,
        stateless=_is_stateless(seen.told),
        misplaced=_find_misplaced(found),
        empty_state="state" in found.folders and "state" not in found.nonempty_folders,
    )


def _read_consistently(
    place: CheckpointPlace,
    top: Children,
    event_log: "EventLog | None",
    told: tree.OnProgress,
    looks: int = snapshot.MOST_LOOKS,
) -> tuple[tree.CheckpointTree, facts.Observations]:
    """What was seen; where the query is too fast, as if its offset log could not be listed."""
    found = snapshot.take(place.reader, top, told)
    seen = _read_once(place, found, event_log)
    if not snapshot.is_stale(place.reader, found):
        return found, seen
    if looks > 1:
        again = place.reader.children("")
        top = again if isinstance(again, Children) else top
        return _read_consistently(place, top, event_log, told, looks - 1)
    found.refuse(Refused(path="offsets", reason=snapshot.TOO_FAST))
    return found, _read_once(place, found, event_log)


def _read_once(
    place: CheckpointPlace, found: tree.CheckpointTree, event_log: "EventLog | None"
) -> facts.Observations:
    reader = place.reader
    own_id = read_query_id(reader, found)
    recorded = runs.read(place.beside, place.name) if place.beside else runs.NOTHING
    entries = tail.read(reader, found)
    told = _read_history(place, recorded, event_log, (_get_known_id(own_id), entries))
    sources, damaged = _read_sources(reader, found, entries, told)
    logs = file_logs.read(reader, found, sources)
    stated = operators.read(reader, found, stores.make_logged_state(found, entries, told))
    return facts.Observations(
        tree=found,
        entries=entries,
        recorded=recorded,
        told=told,
        query_id=own_id,
        state=stated,
        sources=sources,
        unreadable=list(
            dict.fromkeys(
                (
                    *([own_id] if isinstance(own_id, UnreadableFile) else []),
                    *found.refused,
                    *entries.unreadable,
                    *damaged,
                    *(one for log in logs.values() if log.is_file_log for one in log.damaged),
                    *stated.unreadable,
                    *recorded.unreadable,
                    *list_log_gaps(event_log, told),
                )
            )
        ),
        source_logs=logs,
    )


def _is_stateless(told: History) -> bool:
    """Whether the query that ran last had no stateful operator, by its plan or its progress."""
    if isinstance(told.plan, Known):
        return not told.plan.value.operators
    return told.progress_operators is None and any(told.rows.values())


def _find_misplaced(found: tree.CheckpointTree) -> tuple[MisplacedPartition, ...]:
    """State at a wrong level, but none that belongs to a checkpoint inside this one."""
    return tuple(
        MisplacedPartition(folder=folder, belongs=belongs)
        for folder, belongs in sorted(found.misplaced.items())
        if not any(folder.startswith(f"{one}/") for one in found.nested)
    )


def list_log_gaps(event_log: "EventLog | None", told: History) -> Iterator[UnreadableFile]:
    """An event log that was given and tells nothing of the query, or not all that it holds."""
    if event_log is None:
        return
    if told.log_silent:
        reason = f"the event log {told.log_silent}"
        yield UnreadableFile(path=event_log.place, reason=reason, outside=True)
    if told.log_left_out:
        yield UnreadableFile(path=event_log.place, reason=told.log_left_out, outside=True)


def _read_history(
    place: CheckpointPlace,
    recorded: runs.RunRecords,
    event_log: "EventLog | None",
    own: tuple[QueryId | None, tail.Entries],
) -> History:
    if event_log is None and not recorded.events:
        return History()
    from holdfast.gather.history import events  # most checkpoints have neither

    own_id, entries = own
    logged = event_log.events if event_log else None
    batches = entries.offsets.keys() | entries.damaged_offsets.keys()
    return events.build_history(recorded.events, logged, own_id, place.url, batches)


def read_query_id(reader: Reader, found: tree.CheckpointTree) -> Fact[QueryId]:
    """The query id, as the checkpoint's own `metadata` tells it."""
    for refused in found.refused_in("metadata"):
        return refused
    if FileKind.METADATA not in found.amounts:
        begun = found.offsets.ids or found.commits.ids
        return Absent(reason=_NO_METADATA + (_LATER if begun else _AT_FIRST))
    for _, data in reader.read([Piece(path="metadata", most=_MOST_METADATA)]):
        match decode_file(data, metadata.decode):
            case QueryMetadata(query_id=told):
                return Known(value=told, read_from=("metadata",))
            case Unreadable() as said:
                return make_unreadable("metadata", said)
            case Missing():
                return UnreadableFile(path="metadata", reason=tail.GONE)
    raise AssertionError


def _read_sources(
    reader: Reader, found: tree.CheckpointTree, entries: tail.Entries, told: History
) -> tuple[tuple[SourceEvidence, ...], tuple[UnreadableFile, ...]]:
    latest = _find_latest_entry(entries)
    if latest is None:
        return (), ()
    earlier = max((batch for batch in entries.offsets if batch < latest[0]), default=None)
    before = None if earlier is None else (earlier, entries.offsets[earlier])
    lines = offset_lines.match_sources(
        reader, found, latest[1], entries.offsets.values(), told.sources
    )
    return positions.read(reader, found, before, latest, lines)


def _find_latest_entry(entries: tail.Entries) -> tuple[BatchId, OffsetEntry] | None:
    if not entries.offsets:
        return None
    newest = max(entries.offsets)
    return newest, entries.offsets[newest]


def _get_known_id(fact: Fact[QueryId]) -> QueryId | None:
    return fact.value if isinstance(fact, Known) else None
