"""Errors that the state makes Spark raise: Evidence, batch -> StartError."""

from collections.abc import Iterator
from dataclasses import replace

from holdfast.model import state
from holdfast.model.checkpoint import FileKind
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Absent, Known, UnreadableFile
from holdfast.model.ids import BatchId
from holdfast.model.restart import Stage, StartError, StartOptions, StateLoad
from holdfast.model.spark_version import SparkVersion
from holdfast.model.state import OperatorEvidence
from holdfast.predict import operator_descriptions, state_load
from holdfast.spark import exceptions

_V4_0, _V4_2, _V4_3 = SparkVersion(4, 0), SparkVersion(4, 2), SparkVersion(4, 3)
_MOST_REPLAYED = 500
_MOST_LISTED = 20
_CHANGES = (".delta", ".changelog")
_COMMIT_WITH_IDS = 2
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def find(evidence: Evidence, start: StartOptions, batch: BatchId) -> Iterator[StartError]:
    """Yield what stops the batch at its state."""
    yield from _find_operator_errors(evidence, start.spark, batch)
    yield from _find_description_errors(evidence, start.spark, batch)
    # Certain errors come before uncertain ones, because a start fails at the first.
    for load in sorted(
        state_load.list_next_loads(evidence, batch, start.spark), key=lambda load: load.ended > 0
    ):
        if load.missing:
            yield _make_missing_error(evidence, start.spark, load)
    yield from _find_format_error(evidence, start.spark, batch)
    refused = state_load.list_stores_of_4_0(evidence)
    if refused and start.spark != _V4_0:
        yield StartError(
            stage=Stage.WRITING,
            batch=batch,
            condition="CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT",
            exceptions=("SparkException",),
            reason=f"RocksDB's metadata in `{refused[0]}` has version 2, which only 4.0 reads",
            read_from=refused[:_MOST_LISTED],
        )


def _find_operator_errors(
    evidence: Evidence, spark: SparkVersion, batch: BatchId
) -> Iterator[StartError]:
    """Yield an error if an operator has lost its state.

    From 4.0 on Spark compares the operators with their metadata, if there is any. From 4.2 on it
    also requires that the folder `state` is not empty.
    """
    lost = [
        operator.operator
        for operator in evidence.operators
        if not operator.partitions and not operator.unlisted
    ]
    if not lost or batch == 0 or spark < _V4_0:
        return
    condition = ""
    if any(isinstance(operator.metadata, Known) for operator in evidence.operators):
        condition = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    elif spark >= _V4_2 and "state" not in evidence.nonempty_folders:
        condition = "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY"
    if condition:
        yield exceptions.make_error(
            condition,
            ("SparkRuntimeException",),
            f"nothing is left of the state of operator {lost[0]}",
            f"state/{lost[0]}",
            stage=Stage.PLANNING,
            batch=batch,
        )


def _find_description_errors(
    evidence: Evidence, spark: SparkVersion, batch: BatchId
) -> Iterator[StartError]:
    """Yield schemas and metadata that stop the planning of a batch.

    An unreadable schema stops it; a missing one seldom does.
    """
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
        reason = f"`{path}`, a schema of the state, is missing"
        yield exceptions.make_error(
            "", ("FileNotFoundException",), reason, path, stage=Stage.PLANNING, batch=batch
        )


def _find_format_error(
    evidence: Evidence, spark: SparkVersion, batch: BatchId
) -> Iterator[StartError]:
    """Yield an error if the latest commit is of version 2 and the state is not in RocksDB.

    4.3 takes the format of the state from that commit, and only RocksDB has a second format.
    """
    committed = evidence.batches.last_committed
    entry = None if committed is None else evidence.commit_entries.get(committed)
    provider = evidence.settings.get(_PROVIDER, "")
    has_ids = entry is not None and entry.version == _COMMIT_WITH_IDS
    if spark >= _V4_3 and has_ids and evidence.operators and "RocksDB" not in provider:
        yield exceptions.make_error(
            "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED",
            ("StateStoreCheckpointIdsNotSupported",),
            f"`commits/{committed}` has version 2, which only state in RocksDB supports",
            f"commits/{committed}",
            stage=Stage.WRITING,
            batch=batch,
        )


