"""Stage 2: the files of state stores -> StoreSeen, as the logs allow them to count.

A name alone does not make a file part of the state. Where versions have unique ids, only the files
that the commit of a batch names are its state: a task that was given up leaves others beside them.
And a repartition to fewer partitions leaves the folders of the others behind.
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
_UNCOUNTED = Unknown(reason="the files of this state store do not say how many rows they hold")
_SNAPSHOT_ONLY = Unknown(reason="only snapshots say how many rows they hold; changes follow it")
_TOO_MANY = Unknown(reason=f"only {MOST_ZIPS} snapshots are opened to count rows")
_DAMAGED = Unknown(reason="the newest snapshot cannot be loaded")
_NOT_TRACKED = Unknown(reason="Spark was told not to count rows")

StoreId = tuple[int, str]
"""A store of one operator: its partition and its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedState:
    """What the logs and the runs say of the state.

    `rows` are those that the last committed batch told of, by operator, and `operators` the names
    of the operators that the runs report. `batches` are those that
    both logs hold. `pinned` are the numbers of partitions that batches were planned with, 0 where
    nothing tells, each with the first of these batches. `loads` is the version that the next batch
    loads: its own number. `idle` is a batch without data: Spark plans one only for operators with
    state, when the watermark has moved.
    """

    rows: Mapping[str, int]
    operators: Known[tuple[str, ...]] | None
    commits: Mapping[BatchId, CommitEntry]
    batches: tuple[Span, ...] | Unknown
    last_committed: BatchId | None
    settings: Mapping[str, str]
    """What the latest offset entry pins."""
    pinned: tuple[tuple[int, int], ...]
    loads: int
    idle: BatchId | None
    plan: Known[Fingerprint] | Unknown = NOT_RECORDED

    @property
    def partitions(self) -> int:
        """The number that the latest offset entry pins."""
        return self.pinned[-1][1]

    def ids(self, key: StoreKey, version: int) -> frozenset[str]:
        """The unique ids of a version in one partition; none where no commit names any.

        Which store of the partition an id is of is not told, and need not be: no two are the same.
        """
        operator, partition, _ = key
        entry = self.commits.get(BatchId(version - 1))
        named = entry.state_ids.get(operator, ()) if entry is not None else ()
        return frozenset(named[partition]) if partition < len(named) else frozenset()


def make_logged_state(tree: CheckpointTree, entries: Entries, told: History) -> LoggedState:
    """What the logs, the entries of them that were read, and the runs say of the state."""
    batches = tail.find_batches(tree)
    last_planned, last_committed = batches.last_planned, batches.last_committed
    rows, reported = told.rows_after(last_committed), told.progress_operators
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
        plan=told.plan,
    )


def _normalise_name(reported: str) -> str:
    """The name of an operator; before 4.0 a session window is the one that reports none."""
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
    """Only a repartition changes the number; of batches that were not read it is the next one's."""
    found: list[tuple[int, int]] = []
    for batch, entry in sorted(entries.offsets.items()):
        number = state_partitions.read_planned(entry.settings)
        if not found or number != found[-1][1]:
            found.append((batch if found else 0, number))
    return tuple(found) or ((0, 0),)


@dataclass(slots=True)
class OpenedSnapshots:
    """The newest snapshots, as far as they were opened, and what could not be read.

    `damaged` are the versions whose snapshots no Spark can load.
    """

    snapshots: dict[StoreKey, RocksDbSnapshot] = field(default_factory=dict)
    damaged: dict[StoreKey, set[int]] = field(default_factory=dict)
    unreadable: dict[str, UnreadableFile] = field(default_factory=dict)

    def damage(self, key: StoreKey, version: int) -> None:
        """Note that the snapshot of a version cannot be loaded."""
        self.damaged.setdefault(key, set()).add(version)


def find_left_over(found: Mapping[StoreKey, StoreFiles], partitions: int) -> frozenset[int]:
    """The partitions of one operator that no batch uses any more.

    They lie beyond the number that is pinned, and the others have gone on without them.
    """
    latest: dict[int, int] = {}
    for (_, partition, _), store in found.items():
        latest[partition] = max(store.latest, latest.get(partition, 0))
    used = max((at for partition, at in latest.items() if partition < partitions), default=0)
    return frozenset(n for n, at in latest.items() if n >= partitions > 0 and at < used)


