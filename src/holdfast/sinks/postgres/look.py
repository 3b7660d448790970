"""The ledger of a table in PostgreSQL, for who only looks: by the server that a run record names.

The password is found by libpq or not at all: a record has none, and one that somebody else wrote
must not say which file or variable is sent to a server that it names, too.
"""

from holdfast.model.batch import LastWritten, LedgerKey
from holdfast.sinks.postgres import connect
from holdfast.sinks.postgres.ledger import Ledger


def last_written(connection: str, schema: str, path: str, key: LedgerKey) -> LastWritten:
    """Return what `<schema>.<table>` holds for the job; raises a HoldfastError."""
    table = path.removeprefix(f"{schema}.")
    server = connect.Server(connection=connection, password=None)
    with server.connect("holdfast diagnose") as opened, connect.explained(server, path):
        return Ledger(schema, table, key).last_written(opened)
