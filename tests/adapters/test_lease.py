"""One live driver a job: acquired once, kept by heartbeats, taken over when its driver is gone."""

# ruff: noqa: D102  a fake says what it does by what it stands for

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.decode import lease as lease_format
from holdfast.errors import DriverFenced, LeaseHeld
from holdfast.gather.history import processes
from holdfast.model.ids import Epoch, JobName
from holdfast.model.lease import Holder, Lease
from holdfast.run.session import clock
from holdfast.run.start import lease
from holdfast.storage import Missing, Store, open_store

JOB = JobName("ingest")
FOLDER = f".holdfast/{JOB}/lease"
ABROAD = Holder(host="elsewhere", pid=1, process="")
ACQUIRE = """
import sys, time
from holdfast.errors import DriverFenced, LeaseHeld
from holdfast.model.ids import Epoch, JobName
from holdfast.run.start import lease
from holdfast.storage import open_store
store = open_store(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
try:
    print(lease.acquire(store, JobName("ingest"), above=Epoch(0)).epoch, flush=True)
except LeaseHeld:
    print("held", flush=True)
sys.stdin.readline()
"""


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store("memory://" if request.param == "memory" else str(tmp_path))


def put(store: Store, epoch: int, **changes: object) -> Lease:
    now = clock.now_ms()
    held = Lease(
        job=JOB,
        epoch=Epoch(epoch),
        holder=ABROAD,
        since_ms=now - 90_000,
        heartbeat_ms=now - 2_000,
        ttl_ms=30_000,
        released=False,
    )
    held = replace(held, **changes)  # type: ignore[arg-type]
    store.write(f"{FOLDER}/{epoch:012d}.json", lease_format.encode(held))
    return held


def read(store: Store, epoch: int) -> Lease:
    data = store.read(f"{FOLDER}/{epoch:012d}.json")
    assert not isinstance(data, Missing)
    found = lease_format.decode(data)
    assert isinstance(found, Lease)
    return found


def acquire(store: Store, above: int = 0) -> Lease:
    return lease.acquire(store, JOB, above=Epoch(above))


def until(done: threading.Event, seconds: float = 10) -> None:
    assert done.wait(seconds)


def test_the_first_lease(store: Store) -> None:
    before = clock.now_ms()
    got = acquire(store)
    assert got == read(store, 1)
    assert got == Lease(
        job=JOB,
        epoch=Epoch(1),
        holder=processes.get_current(),
        since_ms=got.since_ms,
        heartbeat_ms=got.since_ms,
        ttl_ms=lease.TTL_MS,
        released=False,
        token=got.token,
    )
    assert len(got.token) == 16
    assert before <= got.since_ms <= clock.now_ms()
    assert got.holder.pid == os.getpid()
    assert got.holder.host == socket.gethostname()


def test_a_second_driver_is_told_who_has_it_and_since_when(store: Store) -> None:
    put(store, 4)
    with pytest.raises(LeaseHeld) as refused:
        acquire(store)
    said = refused.value.message
    assert "job `ingest`" in said
    assert "process 1 on host `elsewhere`" in said
    assert re.search(r"held the lease for 9\d s \(epoch 4\)", said)
    assert re.search(r"heartbeat was [234] s ago", said)
    assert store.names(FOLDER) == ("000000000004.json",)


def test_waiting_as_long_as_the_hint_says_frees_the_lease(store: Store) -> None:
    put(store, 4, heartbeat_ms=clock.now_ms() + 500, ttl_ms=1_000)  # a clock a little ahead
    with pytest.raises(LeaseHeld, match="heartbeat was 0 s ago") as refused:
        acquire(store)
    found = re.search(r"free in (\d+) s", refused.value.hint)
    assert found is not None
    time.sleep(int(found[1]))
    assert acquire(store).epoch == 5


def test_a_heartbeat_from_the_future_holds_no_lease_for_good(store: Store) -> None:
    tomorrow = clock.now_ms() + 86_400_000
    put(store, 4, since_ms=tomorrow, heartbeat_ms=tomorrow, ttl_ms=600)
    assert acquire(store).epoch == 5


