"""Looks at a checkpoint while a query goes on: what is told is of one moment, and of a whole query.

The query goes on by whole batches, or by a part of one, whenever storage is asked. So each look
meets it at every point, and the same ones every time.
"""

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from tests import checkpoint_files as files
from tests.formats import LISTENER
from tests.looking import NOW_MS, rendered

from holdfast.diagnose import diagnosis
from holdfast.gather import evidence
from holdfast.gather.around import surroundings
from holdfast.gather.history import event_logs
from holdfast.gather.history.events import EventLog
from holdfast.gather.inventory import snapshot
from holdfast.model.evidence import Evidence
from holdfast.model.fact import Known
from holdfast.model.finding import Code, Judgement, RuleInput
from holdfast.predict import candidates, restart
from holdfast.storage import (
    Children,
    Missing,
    Piece,
    Portion,
    Reader,
    Refused,
    open_reader,
)

_HEALTHY = frozenset(
    {
        Code.BATCH_PROGRESS,
        Code.OPERATORS_UNCHECKED,
        Code.PENDING_BATCH,
        Code.STORAGE_EPHEMERAL,
    }
)
_COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


class Query:
    """A stateful query of two partitions that writes a checkpoint, one step at a time."""

    def __init__(self, location: Path, kept: int) -> None:
        self._location = location
        self._kept = kept
        self._steps = self._going()

    def step(self) -> None:
        """Write or remove a few files, as Spark does in this order."""
        next(self._steps)

    def _going(self) -> Iterator[None]:
        batch = -1
        for folder in ("offsets", "commits", "sources", "state/0/0", "state/0/1"):
            (self._location / folder).mkdir(parents=True, exist_ok=True)
        while True:
            batch += 1
            files.offsets(self._location, batch, 1_767_225_600_000 + batch * 1000)
            (self._location / f"offsets/.{batch}.crc").write_bytes(b"crc")
            yield
            for partition in range(2):
                place = self._location / f"state/0/{partition}"
                kind = "snapshot" if batch % 3 == partition else "delta"
                (place / f"{batch + 1}.delta").write_bytes(b"x" * 46)
                (place / f"{batch + 1}.{kind}").write_bytes(b"x" * 46)
                yield
            (self._location / f"commits/{batch}").write_text(_COMMIT)
            (self._location / f"commits/.{batch}.crc").write_bytes(b"crc")
            yield
            self._purge(batch - self._kept)

    def _purge(self, oldest: int) -> None:
        for log in ("offsets", "commits"):
            for entry in (self._location / log).glob("*"):
                if int(entry.name.removesuffix(".crc").lstrip(".")) < oldest:
                    entry.unlink()
        for place in (self._location / "state/0").iterdir():
            whole = [int(one.stem) for one in place.glob("*.snapshot")]
            needed = max((one for one in whole if one <= oldest + 1), default=0)
            for one in place.iterdir():
                if int(one.stem) < needed:
                    one.unlink()


class Meanwhile:
    """A Reader of a folder in which something happens at every so many questions."""

    def __init__(self, reader: Reader, every: int, happens: Callable[[], None]) -> None:
        self._reader = reader
        self._every = every
        self._happens = happens
        self._asked = 0

    def children(self, folder: str) -> Children | Missing | Refused:
        """What lies directly in a folder."""
        self._ask()
        return self._reader.children(folder)

    def walk(self, folders: Sequence[str]) -> Iterator[Portion | Refused]:
        """Every file below the folders."""
        for folder in folders:
            self._ask()
            yield from self._reader.walk([folder])

    def read(self, pieces: Sequence[Piece]) -> Iterator[tuple[Piece, bytes | Missing | Refused]]:
        """The pieces, in their order."""
        for piece in pieces:
            self._ask()
            yield from self._reader.read([piece])

    def _ask(self) -> None:
        self._asked += 1
        if self._asked % self._every == 0:
            self._happens()


def looked(
    location: Path, reader: Reader, event_log: EventLog | None = None
) -> tuple[Evidence, evidence.CheckpointPlace]:
    place = evidence.CheckpointPlace(
        url=str(location), name=location.name, reader=reader, parent=None, storage={}
    )
    top = reader.children("")
    assert isinstance(top, Children)
    return evidence.collect(place, top, event_log=event_log, now_ms=NOW_MS), place


