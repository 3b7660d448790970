"""A batch is written only if it begins where the ledger says that the one before it ended."""

# ruff: noqa: D102  the streams say what they do by what they stand for

import contextlib
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.adapters.postgres_driving import Desk
from tests.spark.driving import send_numbers
from tests.spark.test_once import PASSWORD, every
from tests.spark.test_running import Place

import holdfast
from holdfast import Pipeline, sources
from holdfast.errors import BatchNotContinuous, HoldfastError
from holdfast.examples.broker import Broker
from holdfast.examples.database import Database
from holdfast.model.batch import Batch
from holdfast.model.fact import Unknown
from holdfast.model.ids import BatchId
from holdfast.run.once import Once
from holdfast.run.query.batch import OffsetReader
from holdfast.run.query.own_offsets import OwnRange

pytestmark = pytest.mark.spark

_EPOCH = 1_767_225_600
_PUT_BACK = re.compile(
    r"put back `(?P<entry>[^`]+)`: the offset of source `0` must be `(?P<offset>[^`]+)`;"
    r" delete `(?P<crc>[^`]+)` if it exists\. If `(?P<following>[^`]+)` exists and no sink has"
    r" batch \d+, delete `[^`]+` and `(?P<following_crc>[^`]+)`\."
)


class Files:
    """A folder of JSON files, one per batch."""

    position = r'(?<="logOffset":)\d+'

    def __init__(self, home: Path, _: object) -> None:
        self.folder = home / "landing"
        self.folder.mkdir()

    def land(self, number: int) -> None:
        path = self.folder / f"{number}.json"
        path.write_text(json.dumps({"id": number}))
        os.utime(path, (_EPOCH + number, _EPOCH + number))

    def read(self, spark: SparkSession) -> DataFrame:
        stream = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1)
        return stream.json(str(self.folder))


class Table:
    """A Delta table, one version per batch."""

    position = r'(?<="reservoirVersion":)\d+'

    def __init__(self, home: Path, _: object) -> None:
        self.folder = home / "source"

    def land(self, number: int) -> None:
        deltalake.write_deltalake(
            self.folder, pa.table({"id": pa.array([number], pa.int64())}), mode="append"
        )

    def read(self, spark: SparkSession) -> DataFrame:
        stream = spark.readStream.format("delta").option("maxFilesPerTrigger", 1)
        return stream.load(str(self.folder))


class Topic:
    """A topic of Kafka with one partition, one record per batch."""

    position = r'(?<="0":)\d+'

    def __init__(self, _: Path, broker: Callable[[], Broker]) -> None:
        self.broker = broker()
        self.topic = f"continuity-{secrets.token_hex(4)}"
        self.broker.create_topic(self.topic, 1)

    def land(self, number: int) -> None:
        send_numbers(self.broker, self.topic, [number])

    def read(self, spark: SparkSession) -> DataFrame:
        stream = spark.readStream.format("kafka").option("subscribe", self.topic)
        stream = stream.option("kafka.bootstrap.servers", self.broker.bootstrap_servers)
        stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 1)
        return stream.load().selectExpr("CAST(CAST(value AS STRING) AS LONG) AS id")


Source = Files | Table | Topic


