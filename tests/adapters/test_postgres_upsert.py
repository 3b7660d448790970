"""The upsert sink: newest wins whatever the order, a null key is a key, a batch is merged once."""

import itertools

import pyarrow as pa
import pytest
from tests.adapters.postgres_driving import MARKED, MARKED_TYPES, Desk, Driver
from tests.collations import LOCALE

from holdfast.errors import (
    BatchChanged,
    DriverFenced,
    OptionInvalid,
    SchemaMismatch,
    SinkBehind,
    SinkRefused,
)
from holdfast.examples.database import Database
from holdfast.sinks import postgres_append, postgres_upsert
from holdfast.sinks.contract import Decision

Row = tuple[str | None, int | None, str]


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


def held(desk: Desk) -> list[Row]:
    return sorted(desk.query("SELECT key, at, value FROM rows"), key=repr)  # type: ignore[arg-type]


# what the batches are: what the table then holds
NEWEST: dict[str, tuple[list[list[Row]], list[Row]]] = {
    "rows of their own": (
        [[("a", 1, "x"), ("b", 1, "y")]],
        [("a", 1, "x"), ("b", 1, "y")],
    ),
    "the newest of a batch, wherever it stands": (
        [[("a", 2, "old"), ("a", 3, "new"), ("a", 1, "oldest")]],
        [("a", 3, "new")],
    ),
    "of two that are as new, the greatest": ([[("a", 1, "y"), ("a", 1, "x")]], [("a", 1, "y")]),
    "newer than the table's": ([[("a", 1, "x")], [("a", 2, "y")]], [("a", 2, "y")]),
    "older than the table's": ([[("a", 2, "x")], [("a", 1, "y")]], [("a", 2, "x")]),
    "as new as the table's": ([[("a", 1, "x")], [("a", 1, "y")]], [("a", 1, "x")]),
    "without a version, beside one that has it": (
        [[("a", -9, "x"), ("a", None, "y")]],
        [("a", -9, "x")],
    ),
    "without a version, against one that has it": (
        [[("a", -9, "x")], [("a", None, "y")]],
        [("a", -9, "x")],
    ),
    "with a version, against one without": (
        [[("a", None, "x")], [("a", -9, "y")]],
        [("a", -9, "y")],
    ),
    "a null key is one key": (
        [[(None, 1, "x"), (None, 2, "y")], [(None, 3, "z")], [(None, 1, "w")]],
        [(None, 3, "z")],
    ),
    "a null key is not the empty one": (
        [[(None, 1, "x"), ("", 1, "y")], [("", 2, "z")]],
        [("", 2, "z"), (None, 1, "x")],
    ),
    "a batch without rows": ([[("a", 1, "x")], [], [("a", 2, "y")]], [("a", 2, "y")]),
}


@pytest.mark.parametrize(
    ("batches", "expected"), [pytest.param(*case, id=name) for name, case in NEWEST.items()]
)
def test_the_newest_wins(desk: Desk, batches: list[list[Row]], expected: list[Row]) -> None:
    driver = Driver(desk.upsert()).start()
    for number, rows in enumerate(batches):
        assert driver.write(number, *rows) is Decision.WRITE
    assert held(desk) == sorted(expected, key=repr)


def test_the_order_of_a_batch_does_not_matter(desk: Desk) -> None:
    rows = [("a", 1, "x"), ("a", 2, "y"), ("a", 2, "z"), ("a", None, "w")]
    outcomes = set()
    driver = Driver(desk.upsert()).start()
    for number, order in enumerate(itertools.permutations(rows)):
        driver.write(number, *order)
        outcomes.add(tuple(held(desk)))
        desk.query("DELETE FROM rows")
    assert outcomes == {(("a", 2, "z"),)}


def test_without_a_version_the_incoming_row_replaces(desk: Desk) -> None:
    driver = Driver(desk.upsert(newest=None)).start()
    driver.write(0, ("a", 9, "x"), (None, 9, "x"))
    driver.write(1, ("a", 1, "y"), (None, 1, "y"))
    assert held(desk) == [("a", 1, "y"), (None, 1, "y")]


