"""Drivers of a job at a Delta table, and what others do to the table meanwhile; without Spark."""

# ruff: noqa: D102  a fake says what it does by what it stands for

import json
from collections.abc import Mapping
from pathlib import Path

import deltalake
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql.types import LongType, StringType, StructField, StructType

from holdfast.model.batch import Batch, EndOffsets, LedgerKey, Writer, WrittenBatch
from holdfast.model.definition import DeltaAppend
from holdfast.model.ids import BatchId, Digest, Epoch, Generation, JobName, OutputName
from holdfast.model.json import Json
from holdfast.sinks.contract import Decision
from holdfast.sinks.delta import parquet
from holdfast.sinks.delta.layout import Layout
from holdfast.sinks.delta.ledger import make_app_id
from holdfast.sinks.delta.ledgered import LedgeredDeltaTable
from holdfast.sinks.delta.log import Head

SCHEMA = StructType([StructField("id", LongType()), StructField("job", StringType())])


def offset(batches: int) -> Json:
    """Where so many batches end, as in `checkpoint_files.write`."""
    return {"orders": {"0": batches * 10, "1": batches * 10}}


class BareSession:
    """A session without a JVM, in which nothing is set."""

    @property
    def sparkContext(self) -> "BareSession":  # noqa: N802  Spark's name
        return self

    @property
    def conf(self) -> "BareSession":
        return self

    def getConf(self) -> "BareSession":  # noqa: N802  Spark's name
        return self

    def get(self, _: str, default: str | None = None) -> str | None:
        return default

    @property
    def _jvm(self) -> object:
        raise Py4JError("there is no JVM")


class Driver:
    """One driver of a job, at a table."""

    def __init__(
        self,
        path: Path | str,
        job: str = "j",
        epoch: int = 1,
        base: str = "/base",
        options: Mapping[str, str] | None = None,
    ) -> None:
        self.life = Writer(
            job=JobName(job),
            generation=Generation(1),
            epoch=Epoch(epoch),
            location=f"{base}/{job}",
        )
        sink = DeltaAppend(path=str(path), partition_by=(), evolve=False, properties={})
        self.app_id = make_app_id(
            LedgerKey(job=self.life.job, generation=self.life.generation, output=OutputName("t"))
        )
        self.table = LedgeredDeltaTable(sink, self.app_id, options or {})
        self.written = 0

    def start(self) -> "Driver":
        self.table.prepare(self.life, SCHEMA, BareSession())  # type: ignore[arg-type]
        return self

    def batch(
        self, number: int, digest: str | None = None, begins: EndOffsets | None = None
    ) -> Batch:
        return Batch(
            life=self.life,
            id=BatchId(number),
            digest=Digest(digest or f"digest-{number}"),
            offsets=[{"source": "0", "start": offset(number), "end": offset(number + 1)}],
            expected_rows=1,
            begins={"0": offset(number)} if begins is None else begins,
        )

    def write(self, number: int, *, at: Head | None = None) -> Decision:
        """Write files and commit them, on the table as it is or as it was seen before."""
        head = at or self.table.log.head()
        rows = pa.table({"id": pa.array([number]), "job": pa.array([str(self.life.job)])})
        self.written += 1
        folder = f"{self.life.job}-{self.life.epoch}-{number}-{self.written}"
        files = parquet.write_by_driver(self.table.store, folder, rows, pa.table({}), Layout())
        return self.table.append(head, self.batch(number), files)

    def decide(self, number: int, digest: str | None = None) -> Decision:
        """What may be done with a batch on the table as it is."""
        return self.table.decide(self.table.log.head().standing, self.batch(number, digest))

    def process(self, number: int) -> Decision:
        """As a sink does: decide first, and write on the table that was decided on."""
        head = self.table.log.head()
        if self.table.decide(head.standing, self.batch(number)) is Decision.SKIP:
            return Decision.SKIP
        return self.write(number, at=head)


def written(batch: int, *, epoch: int = 1, taken_back: bool = False) -> WrittenBatch:
    return WrittenBatch(
        epoch=Epoch(epoch),
        batch=BatchId(batch),
        digest=Digest(f"digest-{batch}"),
        location="/base/j",
        taken_back=taken_back,
    )


def rows(path: Path | str, options: Mapping[str, str] | None = None) -> list[tuple[int, str]]:
    found = deltalake.DeltaTable(path, storage_options=dict(options or {}) or None)
    table = pa.table(deltalake.QueryBuilder().register("t", found).execute(
        "SELECT id, job FROM t ORDER BY job, id"
    ).read_all())  # fmt: skip
    return list(zip(table["id"].to_pylist(), table["job"].to_pylist(), strict=True))


def foreign(path: Path, commits: int = 1) -> None:
    """Commits of somebody else, who knows nothing of ledgers."""
    table = deltalake.DeltaTable(path)
    for _ in range(commits):
        properties = deltalake.CommitProperties(custom_metadata={"userMetadata": "[not, json"})
        table.create_write_transaction(
            [], "append", table.schema(), [], commit_properties=properties
        )


def bare(path: Path, *actions: object) -> None:
    """A commit without commit info, which the protocol allows."""
    bare_at(path, deltalake.DeltaTable(path).version() + 1, *actions)


def bare_at(path: Path, version: int, *actions: object) -> None:
    """Such a commit under a number that may be taken."""
    text = "\n".join(json.dumps(action) for action in actions)
    (path / "_delta_log" / f"{version:020d}.json").write_text(text)
