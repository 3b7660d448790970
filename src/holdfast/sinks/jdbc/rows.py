"""Staged rows -> the job's table: what is checked before, the statements, what is counted after."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.errors import SinkRefused
from holdfast.model.definition import JdbcAppend, JdbcUpsert
from holdfast.sinks.jdbc import columns as table_columns
from holdfast.sinks.jdbc.columns import StagedColumn, ValueKind
from holdfast.sinks.jdbc.connection import Connection
from holdfast.sinks.jdbc.dialect import Dialect, Upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TIMES = (ValueKind.DATE, ValueKind.MOMENT, ValueKind.LOCAL)


class StagedRows:
    """The rows of a staging table, and how they get into the job's table."""

    def __init__(self, sink: JdbcAppend | JdbcUpsert, dialect: Dialect, table: str) -> None:
        self._sink = sink
        self._dialect = dialect
        self._words = dialect.words
        self._table = table

    def require_values(
        self, connection: Connection, staging: str, columns: Sequence[StagedColumn]
    ) -> None:
        """Raise for what the database would change without an error: blanks cut, nulls replaced."""
        checks = [check for column in columns for check in self._checks(column)]
        if not checks:
            return
        counted = ", ".join(f"MAX(CASE WHEN {check} THEN 1 ELSE 0 END)" for check, _ in checks)
        found = connection.execute(f"SELECT {counted} FROM {staging}")[0]
        for hit, (_, said) in zip(found, checks, strict=True):
            if hit:
                raise SinkRefused(
                    f"expected rows that fit `{self._sink.table}`, found {said}",
                    hint="mend or drop the value in the job's function; nothing of the batch was"
                    " written",
                )

    def _checks(self, column: StagedColumn) -> Iterator[tuple[str, str]]:
        """Yield the conditions under which a staged value would change, and what each one means."""
        found, name = column.found, self._quoted(column)
        if not found.nullable:
            yield f"{name} IS NULL", f"a null in `{found.name}`"
        if column.most is not None:
            longer = f"a text too long for `{found.name}`, which takes {column.most} characters"
            yield f"CHAR_LENGTH({name}) > {column.most}", longer
        if found.octets is not None and column.kind in (ValueKind.TEXT, ValueKind.BYTES):
            # INSERT ... SELECT of MariaDB cuts long texts and blobs even in strict mode.
            longer = f"a value too long for `{found.name}`, which takes {found.octets} bytes"
            yield f"OCTET_LENGTH({name}) > {found.octets}", longer
        if column.kind in _TIMES:
            unread = f"{name} IS NOT NULL AND {self._dialect.unread(column)}"
            yield unread, f"a date or time out of the range of `{found.name}`"

    def require_moved(
        self,
        connection: Connection,
        staging: str,
        columns: Sequence[StagedColumn],
        *,
        moved: int,
        count: int,
    ) -> None:
        """Raise unless the table took every row that it should."""
        if isinstance(self._sink, JdbcUpsert) and moved < count:
            query = self._dialect.lost(self._upsert(self._sink, staging, columns))
            moved = count - int(connection.execute(query)[0][0] or 0)
        if moved < count:
            raise SinkRefused(
                f"expected `{self._sink.table}` to take all {count} rows, but it took {moved}: a"
                " trigger kept the others out or sent them elsewhere",
                hint=f"drop the trigger of `{self._sink.table}`; nothing of the batch was written",
            )

    def statements(
        self, connection: Connection, staging: str, columns: Sequence[StagedColumn]
    ) -> list[str]:
        """Return the statements that move the rows; raises if a key is ambiguous."""
        if isinstance(self._sink, JdbcAppend):
            names = ", ".join(self._quoted(column) for column in columns)
            values = ", ".join(self._dialect.move(column) for column in columns)
            return [f"INSERT INTO {self._table} ({names}) SELECT {values} FROM {staging}"]
        upsert = self._upsert(self._sink, staging, columns)
        if self._sink.newest is None:
            self._require_one_a_key(connection, staging, upsert.keys)
        return list(self._dialect.upsert(upsert))

    def _upsert(self, sink: JdbcUpsert, staging: str, columns: Sequence[StagedColumn]) -> Upsert:
        q = self._words.quoted
        return Upsert(
            table=self._table,
            staging=staging,
            columns=[self._quoted(column) for column in columns],
            values=[self._dialect.move(column) for column in columns],
            keys=[q(key) for key in sink.keys],
            newest=q(sink.newest) if sink.newest else None,
            newest_is_text=any(
                c.found.name == sink.newest and c.kind is ValueKind.TEXT for c in columns
            ),
        )

    def _require_one_a_key(self, connection: Connection, staging: str, keys: Sequence[str]) -> None:
        grouped = f"SELECT 1 FROM {staging} GROUP BY {', '.join(keys)} HAVING COUNT(*) > 1"
        if connection.execute(f"{grouped} LIMIT 1"):
            raise SinkRefused(
                f"expected each key once a batch for `{self._sink.table}`, found one more than"
                " once, and no column says which row is newer",
                hint='declare it: `jdbc_upsert(url, table, keys=[…], newest="event_time")`',
            )

    def _quoted(self, column: StagedColumn) -> str:
        return self._words.quoted(column.found.name)


def keep_newest(sink: JdbcAppend | JdbcUpsert, rows: "DataFrame") -> "DataFrame":
    """Return the newest row of each key, where a column says which that is; otherwise all rows."""
    from pyspark.sql import functions as F  # noqa: N812  only where Spark runs

    if isinstance(sink, JdbcAppend) or sink.newest is None:
        return rows
    rows = _by_bytes(rows)
    quote = table_columns.quote
    whole = F.struct(*map(quote, rows.columns))
    order = F.struct(quote(sink.newest), whole)
    newest = F.max_by(whole, order).alias("newest")
    return rows.groupBy(*map(quote, sink.keys)).agg(newest).select("newest.*")


def _by_bytes(rows: "DataFrame") -> "DataFrame":
    """Return the rows with texts that are told apart and ordered by bytes, as the database does it.

    A collation that the query gave a column would make one key of `a` and `A`.
    """
    from pyspark.sql import functions as F  # noqa: N812  only where Spark runs
    from pyspark.sql.types import StringType

    bytewise = StringType()
    columns = {
        field.name: F.collate(table_columns.quote(field.name), bytewise.collation)
        for field in rows.schema.fields
        if isinstance(field.dataType, StringType) and field.dataType != bytewise
    }
    return rows.withColumns(columns) if columns else rows
