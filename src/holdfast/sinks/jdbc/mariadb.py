"""MariaDB by JDBC: a session that changes no value, and an upsert by the keys alone."""

import contextlib
from collections.abc import Sequence

from py4j.protocol import Py4JJavaError

from holdfast.errors import SinkRefused, SinkUnavailable
from holdfast.model.ids import Epoch
from holdfast.sinks.jdbc import dialect
from holdfast.sinks.jdbc.columns import StagedColumn, TableColumn, Types, ValueKind
from holdfast.sinks.jdbc.connection import Connection, Value
from holdfast.sinks.jdbc.dialect import TableName, Upsert, Words

_BY_BYTES = "CAST({} AS BINARY)"
_LOOK_BACK = 100
_MARKS = 16
_STRICT = (
    "STRICT_ALL_TABLES,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION"
)
_ITS_TABLE = (
    "TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE())"
    " AND BINARY TABLE_NAME = IF(@@lower_case_table_names = 1, LOWER(?), ?)"
)
# User locks are the server's: without the database, jobs of one name would end one another.
_TAG = "SHA2(CONCAT(COALESCE(DATABASE(), ''), '/', ?), 224)"
_IDLE_SECONDS = 28_800  # of a connection between two batches
_EXACT = ("utf8mb4_nopad_bin", "binary")
_TEXTS = frozenset({"varchar", "tinytext", "text", "mediumtext", "longtext"})