def _make_metadata_error(
    operator: OperatorEvidence, file: UnreadableFile, batch: BatchId
) -> StartError:
    """Return the error at missing or damaged metadata, without which Spark finds no schema."""
    if not isinstance(operator.metadata, UnreadableFile):
        return exceptions.make_error(
            "STDS_FAILED_TO_READ_OPERATOR_METADATA",
            ("StateDataSourceReadOperatorMetadataFailure",),
            f"operator {operator.operator} has no metadata in `{file.path}`: {file.reason}",
            file.path,
            stage=Stage.PLANNING,
            batch=batch,
        )
    error = exceptions.make_damage_error(file, exact=False, stage=Stage.PLANNING)
    if file.reason == "empty":
        error = replace(error, condition="INTERNAL_ERROR", exceptions=("SparkException",))
    return replace(error, batch=batch)


def _make_schema_error(file: UnreadableFile, spark: SparkVersion, batch: BatchId) -> StartError:
    # In 3.5 a task reads the schema.
    read_by_driver = spark >= _V4_0
    classes = ("EOFException", "UTFDataFormatException", "IllegalStateException")
    return StartError(
        stage=Stage.PLANNING if read_by_driver else Stage.WRITING,
        batch=batch,
        condition="",
        exceptions=classes if read_by_driver else ("SparkException",),
        reason=f"`{file.path}` cannot be read: {file.reason}",
        read_from=(file.path,),
    )


def _make_missing_error(evidence: Evidence, spark: SparkVersion, load: StateLoad) -> StartError:
    condition = _name_condition(evidence, spark, load)
    blocking = state_load.list_blocking(evidence, load, load.missing[0])
    why = f": {blocking[0].description}" if blocking else ""
    store = load.missing[0]
    return StartError(
        stage=Stage.WRITING,
        batch=BatchId(load.version),
        condition=f"CANNOT_LOAD_STATE_STORE.{condition}" if spark >= _V4_0 else "",
        exceptions=("SparkException",),
        reason=f"version {load.version} of the state cannot be loaded from `{store}`{why}",
        read_from=load.missing[:_MOST_LISTED],
        unless=f"operator {load.operator} was taken out of the query"
        if _can_avoid(evidence, load)
        else "",
    )


def _can_avoid(evidence: Evidence, load: StateLoad) -> bool:
    """Return whether a query without the operator starts; Spark refuses it if metadata names it."""
    own = [operator for operator in evidence.operators if operator.operator == load.operator]
    unnamed = all(isinstance(operator.metadata, Absent) for operator in own)
    return load.ended > 0 or (load.never_written and unnamed)


def _name_condition(evidence: Evidence, spark: SparkVersion, load: StateLoad) -> str:
    """Return the condition of the first store that cannot provide the version."""
    rocksdb = "RocksDB" in evidence.settings.get(_PROVIDER, "")
    # Spark names a missing change file even if RocksDB keeps no changes.
    missing = "CANNOT_READ_STREAMING_STATE_FILE" if rocksdb else "CANNOT_READ_DELTA_FILE_NOT_EXISTS"
    blocking = [file.path for file in state_load.list_blocking(evidence, load, load.missing[0])]
    if not blocking:
        return missing
    has_changes = not rocksdb or FileKind.STATE_CHANGELOG in evidence.files
    repairs = spark >= state_load.REPAIRS_SINCE and has_changes
    if repairs and not any(path.endswith(_CHANGES) for path in blocking):
        return missing if _is_in_reach(evidence, load) else "AUTO_SNAPSHOT_REPAIR_FAILED"
    resized = any("/SSTs/" in path or "/logs/" in path for path in blocking)
    return "UNEXPECTED_FILE_SIZE" if resized else "UNCATEGORIZED"


def _is_in_reach(evidence: Evidence, load: StateLoad) -> bool:
    """Return whether Spark can fall back to an older snapshot, or to the beginning."""
    lowest = load.version - _MOST_REPLAYED
    return lowest <= 0 or any(
        span.last >= lowest and span.first < load.version
        for operator in evidence.operators
        for store in operator.stores
        if state.format_store_folder(operator.operator, store.partition, store.store)
        == load.missing[0]
        for span in store.snapshots
    )