def find_loaded(
    found: Collection[StoreId], declared: Sequence[StateStoreInfo], pinned: int, *, keyed: bool
) -> frozenset[StoreId]:
    """The stores of one operator that a batch loads.

    They are those that the operator's metadata names; where there is none, as in 3.5, the same ones
    in every partition. How many partitions there are is what the batch was planned with: the
    metadata tells it only where nothing is pinned, as a repartition does not write it anew. An
    operator without a key has one partition, whatever both say.
    """
    wanted = {one for one in found if not (keyed and pinned) or one[0] < pinned}
    named = {one.name: one.partitions for one in declared}
    for name, told in (named or dict.fromkeys((store for _, store in found), 0)).items():
        known = pinned or (told if told < _MOST_PARTITIONS else 0)
        wanted.update((n, name) for n in range(known if keyed else 1))
    return frozenset(wanted)


def find_restorable(
    found: Mapping[StoreId, StoreEvidence],
    declared: Sequence[StateStoreInfo],
    logged: LoggedState,
    *,
    keyed: bool,
) -> tuple[Span, ...] | Unknown:
    """The batches that a query can be taken back to.

    Every store that the batch has written can be put together as it was then, and both logs hold
    the batch. A version is a batch id plus one.
    """
    if isinstance(logged.batches, Unknown):
        return logged.batches
    batches: list[Span] = []
    ends = (*(first for first, _ in logged.pinned[1:]), _NEVER)
    for (first, pinned), end in zip(logged.pinned, ends, strict=True):
        wanted = find_loaded(found, declared, pinned, keyed=keyed)
        held = [found[one].restorable if one in found else () for one in wanted]
        versions = spans.intersect([(Span(first=first + 1, last=end),), *held]) if held else ()
        batches += (Span(first=one.first - 1, last=one.last - 1) for one in versions)
    return spans.merge(spans.intersect([batches, logged.batches]))


def find_newest_snapshot(key: StoreKey, store: StoreFiles, logged: LoggedState) -> str:
    """The newest snapshot; of several of one version, the one that its commit names."""
    version, paths = store.newest_snapshots
    ids = logged.ids(key, version)
    named = [path for path in paths if any(f"{version}_{one}." in path for one in ids)]
    return max(named or paths, default="")


def describe(
    key: StoreKey, store: StoreFiles, logged: LoggedState, opened: OpenedSnapshots
) -> StoreEvidence:
    """One store of one partition."""
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
    """The versions whose snapshots no Spark can load.

    Of those with ids only one that its commit names counts, or one of which no commit tells.
    """
    versions = set(opened.damaged.get(key, ()))
    for version, one in store.empty_ids:
        named = logged.ids(key, version)
        if not named or one in named:
            versions.add(version)
    found = [Span(first=version, last=version) for version in versions]
    return spans.merge(sorted([*store.empty_snapshots, *found], key=lambda span: span.first))


def _find_versions(
    key: StoreKey, store: StoreFiles, logged: LoggedState, damaged: Sequence[Span]
) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The versions that every Spark can put together, and those that only a later one repairs."""
    lost = [
        Span(first=version, last=version)
        for version, there in sorted(store.unique_ids.items())
        if (named := logged.ids(key, version)) and not named & there
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
    """From a damaged snapshot to the next whole one: Spark begins at the newest, damaged or not."""
    for one in damaged:
        following = (span.first for span in snapshots if span.first > one.last)
        yield Span(first=one.first, last=next(following, _NEVER) - 1)


def sum_rows(stores: Sequence[StoreEvidence], but: tuple[str, ...]) -> int | Unknown:
    """The rows of stores together, but of those whose names end so."""
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
    """The rows of a snapshot, or why they are not known."""
    if snapshot is not None:
        return snapshot.keys if snapshot.keys >= 0 else _NOT_TRACKED
    unreadable = opened.unreadable.get(path)
    return _TOO_MANY if unreadable is None else Unknown(reason=unreadable.reason)