class MariaDb:
    """MariaDB. Its default session rounds, cuts and replaces values; ours does not."""

    words = Words(
        quote="`",
        name="varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        text="longtext",
        whole="bigint",
        time="timestamp(6)",
        json="longtext",
        json_value="?",
        storage=" ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
        # Without it a transaction counts what there was when it began, and moves what there is.
        latest=" LOCK IN SHARE MODE",
        cure="let the session finish, or end it by `KILL …` with its number, as the user that it"
        " names or as an administrator; then start again",
        types=Types(
            made={
                "byte": "tinyint",
                "short": "smallint",
                "integer": "int",
                "long": "bigint",
                "float": "float",
                "double": "double",
                "decimal": "decimal({precision},{scale})",
                "string": "longtext",
                "binary": "longblob",
                "boolean": "bit(1)",
                "date": "date",
                "timestamp": "timestamp(6) NULL",
                "timestamp_ntz": "datetime(6)",
            },
            taken={
                ValueKind.WHOLE: frozenset(
                    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal"}
                ),
                ValueKind.FLOAT: frozenset({"float", "double"}),
                ValueKind.DOUBLE: frozenset({"double"}),
                ValueKind.DECIMAL: frozenset({"decimal"}),
                ValueKind.TEXT: _TEXTS,
                ValueKind.BYTES: frozenset(
                    {"varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
                ),
                ValueKind.BOOLEAN: frozenset({"bit", "tinyint"}),
                ValueKind.DATE: frozenset({"date"}),
                ValueKind.MOMENT: frozenset({"timestamp"}),
                ValueKind.LOCAL: frozenset({"datetime"}),
            },
            staged={
                ValueKind.WHOLE: "bigint",
                ValueKind.FLOAT: "double",
                ValueKind.DOUBLE: "double",
                ValueKind.DECIMAL: "decimal({precision},{scale})",
                ValueKind.TEXT: "longtext CHARACTER SET utf8mb4 COLLATE {collation}",
                ValueKind.BYTES: "longblob",
                ValueKind.BOOLEAN: "bigint",
                ValueKind.DATE: "varchar(40)",
                ValueKind.MOMENT: "varchar(40)",
                ValueKind.LOCAL: "varchar(40)",
            },
            unicode="utf8mb4",
            limited=frozenset({"varchar"}),
        ),
    )

    def enter(self, connection: Connection, tag: str) -> None:
        """Set up a new session; raises for a server that is no MariaDB."""
        version = str(connection.execute("SELECT VERSION()")[0][0])
        if "MariaDB" not in version:
            raise SinkRefused(
                f"expected a MariaDB server, found version `{version}`, which is not tested",
                hint="write to PostgreSQL or MariaDB, or to a Delta table",
            )
        self._set_up(connection, tag)

    def _set_up(self, connection: Connection, tag: str) -> None:
        connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute(
            f"SET SESSION sql_mode = '{_STRICT}', time_zone = '+00:00', unique_checks = 1,"
            " foreign_key_checks = 1, sql_safe_updates = 0, max_statement_time = 0,"
            f" idle_transaction_timeout = {dialect.IDLE_SECONDS}, wait_timeout = {_IDLE_SECONDS}"
        )
        self.limit_locks(connection, dialect.LOCK_SECONDS)
        mine = f"IF(IS_USED_LOCK({_TAG}) = CONNECTION_ID(), 1, GET_LOCK({_TAG}, 0))"
        for number in range(_MARKS):  # an earlier session of this driver may still have its mark
            mark = f"{tag}/{number}"
            if connection.execute(f"SELECT {mine}", mark, mark) == [(1,)]:
                return
        raise SinkUnavailable(
            f"cannot mark the session as `{tag}`: {_MARKS} sessions of this driver have its marks",
            hint="end the sessions that an earlier failure left; the batch runs again",
        )

    def begin(self, connection: Connection, tag: str, lock_seconds: int) -> str:
        """First in a transaction: set the session up, and return which one it is.

        REPEATABLE READ: between the two statements of an upsert nobody may add a key. Which session
        it is comes first: a client that connects again in between is found at the end.
        """
        session = self.identify(connection)
        if int(connection.execute("SELECT @@autocommit")[0][0] or 0):
            raise SinkUnavailable(
                "cannot begin a transaction: the client connected again while it began",
                hint="let the batch run again; nothing of it was written",
            )
        self._set_up(connection, tag)
        self.limit_locks(connection, lock_seconds)
        return session

    def identify(self, connection: Connection) -> str:
        """Return which session of which server this is."""
        session = "CONCAT_WS('/', CONNECTION_ID(), @@hostname, @@port, @@server_id)"
        return str(connection.execute(f"SELECT {session}")[0][0])

    def look(self, connection: Connection, place: TableName) -> list[TableColumn]:
        """Return the columns of a table."""
        rows = connection.execute(
            "SELECT COLUMN_NAME, DATA_TYPE, NUMERIC_SCALE, CHARACTER_MAXIMUM_LENGTH,"
            " CHARACTER_OCTET_LENGTH, DATETIME_PRECISION, CHARACTER_SET_NAME, COLLATION_NAME,"
            " IS_NULLABLE, COLUMN_DEFAULT, EXTRA, COALESCE(GENERATION_EXPRESSION, '')"
            f" FROM information_schema.COLUMNS WHERE {_ITS_TABLE} ORDER BY ORDINAL_POSITION",
            *(place.schema or "", place.table, place.table),
        )
        return [
            TableColumn(
                name=str(name),
                type=str(kind),
                scale=dialect.parse_number(scale)
                if kind in ("decimal", "float", "double")
                else None,
                length=dialect.parse_number(length),
                octets=dialect.parse_number(octets),
                digits=dialect.parse_number(digits),
                charset=None if charset is None else str(charset),
                collation=None if collation is None else str(collation),
                nullable=nullable == "YES",
                has_default=default is not None,
                computed=bool(generated),
                counts="auto_increment" in str(extra),
            )
            for name, kind, scale, length, octets, digits, charset, collation, nullable, default,
            extra, generated in rows
        ]  # fmt: skip

    def hold(self, connection: Connection, place: TableName) -> None:
        """Inside a transaction: take the table's metadata lock, which keeps ALTER and DROP out."""
        connection.execute(f"SELECT 1 FROM {self._quoted(place)} LIMIT 0")

    def check(
        self, connection: Connection, place: TableName, *, ledger: bool
    ) -> SinkRefused | None:
        """Return why the table cannot change with its ledger in one durable step."""
        found = connection.execute(
            f"SELECT TABLE_TYPE, ENGINE FROM information_schema.TABLES WHERE {_ITS_TABLE}",
            *(place.schema or "", place.table, place.table),
        )
        kind, engine = found[0] if found else ("no table", None)
        if str(engine).lower() != "innodb":
            return SinkRefused(
                f"expected the table `{place.table}` to be of an engine with transactions, InnoDB,"
                f" found {engine or kind}",
                hint=f"check that its rows are complete, then run ALTER TABLE"
                f" {self._quoted(place)} ENGINE = InnoDB",
            )
        names = [c for c in self.look(connection, place) if c.name in ("job", "output")]
        if ledger and not all(str(c.collation).endswith("_bin") for c in names):
            return SinkRefused(
                f"expected `{place.table}` to tell names apart by every character, found the"
                f" collation `{names[0].collation}`, for which `a` and `A` are one job",
                hint="; ".join(
                    f"ALTER TABLE {self._quoted(place)} MODIFY {c.name} {self.words.name} NOT NULL"
                    for c in names
                ),
            )
        return None

    def require_key(
        self,
        connection: Connection,
        place: TableName,
        keys: Sequence[str],
        columns: Sequence[StagedColumn],
    ) -> None:
        """Raise unless there is a unique index on the keys, and no two keys are equal in it."""
        found = connection.execute(
            "SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS"
            f" WHERE {_ITS_TABLE} AND NON_UNIQUE = 0 AND SUB_PART IS NULL",
            *(place.schema or "", place.table, place.table),
        )
        partial = connection.execute(
            "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS"
            f" WHERE {_ITS_TABLE} AND SUB_PART IS NOT NULL",
            *(place.schema or "", place.table, place.table),
        )
        indexes: dict[Value, set[str]] = {}
        for index, name in found:
            if (index,) not in partial:
                indexes.setdefault(index, set()).add(str(name).lower())
        if {key.lower() for key in keys} not in indexes.values():
            raise SinkRefused(
                f"expected a unique index of `{place.table}` on exactly"
                f" {', '.join(f'`{key}`' for key in keys)}, found none",
                hint=f"ALTER TABLE {self._quoted(place)} ADD UNIQUE"
                f" ({', '.join(self.words.quoted(key) for key in keys)})",
            )
        dialect.require_not_null(
            place, keys, columns, lambda key: self._without_null(connection, place, key)
        )
        for column in columns:
            exact = (column.found.collation or "binary") in _EXACT
            if column.found.name in keys and not exact:
                key = column.found.name
                raise SinkRefused(
                    f"expected the key column `{key}` of `{place.table}` to tell texts apart by"
                    f" every character, found the collation `{column.found.collation}`: keys that"
                    " differ in case or in blanks at the end would overwrite one another",
                    hint=f"ALTER TABLE {self._quoted(place)} MODIFY {self.words.quoted(key)}"
                    f" {column.found.type}({column.most}) CHARACTER SET utf8mb4 COLLATE"
                    f" {_EXACT[0]} NOT NULL",
                )

    def _without_null(self, connection: Connection, place: TableName, key: TableColumn) -> str:
        """Return the statement by which a key column takes no null and keeps its type."""
        ((kind,),) = connection.execute(
            "SELECT COLUMN_TYPE FROM information_schema.COLUMNS"
            f" WHERE {_ITS_TABLE} AND COLUMN_NAME = ?",
            *(place.schema or "", place.table, place.table, key.name),
        )
        letters = f" CHARACTER SET {key.charset} COLLATE {key.collation}" if key.charset else ""
        column = f"{self.words.quoted(key.name)} {kind}{letters}"
        return f"ALTER TABLE {self._quoted(place)} MODIFY {column} NOT NULL"

    def move(self, column: StagedColumn) -> str:
        """Return the expression of a staged column in the type of the table's."""
        name = self.words.quoted(column.found.name)
        match column.kind:
            case ValueKind.DATE:
                return f"CAST({name} AS DATE)"
            case ValueKind.MOMENT | ValueKind.LOCAL:
                return f"CAST({name} AS DATETIME(6))"
            case _:
                return name

    def unread(self, column: StagedColumn) -> str:
        """Return the condition under which a staged date or time is none of the table's type."""
        return f"{self.move(column)} IS NULL"

    def upsert(self, rows: Upsert) -> Sequence[str]:
        """Return the statements of an upsert: by the keys, and by no other unique index."""
        names = ", ".join(rows.columns)
        typed = ", ".join(f"{v} AS {c}" for v, c in zip(rows.values, rows.columns, strict=True))
        staged = f"(SELECT {typed} FROM {rows.staging}) AS s"
        same = " AND ".join(f"t.{key} = s.{key}" for key in rows.keys)
        changes = ", ".join(f"t.{column} = s.{column}" for column in rows.others)
        newer = dialect.format_newer(rows, "s", "t", _BY_BYTES)
        update = f"UPDATE {rows.table} AS t JOIN {staged} ON {same} SET {changes}"
        absent = f"NOT EXISTS (SELECT 1 FROM {rows.table} AS t WHERE {same})"
        insert = f"INSERT INTO {rows.table} ({names}) SELECT {names} FROM {staged} WHERE {absent}"
        if not rows.others:
            return [insert]
        return [f"{update} WHERE {newer}" if newer else update, insert]

    def lost(self, rows: Upsert) -> str:
        """Return the query for how many rows an upsert neither took nor had reason to leave out.

        MariaDB does not show who wrote a row. But no trigger of it can keep a row out and say
        nothing: what has to be there is the key, and a version that is as new.
        """
        latest = self.words.latest
        if rows.newest is None:
            return dialect.absent(rows, "1", latest)
        newer = dialect.format_newer(rows, "s", "t", _BY_BYTES)
        stays = f"s.{rows.newest} IS NULL OR ({newer}) IS NOT TRUE"
        return dialect.absent(rows, stays, latest)

    def limit_locks(
        self,
        connection: Connection,
        seconds: int,
        *,
        local: bool = True,  # noqa: ARG002  the next transaction sets its own
    ) -> None:
        """Wait for a lock, on rows or tables, no longer than this."""
        connection.execute(
            f"SET SESSION innodb_lock_wait_timeout = {seconds}, lock_wait_timeout = {seconds}"
        )

    def drop(self, connection: Connection, table: str) -> None:
        """Drop a staging table, unless another session uses it for more than a moment."""
        connection.execute(f"DROP TABLE IF EXISTS {table} WAIT 1")

    def end_older(self, connection: Connection, prefix: str, oldest: Epoch, below: Epoch) -> None:
        """End the sessions of older drivers, which hang in their transactions."""
        for epoch in range(max(oldest, below - _LOOK_BACK), below):
            marks = [f"{prefix}{epoch}/{number}" for number in range(_MARKS)]
            used = ", ".join([f"IS_USED_LOCK({_TAG})"] * _MARKS)
            (sessions,) = connection.execute(f"SELECT {used}", *marks)
            for session in sessions:
                if session is not None:
                    with contextlib.suppress(Py4JJavaError):  # it has ended, or is another user's
                        connection.execute(f"KILL CONNECTION {int(session)}")

    def name_holders(
        self,
        connection: Connection,
        table: str,  # noqa: ARG002  MariaDB does not say which table
    ) -> list[str]:
        """Return the sessions with an open transaction, or all where we may not know."""
        shown = (
            "CONCAT(p.ID, ' (user ', p.USER, ' from ', p.HOST, ', ', LOWER(p.COMMAND), ' for ',"
            " p.TIME, ' s)') FROM information_schema.PROCESSLIST AS p"
        )
        others = "p.ID <> CONNECTION_ID() AND (DATABASE() IS NULL OR p.DB = DATABASE())"
        try:
            rows = connection.execute(
                f"SELECT {shown} JOIN information_schema.INNODB_TRX AS t"
                f" ON t.trx_mysql_thread_id = p.ID WHERE {others}"
            )
        except Py4JJavaError:  # it takes the right PROCESS
            rows = connection.execute(f"SELECT {shown} WHERE {others}")
        return [str(one) for (one,) in rows]

    def _quoted(self, place: TableName) -> str:
        parts = (place.schema, place.table) if place.schema else (place.table,)
        return self.words.quoted(*parts)
