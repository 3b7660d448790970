"""Which version of its state each operator loads, and whether it exists: Evidence -> StateLoad.

Batch N loads version N, which batch N-1 wrote: a snapshot, and every change after it. Version 0 is
empty and needs no file. Spark loads the state when the rows go to the sink, not before.

Spark begins at the newest snapshot, and fails if that is damaged. From 4.2 on it skips a damaged
snapshot and replays the changes since the one before, at most 500; with RocksDB only if it keeps
changes.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from holdfast.decode import names
from holdfast.model import state
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Absent, UnreadableFile
from holdfast.model.ids import BatchId, spans_contain
from holdfast.model.restart import StateLoad
from holdfast.model.spark_version import SparkVersion
from holdfast.model.state import OperatorEvidence, StoreEvidence

REPAIRS_SINCE = SparkVersion(4, 2)
_SNAPSHOTS = (".snapshot", ".zip")
_METADATA_OF_4_0 = 2
_VERSION = re.compile(r"\d{1,18}(?=[._])")


def list_loads(evidence: Evidence, batch: BatchId, spark: SparkVersion) -> tuple[StateLoad, ...]:
    """Return what each operator loads for a batch."""
    return tuple(
        StateLoad(
            operator=operator.operator,
            version=batch,
            missing=tuple(_list_missing(operator, batch, spark)) if batch > 0 else (),
            ended=_find_end(evidence, operator),
            never_written=bool(operator.partitions) and not _has_versions(evidence, operator),
        )
        for operator in evidence.operators
    )


def list_next_loads(
    evidence: Evidence, batch: BatchId, spark: SparkVersion
) -> tuple[StateLoad, ...]:
    """Return what each operator loads for the batch that a start runs, by the existing commits.

    If versions have unique ids, only the commit of the batch before names them.
    """
    loads = list_loads(evidence, batch, spark)
    if batch == 0 or evidence.batches.last_committed == batch - 1:
        return loads
    unnamed = {
        operator.operator: tuple(
            state.format_store_folder(operator.operator, store.partition, store.store)
            for store in operator.stores
            if store.unique_ids
        )
        for operator in evidence.operators
    }
    return tuple(
        replace(load, missing=tuple(dict.fromkeys((*load.missing, *unnamed[load.operator]))))
        for load in loads
    )


def may_have_state(operator: OperatorEvidence) -> bool:
    """Return whether a partition of an operator exists, or may exist in an unlisted folder."""
    return bool(operator.partitions or operator.unlisted)


def list_stores_of_4_0(evidence: Evidence) -> tuple[str, ...]:
    """Return the stores whose snapshot has metadata that only Spark 4.0 writes and reads."""
    return tuple(
        state.format_store_folder(operator.operator, store.partition, store.store)
        for operator in evidence.operators
        for store in operator.stores
        if store.metadata_version == _METADATA_OF_4_0
    )


def list_blocking(evidence: Evidence, load: StateLoad, path: str) -> tuple[UnreadableFile, ...]:
    """Return the damaged files of a store that a load reads.

    A load reads no snapshot but the newest.
    """
    whole = [
        span.last
        for operator in evidence.operators
        for store in operator.stores
        if state.format_store_folder(operator.operator, store.partition, store.store) == path
        for span in store.snapshots
        if span.first <= load.version
    ]
    damaged = [(file, _read_snapshot_version(file)) for file in list_damaged(evidence, path)]
    newest = max((n for _, n in damaged if n is not None and n <= load.version), default=0)
    newest = max([newest, *(min(last, load.version) for last in whole)])
    return tuple(file for file, n in damaged if n is None or n >= newest)


def list_damaged(evidence: Evidence, path: str) -> tuple[UnreadableFile, ...]:
    """Return the files of a store, by its folder, that no Spark can read."""
    return tuple(
        file
        for file in evidence.unreadable
        if file.path.startswith(f"{path}/")
        and "/_metadata/" not in file.path
        and not file.is_unread
    )


def _read_snapshot_version(file: UnreadableFile) -> int | None:
    """Return the version of a snapshot; None for any other file."""
    return names.classify(file.path).number if file.path.endswith(_SNAPSHOTS) else None


def _list_missing(operator: OperatorEvidence, version: int, spark: SparkVersion) -> Iterator[str]:
    """Yield the stores that cannot provide a version, and the stores without files."""
    lacking = (
        (store.partition, store.store)
        for store in operator.stores
        if not _can_provide(store, version, spark)
    )
    for partition, store in sorted((*lacking, *operator.absent)):
        yield state.format_store_folder(operator.operator, partition, store)


def _can_provide(store: StoreEvidence, version: int, spark: SparkVersion) -> bool:
    versions = store.restorable + (store.repairable if spark >= REPAIRS_SINCE else ())
    return spans_contain(versions, version)


def _has_versions(evidence: Evidence, operator: OperatorEvidence) -> bool:
    """Return whether an operator has state of any version, even damaged or in unlisted folders.

    Temporary files do not count: a task that fails may leave some.
    """
    unreadable = any(
        file.path.startswith(f"state/{operator.operator}/")
        and _VERSION.match(file.path.rpartition("/")[2])
        for file in evidence.unreadable
    )
    written = any(store.latest_version for store in operator.stores)
    return written or unreadable or bool(operator.unlisted)


def _find_end(evidence: Evidence, operator: OperatorEvidence) -> int:
    """Return the version at which all stores end, if later batches were committed; otherwise 0.

    A query that has lost the operator leaves its stores like this, and so does an older copy of the
    state. With the operator's metadata Spark refuses a query without the operator.
    """
    committed = evidence.batches.last_committed
    versions = {store.latest_version for store in operator.stores}
    if not isinstance(operator.metadata, Absent) or operator.absent or operator.evolving:
        return 0
    if committed is None or len(versions) != 1:
        return 0
    (last,) = versions
    is_whole = all(spans_contain(store.restorable, last) for store in operator.stores)
    ended = is_whole and last <= committed and not _has_later_file(evidence, operator, last)
    return last if ended else 0


def _has_later_file(evidence: Evidence, operator: OperatorEvidence, last: int) -> bool:
    """Return whether the operator wrote a later version whose file cannot be read."""
    folder = f"state/{operator.operator}/"
    own = [file for file in evidence.unreadable if file.path.startswith(folder)]
    versions = (_VERSION.match(file.path.rpartition("/")[2]) for file in own)
    return any(version is not None and int(version[0]) > last for version in versions)
