"""The ledger of a table in PostgreSQL, for who only looks: by the server that a run record names.

The password is found by libpq or not at all: a record has none, and one that somebody else wrote
must not say which file or variable is sent to a server that it names, too. For the same reason no
server gets the password in clear text: a record of a stranger may name a server of a stranger.
"""

import contextlib

import psycopg
from psycopg.conninfo import make_conninfo

from holdfast.model.batch import LastWritten, LedgerKey
from holdfast.sinks.postgres import connect
from holdfast.sinks.postgres.ledger import PostgresLedger


def read_last_written(connection: str, schema: str, path: str, key: LedgerKey) -> LastWritten:
    """Return what `<schema>.<table>` holds for the job; raises a HoldfastError."""
    table = path.removeprefix(f"{schema}.")
    with contextlib.suppress(psycopg.ProgrammingError):  # connecting says what is wrong with it
        connection = make_conninfo(connection, require_auth="!password")
    server = connect.Server(connection=connection, password=None)
    with server.connect("holdfast diagnose") as opened, connect.translate_errors(server, path):
        return PostgresLedger(schema, table, key).last_written(opened)
