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
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Value = str | int | None

# A lock that was not got within the limit of the session: `lock_timeout`, MariaDB's limits.
_LOCKED_STATE, _LOCKED_CODE = "55P03", 1205
# Also what passes in the server: no room, no memory, a lock, a stop, a standby that is read-only.
_AWAY = ("08", "25006", "40", "53", "55", "57", "58", "70100", "HY000", "HYT", "XX")
# Values that the table does not take: out of range, against a constraint, beyond a limit.
_UNFIT = ("22", "23", "54")
# No such table: PostgreSQL's states (the schema may be missing too), MariaDB's number.
_MISSING_STATES = ("42P01", "3F000")
_MISSING_CODE = 1146
_UNFIT_JSON = "22P05"
_AWAY_CLASSES = ("Transient", "Timeout", "Connection")


class Connection:
    """One connection; statements commit one by one except inside `transaction`."""

    def __init__(self, spark: "SparkSession | SparkContext", address: Address) -> None:
        jvm = spark._jvm  # noqa: SLF001  the only way to Spark's classes
        assert jvm is not None  # noqa: S101  a session that runs has one
        settings = jvm.java.util.HashMap()
        for key, value in address.settings().items():
            settings.put(key, value)
        scala = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(settings)
        try:
            options = jvm.org.apache.spark.sql.execution.datasources.jdbc.JDBCOptions(
                address.for_spark, "holdfast_ledger", scala
            )
            dialect = jvm.org.apache.spark.sql.jdbc.JdbcDialects.get(address.for_spark)
            self._java: JavaObject = dialect.createConnectionFactory(options).apply(-1)
        except Py4JJavaError as error:
            said = str(error.java_exception)
            if "No suitable driver" not in said and "ClassNotFound" not in said:
                raise
            raise SinkRefused(
                f"expected a JDBC driver for `{address.url}`, found: {describe(error)}",
                hint="put its jar into `spark.jars`, and its class into the sink's options as"
                " `driver`",
            ) from None

    def execute(self, text: str, *values: str | int) -> list[tuple[Value, ...]]:
        """Run a statement with its values bound, and give its rows if it has some."""
        statement = self._java.prepareStatement(text)
        try:
            for index, value in enumerate(values, start=1):
                _bind(statement, index, value)
            return _read_rows(statement.getResultSet()) if statement.execute() else []
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


@contextlib.contextmanager
def explained(address: Address, table: str) -> Iterator[None]:
    """Turn what the database says into holdfast's errors; what Spark says stays Spark's."""
    try:
        yield
    except Py4JJavaError as error:
        found = _explain(address, table, error)
        if found is None:
            raise
        raise found from None  # the cause may hold the login


def _explain(address: Address, table: str, error: Py4JJavaError) -> HoldfastError | None:
    java = _find_sql_exception(error)
    if java is None:
        return None
    state, reason = str(java.getSQLState() or ""), describe(error)
    if state.startswith(_UNFIT):
        return SinkRefused(
            f"expected rows that fit `{table}`, found: {reason}",
            hint="mend or drop the value in the job's function; nothing of the batch was written",
        )
    message = f"expected to use `{table}` at `{address.url}`, found: {reason}"
    if state.startswith("08") or any(part in java.getClass().getName() for part in _AWAY_CLASSES):
        return SinkUnavailable(
            message, hint="check that the server runs and takes connections; the batch runs again"
        )
    if state.startswith(_AWAY):
        return SinkUnavailable(message, hint="see what the server says; the batch runs again")
    return SinkRefused(
        message, hint="check the login, its rights and the table; nothing of the batch was written"
    )


def describe(error: Py4JJavaError) -> str:
    """Return the first line of what the database says, or Spark if it was Spark."""
    java = _find_sql_exception(error) or error.java_exception
    text = str(java.getMessage() or java.getClass().getSimpleName()).strip()
    return text.splitlines()[0] if text else "no reason given"


def _is_missing(error: Py4JJavaError) -> bool:
    """Whether the database says that there is no such table, and not that it refuses to tell."""
    java = _find_sql_exception(error)
    if java is None:
        return False
    return str(java.getSQLState()) in _MISSING_STATES or int(java.getErrorCode()) == _MISSING_CODE


def is_locked(error: Py4JJavaError) -> bool:
    """Whether a statement gave up waiting for a lock that another session holds."""
    java = _find_sql_exception(error)
    if java is None:
        return False
    return str(java.getSQLState()) == _LOCKED_STATE or int(java.getErrorCode()) == _LOCKED_CODE


def is_unfit_json(error: Py4JJavaError) -> bool:
    """Whether PostgreSQL refused a character in a JSON text."""
    java = _find_sql_exception(error)
    return java is not None and str(java.getSQLState()) == _UNFIT_JSON


def _find_sql_exception(error: Py4JJavaError) -> JavaObject | None:
    """Return the database's own exception, if one is among the causes."""
    java = error.java_exception
    while java is not None:
        kind = java.getClass()
        while kind is not None:
            if kind.getName() == "java.sql.SQLException":
                return java
            kind = kind.getSuperclass()
        java = java.getCause()
    return None


def _bind(statement: JavaObject, index: int, value: str | int) -> None:
    match value:
        case int():
            statement.setLong(index, value)
        case str():
            statement.setString(index, value)


def _read_rows(found: JavaObject) -> list[tuple[Value, ...]]:
    count = found.getMetaData().getColumnCount()
    rows: list[tuple[Value, ...]] = []
    while found.next():
        rows.append(tuple(_to_value(found.getObject(i)) for i in range(1, count + 1)))
    return rows


def _to_value(value: object) -> Value:
    if value is None or isinstance(value, int | str):
        return value
    return str(value)