def test_a_driver_whose_clock_is_ahead_keeps_its_lease_while_it_lives(store: Store) -> None:
    tomorrow, done = clock.now_ms() + 86_400_000, threading.Event()
    put(store, 4, since_ms=tomorrow, heartbeat_ms=tomorrow, ttl_ms=2_000)

    def beat() -> None:
        number = 0
        while not done.wait(0.1):
            number += 1
            put(store, 4, since_ms=tomorrow, heartbeat_ms=tomorrow + number, ttl_ms=2_000)

    live = threading.Thread(target=beat)
    live.start()
    try:
        with pytest.raises(LeaseHeld, match=r"Its clock is 86[34]\d\d s ahead"):
            acquire(store)
    finally:
        done.set()
        live.join()
    assert acquire(store).epoch == 5  # as the hint says: stop that driver, then start again


def test_this_process_itself_is_refused_a_second_one(store: Store) -> None:
    acquire(store)
    with pytest.raises(LeaseHeld, match=f"this process .process {os.getpid()} ") as refused:
        acquire(store)
    assert "stop the query" in refused.value.hint


@pytest.mark.parametrize(
    "changes", [{"heartbeat_ms": 0}, {"released": True}], ids=["expired", "released"]
)
def test_a_lease_that_ended_is_followed_by_the_next_epoch(
    store: Store, changes: dict[str, object]
) -> None:
    old = put(store, 7, **changes)
    assert acquire(store).epoch == 8
    assert read(store, 7) == old


def test_two_jobs_do_not_mind_each_other(store: Store) -> None:
    acquire(store)
    assert lease.acquire(store, JobName("other"), above=Epoch(0)).epoch == 1


def test_the_epoch_is_above_that_of_the_sinks(store: Store) -> None:
    put(store, 3, released=True)
    assert acquire(store, above=41).epoch == 42


def test_lost_records_do_not_bring_back_an_epoch(store: Store) -> None:
    assert acquire(store, above=5).epoch == 6


def test_old_leases_are_pruned_and_the_newest_kept(store: Store) -> None:
    for epoch in range(1, 20):
        put(store, epoch, released=True)
    assert acquire(store).epoch == 20
    assert store.names(FOLDER) == tuple(f"{epoch:012d}.json" for epoch in range(15, 21))


def test_garbage_in_the_folder_stops_nobody(store: Store) -> None:
    for name in ("notes.txt", ".json", "x.json", "-3.json", "1e3.json", "000000000002.json.tmp"):
        store.write(f"{FOLDER}/{name}", b"\xff\x00")
    store.write(f"{FOLDER}/000000000009.json", b"{torn")
    assert acquire(store).epoch == 10


def test_a_number_that_no_driver_can_have_is_no_epoch(store: Store) -> None:
    """Delta's transaction versions have room for 2^23 epochs; a stray file must not use them up."""
    store.write(f"{FOLDER}/99999999999999999999.json", b"")
    assert acquire(store).epoch == 1


class Interrupted:
    """Storage on which something else happens just before a name is created."""

    def __init__(self, under: Store, meanwhile: "list[tuple[str, bytes]]") -> None:
        self._under = under
        self._meanwhile = meanwhile

    def read(self, path: str, *, last: int | None = None) -> bytes | Missing:
        return self._under.read(path, last=last)

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        while create and self._meanwhile:
            self._under.write(*self._meanwhile.pop())
        return self._under.write(path, data, create=create)

    def names(self, folder: str) -> tuple[str, ...]:
        return self._under.names(folder)

    def delete(self, path: str) -> None:
        self._under.delete(path)


def test_a_driver_that_comes_in_between_with_a_higher_epoch_has_the_lease(store: Store) -> None:
    """It knew of a higher epoch in a sink, so that the two created different names."""
    other = put(store, 9)
    store.delete(f"{FOLDER}/000000000009.json")
    late = Interrupted(store, [(f"{FOLDER}/000000000009.json", lease_format.encode(other))])
    with pytest.raises(LeaseHeld, match=r"epoch 9"):
        acquire(late)


