"""The merge sink through delta-rs: newest wins, a null key is a key, and a batch is merged once."""

# ruff: noqa: D102  a fake says what it does by what it stands for

from collections.abc import Mapping, Sequence
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.adapters.delta_driving import BareSession
from tests.measuring import ToldSize

from holdfast.errors import BatchChanged, DriverFenced, SchemaMismatch, SinkBehind, SinkRefused
from holdfast.model.batch import Batch, LedgerKey, Writer, WrittenBatch
from holdfast.model.definition import DeltaMerge
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import DeltaMergeSink
from holdfast.sinks.delta.ledger import make_app_id

Row = tuple[str | None, int | None, str]
COLUMNS = ("key", "at", "value")
SCHEMA = StructType(
    [
        StructField("key", StringType()),
        StructField("at", LongType()),
        StructField("value", StringType()),
    ]
)
TYPES = pa.schema([("key", pa.string()), ("at", pa.int64()), ("value", pa.string())])


class Rows:
    """As much of a DataFrame as the sink asks of one that it collects."""

    schema = SCHEMA
    columns = COLUMNS
    sparkSession = BareSession()  # noqa: N815  Spark's name

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def toArrow(self) -> pa.Table:  # noqa: N802  Spark's name
        return pa.Table.from_pylist(
            [dict(zip(COLUMNS, row, strict=True)) for row in self._rows], TYPES
        )


class Merging:
    """One driver that merges into a table."""

    def __init__(
        self,
        path: Path | str,
        *,
        options: Mapping[str, str] | None = None,
        epoch: int = 1,
        keys: tuple[str, ...] = ("key",),
        newest: str | None = "at",
        partition_by: tuple[str, ...] = (),
    ) -> None:
        self.path = path
        self.life = Writer(
            job=JobName("j"), generation=Generation(1), epoch=Epoch(epoch), location="/base/j"
        )
        declared = DeltaMerge(
            path=str(path), keys=keys, newest=newest, partition_by=partition_by, properties={}
        )
        app_id = make_app_id(
            LedgerKey(job=self.life.job, generation=self.life.generation, output=OutputName("t"))
        )
        self.sink = DeltaMergeSink(
            declared, app_id, options or {}, size=ToldSize(SizeVerdict.SMALL)
        )
        self.sink.prepare(self.life, SCHEMA, BareSession())  # type: ignore[arg-type]

    def write(self, number: int, *rows: Row, digest: str | None = None) -> Decision:
        batch = Batch(
            life=self.life,
            id=BatchId(number),
            digest=Digest(digest or f"digest-{number}"),
            offsets=[],
            expected_rows=len(rows),
        )
        return self.sink.write(batch, Rows(rows))  # type: ignore[arg-type]

    def rows(self) -> list[Row]:
        query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(self.path))
        found = pa.table(query.execute('SELECT "key", "at", "value" FROM t').read_all())
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a table ü"


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
    "of two that are as new, the greater": (
        [[("a", 1, "y"), ("a", 1, "x"), ("b", 1, "x"), ("b", 1, "y")]],
        [("a", 1, "y"), ("b", 1, "y")],
    ),
    "without a version, against one without": (
        [[("a", None, "x"), ("b", 1, "x")], [("a", None, "a")]],
        [("a", None, "a"), ("b", 1, "x")],
    ),
    "without a version, beside another without": (
        [[("a", None, "y"), ("a", None, "x")]],
        [("a", None, "y")],
    ),
    "newer than the table's": ([[("a", 1, "x")], [("a", 2, "y")]], [("a", 2, "y")]),
    "older than the table's": ([[("a", 2, "x")], [("a", 1, "y")]], [("a", 2, "x")]),
    "as new as the table's": ([[("a", 1, "x")], [("a", 1, "y")]], [("a", 1, "x")]),
    "one newer, one older, one new": (
        [[("a", 5, "x"), ("b", 5, "x")], [("a", 6, "y"), ("b", 4, "y"), ("c", 1, "y")]],
        [("a", 6, "y"), ("b", 5, "x"), ("c", 1, "y")],
    ),
    "without a version, alone": ([[("a", None, "x")]], [("a", None, "x")]),
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
    "a key as awkward as can be": (
        [[('it\'s "x" ü', 1, "x")], [('it\'s "x" ü', 2, "y")]],
        [('it\'s "x" ü', 2, "y")],
    ),
    "a batch without rows": ([[("a", 1, "x")], [], [("a", 2, "y")]], [("a", 2, "y")]),
}


