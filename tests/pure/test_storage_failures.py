"""What delta-rs, PostgreSQL and JDBC say of a failure that passes is tried again."""

from pathlib import Path

import psycopg
import pytest
from deltalake.exceptions import DeltaError, DeltaProtocolError, SchemaMismatchError
from psycopg import errors as pg

from holdfast.sinks.delta.table import DeltaLocation
from holdfast.sinks.jdbc import connection as jdbc
from holdfast.sinks.postgres import connect
from holdfast.sinks.postgres.connect import Server

_TIMED_OUT = "Generic S3 error: error sending request: operation timed out"
_PLACE = DeltaLocation(path="s3://lake/t", options={}, partition_by=(), properties={})


@pytest.mark.parametrize(
    ("error", "curable"),
    [
        (DeltaError(_TIMED_OUT), True),
        (OSError(_TIMED_OUT), True),
        (DeltaError("Kernel error: Error interacting with object store"), True),
        (DeltaProtocolError("writer features"), False),
        (SchemaMismatchError("columns"), False),
        (PermissionError("denied"), False),
    ],
)
def test_delta_rs(error: Exception, curable: bool) -> None:  # noqa: FBT001
    assert _PLACE.unavailable(error).curable_by_restart is curable


@pytest.mark.parametrize(
    ("error", "curable"),
    [
        (pg.DeadlockDetected("deadlock"), True),
        (pg.SerializationFailure("could not serialize"), True),
        (pg.AdminShutdown("terminating connection due to administrator command"), True),
        (pg.TooManyConnections("sorry, too many clients already"), True),
        (pg.DiskFull("could not extend file"), True),
        (pg.QueryCanceled("canceling statement due to statement timeout"), True),
        (pg.ReadOnlySqlTransaction("cannot execute INSERT in a read-only transaction"), True),
        (pg.CannotConnectNow("the database system is starting up"), True),
        (psycopg.OperationalError("server closed the connection unexpectedly"), True),
        (psycopg.InterfaceError("the connection is closed"), True),
        (pg.UndefinedTable("no table"), False),
        (pg.NotNullViolation("null"), False),
        (pg.NumericValueOutOfRange("too large"), False),
        (pg.InsufficientPrivilege("denied"), False),
    ],
)
def test_postgresql(error: psycopg.Error, curable: bool) -> None:  # noqa: FBT001
    server = Server(connection="host=db", password=None)
    with pytest.raises(Exception) as raised, connect.translate_errors(server, "t"):  # noqa: PT011
        raise error
    assert raised.value.curable_by_restart is curable  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("state", "away"),
    [
        ("08006", True), ("40001", True), ("53300", True), ("53100", True), ("57014", True),
        ("57P01", True), ("55P03", True), ("25006", True), ("HY000", True), ("70100", True),
        ("22001", False), ("23505", False), ("28000", False), ("42S02", False), ("42703", False),
    ],
)  # fmt: skip
def test_states_of_jdbc(state: str, away: bool) -> None:  # noqa: FBT001
    assert state.startswith(jdbc._AWAY) is away  # noqa: SLF001


def test_a_server_of_s3_that_does_not_answer(tmp_path: Path) -> None:
    """As delta-rs really says it."""
    options = {
        "aws_endpoint": "http://127.0.0.1:1", "aws_allow_http": "true", "aws_region": "x",
        "aws_access_key_id": "a", "aws_secret_access_key": "b", "max_retries": "0",
    }  # fmt: skip
    place = DeltaLocation(path="s3://lake/t", options=options, partition_by=(), properties={})
    with pytest.raises(Exception) as raised:  # noqa: PT011
        place.open()
    assert raised.value.curable_by_restart  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())