@pytest.mark.parametrize("key", ["a", None])
def test_a_key_twice_in_a_batch_without_a_version_is_refused(desk: Desk, key: str | None) -> None:
    driver = Driver(desk.upsert(newest=None)).start()
    driver.write(0, ("b", 1, "x"))
    with pytest.raises(SinkRefused, match="each key once a batch") as caught:
        driver.write(1, (key, 1, "x"), (key, 2, "y"), ("b", 2, "y"))
    assert "newest=" in caught.value.hint
    assert held(desk) == [("b", 1, "x")]
    assert driver.write(1, (key, 1, "x")) is Decision.WRITE


def test_keys_of_two_columns(desk: Desk) -> None:
    driver = Driver(desk.upsert(keys=("value", "key"))).start()
    driver.write(0, ("a", 1, "x"), ("a", 1, "y"), (None, 1, "x"))
    driver.write(1, ("a", 2, "x"), (None, 2, "x"), ("b", 2, "y"))
    assert held(desk) == [("a", 1, "y"), ("a", 2, "x"), ("b", 2, "y"), (None, 2, "x")]


def test_nothing_but_keys(desk: Desk) -> None:
    driver = Driver(desk.upsert(keys=("key", "at", "value"), newest=None)).start()
    driver.write(0, ("a", 1, "x"))
    driver.write(1, ("a", 1, "x"), ("b", 1, "x"))
    assert held(desk) == [("a", 1, "x"), ("b", 1, "x")]


@pytest.mark.parametrize("newest", ["at", None])
def test_deleted_rows_are_taken_out(desk: Desk, newest: str | None) -> None:
    sink = desk.upsert(newest=newest, deleted="gone")
    driver = Driver(sink, schema=MARKED, types=MARKED_TYPES).start()
    driver.write(0, ("a", 1, "x", False), ("b", 1, "x", None), (None, 1, "x", False))
    driver.write(1, ("a", 2, "", True), (None, 2, "", True), ("never", 1, "", True))
    assert held(desk) == [("b", 1, "x")]
    driver.write(2, ("a", 3, "y", False), ("b", 2, "z", False))
    assert held(desk) == [("a", 3, "y"), ("b", 2, "z")]


def test_an_older_deletion_takes_nothing_out(desk: Desk) -> None:
    driver = Driver(desk.upsert(deleted="gone"), schema=MARKED, types=MARKED_TYPES).start()
    driver.write(0, ("a", 5, "x", False), (None, 5, "x", False))
    driver.write(1, ("a", 4, "", True), ("a", 3, "y", False), (None, 5, "", True))
    assert held(desk) == [("a", 5, "x"), (None, 5, "x")]
    driver.write(2, ("a", 6, "", True), ("a", 7, "y", False), (None, 6, "", True))
    assert held(desk) == [("a", 7, "y")]


def test_a_deletion_and_a_row_of_one_key_need_a_version(desk: Desk) -> None:
    sink = desk.upsert(newest=None, deleted="gone")
    driver = Driver(sink, schema=MARKED, types=MARKED_TYPES).start()
    with pytest.raises(SinkRefused, match="each key once a batch"):
        driver.write(0, ("a", 1, "x", False), ("a", 2, "", True))
    assert held(desk) == []


def test_a_table_with_the_marker_keeps_deleted_rows_and_their_version(desk: Desk) -> None:
    desk.query("CREATE TABLE rows (key text PRIMARY KEY, at bigint, value text, gone boolean)")
    driver = Driver(desk.upsert(deleted="gone"), schema=MARKED, types=MARKED_TYPES).start()
    driver.write(0, ("a", 1, "x", False))
    driver.write(1, ("a", 5, "", True))
    driver.write(2, ("a", 3, "late", False))
    assert desk.query("SELECT key, at, gone FROM rows") == [("a", 5, True)]


def test_a_marker_that_is_no_boolean(desk: Desk) -> None:
    with pytest.raises(SchemaMismatch, match="as boolean, found string"):
        Driver(desk.upsert(deleted="value")).start()


