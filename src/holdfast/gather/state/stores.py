"""The files of state stores -> StoreEvidence, with only the files that the logs let count.

A name alone does not make a file part of the state. If versions have unique ids, only the files
that the commit of a batch names are its state: an abandoned task leaves other files beside them.
And a repartition to fewer partitions leaves the folders of the other partitions behind.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from holdfast.gather.history.query_facts import History
from holdfast.gather.inventory import spans
from holdfast.gather.inventory.folders import StoreFiles, StoreKey
from holdfast.gather.inventory.tree import CheckpointTree
from holdfast.gather.logs import tail
from holdfast.gather.logs.tail import Entries
from holdfast.model.checkpoint import CommitEntry, RocksDbSnapshot, StateStoreInfo
from holdfast.model.fact import Known, Unknown, UnreadableFile
from holdfast.model.fingerprint import NOT_RECORDED, Fingerprint
from holdfast.model.ids import BatchId, Span
from holdfast.model.offsets import OffsetEntry
from holdfast.model.state import StoreEvidence
from holdfast.spark import state_partitions

MOST_ZIPS = 64
_MOST_REPLAYED = 500
_MOST_PARTITIONS = 100_000
_NEVER = 1 << 63
_UNCOUNTED = Unknown(reason="the files of this state store do not say how many rows they have")
_SNAPSHOT_ONLY = Unknown(
    reason="only snapshots have a row count, and there are changes after the newest"
)
_TOO_MANY = Unknown(reason=f"only {MOST_ZIPS} snapshots are opened to count rows")
_DAMAGED = Unknown(reason="the newest snapshot cannot be loaded")
_NOT_TRACKED = Unknown(reason="row counting is switched off in Spark")

StoreId = tuple[int, str]
"""A store of one operator: its partition and its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedState:
    """What the logs and the runs say about the state.

    `rows` are those that the last committed batch reported, by operator. `operators` are the names
    of the operators that the runs report. `batches` are the batches in both logs. `pinned` pairs
    the first batch that was planned with a number of partitions with that number, or 0 if it is
    unknown. `loads` is the version that the next batch loads: its own number. `idle` is a batch
    without data: Spark plans one only for stateful operators, when the watermark has moved.
    """

    rows: Mapping[str, int]
    operators: Known[tuple[str, ...]] | None
    commits: Mapping[BatchId, CommitEntry]
    batches: tuple[Span, ...] | Unknown
    last_committed: BatchId | None
    settings: Mapping[str, str]
    """The settings that the latest offset entry pins."""
    pinned: tuple[tuple[int, int], ...]
    loads: int
    idle: BatchId | None
    plan: Known[Fingerprint] | Unknown = NOT_RECORDED

    @property
    def partitions(self) -> int:
        """The number that the latest offset entry pins."""
        return self.pinned[-1][1]

    def ids(self, key: StoreKey, version: int) -> frozenset[str]:
        """Return the unique ids of a version in one partition; empty if no commit names any.

        A commit does not say which store of the partition an id belongs to, and need not: no two
        ids are the same.
        """
        operator, partition, _ = key
        entry = self.commits.get(BatchId(version - 1))
        named = entry.state_ids.get(operator, ()) if entry is not None else ()
        return frozenset(named[partition]) if partition < len(named) else frozenset()


def make_logged_state(tree: CheckpointTree, entries: Entries, history: History) -> LoggedState:
    """Return what the logs, their newest entries, and the runs say about the state."""
    batches = tail.find_batches(tree)
    last_planned, last_committed = batches.last_planned, batches.last_committed
    rows, reported = history.find_rows_after(last_committed), history.progress_operators
    if reported is not None:
        reported = replace(reported, value=tuple(map(_normalise_name, reported.value)))
    return LoggedState(
        rows={_normalise_name(name): count for name, count in rows.items()},
        operators=reported,
        commits=entries.commits,
        batches=tail.find_complete_batches(tree, entries),
        last_committed=last_committed,
        settings=entries.offsets[max(entries.offsets)].settings if entries.offsets else {},
        pinned=_find_pinned(entries),
        loads=(last_planned or 0) + (last_planned is not None and last_planned == last_committed),
        idle=_find_idle(entries.offsets),
        plan=history.plan,
    )


