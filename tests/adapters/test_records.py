"""What is remembered of every run: in order, bounded, and never a reason to stop."""

# ruff: noqa: D102  a fake says what it does by what it stands for

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import StorageUnavailable
from holdfast.run.watch import records
from holdfast.run.watch.records import Recorder, RunLog
from holdfast.storage import Missing, Store, open_store

RUNS = ".holdfast/j/runs"
RUN = f"{RUNS}/0000000000007-run"


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store("memory://" if request.param == "memory" else str(tmp_path))


class Failing:
    """A storage of which some verbs do not answer."""

    def __init__(self, *verbs: str) -> None:
        self.inner = open_store("memory://")
        self.verbs = set(verbs)

    def read(self, path: str, *, last: int | None = None) -> bytes | Missing:
        self._ask("read")
        return self.inner.read(path, last=last)

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        self._ask("write")
        return self.inner.write(path, data, create=create)

    def names(self, folder: str) -> tuple[str, ...]:
        self._ask("names")
        return self.inner.names(folder)

    def delete(self, path: str) -> None:
        self._ask("delete")
        self.inner.delete(path)

    def _ask(self, verb: str) -> None:
        if verb in self.verbs:
            raise StorageUnavailable(f"no {verb}", hint="")


def log(store: Store, started_ms: int = 7, run_id: str = "run") -> RunLog:
    return RunLog(store, "j", started_ms, run_id)


def read(store: Store, path: str) -> bytes:
    found = store.read(path)
    assert isinstance(found, bytes)
    return found


def numbers(store: Store, run: str = RUN) -> list[int]:
    """The numbers of a run's events as they stand in its segments."""
    text = b"".join(read(store, f"{run}/{name}") for name in store.names(run))
    return [json.loads(line)["n"] for line in text.splitlines()]


def eventually(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)
    return true()


