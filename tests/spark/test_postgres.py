"""PostgreSQL sinks under a real Spark: every type, both ways of writing, and what is refused."""

import datetime as dt
import math
from decimal import Decimal

import psycopg
import pytest
from psycopg import sql
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.adapters.postgres_driving import Desk, Driver

from holdfast.errors import SchemaMismatch, SinkRefused
from holdfast.examples.database import Database
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.postgres import staging
from holdfast.sinks.postgres.append import _AppendWriter

pytestmark = pytest.mark.spark

TYPED = """
SELECT id,
  CAST(b AS BYTE) AS a_byte, CAST(b AS SHORT) AS a_short, b AS an_int, CAST(b AS LONG) AS a_long,
  CAST(f AS FLOAT) AS a_float, CAST(f AS DOUBLE) AS a_double,
  CAST(d AS DECIMAL(38, 10)) AS a_decimal,
  s AS a_string, CAST(s AS BINARY) AS a_binary, b > 0 AS a_boolean, CAST(t AS DATE) AS a_date,
  CAST(t AS TIMESTAMP) AS a_timestamp, CAST(t AS TIMESTAMP_NTZ) AS a_timestamp_ntz,
  make_dt_interval(1, 2, 3, 4.000005) AS an_interval,
  array(b, NULL, 7) AS ints, array(s, '', NULL) AS texts, array(CAST(t AS TIMESTAMP)) AS times,
  array(CAST(d AS DECIMAL(38, 10))) AS decimals,
  array(array(1), array()) AS nested, named_struct('n', b, 's', s, 'none', NULL, 't',
    CAST(t AS TIMESTAMP)) AS a_struct, map('k', b) AS a_map,
  parse_json('{"v": [1, null]}') AS a_variant
FROM VALUES
  (1, 127, 'NaN', '1234567890123456789012345678.0123456789', 'it''s "q" \\\\ \\n 😀',
   '2026-01-02 03:04:05.678901'),
  (2, -128, '-Infinity', '-0.0000000001', '', '0001-01-01 00:00:00'),
  (3, NULL, NULL, NULL, NULL, NULL)
  AS rows(id, b, f, d, s, t)
"""


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


BY = pytest.mark.parametrize(
    "by", [SizeVerdict.SMALL, SizeVerdict.LARGE], ids=["by the driver", "by the executors"]
)


def written(driver: Driver, number: int, rows: DataFrame) -> Decision:
    return driver.sink.write(driver.batch(number), rows)


def started(desk: Desk, rows: DataFrame, by: SizeVerdict = SizeVerdict.SMALL) -> Driver:
    return Driver(desk.append(), schema=rows.schema, verdict=by).start()


def by_id(desk: Desk) -> dict[object, dict[str, object]]:
    with psycopg.connect(desk.connection) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
        table = sql.Identifier(desk.schema, "rows")
        found = cursor.execute(sql.SQL("SELECT * FROM {}").format(table)).fetchall()
    return {row["id"]: row for row in found}


def test_instants_inside_other_values_are_those_of_the_rows(
    desk: Desk, spark: SparkSession
) -> None:
    """Before 1883 the clocks of New York had an offset with seconds."""
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)
    try:
        spark.conf.set(zone, "America/New_York")
        rows = spark.sql(
            "SELECT t AS plain, named_struct('t', t) AS s, map('t', t) AS m,"
            " array(named_struct('t', t)) AS a, CAST(CAST(t AS VARIANT) AS VARIANT) AS v"
            " FROM (SELECT timestamp_micros(-5000000000000000) AS t)"
        )
        assert written(started(desk, rows), 0, rows) is Decision.WRITE
    finally:
        spark.conf.set(zone, str(before))
    found = desk.query(
        "SELECT DISTINCT t::timestamptz = plain FROM rows,"
        " unnest(ARRAY[s->>'t', m->>'t', a->0->>'t', v#>>'{}']) AS t"
    )
    assert found == [(True,)]


