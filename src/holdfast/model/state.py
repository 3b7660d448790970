"""The state of a query as it was read: its operators, and their stores in each partition."""

from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.model.checkpoint import ColumnFamily, StateStoreInfo
from holdfast.model.fact import Absent, Fact, Unknown, UnreadableFile
from holdfast.model.ids import BatchId, Span
from holdfast.model.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MisplacedPartition:
    """A state partition in a wrong folder, and the folder in which Spark looks for it."""

    folder: str
    belongs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreEvidence:
    """One state store of one partition.

    A version is a batch id plus one. `restorable` are the versions that can be rebuilt from the
    files: a snapshot, and every change after it. `repairable` are the versions that only some
    versions of Spark can rebuild: they skip a damaged snapshot, and replay the changes since the
    previous one. `metadata_version` is the version of RocksDB's metadata in the newest snapshot, 0
    if there is none or it was not `opened`. `written_ms` has the times at which the newest changes
    were written, if a later write would use the same file name. The files of a store with
    `unique_ids` count only if the last commit names their ids.
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

    `restorable` are the batches that a query can go back to: the state of every store can be
    rebuilt, and both logs have the batch. `left_over` is the number of partitions that remain after
    a repartition to fewer; besides `left_over`, only `restorable` includes them. `absent` are the
    stores, by partition and name, that a start loads and that have no files; `partitions` includes
    their partitions. `unlisted` are its folders that cannot be listed: they may contain more.

    `metadata` is the operator's metadata file that a start reads. An `evolving` operator, such as
    transformWithState, keeps its schemas under names that only that file contains; `lost_schemas`
    are those that are not in this checkpoint.
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
    declared_stores: tuple[StateStoreInfo, ...]
    """The stores that the operator's metadata names; none if it cannot be read."""
    stores: tuple[StoreEvidence, ...]
    metadata: Fact[str]
    evolving: bool = False
    lost_schemas: tuple[str, ...] = ()
    absent: tuple[tuple[int, str], ...] = ()
    unlisted: tuple[UnreadableFile, ...] = ()

    @property
    def oldest_batch(self) -> BatchId | None:
        """Return the oldest batch that is known to be restorable."""
        known = () if isinstance(self.restorable, Unknown) else self.restorable
        return BatchId(known[0].first) if known else None

    @property
    def newest_batch(self) -> BatchId | None:
        """Return the newest batch that is known to be restorable."""
        known = () if isinstance(self.restorable, Unknown) else self.restorable
        return BatchId(known[-1].last) if known else None


def make_lost_operator(operator: int, name: Fact[str], reason: str) -> OperatorEvidence:
    """Return an operator that has no files left.

    Its partitions are not known, but every operator has a partition 0.
    """
    return OperatorEvidence(
        operator=operator, name=name, partitions=0, left_over=0, rows=Unknown(reason=reason),
        bytes=0, latest_version=None, restorable=(), schema={}, properties={}, declared_stores=(),
        stores=(), metadata=Absent(reason=reason), absent=((0, "default"),),
    )  # fmt: skip


def format_store_folder(operator: int, partition: int, store: str) -> str:
    """Return the folder of a state store, relative to its checkpoint."""
    inner = "" if store == "default" else f"/{store}"
    return f"state/{operator}/{partition}{inner}"
