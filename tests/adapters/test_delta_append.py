"""The append sink without Spark: a newer driver may take over at any moment of a batch."""

# ruff: noqa: D102  a fake says what it does by what it stands for

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.adapters.delta_driving import SCHEMA, BareSession, Driver
from tests.measuring import ToldSize

from holdfast.errors import DriverFenced, SchemaMismatch, SinkContended
from holdfast.model.definition import DeltaAppend
from holdfast.model.ids import Epoch
from holdfast.sinks.batch_size import SizeVerdict
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import DeltaAppendSink

WIDER = StructType([*SCHEMA.fields, StructField("more", StringType())])

JOBS = 4


def nothing() -> None:
    pass


class Rows:
    """As much of a DataFrame as the sink asks of one that it collects, and what happens then."""

    def __init__(
        self,
        schema: StructType = SCHEMA,
        *,
        when_asked: Callable[[], object] = nothing,
        when_collected: Callable[[], object] = nothing,
    ) -> None:
        self._schema = schema
        self._when_asked = when_asked
        self._when_collected = when_collected

    @property
    def schema(self) -> StructType:
        self._when_asked()
        return self._schema

    @property
    def columns(self) -> list[str]:
        return self._schema.names

    @property
    def sparkSession(self) -> BareSession:  # noqa: N802  Spark's name
        return BareSession()

    def toArrow(self) -> pa.Table:  # noqa: N802  Spark's name
        self._when_collected()
        row = {"id": 7, "job": "j", "more": "m"}
        return pa.table({name: [row[name]] for name in self._schema.names})


class Appending(Driver):
    """A driver with the append sink itself."""

    def __init__(self, path: Path, *, epoch: int = 1, evolve: bool = False) -> None:
        super().__init__(path, epoch=epoch)
        declared = DeltaAppend(path=str(path), partition_by=(), evolve=evolve, properties={})
        self.sink = DeltaAppendSink(declared, self.app_id, {}, size=ToldSize(SizeVerdict.SMALL))
        self.sink.prepare(self.life, SCHEMA, BareSession())  # type: ignore[arg-type]

    def put(self, number: int, rows: Rows) -> Decision:
        return self.sink.write(self.batch(number), rows)  # type: ignore[arg-type]


def held(path: Path) -> list[dict[str, object]]:
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    found: list[dict[str, object]] = pa.table(
        query.execute("SELECT * FROM t").read_all()
    ).to_pylist()
    return found


def test_rows_are_appended_once(tmp_path: Path) -> None:
    driver = Appending(tmp_path)
    assert driver.put(0, Rows()) is Decision.WRITE
    assert driver.put(0, Rows(when_collected=pytest.fail)) is Decision.SKIP
    assert held(tmp_path) == [{"id": 7, "job": "j"}]


def test_a_column_more_is_refused_or_added(tmp_path: Path) -> None:
    with pytest.raises(SchemaMismatch, match="`more` string"):
        Appending(tmp_path).put(0, Rows(WIDER))
    driver = Appending(tmp_path, epoch=2, evolve=True)
    assert driver.put(0, Rows()) is Decision.WRITE
    assert driver.put(1, Rows(WIDER)) is Decision.WRITE
    found = sorted(held(tmp_path), key=str)
    assert [row["more"] for row in found] == ["m", None]


def test_jobs_that_add_columns_at_the_same_time_all_get_theirs(tmp_path: Path) -> None:
    """A job that was second looks at the table again; on S3 Spark could not help it."""
    Appending(tmp_path)
    together = Barrier(JOBS)

    def evolve(job: int) -> None:
        driver = Driver(tmp_path, job=f"job-{job}")
        declared = DeltaAppend(path=str(tmp_path), partition_by=(), evolve=True, properties={})
        sink = DeltaAppendSink(declared, driver.app_id, {}, overwrites=lambda *_: True)
        for turn in range(3):
            together.wait()
            more = StructField(f"more_{job}_{turn}", StringType())
            life = dataclasses.replace(driver.life, epoch=Epoch(turn + 1))
            try:
                sink.prepare(life, StructType([*SCHEMA.fields, more]), BareSession())  # type: ignore[arg-type]
            except BaseException:
                together.abort()  # or the others would wait for ever
                raise

    with ThreadPoolExecutor(JOBS) as pool:
        list(pool.map(evolve, range(JOBS)))
    names = {field.name for field in deltalake.DeltaTable(tmp_path).schema().fields}
    assert names == {"id", "job"} | {f"more_{j}_{t}" for j in range(JOBS) for t in range(3)}


def test_a_newer_driver_takes_over_while_the_rows_are_collected(tmp_path: Path) -> None:
    old = Appending(tmp_path)
    with pytest.raises(DriverFenced):
        old.put(0, Rows(when_collected=lambda: Appending(tmp_path, epoch=2)))
    assert held(tmp_path) == []


def test_a_newer_driver_takes_over_while_the_table_evolves(tmp_path: Path) -> None:
    old = Appending(tmp_path, evolve=True)
    with pytest.raises(DriverFenced):
        old.put(0, Rows(WIDER, when_asked=lambda: fence_once(tmp_path)))
    assert held(tmp_path) == []


def fence_once(path: Path) -> None:
    if deltalake.DeltaTable(path).version() == 0:
        Appending(path, epoch=2)


# what another writer does to the table while the rows are collected
CHANGES: dict[str, Callable[[Path], object]] = {
    "a constraint": lambda path: deltalake.DeltaTable(path).alter.add_constraint(
        {"small": "id < 7"}
    ),
    "other columns": lambda path: deltalake.write_deltalake(
        path, pa.table({"other": ["x"]}), mode="overwrite", schema_mode="overwrite"
    ),
    "partitions": lambda path: deltalake.write_deltalake(
        path,
        pa.table({"id": [1], "job": ["x"]}),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=["job"],
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_files_are_not_committed_to_a_table_that_asks_for_others_by_now(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    driver = Appending(tmp_path)
    with pytest.raises(SinkContended, match="another writer changed its columns"):
        driver.put(0, Rows(when_collected=lambda: change(tmp_path)))
    assert all(set(row.values()) <= {1, "x"} for row in held(tmp_path))


def test_what_others_append_meanwhile_changes_nothing(tmp_path: Path) -> None:
    driver = Appending(tmp_path)
    other = pa.table({"id": [1], "job": ["x"]})
    rows = Rows(
        when_collected=lambda: deltalake.write_deltalake(tmp_path, other, mode="append"),
    )
    assert driver.put(0, rows) is Decision.WRITE
    assert sorted(row["id"] for row in held(tmp_path)) == [1, 7]  # type: ignore[type-var]


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    other = StructType([StructField("id", LongType()), StructField("job", LongType())])
    with pytest.raises(SchemaMismatch, match=r"column `job` .* as string, found bigint"):
        Appending(tmp_path).put(0, Rows(other))
