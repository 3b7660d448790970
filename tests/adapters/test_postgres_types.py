"""Every value comes back from PostgreSQL exactly as Spark's Arrow had it, or is refused by name."""

import datetime as dt
import math
import secrets
import struct
import uuid
from collections.abc import Iterator
from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import sql
from tests.adapters.postgres_driving import Desk, Driver

from holdfast.errors import SchemaMismatch, SinkRefused
from holdfast.examples.database import Database
from holdfast.sinks.postgres import staging
from holdfast.sinks.postgres.encode import CopyColumn, Oid, ValueUnfit

Values = list[object]
FREE = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def connection(database: Database) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database.connection, autocommit=True) as connected:
        connected.prepare_threshold = None  # each table here has the same name
        connected.execute("SET timezone = 'UTC'")
        connected.execute("SET intervalstyle = 'iso_8601'")
        yield connected


def through(
    connection: psycopg.Connection, kind: str, oid: Oid, values: pa.Array, shown: str = "v"
) -> Values:
    """The values after a COPY into a table and a SELECT from it."""
    array = kind.endswith("[]")
    column = CopyColumn(name="v", sql=kind, oid=oid, array=array, most=0, required=False)
    number = CopyColumn(name="n", sql="bigint", oid=Oid.INT8, array=False, most=0, required=True)
    connection.execute(sql.SQL("CREATE TEMP TABLE typed (n bigint, v {})").format(sql.SQL(kind)))
    try:
        rows = pa.record_batch([pa.array(range(len(values)), pa.int64()), values], ["n", "v"])
        halves = [rows.slice(0, len(values) // 2), rows.slice(len(values) // 2)]
        staging.copy(connection, "typed", sql.Identifier("typed"), (number, column), halves)
        query = sql.SQL("SELECT {} FROM typed ORDER BY n").format(sql.SQL(shown))
        return [row[0] for row in connection.execute(query, binary=True).fetchall()]
    finally:
        connection.execute("DROP TABLE typed")


def nullable(values: st.SearchStrategy[object]) -> st.SearchStrategy[Values]:
    return st.lists(st.none() | values, max_size=30)


WHOLE = {Oid.INT2: ("smallint", 16), Oid.INT4: ("integer", 32), Oid.INT8: ("bigint", 64)}


@pytest.mark.parametrize("oid", WHOLE)
@FREE
@given(data=st.data())
def test_whole_numbers(connection: psycopg.Connection, oid: Oid, data: st.DataObject) -> None:
    kind, bits = WHOLE[oid]
    values = data.draw(nullable(st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)))
    assert through(connection, kind, oid, pa.array(values, pa.int64())) == values
    listed = [values, [], None, values[:1]]
    arrays = pa.array(listed, pa.list_(pa.int64()))
    assert through(connection, f"{kind}[]", oid, arrays) == listed


@pytest.mark.parametrize(
    ("precision", "scale"), [(38, 0), (38, 38), (38, 18), (10, 2), (5, 5), (18, 7)]
)
@FREE
@given(data=st.data())
def test_decimals(
    connection: psycopg.Connection, precision: int, scale: int, data: st.DataObject
) -> None:
    most = 10**precision - 1
    drawn = data.draw(nullable(st.integers(-most, most)))
    whole = [*drawn, 0, 1, -1, most, -most, None]
    values = [None if n is None else Decimal(f"{n}E-{scale}") for n in whole]
    arrow = pa.array(values, pa.decimal128(precision, scale))
    for kind in ("numeric", f"numeric({precision},{scale})"):
        found = through(connection, kind, Oid.NUMERIC, arrow)
        assert found == values
        assert [str(v) for v in found] == [str(v) for v in values]


@FREE
@given(values=nullable(st.integers(-(2**63), 2**63 - 1)))
def test_whole_numbers_as_numeric(connection: psycopg.Connection, values: Values) -> None:
    assert through(connection, "numeric", Oid.NUMERIC, pa.array(values, pa.int64())) == values


def bits(values: Values) -> list[object]:
    return [None if v is None else struct.pack(">d", v) for v in values]


@FREE
@given(values=nullable(st.floats(allow_nan=False)))
@example(values=[math.inf, -math.inf, 0.0, -0.0, None, 5e-324, 1.7976931348623157e308])
def test_doubles(connection: psycopg.Connection, values: Values) -> None:
    found = through(connection, "double precision", Oid.FLOAT8, pa.array(values, pa.float64()))
    assert bits(found) == bits(values)


@FREE
@given(values=nullable(st.floats(width=32, allow_nan=False)))
def test_floats(connection: psycopg.Connection, values: Values) -> None:
    arrow = pa.array(values, pa.float32())
    assert bits(through(connection, "real", Oid.FLOAT4, arrow)) == bits(values)
    assert bits(through(connection, "double precision", Oid.FLOAT8, arrow)) == bits(values)


def test_not_a_number(connection: psycopg.Connection) -> None:
    arrow = pa.array([math.nan, None, 1.0], pa.float64())
    found = through(connection, "double precision", Oid.FLOAT8, arrow)
    assert isinstance(found[0], float)
    assert math.isnan(found[0])
    assert found[1:] == [None, 1.0]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@FREE
@given(values=nullable(TEXT))
@example(values=["", None, "'", '"', "\\", "\n\r\t", "\\N", "\\.", "\U0001f600\u00e9", " x "])
def test_text(connection: psycopg.Connection, values: Values) -> None:
    arrow = pa.array(values, pa.string())
    assert through(connection, "text", Oid.TEXT, arrow) == values
    assert through(connection, "varchar", Oid.VARCHAR, arrow.cast(pa.large_string())) == values
    listed = [values, [], None, values[:1]]
    found = through(connection, "text[]", Oid.TEXT, pa.array(listed, pa.list_(pa.string())))
    assert found == listed


@FREE
@given(values=nullable(st.binary(max_size=300)))
def test_bytes(connection: psycopg.Connection, values: Values) -> None:
    assert through(connection, "bytea", Oid.BYTEA, pa.array(values, pa.binary())) == values


@FREE
@given(values=nullable(st.booleans()))
def test_booleans(connection: psycopg.Connection, values: Values) -> None:
    assert through(connection, "boolean", Oid.BOOL, pa.array(values, pa.bool_())) == values


@FREE
@given(values=nullable(st.dates()))
def test_dates(connection: psycopg.Connection, values: Values) -> None:
    assert through(connection, "date", Oid.DATE, pa.array(values, pa.date32())) == values


@FREE
@given(values=nullable(st.datetimes()))
def test_timestamps(connection: psycopg.Connection, values: Values) -> None:
    arrow = pa.array(values, pa.timestamp("us"))
    assert through(connection, "timestamp", Oid.TIMESTAMP, arrow) == values
    zoned = pa.array(arrow.cast(pa.int64()), pa.timestamp("us", "UTC"))
    found = through(connection, "timestamptz", Oid.TIMESTAMPTZ, zoned, "v AT TIME ZONE 'UTC'")
    assert found == values


BC = "extract(epoch FROM v) * 1000000"


def test_the_first_and_last_times(connection: psycopg.Connection) -> None:
    first = -210_866_803_200_000_000
    stamps: Values = [first, None, 2**63 - 1]
    arrow = pa.array(stamps, pa.timestamp("us", "UTC"))
    sent = "('x' || encode(timestamptz_send(v), 'hex'))::bit(64)::bigint + 946684800000000"
    assert through(connection, "timestamptz", Oid.TIMESTAMPTZ, arrow, sent) == stamps
    days: Values = [-2_440_588, None, 2**31 - 1 - 2_440_588 - 154]
    arrow = pa.array(days, pa.int32()).cast(pa.date32())
    assert through(connection, "date", Oid.DATE, arrow, "v - DATE '1970-01-01'") == days
    for beyond in (first - 1, -(2**63)):
        with pytest.raises(SinkRefused, match="column `v` of `typed`, found a value out of the"):
            through(
                connection,
                "timestamptz",
                Oid.TIMESTAMPTZ,
                pa.array([0, beyond], pa.timestamp("us", "UTC")),
            )
    for beyond in (-2_440_589, 2**31 - 1):
        with pytest.raises(SinkRefused, match="column `v` of `typed`, found a value out of the"):
            through(connection, "date", Oid.DATE, pa.array([beyond], pa.int32()).cast(pa.date32()))


@FREE
@given(values=nullable(st.integers(-(2**62), 2**62)))
def test_intervals(connection: psycopg.Connection, values: Values) -> None:
    arrow = pa.array(values, pa.duration("us"))
    assert through(connection, "interval", Oid.INTERVAL, arrow, BC) == values


@FREE
@given(values=nullable(st.uuids().map(str)))
def test_uuids(connection: psycopg.Connection, values: Values) -> None:
    found = through(connection, "uuid", Oid.UUID, pa.array(values, pa.string()))
    assert found == [None if v is None else uuid.UUID(str(v)) for v in values]


JSON = {"a": [1, None, 1.5], "b": {"c": 'it\'s "x" \\u0000'}, "d": "\U0001f600"}
JSON_TEXT = '{"a": [1, null, 1.5], "b": {"c": "it\'s \\"x\\" \\\\u0000"}, "d": "\U0001f600"}'


@pytest.mark.parametrize(("kind", "oid"), [("json", Oid.JSON), ("jsonb", Oid.JSONB)])
def test_json(connection: psycopg.Connection, kind: str, oid: Oid) -> None:
    arrow = pa.array([JSON_TEXT, None, "[]"], pa.string())
    assert through(connection, kind, oid, arrow) == [JSON, None, []]


REFUSED = {
    "NUL in text": ("text", Oid.TEXT, pa.array(["a", "b\0"]), "a NUL character"),
    "NUL in jsonb": ("jsonb", Oid.JSONB, pa.array(['"\\u0000"']), "a NUL character"),
    "NUL after a backslash": ("jsonb", Oid.JSONB, pa.array(['"\\\\\\u0000"']), "a NUL"),
    "too large": ("integer", Oid.INT4, pa.array([1, 2**31]), "a value out of the range"),
    "too small": ("smallint", Oid.INT2, pa.array([-(2**15) - 1]), "a value out of the range"),
    "no uuid": ("uuid", Oid.UUID, pa.array(["{6ba7b810}"]), "a text that is no UUID"),
    "NUL in a list": ("text[]", Oid.TEXT, pa.array([["a"], ["\0"]]), "a NUL character"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_values_that_do_not_fit_are_refused(connection: psycopg.Connection, case: str) -> None:
    kind, oid, values, reason = REFUSED[case]
    with pytest.raises(SinkRefused, match=f"column `v` of `typed`, found {reason}"):
        through(connection, kind, oid, values)


def test_an_unfit_value_is_told_by_pickle() -> None:
    assert ValueUnfit("c", "r").args == ("c", "r")


# what the table is made as: what is written to it, and what the error says
UNFIT = {
    "text of another encoding": ("key text, at bigint, value text", b"\xff", "column `value`"),
    "longer than the column": ("key text, at bigint, value varchar(3)", b"abcd", "column `value`"),
    "trailing blanks count": ("key text, at bigint, value varchar(3)", b"abc ", "column `value`"),
    "a null where none may be": ("key text, at bigint, value text NOT NULL", None, "`value`"),
    "a check that fails": ("key text, at bigint, value text CHECK (value <> 'a')", b"a", "check"),
    "no json": ("key text, at bigint, value jsonb", b"{", "column `value`"),
    "a key that is there": ("key text, at bigint, value text UNIQUE", b"same", "duplicate key"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_row_that_does_not_fit_fails_the_batch_whole(database: Database, case: str) -> None:
    columns, value, said = UNFIT[case]
    desk = Desk(database)
    desk.query(f"CREATE TABLE rows ({columns})")
    driver = Driver(desk.append()).start()
    text = pa.array([b"cc", value, value], pa.binary()).view(pa.string())
    keys, numbers = pa.array(["a", "b", "c"]), pa.array([1, 2, 3], pa.int64())
    with pytest.raises(SinkRefused, match=said):
        driver.put(0, pa.table({"key": keys, "at": numbers, "value": text}))
    assert desk.query("SELECT count(*) FROM rows") == [(0,)]
    assert driver.write(0, ("a", 1, '"c"')) is not None
    assert desk.query("SELECT count(*) FROM rows") == [(1,)]


MISMATCHED = {
    "a column too many": ("key text, at bigint", "found `value` string"),
    "a column that must be there": ("key text, at bigint, value text, x int NOT NULL", "`x`"),
    "another type": ("key text, at timestamptz, value text", "`at` of .* found bigint"),
    "a computed column": (
        "key text, at bigint, value text GENERATED ALWAYS AS (key || '!') STORED",
        "`value` of .* computed",
    ),
    "padded text": ("key char(3), at bigint, value text", "`key` of .* as character\\(3\\)"),
    "an enumeration": ("key text, at bigint, value inet", "`value` of .* as inet"),
}


@pytest.mark.parametrize("case", MISMATCHED)
def test_a_mismatch_is_found_before_a_row_is_sent(database: Database, case: str) -> None:
    columns, said = MISMATCHED[case]
    desk = Desk(database)
    desk.query(f"CREATE TABLE rows ({columns})")
    with pytest.raises(SchemaMismatch, match=said):
        Driver(desk.append()).start()


def test_a_mismatch_that_comes_later_is_found_too(database: Database) -> None:
    desk = Desk(database)
    driver = Driver(desk.append()).start()
    driver.write(0, ("a", 1, "x"))
    desk.query("ALTER TABLE rows DROP COLUMN value")
    with pytest.raises(SchemaMismatch, match="found `value` string"):
        driver.write(1, ("b", 1, "x"))


def test_what_the_table_fills_in_itself_may_be_left_out(database: Database) -> None:
    desk = Desk(database)
    desk.query(
        "CREATE TABLE rows (n bigserial PRIMARY KEY, KEY text, since timestamptz NOT NULL"
        " DEFAULT now(), at numeric(20,2), value varchar(9), twice text GENERATED ALWAYS AS"
        " (value || value) STORED, more int)"
    )
    Driver(desk.append()).start().write(0, ("a", 2**40, "x"))
    found = desk.query("SELECT n, key, at, value, twice, more, since > '2000-01-01' FROM rows")
    assert found == [(1, "a", Decimal(2**40), "x", "xx", None, True)]
    assert isinstance(desk.query("SELECT since FROM rows")[0][0], dt.datetime)


ENCODINGS = {
    "the role's": "ALTER ROLE holdfast SET client_encoding = 'LATIN1'",
    "a variable's": "SELECT 1",
    "the database's": "SELECT 1",
}


@pytest.mark.parametrize("whose", ENCODINGS)
def test_text_keeps_its_characters_whatever_the_client_encoding_is(
    database: Database, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    """A connection takes its encoding from the database, the role or libpq's environment."""
    home = Desk(database)
    dbname = "postgres"
    if whose == "the database's":
        dbname = f"latin{secrets.token_hex(4)}"
        home.query(
            f"CREATE DATABASE {dbname} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'"
            " TEMPLATE template0"
        )
    elif whose == "a variable's":
        monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    desk = Desk(database, dbname=dbname)
    home.query(ENCODINGS[whose])
    try:
        driver = Driver(desk.append()).start()
        driver.write(0, ("k", 1, "café"))
        if whose == "the database's":
            with pytest.raises(SinkRefused, match="has no equivalent in encoding"):
                driver.write(1, ("k", 2, "€"))
    finally:
        home.query("ALTER ROLE holdfast RESET client_encoding")
    codes = "SELECT length(value), encode(convert_to(value, 'UTF8'), 'hex') FROM rows"
    assert desk.query(codes) == [(4, "café".encode().hex())]
    driver.sink._table.close()  # noqa: SLF001  nobody may be connected to a database that is dropped
    if dbname != "postgres":
        home.query(f"DROP DATABASE {dbname} WITH (FORCE)")
