"""Creating a name once: servers that cannot are refused, and a lost answer locks nobody out."""

# ruff: noqa: D102  a fake says what it does by what it stands for

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.adapters.delta_driving import Driver, rows
from tests.adapters.remotes import remote
from tests.adapters.test_delta_merge import Merging
from tests.s3_front import Fault, S3Front
from tests.servers import S3Server

from holdfast.decode import lease as lease_format
from holdfast.errors import CreateNotExclusive, LeaseHeld, StorageUnavailable
from holdfast.gather.history import processes
from holdfast.model.ids import Epoch, Generation, JobName
from holdfast.model.lease import Lease
from holdfast.run.session import clock
from holdfast.run.start import lease, locations
from holdfast.sinks.contract import Decision
from holdfast.storage import Missing, Store, exclusive, open_store

JOB = JobName("ingest")
PROVE = (pytest.mark.prove, pytest.mark.timeout(900))
BUCKET = "s3://a-bucket/base"


class Faulty:
    """Storage that answers a create wrongly."""

    def __init__(self, answer: Callable[[Store, str, bytes], bool], times: int = 100) -> None:
        self._under = open_store("memory://")
        self._answer = answer
        self._left = times

    def read(self, path: str, *, last: int | None = None) -> bytes | Missing:
        return self._under.read(path, last=last)

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        if create and self._left:
            self._left -= 1
            return self._answer(self._under, path, data)
        return self._under.write(path, data, create=create)

    def names(self, folder: str) -> tuple[str, ...]:
        return self._under.names(folder)

    def delete(self, path: str) -> None:
        self._under.delete(path)


def overwrite(store: Store, path: str, data: bytes) -> bool:
    return store.write(path, data)


def refuse_all(_: Store, path: str, __: bytes) -> bool:
    raise StorageUnavailable(f"`{path}`: the server answered with `501 Not Implemented`", hint="")


def lose_and_try_again(store: Store, path: str, data: bytes) -> bool:
    return not store.write(path, data, create=True)


def lose_and_raise(store: Store, path: str, data: bytes) -> bool:
    store.write(path, data, create=True)
    raise StorageUnavailable("the connection was cut", hint="")


@pytest.mark.parametrize("defect", [overwrite, refuse_all])
def test_a_store_on_which_a_name_can_be_created_twice_is_refused(
    defect: Callable[[Store, str, bytes], bool],
) -> None:
    store = Faulty(defect)
    for _ in range(2):  # a refusal is not remembered as a proof
        with pytest.raises(CreateNotExclusive, match="`If-None-Match") as refused:
            exclusive.require(BUCKET, {"key": defect.__name__}, store)
        assert BUCKET in refused.value.message
        assert store.names("") == ()


def test_a_store_that_does_not_answer_is_not_called_defective() -> None:
    def cut(_: Store, path: str, __: bytes) -> bool:
        raise StorageUnavailable(f"`s3://b501/{path}`: timed out", hint="")

    with pytest.raises(StorageUnavailable, match="timed out"):
        exclusive.require(BUCKET, {"key": "cut"}, Faulty(cut))


def test_a_sound_store_is_asked_once_also_if_an_answer_is_lost() -> None:
    store = Faulty(lose_and_try_again, times=1)
    exclusive.require(BUCKET, {"key": "sound"}, store)
    assert store.names("") == ()
    exclusive.require(f"{BUCKET}/deeper", {"key": "sound"}, Faulty(overwrite))


@pytest.mark.parametrize("fault", [lose_and_try_again, lose_and_raise])
def test_a_driver_has_the_lease_that_it_created_though_the_answer_was_lost(
    fault: Callable[[Store, str, bytes], bool],
) -> None:
    store = Faulty(fault, times=1)
    got = lease.acquire(store, JOB, above=Epoch(0))
    assert got.epoch == 1
    with pytest.raises(LeaseHeld, match="this process"):
        lease.acquire(store, JOB, above=Epoch(0))


def test_a_lease_of_this_process_that_nobody_keeps_is_taken_over() -> None:
    """Its creation was carried out later than its driver could look, and the driver gave up."""
    store = open_store("memory://")
    now = clock.now_ms()
    late = Lease(
        job=JOB, epoch=Epoch(4), holder=processes.get_current(), since_ms=now, heartbeat_ms=now,
        ttl_ms=30_000, released=False, token="of-a-start-that-failed",
    )  # fmt: skip
    path = f".holdfast/{JOB}/lease/000000000004.json"
    store.write(path, lease_format.encode(late))
    assert lease.acquire(store, JOB, above=Epoch(0)).epoch == 5
    other = replace(late, holder=replace(late.holder, host="elsewhere"), epoch=Epoch(9))
    store.write(path.replace("4", "9"), lease_format.encode(other))
    with pytest.raises(LeaseHeld, match="elsewhere"):
        lease.acquire(store, JOB, above=Epoch(0))


class Unlisted(Faulty):
    """Storage that fails right after a name was created."""

    def __init__(self) -> None:
        super().__init__(overwrite, times=0)
        self.created = False
        self.broken = True

    def write(self, path: str, data: bytes, *, create: bool = False) -> bool:
        self.created = self.created or create
        return super().write(path, data, create=create)

    def names(self, folder: str) -> tuple[str, ...]:
        if self.created and self.broken:
            self.broken = False
            raise StorageUnavailable("timed out", hint="")
        return super().names(folder)


