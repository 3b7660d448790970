"""Connections to a PostgreSQL server, and what its errors mean.

A declaration names the server but never the password. That is looked up where a connection is
made, on the driver and on every executor, by libpq's own rules (PGPASSWORD, PGPASSFILE,
`~/.pgpass`, a service file) or by the reference that the sink declares (`sinks/secret.py`).

So no password is in a plan, a closure, a run record or a process list, and none is sent by Spark.
"""

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
from psycopg import conninfo
from psycopg import errors as pg

from holdfast.errors import HoldfastError, SinkRefused, SinkUnavailable
from holdfast.sinks.secret import read_secret

_CONNECT_SECONDS = "10"
# A peer that is gone is noticed in a minute, not in two hours.
_KEEPALIVES = {"keepalives_idle": "20", "keepalives_interval": "10", "keepalives_count": "3"}
# Of a session, and again of each transaction, since a pooler may give it a different session:
# - A driver that hangs between two statements must not keep its locks for ever. No other limit of
#   the server may end a batch or a connection that waits for one.
# - What Spark is told is written must outlive a crash of the server.
# - Row security would hide rows from a DELETE or a count without a word; switched off, it is an
#   error.
# A limit that this version of the server does not know has no value.
_SETTINGS = """
SELECT set_config('idle_in_transaction_session_timeout', '60000', %(local)s),
       set_config('row_security', 'off', %(local)s),
       set_config('lock_timeout', %(lock_ms)s, %(local)s),
       set_config('statement_timeout', '0', %(local)s),
       set_config('application_name', %(application)s, %(local)s),
       CASE WHEN current_setting('idle_session_timeout', true) IS NOT NULL
       THEN set_config('idle_session_timeout', '0', %(local)s) END,
       CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL
       THEN set_config('transaction_timeout', '0', %(local)s) END,
       CASE current_setting('synchronous_commit') WHEN 'off'
       THEN set_config('synchronous_commit', 'on', %(local)s) END"""
# SQL states of a connection that failed, and of a server that shuts down or starts.
_AWAY = ("08", "57P")
_LOCK_MS = 30_000
_NOT_LET_IN = re.compile(
    r"authentication failed|no password supplied|does not exist|permission denied|no pg_hba"
)
_COLUMN = re.compile(r"COPY [^,]+, line \d+, column ([^:\n]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server, and where the password is found: everything but the password itself."""

    connection: str
    password: str | None

    def connect(self, application: str) -> psycopg.Connection:
        """A connection whose statements commit one by one; raises SinkUnavailable."""
        settings = dict(_KEEPALIVES)
        if self.password is not None:
            settings["password"] = read_secret(self.password)
        try:
            settings |= self._find_primary()
            connection = psycopg.connect(
                self.connection,
                autocommit=True,
                client_encoding="utf8",  # rows are sent in it, whatever role and variables say
                prepare_threshold=None,  # a pooler in between may change the server's process
                connect_timeout=_CONNECT_SECONDS,
                application_name=application,
                **settings,  # type: ignore[arg-type]  # its own keywords are none of these
            )
            # In each transaction every statement sees what was committed before it.
            connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
            _set(connection, application, _LOCK_MS, local=False)
        except (psycopg.Error, UnicodeError) as error:
            raise self.unavailable(error) from None  # the cause may hold what the caller gave
        return connection

    def _find_primary(self) -> dict[str, str]:
        """Of several hosts choose the primary: a standby's ledger may be older than the table's."""
        said = conninfo.conninfo_to_dict(self.connection)
        chosen = said.get("target_session_attrs") or said.get("service")
        known = {one.keyword: one.val for one in psycopg.pq.Conninfo.get_defaults()}
        if chosen or known.get(b"target_session_attrs") not in (None, b"any"):
            return {}
        return {"target_session_attrs": "primary"}

    def unavailable(self, error: Exception) -> SinkUnavailable | SinkRefused:
        """The error of a server that does not answer, or does not let this role in."""
        reason = read_message(error)
        if isinstance(error, psycopg.ProgrammingError) or _NOT_LET_IN.search(reason):
            return SinkRefused(
                f"expected to connect to `{self.connection}`, found: {reason}",
                hint="check the role and where its password is read from: PGPASSFILE, PGPASSWORD"
                " or the sink's `password=`",
            )
        return SinkUnavailable(
            f"expected to reach PostgreSQL at `{self.connection}`, found: {reason}",
            hint="check that the server runs and takes connections; the batch runs again",
        )


@contextlib.contextmanager
def transaction(
    connection: psycopg.Connection, application: str, lock_ms: int = _LOCK_MS
) -> Iterator[None]:
    """All or nothing, with the settings of our sessions, whatever session a pooler gives it.

    `lock_ms` is how long each lock is waited for.
    """
    with connection.transaction():
        _set(connection, application, lock_ms, local=True)
        yield


def _set(connection: psycopg.Connection, application: str, lock_ms: int, *, local: bool) -> None:
    values = {"application": application, "lock_ms": str(lock_ms), "local": local}
    connection.execute(_SETTINGS, values)


def read_message(error: Exception) -> str:
    """The first line of what the server or the client library says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def translate_errors(server: Server, table: str) -> Iterator[None]:
    """Turn the database's errors into holdfast's: which table, which column, and why."""
    try:
        yield
    except HoldfastError:
        raise
    except psycopg.Error as error:
        raise _translate_error(server, table, error) from error


def _translate_error(server: Server, table: str, error: psycopg.Error) -> HoldfastError:
    reason = read_message(error)
    match error:
        case pg.DataError() | pg.IntegrityError() | pg.ProgramLimitExceeded():
            column = error.diag.column_name or _find_column(error.diag.context)
            where = f"column `{column}` of `{table}`" if column else f"`{table}`"
            detail = error.diag.message_primary or reason
            return SinkRefused(
                f"expected rows that fit {where}, found: {detail}",
                hint="mend or drop the value in the job's function; nothing of the batch was"
                " written",
            )
        case pg.SerializationFailure() | pg.DeadlockDetected() | pg.LockNotAvailable():
            return SinkUnavailable(
                f"expected to write to `{table}`, found: {reason}",
                hint="let other writers of the table finish; the batch runs again",
            )
        case psycopg.OperationalError() | psycopg.InterfaceError() if _is_away(error):
            return server.unavailable(error)
        case (
            psycopg.OperationalError()
            | psycopg.InterfaceError()
            | psycopg.InternalError()  # also a standby that is read-only until it takes over
        ):
            return SinkUnavailable(
                f"expected to write to `{table}`, found: {reason}",
                hint="see what the server says; the batch runs again",
            )
        case pg.InsufficientPrivilege():
            return SinkRefused(
                f"expected to write to `{table}`, found: {reason}",
                hint="grant the role the rights in docs/guides/postgres.md",
            )
        case _:
            return SinkRefused(
                f"expected to write to `{table}`, found: {reason}",
                hint="start with `--debug` for the whole error",
            )


def _is_away(error: psycopg.Error) -> bool:
    """Whether the connection failed, or the server ends; otherwise it refused the statement."""
    return error.sqlstate is None or error.sqlstate.startswith(_AWAY)


def _find_column(context: str | None) -> str | None:
    found = _COLUMN.search(context or "")
    return found.group(1) if found else None
