"""The statements of an upsert: which row of a key counts, what replaces what, what got lost."""

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from holdfast.model.definition import PostgresUpsert
from holdfast.sinks import pg_catalog
from holdfast.sinks.postgres import staging
from holdfast.sinks.postgres.encode import CopyColumn, Oid


@dataclass(frozen=True, slots=True, kw_only=True)
class UpsertStatements:
    """The statements that merge rows with these columns into a table."""

    sink: PostgresUpsert
    table: sql.Identifier
    columns: tuple[CopyColumn, ...]

    def newest(self, rows: sql.Composable) -> sql.Composed:
        """One row a key: the newest, and of those that are as new the greatest."""
        if self.sink.newest is None:
            return sql.SQL("SELECT {} FROM {} AS r").format(staging.list_names(self.columns), rows)
        keys = [find_named(self.columns, key).name for key in self.sink.keys]
        first = find_named(self.columns, self.sink.newest)
        rest = [c for c in self.columns if c.name not in keys and c.name != first.name]
        order = [
            sql.SQL("{} DESC NULLS LAST").format(_make_sortable(c, "r")) for c in (first, *rest)
        ]
        return sql.SQL("SELECT DISTINCT ON ({}) {} FROM {} AS r ORDER BY {}, {}").format(
            list_names(keys),
            staging.list_names(self.columns),
            rows,
            list_names(keys),
            sql.SQL(", ").join(order),
        )

    def newer(self, row: str) -> sql.Composable:
        """Whether the incoming row may replace the table's."""
        if self.sink.newest is None:
            return sql.SQL("true")
        column = find_named(self.columns, self.sink.newest)
        newer = sql.SQL("(t.{} IS NULL OR {} > {})")
        return newer.format(
            sql.Identifier(column.name), _make_sortable(column, row), _make_sortable(column, "t")
        )

    def matches(self) -> list[sql.Composable]:
        """Which row of the table has the incoming row's key.

        Two conditions, because only equality can use an index or a hash: the second is for keys
        with a null in them, which are few, if they can be at all.
        """
        keys = [find_named(self.columns, key) for key in self.sink.keys]
        both = [sql.Identifier(key.name) for key in keys]
        equal = sql.SQL(" AND ").join(sql.SQL("t.{0} = n.{0}").format(key) for key in both)
        if all(key.required for key in keys):
            return [equal]
        same = sql.SQL(" AND ").join(
            sql.SQL("t.{0} IS NOT DISTINCT FROM n.{0}").format(key) for key in both
        )
        some = sql.SQL(" OR ").join(sql.SQL("n.{} IS NULL").format(key) for key in both)
        return [equal, sql.SQL("{} AND ({})").format(same, some)]

    def insert(self, newest: sql.Composable, live: sql.Composable) -> sql.Composed:
        """The upsert; it returns how many rows were to be put, and how many the table took."""
        keys = [find_named(self.columns, key).name for key in self.sink.keys]
        stored = [column for column in self.columns if column.stored]
        changes = sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(column.name))
            for column in self._replaced()
        )
        action: sql.Composable = sql.SQL("NOTHING")
        if self._replaced():
            update = sql.SQL("UPDATE SET {} WHERE {}")
            action = update.format(changes, self.newer("excluded"))
        names = staging.list_names(stored)
        return sql.SQL(
            "WITH given AS MATERIALIZED ({newest}), put AS ("
            "INSERT INTO {table} AS t ({names}) SELECT {names} FROM given AS n WHERE {live}"
            " ON CONFLICT ({keys}) DO {action} RETURNING true)"
            " SELECT (SELECT count(*) FROM given AS n WHERE {live}), (SELECT count(*) FROM put)"
        ).format(
            newest=newest,
            table=self.table,
            names=names,
            live=live,
            keys=list_names(keys),
            action=action,
        )

    def lost(self, newest: sql.Composable, live: sql.Composable) -> sql.Composed:
        """How many rows the table neither took nor had reason to leave out.

        A row was taken if this transaction wrote the one with its key. An upsert locks the rows
        that it leaves as they are, so that no other session can change the answer.
        """
        stays: sql.Composable = sql.SQL("true")
        if self._replaced():
            stays = sql.SQL("({}) IS NOT TRUE").format(self.newer("n"))
            if self.sink.newest is None:
                stays = sql.SQL("false")
        absent = sql.SQL(" AND ").join(
            sql.SQL("NOT EXISTS (SELECT FROM {} AS t WHERE {} AND ({} OR {}))").format(
                self.table, match, sql.SQL(pg_catalog.OURS), stays
            )
            for match in self.matches()
        )
        lost = sql.SQL("SELECT count(*) FROM ({}) AS n WHERE {} AND {}")
        return lost.format(newest, live, absent)

    def _replaced(self) -> list[CopyColumn]:
        """The columns that a row with a known key replaces: all of the table's but the keys."""
        keys = [find_named(self.columns, key).name for key in self.sink.keys]
        return [column for column in self.columns if column.stored and column.name not in keys]


def list_names(names: Sequence[str]) -> sql.Composed:
    """Return names as a list."""
    return sql.SQL(", ").join(sql.Identifier(name) for name in names)


def find_named(columns: Sequence[CopyColumn], name: str) -> CopyColumn:
    """The column that the sink's declaration names, in the table's spelling."""
    exact = [column for column in columns if column.name == name]
    return (exact or [column for column in columns if column.name.lower() == name.lower()])[0]


def _make_sortable(column: CopyColumn, row: str) -> sql.Composable:
    """A column of a row to sort by: a text by its bytes, whatever collation it has anywhere.

    Otherwise the staged rows, which have the database's collation, and the table's would disagree
    on which is newest. PostgreSQL has no order of `json`, but of its text.
    """
    name = sql.SQL("{}.{}").format(sql.SQL(row), sql.Identifier(column.name))
    if column.oid is Oid.JSON:
        name = sql.SQL("{}::text").format(name)
    if column.oid in (Oid.TEXT, Oid.VARCHAR, Oid.JSON):
        return sql.SQL('{} COLLATE "C"').format(name)
    return name
