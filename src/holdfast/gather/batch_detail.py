"""Stage 2: one batch, or two -> what lies between them, for each partition of each source.

The offset entry of a batch is its end; its beginning is the end of the entry before it on disk,
which after a purge or with asynchronous progress tracking is not always the number before.
"""

from dataclasses import dataclass

from holdfast.errors import BatchMissing, LocationForbidden
from holdfast.gather.evidence import CheckpointPlace, list_log_gaps, read_query_id
from holdfast.gather.history import events, runs
from holdfast.gather.history.events import EventLog
from holdfast.gather.inventory import snapshot
from holdfast.gather.inventory.read import OTHER_USER
from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.gather.logs import tail, timeline
from holdfast.gather.sources import offset_lines, positions, taken_files
from holdfast.model.evidence import BatchDetail, SourceEvidence
from holdfast.model.fact import Known, UnreadableFile
from holdfast.model.ids import BatchId
from holdfast.model.offsets import OffsetEntry
from holdfast.report.words import format_spans
from holdfast.storage import Children, Portion


@dataclass(frozen=True, slots=True, kw_only=True)
class _SourceNames:
    """How the sources are called, and what should have told it and does not."""

    sources: tuple[str, ...]
    silent: tuple[UnreadableFile, ...] = ()


def read(
    place: CheckpointPlace, top: Children, batch: int, event_log: EventLog | None
) -> BatchDetail:
    """What one batch consumed."""
    tree = _list_files(place, top)
    _require_batch(tree, batch, f"--batch {tree.offsets.ids.last}")
    told = _read_source_names(place, tree, event_log)
    return _read_between(place, tree, tree.offsets.ids.before(batch), batch, told)


def compare(
    place: CheckpointPlace, top: Children, earlier: int, later: int, event_log: EventLog | None
) -> BatchDetail:
    """What lies between the ends of two batches."""
    tree = _list_files(place, top)
    ids = tree.offsets.ids
    nearest = f"--compare {earlier if earlier in ids else ids.first}:{ids.last}"
    for batch in (earlier, later):
        _require_batch(tree, batch, nearest)
    return _read_between(place, tree, earlier, later, _read_source_names(place, tree, event_log))


def _list_files(place: CheckpointPlace, top: Children) -> CheckpointTree:
    tree = CheckpointTree(folders=set(top.folders))
    tree.add(Portion(folder="", files=[one for one in top.files if one.name == "metadata"]))
    snapshot.list_logs(place.reader, tree)
    for found in place.reader.walk(["sources"] if "sources" in top.folders else []):
        if isinstance(found, Portion):
            tree.add(found)
        else:
            tree.refuse(found)
    return tree


def _require_batch(tree: CheckpointTree, batch: int, instead: str) -> None:
    unlisted = tail.find_batches(tree).unlisted_log("offsets")
    if unlisted is not None:
        raise LocationForbidden(
            f"expected to list `offsets`, found: {unlisted.reason}",
            hint=OTHER_USER,
        )
    if batch not in tree.offsets.ids:
        raise BatchMissing(
            f"expected batch {batch} in the offset log, found"
            f" {format_spans(tuple(tree.offsets.ids))}",
            hint=f"ask for what is there, as in `{instead}`"
            if tree.offsets.ids
            else "no batch is planned here; look at another checkpoint",
        )


def _read_between(
    place: CheckpointPlace,
    tree: CheckpointTree,
    earlier: int | None,
    later: int,
    told: _SourceNames,
) -> BatchDetail:
    wanted = [number for number in (earlier, later) if number is not None]
    hidden = tail.find_batches(tree).unlisted_log("commits") is not None
    commits = [later] if later in tree.commits.ids or hidden else []
    entries = tail.read_entries(place.reader, wanted, commits)
    end = entries.offsets.get(BatchId(later))
    start = None if earlier is None else entries.offsets.get(BatchId(earlier))
    unreadable: tuple[UnreadableFile, ...] = entries.unreadable + told.silent
    sources: tuple[SourceEvidence, ...] = ()
    if end is not None:
        before = None if start is None or earlier is None else (BatchId(earlier), start)
        planned = (BatchId(later), end)
        read = [*entries.offsets.values()]
        if offset_lines.may_repeat(end):
            read += tail.read(place.reader, tree).offsets.values()
        lines = offset_lines.match_sources(place.reader, tree, end, read, told.sources)
        sources, damaged = positions.read(
            place.reader, tree, before, planned, lines, taken_files.ALL
        )
        unreadable += damaged
    return BatchDetail(
        after=None if earlier is None else BatchId(earlier),
        batch=BatchId(later),
        sources=sources,
        settings_changed=_compare_settings(start, end),
        standing=timeline.find_standing(
            BatchId(later),
            entries,
            tail.find_batches(tree, no_commit_log=tail.keeps_no_commits(tree, end)),
        ),
        unreadable=unreadable,
    )


def _read_source_names(
    place: CheckpointPlace, tree: CheckpointTree, event_log: EventLog | None
) -> _SourceNames:
    """How run records and the event log call the sources, where there are any."""
    recorded = runs.read(place.beside, place.name) if place.beside else runs.NOTHING
    if event_log is None and not recorded.events:
        return _SourceNames(sources=())
    own_id = read_query_id(place.reader, tree)
    wanted = own_id.value if isinstance(own_id, Known) else None
    logged = event_log.events if event_log else None
    found = events.build_history(recorded.events, logged, wanted, place.url, ())
    return _SourceNames(sources=found.sources, silent=tuple(list_log_gaps(event_log, found)))


def _compare_settings(
    start: OffsetEntry | None, end: OffsetEntry | None
) -> dict[str, tuple[str, str]]:
    if start is None or end is None:
        return {}
    keys = sorted(start.settings.keys() | end.settings.keys())
    pairs = {key: (start.settings.get(key, ""), end.settings.get(key, "")) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
