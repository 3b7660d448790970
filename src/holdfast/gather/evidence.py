"""One checkpoint -> Evidence. Reads only.

The order of the reads matters. Names are listed first, because only they show which entries exist;
the names in the logs come before all others, so that they belong to one moment. Then the newest
entries of each log are read. If a running query has meanwhile removed what was listed first, the
whole checkpoint is read again.
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
_LATER = "a new id, and from 4.2 on does not start it"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPlace:
    """Where a checkpoint is: its own folder, and the folder that contains it."""

    url: str
    name: str
    reader: Reader
    parent: Reader | None
    storage: Mapping[str, str]


def collect(
    place: CheckpointPlace,
    top: Children,
    *,
    event_log: "EventLog | None",
    now_ms: int,
    on_progress: tree.OnProgress = tree.ignore_progress,
    databases: bool = False,
) -> Evidence:
    """Return the evidence of a checkpoint; `top` is what its folder directly contains.

    With `databases`, the ledger is read from a PostgreSQL server that a run record names.
    """
    files, observations = _read_consistently(place, top, event_log, on_progress)
    entries, history = observations.entries, observations.history
    latest = _find_latest_entry(entries)
    batches = tail.find_batches(
        files,
        no_commit_log=tail.keeps_no_commits(files, latest[1] if latest else None),
        continuous=tail.are_epochs(entries.offsets),
    )
    versions = facts.narrow_versions(observations, latest)
    own_id = _get_known_id(observations.query_id)
    lease = observations.records.lease
    return Evidence(
        location=Known(value=place.url, read_from=(place.url,)),
        query_id=facts.find_query_id(observations),
        source_offsets=facts.find_source_offsets(observations, batches),
        sink=facts.find_sink(observations),
        output_mode=facts.find_output_mode(observations),
        stateful_operators=facts.find_operators(observations),
        state_store_provider=facts.find_provider(observations, latest),
        spark_version=facts.find_spark_version(observations, versions, latest),
        restart_history=facts.find_restart_history(observations),
        batches=batches,
        timeline=timeline.build(files, entries, history.rows, observations.sources, batches),
        settings=latest[1].settings if latest else {},
        spark_versions=versions,
        sources=observations.sources,
        operators=observations.state.operators,
        ledgers=ledgers.read(history, place.storage, own_id, databases=databases),
        lease=lease,
        driver_died=lease is not None and processes.is_dead(lease.holder),
        files=files.files(),
        foreign=tuple(files.foreign),
        nested=tuple(sorted(files.nested)),
        unreadable=tuple(observations.unreadable),
        unreadable_more=files.refused_more,
        observed_ms=now_ms,
        changed_ms=files.newest_ms,
        offset_entries=entries.offsets,
        commit_entries=entries.commits,
        source_logs=observations.source_logs,
        nonempty_folders=frozenset(files.nonempty_folders & {"offsets", "commits", "state"}),
        leftover_checksums=file_logs.find_leftover_checksums(files),
        plan=history.plan,
        recorded_ends=history.ends,
        stateless=_is_stateless(history),
        misplaced=_find_misplaced(files),
        empty_state="state" in files.folders and "state" not in files.nonempty_folders,
    )


def _read_consistently(
    place: CheckpointPlace,
    top: Children,
    event_log: "EventLog | None",
    on_progress: tree.OnProgress,
    attempts: int = snapshot.MOST_ATTEMPTS,
) -> tuple[tree.CheckpointTree, facts.Observations]:
    """Return one moment of the checkpoint.

    If the query is too fast for that, its offset log counts as one that cannot be listed.
    """
    files = snapshot.take(place.reader, top, on_progress)
    observations = _read_once(place, files, event_log)
    if not snapshot.is_stale(place.reader, files):
        return files, observations
    if attempts > 1:
        again = place.reader.children("")
        top = again if isinstance(again, Children) else top
        return _read_consistently(place, top, event_log, on_progress, attempts - 1)
    files.refuse(Refused(path="offsets", reason=snapshot.TOO_FAST))
    return files, _read_once(place, files, event_log)


def _read_once(
    place: CheckpointPlace, files: tree.CheckpointTree, event_log: "EventLog | None"
) -> facts.Observations:
    reader = place.reader
    own_id = read_query_id(reader, files)
    records = runs.read(place.parent, place.name) if place.parent else runs.NO_RECORDS
    entries = tail.read(reader, files)
    history = _read_history(place, records, event_log, (_get_known_id(own_id), entries))
    sources, damaged = _read_sources(reader, files, entries, history)
    logs = file_logs.read(reader, files, sources)
    state = operators.read(reader, files, stores.make_logged_state(files, entries, history))
    return facts.Observations(
        tree=files,
        entries=entries,
        records=records,
        history=history,
        query_id=own_id,
        state=state,
        sources=sources,
        unreadable=list(
            dict.fromkeys(
                (
                    *([own_id] if isinstance(own_id, UnreadableFile) else []),
                    *files.refused,
                    *entries.unreadable,
                    *damaged,
                    *(file for log in logs.values() if log.is_file_log for file in log.damaged),
                    *state.unreadable,
                    *records.unreadable,
                    *list_log_gaps(event_log, history),
                )
            )
        ),
        source_logs=logs,
    )


def _is_stateless(history: History) -> bool:
    """Return whether the last query had no stateful operator, by its plan or its progress."""
    if isinstance(history.plan, Known):
        return not history.plan.value.operators
    return history.progress_operators is None and any(history.rows.values())


def _find_misplaced(files: tree.CheckpointTree) -> tuple[MisplacedPartition, ...]:
    """Return state at a wrong level, except state of a checkpoint inside this one."""
    return tuple(
        MisplacedPartition(folder=folder, belongs=belongs)
        for folder, belongs in sorted(files.misplaced.items())
        if not any(folder.startswith(f"{nested}/") for nested in files.nested)
    )


def list_log_gaps(event_log: "EventLog | None", history: History) -> Iterator[UnreadableFile]:
    """Yield an event log that was given, if it does not mention the query or was not all read."""
    if event_log is None:
        return
    if history.log_silent:
        reason = f"the event log {history.log_silent}"
        yield UnreadableFile(path=event_log.place, reason=reason, outside=True)
    if history.log_left_out:
        yield UnreadableFile(path=event_log.place, reason=history.log_left_out, outside=True)


def _read_history(
    place: CheckpointPlace,
    records: runs.RunRecords,
    event_log: "EventLog | None",
    own: tuple[QueryId | None, tail.Entries],
) -> History:
    if event_log is None and not records.events:
        return History()
    from holdfast.gather.history import events  # most checkpoints have neither

    own_id, entries = own
    logged = event_log.events if event_log else None
    batches = entries.offsets.keys() | entries.damaged_offsets.keys()
    return events.build_history(records.events, logged, own_id, place.url, batches)


def read_query_id(reader: Reader, files: tree.CheckpointTree) -> Fact[QueryId]:
    """Return the query id in the checkpoint's own `metadata`."""
    for refused in files.find_refused("metadata"):
        return refused
    if FileKind.METADATA not in files.amounts:
        has_batches = files.offsets.ids or files.commits.ids
        return Absent(reason=_NO_METADATA + (_LATER if has_batches else _AT_FIRST))
    for _, data in reader.read([Piece(path="metadata", most=_MOST_METADATA)]):
        match decode_file(data, metadata.decode):
            case QueryMetadata(query_id=query_id):
                return Known(value=query_id, read_from=("metadata",))
            case Unreadable() as problem:
                return make_unreadable("metadata", problem)
            case Missing():
                return UnreadableFile(path="metadata", reason=tail.GONE)
    raise AssertionError


def _read_sources(
    reader: Reader, files: tree.CheckpointTree, entries: tail.Entries, history: History
) -> tuple[tuple[SourceEvidence, ...], tuple[UnreadableFile, ...]]:
    latest = _find_latest_entry(entries)
    if latest is None:
        return (), ()
    earlier = max((batch for batch in entries.offsets if batch < latest[0]), default=None)
    before = None if earlier is None else (earlier, entries.offsets[earlier])
    lines = offset_lines.match_sources(
        reader, files, latest[1], entries.offsets.values(), history.sources
    )
    return positions.read(reader, files, before, latest, lines)


def _find_latest_entry(entries: tail.Entries) -> tuple[BatchId, OffsetEntry] | None:
    if not entries.offsets:
        return None
    newest = max(entries.offsets)
    return newest, entries.offsets[newest]


def _get_known_id(fact: Fact[QueryId]) -> QueryId | None:
    return fact.value if isinstance(fact, Known) else None
