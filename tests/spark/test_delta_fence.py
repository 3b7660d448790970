"""Taking over a table that only Spark's Delta writer commits to, from a driver that still runs."""

from collections.abc import Callable, Iterable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrameReader, SparkSession
from pyspark.sql.conf import RuntimeConfig
from tests.adapters.delta_driving import SCHEMA, Driver, rows, written

from holdfast.errors import DriverFenced, SinkBehind
from holdfast.model.definition import DeltaAppend
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import DeltaAppendSink

pytestmark = pytest.mark.spark


class Late:
    """As much of a session as the fence asks for, and what happens just before it commits."""

    def __init__(self, spark: SparkSession, *meanwhile: Callable[[], object]) -> None:
        self._spark = spark
        self._meanwhile = list(meanwhile)

    @property
    def read(self) -> DataFrameReader:
        """Spark's own, after the next thing that happens meanwhile."""
        if self._meanwhile:
            self._meanwhile.pop(0)()
        return self._spark.read

    @property
    def sparkContext(self) -> SparkContext:  # noqa: N802  Spark's name
        """Spark's own."""
        return self._spark.sparkContext

    @property
    def conf(self) -> RuntimeConfig:
        """Spark's own."""
        return self._spark.conf


class Appending(Driver):
    """A driver with the append sink itself, on a real Spark."""

    def __init__(self, path: Path, spark: SparkSession, *, epoch: int = 1) -> None:
        super().__init__(path, epoch=epoch)
        declared = DeltaAppend(path=str(path), partition_by=(), evolve=False, properties={})
        self.sink = DeltaAppendSink(declared, self.app_id, {})
        self._spark = spark

    def prepare(self, *meanwhile: Callable[[], object]) -> "Appending":
        """The driver, with the older ones shut out."""
        self.sink.prepare(self.life, SCHEMA, Late(self._spark, *meanwhile))  # type: ignore[arg-type]
        return self

    def put(self, number: int) -> Decision:
        """Write a batch of one row."""
        frame = self._spark.createDataFrame([(number, "j")], "id LONG, job STRING")
        return self.sink.write(self.batch(number), frame)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table with a duty that holdfast leaves to Spark's Delta writer."""
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("job", pa.string())])
    deltalake.DeltaTable.create(str(tmp_path / "table"), columns)
    return tmp_path / "table"


def test_a_batch_that_the_older_driver_commits_just_before_the_fence_is_not_written_again(
    path: Path, spark: SparkSession
) -> None:
    older = Appending(path, spark).prepare()
    older.put(0)
    newer = Appending(path, spark, epoch=2).prepare(lambda: older.put(1))
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
