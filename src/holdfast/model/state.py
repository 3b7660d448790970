"""What was seen of the state of a query: its operators, and their stores of one partition each."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.checkpoint import ColumnFamily, StateStoreInfo
from holdfast.model.fact import Absent, Fact, Unknown, UnreadableFile
from holdfast.model.ids import BatchId, Span
from holdfast.model.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MisplacedPartition:
    """A partition of state where Spark does not look for it, and the place where it does."""

    folder: str
    belongs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEvidence:
    """One state store of one partition.

    A version is a batch id plus one. `restorable` are the versions that can be put together from
    what is there: a snapshot, and every change after it. `repairable` are those that can be only by
    a Spark that passes over a damaged snapshot and replays the changes since the one before.
    `metadata_version` is that of RocksDB's metadata in the newest snapshot, 0 where there is none
    or it was not `opened`. `written_ms` is when the newest changes were written, where a later
    write would have the same name. The files of a store with `unique_ids` count only if the last
    commit names their ids.
    """

    partition: int
    store: str
    latest_version: int
    snapshots: tuple[Span, ...]
    restorable: tuple[Span, ...]
    repairable: tuple[Span, ...]
    files: int
    bytes: int
    rows: int | Unknown
    metadata_version: int
    opened: bool
    written_ms: Mapping[int, int]
    unique_ids: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorEvidence:
    """One stateful operator with its stores.

    `restorable` are the batches that a query can be taken back to: their state can be put together
    in all of them, and both logs hold the batch. `left_over` is the number of partitions that a
    repartition to fewer has left behind: only `restorable` tells of them, too. `absent` are the
    stores, by partition and name, that a start loads and that have no files; `partitions` counts
    theirs, too. `unlisted` are its folders that cannot be listed: there may be more than was seen.

    `metadata` is the file of the operator's metadata that a start reads. An `evolving` operator
    keeps its schemas under names that only that file tells, as transformWithState does;
    `lost_schemas` are those of them that are not in this checkpoint.
    """

    operator: int
    name: Fact[str]
    partitions: int
    left_over: int
    rows: int | Unknown
    bytes: int
    latest_version: int | None
    restorable: tuple[Span, ...] | Unknown
    schema: Mapping[str, tuple[ColumnFamily, ...]]
    properties: Json
    declared: tuple[StateStoreInfo, ...]
    """The stores as the operator's metadata names them; none where it cannot be read."""
    stores: tuple[StoreEvidence, ...]
    metadata: Fact[str]
    evolving: bool = False
    lost_schemas: tuple[str, ...] = ()
    absent: tuple[tuple[int, str], ...] = ()
    unlisted: tuple[UnreadableFile, ...] = ()

    @property
    def oldest_batch(self) -> BatchId | None:
        """The oldest batch that is known to be restorable."""
        known = () if isinstance(self.restorable, Unknown) else self.restorable
        return BatchId(known[0].first) if known else None

    @property
    def newest_batch(self) -> BatchId | None:
        """The newest batch that is known to be restorable."""
        known = () if isinstance(self.restorable, Unknown) else self.restorable
        return BatchId(known[-1].last) if known else None


def make_lost_operator(operator: int, name: Fact[str], reason: str) -> OperatorEvidence:
    """Return an operator of which nothing is left.

    Which partitions it had is not known, but every operator has a first one.
    """
    return OperatorEvidence(
        operator=operator, name=name, partitions=0, left_over=0, rows=Unknown(reason=reason),
        bytes=0, latest_version=None, restorable=(), schema={}, properties={}, declared=(),
        stores=(), metadata=Absent(reason=reason), absent=((0, "default"),),
    )  # fmt: skip


def format_store_folder(operator: int, partition: int, store: str) -> str:
    """Return the folder of a state store, relative to its checkpoint."""
    inner = "" if store == "default" else f"/{store}"
    return f"state/{operator}/{partition}{inner}"