@pytest.mark.parametrize("kept", [2, 5, 100])
@pytest.mark.parametrize("every", [1, 3, 20])
def test_a_running_query_is_seen_at_one_moment(tmp_path: Path, kept: int, every: int) -> None:
    location = tmp_path / "c"
    query = Query(location, kept)
    query.step()
    (location / "metadata").write_text(f'{{"id":"{files.QUERY_ID}"}}')
    reader = Meanwhile(open_reader(str(location)), every, query.step)
    last = -1
    for _ in range(12):
        query.step()
        found, place = looked(location, reader)
        rendered(found)
        batches = found.batches
        assert batches.last_planned is not None
        assert batches.last_planned >= last
        last = batches.last_planned
        how = candidates.choose_start(found, None, asynchronous=False)
        around = surroundings.collect(
            place, found, surroundings.LookupOptions(kafka="", start_settings={})
        )
        told = diagnosis.diagnose(
            RuleInput(evidence=found, restart=restart.predict(found, how), surroundings=around)
        )
        assert {one.code for one in told.findings} <= _HEALTHY
        if found.unreadable:
            # Only a query that keeps next to nothing is faster than three looks.
            assert kept < 10
            assert {one.reason for one in found.unreadable} == {snapshot.TOO_FAST}
            assert told.judgement is Judgement.UNKNOWN
            continue
        assert batches.last_committed in (None, last - 1, last)
        assert len(batches.offset_spans) == 1
        assert len(batches.commit_spans) == (batches.last_committed is not None)
        (operator,) = found.operators
        assert isinstance(operator.restorable, tuple)
        ends = [span.last for span in operator.restorable]
        assert ends == ([] if batches.last_committed is None else [batches.last_committed])


def test_a_commit_ahead_of_the_offsets_is_still_told(tmp_path: Path) -> None:
    location = files.write(tmp_path / "c", planned=3, committed=4)
    found, _ = looked(location, open_reader(str(location)))
    assert (found.batches.last_planned, found.batches.last_committed) == (2, 3)


def test_a_query_that_begins_while_it_is_looked_at(tmp_path: Path) -> None:
    for at in range(1, 12):
        location = tmp_path / str(at)
        (location / "offsets").mkdir(parents=True)
        (location / "commits").mkdir()
        (location / "metadata").write_text(f'{{"id":"{files.QUERY_ID}"}}')
        query = Query(location, kept=100)
        reader = Meanwhile(open_reader(str(location)), at, query.step)
        found, _ = looked(location, reader)
        how = candidates.choose_start(found, None, asynchronous=False)
        assert restart.predict(found, how).error is None


def test_an_event_log_tells_as_much_at_a_second_look(tmp_path: Path) -> None:
    location, started = (
        files.write(tmp_path / "c", planned=5, committed=5),
        f"{LISTENER}QueryStarted",
    )
    ids = f'"id":"{files.QUERY_ID}","runId":"0b6ee2c4-3a55-4a3c-9d5c-0e4f3cf1a111"'
    log = tmp_path / "log"
    log.write_text(
        '{"Event":"SparkListenerLogStart","Spark Version":"4.1.1"}\n'
        f'{{"Event":"{started}Event",{ids},"timestamp":"2026-01-01T00:00:00.000Z"}}\n'
    )
    asked = itertools.count()

    def replaced() -> None:
        if next(asked) == 5:
            shutil.rmtree(location)
            files.write(location, planned=30, committed=30, first=20)

    reader = Meanwhile(open_reader(str(location)), 1, replaced)
    found, _ = looked(location, reader, event_logs.open_at(str(log), {}))
    assert found.batches.last_planned == 29
    assert isinstance(found.spark_version, Known)
    assert found.spark_version.value == "4.1.1"
    assert found.unreadable == ()


def test_an_entry_that_a_listing_in_pages_has_left_out(tmp_path: Path) -> None:
    """The second page holds an entry that came after one of the first page, which it missed."""
    location = files.write(tmp_path / "c", planned=11, committed=11)
    hidden = tmp_path / "hidden"

    def shown() -> None:
        if hidden.exists():
            hidden.rename(location / "offsets/9")

    (location / "offsets/9").rename(hidden)
    found, _ = looked(location, Meanwhile(open_reader(str(location)), 3, shown))
    assert [(one.first, one.last) for one in found.batches.offset_spans] == [(0, 10)]
    shutil.rmtree(location)
    files.write(location, planned=11, committed=11)
    (location / "offsets/9").unlink()
    found, _ = looked(location, open_reader(str(location)))
    assert [(one.first, one.last) for one in found.batches.offset_spans] == [(0, 8), (10, 10)]
