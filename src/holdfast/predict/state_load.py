"""Stage 3: state files -> which version every operator loads, and whether it is there.

Batch N loads version N, which batch N-1 has written: a snapshot, and every change after it. Version
0 is empty and needs no file. The state is loaded when the rows go to the sink, not before.

Spark begins at the newest snapshot, and fails if that is damaged. From 4.2 on it passes over it and
replays the changes since the one before, at most 500; RocksDB only if it keeps changes.
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from holdfast.decode import names
from holdfast.model import state
from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Absent, Known, UnreadableFile
from holdfast.model.ids import BatchId, spans_contain
from holdfast.model.restart import Stage, StartError, StartOptions, StateLoad
from holdfast.model.spark_version import SparkVersion
from holdfast.model.state import OperatorEvidence, StoreEvidence
from holdfast.predict import operator_descriptions
from holdfast.spark import exceptions

_V4_0, _V4_3 = SparkVersion(4, 0), SparkVersion(4, 3)
REPAIRS = SparkVersion(4, 2)
_MOST_REPLAYED = 500
_CHANGES = (".delta", ".changelog")
_SNAPSHOTS = (".snapshot", ".zip")
_ONLY_4_0 = 2
_SECOND = 2
_VERSION = re.compile(r"\d{1,18}(?=[._])")
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_MOST_TOLD = 20


def list_loads(evidence: Evidence, batch: BatchId, spark: SparkVersion) -> tuple[StateLoad, ...]:
    """What each operator loads for a batch."""
    return tuple(
        StateLoad(
            operator=one.operator,
            version=batch,
            missing=tuple(_list_missing(one, batch, spark)) if batch > 0 else (),
            ended=_find_end(evidence, one),
            never_written=bool(one.partitions) and not _has_versions(evidence, one),
        )
        for one in evidence.operators
    )


def list_next_loads(
    evidence: Evidence, batch: BatchId, spark: SparkVersion
) -> tuple[StateLoad, ...]:
    """What each operator loads for the batch that a start runs, by the commits that are there.

    Where versions have unique ids, the latest commit names them, and must be of the batch before.
    """
    loads = list_loads(evidence, batch, spark)
    if batch == 0 or evidence.batches.last_committed == batch - 1:
        return loads
    unnamed = {
        operator.operator: tuple(
            state.format_store_folder(operator.operator, one.partition, one.store)
            for one in operator.stores
            if one.unique_ids
        )
        for operator in evidence.operators
    }
    return tuple(
        replace(one, missing=tuple(dict.fromkeys((*one.missing, *unnamed[one.operator]))))
        for one in loads
    )


def find_errors(evidence: Evidence, how: StartOptions, batch: BatchId) -> Iterator[StartError]:
    """What stops the batch at its state."""
    yield from _find_operator_errors(evidence, how.spark, batch)
    yield from _find_description_errors(evidence, how.spark, batch)
    # What is certain before what is not: a start fails at the first of them.
    for load in sorted(
        list_next_loads(evidence, batch, how.spark), key=lambda load: load.ended > 0
    ):
        if load.missing:
            yield _make_missing_error(evidence, how.spark, load)
    yield from _find_format_error(evidence, how.spark, batch)
    refused = list_stores_of_4_0(evidence)
    if refused and how.spark != _V4_0:
        yield StartError(
            stage=Stage.WRITING,
            batch=batch,
            condition="CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT",
            exceptions=("SparkException",),
            reason=f"RocksDB's metadata in `{refused[0]}` has version 2, which 4.0 alone reads",
            read_from=refused[:_MOST_TOLD],
        )


def _find_operator_errors(
    evidence: Evidence, spark: SparkVersion, batch: BatchId
) -> Iterator[StartError]:
    """From 4.0 on Spark holds the operators against their metadata, if there is any.

    From 4.2 on it also wants something to be in the folder `state`.
    """
    gone = [one.operator for one in evidence.operators if not one.partitions and not one.unlisted]
    if not gone or batch == 0 or spark < _V4_0:
        return
    condition = ""
    if any(isinstance(one.metadata, Known) for one in evidence.operators):
        condition = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    elif spark >= REPAIRS and "state" not in evidence.nonempty_folders:
        condition = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
    if condition:
        yield exceptions.make_error(
            condition,
            ("SparkRuntimeException",),
            f"nothing is left of the state of operator {gone[0]}",
            f"state/{gone[0]}",
            stage=Stage.PLANNING,
            batch=batch,
        )


def _find_format_error(
    evidence: Evidence, spark: SparkVersion, batch: BatchId
) -> Iterator[StartError]:
    """4.3 takes the format of the state from the latest commit, and only RocksDB has a second."""
    committed = evidence.batches.last_committed
    entry = None if committed is None else evidence.commit_entries.get(committed)
    provider = evidence.settings.get(_PROVIDER, "")
    second = entry is not None and entry.version == _SECOND
    if spark >= _V4_3 and second and evidence.operators and "RocksDB" not in provider:
        yield exceptions.make_error(
            "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED",
            ("StateStoreCheckpointIdsNotSupported",),
            f"`commits/{committed}` is of version 2, which only state in RocksDB has",
            f"commits/{committed}",
            stage=Stage.WRITING,
            batch=batch,
        )


def list_stores_of_4_0(evidence: Evidence) -> tuple[str, ...]:
    """The stores whose snapshot has metadata of a version that only Spark 4.0 writes and reads."""
    return tuple(
        state.format_store_folder(operator.operator, store.partition, store.store)
        for operator in evidence.operators
        for store in operator.stores
        if store.metadata_version == _ONLY_4_0
    )


def _find_description_errors(
    evidence: Evidence, spark: SparkVersion, batch: BatchId
) -> Iterator[StartError]:
    """A schema that cannot be read stops the planning of a batch; a missing one seldom does."""
    for file in evidence.unreadable:
        if file.path.startswith("state/") and file.path.endswith("_metadata/schema"):
            yield _make_schema_error(file, spark, batch)
    if batch == 0 or spark < _V4_0:
        return
    for operator, file in operator_descriptions.find_unreadable_metadata(evidence):
        yield _make_metadata_error(operator, file, batch)
    for _, file in operator_descriptions.find_unreadable_schemas(evidence):
        yield _make_schema_error(file, spark, batch)
    for _, path in operator_descriptions.find_lost_schemas(evidence):
        reason = f"`{path}`, a schema of the state, is not there"
        yield exceptions.make_error(
            "", ("FileNotFoundException",), reason, path, stage=Stage.PLANNING, batch=batch
        )


def _make_metadata_error(
    operator: OperatorEvidence, file: UnreadableFile, batch: BatchId
) -> StartError:
    """Without its metadata an operator's schemas are not found."""
    if not isinstance(operator.metadata, UnreadableFile):
        return exceptions.make_error(
            "STDS_FAILED_TO_READ_OPERATOR_METADATA",
            ("StateDataSourceReadOperatorMetadataFailure",),
            f"operator {operator.operator} has no metadata in `{file.path}`: {file.reason}",
            file.path,
            stage=Stage.PLANNING,
            batch=batch,
        )
    found = exceptions.make_damage_error(file, exact=False, stage=Stage.PLANNING)
    if file.reason == "empty":
        found = replace(found, condition="INTERNAL_ERROR", exceptions=("SparkException",))
    return replace(found, batch=batch)