class Stream:
    """An existing job with three sinks, which are compared after every run."""

    def __init__(self, spark: SparkSession, home: Path, source: Source, database: Database) -> None:
        self._spark = spark
        self._home = home
        self.source = source
        self._desks = Desk(database), Desk(database, schema=f"jdbc_{secrets.token_hex(4)}")
        self.checkpoint = home / "checkpoints/continuity"

    def once(self) -> Once:
        outputs = every(self._home, *self._desks)
        return holdfast.once(outputs, checkpoint=str(self.checkpoint), dev=True)

    def run(self, write: Callable[[DataFrame, int], None]) -> None:
        stream = self.source.read(self._spark).writeStream.foreachBatch(write)
        stream = stream.option("checkpointLocation", str(self.checkpoint))
        stream.trigger(availableNow=True).start().awaitTermination()

    def run_anew(self) -> None:
        write = self.once()
        try:
            self.run(write)
        finally:
            write.close()

    def fail(self, write: Once | None = None) -> HoldfastError:
        """Run into an error of holdfast's: Spark keeps its text, and not its hint."""
        opened = write or self.once()
        errors: list[HoldfastError] = []

        def keep(rows: DataFrame, batch: int) -> None:
            try:
                opened(rows, batch)
            except HoldfastError as error:
                errors.append(error)
                raise

        with pytest.raises(StreamingQueryException):
            self.run(keep)
        if write is None:
            opened.close()
        return errors[0]

    def ids(self) -> Counter[int]:
        desk, other = self._desks
        table = deltalake.DeltaTable(self._home / "table").to_pyarrow_table()
        ids = Counter(table.column("id").to_pylist())
        assert Counter(n for (n,) in desk.query("SELECT id FROM rows")) == ids
        assert Counter(n for (n,) in other.query("SELECT id FROM jdbc_rows")) == ids
        return ids

    @property
    def last(self) -> int:
        names = (path.name for path in (self.checkpoint / "offsets").iterdir())
        return max(int(name) for name in names if name.isdecimal())

    def move(self, batch: int, by: int) -> None:
        """Change where the offset log says that a batch ended."""
        entry = self.checkpoint / f"offsets/{batch}"
        *head, offset = entry.read_text().split("\n")
        moved = re.sub(self.source.position, lambda found: str(int(found[0]) + by), offset)
        assert moved != offset
        entry.write_text("\n".join([*head, moved]))
        entry.with_name(f".{batch}.crc").unlink(missing_ok=True)

    def follow(self, said: HoldfastError) -> None:
        """Do what the hint says, to the letter."""
        hint = _PUT_BACK.search(said.hint)
        assert hint is not None, said.hint
        entry = _path(hint["entry"])
        lines = entry.read_text().split("\n")
        entry.write_text("\n".join([*lines[:2], hint["offset"], *lines[3:]]))
        for name in ("crc", "following", "following_crc"):
            _path(hint[name]).unlink(missing_ok=True)


def _path(url: str) -> Path:
    return Path(url.removeprefix("file://"))


@pytest.fixture
def place(tmp_path: Path, spark: SparkSession) -> Place:
    return Place(tmp_path, spark)