def _normalise_name(reported: str) -> str:
    """Return the name of an operator; before 4.0 only a session window reports no name."""
    return "sessionWindowStateStoreSaveExec" if reported == "defaultName" else reported


def _find_idle(offsets: Mapping[BatchId, OffsetEntry]) -> BatchId | None:
    for batch in sorted(offsets, reverse=True):
        entry, before = offsets[batch], offsets.get(BatchId(batch - 1))
        if before is None or entry.sources != before.sources:
            continue
        if entry.watermark_ms > before.watermark_ms:
            return batch
    return None


def _find_pinned(entries: Entries) -> tuple[tuple[int, int], ...]:
    """Return the pinned numbers; a batch whose entry was not read has the number of the next.

    Only a repartition changes the number.
    """
    pinned: list[tuple[int, int]] = []
    for batch, entry in sorted(entries.offsets.items()):
        number = state_partitions.read_planned(entry.settings)
        if not pinned or number != pinned[-1][1]:
            pinned.append((batch if pinned else 0, number))
    return tuple(pinned) or ((0, 0),)


@dataclass(slots=True)
class OpenedSnapshots:
    """The newest snapshots that were opened, and what could not be read.

    `damaged` are the versions whose snapshots no Spark can load.
    """

    snapshots: dict[StoreKey, RocksDbSnapshot] = field(default_factory=dict)
    damaged: dict[StoreKey, set[int]] = field(default_factory=dict)
    unreadable: dict[str, UnreadableFile] = field(default_factory=dict)

    def damage(self, key: StoreKey, version: int) -> None:
        """Note that the snapshot of a version cannot be loaded."""
        self.damaged.setdefault(key, set()).add(version)


def find_left_over(files: Mapping[StoreKey, StoreFiles], partitions: int) -> frozenset[int]:
    """Return the partitions of one operator that batches no longer use.

    They are beyond the pinned number, and the others have newer versions.
    """
    latest: dict[int, int] = {}
    for (_, partition, _), store in files.items():
        latest[partition] = max(store.latest, latest.get(partition, 0))
    used = max((at for partition, at in latest.items() if partition < partitions), default=0)
    return frozenset(n for n, at in latest.items() if n >= partitions > 0 and at < used)


def find_loaded(
    existing: Collection[StoreId], declared: Sequence[StateStoreInfo], pinned: int, *, keyed: bool
) -> frozenset[StoreId]:
    """Return the stores of one operator that a batch loads.

    The operator's metadata names them; without metadata, as in 3.5, every partition has the same
    stores. The number of partitions is the one that the batch was planned with. If none is pinned,
    metadata has it; otherwise metadata may be outdated, as a repartition does not rewrite it. An
    operator without a key has one partition, whatever both say.
    """
    wanted = {store for store in existing if not (keyed and pinned) or store[0] < pinned}
    named = {store.name: store.partitions for store in declared}
    for name, partitions in (named or dict.fromkeys((name for _, name in existing), 0)).items():
        known = pinned or (partitions if partitions < _MOST_PARTITIONS else 0)
        wanted.update((n, name) for n in range(known if keyed else 1))
    return frozenset(wanted)


def find_restorable(
    stores: Mapping[StoreId, StoreEvidence],
    declared: Sequence[StateStoreInfo],
    logged: LoggedState,
    *,
    keyed: bool,
) -> tuple[Span, ...] | Unknown:
    """Return the batches that a query can be rewound to.

    Every store that the batch wrote can be restored to that version, and both logs have the batch.
    A version is a batch id plus one.
    """
    if isinstance(logged.batches, Unknown):
        return logged.batches
    batches: list[Span] = []
    ends = (*(first for first, _ in logged.pinned[1:]), _NEVER)
    for (first, pinned), end in zip(logged.pinned, ends, strict=True):
        loaded = find_loaded(stores, declared, pinned, keyed=keyed)
        restorable = [stores[key].restorable if key in stores else () for key in loaded]
        range_ = (Span(first=first + 1, last=end),)
        versions = spans.intersect([range_, *restorable]) if restorable else ()
        batches += (Span(first=span.first - 1, last=span.last - 1) for span in versions)
    return spans.merge(spans.intersect([batches, logged.batches]))


