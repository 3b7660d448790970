"""Taking over a table that only Spark's Delta writer commits to, from a driver that still runs."""

from collections.abc import Callable, Iterable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812  Spark's own abbreviation
from tests.adapters.delta_driving import SCHEMA, Driver, rows, written
from tests.merging import MergeCase, Merger

from holdfast.errors import DriverFenced, SinkBehind, SinkContended, SinkRefused
from holdfast.model.definition import DeltaAppend
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import DeltaAppendSink

pytestmark = pytest.mark.spark


class Late:
    """A session of Spark, and what happens just before one of the given names is asked of it."""

    def __init__(
        self, spark: SparkSession, names: frozenset[str], *meanwhile: Callable[[], object]
    ) -> None:
        self._spark_itself = spark
        self._names = names
        self._meanwhile = list(meanwhile)

    def __getattr__(self, name: str) -> object:
        """Spark's own, after the next thing that happens meanwhile."""
        if name in self._names and self._meanwhile:
            self._meanwhile.pop(0)()
        return getattr(self._spark_itself, name)


class LateRows:
    """Rows of a session that is late."""

    def __init__(self, rows: DataFrame, session: Late) -> None:
        self._rows = rows
        self.sparkSession = session

    def __getattr__(self, name: str) -> object:
        """Those of the rows themselves."""
        return getattr(self._rows, name)


TRANSACTIONS = frozenset({"_jvm"})
"""What a sink asks of a session to start a transaction of Delta's, and again to commit it."""
MERGES = frozenset({"sql", "_sc"})
"""What a sink asks of a session after it has decided to merge: a clone, or the table itself."""


def later(times: int, happens: Callable[[], object]) -> list[Callable[[], object]]:
    """What happens meanwhile, if nothing does the first few times."""
    return [*([lambda: None] * times), happens]


class Appending(Driver):
    """A driver with the append sink itself, on a real Spark."""

    def __init__(self, path: Path, spark: SparkSession, *, epoch: int = 1) -> None:
        super().__init__(path, epoch=epoch)
        declared = DeltaAppend(path=str(path), partition_by=(), evolve=False, properties={})
        self.sink = DeltaAppendSink(declared, self.app_id, {})
        self._spark = spark

    def prepare(self, *meanwhile: Callable[[], object]) -> "Appending":
        """The driver, with the older ones shut out."""
        late = Late(self._spark, TRANSACTIONS, *meanwhile)
        self.sink.prepare(self.life, SCHEMA, late)  # type: ignore[arg-type]
        return self

    def put(self, number: int, *meanwhile: Callable[[], object]) -> Decision:
        """Write a batch of one row."""
        frame = self._spark.createDataFrame([(number, "j")], "id LONG, job STRING")
        late = LateRows(frame, Late(self._spark, TRANSACTIONS, *meanwhile))
        return self.sink.write(self.batch(number), late)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with a duty that holdfast leaves to Spark's Delta writer."""
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("job", pa.string())])
    deltalake.DeltaTable.create(str(tmp_path / "table"), columns)
    return tmp_path / "table"


@pytest.mark.parametrize("before", [0, 1], ids=["before its transaction", "within it"])
def test_a_batch_that_the_older_driver_commits_just_before_the_fence_is_not_written_again(
    path: Path, spark: SparkSession, before: int
) -> None:
    older = Appending(path, spark).prepare()
    older.put(0)
    newer = Appending(path, spark, epoch=2).prepare(*later(before, lambda: older.put(1)))
    assert newer.sink.last_written() == written(1, epoch=2)
    with pytest.raises(DriverFenced):
        older.put(2)
    assert [newer.put(number) for number in (1, 2)] == [Decision.SKIP, Decision.WRITE]
    assert rows(path) == [(0, "j"), (1, "j"), (2, "j")]


def test_a_driver_that_dies_before_it_has_noticed_leaves_that_to_the_next(
    path: Path, spark: SparkSession
) -> None:
    older = Appending(path, spark).prepare()

    def killed() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Appending(path, spark, epoch=2).prepare(lambda: older.put(0), killed)
    newest = Appending(path, spark, epoch=3).prepare()
    assert newest.sink.last_written() == written(0, epoch=3)
    assert [newest.put(number) for number in (0, 1)] == [Decision.SKIP, Decision.WRITE]
    assert rows(path) == [(0, "j"), (1, "j")]