@pytest.mark.parametrize("index", ["", ", UNIQUE (key, at)", ", UNIQUE (at)"])
def test_a_table_without_a_fitting_index_is_refused(desk: Desk, index: str) -> None:
    desk.query(f"CREATE TABLE rows (key text, at bigint, value text{index})")
    with pytest.raises(SchemaMismatch, match=r"unique index of .* on exactly `key`") as caught:
        Driver(desk.upsert()).start()
    desk.query(caught.value.hint)
    Driver(desk.upsert()).start().write(0, ("a", 1, "x"))
    assert held(desk) == [("a", 1, "x")]


def test_a_null_key_where_the_index_has_many_of_them_is_refused(desk: Desk) -> None:
    desk.query("CREATE TABLE rows (key text UNIQUE, at bigint, value text)")
    driver = Driver(desk.upsert()).start()
    with pytest.raises(SinkRefused, match=r"column `key` of .* found a null"):
        driver.write(0, ("a", 1, "x"), (None, 1, "x"))
    assert held(desk) == []


def test_json_has_an_order_too(desk: Desk) -> None:
    desk.query("CREATE TABLE rows (key text PRIMARY KEY, at bigint, value json)")
    driver = Driver(desk.upsert()).start()
    driver.write(0, ("a", 1, '{"n": 1}'), ("a", 1, '{"n": 2}'))
    driver.write(1, ("a", 2, '{"n": 3}'), ("a", 0, '{"n": 4}'))
    assert desk.query("SELECT key, at, value FROM rows") == [("a", 2, {"n": 3})]


@pytest.mark.parametrize("kind", ["text", "varchar(9)", "words", "text[]"])
@pytest.mark.parametrize("own", ["the column's", "the bytes'"])
def test_the_newest_text_is_the_same_within_a_batch_and_against_the_table(
    desk: Desk, kind: str, own: str
) -> None:
    """The staged rows have the database's collation, and the table's column may have its own."""
    from pyspark.sql import types as t

    desk.query(f"CREATE COLLATION own (provider = libc, locale = '{LOCALE}')")
    assert desk.query("SELECT 'a' < 'B', 'a' < 'B' COLLATE own") == [(False, True)]
    collation = "own" if own == "the column's" else '"C"'
    desk.query(f"CREATE DOMAIN words AS text COLLATE {collation}")
    given = "words" if kind == "words" else f"{kind} COLLATE {collation}"
    desk.query(f"CREATE TABLE rows (key text PRIMARY KEY, at {given}, value text COLLATE own)")
    text = t.StringType()
    listed = kind.endswith("[]")
    fields = [("key", text), ("at", t.ArrayType(text) if listed else text), ("value", text)]
    schema = t.StructType([t.StructField(name, one) for name, one in fields])
    arrow = pa.list_(pa.string()) if listed else pa.string()
    types = pa.schema([("key", pa.string()), ("at", arrow), ("value", pa.string())])

    def at(version: str) -> object:
        return [version] if listed else version

    driver = Driver(desk.upsert(), schema=schema, types=types).start()
    driver.write(0, ("a", at("a"), "x"), ("a", at("B"), "y"), ("b", at("a"), "x"))
    driver.write(1, ("b", at("B"), "y"), ("c", at("a"), "a"), ("c", at("a"), "B"))
    driver.write(2, ("c", at("B"), "z"))
    found = desk.query("SELECT key, value FROM rows ORDER BY key")
    assert found == [("a", "x"), ("b", "x"), ("c", "a")]


def test_a_version_without_an_order_is_refused(desk: Desk) -> None:
    desk.query("CREATE TABLE rows (key text PRIMARY KEY, at bigint, value json)")
    with pytest.raises(SchemaMismatch, match=r"column `value` .* to have an order, found json"):
        Driver(desk.upsert(newest="value")).start()


