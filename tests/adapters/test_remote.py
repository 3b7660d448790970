"""Leases and Delta tables on real S3 and HDFS and on emulated clouds, without Spark."""

import json
import subprocess
import sys
import threading
from collections.abc import Mapping

import pytest
from tests.adapters.delta_driving import Driver, rows, written
from tests.adapters.remotes import SERVERS, remote
from tests.adapters.test_delta_merge import Merging

from holdfast.errors import DriverFenced, LeaseHeld
from holdfast.model.ids import BatchId, Epoch, Generation, JobName
from holdfast.run.start import lease, locations
from holdfast.sinks.contract import Decision
from holdfast.storage import open_store

JOB = JobName("ingest")
ACQUIRE = """
import json, sys
from holdfast.errors import LeaseHeld
from holdfast.model.ids import Epoch, JobName
from holdfast.run.start import lease
from holdfast.storage import open_store
store = open_store(sys.argv[1], json.loads(sys.argv[2]))
print("ready", flush=True)
sys.stdin.readline()
try:
    print(lease.acquire(store, JobName("ingest"), above=Epoch(0)).epoch, flush=True)
except LeaseHeld:
    print("held", flush=True)
sys.stdin.readline()
"""
Place = tuple[str, Mapping[str, str]]


@pytest.fixture(params=SERVERS)
def place(request: pytest.FixtureRequest) -> Place:
    return remote(request.getfixturevalue(request.param), "a base ü")


@pytest.fixture(params=SERVERS)
def table(request: pytest.FixtureRequest) -> Place:
    # delta-rs on HDFS: plain letters
    folder = "a-table" if request.param == "hdfs" else "a table ü"
    return remote(request.getfixturevalue(request.param), folder)


def answer(process: subprocess.Popen[str], told: str = "") -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(told)
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_of_eight_processes_one_has_the_lease(place: Place) -> None:
    url, options = place
    command = [sys.executable, "-c", ACQUIRE, url, json.dumps(dict(options))]
    drivers = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    try:
        assert [answer(driver) for driver in drivers] == ["ready"] * 8
        for driver in drivers:
            assert driver.stdin is not None
            driver.stdin.write("\n")
            driver.stdin.flush()
        assert sorted(answer(driver) for driver in drivers) == ["1"] + ["held"] * 7
    finally:
        for driver in drivers:
            driver.kill()
            driver.communicate()


def test_a_lease_is_kept_and_given_up(place: Place) -> None:
    store = open_store(*place)
    keeper = lease.Keeper(store, print)
    keeper.keep(lease.acquire(store, JOB, above=Epoch(0), ttl_ms=2_000))
    threading.Event().wait(3)
    with pytest.raises(LeaseHeld):
        lease.acquire(store, JOB, above=Epoch(0))
    keeper.close()
    assert lease.acquire(store, JOB, above=Epoch(0)).epoch == 2


def test_the_identity_and_the_commit_log_are_read_back(place: Place) -> None:
    url, options = place
    base = locations.open_base(url, "p", (), options, dev=False)
    known = locations.Identity(location=base.location(JOB), generation=Generation(3))
    assert locations.read_identity(base.store, JOB) is None
    locations.record_identity(base.store, JOB, known)
    assert locations.read_identity(base.store, JOB) == known
    for batch in (8, 9, 10):
        base.store.write(f"{JOB}/commits/{batch}", b"v1\n{}")
    assert locations.find_last_committed(base.store, JOB) == BatchId(10)


def test_a_base_beside_the_recorded_one_is_noticed(place: Place) -> None:
    url, options = place
    parent = url.rpartition("/")[0]
    bases = [locations.open_base(f"{parent}/{n}", "p", (), options, dev=False) for n in "ab"]
    for base in bases:
        known = locations.Identity(location=base.location(JOB), generation=Generation(1))
        locations.record_identity(base.store, JOB, known)
    found = locations.find_records_beside(bases[1], JOB, options)
    assert list(found.values()) == [f"{parent}/a/{JOB}"]


def test_a_batch_is_appended_once_with_its_ledger(table: Place) -> None:
    url, options = table
    driver = Driver(url, options=options).start()
    assert driver.process(0) is Decision.WRITE
    assert driver.process(0) is Decision.SKIP
    assert driver.process(1) is Decision.WRITE
    assert rows(url, options) == [(0, "j"), (1, "j")]
    assert driver.table.last_written() == written(1)


def test_an_older_driver_appends_nothing_any_more(table: Place) -> None:
    url, options = table
    old = Driver(url, options=options).start()
    old.process(0)
    seen = old.table.log.head()
    new = Driver(url, epoch=2, options=options).start()
    with pytest.raises(DriverFenced):
        old.write(1, at=seen)
    new.process(1)
    with pytest.raises(DriverFenced):
        old.process(1)
    assert rows(url, options) == [(0, "j"), (1, "j")]


def test_drivers_of_four_jobs_lose_nothing_to_each_other(table: Place) -> None:
    url, options = table
    drivers = [Driver(url, job, options=options).start() for job in "abcd"]

    def process(driver: Driver) -> None:
        for number in range(5):
            driver.process(number)

    threads = [threading.Thread(target=process, args=(driver,)) for driver in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rows(url, options) == [(n, job) for job in "abcd" for n in range(5)]


def test_a_batch_is_merged_once_and_an_older_driver_not_at_all(table: Place) -> None:
    url, options = table
    old = Merging(url, options=options)
    assert old.write(0, ("a", 1, "first"), ("b", 1, "first")) is Decision.WRITE
    assert old.write(0, ("a", 1, "first"), ("b", 1, "first")) is Decision.SKIP
    new = Merging(url, epoch=2, options=options)
    with pytest.raises(DriverFenced):
        old.write(1, ("a", 2, "stale"))
    assert new.write(1, ("a", 0, "older"), ("b", 2, "newer"), ("c", 1, "more")) is Decision.WRITE
    found = new.sink._ledgered.current().to_pyarrow_table().to_pylist()  # noqa: SLF001
    assert sorted((row["key"], row["at"], row["value"]) for row in found) == [
        ("a", 1, "first"),
        ("b", 2, "newer"),
        ("c", 1, "more"),
    ]