@pytest.fixture(params=[Files, Table, Topic])
def stream(
    request: pytest.FixtureRequest,
    database: Database,  # before Spark, whose workers find the password by their environment
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Stream:
    monkeypatch.setenv(PASSWORD, database.pgpass.read_text().strip().rpartition(":")[2])
    source = request.param(tmp_path, lambda: request.getfixturevalue("broker"))
    made = Stream(spark, tmp_path, source, database)
    for number in range(2):
        source.land(number)
    made.run_anew()
    assert made.ids() == Counter(range(2))
    return made


def test_a_batch_begins_where_the_ledgers_say_that_the_last_one_ended(stream: Stream) -> None:
    """One flow, because streams are slow to begin: each step goes on from what the last left."""
    _refuse_at_a_start(stream, range(2, 4), by=-1)
    # Spark itself stops at an offset that the log of a file source does not have.
    _refuse_at_a_start(stream, range(4, 6), by=-1 if isinstance(stream.source, Files) else 1)
    write = stream.once()
    _refuse_in_the_sinks(stream, write, range(6, 8))
    _refuse_a_batch_whose_entry_is_replaced(stream, write, range(8, 10))
    write.close()


def _refuse_at_a_start(stream: Stream, numbers: range, *, by: int) -> None:
    """By the ledgers, whether rows would be lost or written twice; the hint puts it right."""
    stream.move(stream.last, by)
    for number in numbers:
        stream.source.land(number)
    said = stream.fail()
    assert isinstance(said, BatchNotContinuous)
    assert "Nothing was written" in said.message
    assert stream.ids() == Counter(range(numbers.start))
    stream.follow(said)
    stream.run_anew()
    assert stream.ids() == Counter(range(numbers.stop))


def _refuse_in_the_sinks(stream: Stream, write: Once, numbers: range) -> None:
    """By the sinks themselves: this driver compared the ledgers at its start."""
    stream.source.land(numbers[0])
    stream.run(write)
    stream.move(stream.last, -1)
    stream.source.land(numbers[1])
    said = stream.fail(write)
    assert isinstance(said, BatchNotContinuous)
    assert stream.ids() == Counter(range(numbers[1]))
    stream.follow(said)
    stream.run(write)
    assert stream.ids() == Counter(range(numbers.stop))


def _refuse_a_batch_whose_entry_is_replaced(stream: Stream, write: Once, numbers: range) -> None:
    """The range in the file is not that of the rows: nothing is written, the next run is right.

    A dead driver had planned more, and its late write replaces the entry of the one that runs.
    """
    first = stream.last + 1
    for number in numbers:
        stream.source.land(number)

    def replace(rows: DataFrame, batch: int) -> None:
        if batch == first:
            stream.move(batch, 1)
        write(rows, batch)

    with pytest.raises(StreamingQueryException, match="OFFSETS_REPLACED"):
        stream.run(replace)
    assert stream.ids() == Counter(range(numbers.start))
    if isinstance(stream.source, Files):  # whose own log has no such entry
        stream.move(first, -1)
    with contextlib.suppress(StreamingQueryException):
        stream.run(write)
    stream.run(write)  # Kafka's source fails after a batch that ran again and left nothing to read
    assert stream.ids() == Counter(range(numbers.stop))


def test_a_run_is_refused_whatever_was_accepted(place: Place) -> None:
    """An offset that somebody moved, and the list of files of a driver that had seen fewer."""
    place.land("a.json", 0, 10)
    place.run(place.pipeline())
    for name, first in (("b.json", 10), ("c.json", 20)):
        place.land(name, first, 10)
    place.run(place.pipeline())
    assert place.ids() == list(range(30))
    for name, replaced in (("offsets/1", _earlier), ("sources/0/1", _fewer)):
        path = place.checkpoint / name
        kept = path.read_text()
        path.write_text(replaced(kept))
        path.with_name(".1.crc").unlink(missing_ok=True)
        with pytest.raises(BatchNotContinuous):
            place.run(place.pipeline(), "OFFSETS_EDITED", "SINK_BEHIND")
        path.write_text(kept)
    place.land("d.json", 30, 10)
    place.run(place.pipeline())
    assert place.ids() == list(range(40))


def _earlier(entry: str) -> str:
    return entry.replace('{"logOffset":1}', '{"logOffset":0}')


def _fewer(entry: str) -> str:
    return "\n".join(entry.split("\n")[:2])


def test_a_run_goes_on_over_the_range_of_an_entry_that_was_replaced(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query starts again by itself, and runs the batch as the file has it now."""
    source = Table(place.home, None)
    entry = place.checkpoint / "offsets/1"
    replaced: list[str] = []
    read = OffsetReader.batch

    def replace(reader: OffsetReader, batch: BatchId, own: OwnRange | Unknown) -> Batch:
        if batch == 1 and not replaced:
            replaced.append(entry.read_text())
            source.land(2)
            later = re.sub(
                Table.position, lambda found: str(int(found[0]) + 1), replaced[0].split("\n")[2]
            )
            entry.write_text("\n".join([*replaced[0].split("\n")[:2], later]))
            entry.with_name(".1.crc").unlink(missing_ok=True)
        return read(reader, batch, own)

    declared = Pipeline("test", checkpoints=str(place.home / "checkpoints"))
    declared.job("job", reads=sources.delta(str(source.folder)), writes=place.append())(
        lambda rows: rows
    )
    source.land(0)
    place.run(declared)
    source.land(1)
    monkeypatch.setattr(OffsetReader, "batch", replace)
    place.run(declared)
    assert replaced
    assert place.ids() == [0, 1, 2]
    assert entry.read_text() != replaced[0]
    source.land(3)
    place.run(declared)
    assert place.ids() == [0, 1, 2, 3]
