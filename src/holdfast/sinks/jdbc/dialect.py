"""What databases say differently: names, types, and an upsert from one table into another.

PostgreSQL and MySQL or MariaDB have an upsert of their own. Every other database is given two
statements of plain SQL, which in one transaction do the same: rows that are to be replaced are
deleted, then all rows whose key is not there are inserted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Rows of a staging table that are to go into a table by key; every name is quoted."""

    table: str
    staging: str
    columns: Sequence[str]
    keys: Sequence[str]
    newest: str | None

    @property
    def others(self) -> list[str]:
        """The columns that are no key."""
        return [column for column in self.columns if column not in self.keys]


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How one family of databases is spoken to.

    `name` is a type for short texts that can be part of a key, told apart by every character,
    `text` one for long texts, `json` the type of the offsets and `json_value` how one is given.
    `times` are the types that a column of time must have in a table that Spark makes, where
    Spark's own choice would cut microseconds. `engine` asks whether a table cannot be rolled back,
    and `uniques` for its unique indexes, where an upsert without one only inserts.
    """

    quote: str
    name: str
    text: str
    whole: str
    time: str
    json: str
    json_value: str
    upsert: Callable[[Upsert], Sequence[str]]
    times: Mapping[str, str]
    engine: str | None = None
    uniques: str | None = None

    def quoted(self, *parts: str) -> str:
        """A name of one or more parts, whatever characters are in them."""
        mark = self.quote
        return ".".join(f"{mark}{part.replace(mark, mark * 2)}{mark}" for part in parts)


_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
    "oracle": "oracle.jdbc.OracleDriver",
}


def driver_of(url: str) -> str | None:
    """The driver's class, by name: Java finds none by itself among `spark.jars`."""
    return _DRIVERS.get(_kind(url))


def for_spark(url: str) -> str:
    """The address under which Spark, too, knows the dialect.

    Spark speaks MySQL's to `jdbc:mysql:` only; MariaDB's driver takes that when it is told to.
    """
    if _kind(url) != "mariadb":
        return url
    rest = url.removeprefix("jdbc:mariadb:")
    return f"jdbc:mysql:{rest}{'&' if '?' in rest else '?'}permitMysqlScheme"


def _kind(url: str) -> str:
    return url.removeprefix("jdbc:").partition(":")[0].lower()


def of(url: str) -> Dialect:
    """The dialect of the database behind a JDBC address."""
    match _kind(url):
        case "postgresql":
            return POSTGRESQL
        case "mysql" | "mariadb":
            return MYSQL
        case _:
            return STANDARD


def _on_conflict(rows: Upsert) -> Sequence[str]:
    names = ", ".join(rows.columns)
    keys = ", ".join(rows.keys)
    insert = f"INSERT INTO {rows.table} AS t ({names}) SELECT {names} FROM {rows.staging} "
    if not rows.others:
        return [f"{insert}ON CONFLICT ({keys}) DO NOTHING"]
    changes = ", ".join(f"{column} = excluded.{column}" for column in rows.others)
    newer = _newer(rows.newest, "excluded", "t")
    condition = f" WHERE {newer}" if newer else ""
    return [f"{insert}ON CONFLICT ({keys}) DO UPDATE SET {changes}{condition}"]


def _on_duplicate_key(rows: Upsert) -> Sequence[str]:
    names = ", ".join(rows.columns)
    insert = f"INSERT INTO {rows.table} ({names}) SELECT {names} FROM {rows.staging} "
    newest = rows.newest
    if newest is None:
        changes = [f"{column} = VALUES({column})" for column in rows.columns]
    else:
        # Assignments take effect from left to right, so the column that decides comes last.
        ordered = [column for column in rows.columns if column != newest] + [newest]
        newer = f"{rows.table}.{newest} IS NULL OR VALUES({newest}) > {rows.table}.{newest}"
        changes = [
            f"{column} = IF({newer}, VALUES({column}), {rows.table}.{column})" for column in ordered
        ]
    return [f"{insert}ON DUPLICATE KEY UPDATE {', '.join(changes)}"]


def _delete_and_insert(rows: Upsert) -> Sequence[str]:
    names = ", ".join(rows.columns)
    same = " AND ".join(f"s.{key} = {rows.table}.{key}" for key in rows.keys)
    newer = _newer(rows.newest, "s", rows.table)
    replaced = f"{same} AND ({newer})" if newer else same
    delete = (
        f"DELETE FROM {rows.table} WHERE EXISTS (SELECT 1 FROM {rows.staging} s WHERE {replaced})"
    )
    absent = f"NOT EXISTS (SELECT 1 FROM {rows.table} WHERE {same})"
    insert = (
        f"INSERT INTO {rows.table} ({names}) SELECT {names} FROM {rows.staging} s WHERE {absent}"
    )
    return [delete, insert]


def _newer(column: str | None, given: str, there: str) -> str:
    if column is None:
        return ""
    return f"{there}.{column} IS NULL OR {given}.{column} > {there}.{column}"


POSTGRESQL = Dialect(
    quote='"',
    name="text",
    text="text",
    whole="bigint",
    time="timestamptz",
    json="jsonb",
    json_value="CAST(? AS jsonb)",
    upsert=_on_conflict,
    times={},
)
_ITS_TABLE = "TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND BINARY TABLE_NAME = ?"
MYSQL = Dialect(
    quote="`",
    name="varchar(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    text="longtext",
    whole="bigint",
    time="timestamp(6)",
    json="longtext",
    json_value="?",
    upsert=_on_duplicate_key,
    times={"timestamp": "timestamp(6) NULL", "timestamp_ntz": "datetime(6) NULL"},
    engine="SELECT ENGINE FROM information_schema.TABLES JOIN information_schema.ENGINES"
    f" USING (ENGINE) WHERE {_ITS_TABLE} AND TRANSACTIONS = 'NO'",
    uniques="SELECT INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS"
    f" WHERE {_ITS_TABLE} AND NON_UNIQUE = 0",
)
STANDARD = Dialect(
    quote='"',
    name="varchar(255)",
    text="varchar(4000)",
    whole="bigint",
    time="timestamp",
    json="varchar(4000)",
    json_value="?",
    upsert=_delete_and_insert,
    times={},
)