@pytest.mark.parametrize(
    ("batches", "held"),
    [pytest.param(*case, id=name) for name, case in NEWEST.items()],
)
def test_the_newest_wins(path: Path, batches: list[list[Row]], held: list[Row]) -> None:
    driver = Merging(path)
    for number, rows in enumerate(batches):
        assert driver.write(number, *rows) is Decision.WRITE
    assert driver.rows() == sorted(held, key=repr)
    assert driver.sink.last_written() == WrittenBatch(
        epoch=Epoch(1),
        batch=BatchId(len(batches) - 1),
        digest=Digest(f"digest-{len(batches) - 1}"),
        location="/base/j",
        taken_back=False,
    )


@pytest.mark.parametrize("partition_by", [(), ("value",)])
def test_keys_of_two_columns(path: Path, partition_by: tuple[str, ...]) -> None:
    driver = Merging(path, keys=("key", "value"), partition_by=partition_by)
    driver.write(0, ("a", 1, "x"), ("a", 1, "y"), (None, 1, "x"))
    driver.write(1, ("a", 2, "x"), (None, 2, "x"), ("b", 2, "y"))
    assert driver.rows() == [("a", 1, "y"), ("a", 2, "x"), ("b", 2, "y"), (None, 2, "x")]


def test_a_batch_of_late_rows_alone_does_not_stop_the_job(path: Path) -> None:
    driver = Merging(path)
    driver.write(0, ("a", 5, "x"))
    driver.write(1, ("a", 4, "late"))
    assert driver.write(2, ("a", 6, "y")) is Decision.WRITE
    assert driver.rows() == [("a", 6, "y")]


def test_a_null_partition_is_a_key_like_any_other(path: Path) -> None:
    driver = Merging(path, partition_by=("key",))
    driver.write(0, (None, 1, "x"), ("a", 1, "x"))
    driver.write(1, (None, 2, "y"), ("a", 2, "y"))
    assert driver.rows() == [("a", 2, "y"), (None, 2, "y")]


def test_without_a_version_the_incoming_row_replaces(path: Path) -> None:
    driver = Merging(path, newest=None)
    driver.write(0, ("a", 9, "x"), (None, 9, "x"))
    driver.write(1, ("a", 1, "y"), (None, 1, "y"))
    assert driver.rows() == [("a", 1, "y"), (None, 1, "y")]


@pytest.mark.parametrize("key", ["a", None])
def test_a_key_twice_in_a_batch_without_a_version_is_refused(path: Path, key: str | None) -> None:
    driver = Merging(path, newest=None)
    driver.write(0, ("b", 1, "x"))
    with pytest.raises(SinkRefused, match="found a key more than once") as caught:
        driver.write(1, (key, 1, "x"), (key, 2, "y"), (key, 2, "z"), ("b", 2, "y"))
    assert "newest=" in caught.value.hint
    assert driver.rows() == [("b", 1, "x")]
    assert driver.write(1, (key, 1, "x")) is Decision.WRITE


def test_a_batch_again_is_skipped(path: Path) -> None:
    first = Merging(path, newest=None)
    first.write(0, ("a", 1, "x"))
    first.write(1, ("a", 2, "y"))
    version = deltalake.DeltaTable(path).version()
    assert first.write(0, ("a", 1, "x")) is Decision.SKIP
    assert first.write(1, ("a", 2, "y")) is Decision.SKIP
    assert deltalake.DeltaTable(path).version() == version
    second = Merging(path, epoch=2, newest=None)
    assert second.write(0, ("a", 1, "x")) is Decision.SKIP
    assert second.rows() == [("a", 2, "y")]


def test_what_must_not_be_merged_is_not(path: Path) -> None:
    old = Merging(path)
    old.write(0, ("a", 1, "x"))
    with pytest.raises(BatchChanged):
        old.write(0, ("a", 2, "y"), digest="another")
    with pytest.raises(SinkBehind):
        old.write(2, ("a", 2, "y"))
    Merging(path, epoch=2)
    with pytest.raises(DriverFenced):
        old.write(1, ("a", 2, "y"))
    assert old.rows() == [("a", 1, "x")]


def test_a_restore_while_the_job_merges(path: Path) -> None:
    driver = Merging(path)
    driver.write(0, ("a", 1, "x"))
    driver.write(1, ("a", 2, "y"))
    deltalake.DeltaTable(path).restore(1)
    with pytest.raises(SinkBehind, match="restored"):
        driver.write(2, ("b", 3, "z"))
    assert driver.rows() == [("a", 1, "x")]


@pytest.mark.parametrize(("keys", "newest"), [(("id",), "at"), (("key",), "moment")])
def test_columns_that_the_rows_do_not_have(path: Path, keys: tuple[str, ...], newest: str) -> None:
    with pytest.raises(SchemaMismatch, match=r"found `at`, `key`, `value`"):
        Merging(path, keys=keys, newest=newest)
    assert not path.exists()