KEEP_OUT = (
    "CREATE FUNCTION keep_out() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN IF NEW.value = 'out' THEN RETURN NULL; END IF; RETURN NEW; END $$;"
    "CREATE TRIGGER keep_out BEFORE {} ON {} FOR EACH ROW EXECUTE FUNCTION keep_out()"
)
REDIRECT = (
    "CREATE TABLE elsewhere (LIKE rows); CREATE FUNCTION redirect() RETURNS trigger"
    " LANGUAGE plpgsql AS $$ BEGIN IF NEW.value = 'out' THEN EXECUTE"
    " format('INSERT INTO %I.elsewhere SELECT ($1).*', TG_TABLE_SCHEMA) USING NEW;"
    " RETURN NULL; END IF; RETURN NEW; END $$;"
    "CREATE TRIGGER redirect BEFORE INSERT ON rows FOR EACH ROW EXECUTE FUNCTION redirect()"
)
# which trigger, and the row of the second batch that it keeps out
KEPT_OUT: dict[str, tuple[str, Row]] = {
    "a new key": (KEEP_OUT.format("INSERT", "rows"), ("d", 9, "out")),
    "a known key, before the insert": (KEEP_OUT.format("INSERT", "rows"), ("a", 9, "out")),
    "a known key, before the update": (KEEP_OUT.format("UPDATE", "rows"), ("a", 9, "out")),
    "a version that is null": (KEEP_OUT.format("UPDATE", "rows"), ("c", None, "out")),
    "a null key": (KEEP_OUT.format("INSERT OR UPDATE", "rows"), (None, 9, "out")),
    "sent elsewhere": (REDIRECT, ("d", 9, "out")),
}


@pytest.mark.parametrize("newest", ["at", None])
@pytest.mark.parametrize(("trigger", "row"), KEPT_OUT.values(), ids=KEPT_OUT)
def test_a_trigger_that_keeps_rows_out_fails_the_batch(
    desk: Desk, trigger: str, row: Row, newest: str | None
) -> None:
    driver = Driver(desk.upsert(newest=newest)).start()
    begun: list[Row] = [("a", 5, "x"), ("b", 5, "x"), ("c", None, "x"), (None, 5, "x")]
    driver.write(0, *begun)
    desk.query(trigger)
    others: list[Row] = [("b", 4, "older"), ("e", 1, "new")]
    with pytest.raises(SinkRefused, match="all 3 rows, but it took 2: a trigger"):
        driver.write(1, row, *others)
    assert held(desk) == sorted(begun, key=repr)
    assert desk.query("SELECT batch FROM holdfast_ledger") == [(0,)]
    assert driver.write(1, *others) is Decision.WRITE
    kept = [one for one in begun if one[0] != "b"]
    b: Row = ("b", 5, "x") if newest else ("b", 4, "older")
    assert held(desk) == sorted([*kept, b, ("e", 1, "new")], key=repr)


def test_a_partition_whose_trigger_keeps_rows_out_fails_the_batch(desk: Desk) -> None:
    desk.query(
        "CREATE TABLE rows (key text, at bigint, value text, UNIQUE (key)) PARTITION BY LIST (key);"
        "CREATE TABLE one PARTITION OF rows FOR VALUES IN ('a');"
        "CREATE TABLE other PARTITION OF rows DEFAULT;" + KEEP_OUT.format("INSERT", "other")
    )
    driver = Driver(desk.upsert()).start()
    driver.write(0, ("a", 2, "out"), ("b", 1, "x"))
    with pytest.raises(SinkRefused, match="all 2 rows, but it took 1"):
        driver.write(1, ("a", 1, "older"), ("c", 1, "out"))
    assert held(desk) == [("a", 2, "out"), ("b", 1, "x")]


def test_a_trigger_that_only_changes_rows_is_left_to_its_owner(desk: Desk) -> None:
    desk.query(
        "CREATE TABLE rows (key text PRIMARY KEY, at bigint, value text, touched boolean);"
        "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN NEW.touched = true; RETURN NEW; END $$;"
        "CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON rows FOR EACH ROW EXECUTE FUNCTION touch()"
    )
    driver = Driver(desk.upsert()).start()
    driver.write(0, ("a", 5, "x"), ("b", 5, "x"))
    driver.write(1, ("a", 4, "older"), ("b", 6, "newer"), ("b", 5, "as new"), ("c", None, "new"))
    found = desk.query("SELECT key, value, touched FROM rows ORDER BY key")
    assert found == [("a", "x", True), ("b", "newer", True), ("c", "new", True)]


