"""The tables that run records name -> the last batch of the query in the ledger of each.

holdfast/<job>/<generation>/<output>    the key in a table that holdfast writes
holdfast_ledger                         the ledger table in PostgreSQL, if it may be queried
<query id>                              the key in a table that Spark's own Delta sink writes
_spark_metadata/<batch>                 the log of Spark's file sink, which names no query
"""

import re
from collections.abc import Iterator, Mapping

from holdfast.errors import HoldfastError, name_extra
from holdfast.gather.history.query_facts import History, RecordedOutput
from holdfast.model.batch import LastWritten, LedgerKey, NothingWritten, WrittenBatch
from holdfast.model.definition import SinkKind
from holdfast.model.evidence import NO_BATCH, LedgerEvidence
from holdfast.model.fact import Absent, Unknown
from holdfast.model.ids import BatchId, Generation, JobName, OutputName, QueryId
from holdfast.storage import Children, Refused, open_reader, urls

_IN_DELTA = frozenset({SinkKind.DELTA_APPEND, SinkKind.DELTA_MERGE})
_IN_POSTGRES = frozenset({SinkKind.POSTGRES_APPEND, SinkKind.POSTGRES_UPSERT})
_IN_DATABASE = _IN_POSTGRES | {SinkKind.JDBC_APPEND, SinkKind.JDBC_UPSERT}
_NOT_QUERIED = Unknown(
    reason="its database was not queried; `holdfast diagnose` queries PostgreSQL"
)
_NO_SPARK = Unknown(reason="a JDBC ledger can only be read through Spark, which was not started")
_NO_SERVER = Unknown(reason="the run records do not name the server of the table")
_DELTA_SINK = re.compile(r"DeltaSink\[(?P<path>.+)\]")
_FILE_SINK = re.compile(r"FileSink\[(?P<path>.+)\]")
_RELATIVE = Unknown(reason="the run record has a path that is relative to the driver's own folder")
_NONE = Absent(reason=NO_BATCH)


def read(
    history: History, storage: Mapping[str, str], query_id: QueryId | None, *, databases: bool
) -> tuple[LedgerEvidence, ...]:
    """Return the ledger of each table that records name; if none is named, nothing is loaded.

    With `databases`, a PostgreSQL server that a record names is queried too.
    """
    own = tuple(
        _read_output(write, history, storage, databases=databases)
        for write in _select_writes(history)
    )
    files = _FILE_SINK.fullmatch(history.sink.value) if history.sink else None
    if files is not None:
        return (*own, _read_file_sink(files["path"], storage))
    spark = _DELTA_SINK.fullmatch(history.sink.value) if history.sink else None
    if spark is None or query_id is None:
        return own
    return (*own, _read_spark_delta(spark["path"], query_id, storage))


def _select_writes(history: History) -> Iterator[RecordedOutput]:
    for write in history.writes:
        if write.kind in _IN_DELTA | _IN_DATABASE and write.path and history.job:
            yield write


def _read_output(
    write: RecordedOutput, history: History, storage: Mapping[str, str], *, databases: bool
) -> LedgerEvidence:
    key = LedgerKey(
        job=JobName(history.job),
        generation=Generation(history.generation),
        output=OutputName(write.name),
    )
    if write.kind in _IN_DELTA:
        return _read_delta(write.path, str(key), storage)
    last = _query_database(write, key) if databases else _NOT_QUERIED
    return _make_evidence(write.path, str(key), last)


def _query_database(write: RecordedOutput, key: LedgerKey) -> LastWritten:
    if write.kind not in _IN_POSTGRES:
        return _NO_SPARK
    if not write.server:
        return _NO_SERVER
    try:
        from holdfast.sinks.postgres import look  # its driver is an extra
    except ModuleNotFoundError as error:
        missing = name_extra(error)
        if missing is None:
            raise
        return Unknown(reason=f"{missing.message}; {missing.hint}")
    try:
        return look.read_last_written(write.server, write.schema, write.path, key)
    except HoldfastError as error:
        return Unknown(reason=error.message)


def _read_delta(path: str, key: str, storage: Mapping[str, str]) -> LedgerEvidence:
    if urls.is_local(path) and not path.startswith(("/", "file:")):
        return LedgerEvidence(table=path, key=key, batch=_RELATIVE, note="", ranges=True)
    from holdfast.sinks.delta import ledger, table

    place = table.DeltaLocation(path=path, options=storage, partition_by=(), properties={})
    try:
        opened = place.open()
        if opened is None:
            return LedgerEvidence(
                table=path,
                key=key,
                batch=Absent(reason="the table does not exist"),
                note="",
                ranges=True,
            )
        last = ledger.read_last_written(opened, key)
    except HoldfastError as error:
        return LedgerEvidence(
            table=path, key=key, batch=Unknown(reason=error.message), note="", ranges=True
        )
    return _make_evidence(path, key, last)


def _make_evidence(path: str, key: str, last: LastWritten) -> LedgerEvidence:
    match last:
        case WrittenBatch(batch=batch, epoch=epoch, taken_back=taken_back, offsets=offsets):
            restored = "; the table was restored since" if taken_back else ""
            return LedgerEvidence(
                table=path,
                key=key,
                batch=batch,
                note=f"epoch {epoch}{restored}",
                ranges=True,
                offsets=offsets,
            )
        case NothingWritten(epoch=epoch):
            return LedgerEvidence(
                table=path, key=key, batch=_NONE, note=f"epoch {epoch}", ranges=True
            )
        case Unknown():
            return LedgerEvidence(table=path, key=key, batch=last, note="", ranges=True)


def _read_spark_delta(path: str, query_id: QueryId, storage: Mapping[str, str]) -> LedgerEvidence:
    from holdfast.sinks.delta import table

    place = table.DeltaLocation(path=path, options=storage, partition_by=(), properties={})
    batch: BatchId | Absent | Unknown = _NONE
    try:
        opened = place.open()
        version = opened.transaction_version(query_id) if opened else None
        if version is not None:
            batch = BatchId(version)
    except HoldfastError as error:
        batch = Unknown(reason=error.message)
    return LedgerEvidence(table=path, key=query_id, batch=batch, note="Spark's Delta sink")


def _read_file_sink(path: str, storage: Mapping[str, str]) -> LedgerEvidence:
    inside = open_reader(urls.to_canonical(path), storage).children("_spark_metadata")
    batch: BatchId | Absent | Unknown = Absent(reason="the folder has no file sink log")
    if isinstance(inside, Refused):
        batch = Unknown(reason=inside.reason)
    elif isinstance(inside, Children):
        names = (file.name.removesuffix(".compact") for file in inside.files)
        batches = [int(name) for name in names if name.isdecimal()]
        batch = BatchId(max(batches)) if batches else batch
    return LedgerEvidence(table=path, key="_spark_metadata", batch=batch, note="Spark's file sink")
