"""The driver's session: a connection that answers, and transactions that stay in one session.

The client may connect again by itself (MariaDB's addresses of several hosts), a server or a proxy
may end a connection that is idle, and a pooler may give each transaction a different session. So a
connection is asked whether it answers before it is used, each transaction sets up the session that
it got, and before it commits it must still be in that session.
"""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.model.ids import Epoch
from holdfast.sinks.jdbc.address import Address
from holdfast.sinks.jdbc.connection import Connection
from holdfast.sinks.jdbc.dialect import Dialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _nothing() -> None:
    """There is no connection to end."""


class Session:
    """One driver's session at a database; `tag` is what a later driver finds it by."""

    def __init__(self, address: Address, dialect: Dialect, tag: str) -> None:
        self._address = address
        self._dialect = dialect
        self._tag = tag
        self._connection: Connection | None = None
        self._ending: Callable[[], object] = _nothing

    def open(self, spark: "SparkSession", epoch: Epoch) -> Connection:
        """Return a connection that answers, a new one if the last one does not."""
        if self._connection is None or not self._connection.alive():
            self._require_no_replay()
            self.close()
            self._connection = Connection(spark, self._address)
            self._ending = weakref.finalize(self, self._connection.close)
            self._dialect.enter(self._connection, f"{self._tag}{epoch}")
        return self._connection

    @contextlib.contextmanager
    def transaction(
        self, connection: Connection, epoch: Epoch, lock_seconds: int
    ) -> Iterator[None]:
        """All or nothing, in one session of the server that is set up as it must be.

        `lock_seconds` is how long each lock is waited for.
        """
        with connection.transaction():
            session = self._dialect.begin(connection, f"{self._tag}{epoch}", lock_seconds)
            yield
            if self._dialect.identify(connection) != session:
                raise SinkUnavailable(
                    f"cannot commit to `{self._address.url}`: the client connected again inside"
                    " the transaction",
                    hint="let the batch run again; nothing of it was written",
                )

    def close(self) -> None:
        """End the connection."""
        self._connection = None
        self._ending()

    def _require_no_replay(self) -> None:
        """Raise if the client would repeat a transaction in a session that was not set up."""
        said = f"{self._address.url}&{'&'.join('='.join(one) for one in self._address.options)}"
        if "transactionreplay=true" in said.lower():
            raise SinkRefused(
                f"cannot write to `{self._address.url}` with `transactionReplay`: the client would"
                " repeat a lost transaction in a session with the server's own settings",
                hint="do without `transactionReplay`; holdfast runs the batch again",
            )
