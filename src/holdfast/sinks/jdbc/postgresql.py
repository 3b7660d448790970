"""PostgreSQL by JDBC: its upsert fires on the keys only, and its casts are strict."""

import contextlib
from collections.abc import Sequence

from py4j.protocol import Py4JJavaError

from holdfast.errors import SinkRefused
from holdfast.model.ids import Epoch
from holdfast.sinks import pg_catalog
from holdfast.sinks.jdbc import dialect
from holdfast.sinks.jdbc.columns import Column, Found, Kind, Types
from holdfast.sinks.jdbc.connection import Connection
from holdfast.sinks.jdbc.dialect import Place, Upsert, Words

_BY_BYTES = '{} COLLATE "C"'
_WHOLE = frozenset({"smallint", "integer", "bigint", "numeric"})


class PostgreSql:
    """PostgreSQL; its own sinks are faster and know more types."""

    words = Words(
        quote='"',
        name="text",
        text="text",
        whole="bigint",
        time="timestamptz",
        json="jsonb",
        json_value="CAST(? AS jsonb)",
        storage="",
        latest="",  # every statement sees what was committed before it, or all see the same
        cure=pg_catalog.CURE,
        types=Types(
            made={
                "byte": "smallint",
                "short": "smallint",
                "integer": "integer",
                "long": "bigint",
                "float": "real",
                "double": "double precision",
                "decimal": "numeric({precision},{scale})",
                "string": "text",
                "binary": "bytea",
                "boolean": "boolean",
                "date": "date",
                "timestamp": "timestamptz",
                "timestamp_ntz": "timestamp",
            },
            taken={
                Kind.WHOLE: _WHOLE,
                Kind.FLOAT: frozenset({"real", "double precision"}),
                Kind.DOUBLE: frozenset({"double precision"}),
                Kind.DECIMAL: frozenset({"numeric"}),
                Kind.TEXT: frozenset({"text", "character varying"}),
                Kind.BYTES: frozenset({"bytea"}),
                Kind.BOOLEAN: frozenset({"boolean"}),
                Kind.DATE: frozenset({"date"}),
                Kind.MOMENT: frozenset({"timestamp with time zone"}),
                Kind.LOCAL: frozenset({"timestamp without time zone"}),
            },
            staged={
                Kind.WHOLE: "bigint",
                Kind.FLOAT: "double precision",
                Kind.DOUBLE: "double precision",
                Kind.DECIMAL: "numeric({precision},{scale})",
                Kind.TEXT: "text",
                Kind.BYTES: "bytea",
                Kind.BOOLEAN: "boolean",
                Kind.DATE: "text",
                Kind.MOMENT: "text",
                Kind.LOCAL: "text",
            },
            unicode=None,
            limited=frozenset({"character varying"}),
        ),
    )

    def enter(self, connection: Connection, tag: str) -> None:
        """Set up a new session."""
        connection.execute(
            "SELECT set_config('application_name', ?, false),"
            " set_config('idle_in_transaction_session_timeout', ?, false),"
            " set_config('TimeZone', 'UTC', false), set_config('row_security', 'off', false),"
            " CASE current_setting('synchronous_commit') WHEN 'off'"
            " THEN set_config('synchronous_commit', 'on', false) END",
            *(tag, str(dialect.IDLE_SECONDS * 1000)),
        )

    def look(self, connection: Connection, place: Place) -> list[Found]:
        """Return the columns of a table."""
        rows = connection.execute(
            "SELECT column_name, data_type, numeric_scale, character_maximum_length,"
            " datetime_precision, is_nullable, column_default IS NOT NULL OR is_identity = 'YES',"
            " is_generated = 'ALWAYS' OR coalesce(identity_generation, '') = 'ALWAYS'"
            " FROM information_schema.columns WHERE table_schema = COALESCE(NULLIF(?, ''),"
            " current_schema()) AND table_name = ? ORDER BY ordinal_position",
            *(place.schema or "", place.table),
        )
        return [
            Found(
                name=str(name),
                type=str(kind),
                scale=dialect.number(scale) if kind == "numeric" else None,
                length=dialect.number(length),
                octets=None,  # PostgreSQL refuses a value that is too long
                digits=dialect.number(digits),
                charset=None,
                collation=None,
                nullable=nullable == "YES",
                has_default=bool(default),
                computed=bool(computed),
                counts=False,
            )
            for name, kind, scale, length, digits, nullable, default, computed in rows
        ]

    def hold(self, connection: Connection, place: Place) -> None:
        """Inside a transaction: let nobody alter or drop the table until it ends."""
        text = f"LOCK TABLE ONLY {self._quoted(place)} IN ROW EXCLUSIVE MODE"
        connection.execute(text, locks=True)

    def check(
        self,
        connection: Connection,
        place: Place,
        *,
        ledger: bool,  # noqa: ARG002  MariaDB's ledger is asked for more
    ) -> SinkRefused | None:
        """Return why the table cannot change with its ledger in one durable step."""
        found = connection.execute(pg_catalog.RELATIONS.format("?"), self._quoted(place))
        return pg_catalog.refusal(place.table, found)

    def require_key(
        self,
        connection: Connection,
        place: Place,
        keys: Sequence[str],
        columns: Sequence[Column],
    ) -> None:
        """Raise unless the keys are exact and not null; ON CONFLICT itself asks for the index."""
        table = self._quoted(place)
        found = connection.execute(pg_catalog.INEXACT.format("?"), table, table)
        refusal = pg_catalog.refuse_key(place.table, keys, found)
        if refusal is not None:
            raise refusal
        dialect.require_not_null(
            place,
            keys,
            columns,
            lambda key: (
                f"ALTER TABLE {table} ALTER COLUMN {self.words.quoted(key.name)} SET NOT NULL"
            ),
        )

    def move(self, column: Column) -> str:
        """Return the expression of a staged column in the type of the table's."""
        name = self.words.quoted(column.found.name)
        if column.kind in (Kind.DATE, Kind.MOMENT, Kind.LOCAL):
            return f"CAST({name} AS {column.found.type})"
        return name

    def upsert(self, rows: Upsert) -> Sequence[str]:
        """Return the statements of an upsert."""
        names, values = ", ".join(rows.columns), ", ".join(rows.values)
        keys = ", ".join(rows.keys)
        insert = f"INSERT INTO {rows.table} AS t ({names}) SELECT {values} FROM {rows.staging} "
        if not rows.others:
            return [f"{insert}ON CONFLICT ({keys}) DO NOTHING"]
        changes = ", ".join(f"{column} = excluded.{column}" for column in rows.others)
        newer = dialect.newer(rows, "excluded", "t", _BY_BYTES)
        condition = f" WHERE {newer}" if newer else ""
        return [f"{insert}ON CONFLICT ({keys}) DO UPDATE SET {changes}{condition}"]

    def lost(self, rows: Upsert) -> str:
        """Return the query for how many rows an upsert neither took nor had reason to leave out.

        An upsert locks the rows that it leaves as they are: no other session changes the answer.
        """
        if not rows.others:
            return dialect.absent(rows, "true")
        newer = dialect.newer(rows, "s", "t", _BY_BYTES)
        stays = f" OR ({newer}) IS NOT TRUE" if newer else ""
        return dialect.absent(rows, f"{pg_catalog.OURS}{stays}")

    def limit_locks(self, connection: Connection, seconds: int | None) -> None:
        """Wait for a lock no longer than this; None is the session's own limit."""
        limit = "DEFAULT" if seconds is None else f"'{seconds}s'"
        connection.execute(f"SET lock_timeout TO {limit}")

    def end_older(
        self,
        connection: Connection,
        prefix: str,
        oldest: Epoch,  # noqa: ARG002  MariaDB needs to know where to begin
        below: Epoch,
    ) -> None:
        """End the sessions of older drivers, which hang in their transactions."""
        text = pg_catalog.OLDER.format("?", "?")
        for (session,) in connection.execute(text, *(prefix, prefix, prefix, below)):
            # It has ended by itself, or this role may not end it: then the error names it.
            with contextlib.suppress(Py4JJavaError):
                connection.execute(pg_catalog.END.format(dialect.number(session)))

    def name_holders(self, connection: Connection, ledger: str) -> list[str]:
        """Return the sessions that hold a lock on the ledger."""
        rows = connection.execute(pg_catalog.HOLDERS.format("?"), ledger)
        return [str(one) for (one,) in rows]

    def _quoted(self, place: Place) -> str:
        parts = (place.schema, place.table) if place.schema else (place.table,)
        return self.words.quoted(*parts)
