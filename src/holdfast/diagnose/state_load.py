"""Stage 3: state files -> which version every operator loads, and whether it is there.

Batch N loads version N, which batch N-1 has written: a snapshot, and every change after it. Version
0 is empty and needs no file. The state is loaded when the rows go to the sink, not before.
"""

from collections.abc import Iterator

from holdfast.diagnose import spark_errors
from holdfast.model.evidence import Evidence, OperatorSeen, StoreSeen, UnreadableFile
from holdfast.model.ids import BatchId
from holdfast.model.restart import Stage, StartError, Starting, StateLoad
from holdfast.model.spark_version import SparkVersion

_V4_0, _V4_3 = SparkVersion(4, 0), SparkVersion(4, 3)
_ONLY_4_0 = 2
_SECOND = 2
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_MOST_TOLD = 20


def of(evidence: Evidence, batch: BatchId) -> tuple[StateLoad, ...]:
    """What each operator loads for a batch."""
    return tuple(
        StateLoad(
            operator=one.operator,
            version=batch,
            missing=tuple(_missing(one, batch))[:_MOST_TOLD] if batch > 0 else (),
        )
        for one in evidence.operators
    )


def errors(evidence: Evidence, how: Starting, batch: BatchId) -> Iterator[StartError]:
    """What stops the batch at its state."""
    yield from _of_schemas(evidence, how.spark, batch)
    for load in of(evidence, batch):
        if load.missing:
            yield _not_there(evidence, how.spark, load)
    yield from _of_format(evidence, how.spark, batch)
    refused = of_4_0(evidence)
    if refused and how.spark != _V4_0:
        yield StartError(
            stage=Stage.WRITING,
            batch=batch,
            condition="CANNOT_LOAD_STATE_STORE.CANNOT_READ_CHECKPOINT",
            exceptions=("SparkException",),
            reason=f"RocksDB's metadata in `{refused[0]}` has version 2, which 4.0 alone reads",
            read_from=refused[:_MOST_TOLD],
        )


def _of_format(evidence: Evidence, spark: SparkVersion, batch: BatchId) -> Iterator[StartError]:
    """4.3 takes the format of the state from the latest commit, and only RocksDB has a second."""
    committed = evidence.batches.last_committed
    entry = None if committed is None else evidence.commit_entries.get(committed)
    provider = evidence.settings.get(_PROVIDER, "")
    second = entry is not None and entry.version == _SECOND
    if spark >= _V4_3 and second and evidence.operators and "RocksDB" not in provider:
        yield spark_errors.error(
            "STATE_STORE_CHECKPOINT_IDS_NOT_SUPPORTED",
            ("StateStoreCheckpointIdsNotSupported",),
            f"`commits/{committed}` is of version 2, which only state in RocksDB has",
            f"commits/{committed}",
            stage=Stage.WRITING,
            batch=batch,
        )


def of_4_0(evidence: Evidence) -> tuple[str, ...]:
    """The stores whose snapshot has metadata of a version that only Spark 4.0 writes and reads."""
    return tuple(
        folder(operator.operator, store.partition, store.store)
        for operator in evidence.operators
        for store in operator.stores
        if store.metadata_version == _ONLY_4_0
    )


def _of_schemas(evidence: Evidence, spark: SparkVersion, batch: BatchId) -> Iterator[StartError]:
    """A schema that cannot be read stops the planning of a batch; a missing one does not."""
    for file in evidence.unreadable:
        if file.path.startswith("state/") and file.path.endswith("_metadata/schema"):
            yield _unreadable(file, spark, batch)


def _unreadable(file: UnreadableFile, spark: SparkVersion, batch: BatchId) -> StartError:
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


def _not_there(evidence: Evidence, spark: SparkVersion, load: StateLoad) -> StartError:
    pinned = evidence.settings.get(_PROVIDER, "")
    missing = "CANNOT_READ_DELTA_FILE_NOT_EXISTS"
    if "RocksDB" in pinned:
        missing = "CANNOT_READ_STREAMING_STATE_FILE"  # that of a change, also where it keeps none
    if any(one.path.startswith(f"{load.missing[0]}/") for one in evidence.unreadable):
        missing = "UNCATEGORIZED"
    return StartError(
        stage=Stage.WRITING,
        batch=BatchId(load.version),
        condition=f"CANNOT_LOAD_STATE_STORE.{missing}" if spark >= _V4_0 else "",
        exceptions=("SparkException",),
        reason=f"version {load.version} of the state cannot be put together in `{load.missing[0]}`",
        read_from=load.missing,
    )


def _missing(operator: OperatorSeen, version: int) -> Iterator[str]:
    """The stores that cannot give a version, and those that have no files."""
    found = ((one.partition, one.store) for one in operator.stores if not _gives(one, version))
    for partition, store in sorted((*found, *operator.absent)):
        yield folder(operator.operator, partition, store)


def folder(operator: int, partition: int, store: str) -> str:
    """Where the files of a store lie."""
    inner = "" if store == "default" else f"/{store}"
    return f"state/{operator}/{partition}{inner}"


def _gives(store: StoreSeen, version: int) -> bool:
    return any(span.first <= version <= span.last for span in store.restorable)