def test_a_failed_start_leaves_no_lease() -> None:
    store = Unlisted()
    with pytest.raises(StorageUnavailable):
        lease.acquire(store, JOB, above=Epoch(0))
    assert store.names(f".holdfast/{JOB}/lease") == ()


@pytest.mark.parametrize(
    "fault", [pytest.param(f, marks=PROVE) for f in (Fault.OVERWRITE, Fault.NOT_IMPLEMENTED)]
)
def test_an_s3_server_without_conditional_puts_is_refused(s3: S3Server, fault: Fault) -> None:
    url, _ = remote(s3, "base")
    with S3Front(s3, fault, "PUT", times=10_000) as front:
        with pytest.raises(CreateNotExclusive, match="If-None-Match"):
            locations.open_base(url, "p", (), front.storage, dev=False)
        assert open_store(url, s3.storage).names("") == ()
        with pytest.raises(CreateNotExclusive, match="If-None-Match"):
            Driver(url, options=front.storage).start()
    assert open_store(url, s3.storage).names("") == ()
    options = {**s3.storage, "aws_conditional_put": "disabled"}
    with pytest.raises(CreateNotExclusive, match="refuses conditional uploads") as told:
        locations.open_base(url, "p", (), options, dev=False)
    assert "remove `aws_conditional_put` from the storage options" in told.value.hint
    del options["aws_conditional_put"]
    assert locations.open_base(url, "p", (), options, dev=False).url == url


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_sound_s3_server_is_asked_by_three_requests(s3: S3Server) -> None:
    url, _ = remote(s3, "base")
    with S3Front(s3, Fault.LOSE_ANSWER, "nothing") as front:
        store = open_store(url, front.storage)
        for _ in range(2):
            exclusive.require(url, front.storage, store)
        assert [one.split()[0] for one in front.seen] == ["PUT", "PUT", "POST"]
    assert store is not None
    assert open_store(url, s3.storage).names("") == ()


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_lost_answers_to_a_lease(s3: S3Server) -> None:
    url, _ = remote(s3, "base")
    with S3Front(s3, Fault.LOSE_ANSWER, r"PUT .*/lease/") as front:
        store = open_store(url, front.storage)
        got = lease.acquire(store, JOB, above=Epoch(0), ttl_ms=900)
        assert (got.epoch, len(front.hit)) == (1, 1)
        lost: list[Lease] = []
        keeper = lease.Keeper(store, lost.append)
        front.strike_again()
        keeper.keep(got)
        time.sleep(1.5)  # a heartbeat or two
        assert len(front.hit) == 2
        with pytest.raises(LeaseHeld):
            lease.acquire(store, JOB, above=Epoch(0))
        front.strike_again()
        keeper.close()
        assert len(front.hit) == 3
        assert lost == []
        assert lease.acquire(store, JOB, above=Epoch(0)).epoch == 2


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_lost_answer_to_the_identity_of_a_job(s3: S3Server) -> None:
    url, _ = remote(s3, "base")
    with S3Front(s3, Fault.LOSE_ANSWER, r"PUT .*/job\.json") as front:
        known = locations.Identity(location=f"{url}/{JOB}", generation=Generation(2))
        store = open_store(url, front.storage)
        locations.record_identity(store, JOB, known)
        assert len(front.hit) == 1
        assert locations.read_identity(store, JOB) == known


@pytest.mark.prove
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_lost_answer_to_a_commit_of_a_delta_table(s3: S3Server, version: int) -> None:
    """Of its creation, of the fence of a second driver, and of a batch."""
    url, _ = remote(s3, "table")
    with S3Front(s3, Fault.LOSE_ANSWER, rf"PUT .*_delta_log/0*{version}\.json") as front:
        Driver(url, options=front.storage).start()
        driver = Driver(url, epoch=2, options=front.storage).start()
        assert driver.process(0) is Decision.WRITE
        assert driver.process(1) is Decision.WRITE
        assert len(front.hit) == 1
    assert rows(url, s3.storage) == [(0, "j"), (1, "j")]


@pytest.mark.prove
@pytest.mark.timeout(900)
def test_a_lost_answer_to_a_merge(s3: S3Server) -> None:
    url, _ = remote(s3, "table")
    with S3Front(s3, Fault.LOSE_ANSWER, r"PUT .*_delta_log/0*1\.json") as front:
        merging = Merging(url, options=front.storage)
        merging.write(0, ("a", 1, "first"))
        assert len(front.hit) == 1
        assert merging.write(0, ("a", 1, "first")) is Decision.SKIP
        assert merging.write(1, ("a", 2, "second")) is Decision.WRITE
        table = merging.sink._ledgered.current().to_pyarrow_table()  # noqa: SLF001
    assert table.to_pylist() == [{"key": "a", "at": 2, "value": "second"}]


def test_local_storage_creates_a_name_once_and_is_not_probed(tmp_path: Path) -> None:
    locations.open_base(str(tmp_path), "p", (), {}, dev=True)
    assert list(tmp_path.iterdir()) == []
