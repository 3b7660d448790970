"""One batch, or two -> the range between them, for each partition of each source.

The offset entry of a batch is the end of its range. The start is the end of the entry before it on
disk, which after a purge or with asynchronous progress tracking may not be the previous number.
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
    """The names of the sources, and the event logs that should contain them and do not."""

    sources: tuple[str, ...]
    log_gaps: tuple[UnreadableFile, ...] = ()


def read(
    place: CheckpointPlace, top: Children, batch: int, event_log: EventLog | None
) -> BatchDetail:
    """Return what one batch consumed."""
    tree = _list_files(place, top)
    _require_batch(tree, batch, f"--batch {tree.offsets.ids.last}")
    names = _read_source_names(place, tree, event_log)
    return _read_between(place, tree, tree.offsets.ids.before(batch), batch, names)


def compare(
    place: CheckpointPlace, top: Children, earlier: int, later: int, event_log: EventLog | None
) -> BatchDetail:
    """Return what lies between the ends of two batches."""
    tree = _list_files(place, top)
    ids = tree.offsets.ids
    nearest = f"--compare {earlier if earlier in ids else ids.first}:{ids.last}"
    for batch in (earlier, later):
        _require_batch(tree, batch, nearest)
    return _read_between(place, tree, earlier, later, _read_source_names(place, tree, event_log))


def _list_files(place: CheckpointPlace, top: Children) -> CheckpointTree:
    tree = CheckpointTree(folders=set(top.folders))
    tree.add(Portion(folder="", files=[file for file in top.files if file.name == "metadata"]))
    snapshot.list_logs(place.reader, tree)
    for result in place.reader.walk(["sources"] if "sources" in top.folders else []):
        if isinstance(result, Portion):
            tree.add(result)
        else:
            tree.refuse(result)
    return tree


def _require_batch(tree: CheckpointTree, batch: int, instead: str) -> None:
    unlisted = tail.find_batches(tree).unlisted_log("offsets")
    if unlisted is not None:
        raise LocationForbidden(
            f"`offsets` cannot be listed: {unlisted.reason}",
            hint=OTHER_USER,
        )
    if batch not in tree.offsets.ids:
        batches = format_spans(tuple(tree.offsets.ids))
        raise BatchMissing(
            f"batch {batch} is not in the offset log, which has: {batches}",
            hint=f"choose one of these batches, as in `{instead}`"
            if tree.offsets.ids
            else "no batch is planned in this checkpoint; inspect a different one",
        )


def _read_between(
    place: CheckpointPlace,
    tree: CheckpointTree,
    earlier: int | None,
    later: int,
    names: _SourceNames,
) -> BatchDetail:
    wanted = [number for number in (earlier, later) if number is not None]
    is_hidden = tail.find_batches(tree).unlisted_log("commits") is not None
    commits = [later] if later in tree.commits.ids or is_hidden else []
    entries = tail.read_entries(place.reader, wanted, commits)
    end = entries.offsets.get(BatchId(later))
    start = None if earlier is None else entries.offsets.get(BatchId(earlier))
    unreadable: tuple[UnreadableFile, ...] = entries.unreadable + names.log_gaps
    sources: tuple[SourceEvidence, ...] = ()
    if end is not None:
        before = None if start is None or earlier is None else (BatchId(earlier), start)
        planned = (BatchId(later), end)
        others = [*entries.offsets.values()]
        if offset_lines.may_repeat(end):
            others += tail.read(place.reader, tree).offsets.values()
        lines = offset_lines.match_sources(place.reader, tree, end, others, names.sources)
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
    """Return the names of the sources in run records and the event log, if there are any."""
    records = runs.read(place.parent, place.name) if place.parent else runs.NO_RECORDS
    if event_log is None and not records.events:
        return _SourceNames(sources=())
    own_id = read_query_id(place.reader, tree)
    query_id = own_id.value if isinstance(own_id, Known) else None
    logged = event_log.events if event_log else None
    history = events.build_history(records.events, logged, query_id, place.url, ())
    gaps = tuple(list_log_gaps(event_log, history))
    return _SourceNames(sources=history.sources, log_gaps=gaps)


def _compare_settings(
    start: OffsetEntry | None, end: OffsetEntry | None
) -> dict[str, tuple[str, str]]:
    if start is None or end is None:
        return {}
    keys = sorted(start.settings.keys() | end.settings.keys())
    pairs = {key: (start.settings.get(key, ""), end.settings.get(key, "")) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}
