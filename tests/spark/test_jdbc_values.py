"""The rows that the table holds are the rows of the plan, or the batch does not get there.

Random rows of every type go through the sink, with time zones of Spark and of the JVM that differ
and change their clocks. What the database's own client then finds is compared with the values from
which the rows were made.
"""

import datetime as dt
import decimal
import math
import random
import struct
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from tests.spark.jdbc_driving import LIFE, Server, append, batch, connect, opened

from holdfast.errors import SchemaMismatch

pytestmark = pytest.mark.spark

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  in UTC, as the database's client gives it
ROWS = 60
SCHEMA = (
    "id LONG, b BYTE, s SHORT, i INT, l LONG, f FLOAT, d DOUBLE, amount DECIMAL(38,18),"
    " text STRING, bytes BINARY, yes BOOLEAN, day STRING, moment LONG, local STRING"
)
EXACT = (
    "id, b, s, i, l, f, d, amount, text, bytes, yes, CAST(day AS DATE) AS day,"
    " timestamp_micros(moment) AS moment, CAST(local AS TIMESTAMP_NTZ) AS local"
)
# Clocks go forward and back here: local times that do not exist, and hours that come twice.
ODD_LOCALS = (
    "2026-03-08 02:30:00.000001",
    "2026-03-29 02:30:00.999999",
    "2026-11-01 01:30:00",
    "2026-10-25 02:30:00",
)
ODD_MOMENTS = tuple(
    int(dt.datetime.fromisoformat(text).timestamp() * 1_000_000)
    for text in (
        "2026-11-01T05:30:00+00:00",
        "2026-11-01T06:30:00+00:00",
        "2026-10-25T00:30:00+00:00",
        "2026-10-25T01:30:00+00:00",
        "2026-03-29T01:30:00+00:00",
    )
)


@pytest.fixture(params=["postgresql", "mariadb"])
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server without tables."""
    with connect(request.param, request, monkeypatch) as found:
        yield found


@pytest.fixture
def clocks(spark: SparkSession) -> Iterator[None]:
    """Spark in New York, the JVM in Berlin."""
    zones = spark._jvm.java.util.TimeZone  # type: ignore[union-attr]  # noqa: SLF001
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone("Europe/Berlin"))
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    zones.setDefault(before)


def make_rows(seed: int) -> list[tuple[object, ...]]:  # noqa: C901  one function per type
    """Random rows, with the edges of every type among them."""
    given = random.Random(seed)

    def whole(bits: int) -> int:
        edge = 1 << (bits - 1)
        return given.choice([-edge, edge - 1, 0, given.randrange(-edge, edge)])

    def real(code: str) -> float:
        size = struct.calcsize(code)
        while True:
            (found,) = struct.unpack(code, given.randbytes(size))
            if math.isfinite(found):
                return float(found)

    def text() -> str:
        letters = "aA é😀'\"\\\n\t%_ \u0301"
        return "".join(given.choices(letters, k=given.randrange(12))) + given.choice(
            ["", " ", "  "]
        )

    def amount() -> decimal.Decimal:
        digits = given.randrange(-(10**38) + 1, 10**38)
        return decimal.Decimal(digits).scaleb(-18, decimal.Context(prec=40))

    def local() -> str:
        moment = dt.datetime(1000, 1, 1) + dt.timedelta(  # noqa: DTZ001
            microseconds=given.randrange(280_000_000_000_000_000)
        )
        return given.choice([*ODD_LOCALS, moment.isoformat(" ")])

    rows: list[tuple[object, ...]] = []
    for number in range(ROWS):
        values: list[object] = [whole(8), whole(16), whole(32), whole(64), real("f"), real("d")]
        values += [amount(), text(), given.randbytes(given.randrange(9)), given.random() < 0.5]
        values += [local()[:10], given.choice([*ODD_MOMENTS, given.randrange(1, 2**51 - 2**48)])]
        values += [local()]
        rows.append((number, *(None if given.random() < 0.1 else one for one in values)))
    return rows


def find_rows(server: Server) -> list[tuple[object, ...]]:
    """What the table holds, by the database's own client, in the form of `make_rows`.

    A float is shown with few digits, but held with all of them.
    """
    if server.is_mariadb:
        moment, real = "CONVERT_TZ(moment, @@session.time_zone, '+00:00')", "CAST(f AS DOUBLE)"
    else:
        moment, real = "moment AT TIME ZONE 'UTC'", "CAST(f AS double precision)"
    found = server.query(
        f"SELECT id, b, s, i, l, {real}, d, amount, text, bytes, yes, day, {moment}, local"
        ' FROM "rows" ORDER BY id'
    )

    def plain(value: object) -> object:
        match value:
            case memoryview():
                return bytes(value)
            case _:
                return value

    rows = []
    for row in found:
        values = [plain(value) for value in row]
        values[10] = None if values[10] is None else values[10] in (True, 1, b"\x01")
        rows.append(tuple(values))
    return rows


def expect(rows: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """The given rows as a client gives them: dates and times are Python's."""
    expected = []
    for row in rows:
        values = list(row)
        day, moment, local = values[11:14]
        values[11] = dt.date.fromisoformat(day) if isinstance(day, str) else None
        values[12] = EPOCH + dt.timedelta(microseconds=moment) if isinstance(moment, int) else None
        values[13] = dt.datetime.fromisoformat(local) if isinstance(local, str) else None
        expected.append(tuple(values))
    return expected