def spawn(base: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", ACQUIRE, str(base)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.fixture
def drivers(
    tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[list[subprocess.Popen[str]]]:
    processes = [spawn(tmp_path) for _ in range(request.param)]
    for process in processes:
        assert answer(process) == "ready"
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("drivers", [8], indirect=True)
def test_of_eight_processes_one_wins(drivers: list[subprocess.Popen[str]]) -> None:
    for driver in drivers:
        go(driver)
    assert sorted(answer(driver) for driver in drivers) == ["1"] + ["held"] * 7


@pytest.mark.parametrize("drivers", [1], indirect=True)
def test_the_lease_of_a_killed_process_is_free_at_once(
    drivers: list[subprocess.Popen[str]], tmp_path: Path
) -> None:
    go(drivers[0])
    assert answer(drivers[0]) == "1"
    store = open_store(str(tmp_path))
    with pytest.raises(LeaseHeld, match=f"process {drivers[0].pid} "):
        acquire(store)
    drivers[0].send_signal(signal.SIGKILL)
    drivers[0].wait()
    assert acquire(store).epoch == 2


def test_a_keeper_keeps_a_short_lease_alive_and_gives_it_up(store: Store) -> None:
    lost: list[Lease] = []
    keeper = lease.Keeper(store, lost.append)
    got = lease.acquire(store, JOB, above=Epoch(0), ttl_ms=300)
    keeper.keep(got)
    time.sleep(0.9)
    with pytest.raises(LeaseHeld):
        acquire(store)
    assert read(store, 1).heartbeat_ms > got.heartbeat_ms + 300
    keeper.close()
    assert read(store, 1).released
    assert acquire(store).epoch == 2
    assert lost == []


def test_a_keeper_tells_of_a_higher_epoch_and_leaves_it_alone(store: Store) -> None:
    told = threading.Event()
    lost: list[Lease] = []

    def tell(gone: Lease) -> None:
        lost.append(gone)
        told.set()

    keeper = lease.Keeper(store, tell)
    got = lease.acquire(store, JOB, above=Epoch(0), ttl_ms=150)
    keeper.keep(got)
    other = put(store, 2)
    until(told)
    keeper.close()
    assert lost == [got]
    assert read(store, 2) == other
    assert not read(store, 1).released


def test_a_listener_that_fails_does_not_end_the_other_heartbeats(store: Store) -> None:
    told = threading.Event()

    def fail(_: Lease) -> None:
        told.set()
        raise RuntimeError

    keeper = lease.Keeper(store, fail)
    other = lease.acquire(store, JobName("other"), above=Epoch(0), ttl_ms=150)
    keeper.keep(other)
    keeper.keep(lease.acquire(store, JOB, above=Epoch(0), ttl_ms=150))
    put(store, 2)
    until(told)
    time.sleep(0.5)
    with pytest.raises(LeaseHeld):
        lease.acquire(store, JobName("other"), above=Epoch(0))
    keeper.close()


class Slow(Interrupted):
    """Storage on which a heartbeat takes so long that the lease is given up meanwhile."""

    def __init__(self, under: Store) -> None:
        super().__init__(under, [])
        self.beating = threading.Event()
        self.go_on = threading.Event()

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        if not create and b'"released":false' in data:
            self.beating.set()
            self.go_on.wait(1)
        return super().write(path, data, create=create)


def test_a_heartbeat_under_way_does_not_take_back_a_release(store: Store) -> None:
    slow = Slow(store)
    keeper = lease.Keeper(slow, print)
    keeper.keep(lease.acquire(slow, JOB, above=Epoch(0), ttl_ms=150))
    until(slow.beating)
    closing = threading.Thread(target=keeper.close)
    closing.start()
    time.sleep(0.2)
    slow.go_on.set()
    closing.join()
    time.sleep(0.3)
    assert read(store, 1).released


def test_an_epoch_is_raised_above_a_ledgers_without_a_rival(store: Store) -> None:
    """The records were lost, and a ledger that is read later knows a higher epoch."""
    lost: list[Lease] = []
    held = lease.acquire(store, JOB, above=Epoch(0), ttl_ms=60)
    keeper = lease.Keeper(store, lost.append)
    keeper.keep(held)
    raised = keeper.raise_epoch(JOB, above=Epoch(7))
    assert raised.epoch == 8
    time.sleep(0.2)  # some heartbeats
    assert not lost
    beaten = lease_format.decode(store.read(f"{FOLDER}/{8:012d}.json"))  # type: ignore[arg-type]
    assert isinstance(beaten, Lease)
    assert beaten.heartbeat_ms > raised.heartbeat_ms
    keeper.close()
    assert lease.acquire(store, JOB, above=Epoch(0)).epoch == 9


def test_an_epoch_is_not_raised_when_a_newer_driver_has_the_lease(store: Store) -> None:
    held = lease.acquire(store, JOB, above=Epoch(0))
    put(store, 3)
    with pytest.raises(DriverFenced):
        lease.raise_epoch(store, held, above=Epoch(7))
    keeper = lease.Keeper(store, lambda _: None)
    with pytest.raises(DriverFenced):
        keeper.raise_epoch(JOB, above=Epoch(7))