def filled(segments: int, *, store: Store) -> int:
    """Fill segments one after the other, the first with one event; how many events that were."""
    run = log(store)
    filler = "x" * (records.SEGMENT_BYTES // 2)
    for n in range(2 * segments - 1):
        run.add({"n": n, "filler": filler})
        run.flush()
    return 2 * segments - 1


def test_an_event_is_a_line(store: Store) -> None:
    run = log(store)
    run.add({"n": 0, "text": "two\nlines ü"})
    run.add({"n": 1})
    run.flush()
    assert (
        read(store, f"{RUN}/000000.jsonl").decode() == '{"n":0,"text":"two\\nlines ü"}\n{"n":1}\n'
    )


def test_the_first_segment_tells_the_start_and_is_left_alone(store: Store) -> None:
    run = log(store)
    run.add({"n": 0})
    run.flush()
    for n in (1, 2):
        run.add({"n": n})
        run.flush()
    assert store.names(RUN) == ("000000.jsonl", "000001.jsonl")
    assert read(store, f"{RUN}/000000.jsonl") == b'{"n":0}\n'
    assert read(store, f"{RUN}/000001.jsonl") == b'{"n":1}\n{"n":2}\n'


def test_segments_are_bounded(store: Store) -> None:
    events = filled(4, store=store)
    assert store.names(RUN) == tuple(f"{n:06d}.jsonl" for n in range(4))
    assert numbers(store) == list(range(events))
    sizes = [len(read(store, f"{RUN}/{name}")) for name in store.names(RUN)]
    assert max(sizes) < 2 * records.SEGMENT_BYTES


def test_the_first_and_the_newest_segments_are_kept(store: Store) -> None:
    full = records.KEPT_SEGMENTS + 4
    events = filled(full, store=store)
    kept = store.names(RUN)
    assert kept[0] == "000000.jsonl"
    assert kept[-1] == f"{full - 1:06d}.jsonl"
    assert len(kept) <= records.KEPT_SEGMENTS + 1
    assert list(kept[1:]) == [f"{n:06d}.jsonl" for n in range(full - len(kept) + 1, full)]
    assert numbers(store)[-1] == events - 1


def test_runs_are_pruned_from_the_oldest(store: Store) -> None:
    for started in range(records.KEPT_RUNS + 5):
        run = log(store, started, "r")
        run.add({"n": started})
        run.flush()
    told = [name for name in store.names(RUNS) if store.names(f"{RUNS}/{name}")]
    assert told == [f"{n:013d}-r" for n in range(5, records.KEPT_RUNS + 5)]


def test_runs_of_other_jobs_are_not_pruned(store: Store) -> None:
    other = RunLog(store, "other", 0, "r")
    other.add({"n": 0})
    other.flush()
    for started in range(records.KEPT_RUNS + 1):
        log(store, started, "r").flush()
    assert numbers(store, ".holdfast/other/runs/0000000000000-r") == [0]


def test_a_pruned_run_leaves_nothing_on_disk(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for started in range(records.KEPT_RUNS + 3):
        log(store, started, "r").flush()
    assert len(store.names(RUNS)) == records.KEPT_RUNS


def test_a_storage_that_lets_nothing_be_deleted_gets_no_endless_segment() -> None:
    store = Failing("delete")
    for started in range(records.KEPT_RUNS):
        log(store, started, "r").flush()
    early = log(store, records.KEPT_RUNS, "r")
    with pytest.raises(StorageUnavailable):
        early.flush()
    for n in range(3):
        early.add({"n": n})
        early.flush()
    assert store.names(f"{RUNS}/{records.KEPT_RUNS:013d}-r") == ("000000.jsonl", "000001.jsonl")


def test_events_from_many_threads_arrive_in_the_order_of_each(store: Store) -> None:
    recorder = Recorder(flush_seconds=0.05)
    runs = [log(store, 7, f"run{n}") for n in range(4)]

    def tell(run: RunLog) -> None:
        for n in range(200):
            recorder.submit(adding(run, n))

    threads = [threading.Thread(target=tell, args=(run,)) for run in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    for n in range(4):
        assert numbers(store, f"{RUNS}/0000000000007-run{n}") == list(range(200))


def adding(run: RunLog, n: int) -> Callable[[], RunLog]:
    def task() -> RunLog:
        run.add({"n": n})
        return run

    return task


def test_events_are_written_soon_without_a_close(store: Store) -> None:
    recorder = Recorder(flush_seconds=0.05)
    recorder.submit(adding(log(store), 0))
    assert eventually(lambda: store.names(RUN) == ("000000.jsonl",))
    recorder.close()
    assert numbers(store) == [0]


def test_close_writes_what_is_there_and_ends(store: Store) -> None:
    recorder = Recorder(flush_seconds=3_600)
    run = log(store)
    for n in range(100):
        recorder.submit(adding(run, n))
    before = time.monotonic()
    recorder.close()
    assert time.monotonic() - before < 4
    assert numbers(store) == list(range(100))
    recorder.submit(adding(run, 100))
    recorder.close()
    assert numbers(store) == list(range(100))


@pytest.mark.parametrize("verbs", [("write",), ("names",), ("write", "names", "delete", "read")])
def test_storage_that_fails_stops_nothing(verbs: tuple[str, ...]) -> None:
    store = Failing(*verbs)
    recorder = Recorder(flush_seconds=0.02)
    run = log(store)
    for n in range(3):
        recorder.submit(adding(run, n))
        time.sleep(0.05)
    store.verbs.clear()
    recorder.submit(adding(run, 3))
    recorder.close()
    assert numbers(store)[-1] == 3


def test_a_task_that_fails_stops_no_other(store: Store) -> None:
    recorder = Recorder(flush_seconds=0.02)
    run = log(store)

    def broken() -> RunLog:
        raise RuntimeError

    recorder.submit(broken)
    recorder.submit(lambda: None)
    recorder.submit(adding(run, 0))
    recorder.close()
    assert numbers(store) == [0]


def test_what_cannot_be_written_is_dropped_in_the_end() -> None:
    store = Failing("write")
    run = log(store)
    filler = "x" * records.SEGMENT_BYTES
    for n in range(20):
        run.add({"n": n, "filler": filler})
        with pytest.raises(StorageUnavailable):
            run.flush()
    store.verbs.clear()
    run.flush()
    held = sum(len(read(store, f"{RUN}/{name}")) for name in store.names(RUN))
    assert held < 4 * records.SEGMENT_BYTES
