"""A declared sink and the key of its ledger -> the sink that writes. Opens no connection yet."""

from collections.abc import Mapping

from holdfast.errors import name_extra
from holdfast.model.batch import LedgerKey
from holdfast.model.definition import (
    DeclaredSink,
    DeltaAppend,
    DeltaMerge,
    FileSink,
    ForeachBatch,
    JdbcAppend,
    JdbcUpsert,
    PostgresAppend,
    PostgresUpsert,
)
from holdfast.sinks import delta
from holdfast.sinks.contract import LedgeredSink


def open_sink(
    sink: DeclaredSink, key: LedgerKey, storage: Mapping[str, str]
) -> LedgeredSink | None:
    """Return the sink; None for sinks without a ledger, which Spark or the user writes to."""
    match sink:
        case DeltaAppend():
            return delta.DeltaAppendSink(sink, delta.make_app_id(key), storage)
        case DeltaMerge():
            return delta.DeltaMergeSink(sink, delta.make_app_id(key), storage)
        case PostgresAppend() | PostgresUpsert():
            return _open_postgres(sink, key)
        case JdbcAppend() | JdbcUpsert():
            from holdfast.sinks.jdbc import JdbcSink

            return JdbcSink(sink, key)
        case FileSink() | ForeachBatch():
            return None


def _open_postgres(sink: PostgresAppend | PostgresUpsert, key: LedgerKey) -> LedgeredSink:
    try:
        from holdfast.sinks import postgres  # its driver is an extra
    except ModuleNotFoundError as error:
        raise name_extra(error) or error from error

    if isinstance(sink, PostgresAppend):
        return postgres.PostgresAppendSink(sink, key)
    return postgres.PostgresUpsertSink(sink, key)