@pytest.mark.parametrize("newest", ["at", None])
def test_a_trigger_that_keeps_deleted_rows_in_fails_the_batch(
    desk: Desk, newest: str | None
) -> None:
    sink = desk.upsert(newest=newest, deleted="gone")
    driver = Driver(sink, schema=MARKED, types=MARKED_TYPES).start()
    driver.write(0, ("a", 1, "x", False), ("b", 1, "x", False), (None, 1, "x", False))
    desk.query(
        "CREATE FUNCTION keep_in() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN IF OLD.key = 'b' THEN RETURN OLD; END IF; RETURN NULL; END $$;"
        "CREATE TRIGGER keep_in BEFORE DELETE ON rows FOR EACH ROW EXECUTE FUNCTION keep_in()"
    )
    for key in ("a", None):
        with pytest.raises(SinkRefused, match="a trigger kept them in"):
            driver.write(1, (key, 2, "", True), ("b", 2, "", True))
    assert held(desk) == [("a", 1, "x"), ("b", 1, "x"), (None, 1, "x")]
    assert driver.write(1, ("b", 2, "", True)) is Decision.WRITE
    assert held(desk) == [("a", 1, "x"), (None, 1, "x")]


def test_a_batch_again_is_skipped(desk: Desk) -> None:
    first = Driver(desk.upsert(newest=None)).start()
    first.write(0, ("a", 1, "x"))
    first.write(1, ("a", 2, "y"))
    assert first.write(0, ("a", 1, "x")) is Decision.SKIP
    second = Driver(desk.upsert(newest=None), epoch=2).start()
    assert second.write(1, ("a", 2, "other")) is Decision.SKIP
    assert held(desk) == [("a", 2, "y")]


def test_what_must_not_be_merged_is_not(desk: Desk) -> None:
    old = Driver(desk.upsert()).start()
    old.write(0, ("a", 1, "x"))
    with pytest.raises(BatchChanged):
        old.write(0, ("a", 2, "y"), digest="another")
    with pytest.raises(SinkBehind):
        old.write(2, ("a", 2, "y"))
    Driver(desk.upsert(), epoch=2).start()
    with pytest.raises(DriverFenced):
        old.write(1, ("a", 2, "y"))
    assert held(desk) == [("a", 1, "x")]


@pytest.mark.parametrize(
    ("keys", "newest", "deleted"),
    [(("id",), "at", None), (("key",), "moment", None), (("key",), None, "gone")],
)
def test_columns_that_the_rows_do_not_have(
    desk: Desk, keys: tuple[str, ...], newest: str | None, deleted: str | None
) -> None:
    with pytest.raises(SchemaMismatch, match="found `at`, `key`, `value`"):
        Driver(desk.upsert(keys=keys, newest=newest, deleted=deleted)).start()
    assert desk.query("SELECT to_regclass('rows')") == [(None,)]


@pytest.mark.parametrize(
    "connection",
    [
        "host=db user=u password=hunter2",
        "host=db user=u PASSWORD = 'hunter2'",
        "postgresql://u:hunter2@db/serving",
        "postgres://db/serving?user=u&password=hunter2",
        "host=db sslkey=k sslpassword=hunter2",
    ],
)
def test_a_password_in_a_declaration_is_refused_and_not_repeated(connection: str) -> None:
    with pytest.raises(OptionInvalid, match="contains a password") as caught:
        postgres_append(connection, "rows")
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_a_password_instead_of_a_reference_is_refused_and_not_repeated() -> None:
    with pytest.raises(OptionInvalid, match="`env:NAME` or `file:PATH`") as caught:
        postgres_upsert("host=db", "rows", keys=["id"], password="hunter2")
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


def test_an_upsert_without_keys_is_refused() -> None:
    with pytest.raises(OptionInvalid, match="at least one key column"):
        postgres_upsert("host=db", "rows", keys=[])
