"""One live driver per job.

Every driver takes the next epoch by creating a file that must not exist yet:

    .holdfast/<job>/lease/000000000007.json

Creating is the only step that needs to be atomic, and every storage can do it: of two drivers
that want epoch 8, one gets it. A driver only ever rewrites the file of its own epoch, with its
heartbeat, so that there is nothing to compare and swap. Who has the highest epoch has the lease,
until the heartbeat is too old, the lease is released, or its process is known to be dead. A
heartbeat that is far in the future comes from a clock that is ahead: it counts only if it changes
while it is watched.

Every acquisition has a token of its own. By it a driver recognises a lease that it created by a
put whose answer was lost, and a process recognises a lease that it took and no longer keeps.

The lease is politeness. That an old driver that wakes up writes nothing is the sinks' part: they
check the epoch in the same atomic step as the write.
"""

import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace

from holdfast.decode import lease as lease_format
from holdfast.errors import DriverFenced, LeaseHeld, StorageUnavailable
from holdfast.gather.history import processes
from holdfast.model.fact import Unreadable
from holdfast.model.ids import Epoch, JobName
from holdfast.model.lease import Lease
from holdfast.run.session import clock
from holdfast.storage import Missing, Store, exclusive

TTL_MS = 30_000
_BEATS_A_TTL = 3
_KEPT = 5
_WATCH_SECONDS = 1.0
_MOST = 1 << 23  # what a Delta ledger has room for

# Tokens of the leases that this process has: acquired, and neither released nor lost.
_own: set[str] = set()


def acquire(store: Store, job: JobName, *, above: Epoch, ttl_ms: int = TTL_MS) -> Lease:
    """The lease with the next epoch, higher than `above`; raises LeaseHeld if a driver lives."""
    epochs = _list_epochs(store, job)
    if epochs:
        _refuse_if_held(store, job, epochs[-1])
    now = clock.now_ms()
    lease = Lease(
        job=job,
        epoch=Epoch(max(above, epochs[-1] if epochs else 0) + 1),
        holder=processes.get_current(),
        since_ms=now,
        heartbeat_ms=now,
        ttl_ms=ttl_ms,
        released=False,
        token=secrets.token_hex(8),
    )
    _own.add(lease.token)  # before the file is there: another thread must not think it forgotten
    try:
        created = _create(store, lease)
    except BaseException:
        _own.discard(lease.token)
        raise
    if not created:
        _own.discard(lease.token)
        return acquire(store, job, above=max(above, lease.epoch), ttl_ms=ttl_ms)
    for old in epochs[:-_KEPT]:
        with contextlib.suppress(StorageUnavailable):
            store.delete(f"{_format_folder(job)}/{old:012d}.json")
    return lease


def _create(store: Store, lease: Lease) -> bool:
    """Create the file of a lease; False if another driver came first and is gone by now."""
    if not exclusive.create(store, _format_path(lease), lease_format.encode(lease)):
        _refuse_if_held(store, lease.job, lease.epoch)
        return False
    try:
        newest = max(_list_epochs(store, lease.job), default=lease.epoch)
        if newest == lease.epoch:
            return True
        # A driver that knew of a higher epoch came in between.
        _refuse_if_held(store, lease.job, newest)
    except BaseException:
        _remove(store, lease)
        raise
    _remove(store, lease)
    return False


def _remove(store: Store, lease: Lease) -> None:
    """Leave no lease behind that nobody keeps; where that fails, it expires."""
    with contextlib.suppress(StorageUnavailable):
        store.delete(_format_path(lease))


def raise_epoch(store: Store, held: Lease, *, above: Epoch) -> Lease:
    """Return the lease with a higher epoch than a ledger has; raises DriverFenced if it is lost.

    The ledger knows a higher epoch where the records were lost. As long as this driver's lease is
    the newest, nobody else can take one, so that the new file has no rival but a driver that lived
    through the loss of the records.
    """
    now = clock.now_ms()
    fresh = replace(held, epoch=Epoch(above + 1), since_ms=now, heartbeat_ms=now)
    newest = max(_list_epochs(store, held.job), default=held.epoch)
    data = lease_format.encode(fresh)
    if newest <= held.epoch and exclusive.create(store, _format_path(fresh), data):
        return fresh
    raise _make_fenced_error(held.job)


def _make_fenced_error(job: JobName) -> DriverFenced:
    return DriverFenced(
        f"cannot write for job `{job}`: another driver took the lease after this one",
        hint="let this process end; the job runs elsewhere",
    )