def test_a_restore_while_spark_writes_a_batch_is_found_by_the_next_start(
    path: Path, spark: SparkSession
) -> None:
    """Spark's commit then stands after the restore, which its driver did not see."""
    driver = Appending(path, spark).prepare()
    driver.put(0)
    table, version = str(path), deltalake.DeltaTable(path).version()
    driver.put(1)

    def restore(rows: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        deltalake.DeltaTable(table).restore(version)
        yield from rows

    frame = spark.createDataFrame([(2, "j")], "id LONG, job STRING").coalesce(1)
    with pytest.raises(SinkBehind):
        driver.sink.write(driver.batch(2), frame.mapInArrow(restore, "id LONG, job STRING"))
    assert rows(path) == [(0, "j"), (2, "j")]
    assert Appending(path, spark, epoch=2).sink.last_written() == written(2, taken_back=True)


def forget(spark: SparkSession) -> None:
    """Let Spark read the logs of all tables again, as a driver does that was asleep."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # type: ignore[union-attr]  # noqa: SLF001


def expire(spark: SparkSession, path: Path) -> None:
    """Let readers of the table forget transactions at once."""
    spark.sql(
        f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES"
        " ('delta.setTransactionRetentionDuration' = 'interval 1 milliseconds')"
    )


@pytest.mark.parametrize("before", [0, 1], ids=["before its transaction", "within it"])
def test_a_driver_that_slept_does_not_write_a_batch_again_after_its_transaction_expired(
    path: Path, spark: SparkSession, before: int
) -> None:
    expire(spark, path)
    older = Appending(path, spark).prepare()
    older.put(0)
    newer = Appending(path, spark, epoch=2)

    def take_over() -> None:
        newer.prepare()
        newer.put(1)
        forget(spark)

    with pytest.raises((DriverFenced, SinkContended)):
        older.put(1, *later(before, take_over))
    assert rows(path) == [(0, "j"), (1, "j")]
    assert newer.put(2) is Decision.WRITE
    assert newer.sink.last_written() == written(2, epoch=2)


def test_an_older_fence_does_not_stand_after_a_newer_one_whose_transaction_expired(
    path: Path, spark: SparkSession
) -> None:
    expire(spark, path)
    newer = Appending(path, spark, epoch=2)

    def take_over() -> None:
        newer.prepare()
        newer.put(0)
        forget(spark)

    with pytest.raises(DriverFenced):
        Appending(path, spark, epoch=1).prepare(take_over)
    assert newer.put(1) is Decision.WRITE


def test_a_driver_that_slept_does_not_merge_a_batch_again_after_its_transaction_expired(
    tmp_path: Path, spark: SparkSession
) -> None:
    path = tmp_path / "merged"
    schema = T.StructType([T.StructField("id", T.LongType()), T.StructField("n", T.LongType())])
    case = MergeCase(
        table=schema, rows=schema, keys=("id",), newest=None, partition_by=(), zone="UTC",
        aside=False, batches=[], verdicts=[],
    )  # fmt: skip
    older, newer = (Merger(path, case, SizeVerdict.LARGE, epoch=epoch) for epoch in (1, 2))

    def frame(value: int) -> DataFrame:
        return spark.createDataFrame([(1, value)], schema)

    older.prepare(frame(0))
    expire(spark, path)
    older.write(0, frame(0))

    def take_over() -> None:
        newer.prepare(frame(0))
        newer.write(1, frame(1))
        newer.write(2, frame(2))
        forget(spark)

    late = LateRows(frame(1), Late(spark, MERGES, take_over))
    with pytest.raises((DriverFenced, SinkContended)):
        older.write(1, late)  # type: ignore[arg-type]
    found = spark.read.format("delta").load(str(path)).collect()
    assert [tuple(row) for row in found] == [(1, 2)]
    assert newer.write(3, frame(3)) is Decision.WRITE


def test_a_table_that_only_spark_merges_into_must_keep_its_transactions(
    tmp_path: Path, spark: SparkSession
) -> None:
    path = tmp_path / "merged"
    schema = T.StructType([T.StructField("id", T.LongType()), T.StructField("n", T.LongType())])
    case = MergeCase(
        table=schema, rows=schema, keys=("id",), newest=None, partition_by=(), zone="UTC",
        aside=False, batches=[], verdicts=[],
    )  # fmt: skip
    rows = spark.createDataFrame([(1, 1)], schema)
    rows.write.format("delta").option("delta.enableChangeDataFeed", "true").save(str(path))
    expire(spark, path)
    with pytest.raises(SinkRefused, match="could merge an old batch again") as caught:
        Merger(path, case).prepare(rows)
    statement = caught.value.hint.partition("`ALTER")[2].rpartition("` with Spark SQL")[0]
    spark.sql(f"ALTER{statement}")
    Merger(path, case).prepare(rows)
