"""Stage 2: the tables that records name -> what each remembers of the query.

holdfast/<job>/<generation>/<output>    the key in a table that holdfast writes
holdfast_ledger                         the table beside those in PostgreSQL, if it may be asked
<query id>                              the key in a table that Spark's own Delta sink writes
_spark_metadata/<batch>                 the log of Spark's file sink, which knows no query
"""

import re
from collections.abc import Iterator, Mapping

from holdfast.errors import HoldfastError, name_extra
from holdfast.gather.history.query_facts import History, RecordedOutput
from holdfast.model.batch import (
    LastWritten,
    LedgerKey,
    NothingWritten,
    WrittenBatch,
    make_ledger_key,
)
from holdfast.model.evidence import NO_BATCH, LedgerEvidence
from holdfast.model.fact import Absent, Unknown
from holdfast.model.ids import BatchId, Generation, JobName, OutputName, QueryId
from holdfast.storage import Children, Refused, open_reader, urls

_IN_DELTA = frozenset({"DeltaAppend", "DeltaMerge"})
_IN_POSTGRES = frozenset({"PostgresAppend", "PostgresUpsert"})
_IN_DATABASE = _IN_POSTGRES | {"JdbcAppend", "JdbcUpsert"}
_NOT_ASKED = Unknown(reason="its database was not asked; `holdfast diagnose` asks PostgreSQL")
_NO_SPARK = Unknown(reason="a ledger behind JDBC is read through Spark, which was not started")
_NO_SERVER = Unknown(reason="the run records do not say on which server the table is")
_DELTA_SINK = re.compile(r"DeltaSink\[(?P<path>.+)\]")
_FILE_SINK = re.compile(r"FileSink\[(?P<path>.+)\]")
_RELATIVE = Unknown(reason="the record names the table relative to the driver's own folder")
_NONE = Absent(reason=NO_BATCH)


def read(
    told: History, storage: Mapping[str, str], query_id: QueryId | None, *, databases: bool
) -> tuple[LedgerEvidence, ...]:
    """What the tables say that records name; nothing is loaded where none is named.

    With `databases`, a PostgreSQL server that a record names is asked, too.
    """
    own = tuple(
        _read_output(one, told, storage, databases=databases) for one in _select_writes(told)
    )
    files = _FILE_SINK.fullmatch(told.sink.value) if told.sink else None
    if files is not None:
        return (*own, _read_file_sink(files["path"], storage))
    spark = _DELTA_SINK.fullmatch(told.sink.value) if told.sink else None
    if spark is None or query_id is None:
        return own
    return (*own, _read_spark_delta(spark["path"], query_id, storage))


def _select_writes(told: History) -> Iterator[RecordedOutput]:
    for write in told.writes:
        if write.kind in _IN_DELTA | _IN_DATABASE and write.path and told.job:
            yield write


def _read_output(
    write: RecordedOutput, told: History, storage: Mapping[str, str], *, databases: bool
) -> LedgerEvidence:
    key = LedgerKey(
        job=JobName(told.job),
        generation=Generation(told.generation),
        output=OutputName(write.name),
    )
    shown = make_ledger_key(key.job, key.generation, key.output)
    if write.kind in _IN_DELTA:
        return _read_delta(write.path, shown, storage)
    last = _ask_database(write, key) if databases else _NOT_ASKED
    return _to_ledger_seen(write.path, shown, last)


def _ask_database(write: RecordedOutput, key: LedgerKey) -> LastWritten:
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
        return look.last_written(write.server, write.schema, write.path, key)
    except HoldfastError as error:
        return Unknown(reason=error.message)


def _read_delta(path: str, key: str, storage: Mapping[str, str]) -> LedgerEvidence:
    if urls.is_local(path) and not path.startswith(("/", "file:")):
        return LedgerEvidence(table=path, key=key, batch=_RELATIVE, note="", ranges=True)
    from holdfast.sinks.delta import ledger, table

    place = table.Place(path=path, options=storage, partition_by=(), properties={})
    try:
        opened = place.open()
        if opened is None:
            return LedgerEvidence(
                table=path, key=key, batch=Absent(reason="there is no table"), note="", ranges=True
            )
        last = ledger.last_written(opened, key)
    except HoldfastError as error:
        return LedgerEvidence(
            table=path, key=key, batch=Unknown(reason=error.message), note="", ranges=True
        )
    return _to_ledger_seen(path, key, last)


def _to_ledger_seen(path: str, key: str, last: LastWritten) -> LedgerEvidence:
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

    place = table.Place(path=path, options=storage, partition_by=(), properties={})
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
    batch: BatchId | Absent | Unknown = Absent(reason="there is no log of a file sink")
    if isinstance(inside, Refused):
        batch = Unknown(reason=inside.reason)
    elif isinstance(inside, Children):
        names = (file.name.removesuffix(".compact") for file in inside.files)
        batches = [int(name) for name in names if name.isdecimal()]
        batch = BatchId(max(batches)) if batches else batch
    return LedgerEvidence(table=path, key="_spark_metadata", batch=batch, note="Spark's file sink")
