"""What the databases say differently; two are known, and each is tested on a real server.

    PostgreSQL    an upsert fires on the keys only; casts are strict
    MariaDB       its upsert fires on any unique index and would overwrite another key's row:
                  rows are updated by key, then those whose key is missing are inserted

A session of the driver is set so that the server can change no value without an error, so that a
driver that hangs in its transaction loses it, and so that no other limit of the server ends a
batch. A transaction sets all of it again, with the isolation level that the statements rely on: a
client may have connected again, and a pooler may have given it a different session. The session
carries the ledger's key and the driver's epoch, by which a later driver finds it and ends it: as
the application's name in PostgreSQL, as a user lock in MariaDB.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import SinkRefused
from holdfast.model.ids import Epoch
from holdfast.sinks.jdbc.columns import StagedColumn, TableColumn, Types
from holdfast.sinks.jdbc.connection import Connection, Value

IDLE_SECONDS = 60
LOCK_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Rows of a staging table that are to go into a table by key; every name is quoted."""

    table: str
    staging: str
    columns: Sequence[str]
    values: Sequence[str]
    keys: Sequence[str]
    newest: str | None
    newest_is_text: bool

    @property
    def others(self) -> list[str]:
        """The columns that are no key."""
        return [column for column in self.columns if column not in self.keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of one database.

    `name` is a type for short texts that can be part of a key, told apart by every character,
    `text` one for long texts, `json` the type of the offsets and `json_value` how one is given.
    `storage` ends a CREATE TABLE, `latest` a SELECT that has to see what was committed last, and
    `cure` says how a session that is in the way is ended.
    """

    quote: str
    name: str
    text: str
    whole: str
    time: str
    json: str
    json_value: str
    storage: str
    latest: str
    cure: str
    types: Types

    def quoted(self, *parts: str) -> str:
        """A name of one or more parts, whatever characters are in them."""
        mark = self.quote
        return ".".join(f"{mark}{part.replace(mark, mark * 2)}{mark}" for part in parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableName:
    """A table, by its schema (None is the connection's own) and its name."""

    schema: str | None
    table: str


class Dialect(Protocol):
    """How one database is spoken to; `Words` are what needs no answer from it."""

    words: Words

    def enter(self, connection: Connection, tag: str) -> None:
        """Set up a new session; `tag` is what a later driver finds it by."""
        ...

    def begin(self, connection: Connection, tag: str, lock_seconds: int) -> str:
        """First in a transaction: set the session up, and return which one it is."""
        ...

    def identify(self, connection: Connection) -> str:
        """Return which session of which server this is."""
        ...

    def look(self, connection: Connection, place: TableName) -> list[TableColumn]:
        """Return the columns of a table."""
        ...

    def hold(self, connection: Connection, place: TableName) -> None:
        """Inside a transaction: let nobody alter or drop the table until it ends."""
        ...

    def check(
        self, connection: Connection, place: TableName, *, ledger: bool
    ) -> SinkRefused | None:
        """Return why the table cannot change with its ledger in one durable step."""
        ...

    def require_key(
        self,
        connection: Connection,
        place: TableName,
        keys: Sequence[str],
        columns: Sequence[StagedColumn],
    ) -> None:
        """Raise unless the keys of an upsert are told apart by the table as Spark does."""
        ...

    def move(self, column: StagedColumn) -> str:
        """Return the expression of a staged column in the type of the table's."""
        ...

    def unread(self, column: StagedColumn) -> str:
        """Return the condition under which a staged date or time is none of the table's type."""
        ...

    def upsert(self, rows: Upsert) -> Sequence[str]:
        """Return the statements of an upsert."""
        ...

    def lost(self, rows: Upsert) -> str:
        """Return the query for how many rows an upsert neither took nor had reason to leave out."""
        ...

    def limit_locks(self, connection: Connection, seconds: int, *, local: bool = True) -> None:
        """Wait for a lock, on rows or tables, no longer than this; `local` to the transaction."""
        ...

    def drop(self, connection: Connection, table: str) -> None:
        """Drop a staging table, unless another session uses it for more than a moment."""
        ...

    def end_older(self, connection: Connection, prefix: str, oldest: Epoch, below: Epoch) -> None:
        """End the sessions of older drivers, which hang in their transactions."""
        ...

    def name_holders(self, connection: Connection, table: str) -> list[str]:
        """Return the sessions that may hold a table, or rows of it."""
        ...


def require_not_null(
    place: TableName,
    keys: Sequence[str],
    columns: Sequence[StagedColumn],
    cure: Callable[[TableColumn], str],
) -> None:
    """Raise for a key that can be null: a unique index lets nulls in again and again."""
    for column in columns:
        if column.found.name in keys and column.found.nullable:
            raise SinkRefused(
                f"expected the key column `{column.found.name}` of `{place.table}` to take no null:"
                " a row with one would be added again with every batch",
                hint=cure(column.found),
            )


def format_newer(rows: Upsert, given: str, there: str, by_bytes: str) -> str:
    """Return the condition by which a given row replaces the one that is there; or nothing.

    Spark orders texts by their bytes when it picks the newest row of a batch; so must the database.
    """
    if rows.newest is None:
        return ""
    form = by_bytes if rows.newest_is_text else "{}"
    mine, its = (form.format(f"{row}.{rows.newest}") for row in (given, there))
    return f"{there}.{rows.newest} IS NULL OR {mine} > {its}"


def absent(rows: Upsert, accounted: str, latest: str = "") -> str:
    """Return the query for how many staged rows have no row `t` that accounts for them.

    `latest` makes the database look at what was committed last.
    """
    typed = ", ".join(f"{v} AS {c}" for v, c in zip(rows.values, rows.columns, strict=True))
    same = " AND ".join(f"t.{key} = s.{key}" for key in rows.keys)
    return (
        f"SELECT COUNT(*) FROM (SELECT {typed} FROM {rows.staging}) AS s WHERE NOT EXISTS"
        f" (SELECT 1 FROM {rows.table} AS t WHERE {same} AND ({accounted}){latest})"
    )


def parse_number(value: Value) -> int | None:
    """Return a number that the database gave as one, or as text."""
    return None if value is None else int(value)