@pytest.mark.usefixtures("clocks")
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.prove) for n in range(2, 12))]
)
def test_random_rows_come_back_as_they_were(server: Server, spark: SparkSession, seed: int) -> None:
    rows = make_rows(seed)
    frame = spark.createDataFrame(rows, SCHEMA).selectExpr(*EXACT.split(", "))
    sink = opened(append(server))
    sink.prepare(LIFE, frame.schema, spark)
    sink.write(batch(0), frame.repartition(2))
    assert find_rows(server) == expect(rows)


# kind of column in MariaDB, in PostgreSQL (None: the same; "": none): the rows' expression
UNFIT = {
    "no digits of a second": ("timestamp NULL", "timestamptz(0)", "TIMESTAMP'2026-01-01'"),
    "some digits of a second": ("datetime(3)", "timestamp(3)", "TIMESTAMP_NTZ'2026-01-01'"),
    "a moment without its zone": ("datetime(6)", "timestamp", "TIMESTAMP'2026-01-01'"),
    "a local time with a zone": ("timestamp(6) NULL", "timestamptz", "TIMESTAMP_NTZ'2026-01-01'"),
    "fewer digits after the point": (
        "decimal(10,1)",
        "numeric(10,1)",
        "CAST(1.25 AS DECIMAL(5,2))",
    ),
    "a rounded double": ("double(10,2)", "real", "1.125D"),
    "a double as float": ("float", "real", "1.1D"),
    "a long as double": ("double", "double precision", "9007199254740993L"),
    "padded texts": ("char(4)", "char(4)", "'a'"),
    "padded bytes": ("binary(4)", "", "X'01'"),
    "an enumeration": ("enum('a','b')", "", "'A'"),
    "a computed column": ("int AS (1 + 1)", "int GENERATED ALWAYS AS (1 + 1) STORED", "7"),
    "another character set": ("varchar(9) CHARACTER SET latin1", "", "'é😀'"),
    "an array": ("longtext", "text", "array(1)"),
    "a struct": ("longtext", "text", "named_struct('a', 1)"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_columns_that_would_change_values_are_refused(
    server: Server, spark: SparkSession, case: str
) -> None:
    mariadb, postgresql, value = UNFIT[case]
    kind = mariadb if server.is_mariadb else postgresql
    if not kind:
        return
    server.query(f'CREATE TABLE "rows" (id bigint, v {kind})')
    with pytest.raises(SchemaMismatch, match="`v`"):
        opened(append(server)).prepare(
            LIFE, spark.sql(f"SELECT 1L AS id, {value} AS v").schema, spark
        )


# kind of column in MariaDB, in PostgreSQL: the value, which only fails the batch
TOO_MUCH = {
    "blanks beyond the length": ("varchar(3)", "varchar(3)", "'abc  '"),
    "a number out of range": ("tinyint", "smallint", "70000"),
    "a number below zero": ("int unsigned", "", "-1"),
    "a null that the database replaces": ("timestamp(6) NOT NULL", "", "CAST(NULL AS TIMESTAMP)"),
    "a null for the next number": (
        "bigint NOT NULL AUTO_INCREMENT UNIQUE",
        "",
        "CAST(NULL AS LONG)",
    ),
    "a moment beyond the column's": ("timestamp(6) NULL", "", "TIMESTAMP'2200-01-01'"),
    "a moment before the column's": ("timestamp(6) NULL", "", "TIMESTAMP'1960-01-01'"),
    "the zero of the column": ("timestamp(6) NULL", "", "TIMESTAMP'1970-01-01 00:00:00'"),
    "a far year": ("datetime(6)", "", "TIMESTAMP_NTZ'+12345-01-01'"),
    "a year before zero": ("date", "date", "make_date(-44, 3, 15)"),
    "digits before the point": ("decimal(4,2)", "numeric(4,2)", "CAST(123.45 AS DECIMAL(5,2))"),
    "not a number": ("double", "", "double('NaN')"),
    "without end": ("float", "", "float('-Infinity')"),
    "broken UTF-8": ("longtext", "text", "CAST(X'61ff' AS STRING)"),
    "a NUL character": ("", "text", "concat('a', char(0))"),
}


@pytest.mark.parametrize("case", TOO_MUCH)
def test_values_that_do_not_fit_fail_the_batch_whole(
    server: Server, spark: SparkSession, case: str
) -> None:
    mariadb, postgresql, value = TOO_MUCH[case]
    kind = mariadb if server.is_mariadb else postgresql
    if not kind:
        return
    server.query(f'CREATE TABLE "rows" (id bigint, v {kind})')
    rows = spark.sql(f"SELECT 1L AS id, {value} AS v")
    sink = opened(append(server))
    sink.prepare(LIFE, rows.schema, spark)
    with pytest.raises(Exception) as failed:  # noqa: PT011  Spark's own, or holdfast's
        sink.write(batch(0), rows)
    assert server.query('SELECT id FROM "rows"') == [], failed.value
    assert server.query("SELECT batch FROM holdfast_ledger") == [(None,)]
