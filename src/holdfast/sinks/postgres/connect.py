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
from psycopg import errors as pg

from holdfast.errors import HoldfastError, SinkRefused, SinkUnavailable
from holdfast.sinks.secret import secret

_CONNECT_SECONDS = "10"
_IDLE_MS = "60000"
# A peer that is gone is noticed in a minute, not in two hours.
_KEEPALIVES = {"keepalives_idle": "20", "keepalives_interval": "10", "keepalives_count": "3"}
# A driver that hangs between two statements must not keep its locks for ever; and what Spark is
# told is written must outlive a crash of the server. Row security would hide rows from a DELETE or
# a count without a word; switched off, it is an error.
_SESSION = """
SELECT set_config('idle_in_transaction_session_timeout', %s, false),
       set_config('row_security', 'off', false),
       CASE current_setting('synchronous_commit') WHEN 'off'
       THEN set_config('synchronous_commit', 'on', false) END"""
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
            settings["password"] = secret(self.password)
        try:
            connection = psycopg.connect(
                self.connection,
                autocommit=True,
                client_encoding="utf8",  # rows are sent in it, whatever role and variables say
                prepare_threshold=None,  # a pooler in between may change the server's process
                connect_timeout=_CONNECT_SECONDS,
                application_name=application,
                **settings,  # type: ignore[arg-type]  # its own keywords are none of these
            )
            connection.execute(_SESSION, (_IDLE_MS,))
        except (psycopg.Error, UnicodeError) as error:
            raise self.unavailable(error) from None  # the cause may hold what the caller gave
        return connection

    def unavailable(self, error: Exception) -> SinkUnavailable | SinkRefused:
        """The error of a server that does not answer, or does not let this role in."""
        reason = said(error)
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


def said(error: Exception) -> str:
    """The first line of what the server or the client library says."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


@contextlib.contextmanager
def explained(server: Server, table: str) -> Iterator[None]:
    """Turn the database's errors into holdfast's: which table, which column, and why."""
    try:
        yield
    except HoldfastError:
        raise
    except psycopg.Error as error:
        raise _explained(server, table, error) from error


def _explained(server: Server, table: str, error: psycopg.Error) -> HoldfastError:
    reason = said(error)
    match error:
        case pg.DataError() | pg.IntegrityError():
            column = error.diag.column_name or _column_in(error.diag.context)
            where = f"column `{column}` of `{table}`" if column else f"`{table}`"
            detail = error.diag.message_primary or reason
            return SinkRefused(
                f"expected rows that fit {where}, found: {detail}",
                hint="mend or drop the value in the job's function; nothing of the batch was"
                " written",
            )
        case (
            pg.SerializationFailure()
            | pg.DeadlockDetected()
            | pg.LockNotAvailable()
            | psycopg.InternalError()  # also a standby that is read-only until it takes over
        ):
            return SinkUnavailable(
                f"expected to write to `{table}`, found: {reason}",
                hint="let other writers of the table finish; the batch runs again",
            )
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return server.unavailable(error)
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


def _column_in(context: str | None) -> str | None:
    found = _COLUMN.search(context or "")
    return found.group(1) if found else None