def _make_schema_error(file: UnreadableFile, spark: SparkVersion, batch: BatchId) -> StartError:
    # In 3.5 a task reads it.
    planned = spark >= _V4_0
    classes = ("EOFException", "UTFDataFormatException", "IllegalStateException")
    return StartError(
        stage=Stage.PLANNING if planned else Stage.WRITING,
        batch=batch,
        condition="",
        exceptions=classes if planned else ("SparkException",),
        reason=f"`{file.path}` cannot be read: {file.reason}",
        read_from=(file.path,),
    )


def _make_missing_error(evidence: Evidence, spark: SparkVersion, load: StateLoad) -> StartError:
    condition = _name_condition(evidence, spark, load)
    why = "".join(
        f": {one.description}" for one in list_blocking(evidence, load, load.missing[0])[:1]
    )
    told = f"version {load.version} of the state cannot be put together in `{load.missing[0]}`"
    return StartError(
        stage=Stage.WRITING,
        batch=BatchId(load.version),
        condition=f"CANNOT_LOAD_STATE_STORE.{condition}" if spark >= _V4_0 else "",
        exceptions=("SparkException",),
        reason=f"{told}{why}",
        read_from=load.missing[:_MOST_TOLD],
        unless=f"operator {load.operator} was taken out of the query"
        if _can_avoid(evidence, load)
        else "",
    )


def _has_versions(evidence: Evidence, operator: OperatorEvidence) -> bool:
    """Whether an operator has state of any version, be it damaged, or folders that are hidden.

    A task that fails may leave temporary files.
    """
    unread = any(
        one.path.startswith(f"state/{operator.operator}/")
        and _VERSION.match(one.path.rpartition("/")[2])
        for one in evidence.unreadable
    )
    written = any(one.latest_version for one in operator.stores)
    return written or unread or bool(operator.unlisted)


