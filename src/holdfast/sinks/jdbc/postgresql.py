"""PostgreSQL by JDBC: its upsert fires on the keys only, and its casts are strict."""

import contextlib
from collections.abc import Sequence

from py4j.protocol import Py4JJavaError

from holdfast.errors import SinkRefused
from holdfast.model.ids import Epoch
from holdfast.sinks import pg_catalog
from holdfast.sinks.jdbc import dialect
from holdfast.sinks.jdbc.columns import StagedColumn, TableColumn, Types, ValueKind
from holdfast.sinks.jdbc.connection import Connection
from holdfast.sinks.jdbc.dialect import TableName, Upsert, Words

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
                ValueKind.WHOLE: _WHOLE,
                ValueKind.FLOAT: frozenset({"real", "double precision"}),
                ValueKind.DOUBLE: frozenset({"double precision"}),
                ValueKind.DECIMAL: frozenset({"numeric"}),
                ValueKind.TEXT: frozenset({"text", "character varying"}),
                ValueKind.BYTES: frozenset({"bytea"}),
                ValueKind.BOOLEAN: frozenset({"boolean"}),
                ValueKind.DATE: frozenset({"date"}),
                ValueKind.MOMENT: frozenset({"timestamp with time zone"}),
                ValueKind.LOCAL: frozenset({"timestamp without time zone"}),
            },
            staged={
                ValueKind.WHOLE: "bigint",
                ValueKind.FLOAT: "double precision",
                ValueKind.DOUBLE: "double precision",
                ValueKind.DECIMAL: "numeric({precision},{scale})",
                ValueKind.TEXT: "text",
                ValueKind.BYTES: "bytea",
                ValueKind.BOOLEAN: "boolean",
                ValueKind.DATE: "text",
                ValueKind.MOMENT: "text",
                ValueKind.LOCAL: "text",
            },
            unicode=None,
            limited=frozenset({"character varying"}),
        ),
    )

    def enter(self, connection: Connection, tag: str) -> None:
        """Set up a new session."""
        self._set_up(connection, tag, dialect.LOCK_SECONDS, local="false")

    def _set_up(self, connection: Connection, tag: str, lock_seconds: int, *, local: str) -> None:
        """Set what values, limits and take-overs depend on; older servers lack two limits."""
        connection.execute(
            f"SELECT set_config('application_name', ?, {local}),"
            f" set_config('idle_in_transaction_session_timeout', ?, {local}),"
            f" set_config('lock_timeout', ?, {local}), set_config('TimeZone', 'UTC', {local}),"
            f" set_config('row_security', 'off', {local}),"
            f" set_config('statement_timeout', '0', {local}),"
            " CASE WHEN current_setting('idle_session_timeout', true) IS NOT NULL"
            f" THEN set_config('idle_session_timeout', '0', {local}) END,"
            " CASE WHEN current_setting('transaction_timeout', true) IS NOT NULL"
            f" THEN set_config('transaction_timeout', '0', {local}) END,"
            " CASE current_setting('synchronous_commit') WHEN 'off'"
            f" THEN set_config('synchronous_commit', 'on', {local}) END",
            *(tag, f"{dialect.IDLE_SECONDS}s", f"{lock_seconds}s"),
        )

    def begin(self, connection: Connection, tag: str, lock_seconds: int) -> str:
        """First in a transaction: set the session up, and return which one it is.

        READ COMMITTED: each statement sees what was committed before it, late tasks too.
        """
        connection.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        self._set_up(connection, tag, lock_seconds, local="true")
        return self.identify(connection)

    def identify(self, connection: Connection) -> str:
        """Return which session of which server this is."""
        session = "concat(pg_backend_pid(), '/', pg_postmaster_start_time())"
        return str(connection.execute(f"SELECT {session}")[0][0])

    def look(self, connection: Connection, place: TableName) -> list[TableColumn]:
        """Return the columns of a table."""
        rows = connection.execute(
            "SELECT column_name, data_type, numeric_scale, character_maximum_length,"
            " datetime_precision, is_nullable, column_default IS NOT NULL OR is_identity = 'YES',"
            " is_generated = 'ALWAYS' OR coalesce(identity_generation, '') = 'ALWAYS'"
            " FROM information_schema.columns WHERE (table_schema, table_name) = (SELECT n.nspname,"
            " c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = to_regclass(?)) ORDER BY ordinal_position",
            self._quoted(place),
        )
        return [
            TableColumn(
                name=str(name),
                type=str(kind),
                scale=dialect.parse_number(scale) if kind == "numeric" else None,
                length=dialect.parse_number(length),
                octets=None,  # PostgreSQL refuses a value that is too long
                digits=dialect.parse_number(digits),
                charset=None,
                collation=None,
                nullable=nullable == "YES",
                has_default=bool(default),
                computed=bool(computed),
                counts=False,
            )
            for name, kind, scale, length, digits, nullable, default, computed in rows
        ]

    def hold(self, connection: Connection, place: TableName) -> None:
        """Inside a transaction: let nobody alter or drop the table until it ends."""
        connection.execute(f"LOCK TABLE ONLY {self._quoted(place)} IN ROW EXCLUSIVE MODE")

    def check(
        self,
        connection: Connection,
        place: TableName,
        *,
        ledger: bool,  # noqa: ARG002  MariaDB's ledger is asked for more
    ) -> SinkRefused | None:
        """Return why the table cannot change with its ledger in one durable step."""
        found = connection.execute(pg_catalog.RELATIONS.format("?"), self._quoted(place))
        return pg_catalog.refuse_relation(place.table, found)

    def require_key(
        self,
        connection: Connection,
        place: TableName,
        keys: Sequence[str],
        columns: Sequence[StagedColumn],
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

    def move(self, column: StagedColumn) -> str:
        """Return the expression of a staged column in the type of the table's."""
        name = self.words.quoted(column.found.name)
        if column.kind in (ValueKind.DATE, ValueKind.MOMENT, ValueKind.LOCAL):
            # Spark writes a sign before years of five digits; PostgreSQL takes it for a time zone.
            return f"CAST(ltrim({name}, '+') AS {column.found.type})"
        return name

    def unread(self, column: StagedColumn) -> str:
        """Return the condition under which a staged date or time is none of the table's type."""
        name = self.words.quoted(column.found.name)
        return f"{name} LIKE '-%'"  # years before Christ, which PostgreSQL spells differently

    def upsert(self, rows: Upsert) -> Sequence[str]:
        """Return the statements of an upsert."""
        names, values = ", ".join(rows.columns), ", ".join(rows.values)
        keys = ", ".join(rows.keys)
        insert = f"INSERT INTO {rows.table} AS t ({names}) SELECT {values} FROM {rows.staging} "
        if not rows.others:
            return [f"{insert}ON CONFLICT ({keys}) DO NOTHING"]
        changes = ", ".join(f"{column} = excluded.{column}" for column in rows.others)
        newer = dialect.format_newer(rows, "excluded", "t", _BY_BYTES)
        condition = f" WHERE {newer}" if newer else ""
        return [f"{insert}ON CONFLICT ({keys}) DO UPDATE SET {changes}{condition}"]

    def lost(self, rows: Upsert) -> str:
        """Return the query for how many rows an upsert neither took nor had reason to leave out.

        An upsert locks the rows that it leaves as they are: no other session changes the answer.
        """
        if not rows.others:
            return dialect.absent(rows, "true")
        newer = dialect.format_newer(rows, "s", "t", _BY_BYTES)
        stays = f" OR ({newer}) IS NOT TRUE" if newer else ""
        return dialect.absent(rows, f"{pg_catalog.OURS}{stays}")

    def limit_locks(self, connection: Connection, seconds: int, *, local: bool = True) -> None:
        """Wait for a lock no longer than this; `local` to the transaction."""
        connection.execute(f"SET {'LOCAL' if local else 'SESSION'} lock_timeout = '{seconds}s'")

    def drop(self, connection: Connection, table: str) -> None:
        """Drop a staging table, unless another session uses it for more than a moment."""
        with connection.transaction():
            connection.execute("SET LOCAL lock_timeout = '500ms'")
            connection.execute(f"DROP TABLE IF EXISTS {table}")

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
                connection.execute(pg_catalog.END.format(dialect.parse_number(session)))

    def name_holders(self, connection: Connection, table: str) -> list[str]:
        """Return the sessions that hold a table, or rows of it."""
        rows = connection.execute(pg_catalog.HOLDERS.format("?"), table)
        return [str(one) for (one,) in rows]

    def _quoted(self, place: TableName) -> str:
        parts = (place.schema, place.table) if place.schema else (place.table,)
        return self.words.quoted(*parts)