@BY
def test_every_type_comes_back_as_it_was(desk: Desk, spark: SparkSession, by: SizeVerdict) -> None:
    rows = spark.sql(TYPED)
    assert written(started(desk, rows, by), 0, rows) is Decision.WRITE
    found = by_id(desk)
    text = 'it\'s "q" \\ \n \U0001f600'
    moment = dt.datetime.fromisoformat("2026-01-02T03:04:05.678901")
    first = found[1]
    assert math.isnan(float(str(first.pop("a_float"))))
    assert math.isnan(float(str(first.pop("a_double"))))
    decimal = Decimal("1234567890123456789012345678.0123456789")
    assert first == {
        "id": 1,
        "a_byte": 127,
        "a_short": 127,
        "an_int": 127,
        "a_long": 127,
        "a_decimal": decimal,
        "a_string": text,
        "a_binary": text.encode(),
        "a_boolean": True,
        "a_date": moment.date(),
        "a_timestamp": moment.replace(tzinfo=dt.UTC),
        "a_timestamp_ntz": moment,
        "an_interval": dt.timedelta(days=1, hours=2, minutes=3, seconds=4, microseconds=5),
        "ints": [127, None, 7],
        "texts": [text, "", None],
        "times": [moment.replace(tzinfo=dt.UTC)],
        "decimals": [decimal],
        "nested": [[1], []],
        "a_struct": {"n": 127, "s": text, "none": None, "t": "2026-01-02T03:04:05.678901Z"},
        "a_map": {"k": 127},
        "a_variant": {"v": [1, None]},
    }
    second = found[2]
    assert second["a_double"] == -math.inf
    assert second["a_decimal"] == Decimal("-0.0000000001")
    assert second["a_string"] == ""
    assert second["a_timestamp_ntz"] == dt.datetime.fromisoformat("0001-01-01")
    nothing = {k for k, v in found[3].items() if v is None}
    assert nothing >= {"a_byte", "a_float", "a_decimal", "a_string", "a_binary", "a_timestamp"}
    columns = desk.query(
        "SELECT attname::text, format_type(atttypid, atttypmod) FROM pg_attribute"
        " WHERE attrelid = 'rows'::regclass AND attnum > 0"
    )
    types = {str(name): kind for name, kind in columns}
    assert types["a_decimal"] == "numeric(38,10)"
    assert types["decimals"] == "numeric(38,10)[]"
    assert types["nested"] == types["a_struct"] == types["a_map"] == types["a_variant"] == "jsonb"
    assert types["a_timestamp"] == "timestamp with time zone"
    assert types["a_timestamp_ntz"] == "timestamp without time zone"


BAD = {
    "a NUL character": ("CAST(concat('a', char(0)) AS STRING)", "text", "a NUL character"),
    "a NUL character inside a struct": (
        "named_struct('s', concat('a', char(0)))",
        "jsonb",
        "a NUL character",
    ),
    "out of range": ("CAST(3000000000 AS LONG)", "integer", "out of the range of `integer`"),
    "too many digits": ("CAST(123456 AS DECIMAL(10, 0))", "numeric(4,0)", "numeric field overflow"),
    "no UTF-8": ("CAST(X'ff' AS STRING)", "text", "invalid byte sequence"),
}


@BY
@pytest.mark.parametrize("case", BAD)
def test_a_bad_value_fails_the_batch_whole_and_is_named(
    desk: Desk, spark: SparkSession, by: SizeVerdict, case: str
) -> None:
    value, kind, said = BAD[case]
    desk.query(f'CREATE TABLE rows (id bigint, "the column" {kind})')
    rows = spark.range(20).repartition(2).withColumn("the column", F.expr(value))
    driver = started(desk, rows, by)
    with pytest.raises(SinkRefused, match=said) as caught:
        written(driver, 0, rows)
    assert "column `the column`" in caught.value.message
    assert desk.query("SELECT count(*) FROM rows") == [(0,)]
    good = rows.withColumn("the column", F.lit(None).cast(rows.schema["the column"].dataType))
    assert written(driver, 0, good) is Decision.WRITE
    assert desk.query("SELECT count(*) FROM rows") == [(20,)]