def find_newest_snapshot(key: StoreKey, store: StoreFiles, logged: LoggedState) -> str:
    """Return the newest snapshot; if a version has several, the one that its commit names."""
    version, paths = store.newest_snapshots
    ids = logged.ids(key, version)
    named = [path for path in paths if any(f"{version}_{own_id}." in path for own_id in ids)]
    return max(named or paths, default="")


def describe(
    key: StoreKey, store: StoreFiles, logged: LoggedState, opened: OpenedSnapshots
) -> StoreEvidence:
    """Return one store of one partition."""
    path = find_newest_snapshot(key, store, logged)
    snapshot = opened.snapshots.get(key)
    rows: int | Unknown = _UNCOUNTED
    if path.endswith(".zip"):
        rows = _count_snapshot_rows(path, snapshot, opened)
        rows = rows if store.newest_snapshots[0] == store.latest else _SNAPSHOT_ONLY
        if isinstance(rows, int) and store.newest_snapshots[0] in opened.damaged.get(key, ()):
            rows = _DAMAGED
    damaged = _find_damaged(key, store, logged, opened)
    restorable, repairable = _find_versions(key, store, logged, damaged)
    return StoreEvidence(
        partition=key[1],
        store=key[2],
        latest_version=store.latest,
        snapshots=spans.subtract(tuple(store.snapshots), damaged),
        restorable=restorable,
        repairable=repairable,
        files=store.files,
        bytes=store.bytes,
        rows=rows,
        metadata_version=snapshot.version if snapshot is not None else 0,
        opened=snapshot is not None or key in opened.damaged,
        written_ms=store.written_ms,
        unique_ids=bool(store.unique_ids),
    )


def _find_damaged(
    key: StoreKey, store: StoreFiles, logged: LoggedState, opened: OpenedSnapshots
) -> tuple[Span, ...]:
    """Return the versions whose snapshots no Spark can load.

    A snapshot with a unique id counts only if its commit names it, or if no commit names any.
    """
    versions = set(opened.damaged.get(key, ()))
    for version, unique_id in store.empty_ids:
        named = logged.ids(key, version)
        if not named or unique_id in named:
            versions.add(version)
    damaged = [Span(first=version, last=version) for version in versions]
    return spans.merge(sorted([*store.empty_snapshots, *damaged], key=lambda span: span.first))


def _find_versions(
    key: StoreKey, store: StoreFiles, logged: LoggedState, damaged: Sequence[Span]
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Return the versions that every Spark can restore, and those that only later ones repair."""
    lost = [
        Span(first=version, last=version)
        for version, existing in sorted(store.unique_ids.items())
        if (named := logged.ids(key, version)) and not named & existing
    ]
    snapshots = spans.subtract(tuple(store.snapshots), [*lost, *damaged])
    changes = spans.subtract(tuple(store.changes), lost)
    whole = spans.subtract(
        spans.find_restorable(snapshots, changes), _find_spoilt(snapshots, damaged)
    )
    if not damaged:
        return whole, ()
    return whole, spans.subtract(spans.find_restorable(snapshots, changes, _MOST_REPLAYED), whole)


def _find_spoilt(snapshots: Sequence[Span], damaged: Sequence[Span]) -> Iterator[Span]:
    """Yield the versions from a damaged snapshot to the next whole one.

    Spark starts at the newest snapshot, damaged or not.
    """
    for hole in damaged:
        following = (span.first for span in snapshots if span.first > hole.last)
        yield Span(first=hole.first, last=next(following, _NEVER) - 1)


def sum_rows(stores: Sequence[StoreEvidence], but: tuple[str, ...]) -> int | Unknown:
    """Return the rows of all stores, except those whose names end with one of `but`."""
    rows = 0
    for store in stores:
        if store.store.endswith(but):
            continue
        if isinstance(store.rows, Unknown):
            return store.rows
        rows += store.rows
    return rows


def _count_snapshot_rows(
    path: str, snapshot: RocksDbSnapshot | None, opened: OpenedSnapshots
) -> int | Unknown:
    """Return the rows of a snapshot, or why they are unknown."""
    if snapshot is not None:
        return snapshot.keys if snapshot.keys >= 0 else _NOT_TRACKED
    unreadable = opened.unreadable.get(path)
    return _TOO_MANY if unreadable is None else Unknown(reason=unreadable.reason)