def _can_avoid(evidence: Evidence, load: StateLoad) -> bool:
    """Whether a query without the operator starts: Spark refuses it where metadata names one."""
    own = [one for one in evidence.operators if one.operator == load.operator]
    unnamed = all(isinstance(one.metadata, Absent) for one in own)
    return load.ended > 0 or (load.never_written and unnamed)


def _find_end(evidence: Evidence, operator: OperatorEvidence) -> int:
    """Where all stores of an operator end, if later batches were committed without it.

    So does a query leave them that has lost the operator, and so do they look that come from an
    older copy. With the operator's metadata Spark refuses a query without it.
    """
    committed = evidence.batches.last_committed
    versions = {one.latest_version for one in operator.stores}
    if not isinstance(operator.metadata, Absent) or operator.absent or operator.evolving:
        return 0
    if committed is None or len(versions) != 1:
        return 0
    (last,) = versions
    whole = all(spans_contain(one.restorable, last) for one in operator.stores)
    return (
        last if whole and last <= committed and not _has_later_file(evidence, operator, last) else 0
    )


def _has_later_file(evidence: Evidence, operator: OperatorEvidence, last: int) -> bool:
    """Whether a file of a later version is there that cannot be read: the operator wrote it."""
    own = [one for one in evidence.unreadable if one.path.startswith(f"state/{operator.operator}/")]
    found = (_VERSION.match(one.path.rpartition("/")[2]) for one in own)
    return any(one is not None and int(one[0]) > last for one in found)


def _name_condition(evidence: Evidence, spark: SparkVersion, load: StateLoad) -> str:
    """What is wrong with the first store that cannot give the version."""
    rocksdb = "RocksDB" in evidence.settings.get(_PROVIDER, "")
    # That of a change, also where RocksDB keeps none.
    missing = "CANNOT_READ_STREAMING_STATE_FILE" if rocksdb else "CANNOT_READ_DELTA_FILE_NOT_EXISTS"
    unread = [one.path for one in list_blocking(evidence, load, load.missing[0])]
    if not unread:
        return missing
    repairs = spark >= REPAIRS and (not rocksdb or FileKind.STATE_CHANGELOG in evidence.files)
    if repairs and not any(one.endswith(_CHANGES) for one in unread):
        return missing if _is_in_reach(evidence, load) else "AUTO_SNAPSHOT_REPAIR_FAILED"
    resized = any("/SSTs/" in one or "/logs/" in one for one in unread)
    return "UNEXPECTED_FILE_SIZE" if resized else "UNCATEGORIZED"


def _is_in_reach(evidence: Evidence, load: StateLoad) -> bool:
    """Whether Spark goes back to another snapshot, or to the beginning, for want of the newest."""
    lowest = load.version - _MOST_REPLAYED
    return lowest <= 0 or any(
        span.last >= lowest and span.first < load.version
        for operator in evidence.operators
        for store in operator.stores
        if state.format_store_folder(operator.operator, store.partition, store.store)
        == load.missing[0]
        for span in store.snapshots
    )


def list_blocking(evidence: Evidence, load: StateLoad, store: str) -> tuple[UnreadableFile, ...]:
    """The damaged files of a store, but for snapshots that are not the newest: none is loaded."""
    whole = [
        span.last
        for operator in evidence.operators
        for one in operator.stores
        if state.format_store_folder(operator.operator, one.partition, one.store) == store
        for span in one.snapshots
        if span.first <= load.version
    ]
    found = [(one, _read_snapshot_version(one)) for one in list_damaged(evidence, store)]
    newest = max((n for _, n in found if n is not None and n <= load.version), default=0)
    newest = max([newest, *(min(last, load.version) for last in whole)])
    return tuple(one for one, n in found if n is None or n >= newest)


def _read_snapshot_version(file: UnreadableFile) -> int | None:
    """The version of a snapshot; None for any other file."""
    return names.classify(file.path).number if file.path.endswith(_SNAPSHOTS) else None


def list_damaged(evidence: Evidence, store: str) -> tuple[UnreadableFile, ...]:
    """The files of a store, by its folder, that no Spark can read."""
    return tuple(
        one
        for one in evidence.unreadable
        if one.path.startswith(f"{store}/") and "/_metadata/" not in one.path and not one.is_unread
    )


def _list_missing(operator: OperatorEvidence, version: int, spark: SparkVersion) -> Iterator[str]:
    """The stores that cannot give a version, and those that have no files."""
    found = (
        (one.partition, one.store) for one in operator.stores if not _can_give(one, version, spark)
    )
    for partition, store in sorted((*found, *operator.absent)):
        yield state.format_store_folder(operator.operator, partition, store)


def _can_give(store: StoreEvidence, version: int, spark: SparkVersion) -> bool:
    versions = store.restorable + (store.repairable if spark >= REPAIRS else ())
    return spans_contain(versions, version)