def test_types_that_postgresql_has_not_are_refused(desk: Desk, spark: SparkSession) -> None:
    rows = spark.sql("SELECT make_ym_interval(1, 2) AS months")
    with pytest.raises(SchemaMismatch, match="column `months` interval year to month"):
        started(desk, rows)
    assert desk.query("SELECT to_regclass('rows'), to_regclass('holdfast_ledger')") == [
        (None, None)
    ]


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("CAST(1.5 AS DOUBLE)", "real"),
        ("CAST(1.25 AS DECIMAL(5, 2))", "numeric(5,1)"),
        ("TIMESTAMP '2026-01-01 00:00:00'", "timestamp"),
        ("TIMESTAMP_NTZ '2026-01-01 00:00:00'", "timestamptz"),
        ("array(1)", "text[]"),
        ("map('a', 1)", "text"),
        ("'a'", "char(3)"),
    ],
)
def test_types_that_would_not_come_back_are_refused(
    desk: Desk, spark: SparkSession, given: str, kind: str
) -> None:
    desk.query(f"CREATE TABLE rows (v {kind})")
    with pytest.raises(SchemaMismatch, match="column `v`"):
        started(desk, spark.sql(f"SELECT {given} AS v"))


@BY
def test_columns_in_another_order_and_spelling(
    desk: Desk, spark: SparkSession, by: SizeVerdict
) -> None:
    desk.query('CREATE TABLE rows ("Value" text, extra int DEFAULT 7, "KEY" text PRIMARY KEY)')
    rows = spark.sql("SELECT 'a' AS key, 'x' AS value")
    driver = Driver(desk.upsert(newest=None), schema=rows.schema, verdict=by).start()
    assert written(driver, 0, rows) is Decision.WRITE
    assert written(driver, 1, spark.sql("SELECT 'a' AS key, 'y' AS value")) is Decision.WRITE
    assert desk.query("SELECT * FROM rows") == [("y", 7, "a")]


@BY
def test_the_newest_wins_however_the_batch_is_partitioned(
    desk: Desk, spark: SparkSession, by: SizeVerdict
) -> None:
    rows = spark.range(1_000).selectExpr(
        "CAST(id % 10 AS STRING) AS key", "id DIV 20 AS at", "CAST(id AS STRING) AS value"
    )
    driver = Driver(desk.upsert(), schema=rows.schema, verdict=by).start()
    outcomes = set()
    for number, partitions in enumerate((1, 3, 7)):
        shuffled = rows.orderBy(F.rand()).repartition(partitions)
        assert written(driver, number, shuffled) is Decision.WRITE
        outcomes.add(tuple(desk.query("SELECT key, at, value FROM rows ORDER BY key")))
        desk.query("DELETE FROM rows")
    assert outcomes == {tuple((str(k), 49, str(990 + k)) for k in range(10))}


def test_no_staging_is_left_and_empty_batches_are_noted(desk: Desk, spark: SparkSession) -> None:
    rows = spark.range(100).repartition(5)
    driver = started(desk, rows, SizeVerdict.LARGE)
    assert written(driver, 0, rows) is Decision.WRITE
    assert written(driver, 1, rows.where("id < 0")) is Decision.WRITE
    assert written(driver, 1, rows) is Decision.SKIP
    assert desk.query("SELECT batch, rows FROM holdfast_ledger_history ORDER BY 1") == [
        (0, 100),
        (1, 0),
    ]
    tables = desk.query(
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace"
        " WHERE nspname = current_schema() AND relkind = 'r'"
    )
    assert tables == [(3,)]


def test_a_batch_of_many_partitions_takes_few_staging_tables(
    desk: Desk, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The transaction locks each of them, and a server has room for so many locks."""
    monkeypatch.setattr(staging, "MOST_TABLES", 5)
    moved: list[int] = []
    move = _AppendWriter.move

    def count(self: _AppendWriter, connection: psycopg.Connection, *given: object) -> None:
        moved.append(len(given[1]))  # type: ignore[arg-type]
        move(self, connection, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(_AppendWriter, "move", count)
    rows = spark.range(0, 60, numPartitions=30)
    assert written(started(desk, rows, SizeVerdict.LARGE), 0, rows) is Decision.WRITE
    assert moved == [5]
    assert desk.query("SELECT count(*), count(DISTINCT id) FROM rows") == [(60, 60)]
