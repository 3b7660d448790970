"""A JDBC connection of the driver's, made by Spark's own connection providers.

Spark knows how to find the driver's class among `spark.jars` and how to log in; holdfast adds
nothing to that, and needs no client library of its own.
"""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError, Py4JJavaError

from holdfast.errors import HoldfastError, SinkRefused, SinkUnavailable
from holdfast.sinks.jdbc.address import Address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Value = str | int | None

_LOCK_SECONDS = 30
_LOCKED_STATES = ("55P03", "57014")
_LOCKED_CODES = (1205, 1969, 3024)
# Also what passes in the server: no room, no memory, a lock, a stop, a standby that is read-only.
_AWAY = ("08", "25006", "40", "53", "55", "57", "58", "70100", "HY000", "HYT", "XX")
# No such table: PostgreSQL's states (the schema may be missing too), MariaDB's number.
_MISSING_STATES = ("42P01", "3F000")
_MISSING_CODE = 1146
_AWAY_CLASSES = ("Transient", "Timeout", "Connection")


class Connection:
    """One connection; statements commit one by one except inside `transaction`."""

    def __init__(self, spark: "SparkSession", address: Address) -> None:
        self._address = address
        jvm = spark._jvm  # noqa: SLF001  the only way to Spark's classes
        assert jvm is not None  # noqa: S101  a session that runs has one
        settings = jvm.java.util.HashMap()
        for key, value in address.settings().items():
            settings.put(key, value)
        scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(settings)
        with self.explained("the database"):
            options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(
                address.for_spark, "holdfast_ledger", scala
            )
            dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(address.for_spark)
            self._java: JavaObject = dialect.createConnectionFactory(options).apply(-1)

    def execute(
        self, text: str, *values: str | int, locks: bool = False
    ) -> list[tuple[Value, ...]]:
        """Run a statement with its values bound, and give its rows if it has some."""
        statement = self._java.prepareStatement(text)
        try:
            if locks:
                statement.setQueryTimeout(_LOCK_SECONDS)
            for index, value in enumerate(values, start=1):
                _bind(statement, index, value)
            return _rows(statement.getResultSet()) if statement.execute() else []
        finally:
            statement.close()

    def changed(self, text: str) -> int:
        """Run a statement, and give how many rows it has changed."""
        statement = self._java.prepareStatement(text)
        try:
            return int(statement.executeUpdate())
        finally:
            statement.close()

    def columns(self, table: str) -> list[str] | None:
        """The names of a table's columns, or None where there is no such table."""
        try:
            statement = self._java.prepareStatement(f"SELECT * FROM {table} WHERE 1 = 0")
            try:
                found = statement.executeQuery().getMetaData()
                count = found.getColumnCount()
                return [str(found.getColumnLabel(i)) for i in range(1, count + 1)]
            finally:
                statement.close()
        except Py4JJavaError as error:
            if not _is_missing(error):  # without the right to read it, nobody knows what it holds
                raise
            return None

    def tables(self, schema: str | None, prefix: str) -> list[str]:
        """The tables whose name begins so, in a schema or in the connection's own."""
        own = self._java.getSchema() or self._java.getCatalog()
        found = self._java.getMetaData().getTables(None, None, f"{prefix}%", None)
        names = []
        while found.next():
            place = found.getString("TABLE_SCHEM") or found.getString("TABLE_CAT")
            name = str(found.getString("TABLE_NAME"))
            if name.startswith(prefix) and place == (schema or own):
                names.append(name)
        found.close()
        return names

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing."""
        self._java.setAutoCommit(False)
        try:
            yield
            self._java.commit()
        except BaseException:
            self._undo()
            raise
        with contextlib.suppress(Py4JError):
            self._java.setAutoCommit(True)

    def _undo(self) -> None:
        """Roll back; a connection that cannot is ended, since `setAutoCommit` would commit."""
        try:
            self._java.rollback()
            self._java.setAutoCommit(True)
        except BaseException as error:
            self.close()
            if not isinstance(error, Py4JError):
                raise

    @contextlib.contextmanager
    def explained(self, table: str) -> Iterator[None]:
        """Turn what the database says into holdfast's errors."""
        try:
            yield
        except HoldfastError:
            raise
        except Py4JJavaError as error:
            raise self._explained(table, error) from None  # the cause may hold the login

    def _explained(self, table: str, error: Py4JJavaError) -> HoldfastError:
        reason = said(error)
        if "No suitable driver" in reason or "ClassNotFound" in str(error.java_exception):
            return SinkRefused(
                f"expected a JDBC driver for `{self._address.url}`, found: {reason}",
                hint="put its jar into `spark.jars`, and its class into the sink's options as"
                " `driver`",
            )
        if _is_away(error) or is_locked(error):
            return SinkUnavailable(
                f"expected to use `{table}` at `{self._address.url}`, found: {reason}",
                hint="check that the server runs and takes connections; the batch runs again",
            )
        return SinkRefused(
            f"expected to use `{table}` at `{self._address.url}`, found: {reason}",
            hint="check the login, its rights and the table; nothing of the batch was written",
        )

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(Py4JError):
            self._java.close()

    def alive(self) -> bool:
        """Whether the server still answers."""
        try:
            return bool(self._java.isValid(5))
        except Py4JError:
            return False


def said(error: Py4JJavaError) -> str:
    """The first line of what the database says, or Spark if it was Spark."""
    java = error.java_exception
    while java.getCause() is not None and "SQL" not in java.getClass().getName():
        java = java.getCause()
    text = str(java.getMessage() or java.getClass().getSimpleName()).strip()
    return text.splitlines()[0] if text else "no reason given"


def _is_away(error: Py4JJavaError) -> bool:
    """Whether the server, not the statement, is what failed; by the SQL state, then the class."""
    java = _sql_exception(error)
    if java is None:
        return False
    state, name = str(java.getSQLState() or ""), str(java.getClass().getName())
    return state.startswith(_AWAY) or any(part in name for part in _AWAY_CLASSES)


def _is_missing(error: Py4JJavaError) -> bool:
    """Whether the database says that there is no such table, and not that it refuses to tell."""
    java = _sql_exception(error)
    if java is None:
        return False
    return str(java.getSQLState()) in _MISSING_STATES or int(java.getErrorCode()) == _MISSING_CODE


def is_locked(error: Py4JJavaError) -> bool:
    """Whether a statement gave up waiting for a lock that another session holds."""
    java = _sql_exception(error)
    if java is None:
        return False
    return str(java.getSQLState()) in _LOCKED_STATES or int(java.getErrorCode()) in _LOCKED_CODES


def _sql_exception(error: Py4JJavaError) -> JavaObject | None:
    java = error.java_exception
    while java is not None and "SQL" not in str(java.getClass().getName()):
        java = java.getCause()
    return java


def _bind(statement: JavaObject, index: int, value: str | int) -> None:
    match value:
        case int():
            statement.setLong(index, value)
        case str():
            statement.setString(index, value)


def _rows(found: JavaObject) -> list[tuple[Value, ...]]:
    count = found.getMetaData().getColumnCount()
    rows: list[tuple[Value, ...]] = []
    while found.next():
        rows.append(tuple(_plain(found.getObject(i)) for i in range(1, count + 1)))
    return rows


def _plain(value: object) -> Value:
    if value is None or isinstance(value, int | str):
        return value
    return str(value)