def _refuse_if_held(store: Store, job: JobName, epoch: Epoch) -> None:
    lease = _read(store, job, epoch)
    if lease is None or lease.is_expired(clock.now_ms()):
        return
    if processes.is_dead(lease.holder) or _is_forgotten(lease):
        return
    now = clock.now_ms()
    age = (now - lease.since_ms) // 1000
    if lease.token in _own:
        raise LeaseHeld(
            f"this process (process {lease.holder.pid} on host `{lease.holder.host}`) already runs"
            f" job `{job}`: it has held the lease for {age} s (epoch {epoch})",
            hint="stop the query that this process runs for the job, then start again",
        )
    if lease.heartbeat_ms - now > lease.ttl_ms:
        _refuse_if_beating(store, lease, ahead=(lease.heartbeat_ms - now) // 1000)
        return
    left = (lease.heartbeat_ms + lease.ttl_ms - now) // 1000 + 1
    raise LeaseHeld(
        f"another driver runs job `{job}`: process {lease.holder.pid} on host"
        f" `{lease.holder.host}` has held the lease for {age} s (epoch {epoch}), and its last"
        f" heartbeat was {max(0, now - lease.heartbeat_ms) // 1000} s ago",
        hint=f"stop that driver, or wait: without another heartbeat the lease is free in {left} s",
    )


def _refuse_if_beating(store: Store, lease: Lease, *, ahead: int) -> None:
    """Watch a lease whose heartbeat is in the future; raise if its driver is alive.

    The clock of its host is ahead of ours, or one of both was set. Its time says nothing, but a
    driver that lives writes a heartbeat.
    """
    ends = time.monotonic() + lease.ttl_ms / 1000
    while time.monotonic() < ends:
        time.sleep(min(_WATCH_SECONDS, lease.ttl_ms / 1000 / _BEATS_A_TTL))
        found = _read(store, lease.job, lease.epoch)
        if found is None or found.released:
            return
        if found.heartbeat_ms != lease.heartbeat_ms:
            raise LeaseHeld(
                f"another driver runs job `{lease.job}`: process {lease.holder.pid} on host"
                f" `{lease.holder.host}` holds the lease (epoch {lease.epoch}) and has just sent a"
                f" heartbeat. Its clock is {ahead} s ahead of the clock here",
                hint="stop that driver, then start again; and set the clocks of both hosts",
            )


def _read(store: Store, job: JobName, epoch: Epoch) -> Lease | None:
    """Return the lease of an epoch; None where it is gone or cannot be read."""
    data = store.read(f"{_format_folder(job)}/{epoch:012d}.json")
    found = None if isinstance(data, Missing) else lease_format.decode(data)
    return None if isinstance(found, Unreadable) else found


def _is_forgotten(lease: Lease) -> bool:
    """Whether this very process took the lease and does not keep it any more.

    The answer to its creation or to its release was lost; nobody will give it up.
    """
    mine = processes.get_current()
    return bool(lease.token and mine.process) and lease.holder == mine and lease.token not in _own


def _list_epochs(store: Store, job: JobName) -> list[Epoch]:
    numbers = [name.removesuffix(".json") for name in store.names(_format_folder(job))]
    return sorted(
        Epoch(int(number)) for number in numbers if number.isdecimal() and int(number) < _MOST
    )


def _format_folder(job: JobName) -> str:
    return f".holdfast/{job}/lease"


def _format_path(lease: Lease) -> str:
    return f"{_format_folder(lease.job)}/{lease.epoch:012d}.json"


class Keeper:
    """Keeps leases alive by heartbeats from one thread, and tells when one is lost."""

    def __init__(self, store: Store, lost: Callable[[Lease], None]) -> None:
        self._store = store
        self._lost = lost
        self._leases: dict[JobName, Lease] = {}
        self._guard = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-lease", daemon=True)

    def keep(self, lease: Lease) -> None:
        """Begin to keep a lease."""
        with self._guard:
            self._leases[lease.job] = lease
        if not self._thread.is_alive():
            self._thread.start()

    def raise_epoch(self, job: JobName, *, above: Epoch) -> Lease:
        """Replace a lease by one with a higher epoch, and keep that."""
        with self._guard:  # a heartbeat in between would take the new epoch for a rival's
            held = self._leases.get(job)
            if held is None:
                raise _make_fenced_error(job)
            fresh = raise_epoch(self._store, held, above=above)
            self._leases[job] = fresh
        return fresh

    def release(self, job: JobName) -> None:
        """Give a lease up, so that the next driver need not wait."""
        with self._guard:
            lease = self._leases.pop(job, None)
            if lease is not None:  # under the guard: a heartbeat must not come after it
                self._write(replace(lease, released=True))
                _own.discard(lease.token)

    def end(self) -> None:
        """End the thread and give nothing up: another keeper goes on."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def close(self) -> None:
        """Give all leases up and end the thread."""
        self._stop.set()
        with self._guard:
            jobs = list(self._leases)
        for job in jobs:
            self.release(job)

    def _run(self) -> None:
        while not self._stop.wait(self._pause()):
            with self._guard:
                leases = list(self._leases.values())
            for lease in leases:
                self._beat(lease)

    def _pause(self) -> float:
        with self._guard:
            shortest = min((lease.ttl_ms for lease in self._leases.values()), default=TTL_MS)
        return shortest / 1000 / _BEATS_A_TTL

    def _beat(self, lease: Lease) -> None:
        try:
            newest = max(_list_epochs(self._store, lease.job), default=lease.epoch)
        except StorageUnavailable:
            return  # without its records a stream goes on; the sinks' fence holds
        if newest > lease.epoch:
            with self._guard:
                if self._leases.get(lease.job) != lease:  # this driver has raised its own epoch
                    return
                self._leases.pop(lease.job, None)
            _own.discard(lease.token)
            with contextlib.suppress(Exception):  # the other leases need their heartbeats
                self._lost(lease)
            return
        with self._guard:
            if self._leases.get(lease.job) == lease:
                self._write(replace(lease, heartbeat_ms=clock.now_ms()))

    def _write(self, lease: Lease) -> None:
        try:
            self._store.write(_format_path(lease), lease_format.encode(lease))
        except StorageUnavailable:
            return
